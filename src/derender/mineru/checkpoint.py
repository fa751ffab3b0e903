"""Loads a checkpoint folder's safetensors into the model, strictly, and without a second copy in memory.

The model is built on torch's meta device, so nothing is initialised at random; names and shapes are compared with the
files' headers before any tensor is read; then each tensor is mapped from its file and put on the device as it is. On
the CPU and in the file's own dtype the weights stay mapped: the operating system reads them when they are used. Does
not read tokenizers (prompts.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derender.errors import MissingExtraError, ModelError, UsageError
from derender.mineru.config import MineruConfig, read_config, read_json

if TYPE_CHECKING:
    import torch

    from derender.mineru.model import MineruModel

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
DTYPES = ("bfloat16", "float16", "float32")
DEVICES = ("cpu", "cuda", "mps")
_SHOWN = 4  # names in a message; the rest is counted


@dataclass(frozen=True)
class Placement:
    """Where and in which numbers the model computes. Both are chosen here once and never changed in silence."""

    device: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.device}, {self.dtype}"


def place(device: str | None = None, dtype: str | None = None) -> Placement:
    """What was asked for; without a device, cuda where torch sees one, else cpu; without a dtype, bfloat16 on cuda,
    float16 on mps and float32 on the cpu. Raises UsageError for a device that this machine has not, MissingExtraError
    without torch.
    """
    torch = _torch()
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in DEVICES:
        raise UsageError(f"unknown device {device!r}: use one of {', '.join(DEVICES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no CUDA device here; use --device cpu, or install torch for CUDA")
    if device == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps: torch finds no Apple GPU here; use --device cpu")
    if dtype is None:
        dtype = {"cuda": "bfloat16", "mps": "float16"}.get(device, "float32")
    if dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    return Placement(device, dtype)


def load_model(folder: Path, placement: Placement) -> MineruModel:
    """The model of a checkpoint folder, ready to compute. Raises ModelError for anything that does not fit exactly:
    files, tensors, shapes, or memory.
    """
    torch = _torch()
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder with a model")
    config = read_config(folder)
    files = weight_files(folder)
    model = _empty_model(config)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    owners = check_tensors(folder, files, wanted)
    _check_memory(config, placement, next(iter(owners.values())))
    dtype = getattr(torch, placement.dtype)
    try:
        _fill(model, owners, placement.device, dtype)
    except RuntimeError as error:
        from derender.mineru.runtime import out_of_memory

        if not out_of_memory(error):
            raise
        raise ModelError(_too_big(config, placement)) from None
    # The rotary frequencies of the vision transformer are no weights: on the meta device they have no values.
    with torch.device(placement.device):
        model.vision_model.rotary_pos_emb = type(model.vision_model.rotary_pos_emb)(model.vision_model.config)
    left = [name for name, value in [*model.named_parameters(), *model.named_buffers()] if value.is_meta]
    if left:
        raise ModelError(f"this version of transformers keeps {left[0]} outside of the weights: use derender[torch]'s")
    return model.eval()


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint: those its index names, or the only one. Raises ModelError when one is
    missing."""
    if (folder / INDEX).exists():
        mapping = read_json(folder / INDEX).get("weight_map")
        if not isinstance(mapping, dict) or not mapping:
            raise ModelError(f"{folder / INDEX} has no weight_map")
        names = sorted(set(mapping.values()))
    else:
        names = [SINGLE]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{folder} has no {_listed(missing)}; an interrupted download? derender models verify tells")
    return [folder / name for name in names]


def check_tensors(folder: Path, files: list[Path], wanted: dict[str, tuple[int, ...]]) -> dict[str, TensorHome]:
    """Where each tensor lies. Raises ModelError for a missing, unexpected, doubled or wrongly shaped one."""
    found: dict[str, TensorHome] = {}
    for path in files:
        with _open(path) as shard:
            for name in shard.keys():
                part = shard.get_slice(name)
                if name in found:
                    raise ModelError(f"{path.name}: {name} is also in {found[name].path.name}")
                found[name] = TensorHome(path, tuple(part.get_shape()), str(part.get_dtype()))
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise ModelError(f"{folder}: the weights lack {_listed(missing)}")
    unexpected = sorted(set(found) - set(wanted))
    if unexpected:
        raise ModelError(f"{folder}: the weights hold {_listed(unexpected)}, which this model has no place for")
    for name, home in found.items():
        if home.shape != wanted[name]:
            raise ModelError(
                f"{home.path.name}: {name} has shape {home.shape}, and config.json makes it {wanted[name]}"
            )
        if home.kind not in _KINDS:
            raise ModelError(f"{home.path.name}: {name} holds {home.kind}, not floating-point numbers")
    return found


@dataclass(frozen=True)
class TensorHome:
    """A tensor's file, shape, and kind of numbers (safetensors' name: BF16, F16, F32)."""

    path: Path
    shape: tuple[int, ...]
    kind: str


_KINDS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def _empty_model(config: MineruConfig) -> MineruModel:
    import torch

    from derender.mineru.model import MineruModel

    with torch.device("meta"):
        return MineruModel(config)


def _fill(model: MineruModel, owners: dict[str, TensorHome], device: str, dtype: torch.dtype) -> None:
    tensors: dict[str, Any] = {}
    for path in {home.path for home in owners.values()}:
        with _open(path) as shard:
            for name, home in owners.items():
                if home.path == path:
                    tensors[name] = shard.get_tensor(name).to(device=device, dtype=dtype)
    model.load_state_dict(tensors, strict=True, assign=True)
    model.requires_grad_(False)


def _open(path: Path) -> Any:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtraError("loading a model needs safetensors: pip install 'derender[torch]'") from error
    try:
        return safe_open(str(path), framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is damaged or incomplete ({error}); download it again") from None


def _check_memory(config: MineruConfig, placement: Placement, first: TensorHome) -> None:
    """A clear refusal where the system would kill the process: converted weights cannot stay in their file."""
    if placement.device != "cpu" or _KINDS[first.kind] == placement.dtype:
        return
    free = _free_memory()
    if free is not None and free < weight_bytes(config, placement.dtype):
        raise ModelError(f"{_too_big(config, placement)}; {free / 2**30:.1f} GiB are free")


def weight_bytes(config: MineruConfig, dtype: str) -> int:
    return config.parameters * (4 if dtype == "float32" else 2)


def _too_big(config: MineruConfig, placement: Placement) -> str:
    need = weight_bytes(config, placement.dtype) / 2**30
    return f"the weights alone need {need:.1f} GiB of memory ({placement}): take a smaller --dtype or another --device"


def _free_memory() -> int | None:
    """Bytes that a process may still take, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("MinerU-Diffusion needs torch: pip install 'derender[torch]'") from error
    return torch


def _listed(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
