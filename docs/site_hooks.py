"""Hooks of mkdocs.yml: files that lie outside docs/ become pages too, and links between all of them lead to pages.

In the repository a link names a file by its path (../LICENSE), on the site a page (licence.md). A link to a file that
has no page, such as a script, keeps its text only. Does not change any file of the repository.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "licence.md",
    "NOTICE": "notice.md",
    "examples/README.md": "examples.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages for OUTSIDE; LICENSE and NOTICE are plain text and stay as they are written."""
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if not source.endswith(".md"):
            text = f"# {source}\n\n```text\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the site needs them; the page's place in the repository is told by its name."""
    sources = {name: source for source, name in OUTSIDE.items()}
    folder = PurePosixPath(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent
    return _LINK.sub(lambda match: _link(match, folder), markdown)


def _link(match: re.Match[str], folder: PurePosixPath) -> str:
    picture, text, target = match.groups()
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    path, mark, anchor = target.partition("#")
    found = (ROOT / folder / path).resolve()
    if not found.is_relative_to(ROOT):
        return match[0]
    source = found.relative_to(ROOT).as_posix()
    if source in OUTSIDE:
        new = OUTSIDE[source]
    elif source.startswith("docs/"):  # also when it is not there: mkdocs then warns
        new = source.removeprefix("docs/")
    elif found.exists():
        return text
    else:
        return match[0]
    return f"{picture}[{text}]({new}{mark}{anchor})"
