"""Feeds damaged PDFs and pictures to `derender parse` and keeps every file that breaks a promise. Not a pytest file.

    python tests/fuzz.py FOLDER --minutes 60          # goes on where the last run with this FOLDER stopped
    python tests/fuzz.py FOLDER --only 1234           # case 1234 again, with its messages

A case is a number: it decides, with nothing else, which seed file is damaged and how, and in which mode it is read.
Seeds are files made here, the examples, and those of --corpus. A child process reads case after case; this process
watches it and starts another when it dies, hangs or grows. What counts as a fault is in `_judge` and `_watch`. Does not
minimise files.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HANG_SECONDS = 240.0
MAX_RSS_MB = 3_000
RESTART_AFTER = 400  # cases; keeps one child's slow growth apart from a file that makes it grow
MODES = ("text", "text", "auto", "ocr")
_NUMBERS = (b"0", b"-1", b"1", b"65535", b"2147483647", b"-2147483648", b"99999999999", b"1e30", b"0.0000001", b"NaN")
_WORDS = (b"/Length", b"/Kids", b"/Count", b"/Parent", b"/MediaBox", b"/Rotate", b"/Filter", b"/FlateDecode", b"endobj")


@dataclass(frozen=True)
class Seed:
    """A whole file that cases are made from; suffix with its dot."""

    name: str
    suffix: str
    data: bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="state.json, log.jsonl and faults/ are kept here")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--corpus", type=Path, help="a folder of more seed files (at most 300 kB each)")
    parser.add_argument("--only", type=int, help="one case, in this process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    seeds = own_seeds() + (_corpus(given.corpus) if given.corpus else [])
    if given.only is not None:
        print(run_case(given.only, seeds, given.folder / "only", keep=True) or "no fault")
        return 0
    if given.child:
        for line in sys.stdin:
            fault = run_case(int(line), seeds, given.folder / "case")
            print(json.dumps({"case": int(line), "fault": fault}), flush=True)
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    return _watch(given.folder, given.minutes * 60, seeds, given.corpus)


def own_seeds() -> list[Seed]:
    """Small files of every kind that derender reads, and the first example."""
    from PIL import Image, ImageDraw, ImageFont

    from cli_helpers import text_pdf

    pictures = []
    for number in range(3):
        picture = Image.new("RGB", (420, 200), "white")
        ImageDraw.Draw(picture).text((20, 40), f"Page {number} of it", font=ImageFont.load_default(24), fill="black")
        pictures.append(picture)
    seeds = [
        Seed("text", ".pdf", text_pdf("One line of text", "Another page", "A third page")),
        Seed("scan", ".pdf", _saved(pictures, "PDF")),
    ]
    for kind in ("PNG", "JPEG", "BMP", "WEBP"):
        seeds.append(Seed(kind.lower(), f".{kind.lower()}", _saved(pictures[:1], kind)))
    seeds += [Seed("tiff", ".tif", _saved(pictures, "TIFF")), Seed("gif", ".gif", _saved(pictures, "GIF"))]
    example = Path(__file__).parent.parent / "examples" / "groundwater.pdf"
    return [*seeds, Seed("example", ".pdf", example.read_bytes())]


def _saved(pictures: list, kind: str) -> bytes:  # type: ignore[type-arg]
    pictures = [picture.copy() for picture in pictures]  # Pillow leaves settings of one format on the picture
    buffer = io.BytesIO()
    several = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    pictures[0].save(buffer, kind, **several)
    return buffer.getvalue()


def _corpus(folder: Path) -> list[Seed]:
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix != ".json" and p.stat().st_size <= 300_000)
    return [Seed(p.stem, p.suffix, p.read_bytes()) for p in files]


def mutate(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """One to six damages; other: another seed, to splice from."""
    damages: list[Callable[[bytearray], None]] = [
        lambda d: (
            [d.__setitem__(rng.randrange(len(d)), rng.randrange(256)) for _ in range(rng.choice((1, 4, 40)))] and None
        ),
        lambda d: _cut(d, rng),
        lambda d: _repeat(d, rng),
        lambda d: d.__delitem__(slice(rng.randrange(len(d)), len(d))),
        lambda d: _splice(d, rng, other),
        lambda d: _number(d, rng),
        lambda d: _number(d, rng),
        lambda d: _number(d, rng),
        lambda d: _word(d, rng),
    ]
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        if damaged:
            rng.choice(damages)(damaged)
    return bytes(damaged)


def _cut(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 16, 300, 5_000))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((4, 60, 900))]
    data[start:start] = piece * rng.choice((1, 3, 200))


def _splice(data: bytearray, rng: random.Random, other: bytes) -> None:
    start, size = rng.randrange(len(other)), rng.choice((8, 200, 3_000))
    at = rng.randrange(len(data))
    data[at : at + rng.choice((0, size))] = other[start : start + size]


def _number(data: bytearray, rng: random.Random) -> None:
    """Another number in place of one that is written out, as in a PDF's dictionaries and its table of offsets."""
    found = list(re.finditer(rb"-?\d+\.?\d*", data))
    if found:
        match = rng.choice(found)
        data[match.start() : match.end()] = rng.choice(_NUMBERS)


