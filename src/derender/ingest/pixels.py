"""Any Pillow image to upright (H, W, 3) uint8 RGB: EXIF orientation, CMYK, 16-bit, 1-bit, palette, alpha, truncation.

Does not open files and does not choose the output size (image.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from derender.ingest.types import Image

if TYPE_CHECKING:
    from PIL import Image as PilModule

_ORIENTATION_TAG = 0x0112
_SOLID = 0.02
"""Edge pixels per pixel of opaque area below which the opaque part is one large patch (paper), not letters."""


def orientation(image: PilModule.Image) -> int:
    """EXIF orientation 1-8; 1 when it is missing or unreadable."""
    try:
        value = int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # damaged EXIF raises almost anything; the picture itself may be fine
        return 1
    return value if 1 <= value <= 8 else 1


def turns_sideways(exif_orientation: int) -> bool:
    """True when the orientation exchanges width and height."""
    return exif_orientation >= 5


def decode(image: PilModule.Image, size: tuple[int, int]) -> tuple[Image, bool]:
    """Decodes, turns upright, and scales to `size` (width, height) of the upright picture.

    Returns the pixels and whether the file was complete. Raises whatever Pillow raises when nothing can be decoded.
    """
    from PIL import Image as Pil

    # Before load(), because Pillow turns TIFF by itself while loading and takes the tag away.
    turn = orientation(image) if image.format != "TIFF" else 1
    if image.format in ("JPEG", "MPO"):
        wanted = size[::-1] if turns_sideways(turn) else size
        image.draft(None, wanted)  # decodes at 1/2, 1/4 or 1/8 where that is still at least as large as wanted
    complete = _load(image)
    wanted = size[::-1] if turns_sideways(turn) else size
    factor = min(image.size[0] // max(1, wanted[0]), image.size[1] // max(1, wanted[1]))
    rgb = to_rgb(image, max(1, factor))
    operation = _TRANSPOSE.get(turn)
    if operation is not None:
        rgb = rgb.transpose(Pil.Transpose[operation])
    if rgb.size != size:
        rgb = rgb.resize(size, Pil.Resampling.LANCZOS)
    return np.array(rgb, dtype=np.uint8), complete


_TRANSPOSE = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def _load(image: PilModule.Image) -> bool:
    from PIL import ImageFile

    try:
        image.load()
        return True
    except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
        # Pillow has only a module-wide switch for "give me what is there"; it is put back at once.
        before = ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            image.load()
        except Exception:
            raise error from None
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before
        return False


def to_rgb(image: PilModule.Image, shrink: int = 1) -> PilModule.Image:
    """RGB image of a loaded one, made smaller by the whole factor `shrink` before memory is spent on three channels."""
    from PIL import Image as Pil

    if image.mode == "1":
        image = image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        image = Pil.fromarray(_to_8bit(np.asarray(image)))
    if "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        if image.mode in ("La", "RGBa"):
            image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
        rgba = image.convert("RGBA")
        return _over_background(rgba.reduce(shrink) if shrink > 1 else rgba)
    if image.mode == "P":
        image = image.convert("RGB")
    if shrink > 1:
        image = image.reduce(shrink)
    if image.mode == "LAB":
        from PIL import ImageCms

        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        return cast("PilModule.Image", ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB"))
    return image.convert("RGB")


def _to_8bit(values: np.ndarray) -> np.ndarray:
    """Greys of more than 8 bits, linearly: the full 16-bit range, 12-bit or 8-bit range when no value exceeds it."""
    values = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    if low >= 0 and high <= 1.0 and not np.array_equal(values, np.round(values)):
        top = 1.0  # float pictures in 0-1
    elif low >= 0 and high <= 65535:
        top = 255.0 if high <= 255 else 4095.0 if high <= 4095 else 65535.0
    else:
        values, top = values - low, max(high - low, 1.0)
    return (values * (255.0 / top) + 0.5).clip(0, 255).astype(np.uint8)


def _over_background(rgba: PilModule.Image) -> PilModule.Image:
    from PIL import Image as Pil

    grey = background_grey(np.asarray(rgba))
    canvas = Pil.new("RGBA", rgba.size, (grey, grey, grey, 255))
    canvas.alpha_composite(rgba)
    return canvas.convert("RGB")


def background_grey(rgba: np.ndarray) -> int:
    """The grey (0-255) to lay below an (H, W, 4) picture so that what is drawn on transparency stays visible.

    White, unless light pixels border on transparent ones: then black, or middle grey when dark ones do so as well. A
    solid patch, such as a light page with transparent margins, is no lettering and keeps white.
    """
    opaque = rgba[:, :, 3] > 127
    if not opaque.any() or opaque.all():
        return 255
    inner = opaque.copy()
    inner[1:] &= opaque[:-1]
    inner[:-1] &= opaque[1:]
    inner[:, 1:] &= opaque[:, :-1]
    inner[:, :-1] &= opaque[:, 1:]
    edge = opaque & ~inner
    count = int(edge.sum())
    if count < _SOLID * int(opaque.sum()):
        return 255
    grey = rgba[edge][:, :3].astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    light, dark = float((grey > 170).mean()), float((grey < 85).mean())
    if light < 0.05:
        return 255
    return 0 if dark < 0.05 else 128
