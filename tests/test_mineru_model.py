"""MinerU-Diffusion's network against parts of the transformers package: same logits, same text, however it is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch

from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.decode.protocol import Rows
from derender.mineru.checkpoint import Placement, load_model
from derender.mineru.config import BLOCK
from derender.mineru.decoder import block_spans, span_mask
from derender.mineru.images import Patcher, prepare
from derender.mineru.prompts import Prompts
from derender.mineru.runtime import MineruPrefix, MineruRuntime
from mineru_tiny import ID, VOCABULARY, make_reference, write_checkpoint

MASK = ID["<|MASK|>"]
ENDS = (ID["<|endoftext|>"], ID["<|im_end|>"])
SIZES = ((70, 190), (28, 60), (120, 120), (31, 400))
THRESHOLDS = (0.0, 0.5, 0.6, 0.75, 0.85, 0.9, 0.95, 0.97, 0.99, 1.0)


class Tiny:
    """A reference, our model loaded from its checkpoint, and four prompts of different lengths."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reference = folder, make_reference()
        write_checkpoint(folder, self.reference)
        self.model = load_model(folder, Placement("cpu", "float32"))
        self.prompts = Prompts(folder, self.model.config)
        patcher = Patcher(folder, self.model.config.vision)
        rng = np.random.default_rng(0)
        self.prefixes = []
        for task, (height, width) in zip(("text", "table", "layout", "formula"), SIZES, strict=True):
            patches = patcher(prepare(rng.integers(0, 255, (height, width, 3), dtype=np.uint8), "text"))
            ids = self.prompts.ids(task, patches.visual_tokens(2))
            self.prefixes.append(MineruPrefix(ids, patches.pixels_NF, patches.grid))

    def runtime(self) -> MineruRuntime:
        return MineruRuntime(self.model, self.prompts.end_ids, self.prompts.known, max_tokens=128)

    def inputs(self, n: int) -> torch.Tensor:
        p = self.prefixes[n]
        with torch.no_grad():
            return self.reference.inputs(list(p.ids), torch.from_numpy(p.pixels_NF), p.grid)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"))


def all_logits(runtime: MineruRuntime, row) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Logits over the whole vocabulary, the mask's too."""
    return row.window_WK.head.logits(row.window_WK.at_W).numpy()


def test_prompts_have_unequal_lengths_and_their_blocks_end_where_they_end(tiny: Tiny) -> None:
    lengths = [len(p.ids) for p in tiny.prefixes]
    assert len(set(lengths)) == 4 and any(n % BLOCK for n in lengths)
    for n in (1, 31, 32, 33, 64, 70):
        place = torch.arange(n)
        number = torch.div(place - n, BLOCK, rounding_mode="floor")
        assert torch.equal(span_mask(block_spans(n, BLOCK), n), number[None] <= number[:, None])


