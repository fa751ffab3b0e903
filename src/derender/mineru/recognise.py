"""MinerU-Diffusion in this process as a recogniser (recognise.types.Recogniser): text, formulas, tables and layout.

Requests are pulled as the engine has room, so crops of several pages share a batch and pictures are dropped early. Each
call runs an engine of its own on the one runtime, so a page can be laid out while crops of earlier ones wait. Does not
find models (store.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from derender.decode.config import DecodeConfig
from derender.decode.engine import DecodeResult, Engine
from derender.errors import DerenderError
from derender.ingest.blank import is_blank
from derender.mineru.answers import fill
from derender.mineru.images import Patcher, prepare
from derender.mineru.options import LAYOUT_PROMPT
from derender.mineru.prompts import Prompts
from derender.recognise.types import Request, Result, Task, TokenOut

if TYPE_CHECKING:
    from derender.mineru.runtime import MineruPrefix, MineruSeq

BLOCK_MODE = DecodeConfig(mode="block")


class MineruRecogniser:
    """Not thread-safe. decode: mode block, the only one the weights were trained for; max_batch: crops read together.

    Raises UsageError for another mode or an absent device, ModelError for a folder that does not fit, and
    MissingExtraError.
    """

    def __init__(
        self,
        folder: Path,
        decode: DecodeConfig = BLOCK_MODE,
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_batch: int = 16,
        layout_prompt: str = LAYOUT_PROMPT,
    ) -> None:
        from derender.mineru.checkpoint import load_model, place
        from derender.mineru.config import read_config
        from derender.mineru.runtime import MineruRuntime

        self.placement = place(device, dtype)
        config = read_config(folder)
        # Small files first: what is wrong in them is said before gigabytes are read.
        self.prompts = Prompts(folder, config, layout_prompt)
        self.patcher = Patcher(folder, config.vision)
        model = load_model(folder, self.placement)
        self.decode, self.max_batch, self.merge = decode, max_batch, config.vision.merge
        self.runtime = MineruRuntime(
            model, self.prompts.end_ids, self.prompts.known, decode.block, decode.max_tokens, name=folder.name
        )
        decode.check_against(self.runtime.spec)

    @property
    def name(self) -> str:
        return f"{self.runtime.spec.name} ({self.placement})"

    def recognise(self, requests: Iterable[Request]) -> Iterator[Result]:
        """One Result per Request, as they finish. A request that cannot be read gives a failed Result."""
        tasks: dict[str, Task] = {}
        done: list[Result] = []
        engine: Engine[MineruPrefix, MineruSeq] = Engine(self.runtime, self.decode, max_batch=self.max_batch)

        def prefixes() -> Iterator[tuple[str, MineruPrefix]]:
            for request in requests:
                try:
                    if request.task != "layout" and is_blank(request.image):
                        done.append(Result(request.id))  # no ink: nothing may be invented
                        continue
                    prefix = self._prefix(request)
                except (DerenderError, ValueError) as error:
                    done.append(Result(request.id, status="failed", errors=[f"the crop cannot be read: {error}"]))
                    continue
                tasks[request.id] = request.task
                yield request.id, prefix

        for decoded in engine.run(prefixes()):
            yield from done
            done.clear()
            yield self._result(decoded, tasks.pop(str(decoded.id)))
        yield from done

    def _prefix(self, request: Request) -> MineruPrefix:
        from derender.mineru.runtime import MineruPrefix

        patches = self.patcher(prepare(request.image, request.task, request.lines))
        ids = self.prompts.ids(request.task, patches.visual_tokens(self.merge))
        return MineruPrefix(ids, patches.pixels_NF, patches.grid)

    def _result(self, decoded: DecodeResult, task: Task) -> Result:
        result = Result(str(decoded.id), stats=decoded.stats, errors=list(decoded.errors))
        result.status = "failed" if decoded.status == "cancelled" else decoded.status
        pieces = self.prompts.pieces(decoded.tokens)
        result.tokens = [
            TokenOut(text, c, s) for text, c, s in zip(pieces, decoded.confidences, decoded.steps, strict=True)
        ]
        if decoded.trace is not None:
            texts = self.prompts.pieces([e.token for e in decoded.trace])
            result.trace = [
                {"step": e.step, "position": e.position, "text": text, "confidence": e.confidence}
                for e, text in zip(decoded.trace, texts, strict=True)
            ]
        return fill(result, self.prompts.text(decoded.tokens), task)
