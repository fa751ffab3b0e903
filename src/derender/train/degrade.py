"""Degradation of rendered text: what printing, scanning and photographing do to it.

Four families, after the augmentations named in MinerU-Diffusion (arXiv 2603.22458): optics (blur, point spread,
motion), ink (erosion, dilation, broken strokes), sensor and codec (noise, JPEG, low resolution, bilevel), and paper and
light (texture, shadow, brightness, show-through), plus small geometry. One `Degradation` is drawn per region, because
lines of one region share their scanner. Works on gray pictures (H, W) uint8, ink dark on light.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Degradation:
    """Strengths of each effect, in pixels of the line picture or fractions of full scale; 0 switches one off."""

    scale: float = 1.0
    blur: float = 0.0
    motion: int = 0
    motion_angle: float = 0.0
    morph: int = 0
    noise: float = 0.0
    salt: float = 0.0
    jpeg: int = 0
    contrast: float = 1.0
    brightness: float = 0.0
    shadow: float = 0.0
    texture: float = 0.0
    through: float = 0.0
    rotate: float = 0.0
    shear: float = 0.0
    bilevel: float = 0.0
    invert: bool = False

    @classmethod
    def draw(cls, rng: np.random.Generator, clean_share: float = 0.35) -> Degradation:
        """A random degradation; `clean_share` of the draws change (almost) nothing."""
        if rng.random() < clean_share:
            return cls(jpeg=int(rng.integers(60, 95)) if rng.random() < 0.3 and clean_share < 1 else 0)

        def maybe(p: float, low: float, high: float) -> float:
            return float(rng.uniform(low, high)) if rng.random() < p else 0.0

        return cls(
            scale=float(rng.uniform(0.45, 0.9)) if rng.random() < 0.35 else 1.0,
            blur=maybe(0.45, 0.4, 1.4),
            motion=int(rng.integers(2, 5)) if rng.random() < 0.12 else 0,
            motion_angle=float(rng.uniform(0, 180)),
            morph=int(rng.choice([-1, 1])) if rng.random() < 0.2 else 0,
            noise=maybe(0.45, 0.01, 0.1),
            salt=maybe(0.12, 0.001, 0.012),
            jpeg=int(rng.integers(18, 75)) if rng.random() < 0.4 else 0,
            contrast=float(rng.uniform(0.35, 1.1)) if rng.random() < 0.4 else 1.0,
            brightness=maybe(0.4, -0.25, 0.15),
            shadow=maybe(0.25, 0.1, 0.5),
            texture=maybe(0.3, 0.02, 0.15),
            through=maybe(0.08, 0.05, 0.2),
            rotate=float(rng.normal(0, 0.5)) if rng.random() < 0.4 else 0.0,
            shear=float(rng.normal(0, 0.06)) if rng.random() < 0.15 else 0.0,
            bilevel=maybe(0.15, 0.35, 0.6),
            invert=bool(rng.random() < 0.04),
        )


def degrade(image: Gray, d: Degradation, rng: np.random.Generator, line: float | None = None) -> Gray:
    """Applies `d` to one line picture. The result's size may differ from the input's by the scale.

    line: height of a line of text with letters of this size, for a picture that is not one line; blur and thinning go
    by it."""
    import cv2

    h, w = image.shape
    line = h if line is None else line
    if d.rotate or d.shear:
        matrix = cv2.getRotationMatrix2D((w / 2, h / 2), d.rotate * min(1.0, 12 * h / max(w, 1)), 1.0)
        matrix[0, 1] += d.shear
        image = cv2.warpAffine(image, matrix, (w, h), borderMode=cv2.BORDER_REPLICATE).astype(np.uint8)
    if d.morph:
        kernel = np.ones((2, 2), np.uint8)
        image = (cv2.erode if d.morph > 0 or line < 30 else cv2.dilate)(image, kernel).astype(
            np.uint8
        )  # thin ink stays
    if d.scale < 1.0:
        size = (max(8, round(w * d.scale)), max(8, round(h * d.scale)))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.uint8)
        h, w = image.shape
        line *= d.scale
    x = image.astype(np.float32) / 255.0
    if d.blur:
        x = cv2.GaussianBlur(x, (0, 0), d.blur * (line / 40.0 + 0.4) * 0.8)
    if d.motion:
        kernel_f = np.zeros((d.motion * 2 + 1, d.motion * 2 + 1), np.float32)
        kernel_f[d.motion] = 1.0
        turn = cv2.getRotationMatrix2D((d.motion, d.motion), d.motion_angle, 1.0)
        kernel_f = cv2.warpAffine(kernel_f, turn, kernel_f.shape[::-1])
        x = cv2.filter2D(x, -1, kernel_f / max(float(kernel_f.sum()), 1e-6))
    if d.through:
        x = np.minimum(x, 1 - d.through * (1 - cv2.GaussianBlur(x[::-1, ::-1], (0, 0), 2)))
    if d.contrast != 1.0 or d.brightness:
        x = 0.5 + (x - 0.5) * d.contrast + d.brightness * 0.6 + 0.5 * (1 - d.contrast) * 0.6
    if d.shadow:
        ramp = np.linspace(rng.uniform(-1, 1), rng.uniform(-1, 1), w, dtype=np.float32)[None]
        x = x * (1 - d.shadow * np.clip(ramp, 0, 1))
    if d.texture:
        grain = rng.normal(0, 1, (max(2, h // 4), max(2, w // 4))).astype(np.float32)
        x = x + d.texture * 0.5 * cv2.resize(grain, (w, h), interpolation=cv2.INTER_CUBIC)
    if d.noise:
        x = x + rng.normal(0, d.noise, x.shape).astype(np.float32)
    if d.bilevel:
        ink, paper = (float(v) for v in np.percentile(x, [1, 80]))
        x = (x > ink + (paper - ink) * (d.bilevel + 0.15)).astype(np.float32)
    if d.salt:
        mask = rng.random(x.shape)
        x = np.where(mask < d.salt / 2, 0.0, np.where(mask > 1 - d.salt / 2, 1.0, x))
    out = np.clip(x * 255, 0, 255).astype(np.uint8)
    if d.invert:
        out = (255 - out).astype(np.uint8)
    if d.jpeg:
        ok, data = cv2.imencode(".jpg", out, [cv2.IMWRITE_JPEG_QUALITY, d.jpeg])
        if ok:
            out = np.asarray(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE), np.uint8)
    return out
