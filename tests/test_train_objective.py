"""The training objective: who sees whom against a table written by hand, noise, losses, accumulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from derender.model.align import anchors
from derender.train.dataset import Chunk, NoiseConfig, Region, make_chunk
from derender.train.objective import collate, extra_candidates, sums_of, visibility, weights_of
from model_fixtures import tiny_decoder, tiny_prefix, tiny_vocab


def region(text: str = "abc defg", seed: int = 0) -> Region:
    vocab = tiny_vocab()
    prefix = tiny_prefix(text, seed=seed, lines=1)
    target = np.array(vocab.encode(text), np.int64)
    return Region(prefix, target, np.array(anchors(prefix.draft_D.tolist(), target.tolist())))


def chunk_with(blocks: tuple[int, ...], full: float, seed: int, text: str = "abc defg") -> Chunk:
    noise = NoiseConfig(full=full, blocks=blocks, wrong=0.0, no_draft=0.0, reach_columns=12.0)
    core = tiny_decoder().core_ids.numpy()
    return make_chunk(region(text), np.random.default_rng(seed), tiny_vocab(), core, noise)


def test_visibility_matches_a_table_written_by_hand() -> None:
    """Three tokens, blocks of two starting at the first token: rows bos a b c | a b c . | the same again, where c and
    the end of text share the second block; prefix columns aside."""
    model = tiny_decoder()
    chunk = next(
        c
        for seed in range(50)
        if (c := chunk_with((2,), 1.0, seed, "abc")).block[0].tolist() == [0, 0, 1, 1] == c.block[1].tolist()
    )
    batch = collate([chunk], model.core_index, 0)
    seen = ~visibility(batch, 12.0, 20.0).isinf()[0, :, len(chunk.position) :].numpy()
    expected = """
        1000 0000 0000
        1100 0000 0000
        1110 0000 0000
        1111 0000 0000
        1000 1100 0000
        1000 1100 0000
        1110 0011 0000
        1110 0011 0000
        1000 0000 1100
        1000 0000 1100
        1110 0000 0011
        1110 0000 0011
    """
    rows = [[c == "1" for c in line.replace(" ", "")] for line in expected.split("\n") if line.strip()]
    assert seen.tolist() == rows


def test_prefix_is_seen_within_reach_only() -> None:
    model = tiny_decoder()
    batch = collate([chunk_with((4,), 1.0, 0, "abcdefgh ijklmnop qrstuvwx")], model.core_index, 0)
    d = visibility(batch, 5.0, 20.0)[0][:, : batch.position.shape[1]]
    far = (batch.position[0][None] - batch.center[0][:, None]).abs()
    assert (d.isinf() == (far > 5.0)).all() and torch.equal(d[~d.isinf()], far[~d.isinf()])


def test_noisy_streams_are_complements_unless_masked_whole() -> None:
    for seed in range(10):
        c = chunk_with((4,), 0.0, seed, "abc defg hijk lmno")
        n = len(c.masked[0])
        assert (c.masked[0] ^ c.masked[1][:n]).all()
        assert (c.noisy[0][~c.masked[0]] == c.truth[0][~c.masked[0]]).all()
    assert chunk_with((4,), 1.0, 0).masked[0].all()


def test_windows_start_anywhere() -> None:
    starts = {int((chunk_with((8,), 1.0, s, "abc defg hijk lmno").block[0] == 0).sum()) for s in range(60)}
    assert starts == set(range(1, 9))


def test_end_of_text_fills_the_last_block_and_next_token_loss_counts_it_once() -> None:
    vocab = tiny_vocab()
    c = chunk_with((8,), 1.0, 1)
    assert (c.truth[0][len("abc defg") :] == vocab.eos_id).all()
    assert (c.next == vocab.eos_id).sum() == 1


def test_long_targets_are_cut_and_only_their_end_has_an_end() -> None:
    text = "abcdefg " * 40
    noise = NoiseConfig(chunk=64, no_draft=0.0)
    core, vocab = tiny_decoder().core_ids.numpy(), tiny_vocab()
    r = region(text)
    for seed in range(20):
        c = make_chunk(r, np.random.default_rng(seed), vocab, core, noise)
        assert len(c.clean) == 65
        assert c.next[-1] in (-1, vocab.eos_id)


def test_same_seed_same_chunk() -> None:
    a, b = (chunk_with((8, 16), 0.5, 9, "abc defg hijk") for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(a.noisy, b.noisy, strict=True))


def test_accumulation_gives_the_gradient_of_one_batch() -> None:
    model = tiny_decoder()
    chunks = [chunk_with((4,), 0.0, s, t) for s, t in enumerate(("abc", "abc defg hijk", "lmno", "pq rst uvw"))]

    def gradient(groups: list[list[Chunk]]) -> torch.Tensor:
        model.zero_grad()
        extra = extra_candidates(chunks, model.core_index)
        batches = [collate(g, model.core_index, 0, extra) for g in groups]
        masked, nxt = (sum(weights_of(b)[k] for b in batches) for k in range(2))
        for b in batches:
            s = sums_of(model, b, 0)
            (0.5 * (s.masked / masked + s.next / nxt)).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    whole, parts = gradient([chunks]), gradient([chunks[:1], chunks[1:]])
    assert torch.allclose(whole, parts, atol=1e-4 * float(whole.abs().max()))


def test_certainty_term_counts_correct_predictions_only() -> None:
    model = tiny_decoder()
    batch = collate([chunk_with((4,), 1.0, 0)], model.core_index, 0)
    s = sums_of(model, batch, 0, certainty=True)
    assert (s.entropy.item() > 0) == (s.masked_right > 0)
    assert sums_of(model, batch, 0).entropy.item() == 0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_draft_can_be_withheld(share: float) -> None:
    noise = NoiseConfig(no_draft=share)
    c = make_chunk(region(), np.random.default_rng(0), tiny_vocab(), tiny_decoder().core_ids.numpy(), noise)
    assert (c.clean_draft == 0).all() == bool(share)
