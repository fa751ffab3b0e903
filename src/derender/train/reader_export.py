"""The folder that a reader of formulas or of tables runs from: its decoder, exported, beside the files of its encoder.

Does not train and does not export encoders.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from derender.model.decoder import Decoder
from derender.model.export import export
from derender.train.loop import load_decoder


def export_reader(
    checkpoint: Path,
    out: Path,
    calibrate: Callable[[Decoder, Path], dict[str, float]] | None,
    shards: Path,
    encoder: Path,
    files: Sequence[str],
) -> None:
    """Writes the decoder of `checkpoint` and copies `files` of folder `encoder`. calibrate: activation scales of int8
    from the folder of shards; None for float32."""
    model = load_decoder(checkpoint)
    export(model, out, None if calibrate is None else calibrate(model, shards))
    for name in files:
        shutil.copyfile(encoder / name, out / name)
