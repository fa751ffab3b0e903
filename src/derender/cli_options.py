"""The command line's options, each once: names, help and shown default, as Annotated types.

The commands (cli.py) and docs/cli.md take them from here; rich_help_panel is the heading in docs/cli.md. Imports
nothing but typer, so that `derender --help` is fast: choices and defaults that the settings classes own are written out
again, and tests/test_cli_docs.py compares them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

WHAT, HOW, DECODING, SHOWN = "What is read and written", "How pages are read", "Decoding", "Messages"
MODELS = "Another model"
CLUSTER = "On a cluster"
DEFAULT_FORMATS = "md,json,content-list,overlay"


VERBOSE = "derender.verbose"
"""Key in the context's meta of how often -v was given; absent for commands without -v."""


def _note_verbose(ctx: typer.Context, value: int) -> int:
    ctx.meta[VERBOSE] = value
    return value


class ModeChoice(StrEnum):
    """config.MODES"""

    auto = "auto"
    ocr = "ocr"
    text = "text"


class DecodeChoice(StrEnum):
    """Those of decode.config.MODES that are for users; `full` is for the ablation."""

    exact = "exact"
    sliding = "sliding"
    block = "block"
    ar = "ar"


class DeviceChoice(StrEnum):
    """mineru.checkpoint.DEVICES"""

    cuda = "cuda"
    cpu = "cpu"
    mps = "mps"


class DTypeChoice(StrEnum):
    """mineru.checkpoint.DTYPES"""

    bfloat16 = "bfloat16"
    float16 = "float16"
    float32 = "float32"


class EngineChoice(StrEnum):
    """Where a model given with --model runs."""

    local = "local"
    openai = "openai"


class TaskChoice(StrEnum):
    """Those of recognise.types.TASKS that read one crop."""

    text = "text"
    formula = "formula"
    table = "table"


class ReadFormat(StrEnum):
    """How `derender read` prints."""

    text = "text"
    html = "html"
    json = "json"


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="PDF, PNG, JPEG, TIFF, WebP, BMP or GIF files, folders of them, or - for standard input.",
        show_default=False,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="Folder for the results: DIR/NAME/NAME.md and so on for each input; with --ray also a URI. [default: out]",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Search folders inside folders too.", rich_help_panel=WHAT)
]
Pages = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Pages to read, from 1: 1-3,7 or 5- (to the end). [default: all]",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
Formats = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="LIST",
        help="What to write: md, json, html, content-list (MinerU's flat list), overlay (a PDF with the regions drawn "
        "over the pages), chunks (passages under their headings, for retrieval), csv (a file for each table), xlsx "
        "(the tables as one workbook). "
        f"[default: {DEFAULT_FORMATS}]",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
