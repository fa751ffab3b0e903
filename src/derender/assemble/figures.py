"""Cuts figures (and tables and formulas that were not read as such) out of the page's picture and saves them as PNG.

The page's picture is in the viewer's frame (document.py); when the content lies on its side the crop is turned upright.
Does not render pages: the caller gives the picture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from derender.assemble.blocks import anchor
from derender.document import Document, Page, Region, RegionType

PageImages = Callable[[int], "npt.NDArray[np.uint8] | None"]
"""Page number (from 1) -> (H, W, 3) uint8 RGB picture of the whole page as a viewer shows it, or None when there is
none.
"""

IMAGE_DIR = "images"
_MARGIN = 2.0  # points; layout boxes are tight and cut off thin frames


def wants_picture(region: Region) -> bool:
    """Whether the output shows a region as a picture: figures, tables and formulas without structure, unread text."""
    if region.type is RegionType.FIGURE:
        return True
    if region.type is RegionType.TABLE:
        return not (region.cells or region.html)
    if region.type is RegionType.FORMULA:
        return not region.latex
    return region.status == "failed" and not region.text and bool(region.lines)


def picture_file(page: Page, region: Region) -> str:
    """Path of the region's picture relative to the document's JSON: images/p3_r7.png."""
    name = anchor(page, region).removeprefix(f"p{page.number}-")
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)
    return f"{IMAGE_DIR}/p{page.number}_{safe}.png"


def crop_region(image: npt.NDArray[np.uint8], region: Region, page: Page) -> npt.NDArray[np.uint8] | None:
    """The region's pixels with a small margin, content upright; None when its box has no area on the page."""
    height, width = image.shape[:2]
    sx, sy = width / page.width, height / page.height
    x0 = max(0, int(np.floor((region.box[0] - _MARGIN) * sx)))
    y0 = max(0, int(np.floor((region.box[1] - _MARGIN) * sy)))
    x1 = min(width, int(np.ceil((region.box[2] + _MARGIN) * sx)))
    y1 = min(height, int(np.ceil((region.box[3] + _MARGIN) * sy)))
    if x1 <= x0 or y1 <= y0:
        return None
    return np.ascontiguousarray(np.rot90(image[y0:y1, x0:x1], k=-(page.content_rotation // 90)))


def crop_figure(image: npt.NDArray[np.uint8], region: Region, page: Page, folder: Path) -> str | None:
    """Saves the region's crop under `folder`; returns its path relative to `folder`, or None when there is nothing to
    cut.
    """
    from PIL import Image

    crop = crop_region(image, region, page)
    if crop is None:
        return None
    path = picture_file(page, region)
    (folder / IMAGE_DIR).mkdir(parents=True, exist_ok=True)
    Image.fromarray(crop).save(folder / path, format="PNG", optimize=False)
    return path


def crop_figures(doc: Document, page_images: PageImages, folder: Path) -> Document:
    """The document with `Region.image` set for every region shown as a picture, the files saved under `folder`.

    Asks for one page's picture at a time, and only for pages that need one. A page that gives None keeps what it had.
    """
    pages = []
    for page in doc.pages:
        wanted = [region for region in page.regions if wants_picture(region)]
        image = page_images(page.number) if wanted else None
        if image is not None:
            paths = {id(region): crop_figure(image, region, page, folder) for region in wanted}
            regions = [
                region.model_copy(update={"image": paths[id(region)]}) if paths.get(id(region)) else region
                for region in page.regions
            ]
            page = page.model_copy(update={"regions": regions})
        pages.append(page)
    return doc.model_copy(update={"pages": pages})
