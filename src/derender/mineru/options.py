"""Which other model reads, and where: the settings behind --model, --device, --engine and --base-url.

Checked when made; imports nothing heavy. What they mean for loading and for servers is in recognise.py and client.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender.errors import UsageError

LAYOUT_PROMPT = "Layout Detection:"


@dataclass(frozen=True)
class ModelOptions:
    """A model in this process, or one behind a server.

    model: an id such as opendatalab/MinerU-Diffusion-V1-0320-2.5B, or a folder; for a server, the name it knows the
    model by (None: the one it serves). device: cuda, cpu or mps; dtype: bfloat16, float16 or float32; None chooses
    (checkpoint.place). threads: of a model on the cpu; None leaves torch's choice. base_url: of a server with the
    OpenAI API, up to /v1. concurrency: requests at a time; timeout: seconds for one answer; retries: more attempts for
    one request after the first failed. layout_prompt: the words that ask for a page's layout; the model's own README
    has the default, its own scripts have "Layout Analysis:".
    """

    model: str | None = None
    device: str | None = None
    dtype: str | None = None
    threads: int | None = None
    base_url: str | None = None
    concurrency: int = 8
    timeout: float = 300.0
    retries: int = 3
    layout_prompt: str = LAYOUT_PROMPT

    def __post_init__(self) -> None:
        if not self.layout_prompt.strip():
            raise UsageError("the layout prompt is empty")
        if self.base_url is None and not self.model:
            raise UsageError("give the id or the folder of a model")
        if self.base_url is not None:
            if not self.base_url.startswith(("http://", "https://")):
                raise UsageError(f"--base-url must begin with http:// or https://, not {self.base_url!r}")
            if self.device or self.dtype or self.threads:
                raise UsageError("a server has its own device: leave out --device, --dtype and --threads")
        if not 1 <= self.concurrency <= 1024 or not self.timeout > 0 or not 0 <= self.retries <= 20:
            raise UsageError("concurrency must be 1 to 1024, the time-out above 0 and retries 0 to 20")

    @property
    def settings(self) -> str:
        """All that changes what is read; two runs with equal settings may be joined (--resume)."""
        return " ".join(filter(None, (self.model, self.base_url, self.dtype, self.layout_prompt)))