def _word(data: bytearray, rng: random.Random) -> None:
    found = list(re.finditer(rb"/[A-Za-z]+|endobj|stream|xref", data))
    if found:
        match = rng.choice(found)
        data[match.start() : match.end()] = rng.choice((*_WORDS, rng.choice(found).group()))


_pipelines: dict[str, object] = {}


def _pipeline(options):  # type: ignore[no-untyped-def]
    """One pipeline a mode for the child's life: loading models for each case would be most of the time."""
    from derender.pipeline import Pipeline

    pipeline = _pipelines.setdefault(options.mode, Pipeline(options))
    pipeline.options = options  # type: ignore[attr-defined]
    return pipeline


def run_case(case: int, seeds: list[Seed], folder: Path, keep: bool = False) -> str | None:
    """What is wrong with the outcome, or None. The damaged file is left in `folder` until the next case."""
    from typer.testing import CliRunner

    from derender import cli

    rng = random.Random(case)
    seed, other, mode = rng.choice(seeds), rng.choice(seeds), rng.choice(MODES)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / f"in{seed.suffix}"
    path.write_bytes(mutate(seed.data, rng, other.data))
    cli.make_pipeline = _pipeline
    arguments = ["parse", str(path), "-o", str(folder / "out"), "--mode", mode, "--threads", "1"]
    done = CliRunner().invoke(cli.app, [*arguments, "--format", "md,html,json,content-list,overlay,chunks,csv"])
    if keep:
        print(case, seed.name, mode, done.exit_code, done.output[-2000:])
    return _judge(done.exit_code, done.output, folder / "out")


def _judge(code: int, output: str, out: Path) -> str | None:
    from derender.document import load

    if code not in (0, 1, 2, 3) or "internal error" in output or "Traceback" in output:
        return f"exit code {code}: {output[-400:]}"
    files = [path for path in out.rglob("*") if path.is_file()] if out.is_dir() else []
    if code in (1, 2):
        if "Error: " not in output:
            return f"exit code {code} without a message: {output[-400:]}"
        return f"failed but left {files[0].name}" if files else None
    document = load(out / "in" / "in.json")
    if len(document.pages) != document.page_count:
        return f"{len(document.pages)} pages of {document.page_count} came out"
    if (document.status == "ok") != (code == 0):
        return f"status {document.status} with exit code {code}"
    silent = [p.number for p in document.pages if p.status == "failed" and not p.errors]
    return f"pages {silent} failed without a reason" if silent else None


def _watch(folder: Path, seconds: float, seeds: list[Seed], corpus: Path | None) -> int:
    state = folder / "state.json"
    case = json.loads(state.read_text())["next"] if state.exists() else 0
    first, faults, began, child = case, 0, time.monotonic(), None
    command = [sys.executable, __file__, str(folder), "--child", *(["--corpus", str(corpus)] if corpus else [])]
    with (folder / "log.jsonl").open("a") as log:
        while time.monotonic() - began < seconds:
            if child is None or child.poll() is not None or (case - first) % RESTART_AFTER == 0:
                _end(child)
                messages = (folder / "child.txt").open("w")
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": messages}
                child = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
                peak = 0
            started = time.monotonic()
            fault, peak = _ask(child, case, peak)
            if fault:
                faults += 1
                log.write(json.dumps({"case": case, "seconds": time.monotonic() - started, "fault": fault}) + "\n")
                log.flush()
                (folder / "faults").mkdir(exist_ok=True)
                for made in (folder / "case").glob("in.*"):
                    shutil.copy(made, folder / "faults" / f"{case}{made.suffix}")
            case += 1
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as new:
                json.dump({"next": case, "seconds": round(time.monotonic() - began), "peak_mb": peak}, new)
            os.replace(new.name, state)
    _end(child)
    print(f"{case - first} cases, {faults} faults; the last child held at most {peak} MB")
    return 1 if faults else 0


def _ask(child: subprocess.Popen[str], case: int, peak: int) -> tuple[str | None, int]:
    """One case to the child: (fault, the child's highest memory so far in MB)."""
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(f"{case}\n")
        child.stdin.flush()
    except BrokenPipeError:
        return f"the process ended before it: {child.wait()}", peak
    deadline = time.monotonic() + HANG_SECONDS
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while not waiting.select(timeout=0.5):
            if time.monotonic() > deadline:
                _end(child)
                return f"no end after {HANG_SECONDS:g} s", peak
            if _rss_mb(child.pid) > MAX_RSS_MB:
                _end(child)
                return f"more than {MAX_RSS_MB} MB of memory", peak
    line = child.stdout.readline()
    peak = max(peak, _rss_mb(child.pid))
    if not line:
        return f"the process died, {child.wait()}", peak
    return json.loads(line)["fault"], peak


def _rss_mb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found.group(1)) // 1024 if found else 0


def _end(child: subprocess.Popen[str] | None) -> None:
    if child is not None:
        child.kill()
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
