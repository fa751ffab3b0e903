"""The vision tower for text lines: PP-OCRv6's recogniser (Apache-2.0), cut before its CTC head, on ONNX Runtime.

In: crops of single text lines. Out, per line: columns of 120 features, 8 pixels of the 48-pixel-high line each, and
the top CTC classes of every column, from which the CTC reading ("draft") follows. Does not find lines and does not
write text: the decoder does. `derender.train.build_tower` makes the ONNX file from the rapidocr package.

Tensors: N lines, W pixels, T columns, F features (120), K best classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from derender.errors import ModelError
from derender.model.tokens import Vocab, vocab_from_charset
from derender.onnx_session import open_session

HEIGHT = 48
STRIDE = 8
FEATURES = 120
BUCKET = 64  # widths are padded to a multiple of this, so that a line's features do not depend on its batch
MIN_WIDTH = 64
MAX_WIDTH = 3200
WEIGHTS = Path(__file__).parent.parent / "weights"


@dataclass(frozen=True)
class LineReading:
    """What the tower sees in one line.

    columns_TF: float32 features. class_T: best CTC class per column (0 = blank). The draft is the CTC reading:
    draft_M characters' ids, prob_M their probabilities, at_M the column where each is read, top_MK the best classes
    there, best first.
    """

    columns_TF: npt.NDArray[np.float32]
    class_T: npt.NDArray[np.int64]
    draft_M: npt.NDArray[np.int64]
    prob_M: npt.NDArray[np.float32]
    at_M: npt.NDArray[np.int64]
    top_MK: npt.NDArray[np.int64]

    def text(self, vocab: Vocab) -> str:
        return vocab.decode(self.draft_M.tolist())


def read_ctc(
    class_TK: npt.NDArray[np.int64], prob_TK: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Greedy CTC: merges repeats, drops blanks. Returns draft_M, prob_M, at_M, top_MK; a run is read at its most
    probable column."""
    best_T = class_TK[:, 0]
    draft, prob, at = [], [], []
    start = 0
    n = len(best_T)
    while start < n:
        end = start + 1
        while end < n and best_T[end] == best_T[start]:
            end += 1
        if best_T[start] != 0:
            peak = start + int(np.argmax(prob_TK[start:end, 0]))
            draft.append(int(best_T[start]))
            prob.append(float(prob_TK[peak, 0]))
            at.append(peak)
        start = end
    at_M = np.asarray(at, np.int64)
    return np.asarray(draft, np.int64), np.asarray(prob, np.float32), at_M, class_TK[at_M]


def line_tensor(image: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.float32], int]:
    """(H, W, 3) or (H, W) uint8 line crop -> (3, 48, padded W) float32 in -1..1 and the unpadded width in pixels.

    The rest of the bucket is filled with 0, as PP-OCR does. Channels are BGR, as the tower was trained. Lines wider
    than MAX_WIDTH at height 48 are squeezed (the caller should cut them).
    """
    import cv2

    if image.ndim == 2:
        image = np.repeat(image[:, :, None], 3, axis=2)
    h, w = image.shape[:2]
    width = int(np.ceil(HEIGHT * w / max(h, 1)))
    width = max(8, min(MAX_WIDTH, width))
    resized = cv2.resize(image, (width, HEIGHT), interpolation=cv2.INTER_LINEAR)
    padded = max(MIN_WIDTH, -(-width // BUCKET) * BUCKET)
    out = np.zeros((3, HEIGHT, padded), np.float32)
    out[:, :, :width] = resized[:, :, ::-1].transpose(2, 0, 1).astype(np.float32) / 127.5 - 1.0
    return out, width


class Tower:
    """Runs the tower. threads: ONNX Runtime's threads within one call. Raises ModelError when the file is unusable."""

    def __init__(self, path: str | Path | None = None, threads: int = 2, batch_pixels: int = 6000) -> None:
        path = Path(path) if path is not None else WEIGHTS / "tower.onnx"
        if not path.is_file():
            raise ModelError(f"the vision tower's weights are missing: {path.name}")
        self.session = open_session(path, threads)
        characters = self.session.get_modelmeta().custom_metadata_map.get("character")
        if characters is None:
            raise ModelError(f"{path.name} carries no character list")
        self.vocab = vocab_from_charset(characters.split("\n"))
        self.batch_pixels = batch_pixels

    def read(self, images: Sequence[npt.NDArray[np.uint8]]) -> list[LineReading]:
        """Readings of line crops, in order. Lines of equal padded width share a batch."""
        out: list[LineReading | None] = [None] * len(images)
        tensors = [line_tensor(image) for image in images]
        for chunk in self._batches([t.shape[2] for t, _ in tensors]):
            x_NCHW = np.stack([tensors[i][0] for i in chunk])
            columns_NTF, prob_NTK, class_NTK = self.session.run(None, {"x": x_NCHW})
            for row, i in enumerate(chunk):
                used = max(1, -(-tensors[i][1] // STRIDE))
                classes, probs = class_NTK[row, :used], prob_NTK[row, :used]
                out[i] = LineReading(columns_NTF[row, :used].copy(), classes[:, 0].copy(), *read_ctc(classes, probs))
        return [r for r in out if r is not None]

    def _batches(self, widths: Sequence[int]) -> Iterator[list[int]]:
        order = sorted(range(len(widths)), key=lambda i: widths[i])
        chunk: list[int] = []
        for i in order:
            if chunk and (widths[chunk[0]] != widths[i] or (len(chunk) + 1) * widths[i] > self.batch_pixels):
                yield chunk
                chunk = []
            chunk.append(i)
        if chunk:
            yield chunk
