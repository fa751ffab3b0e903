"""Where models lie on this machine: finding, downloading and checking them. Reading documents never uses the network.

A downloaded model is a plain folder in the model cache (DERENDER_MODELS, else ~/.cache/derender/models), which can be
copied to a machine without network as it is. Beside the model's files lies a manifest of their sizes and SHA-256 sums;
sums that the hub publishes (those of large files) are compared when a model is downloaded, all others are what arrived.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from derender.errors import MissingExtraError, ModelError
from derender.mineru.config import read_json

MANIFEST = "derender-manifest.json"
KNOWN = {"opendatalab/MinerU-Diffusion-V1-0320-2.5B": "MinerU-Diffusion-V1, 2.5B (arXiv 2603.22458)"}
"""Ids that are tested for their names and shapes; others of the same architecture load too."""
FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt"]
_CHUNK = 1 << 20
Say = Callable[[str], None]


@dataclass(frozen=True)
class FileSum:
    """published: the hub gives this sum itself."""

    size: int
    sha256: str
    published: bool = False


@dataclass(frozen=True)
class Manifest:
    """model: the id, empty for a folder from elsewhere. revision: the hub's commit."""

    model: str
    revision: str
    files: dict[str, FileSum]


def cache_folder() -> Path:
    chosen = os.environ.get("DERENDER_MODELS")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "derender" / "models"


def model_folder(model: str) -> Path:
    """Where the cache keeps an id."""
    return cache_folder() / model.replace("/", "--")


def find_model(model: str) -> Path:
    """The folder of an id or a path, without any network: the path itself, the model cache, or the hub's own cache.

    Raises ModelError where it is in none of them.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if not _is_id(model):
        raise ModelError(f"{model} is no folder")
    kept = model_folder(model)
    if kept.is_dir():
        return kept
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(model, local_files_only=True))
    except ImportError:
        pass
    except Exception:  # the hub's cache does not hold it; which error says so differs between versions
        pass
    raise ModelError(f"{model} is not on this machine: derender models download {model}")


def download(model: str, revision: str | None = None, say: Say = lambda text: None) -> Path:
    """Downloads an id into the model cache, checks it, and writes its manifest. What was there already is kept.

    Raises ModelError when the hub cannot be reached or what arrives is not what it publishes; the model's folder only
    appears when everything is right. MissingExtraError without huggingface_hub.
    """
    if not _is_id(model):
        raise ModelError(f"{model} is no model id: write it as owner/name")
    folder = model_folder(model)
    if folder.is_dir():
        say(f"{model} is already in {folder}")
        return folder
    hub = _hub()
    part = folder.with_name(folder.name + ".part")
    try:
        info = hub.HfApi().model_info(model, revision=revision, files_metadata=True)
        hub.snapshot_download(model, revision=info.sha, local_dir=str(part), allow_patterns=FILES)
    except Exception as error:  # the hub's client has no common base for what can go wrong
        why = " ".join(str(error).split())[:200]
        raise ModelError(f"{model} could not be downloaded: {why}") from error
    published = {
        item.rfilename: (item.size, item.lfs.sha256 if getattr(item, "lfs", None) else None) for item in info.siblings
    }
    manifest = make_manifest(part, model, str(info.sha), published, say)
    _write(part / MANIFEST, manifest)
    part.rename(folder)
    return folder


def make_manifest(
    folder: Path,
    model: str = "",
    revision: str = "",
    published: dict[str, tuple[int | None, str | None]] | None = None,
    say: Say = lambda text: None,
) -> Manifest:
    """Sizes and sums of a folder's files. published: the hub's sizes and sums; raises ModelError where they differ."""
    files: dict[str, FileSum] = {}
    for path in model_files(folder):
        name = path.relative_to(folder).as_posix()
        say(name)
        found = FileSum(path.stat().st_size, sha256(path))
        size, checksum = (published or {}).get(name, (None, None))
        if (size is not None and size != found.size) or (checksum is not None and checksum != found.sha256):
            path.unlink()  # so that the next attempt fetches it again
            raise ModelError(f"{name} did not arrive as the hub publishes it; run the download again")
        files[name] = FileSum(found.size, found.sha256, checksum is not None)
    if not files:
        raise ModelError(f"{folder} holds no files of a model")
    return Manifest(model, revision, files)


def write_manifest(folder: Path, say: Say = lambda text: None) -> Manifest:
    """Records a folder as it is now."""
    manifest = make_manifest(folder, say=say)
    _write(folder / MANIFEST, manifest)
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest; None where there is none. Raises ModelError for a damaged one."""
    if not (folder / MANIFEST).is_file():
        return None
    data = read_json(folder / MANIFEST)
    try:
        files = {str(name): FileSum(**entry) for name, entry in data["files"].items()}
        return Manifest(str(data["model"]), str(data["revision"]), files)
    except (KeyError, TypeError, AttributeError):
        raise ModelError(f"{folder / MANIFEST} is damaged") from None


def verify(folder: Path, say: Say = lambda text: None) -> list[str]:
    """What differs from the manifest, a sentence each; empty when all is as recorded. Raises ModelError without one."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise ModelError(f"{folder} has no {MANIFEST}: derender models verify --write records it as it is")
    wrong = []
    for name, wanted in manifest.files.items():
        say(name)
        path = folder / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif path.stat().st_size != wanted.size:
            wrong.append(f"{name} has {path.stat().st_size} bytes, not {wanted.size}")
        elif sha256(path) != wanted.sha256:
            wrong.append(f"{name} has changed: its SHA-256 is another")
    extra = {path.relative_to(folder).as_posix() for path in model_files(folder)} - set(manifest.files)
    return wrong + [f"{name} is not in the manifest" for name in sorted(extra)]


def model_files(folder: Path) -> list[Path]:
    """Files that belong to a model, its manifest and the hub's own notes left out."""
    found = {path for pattern in FILES for path in folder.rglob(pattern)}
    return sorted(p for p in found if p.name != MANIFEST and ".cache" not in p.relative_to(folder).parts)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _write(path: Path, manifest: Manifest) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _is_id(model: str) -> bool:
    owner, slash, name = model.partition("/")
    return bool(owner and slash and name) and "/" not in name and not owner.startswith((".", "~"))


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError("downloading models needs huggingface_hub: pip install 'derender[torch]'") from error
    return huggingface_hub
