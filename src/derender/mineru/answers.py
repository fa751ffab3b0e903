"""What MinerU-Diffusion wrote, as a Result: text, LaTeX, or a table's cells. One place for local models and servers.

Does not read layout answers (layout.py takes their text as it is).
"""

from __future__ import annotations

from derender.assemble.markdown import strip_math
from derender.assemble.otsl import TAGS, otsl_to_cells, repair_otsl, tokenise
from derender.assemble.tables import cells_to_html, html_to_cells
from derender.mineru.prompts import ENDS, MASK
from derender.recognise.types import Result, Task
from derender.table.read import cells_to_text


def fill(result: Result, text: str, task: Task) -> Result:
    """Puts an answer into its result. A mask in it fails the result: such text was never decided."""
    for end in ENDS:
        text = text.split(end, 1)[0]
    text = text.strip()
    if MASK in text:
        result.status = "failed"
        result.errors.append("the answer holds mask tokens: the model did not fill all of its places")
        return result
    if task == "formula":
        result.text = result.latex = strip_math(text)
    elif task == "table":
        _fill_table(result, text)
    else:
        result.text = text
    return result


def _fill_table(result: Result, text: str) -> None:
    tokens = tokenise(text)
    if text.startswith("<table"):
        result.cells = html_to_cells(text)
    elif TAGS & set(tokens):
        repaired, repairs = repair_otsl(tokens)
        result.cells, result.otsl = otsl_to_cells(repaired), "".join(repaired)
        if repairs:
            _doubt(result, f"the table's structure was mended: {'; '.join(repairs[:3])}")
    if not result.cells:
        result.text = text
        if text:
            _doubt(result, "the answer is no table; it is given as text")
        return
    result.html, result.text = cells_to_html(result.cells), cells_to_text(result.cells)


def _doubt(result: Result, error: str) -> None:
    result.errors.append(error)
    if result.status == "ok":
        result.status = "partial"
