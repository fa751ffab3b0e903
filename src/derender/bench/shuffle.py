"""`derender bench shuffle`: how much of a reader's accuracy comes from words making sense (Semantic Shuffle).

After MinerU-Diffusion (arXiv 2603.22458): a share of a page's words is permuted, the page is set again with the same
layout, font and spacing, and read. A reader that only looks reads shuffled pages as well as plain ones; one that
guesses from context gets worse. All decode modes read the same prefixes with the same weights; other programs read the
same pictures. Makes pages and runs readers; pages are in shuffle_source.py and shuffle_sheet.py, scores in
shuffle_scores.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from derender.bench.measure import CLOCKS, groups_of, run_once
from derender.bench.samples import SampleReader
from derender.bench.shuffle_scores import PageScore, score_page
from derender.bench.shuffle_sheet import Gray, Sheet, compose
from derender.bench.types import MODES, Case
from derender.decode.config import DecodeConfig
from derender.errors import InputError, MissingExtraError, UsageError

Progress = Callable[[str], None]
NO_DRAFT = ", no draft"
CTC = "tower alone"
PEERS = ("rapidocr", "tesseract")


@dataclass(frozen=True)
class ShuffleOptions:
    """What is read, and how hard it is made.

    modes: decode modes. no_draft: modes that are run a second time with the tower's reading hidden from the decoder.
    peers: other programs (names of score.readers). fractions: shares of permuted words, 0-1, rising. dpi: resolution of
    the pictures that are read; blur: radius (sigma) of a blur in their pixels; noise: standard deviation of grain, as a
    share of full scale. rule: commit rule of block and sliding. Raises UsageError on nonsense.
    """

    modes: tuple[str, ...] = ("ar", "block", "sliding", "exact")
    no_draft: tuple[str, ...] = ("ar", "block")
    peers: tuple[str, ...] = ("rapidocr", "tesseract")
    fractions: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    dpi: float = 100.0
    blur: float = 0.0
    noise: float = 0.0
    rule: str = "threshold:0.95"
    block: int = 32
    threads: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for mode in (*self.modes, *self.no_draft):
            if mode not in MODES:
                raise UsageError(f"unknown mode {mode!r}: use {', '.join(MODES)}")
        for peer in self.peers:
            if peer not in PEERS:
                raise UsageError(f"unknown program {peer!r}: use {', '.join(PEERS)}")
        if not self.modes and not self.peers:
            raise UsageError("give at least one mode or one other program")
        if len(self.fractions) < 2 or not all(0 <= f <= 1 for f in self.fractions):
            raise UsageError("give at least two fractions between 0 and 1")
        if list(self.fractions) != sorted(set(self.fractions)):
            raise UsageError("fractions must rise")
        if not 36 <= self.dpi <= 300:
            raise UsageError(f"dpi must lie between 36 and 300, not {self.dpi:g}")
        if self.blur < 0 or self.noise < 0 or self.threads < 1 or self.seed < 0:
            raise UsageError("blur, noise and seed must be 0 or more, and threads at least 1")


@dataclass
class ShuffleReport:
    """scores: one a reader, page and fraction. words: on all pages. notes: what was left out, and why."""

    options: ShuffleOptions
    source: str = ""
    scores: list[PageScore] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    words: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Shot:
    """A picture to read, and what it says."""

    page: str
    fraction: float
    path: Path
    truth: str


def picture(page: Gray, dpi: float, options: ShuffleOptions, seed: int) -> Gray:
    """A composed page (H, W) at the resolution that is read, blurred and with grain. Equal seeds give equal grain."""
    from PIL import Image, ImageFilter

    k = options.dpi / dpi
    image = Image.fromarray(page).resize((round(page.shape[1] * k), round(page.shape[0] * k)), Image.Resampling.BOX)
    if options.blur:
        image = image.filter(ImageFilter.GaussianBlur(options.blur))
    out = np.asarray(image, np.float32)
    if options.noise:
        out = out + np.random.default_rng(seed).normal(0, 255 * options.noise, out.shape).astype(np.float32)
    return np.clip(out.round(), 0, 255).astype(np.uint8)


def run_shuffle(
    sheets: Iterable[Sheet], options: ShuffleOptions, source: str, progress: Progress = lambda _text: None
) -> ShuffleReport:
    """Composes, reads and scores. Raises InputError when there is no page, or no reader could be run."""
    report = ShuffleReport(options, source)
    with tempfile.TemporaryDirectory() as folder:
        shots = _shots(sheets, options, Path(folder), report)
        if not shots:
            raise InputError("there is no page to shuffle")
        if options.modes or options.no_draft:
            _read_modes(shots, options, report, progress)
        for name in options.peers:
            _read_peer(name, shots, report, progress)
    if not report.scores:
        raise InputError("no reader could be run: " + "; ".join(report.notes))
    return report


def _shots(sheets: Iterable[Sheet], options: ShuffleOptions, folder: Path, report: ShuffleReport) -> list[_Shot]:
    from PIL import Image

    shots = []
    for number, sheet in enumerate(sheets):
        report.pages.append(sheet.name)
        report.words += sum(map(len, sheet.words))
        for fraction in options.fractions:
            page, truth = compose(sheet, fraction, options.seed + number)
            path = folder / f"{number:03d}-{round(100 * fraction):03d}.png"
            image = Image.fromarray(picture(page, sheet.dpi, options, options.seed + number))
            image.save(path, dpi=(options.dpi, options.dpi))
            shots.append(_Shot(sheet.name, fraction, path, truth))
    return shots


def _configs(options: ShuffleOptions) -> dict[str, DecodeConfig]:
    b = options.block
    return {
        "ar": DecodeConfig(mode="ar", block=b),
        "block": DecodeConfig(mode="block", rule=options.rule, block=b),
        "sliding": DecodeConfig(mode="sliding", rule=options.rule, window=b, block=b),
        "exact": DecodeConfig(mode="exact", window=b, block=b),
    }


def _read_modes(shots: Sequence[_Shot], options: ShuffleOptions, report: ShuffleReport, progress: Progress) -> None:
    """Tower and layout once a picture; then every mode on the same prefixes."""
    from derender.model.runtime_onnx import OnnxRuntime

    reader = SampleReader(options.threads, lambda text: progress(f"tower {text}"))
    units = []
    for shot in shots:
        before = len(reader.found.units)
        reader.add_document(shot.path, shot.path.name, shot.truth)
        units.append(reader.found.units[-1] if len(reader.found.units) > before else None)
    samples, vocab = reader.found.samples, reader.tower.vocab
    groups = groups_of("page", samples)

    def keep(name: str, texts: dict[int, str]) -> None:
        for shot, unit in zip(shots, units, strict=True):
            pred = "\n".join(texts[i] for i in unit.samples) if unit is not None else ""
            report.scores.append(score_page(name, shot.page, shot.fraction, pred, shot.truth))

    report.notes += [f"read as empty: {text}" for text in reader.found.skipped]
    keep(CTC, {i: s.ctc for i, s in enumerate(samples)})
    configs = _configs(options)
    for suffix, modes in (("", options.modes), (NO_DRAFT, options.no_draft)):
        if not modes:
            continue
        runtime = OnnxRuntime(vocab, threads=options.threads, use_draft=not suffix)
        for mode in modes:
            progress(f"decoding {mode}{suffix}")
            outcome = run_once(Case("page", "onnx", configs[mode]), runtime, groups, samples, CLOCKS["wall"])
            if outcome.not_ok:
                report.notes.append(f"{mode}{suffix}: {outcome.not_ok} regions ended by a guard")
            keep(mode + suffix, {i: "".join(map(vocab.piece, tokens)) for i, tokens in outcome.tokens.items()})


def _read_peer(name: str, shots: Sequence[_Shot], report: ShuffleReport, progress: Progress) -> None:
    """A program that is not installed, or lacks a part, is left out; a page that it fails on counts as empty."""
    from derender.score.readers import make_reader

    scores: list[PageScore] = []
    try:
        reader = make_reader(name)
        for shot in shots:
            progress(f"{name} {shot.path.name}")
            try:
                pred = "\n".join(block.text for block in reader.parse_page(shot.path, "en").blocks)
            except (UsageError, InputError) as error:
                report.notes.append(f"{name} failed on {shot.page} at {shot.fraction:.0%}, counted as empty: {error}")
                pred = ""
            scores.append(score_page(name, shot.page, shot.fraction, pred, shot.truth))
    except MissingExtraError as error:
        report.notes.append(f"{name} was left out: {error}")
        return
    report.scores += scores