@pytest.mark.parametrize("batch", [1, 4])
def test_logits_equal_the_reference_prefilled_and_cached(tiny: Tiny, batch: int) -> None:
    rng = np.random.default_rng(1)
    texts = rng.integers(0, 256, (4, 3 * BLOCK))
    for start in range(0, 4, batch):
        numbers = range(start, start + batch)
        runtime = tiny.runtime()
        seqs = runtime.prefill([tiny.prefixes[n] for n in numbers])
        for block in range(3):
            windows = [
                np.where(rng.random(BLOCK) < 0.5, MASK, texts[n, block * BLOCK : (block + 1) * BLOCK]) for n in numbers
            ]
            rows = []
            for seq, n, window in zip(seqs, numbers, windows, strict=True):
                before = texts[n, (block - 1) * BLOCK : block * BLOCK].tolist() if block else [runtime.spec.bos_id]
                rows.append(Rows(seq, commit=before, window=window.tolist()))
            for answer, n, window in zip(runtime.forward(rows), numbers, windows, strict=True):
                text = [*texts[n, : block * BLOCK].tolist(), *window.tolist()]
                wanted = tiny.reference.logits(tiny.inputs(n), text)[-BLOCK:].numpy()
                assert np.abs(all_logits(runtime, answer) - wanted).max() < 1e-4
                assert np.abs(wanted).max() > 5, "logits that are all small would prove little"
        assert [seq.length for seq in seqs] == [1 + 2 * BLOCK] * batch


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_numbers_stay_close_and_are_used_throughout(tiny: Tiny, dtype: str) -> None:
    model = load_model(tiny.folder, Placement("cpu", dtype))
    runtime = MineruRuntime(model, tiny.prompts.end_ids, tiny.prompts.known, max_tokens=128)
    seqs = runtime.prefill(tiny.prefixes)
    assert {str(p.dtype) for p in model.parameters()} == {f"torch.{dtype}"}
    assert {str(seq.cache._data.dtype) for seq in seqs} == {f"torch.{dtype}"}
    window = [7, MASK] * (BLOCK // 2)
    rows = [Rows(seq, commit=[runtime.spec.bos_id], window=window) for seq in seqs]
    for n, answer in enumerate(runtime.forward(rows)):
        wanted = tiny.reference.logits(tiny.inputs(n), window).numpy()
        difference = all_logits(runtime, answer) - wanted
        assert np.abs(difference).mean() < (0.2 if dtype == "bfloat16" else 0.05) * np.abs(wanted).mean()


def plain_loop(tiny: Tiny, n: int, threshold: float, max_tokens: int) -> list[int]:
    """The published algorithm on the reference: every step one forward over everything, nothing cached, greedy."""
    prompt, text = tiny.inputs(n), []
    while len(text) <= max_tokens:
        block = [MASK] * BLOCK
        while True:
            ends = [i for i, token in enumerate(block) if token in ENDS]
            stop = ends[0] if ends else BLOCK
            open_places = [i for i in range(stop) if block[i] == MASK]
            if not open_places:
                break
            p = tiny.reference.logits(prompt, [*text, *block])[-BLOCK:].double().softmax(-1)
            p[:, MASK] = 0
            p[:, 256 + len(ID) :] = 0
            best, token = p.max(-1)
            sure = [i for i in open_places if best[i] > threshold]
            for i in sure or [max(open_places, key=lambda i: float(best[i]))]:
                block[i] = int(token[i])
        text += block[:stop]
        if ends:
            break
    return text[:max_tokens]


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_text_is_that_of_a_plain_uncached_loop(tiny: Tiny, threshold: float) -> None:
    config = DecodeConfig(mode="block", rule=f"threshold:{threshold}", max_tokens=40, repetition_guard=False)
    engine = Engine(tiny.runtime(), config, max_batch=4)
    results = {r.id: r for r in engine.run(enumerate(tiny.prefixes))}
    first = THRESHOLDS.index(threshold) % 2  # the loop is slow: two of the four prompts at each threshold
    for n in (first, first + 2):
        assert results[n].tokens == plain_loop(tiny, n, threshold, 40), n
        assert results[n].tokens and MASK not in results[n].tokens


def test_thresholds_make_different_numbers_of_forwards(tiny: Tiny) -> None:
    """Otherwise the test above would try the same thing ten times."""
    counts = []
    for threshold in THRESHOLDS:
        config = DecodeConfig(mode="block", rule=f"threshold:{threshold}", max_tokens=40, repetition_guard=False)
        engine = Engine(tiny.runtime(), config, max_batch=4)
        counts.append(sum(r.stats.forwards for r in engine.run(enumerate(tiny.prefixes[:2]))))
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("max_batch", [1, 2, 3])
def test_batches_of_unequal_prompts_give_the_text_of_one_by_one(tiny: Tiny, max_batch: int) -> None:
    config = DecodeConfig(mode="block", rule="threshold:0.9", max_tokens=40, repetition_guard=False)

    def texts(batch: int) -> dict[object, list[int]]:
        return {r.id: r.tokens for r in Engine(tiny.runtime(), config, max_batch=batch).run(enumerate(tiny.prefixes))}

    assert texts(max_batch) == texts(4)


def test_the_overlapped_commit_saves_a_forward_a_block_and_changes_nothing(tiny: Tiny) -> None:
    def run(overlap: bool) -> tuple[dict[object, list[int]], int]:
        config = DecodeConfig(
            mode="block", rule="schedule:linear:4", max_tokens=96, repetition_guard=False, overlap=overlap
        )
        engine = Engine(tiny.runtime(), config, max_batch=1)
        found = {r.id: r.tokens for r in engine.run([(0, tiny.prefixes[0])])}
        return found, engine.stats.forwards

    (with_ride, few), (without, many) = run(True), run(False)
    assert with_ride == without
    blocks = -(-(len(with_ride[0]) + 1) // BLOCK)
    assert many - few == blocks - 1
    assert VOCABULARY > 256 + len(ID)
