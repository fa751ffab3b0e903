"""What the clients of prove_load.py send: documents, good and hostile, and which answers each may get."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from serve_helpers import EXAMPLES, pdf, picture

GOOD = frozenset({200})
REFUSED = frozenset({200, 413, 415, 422})
"""A hostile document may be read, be too large, be no document, or unreadable. Never 500: that would be our fault."""


@dataclass(frozen=True)
class Sent:
    """One document. allowed: statuses that its reading may end with; fields: options sent along."""

    name: str
    data: bytes
    allowed: frozenset[int]
    fields: dict[str, str]

    @property
    def good(self) -> bool:
        return self.allowed == GOOD


def documents(corpus: Path | None) -> list[Sent]:
    """All kinds, the self-made hostile ones too; corpus: a folder of hostile files, each sent as it is."""
    scan = (EXAMPLES / "reproducibility-scan.pdf").read_bytes()
    native = (EXAMPLES / "groundwater.pdf").read_bytes()
    sent = [
        Sent("native.pdf", native, GOOD, {"pages": "1", "mode": "text", "format": "md"}),
        Sent("scan.pdf", scan, GOOD, {"pages": "1"}),
        Sent("made.pdf", pdf(2), GOOD, {"mode": "ocr", "format": "html"}),
        Sent("made-one.pdf", pdf(1), GOOD, {"mode": "ocr", "format": "zip"}),
        *(Sent(f"line{n}.png", picture(f"Line number {n} of a client"), GOOD, {"format": "md"}) for n in range(4)),
        Sent("truncated.pdf", scan[: len(scan) // 2], REFUSED, {"pages": "1"}),
        Sent("empty.pdf", b"", frozenset({422}), {}),
        Sent("bomb.png", bomb(30_000), frozenset({413}), {}),
        Sent("large.png", bomb(12_000), REFUSED, {"mode": "ocr"}),
        Sent("words.txt", b"no document at all, just words\n" * 50, frozenset({415}), {}),
        Sent("noise.pdf", b"%PDF-1.7\n" + bytes(range(256)) * 40, frozenset({422}), {}),
    ]
    for path in sorted(corpus.iterdir()) if corpus else []:
        if path.is_file() and path.suffix != ".json":
            sent.append(Sent(path.name, path.read_bytes(), REFUSED, {}))
    return sent


def bomb(side: int) -> bytes:
    """A white PNG of side x side pixels in some kilobytes."""
    row = b"\0" + b"\xff" * ((side + 7) // 8)
    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    buffer = io.BytesIO(b"")
    buffer.write(b"\x89PNG\r\n\x1a\n")
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    for kind, data in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b"")):
        buffer.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return buffer.getvalue()
