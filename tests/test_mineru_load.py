"""Loading a MinerU-Diffusion folder: all fits or an error names what does not; running out of memory is survived."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch
from safetensors.torch import load_file, save_file

from derender.decode.config import DecodeConfig
from derender.decode.engine import Engine
from derender.errors import CapacityError, ModelError, UsageError
from derender.mineru.checkpoint import Placement, load_model, place, weight_bytes
from derender.mineru.config import MineruConfig, read_config
from derender.mineru.decoder import MineruDecoder
from derender.mineru.images import Patcher, prepare
from derender.mineru.model import MineruModel
from derender.mineru.prompts import Prompts
from derender.mineru.runtime import MineruPrefix, MineruRuntime
from mineru_tiny import ID, TEMPLATE, TEXT, change, make_reference, write_checkpoint

CPU = Placement("cpu", "float32")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("good"), make_reference())


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors")


NORM = "language_model.model.layers.1.self_attn.q_norm.weight"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda w: w.pop("language_model.lm_head.weight"), "lack language_model.lm_head.weight"),
        (
            lambda w: w.update({"vision_model.merger.ln_q.weight": torch.ones(32)}),
            "hold vision_model.merger.ln_q.weight",
        ),
        (lambda w: w.update({NORM: torch.ones(8)}), f"{NORM} has shape (8,), and config.json makes it (16,)"),
        (lambda w: w.update({NORM: torch.ones(16, dtype=torch.int32)}), f"{NORM} holds I32"),
    ],
    ids=["missing", "unexpected", "shape", "kind"],
)
def test_a_tensor_that_does_not_fit_is_named(folder: Path, edit: Callable, said: str) -> None:
    edit_weights(folder, edit)
    with pytest.raises(ModelError) as error:
        load_model(folder, CPU)
    assert said in str(error.value)


def test_every_tensor_is_the_files_and_none_is_made(folder: Path) -> None:
    model = load_model(folder, CPU)
    weights = load_file(folder / "model.safetensors")
    mine = dict(model.named_parameters())
    assert set(mine) == set(weights)
    assert all(torch.equal(mine[name].detach(), weights[name]) for name in weights)
    assert sum(p.numel() for p in mine.values()) == model.config.parameters


def test_shards_give_the_same_model(folder: Path, tmp_path: Path) -> None:
    sharded = write_checkpoint(tmp_path / "shards", make_reference(), shards=3)
    one, many = (dict(load_model(f, CPU).named_parameters()) for f in (folder, sharded))
    assert all(torch.equal(one[name], many[name]) for name in one)
    (sharded / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelError, match="has no model-00002-of-00003.safetensors"):
        load_model(sharded, CPU)


def test_cut_off_weights_are_damaged(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError, match="damaged or incomplete"):
        load_model(folder, CPU)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model_type": "qwen2_vl"}, "model_type is 'qwen2_vl'"),
        ({"vision_projector_type": "mlp2x_gelu"}, "vision_projector_type is 'mlp2x_gelu'"),
        ({"vision_abstractor_config": {"projection_type": "pm3x"}}, "projection_type is 'pm3x'"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings is True"),
        ({"mask_token_id": None}, "has no mask_token_id"),
        ({"mask_token_id": 9999}, "mask_token_id 9999 lies outside"),
        ({"text_config": {**TEXT, "attention_bias": True}}, "attention_bias is True"),
        ({"text_config": {**TEXT, "rope_scaling": {"type": "yarn", "factor": 4.0}}}, "rope_scaling is"),
        ({"text_config": {**TEXT, "head_dim": "16"}}, "head_dim must be a whole number"),
        ({"text_config": None}, "has no text_config"),
    ],
)
def test_a_configuration_that_this_code_cannot_compute_is_refused(folder: Path, keys: dict, said: str) -> None:
    change(folder / "config.json", **keys)
    with pytest.raises(ModelError) as error:
        load_model(folder, CPU)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "preprocessor_config.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name.replace(".", r"\.")):
        config = read_config(folder)
        Prompts(folder, config)
        Patcher(folder, config.vision)
        load_model(folder, CPU)


def test_a_mask_id_that_is_not_the_tokenizers_is_named(folder: Path) -> None:
    change(folder / "config.json", mask_token_id=ID["<nl>"])
    with pytest.raises(ModelError) as error:
        Prompts(folder, read_config(folder))
    assert f"<|MASK|> is {ID['<|MASK|>']} in the tokenizer, and mask_token_id in config.json is {ID['<nl>']}" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "has no chat template"),
        ("{{ messages[0]['content'] ", "does not fit"),
        (TEMPLATE.replace("<|image_pad|>", ""), "writes the image token 261 0 times"),
        (TEMPLATE.replace("<|image_pad|>", "<|image_pad|><|image_pad|>"), "2 times"),
        (TEMPLATE.replace("{{ c['text'] }}", ""), "leaves out"),
        (TEMPLATE.replace("{% if add_generation_prompt %}", "{% if false %}"), "does not open the answer"),
        (TEMPLATE + "<|MASK|>", "does not open the answer"),
    ],
    ids=["none", "broken", "no image", "two images", "no task", "no answer", "tail"],
)
def test_a_chat_template_that_does_not_fit_is_named(folder: Path, template: str | None, said: str) -> None:
    change(folder / "tokenizer_config.json", chat_template=template)
    with pytest.raises(ModelError) as error:
        Prompts(folder, read_config(folder))
    assert said in str(error.value)


def test_the_prompt_is_the_templates_with_the_picture_spread_out(folder: Path) -> None:
    prompts = Prompts(folder, read_config(folder))
    ids = prompts.ids("table", 5)
    assert prompts.text(ids) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|vision_start|>"
        + "<|image_pad|>" * 5
        + "<|vision_end|>\nTable Recognition:<|im_end|>\n<|im_start|>assistant\n"
    )
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace("assistant\n{%", "assistant {%"))
    assert Prompts(folder, read_config(folder)).ids("text", 1) != prompts.ids("text", 1), "the jinja file rules"


def test_pictures_are_padded_enlarged_turned_and_patched(folder: Path) -> None:
    patcher = Patcher(folder, read_config(folder).vision)
    line = np.zeros((10, 1200, 3), np.uint8)
    padded = prepare(line, "text")
    assert padded.shape == (28, 1400, 3)  # 24 rows after padding to 50:1, then 28
    assert prepare(line, "layout").shape == (1036, 1036, 3)
    assert patcher(prepare(line, "layout")).visual_tokens(2) == 37 * 37
    big = patcher(np.zeros((3000, 3000, 3), np.uint8))
    assert 1900 < big.visual_tokens(2) <= 2048
    assert patcher(np.zeros((28, 28, 3), np.uint8)).visual_tokens(2) == 4
    sideways = np.zeros((60, 30, 3), np.uint8)
    sideways[:10] = 255  # text that runs down begins at the top
    down = ((30.0, 0.0), (30.0, 60.0), (0.0, 60.0), (0.0, 0.0))
    upright = prepare(sideways, "text", (down,))
    assert upright.shape == (30, 60, 3) and upright[:, :10].min() == 255
    assert prepare(sideways, "text").shape == (60, 30, 3)


def test_devices_that_are_not_here_are_refused_and_the_choice_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(place()) == "cpu, float32"
    with pytest.raises(UsageError, match="no CUDA device"):
        place("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert str(place()) == "cuda, bfloat16"
    assert str(place("cpu", "bfloat16")) == "cpu, bfloat16"


def test_parameters_and_memory_of_the_published_model() -> None:
    config = MineruConfig()
    with torch.device("meta"):
        model = MineruModel(config)
    assert config.parameters == sum(p.numel() for p in model.parameters()) == 2_699_633_152
    assert config.cache_bytes(2) == 28 * 2 * 8 * 128 * 2
    page = (Path(__file__).parents[1] / "docs/mineru.md").read_text("utf-8")
    assert f"{config.parameters:,} parameters" in page
    for size, dtype, names in ((2, "bfloat16", "bfloat16, float16"), (4, "float32", "float32")):
        weights, token = weight_bytes(config, dtype) / 2**30, config.cache_bytes(size)
        crop, longest = 200 * token / 2**20, (2088 + 4096) * token / 2**20
        row = f"| {names} | {weights:.2f} GiB | {token // 1024} KiB | {crop:.0f} MiB | {longest:.0f} MiB |"
        assert row in page, "docs/mineru.md states other numbers than the shapes give"


def test_weights_that_memory_cannot_hold_are_refused_with_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derender.mineru.checkpoint._free_memory", lambda: 1000)
    load_model(folder, CPU)  # in the file's own numbers the weights stay in the file
    with pytest.raises(ModelError, match="the weights alone need .* GiB of memory"):
        load_model(folder, Placement("cpu", "bfloat16"))


class Small:
    """Makes the decoder run out of memory at more than `room` sequences in one forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, error: RuntimeError) -> None:
        self.room = room
        self.sizes: list[int] = []
        real = MineruDecoder.forward

        def forward(model: MineruDecoder, x: torch.Tensor, segments: list) -> torch.Tensor:
            out = real(model, x, segments)  # the caches have been written by the time that memory runs out
            if len(segments) > self.room:
                raise error
            self.sizes.append(len(segments))
            return out

        monkeypatch.setattr(MineruDecoder, "forward", forward)


