"""Formulas through pdflatex: thousands in one run, one page each, in one of seven mathematics fonts (all outlines).

Runs in a temporary folder, without shell escape and with TeX's own guard on files. Does not rasterise
(train/formula_render.py) and does not cut formulas that are too wide.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MATH_FONTS: dict[str, str] = {
    "computer modern": "",
    "latin modern": r"\usepackage{lmodern}",
    "times": r"\usepackage{mathptmx}",
    "palatino": r"\usepackage{mathpazo}",
    "txfonts": r"\usepackage{txfonts}",
    "pxfonts": r"\usepackage{pxfonts}",
    "euler": r"\usepackage{euler}",
}
_METRICS = ("cmr12", "rm-lmr12", "ptmr7t", "pplr7t", "zptmcmr", "zplmr7m", "txmi", "pxmi", "eurm10", "rsfs10")
_HEAD = r"""\documentclass[12pt]{article}
\usepackage{amsmath,amssymb,mathrsfs}
%s
\usepackage[active,tightpage]{preview}
\setlength{\PreviewBorder}{4pt}
\pagestyle{empty}
\begin{document}
"""
_ERROR = re.compile(r"^l\.(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class TexBatch:
    """pdf: the file's bytes, one page a formula; good: for each formula whether TeX had nothing to complain of."""

    pdf: bytes
    good: tuple[bool, ...]


def tex_present() -> bool:
    """Whether pdflatex is on the path; whether it has the packages is tex_ready's to say."""
    return shutil.which("pdflatex") is not None


def tex_ready() -> bool:
    """Whether pdflatex is there with every package and font that `typeset` loads. The first call typesets one page,
    for later ones the answer is kept."""
    program = shutil.which("pdflatex")
    return program is not None and _probe(program)


@lru_cache(maxsize=4)
def _probe(program: str) -> bool:
    """One letter in a font of each family, so that names of files, metrics and outlines are all looked for."""
    # the packages of two families cannot be loaded together, hence the names only
    files = re.findall(r"\\usepackage\{(\w+)\}", "".join(MATH_FONTS.values()))
    missing = "".join(rf"\IfFileExists{{{name}.sty}}{{}}{{\errmessage{{{name}}}}}" for name in files)
    letters = "".join(rf"\font\probe={name} {{\probe a}}" for name in _METRICS)
    batch = typeset([rf"a\hbox{{{missing}{letters}}}"], "computer modern", 60.0)
    return batch is not None and batch.good[0]


def compiles(latex: str, seconds: float = 20.0) -> bool:
    """Whether one formula compiles in Computer Modern. Needs pdflatex."""
    batch = typeset([latex], "computer modern", seconds)
    return batch is not None and batch.good[0]


def typeset(formulas: Sequence[str], font: str, seconds: float = 600.0) -> TexBatch | None:
    """Typesets formulas as displays; None where TeX gave up or ran past `seconds`. KeyError: an unknown font.

    A formula must be free of dollar signs and \\end{document}.
    """
    return typeset_pages(_HEAD % MATH_FONTS[font], [rf"$\displaystyle {f}$" for f in formulas], seconds)


def typeset_pages(head: str, pages: Sequence[str], seconds: float = 600.0) -> TexBatch | None:
    """Sets each source on a page of its own, cut to it. head: all before the first, which loads the package preview.

    Newlines of a source become spaces, so that each is one line of the file and an error's line number names it.
    """
    first = head.count("\n") + 1
    rows = [rf"\begin{{preview}}{' '.join(page.split())}\end{{preview}}" for page in pages]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "f.tex").write_text(head + "\n".join(rows) + "\n\\end{document}\n", encoding="utf-8")
        command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "f.tex"]
        try:
            subprocess.run(
                command,
                cwd=folder,
                timeout=seconds,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"openin_any": "p", "openout_any": "p", "max_print_line": "1000"},
            )
        except subprocess.TimeoutExpired:
            return None
        pdf, log = Path(folder, "f.pdf"), Path(folder, "f.log")
        if not pdf.exists() or not log.exists():
            return None
        text = log.read_text(encoding="utf-8", errors="replace")
        written = re.search(r"Output written on .*\((\d+) pages?", text)
        if written is None or int(written.group(1)) != len(rows):
            return None
        bad = {int(n) - first for n in _ERROR.findall(text)}
        return TexBatch(pdf.read_bytes(), tuple(i not in bad for i in range(len(rows))))
