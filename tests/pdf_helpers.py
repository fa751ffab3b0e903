"""A small PDF written by hand, for tests that need a page of known words."""

from __future__ import annotations


def make_pdf(
    contents: list[bytes],
    page_extra: bytes = b"",
    objects: list[bytes] | None = None,
    mediabox: bytes = b"0 0 300 200",
    encoding: bytes = b"/WinAnsiEncoding",
) -> bytes:
    """A PDF with Helvetica as /F1; page_extra goes into every page dictionary, objects are numbered from 100."""
    bodies: dict[int, bytes] = {}
    kids = b" ".join(b"%d 0 R" % (10 + 2 * i) for i in range(len(contents)))
    bodies[1] = b"<< /Type /Catalog /Pages 2 0 R >>"
    bodies[2] = b"<< /Type /Pages /Kids [" + kids + b"] /Count %d >>" % len(contents)
    bodies[3] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding " + encoding + b" >>"
    for index, content in enumerate(contents):
        number = 10 + 2 * index
        bodies[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox ["
            + mediabox
            + b"] /Contents %d 0 R " % (number + 1)
            + b"/Resources << /Font << /F1 3 0 R >> /XObject << /Im 100 0 R >> >> "
            + page_extra
            + b" >>"
        )
        bodies[number + 1] = b"<< /Length %d >>\nstream\n" % len(content) + content + b"\nendstream"
    for index, body in enumerate(objects or []):
        bodies[100 + index] = body
    out, offsets = b"%PDF-1.7\n", {}
    for number, body in bodies.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number, offset in offsets.items():
        out += b"%d 1\n%010d 00000 n \n" % (number, offset)
    return out + b"trailer\n<< /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF\n" % (max(bodies) + 1, start)
