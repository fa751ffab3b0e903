"""From ModelOptions to a recogniser: a model in this process, or a client of a server. Imports what is needed only."""

from __future__ import annotations

from derender.decode.config import DecodeConfig
from derender.errors import MissingExtraError
from derender.mineru.options import ModelOptions
from derender.recognise.types import Recogniser


def make_recogniser(options: ModelOptions, decode: DecodeConfig, batch: int = 16) -> Recogniser:
    """Raises ModelError where the model is not here or does not fit, UsageError for a mode it cannot decode in, and
    MissingExtraError. A server is asked for its model at once."""
    if options.base_url is not None:
        from derender.mineru.client import ServerRecogniser

        return ServerRecogniser(options, decode.max_tokens)
    from derender.mineru.recognise import MineruRecogniser
    from derender.mineru.store import find_model

    assert options.model is not None  # ModelOptions sees to it
    folder = find_model(options.model)
    if options.threads is not None:
        _set_threads(options.threads)
    return MineruRecogniser(
        folder,
        decode,
        device=options.device,
        dtype=options.dtype,
        max_batch=batch,
        layout_prompt=options.layout_prompt,
    )


def _set_threads(threads: int) -> None:
    """Of this process: torch has no other way."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("MinerU-Diffusion needs torch: pip install 'derender[torch]'") from error
    torch.set_num_threads(threads)
