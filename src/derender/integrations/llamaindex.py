"""A LlamaIndex reader: documents as chunks, pages or wholes. Needs the extra `llamaindex` (llama-index-core alone).

    from derender.integrations.llamaindex import DerenderReader
    documents = DerenderReader().load_data("paper.pdf")

Also as SimpleDirectoryReader(..., file_extractor={".pdf": DerenderReader()}). Does not embed or store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from derender.assemble.chunks import MAX_TOKENS
from derender.config import ParseOptions
from derender.errors import InputError, MissingExtraError
from derender.integrations.pieces import By, Loading, OnError, as_paths, load_pieces
from derender.pipeline import Pipeline

try:
    from llama_index.core.readers.base import BaseReader
    from llama_index.core.schema import Document
except ModuleNotFoundError as error:
    raise MissingExtraError(f"the LlamaIndex reader needs {error.name}: pip install 'derender[llamaindex]'") from error

HIDDEN = ["name", "pages", "page_count", "places", "status"]
"""Metadata that says where a text stands, not what it is about: kept, but not shown to embeddings and models."""


class DerenderReader(BaseReader):
    """by: chunk, page or document. options: fields of derender.config.ParseOptions. Models are kept between calls.

    Metadata as of the LangChain loader: source, name, page, pages, page_count, headings, places, status. Raises
    InputError for a file that cannot be read; on_error="skip" goes on with the next one and calls failed(path, error).
    """

    def __init__(
        self,
        *,
        by: By = "chunk",
        max_tokens: int = MAX_TOKENS,
        recursive: bool = False,
        on_error: OnError = "raise",
        failed: Callable[[Path, InputError], None] | None = None,
        **options: Any,
    ) -> None:
        self._cut = Loading((), by, max_tokens, recursive, on_error, failed)
        self._options = ParseOptions(**options)
        self._pipeline = Pipeline(self._options)

    def lazy_load_data(
        self, file: str | Path | Iterable[str | Path], extra_info: dict[str, Any] | None = None, **_: Any
    ) -> Iterator[Document]:
        """file: a file, a folder or several. extra_info: metadata to add, as SimpleDirectoryReader gives it."""
        loading = replace(self._cut, paths=as_paths(file))
        for piece in load_pieces(loading, self._options, self._pipeline):
            extra = extra_info or {}
            hidden = [*HIDDEN, *extra]
            yield Document(
                id_=piece.id,
                text=piece.text,
                metadata={**extra, **piece.metadata},
                excluded_embed_metadata_keys=hidden,
                excluded_llm_metadata_keys=hidden,
            )
