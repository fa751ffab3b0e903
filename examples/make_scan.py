"""Makes the scanned example: pages of a PDF, printed and scanned in numpy and Pillow, as an image-only PDF.

Each page is rendered, turned a little, blurred, given an uneven light, grain and sensor noise, and packed as a gray
JPEG. The same source, options and library versions give the same picture. The training's own degradation is not used,
so that the example is not drawn from the training's distribution. Does not read text.

    python examples/make_scan.py SOURCE.pdf examples/reproducibility-scan.pdf --pages 1,2
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
from PIL import Image, ImageFilter

ANGLES = (0.45, -0.3)  # degrees: nobody lays paper down straight, nor twice alike


def scan(page: Image.Image, angle: float, rng: np.random.Generator) -> Image.Image:
    """A gray page picture as a flatbed scanner might give it; same size."""
    turned = page.convert("L").rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor=250)
    soft = np.asarray(turned.filter(ImageFilter.GaussianBlur(0.6)), np.float32)
    height, width = soft.shape
    grain = rng.normal(0, 1, (height // 3 + 1, width // 3 + 1)).astype(np.float32)
    grain = np.asarray(Image.fromarray(grain).resize((width, height), Image.Resampling.BILINEAR))
    light = np.linspace(1.0, 0.93, width, dtype=np.float32)[None] * np.linspace(0.97, 1.0, height)[:, None]
    ink = 35 + soft * (238 - 35) / 255  # neither ink nor paper is pure
    noisy = ink * light + 2.0 * grain + rng.normal(0, 3.0, ink.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def make(source: Path, out: Path, pages: list[int], dpi: int, quality: int, seed: int) -> None:
    """pages count from 1. Writes one JPEG a page, at the page's own size in points."""
    document = pdfium.PdfDocument(source)
    made = pdfium.PdfDocument.new()
    for place, number in enumerate(pages):
        page = document[number - 1]
        picture = page.render(scale=dpi / 72, grayscale=True).to_pil()
        jpeg = io.BytesIO()
        rng = np.random.default_rng([seed, number])
        scan(picture, ANGLES[place % len(ANGLES)], rng).save(jpeg, "JPEG", quality=quality)
        jpeg.seek(0)
        image = pdfium.PdfImage.new(made)
        image.load_jpeg(jpeg, inline=True)
        width, height = page.get_size()
        image.set_matrix(pdfium.PdfMatrix().scale(width, height))
        target = made.new_page(width, height)
        target.insert_obj(image)
        target.gen_content()
    made.save(out)


def main() -> None:
    parser = argparse.ArgumentParser(description="Print and scan pages of a PDF, without paper.")
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pages", default="1,2", help="pages to take, from 1, with commas")
    parser.add_argument("--dpi", type=int, default=150)
    parser.add_argument("--quality", type=int, default=55, help="of the JPEG, 1-95")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    make(a.source, a.out, [int(n) for n in a.pages.split(",")], a.dpi, a.quality, a.seed)


if __name__ == "__main__":
    main()
