"""The documentation builds as a site without a warning, licences and examples included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_site_builds_without_warnings_and_its_links_stay_inside(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="notice.html"' in index and "../NOTICE" not in index
    assert "PP-OCRv6" in (tmp_path / "notice.html").read_text(encoding="utf-8")
    assert {"quickstart.html", "cli.html", "python.html", "training.html", "design.html", "model_card.html"} <= {
        path.name for path in tmp_path.iterdir()
    }
