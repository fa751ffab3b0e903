"""What a client may ask for: the options of `derender parse`, as one pydantic model for forms, JSON and jobs."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from derender.config import ParseOptions
from derender.decode.config import DecodeConfig
from derender.errors import UsageError
from derender.ingest.source import page_ranges
from derender.serve.limits import ServeSettings

ResultFormat = Literal["md", "json", "html", "content-list", "chunks", "zip"]
RESULT_FORMATS: tuple[ResultFormat, ...] = get_args(ResultFormat)
DecodeMode = Literal["exact", "sliding", "block", "ar"]


class ParseParameters(BaseModel):
    """Options of a parse; names and meanings are those of the command line."""

    model_config = ConfigDict(extra="forbid")

    format: ResultFormat = Field(default="json", description="What to answer with; a job's result comes in any of them")
    mode: Literal["auto", "ocr", "text"] = Field(
        default="auto",
        description="auto: a PDF's own words where they can be trusted; ocr: only the picture; text: only words",
    )
    pages: str | None = Field(default=None, description="Pages to read, such as 1-3,7 or 5-", max_length=1000)
    dpi: float = Field(default=150.0, ge=36, le=600, description="Resolution at which PDF pages are rendered")
    password: str | None = Field(default=None, description="Of an encrypted PDF", max_length=256)
    tokens: bool = Field(default=False, description="Keep every token and its confidence in the JSON")
    trace: bool = Field(default=False, description="Keep in the JSON when each token was committed")
    decode: DecodeMode | None = Field(default=None, description="Decode mode; the service's own by default")
    threshold: float | None = Field(default=None, ge=0, le=1, description="Short for the rule threshold:P")
    rule: str | None = Field(default=None, description="Commit rule of block and sliding", max_length=64)
    block: int | None = Field(default=None, ge=1, le=1024, description="Tokens denoised together")
    orient: bool = Field(default=True, description="Turn pages whose content lies on its side")
    join_tables: bool = Field(default=True, description="Show a table that goes on on the next page as one")
    keep_paratext: bool = Field(default=False, description="Keep headers, footers, page numbers in Markdown and HTML")
    page_markers: bool = Field(default=False, description="Mark where pages begin in Markdown")

    @field_validator("pages")
    @classmethod
    def _pages(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        try:
            page_ranges(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return value

    def decode_config(self, settings: ServeSettings) -> DecodeConfig:
        """The service's settings with what the client changed. Raises UsageError where an option has no effect."""
        given: dict[str, Any] = {"mode": self.decode or settings.decode.mode, "trace": self.trace}
        if self.threshold is not None and self.rule is not None:
            raise UsageError("threshold is short for rule threshold:P: give one of them")
        rule = self.rule if self.threshold is None else f"threshold:{self.threshold}"
        if rule is not None:
            if given["mode"] in ("exact", "ar"):
                raise UsageError(f"decode {given['mode']} has no commit rule: leave out threshold and rule")
            given["rule"] = rule
        if self.block is not None:
            if given["mode"] == "ar":
                raise UsageError("decode ar reads one token at a time: leave out block")
            if self.block > 32:
                raise UsageError("block must be at most 32")
            given["block"] = given["window"] = self.block
        return DecodeConfig(**given)

    def parse_options(self, settings: ServeSettings) -> ParseOptions:
        return ParseOptions(
            mode=self.mode,
            pages=self.pages,
            dpi=self.dpi,
            password=self.password,
            orient=self.orient,
            threads=settings.threads,
            batch=settings.batch,
            tokens=self.tokens or self.trace,
            join_tables=self.join_tables,
            decode=self.decode_config(settings),
        )
