"""What a MinerU-Diffusion checkpoint's config.json says, checked, and the sizes that follow from it.

Every key that changes the arithmetic is read; one that asks for something this code does not do (tied embeddings,
scaled rotary positions, biases in attention) is an error that names it, so that no checkpoint is computed wrongly in
silence. Keys that only describe (architectures, auto_map, versions) are ignored. Does not read weights.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derender.errors import ModelError

BLOCK = 32
"""Tokens of a block; the checkpoint was trained with it, and no file of it says so (arXiv 2603.22458)."""


@dataclass(frozen=True)
class VisionShape:
    """The Qwen2-VL vision transformer. patch: pixels a side; merge: patches a side that make one visual token."""

    depth: int = 32
    width: int = 1280
    heads: int = 16
    mlp_ratio: int = 4
    channels: int = 3
    patch: int = 14
    merge: int = 2
    temporal_patch: int = 2
    activation: str = "quick_gelu"


@dataclass(frozen=True)
class TextShape:
    """The SDAR (Qwen3) decoder. max_positions: prompt and text together."""

    vocabulary: int = 151936
    width: int = 2048
    hidden: int = 6144
    layers: int = 28
    heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128
    eps: float = 1e-6
    rope_theta: float = 1e6
    max_positions: int = 32768


@dataclass(frozen=True)
class MineruConfig:
    """Shapes and token ids of a checkpoint. image_id stands in the prompt once for each visual token."""

    vision: VisionShape = VisionShape()
    text: TextShape = TextShape()
    image_id: int = 151655
    mask_id: int = 151669

    @property
    def parameters(self) -> int:
        """Number of weights, those of the embedding and of the output counted each."""
        v, t = self.vision, self.text
        patch = v.channels * v.temporal_patch * v.patch**2 * v.width
        block = (
            4 * v.width + (4 * v.width**2 + 4 * v.width) + (2 * v.mlp_ratio * v.width**2 + v.width * (v.mlp_ratio + 1))
        )
        merged = v.width * v.merge**2
        merger = 2 * v.width + merged**2 + merged + merged * t.width + t.width
        attention = 2 * t.width * t.head_dim * (t.heads + t.kv_heads) + 2 * t.head_dim
        layer = attention + 3 * t.width * t.hidden + 2 * t.width
        return patch + v.depth * block + merger + t.layers * layer + t.width + 2 * t.vocabulary * t.width

    def cache_bytes(self, bytes_per_number: int) -> int:
        """Bytes of keys and values that one token (visual ones too) keeps."""
        return 2 * self.text.layers * self.text.kv_heads * self.text.head_dim * bytes_per_number


def read_config(folder: Path) -> MineruConfig:
    """config.json of a checkpoint folder. Raises ModelError for a missing file, key, or an unsupported value."""
    path = folder / "config.json"
    data = read_json(path)
    if data.get("model_type") != "mineru_diffusion":
        raise ModelError(f"{path}: model_type is {data.get('model_type')!r}, not 'mineru_diffusion'")
    text = _part(path, data, "text_config", "language_model_config")
    vision = _part(path, data, "vision_config", "vision_model_config")
    merge = _int(path, vision, "spatial_merge_size")
    abstractor = data.get("vision_abstractor_config") or {}
    for part, key in ((data, "vision_projector_type"), (abstractor, "projection_type")):
        if part.get(key, f"pm{merge}x") not in (f"pm{merge}x", f"patch_merger{merge}x"):
            raise ModelError(f"{path}: {key} is {part[key]!r}, and this code knows only 'patch_merger{merge}x'")
    for part, key, wanted in (
        (data, "tie_word_embeddings", False),
        (text, "tie_word_embeddings", False),
        (text, "hidden_act", "silu"),
        (text, "attention_bias", False),
        (text, "rope_scaling", None),
        (text, "use_sliding_window", False),
    ):
        found = part.get(key, wanted)
        if found != wanted:
            raise ModelError(f"{path}: {key} is {found!r}, and this code knows only {wanted!r}")
    config = MineruConfig(
        VisionShape(
            depth=_int(path, vision, "depth"),
            width=_int(path, vision, "embed_dim"),
            heads=_int(path, vision, "num_heads"),
            mlp_ratio=_int(path, vision, "mlp_ratio"),
            channels=_int(path, vision, "in_channels", "in_chans"),
            patch=_int(path, vision, "patch_size"),
            merge=merge,
            temporal_patch=_int(path, vision, "temporal_patch_size"),
            activation=str(vision.get("hidden_act", "quick_gelu")),
        ),
        TextShape(
            vocabulary=_int(path, text, "vocab_size"),
            width=_int(path, text, "hidden_size"),
            hidden=_int(path, text, "intermediate_size"),
            layers=_int(path, text, "num_hidden_layers"),
            heads=_int(path, text, "num_attention_heads"),
            kv_heads=_int(path, text, "num_key_value_heads"),
            head_dim=_int(path, text, "head_dim"),
            eps=_number(path, text, "rms_norm_eps"),
            rope_theta=_theta(path, text),
            max_positions=_int(path, text, "max_position_embeddings"),
        ),
        image_id=_int(path, data, "image_token_id"),
        mask_id=_int(path, data, "mask_token_id"),
    )
    _check(path, config)
    return config


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ModelError when it is missing or none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path.parent} has no {path.name}, so it is no complete model folder") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object")
    return data


def _check(path: Path, config: MineruConfig) -> None:
    t, v = config.text, config.vision
    if t.heads % t.kv_heads or t.head_dim % 2:
        raise ModelError(f"{path}: {t.heads} heads of size {t.head_dim} cannot share {t.kv_heads} key heads")
    if v.width % v.heads:
        raise ModelError(f"{path}: a vision width of {v.width} does not divide into {v.heads} heads")
    for name, token in (("image_token_id", config.image_id), ("mask_token_id", config.mask_id)):
        if not 0 <= token < t.vocabulary:
            raise ModelError(f"{path}: {name} {token} lies outside of the vocabulary of {t.vocabulary}")


def _part(path: Path, data: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if isinstance(data.get(name), dict):
            return dict(data[name])
    raise ModelError(f"{path} has no {names[0]}")


def _int(path: Path, part: dict[str, Any], *names: str) -> int:
    for name in names:
        if name in part:
            value = part[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ModelError(f"{path}: {name} must be a whole number, not {value!r}")
            return value
    raise ModelError(f"{path} has no {names[0]}")


def _number(path: Path, part: dict[str, Any], name: str) -> float:
    value = part.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ModelError(f"{path}: {name} must be a number above 0, not {value!r}")
    return float(value)


def _theta(path: Path, text: dict[str, Any]) -> float:
    """rope_theta; files written by transformers 5 hold it in rope_parameters."""
    rope = text.get("rope_parameters")
    if "rope_theta" in text or not isinstance(rope, dict):
        return _number(path, text, "rope_theta")
    if rope.get("rope_type", "default") != "default":
        raise ModelError(f"{path}: rope_type is {rope['rope_type']!r}, and this code knows only 'default'")
    return _number(path, rope, "rope_theta")
