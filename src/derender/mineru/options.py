"""Which other model reads, and where: the settings behind --model, --device, --engine and --base-url.

Checked when made; imports nothing heavy. What they mean for loading and for servers is in recognise.py and client.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from derender.errors import UsageError


@dataclass(frozen=True)
class ModelOptions:
    """A model in this process, or one behind a server.

    model: an id such as opendatalab/MinerU-Diffusion-V1-0320-2.5B, or a folder; for a server, the name it knows the
    model by (None: the one it serves). device: cuda, cpu or mps; dtype: bfloat16, float16 or float32; None chooses
    (checkpoint.place). base_url: of a server with the OpenAI API, up to /v1. concurrency: requests at a time; timeout:
    seconds for one answer; retries: more attempts for one request after the first failed.
    """

    model: str | None = None
    device: str | None = None
    dtype: str | None = None
    base_url: str | None = None
    concurrency: int = 8
    timeout: float = 300.0
    retries: int = 3

    def __post_init__(self) -> None:
        if self.base_url is None and not self.model:
            raise UsageError("give the id or the folder of a model")
        if self.base_url is not None:
            if not self.base_url.startswith(("http://", "https://")):
                raise UsageError(f"--base-url must begin with http:// or https://, not {self.base_url!r}")
            if self.device or self.dtype:
                raise UsageError("a server has its own device: leave out --device and --dtype")
        if not 1 <= self.concurrency <= 1024 or not self.timeout > 0 or not 0 <= self.retries <= 20:
            raise UsageError("concurrency must be 1 to 1024, the time-out above 0 and retries 0 to 20")

    def __str__(self) -> str:
        return self.model or str(self.base_url)
