"""Pictures as MinerU-Diffusion was trained to see them: upright, of a size it can take, cut into patches.

Crops keep their own resolution within the limits of the checkpoint's preprocessor_config.json; a layout page is resized
to 1036×1036. Patches are made by the transformers package's image processor. Does not make prompts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from derender.errors import InputError, MissingExtraError, ModelError
from derender.mineru.config import VisionShape, read_json
from derender.recognise.types import Image, Quad, Task

LAYOUT_SIDE = 1036
MAX_RATIO = 50
"""Longer side to shorter; a crop beyond it is padded with white to it."""
MIN_SIDE = 28
"""Pixels; a crop with a shorter side is enlarged to it."""


@dataclass(frozen=True)
class Patches:
    """pixels_NF: (patches, numbers a patch) float32; grid: patches in time, height, width."""

    pixels_NF: npt.NDArray[np.float32]
    grid: tuple[int, int, int]

    def visual_tokens(self, merge: int) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2] // merge**2


class Patcher:
    """Makes patches by a checkpoint's preprocessor_config.json. Raises ModelError where it does not fit config.json."""

    def __init__(self, folder: Path, shape: VisionShape) -> None:
        path = folder / "preprocessor_config.json"
        data = read_json(path)
        for key, wanted in (
            ("patch_size", shape.patch),
            ("merge_size", shape.merge),
            ("temporal_patch_size", shape.temporal_patch),
        ):
            if data.get(key) != wanted:
                raise ModelError(f"{path}: {key} is {data.get(key)!r}, and config.json makes it {wanted}")
        limits = data.get("size") or {}
        low = data.get("min_pixels", limits.get("shortest_edge"))
        high = data.get("max_pixels", limits.get("longest_edge"))
        if not isinstance(low, int) or not isinstance(high, int) or not 0 < low <= high:
            raise ModelError(f"{path} has no min_pixels and max_pixels")
        settings = {key: data[key] for key in _SETTINGS if key in data}
        self._processor: Any = _processor_class()(size={"shortest_edge": low, "longest_edge": high}, **settings)

    def __call__(self, image: Image) -> Patches:
        """image: (H, W, 3) uint8 RGB, already of a size that `prepare` gives."""
        made = self._processor(images=[image], return_tensors="np", input_data_format="channels_last")
        (grid,) = np.asarray(made["image_grid_thw"]).tolist()
        return Patches(np.asarray(made["pixel_values"], np.float32), (grid[0], grid[1], grid[2]))


_SETTINGS = (
    "patch_size",
    "merge_size",
    "temporal_patch_size",
    "image_mean",
    "image_std",
    "do_resize",
    "do_rescale",
    "do_normalize",
    "rescale_factor",
    "resample",
)


def prepare(image: Image, task: Task, lines: tuple[Quad, ...] | None = None) -> Image:
    """The picture to patch. lines: the crop's lines, whose corners say which way its text runs; None means upright.

    Raises InputError for a picture without area.
    """
    import PIL.Image

    if image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 1:
        raise InputError(f"a picture of shape {image.shape} cannot be read")
    if task == "layout":
        resized = PIL.Image.fromarray(image).resize((LAYOUT_SIDE, LAYOUT_SIDE), PIL.Image.Resampling.BICUBIC)
        return np.asarray(resized, np.uint8)
    upright = np.ascontiguousarray(np.rot90(image, quarter_turns(lines or ())))
    return _enlarge(_pad(upright))


def quarter_turns(lines: tuple[Quad, ...]) -> int:
    """Quarter turns counter-clockwise that make a crop upright: most of its lines' text, by length, then runs right."""
    votes = [0.0] * 4
    for (ax, ay), (bx, by), _, _ in lines:
        x, y = bx - ax, by - ay
        votes[round(math.atan2(y, x) / (math.pi / 2)) % 4] += math.hypot(x, y)
    return max(range(4), key=lambda turns: votes[turns])  # the first, upright, among equals


def _pad(image: Image) -> Image:
    height, width = image.shape[:2]
    new_h, new_w = max(height, math.ceil(width / MAX_RATIO)), max(width, math.ceil(height / MAX_RATIO))
    if (new_h, new_w) == (height, width):
        return image
    padded = np.full((new_h, new_w, 3), 255, np.uint8)
    top, left = (new_h - height) // 2, (new_w - width) // 2
    padded[top : top + height, left : left + width] = image
    return padded


def _enlarge(image: Image) -> Image:
    import PIL.Image

    height, width = image.shape[:2]
    if min(height, width) >= MIN_SIDE:
        return image
    scale = MIN_SIDE / min(height, width)
    size = (max(MIN_SIDE, round(width * scale)), max(MIN_SIDE, round(height * scale)))
    return np.asarray(PIL.Image.fromarray(image).resize(size, PIL.Image.Resampling.BICUBIC), np.uint8)


def _processor_class() -> Any:
    try:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    except ImportError as error:
        raise MissingExtraError(
            f"MinerU-Diffusion needs the transformers package ({error}): pip install 'derender[torch]'"
        ) from error
    return Qwen2VLImageProcessorPil