Stdout = Annotated[
    bool,
    typer.Option(
        "--stdout",
        help="Write no files: print the Markdown, or the one --format given, on standard output.",
        rich_help_panel=WHAT,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Skip inputs, and pages of the input that was interrupted, that an earlier run with the same settings "
        "finished; a changed file is read again. With --ray always so.",
        rich_help_panel=WHAT,
    ),
]
KeepParatext = Annotated[
    bool,
    typer.Option(
        "--keep-paratext",
        help="Keep headers, footers and page numbers in Markdown and HTML (JSON always has them).",
        rich_help_panel=WHAT,
    ),
]
PageMarkers = Annotated[
    bool,
    typer.Option("--page-markers", help="Mark where pages begin in Markdown: <!-- page 3 -->.", rich_help_panel=WHAT),
]
NoJoinTables = Annotated[
    bool,
    typer.Option(
        "--no-join-tables",
        help="Leave tables that go on on the next page in parts (the JSON always has the parts).",
        rich_help_panel=WHAT,
    ),
]
Tokens = Annotated[
    bool,
    typer.Option("--tokens", help="Keep every decoded token and its confidence in the JSON.", rich_help_panel=WHAT),
]
Trace = Annotated[
    bool,
    typer.Option("--trace", help="Keep in the JSON when each token was committed.", rich_help_panel=WHAT),
]
Mode = Annotated[
    ModeChoice,
    typer.Option(
        metavar="auto|ocr|text",
        help="auto: a PDF's own words where they can be trusted, the picture elsewhere; ocr: only the picture; text: "
        "only the PDF's own words.",
        rich_help_panel=HOW,
    ),
]
Dpi = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="Resolution at which PDF pages are rendered; lowered for huge pages, with a warning. [default: 150]",
        show_default=False,
        rich_help_panel=HOW,
    ),
]
Password = Annotated[str | None, typer.Option(metavar="TEXT", help="Password of encrypted PDFs.", rich_help_panel=HOW)]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Processor threads. [default: processors, at most 4]",
        show_default=False,
        rich_help_panel=HOW,
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|local",
        help="Read on a Ray cluster, page by page on many workers: its address, or local for this machine "
        "(derender[ray]). INPUT and --out may be URIs, such as s3://bucket/folder. Run again, it does what is missing.",
        show_default=False,
        rich_help_panel=CLUSTER,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Workers on the cluster, each with --threads processors. [default: as many as there is room for]",
        show_default=False,
        rich_help_panel=CLUSTER,
    ),
]
Decode = Annotated[
    DecodeChoice | None,
    typer.Option(
        metavar="exact|sliding|block|ar",
        help="exact: draft many tokens at once, verify them in one forward, the text is that of ar; sliding: commit "
        "the confident start of a moving window; block: fixed blocks, as in the paper; ar: one token at a time. "
        "[default: exact]",
        show_default=False,
        rich_help_panel=DECODING,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Commit tokens whose probability is above P: lower is faster, higher is surer. [default: 0.95]",
        show_default=False,
        rich_help_panel=DECODING,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="Another commit rule: factor:1.0, entropy:0.5, hierarchy:0.9, schedule:cosine:8 (with --decode block).",
        show_default=False,
        rich_help_panel=DECODING,
    ),
]
Block = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Tokens denoised together: the block, or the longest window of sliding and exact. [default: 32]",
        show_default=False,
        rich_help_panel=DECODING,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="ID|FOLDER",
        help="Read with this model instead of derender-compact: a MinerU-Diffusion id that derender models download "
        "fetched, or a folder; with --engine openai, the name the server knows it by. [default: derender-compact]",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
Device = Annotated[
    DeviceChoice | None,
    typer.Option(
        metavar="cuda|cpu|mps",
        help="Where --model computes. [default: cuda where torch finds it, else cpu]",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
DType = Annotated[
    DTypeChoice | None,
    typer.Option(
        "--dtype",
        metavar="bfloat16|float16|float32",
        help="Numbers --model computes in. [default: bfloat16 on cuda, float16 on mps, float32 on cpu]",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
EngineOption = Annotated[
    EngineChoice,
    typer.Option(
        "--engine",
        metavar="local|openai",
        help="openai: ask a server (SGLang, vLLM) that speaks the OpenAI API; needs --base-url.",
        rich_help_panel=MODELS,
    ),
]
LayoutPrompt = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="The words that ask --model for a page's layout. [default: Layout Detection:]",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The server, such as http://127.0.0.1:31000/v1; a key is taken from OPENAI_API_KEY.",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most requests that a server gets at a time. [default: 8]",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How long a server may take for one answer; then it is asked again, three times at most. [default: 300]",
        show_default=False,
        rich_help_panel=MODELS,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Only errors: no progress, warnings or summary.", rich_help_panel=SHOWN),
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        callback=_note_verbose,
        help="Details of each document and messages of the libraries; -vv: tracebacks too.",
        show_default=False,
        rich_help_panel=SHOWN,
    ),
]
Crop = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE", help="A picture of one line, paragraph, formula or table, or - for standard input."
    ),
]
Task = Annotated[TaskChoice, typer.Option(metavar="text|formula|table", help="What the picture shows.")]
Print = Annotated[
    ReadFormat,
    typer.Option(
        "--format",
        metavar="text|html|json",
        help="text: the text, or a formula's LaTeX; html: a table's HTML; json: everything, with a confidence for "
        "each token.",
    ),
]

PARSE_EPILOG = """\b
Examples:
  derender parse paper.pdf -o out
  derender parse scans/ -r -o out --resume
  derender parse paper.pdf --pages 1-3 --stdout > paper.md
  derender parse scan.tif --mode ocr --format md,html --decode exact
  cat paper.pdf | derender parse - --stdout --format json
  derender parse scan.pdf --model opendatalab/MinerU-Diffusion-V1-0320-2.5B --device cuda
  derender parse --ray local scans/ -o out

Exit codes: 0 all went well, 1 an input failed, 2 wrong usage, 3 some page or region failed, 130 interrupted."""

READ_EPILOG = """\b
Examples:
  derender read line.png
  derender read equation.png --task formula
  derender read table.png --task table --format html
  derender read line.png --format json

Exit codes: 0 read, 1 failed, 2 wrong usage, 3 read in part."""
