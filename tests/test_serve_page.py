"""The live page's files: who gets them, under which policy, and what they must not hold. No browser here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from serve_helpers import client_of, picture, settings

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from derender.serve.replay import region_of_page
from derender.serve.static_page import FOLDER, PAGE_PATHS

SECRET = "a secret token"


def test_the_page_comes_under_a_strict_policy() -> None:
    with client_of(settings()) as client:
        for path in PAGE_PATHS:
            answer = client.get(path)
            policy = answer.headers["content-security-policy"]
            assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy and "http" not in policy and "*" not in policy
        again = client.get("/", headers={"If-None-Match": client.get("/").headers["etag"]})
        assert again.status_code == 304 and not again.content


def test_the_page_needs_no_token_holds_none_and_opens_nothing() -> None:
    with client_of(settings(token=SECRET)) as client:
        for path in PAGE_PATHS:
            answer = client.get(path)
            assert answer.status_code == 200
            assert SECRET not in answer.text and SECRET not in str(answer.headers)
        for path in ("/v1/models", "/static/", "/static/nothing.js", "/static/index.html", "/static/../v1/models"):
            assert client.get(path).status_code in (401, 404)
        assert client.post("/v1/markdown", json={"text": "a"}).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2fgate.py",
        "/static/%2e%2e%2fgate.py",
        "/static/%2e%2e/gate.py",
        "/static/....//gate.py",
        "/static/%2fetc%2fpasswd",
        "/static/page.css%00.js",
        "/static/__init__.py",
        "/static/PAGE.CSS",
    ],
)
def test_only_the_pages_own_files_are_given(path: str) -> None:
    with client_of(settings()) as client:
        assert client.get(path).status_code == 404


def test_a_page_elsewhere_gets_nothing() -> None:
    with client_of(settings()) as client:
        answer = client.get("/", headers={"Host": "evil.example"})
        assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers
        for origin in ("https://evil.example", "null", "http://[", "http://127.0.0.1.evil.example"):
            form = client.post("/v1/jobs", files={"file": ("a.png", picture())}, headers={"Origin": origin})
            assert form.status_code == 403 and form.json()["error"]["code"] == "bad_origin"
        assert client.get("/v1/models", headers={"Origin": "http://127.0.0.1:9999"}).status_code == 200


def test_nothing_inline_and_nothing_from_elsewhere() -> None:
    html = (FOLDER / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", html)
    assert re.findall(r"<script[^>]*>(.*?)</script>", html, re.S) == [""]
    for file in FOLDER.iterdir():
        text = file.read_text("utf-8").replace("http://www.w3.org/", "")  # names of XML namespaces
        assert not re.search(r"https?://[\w.]", text), file.name
        assert not re.search(r"@import|url\(", text), file.name


def test_no_text_becomes_markup() -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    for file in FOLDER.glob("*.js"):
        text = file.read_text("utf-8")
        assert not re.search(forbidden, text), file.name
        assert ("parseFromString" in text) == (file.name == "safe_html.js")


def test_modules_import_what_is_there_and_every_id_used_exists() -> None:
    ids = re.findall(r'\sid="([^"]+)"', (FOLDER / "index.html").read_text("utf-8"))
    assert len(ids) == len(set(ids))
    for file in FOLDER.glob("*.js"):
        text = file.read_text("utf-8")
        for names, module in re.findall(r'import \{([^}]+)\} from "\./([\w.]+)"', text):
            source = (FOLDER / module).read_text("utf-8")
            for name in names.split(","):
                assert re.search(rf"export (async )?(function|const|class) {name.strip()}\b", source), (file.name, name)
        assert set(re.findall(r'\$\("([\w-]+)"\)', text)) <= set(ids), file.name


def test_a_formula_is_replayed_as_latex() -> None:
    import numpy as np

    from derender.document import Page, Region, RegionType

    page = Page(number=1, width=100, height=50, dpi=72)
    region = Region(id="p1r1", type=RegionType.FORMULA, order=0, box=(10, 10, 90, 40))
    request = region_of_page(np.full((50, 100, 3), 255, np.uint8), page, region)
    assert request.task == "formula" and request.lines == ()


def run_demo(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from derender.cli import main; main()", "demo", "--no-browser", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        # a shell that runs the tests in the background has them ignore SIGINT, and their children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_prints_its_address_and_leaves_nothing(tmp_path: Path, sent: Any) -> None:
    document = tmp_path / "scan.png"
    document.write_bytes(picture())
    process = run_demo(str(document), "--threads", "1", TMPDIR=str(tmp_path))
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#job=[0-9a-f]{32}", address)
    assert process.stdout.readline() == "Ctrl-C ends it.\n"
    assert list(tmp_path.glob("derender-demo-*"))
    with urllib.request.urlopen(address.split("#")[0]) as page:
        assert b"<title>derender</title>" in page.read()
    process.send_signal(sent)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "Ended.\n", "")
    assert not list(tmp_path.glob("derender-demo-*"))


def test_the_demo_without_its_file_says_so() -> None:
    process = run_demo(os.path.join(tempfile.gettempdir(), "no such file.pdf"))
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "No such file" in err and len(err.splitlines()) == 1
