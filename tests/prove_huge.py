"""Proof that a huge PDF streams, and that Ctrl-C in the middle costs nothing. Not a pytest file.

    python tests/prove_huge.py FOLDER --pages 2000

Makes a PDF of numbered pages with 40 lines each (or one in --every of them, the others empty, for a slow machine), runs
`derender parse`, presses Ctrl-C when half the pages are finished, runs the same command with --resume, and checks that
every page is there once and none was read twice. Prints the process's memory along the way. FOLDER is made anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

LINES = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--every", type=int, default=1, help="one page in this many has text")
    parser.add_argument("--mode", default="text")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    make_pdf(given.folder / "huge.pdf", given.pages, given.every)
    command = [sys.executable, "-m", "derender.cli", "parse", "huge.pdf", "-o", "out", "--mode", given.mode]
    command += ["--threads", "1", "--format", "md,json,content-list"]
    code = _run(command, given.folder, stop_at=given.pages // 2)
    kept = len(_parts(given.folder))
    print(f"interrupted: exit code {code}, {kept} pages kept", flush=True)
    code = _run([*command, "--resume"], given.folder, stop_at=None)
    document = json.loads((given.folder / "out" / "huge" / "huge.json").read_bytes())
    numbers = []
    for page in document["pages"]:
        text = " ".join(region["text"] for region in page["regions"])
        numbers.append(sorted(set(re.findall(r"Page (\d+) line", text))))
    wanted = [[str(n)] if n % given.every == 0 else [] for n in range(1, given.pages + 1)]
    right = sum(found == expected for found, expected in zip(numbers, wanted, strict=True))
    resumed = document["meta"]["pages_resumed"]
    print(f"resumed: exit code {code}, {resumed} pages taken over, {right} of {given.pages} right")
    return 0 if right == given.pages and resumed == kept else 1


def make_pdf(path: Path, count: int, every: int) -> None:
    """`count` pages; every page whose number `every` divides has LINES lines of Helvetica that name it."""
    bodies = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    for number in range(1, count + 1):
        lines = b"".join(
            b"(Page %d line %d of this long book, as written) Tj T* " % (number, n)
            for n in range(LINES if number % every == 0 else 0)
        )
        content = b"BT /F1 10 Tf 15 TL 60 720 Td %sET" % lines
        bodies.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        bodies.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(bodies)
        )
    bodies[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (
        b" ".join(b"%d 0 R" % (5 + 2 * k) for k in range(count)),
        count,
    )
    with path.open("wb") as file:
        file.write(b"%PDF-1.4\n")
        offsets = []
        for number, body in enumerate(bodies, 1):
            offsets.append(file.tell())
            file.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
        start = file.tell()
        file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1))
        file.write(b"".join(b"%010d 00000 n \n" % offset for offset in offsets))
        file.write(b"trailer << /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, start))


def _parts(folder: Path) -> list[Path]:
    return list((folder / "out" / "huge" / ".pages").glob("[0-9]*.json"))


def _run(command: list[str], folder: Path, stop_at: int | None) -> int:
    """Runs the command, sends SIGINT when `stop_at` pages are finished, prints memory every tenth of the way."""
    process = subprocess.Popen(command, cwd=folder)
    shown = -1
    while process.poll() is None:
        time.sleep(0.2)
        done = len(_parts(folder))
        if done // 100 != shown:
            shown = done // 100
            print(f"{done} pages finished, {_memory(process.pid)}", flush=True)
        if stop_at is not None and done >= stop_at:
            os.kill(process.pid, signal.SIGINT)
            stop_at = None
    return process.wait()


def _memory(pid: int) -> str:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "ended"
    now, peak = (re.search(rf"{key}:\s+(\d+) kB", status) for key in ("VmRSS", "VmHWM"))
    return f"{int(now[1]) // 1024} MB now, {int(peak[1]) // 1024} MB at most" if now and peak else "ended"


if __name__ == "__main__":
    sys.exit(main())
