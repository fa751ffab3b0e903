"""One self-contained HTML page of a ScoreReport: totals, every file's values, and pairs side by side, worst first.

Differences are coloured with difflib, character by character; pictures of crops and small page pictures are embedded.
Makes no judgement of its own: the numbers are the report's.
"""

from __future__ import annotations

import base64
import difflib
import io
from html import escape
from itertools import islice
from pathlib import Path

from derender.score.report import write_whole
from derender.score.run import worst
from derender.score.types import Sample, ScoreReport

MAX_DIFF = 4000
"""Characters a side that are compared: difflib takes quadratic time. Longer texts are cut, and the page says so."""
_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}td.n{text-align:right}
section{border-top:1px solid #ccc;margin-top:1.5em}.pair{display:grid;grid-template-columns:1fr 1fr;gap:1em}
.pair div{white-space:pre-wrap;overflow-wrap:anywhere;background:#f7f7f7;padding:.5em}
img{max-width:100%;max-height:420px;border:1px solid #ddd}
del{background:#ffc9c9;text-decoration:none}ins{background:#c3f0c8;text-decoration:none}"""


def write_html(report: ScoreReport, path: Path, folder: Path | None = None, n: int = 200) -> None:
    """Writes the n worst samples. folder: where the samples' pictures lie; without it none are shown."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>Scores of {escape(report.reader)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(report.reader)} on {escape(report.evalset)}</h1>",
        "<table><tr><th>task<th>metric<th>value %<th>files</tr>",
    ]
    for t in report.totals:
        parts.append(
            f"<tr><td>{escape(t.task)}<td>{escape(t.metric)}<td class=n>{100 * t.value:.2f}<td class=n>{t.n}</tr>"
        )
    parts.append("</table>")
    if report.skipped:
        rows = "".join(f"<li>{escape(s.file)}: {escape(s.reason)}" for s in report.skipped)
        parts.append(f"<h2>Not scored</h2><ul>{rows}</ul>")
    parts += _file_tables(report)
    parts.append("<h2>Worst first</h2><p>Left: read; <del>red</del> is not in the truth. Right: truth; ")
    parts.append("<ins>green</ins> was not read.</p>")
    parts += [_section(s, folder) for s in worst(report, n)]
    write_whole(path, "\n".join(parts) + "</html>\n")


def _file_tables(report: ScoreReport) -> list[str]:
    """A folded table for each task: a row a file (page, crop, table or formula), a column a metric."""
    parts = []
    for task in dict.fromkeys(r.task for r in report.rows):
        metrics = list(dict.fromkeys(r.metric for r in report.rows if r.task == task))
        cells: dict[str, dict[str, list[float]]] = {}
        for r in report.rows:
            if r.task == task:
                cells.setdefault(r.file, {}).setdefault(r.metric, []).append(r.value)
        parts.append(
            f"<details><summary>{escape(task)}: all {len(cells)} files, values in %</summary><table><tr><th>file"
        )
        parts.append("".join(f"<th>{escape(m)}" for m in metrics) + "</tr>")
        for file, values in cells.items():
            means = [f"{100 * sum(v) / len(v):.2f}" if (v := values.get(m)) else "" for m in metrics]
            parts.append(f"<tr><td>{escape(file)}" + "".join(f"<td class=n>{mean}" for mean in means) + "</tr>")
        parts.append("</table></details>")
    return parts


def diff_html(pred: str, truth: str) -> tuple[str, str]:
    """Both texts as HTML: what only the prediction has in <del>, what only the truth has in <ins>."""
    left: list[str] = []
    right: list[str] = []
    for tag, a0, a1, b0, b1 in difflib.SequenceMatcher(None, pred, truth, autojunk=False).get_opcodes():
        a, b = escape(pred[a0:a1]), escape(truth[b0:b1])
        left.append(a if tag == "equal" or not a else f"<del>{a}</del>")
        right.append(b if tag == "equal" or not b else f"<ins>{b}</ins>")
    return "".join(left), "".join(right)


def _section(sample: Sample, folder: Path | None) -> str:
    left, right = diff_html(sample.pred[:MAX_DIFF], sample.truth[:MAX_DIFF])
    cut = max(len(sample.pred), len(sample.truth)) > MAX_DIFF
    note = f"<p>Only the first {MAX_DIFF} characters are shown.</p>" if cut else ""
    head = f"<section><h3>{escape(sample.file)} &middot; {100 * sample.error:.1f}%</h3>"
    return f"{head}{_picture(sample, folder)}<div class=pair><div>{left}</div><div>{right}</div></div>{note}</section>"


def _picture(sample: Sample, folder: Path | None) -> str:
    from PIL import Image as Pil

    from derender.errors import InputError
    from derender.score.page_images import page_images

    if folder is None or not sample.image:
        return ""
    try:
        pixels = next(islice(page_images(folder / sample.image, dpi=110), sample.page - 1, None), None)
    except InputError as error:
        return f"<p>{escape(str(error))}</p>"
    if pixels is None:
        return ""
    image = Pil.fromarray(pixels)
    if sample.box is not None:
        x0, y0, x1, y1 = sample.box
        edges = (int(x0 * image.width), int(y0 * image.height), round(x1 * image.width), round(y1 * image.height))
        image = image.crop((edges[0], edges[1], max(edges[2], edges[0] + 1), max(edges[3], edges[1] + 1)))
    image.thumbnail((1000, 1000))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"<p><img alt='' src='data:image/png;base64,{data}'></p>"
