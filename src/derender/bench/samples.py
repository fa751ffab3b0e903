"""Inputs to samples: crops with their truth beside them, pages, and evaluation sets, read once by the tower.

Prefixes are made as the recogniser makes them. Decodes nothing. Tables and formulas of pages are left out: what is
measured here is text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from derender.bench.types import BenchSet, Fold, Sample, Unit
from derender.errors import InputError, UsageError
from derender.ingest.inputs import expand_inputs
from derender.layout.crops import crop_line
from derender.layout.detect_lines import LineDetector
from derender.layout.types import LayoutOptions, box_of
from derender.model.prefix import build_prefix, line_geometry
from derender.model.tower import Tower
from derender.recognise.compact import cut_wide, lines_of_crop
from derender.recognise.crop import load_image
from derender.recognise.types import Image, Request
from derender.score.evalset import CropItem, PageItem, load_evalset
from derender.score.markup import markdown_to_text
from derender.score.normalise import fold_case, fold_space, join_block, page_text
from derender.score.run import truth_text

Progress = Callable[[str], None]
PAGE_SUFFIXES = frozenset({".pdf", ".tif", ".tiff"})


class SampleReader:
    """Fills a BenchSet. threads: of the tower and the detectors."""

    def __init__(self, threads: int, progress: Progress | None = None) -> None:
        self.tower = Tower(threads=threads)
        self.detector = LineDetector(LayoutOptions(threads=threads))
        self.threads = threads
        self.progress = progress or (lambda _text: None)
        self.found = BenchSet()
        self._pages = 0

    def add_crop(self, name: str, image: Image, truth: str, fold: Fold) -> None:
        """One region with its truth; its lines are detected."""
        began = time.perf_counter()
        lines = lines_of_crop(image, self.detector) if min(image.shape[:2]) > 1 else ()
        self.found.detection_seconds += time.perf_counter() - began
        index = self._add(name, Request(name, image, "text", lines))
        if index is None:
            self.found.skipped.append(f"{name}: no letter seen")
        else:
            self.found.units.append(Unit(name, (index,), truth, fold))

    def add_document(self, path: Path, name: str, truth: str | None) -> None:
        """All text regions of a document's pages. The truth, if any, is the whole document's text."""
        from derender.config import ParseOptions
        from derender.ingest.source import open_source
        from derender.layout.analyse import LayoutAnalyser
        from derender.page import prepare_page

        options = ParseOptions(mode="ocr", threads=self.threads)
        analyser = LayoutAnalyser(LayoutOptions(threads=self.threads))
        indices: list[int] = []
        with open_source(path) as source:
            for number in range(1, source.page_count + 1):
                opened = source.page(number)
                began = time.perf_counter()
                _, requests = prepare_page(opened, options, analyser)
                self.found.detection_seconds += time.perf_counter() - began
                for request in requests:
                    if request.task == "text":
                        index = self._add(f"{name}:{request.id}", request, self._pages)
                        indices += [] if index is None else [index]
                opened.release()
                self._pages += 1
        if not indices:
            self.found.skipped.append(f"{name}: no text region")
        elif truth is not None:
            self.found.units.append(Unit(name, tuple(indices), truth, page_text))

    def _add(self, name: str, request: Request, page: int = -1) -> int | None:
        """The new sample's index; None where the tower reads nothing."""
        pieces: list[Image] = []
        boxes: list[tuple[float, float, float, float]] = []
        for quad in request.lines or ():
            cut = cut_wide(crop_line(request.image, quad))
            pieces += cut
            boxes += [box_of(quad)] * len(cut)
        began = time.perf_counter()
        readings = self.tower.read(pieces)
        self.found.tower_seconds += time.perf_counter() - began
        if not any(len(r.draft_M) for r in readings):
            return None
        vocab = self.tower.vocab
        prefix = build_prefix(readings, line_geometry(boxes), vocab)
        self.found.samples.append(Sample(name, prefix, "\n".join(r.text(vocab) for r in readings), page))
        self.progress(name)
        return len(self.found.samples) - 1


def read_inputs(reader: SampleReader, inputs: Sequence[Path], limit: int | None) -> None:
    """Files and folders. A picture with a .txt of its name beside it is a crop; everything else is a document, whose
    truth is a .md or .txt of its name, if there is one. limit: most crops and most documents."""
    crops = documents = 0
    for given in expand_inputs(inputs, recursive=True):
        path = given.path
        if path is None:
            raise UsageError("bench reads files and folders, not standard input")
        if path.suffix.lower() in (".txt", ".md"):  # a truth that a pattern such as crops/a* brought along
            continue
        text = path.with_suffix(".txt")
        if path.suffix.lower() not in PAGE_SUFFIXES and text.is_file():
            crops += 1
            if limit is None or crops <= limit:
                truth = text.read_text("utf-8").strip("\n")
                reader.add_crop(given.name, load_image(path), truth, join_block if "\n" in truth else fold_space)
            continue
        documents += 1
        if limit is None or documents <= limit:
            reader.add_document(path, given.name, _document_truth(path))


def read_evalset(reader: SampleReader, folder: Path, tasks: Sequence[str], limit: int | None) -> None:
    """Crops (task "text") and documents (task "pages") of an evaluation set with a truth that is a text.

    limit: most files of each task and group, the first ones. Raises InputError where the folder is no such set.
    """
    seen: dict[tuple[str, str], int] = {}
    for item in load_evalset(folder, tasks):
        key = (item.task, item.group)
        if isinstance(item, PageItem) and (item.kind == "tests" or item.silver):
            continue
        seen[key] = seen.get(key, 0) + 1
        if limit is not None and seen[key] > limit:
            continue
        if isinstance(item, CropItem):
            reader.add_crop(item.file, load_image(item.path), item.truth, crop_fold(item))
        elif isinstance(item, PageItem):
            reader.add_document(item.path, item.file, truth_text(item))


def crop_fold(item: CropItem) -> Fold:
    """What `derender score` does to both sides of this crop's texts."""
    fold = join_block if item.kind == "block" else fold_space
    return (lambda text: fold_case(fold(text))) if item.group == "receipt" else fold


def _document_truth(path: Path) -> str | None:
    markdown, text = path.with_suffix(".md"), path.with_suffix(".txt")
    if markdown.is_file():
        return markdown_to_text(markdown.read_text("utf-8"))
    return text.read_text("utf-8") if text.is_file() else None


def load_samples(
    inputs: Sequence[Path],
    evalset: Path | None,
    tasks: Sequence[str],
    limit: int | None,
    threads: int,
    progress: Progress | None = None,
) -> tuple[BenchSet, Tower]:
    """Raises InputError where there is nothing to read."""
    reader = SampleReader(threads, progress)
    read_inputs(reader, inputs, limit)
    if evalset is not None:
        read_evalset(reader, evalset, tasks, limit)
    if not reader.found.samples:
        raise InputError("nothing to measure: no input holds text")
    return reader.found, reader.tower