def run_four(folder: Path) -> dict[object, tuple[list[int], str, list[str]]]:
    model = load_model(folder, CPU)
    prompts = Prompts(folder, model.config)
    patcher = Patcher(folder, model.config.vision)
    rng = np.random.default_rng(2)
    prefixes = []
    for height in (30, 60, 90, 120):
        patches = patcher(rng.integers(0, 255, (height, 90, 3), dtype=np.uint8))
        prefixes.append(MineruPrefix(prompts.ids("text", patches.visual_tokens(2)), patches.pixels_NF, patches.grid))
    runtime = MineruRuntime(model, prompts.end_ids, prompts.known, max_tokens=64)
    config = DecodeConfig(mode="block", rule="threshold:0.6", max_tokens=40, repetition_guard=False)
    return {r.id: (r.tokens, r.status, r.errors) for r in Engine(runtime, config).run(enumerate(prefixes))}


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
    ids=["cuda", "mps", "cpu"],
)
def test_when_memory_runs_out_the_batch_shrinks_and_the_text_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    free = run_four(folder)
    small = Small(monkeypatch, 1, error)
    assert run_four(folder) == free
    assert set(small.sizes) == {1}


def test_what_does_not_fit_alone_fails_with_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Small(monkeypatch, 0, torch.OutOfMemoryError("CUDA out of memory"))
    for _, status, errors in run_four(folder).values():
        assert status == "failed" and len(errors) == 1
        assert "does not fit into the memory of cpu" in errors[0] and "--device cpu" in errors[0]


