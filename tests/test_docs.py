"""The documentation is what the code says, its links lead somewhere, and README's commands are those that CI runs."""

from __future__ import annotations

import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import derender

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")])


def script() -> Any:
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs/generate_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_block(name: str) -> list[str]:
    """Commands of a block of README.md, found in another way than .ci/run does."""
    found = re.search(
        rf"^<!-- run: {name} -->\n```sh\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.S | re.M
    )
    assert found is not None, f"README.md has no block {name}"
    return found[1].splitlines()


def test_schema_is_current() -> None:
    made = script()
    assert json.loads(made.SCHEMA.read_text("utf-8")) == json.loads(made.render_schema()), (
        "the document model changed: run python docs/generate_reference.py"
    )


def test_schema_names_every_field_that_the_json_has() -> None:
    schema = script().document.Document.model_json_schema(mode="serialization")
    assert set(json.loads(derender.Document(name="a").to_json())) <= set(schema["properties"])


def test_python_reference_is_current() -> None:
    made = script()
    text = made.PYTHON.read_text("utf-8")
    assert text == made.render_python(text), "the API changed: run python docs/generate_reference.py"


def test_reference_without_its_mark_is_an_error() -> None:
    with pytest.raises(ValueError, match="mark"):
        script().render_python("# Python API\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S))
    local = [link.split("#")[0] for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if link and not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text("utf-8")
    assert [p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md" and f"({p.name})" not in index] == []


@pytest.mark.parametrize("name", ["user", "checks", "tests"])
def test_ci_runs_the_commands_of_the_readme(name: str) -> None:
    ci = (ROOT / ".ci/run").read_text("utf-8")
    assert re.search(rf"^run_readme {name}$", ci, re.M)
    finder = re.search(r"^readme_commands\(\) \{.*?^\}$", ci, re.S | re.M)
    assert finder is not None
    done = subprocess.run(
        ["bash", "-c", f"{finder[0]}\nreadme_commands {name}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == run_block(name) != []


def test_readme_says_how_to_start() -> None:
    assert run_block("user")[0] == "pip install . && derender parse examples/groundwater.pdf -o out"
    assert run_block("tests") == ['pip install ".[dev]" && pytest']


def test_dockerfile_installs_as_the_readme_does() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.search(r"^RUN pip install .*\. &&", text, re.M)
    libraries = re.search(r"apt-get install -y --no-install-recommends (.+?) \\", text)
    assert libraries is not None
    for page in ("README.md", "docs/quickstart.md"):
        assert f"`apt-get install {libraries[1]}`" in (ROOT / page).read_text("utf-8")


def test_examples_are_one_born_digital_and_one_scanned() -> None:
    import pypdfium2

    def letters(name: str) -> list[int]:
        with pypdfium2.PdfDocument(ROOT / "examples" / name) as document:
            return [page.get_textpage().count_chars() for page in document]

    assert min(letters("groundwater.pdf")) > 1000
    assert letters("reproducibility-scan.pdf") == [0, 0]


def test_making_a_scan_gives_the_same_pictures_each_time(tmp_path: Path) -> None:
    import pypdfium2

    pictures = []
    for name in ("a.pdf", "b.pdf"):
        command = [ROOT / "examples/make_scan.py", ROOT / "examples/groundwater.pdf", tmp_path / name]
        subprocess.run([sys.executable, *command, "--pages", "2", "--dpi", "40"], check=True)
        with pypdfium2.PdfDocument(tmp_path / name) as document:
            assert [page.get_textpage().count_chars() for page in document] == [0]
            pictures.append(document[0].render(scale=0.5).to_numpy().copy())
    assert (pictures[0] == pictures[1]).all()
    assert pictures[0].std() > 5


def test_no_module_takes_the_place_of_a_public_name() -> None:
    # Importing derender.NAME sets the attribute NAME of the package, and would replace a function of that name.
    modules = {module.name for module in pkgutil.iter_modules(derender.__path__)}
    assert modules & set(derender.__all__) == set()
    assert len(modules) > 5
