"""A LangChain loader: documents as chunks, pages or wholes. Needs the extra `langchain` (langchain-core alone).

    from derender.integrations.langchain import DerenderLoader
    documents = DerenderLoader("papers/", recursive=True).load()

Does not split further, embed or store: LangChain has its own parts for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from derender.assemble.chunks import MAX_TOKENS
from derender.config import ParseOptions
from derender.errors import InputError, MissingExtraError
from derender.integrations.pieces import By, Loading, OnError, as_paths, load_pieces

try:
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document
except ModuleNotFoundError as error:
    raise MissingExtraError(f"the LangChain loader needs {error.name}: pip install 'derender[langchain]'") from error


class DerenderLoader(BaseLoader):
    """paths: files or folders. by: chunk, page or document. options: fields of derender.config.ParseOptions.

    Metadata of each Document: source, name, page, pages, page_count, headings, places (page, region, box in points from
    the top-left corner), status. Its id is the same each time the same file is cut the same way. Raises InputError for
    a file that cannot be read; on_error="skip" goes on with the next one and calls failed(path, error).
    """

    def __init__(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        by: By = "chunk",
        max_tokens: int = MAX_TOKENS,
        recursive: bool = False,
        on_error: OnError = "raise",
        failed: Callable[[Path, InputError], None] | None = None,
        **options: Any,
    ) -> None:
        self.loading = Loading(as_paths(paths), by, max_tokens, recursive, on_error, failed)
        self.options = ParseOptions(**options)

    def lazy_load(self) -> Iterator[Document]:
        """One Document after the other; a file is read when its first one is asked for."""
        for piece in load_pieces(self.loading, self.options):
            yield Document(id=piece.id, page_content=piece.text, metadata=piece.metadata)