def test_a_model_that_says_only_mask_ends_with_an_error(folder: Path) -> None:
    def edit(weights: dict[str, torch.Tensor]) -> None:
        head = weights["language_model.lm_head.weight"]
        norm = weights["language_model.model.norm.weight"]
        head.zero_()
        norm.zero_()

    model = load_model(folder, CPU)
    assert model.config.mask_id < model.config.text.vocabulary
    edit_weights(folder, edit)
    # All logits 0: the first id wins, and nothing is stuck. Ids before the mask are then pushed below it.
    weights = load_file(folder / "model.safetensors")
    weights["language_model.model.norm.weight"].fill_(1e-3)
    head = weights["language_model.lm_head.weight"]
    embedding = weights["language_model.model.embed_tokens.weight"]
    head[ID["<|MASK|>"]] = 100 * embedding[ID["<|MASK|>"]]
    for name in weights:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weights[name].zero_()  # rows keep their own embedding
    save_file(weights, folder / "model.safetensors")
    for tokens, status, errors in run_four(folder).values():
        assert tokens == [] and status == "failed"
        assert errors == ["a block cannot be filled: at all of its 32 open places the model's best token is the mask"]


def test_a_prompt_longer_than_the_model_has_room_for_is_refused(folder: Path) -> None:
    model = load_model(folder, CPU)
    model.config = replace(model.config, text=replace(model.config.text, max_positions=200))
    prompts = Prompts(folder, model.config)
    runtime = MineruRuntime(model, prompts.end_ids, prompts.known, max_tokens=100)
    prefix = MineruPrefix(prompts.ids("text", 4), np.zeros((16, 1176), np.float32), (1, 4, 4))
    with pytest.raises(ModelError, match="has room for 36"):
        runtime.prefill([prefix])
    assert issubclass(CapacityError, ModelError)
