"""Is there anything on this page? Cheap and on the safe side: one short line, even one digit, is not blank.

Does not tell text from drawings or stains, and recognises nothing.
"""

from __future__ import annotations

import numpy as np

from derender.ingest.types import Image

_MIN_CONTRAST = 28.0
_NOISE_FACTOR = 6.0
_MIN_EXTENT_PX = 5
_MIN_AREA_PX = 8
_BORDER = 0.01
"""Share of each side that is ignored: scanners leave dark edges there, and print does not reach it."""
_WORK_SIDE = 3000
_LOCAL_FROM = 200
"""Pictures with a shorter side than this (pixels) are taken to have one paper colour."""


def ink_mask(image: Image) -> np.ndarray:
    """(H, W) bool: pixels that differ from the paper around them; dark on light, or light on dark where most is dark.

    image: (H, W, 3) or (H, W) uint8. Paper is what is lightest (or darkest, on a dark page) close by, smoothed over a
    wide neighbourhood, so that shading counts as paper; the threshold follows the noise.
    """
    import cv2

    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    # The commonest grey is paper even in a tight crop of heavy type, where the median is not.
    common = int(np.argmax(cv2.blur(cv2.calcHist([grey], [0], None, [256], [0, 256]), (1, 9))))
    if min(height, width) < _LOCAL_FROM:
        paper = np.full_like(grey, common)
    else:
        step = (max(1, width // 4), max(1, height // 4))
        small = cv2.resize(cv2.blur(grey, (3, 3)), step, interpolation=cv2.INTER_AREA)
        kernel = np.ones((5, 5), np.uint8)
        extreme = cv2.dilate(small, kernel) if common > 127 else cv2.erode(small, kernel)
        paper = cv2.resize(cv2.medianBlur(extreme, 21), (width, height), interpolation=cv2.INTER_LINEAR)
    difference = cv2.absdiff(grey, paper)
    noise = float(np.median(difference)) * 1.4826
    # Never so high that nothing could pass: a busy picture has no paper to speak of.
    return difference > min(max(_MIN_CONTRAST, _NOISE_FACTOR * noise), 100.0)


def is_blank(image: Image) -> bool:
    """True when no spot of the page is as large as a small letter. image: (H, W, 3) uint8 RGB."""
    import cv2

    height, width = image.shape[:2]
    if max(height, width) > _WORK_SIDE:
        scale = _WORK_SIDE / max(height, width)
        shape = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = cv2.resize(image, shape, interpolation=cv2.INTER_AREA)
        height, width = image.shape[:2]
    if min(height, width) > 200:  # a crop or a label may well have its letters at the very edge
        dy, dx = int(height * _BORDER), int(width * _BORDER)
        image = image[dy : height - dy, dx : width - dx]
    mask = ink_mask(np.ascontiguousarray(image)).astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    spots = stats[1:]
    extent = np.maximum(spots[:, cv2.CC_STAT_WIDTH], spots[:, cv2.CC_STAT_HEIGHT])
    return not bool(((extent >= _MIN_EXTENT_PX) & (spots[:, cv2.CC_STAT_AREA] >= _MIN_AREA_PX)).any())
