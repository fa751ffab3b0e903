"""A tiny MinerU-Diffusion checkpoint with the real file names, config keys and tensor names, and random weights.

The tokenizer is bytes and the special tokens that the tasks need. `REFERENCE` names what the tests compare with: parts
of the transformers package put together independently of our code.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

SPECIALS = (
    "<|endoftext|> <|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|image_pad|> <|MASK|> <|box_start|> "
    "<|box_end|> <|ref_start|> <|ref_end|> <|rotate_up|> <|rotate_right|> <|rotate_down|> <|rotate_left|> <fcel> "
    "<ecel> <lcel> <ucel> <xcel> <nl>"
).split()
ID = {token: 256 + n for n, token in enumerate(SPECIALS)}
VOCABULARY = 288  # a few ids more than there are tokens, as in the real checkpoint
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VISION = {
    "model_type": "qwen2_vl",
    "depth": 2,
    "embed_dim": 32,
    "hidden_size": 64,
    "hidden_act": "quick_gelu",
    "mlp_ratio": 4,
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
TEXT = {
    "model_type": "sdar",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
}
CONFIG = {
    "architectures": ["MinerUDiffusionForConditionalGeneration"],
    "model_type": "mineru_diffusion",
    "auto_map": {"AutoModel": "modeling_mineru_diffusion.MinerUDiffusionForConditionalGeneration"},
    "image_token_id": ID["<|image_pad|>"],
    "mask_token_id": ID["<|MASK|>"],
    "vision_projector_type": "patch_merger2x",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vision_config": VISION,
    "text_config": TEXT,
}
PREPROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "min_pixels": 4 * 28 * 28,
    "max_pixels": 2048 * 28 * 28,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "rescale_factor": 1 / 255,
    "resample": 3,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


class Reference(nn.Module):
    """Qwen2-VL vision, its merger taken out, a merger written here, and Qwen3: all of transformers but the merger."""

    def __init__(self) -> None:
        super().__init__()
        vision = {k: v for k, v in VISION.items() if k != "model_type"}
        text = {k: v for k, v in TEXT.items() if k not in ("model_type", "rope_theta", "rope_scaling")}
        self.vision_model = Qwen2VisionTransformerPretrainedModel._from_config(Qwen2VLVisionConfig(**vision))
        self.vision_model.merger = nn.Identity()
        projection = nn.Module()
        projection.ln_q = nn.LayerNorm(32, eps=1e-6)
        projection.mlp = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 64))
        self.vision_abstractor = nn.Module()
        self.vision_abstractor.projection = projection
        rope = {"rope_type": "default", "rope_theta": TEXT["rope_theta"]}
        self.language_model = Qwen3ForCausalLM._from_config(Qwen3Config(**text, rope_parameters=rope))

    def inputs(self, ids: list[int], pixels: Tensor, grid: tuple[int, int, int]) -> Tensor:
        """(1, R, D) embeddings of a prompt."""
        seen = self.vision_model(pixels, torch.tensor([grid])).last_hidden_state
        p = self.vision_abstractor.projection
        tokens = p.mlp(p.ln_q(seen).reshape(len(seen) // 4, 128))
        x = self.language_model.get_input_embeddings()(torch.tensor(ids))
        return torch.masked_scatter(x, (torch.tensor(ids) == CONFIG["image_token_id"])[:, None], tokens)[None]

    @torch.no_grad()
    def logits(self, prompt: Tensor, text: list[int], block: int = 32) -> Tensor:
        """(len(text), V) from one forward over everything, without a cache, under the block-causal mask aligned to the
        prompt's end."""
        x = torch.cat([prompt, self.language_model.get_input_embeddings()(torch.tensor(text))[None]], 1)
        p, n = prompt.shape[1], x.shape[1]
        place = torch.arange(n)
        number = torch.div(place - p, block, rounding_mode="floor")  # blocks of the prompt are counted below 0
        mask = (number[None] <= number[:, None])[None, None]
        out = self.language_model(
            inputs_embeds=x, attention_mask=torch.zeros(1, 1, n, n).masked_fill(~mask, -torch.inf), use_cache=False
        )
        return out.logits[0, p:]


def make_reference(seed: int = 0, sharp: float = 7.0) -> Reference:
    """Random weights; sharp: scale of the output product, so that confidences lie all over 0 to 1."""
    torch.manual_seed(seed)
    model = Reference().eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "q_norm" in name or "k_norm" in name:
                value.uniform_(1.5, 3)  # attention that picks out places, so that masked rows differ
            elif "norm" in name or "ln_q" in name:
                value.uniform_(0.7, 1.3) if name.endswith("weight") else value.uniform_(-0.2, 0.2)
            else:
                value.normal_(0, 1 / value.shape[-1] ** 0.5 if value.dim() > 1 else 0.1)
        model.language_model.get_input_embeddings().weight.normal_(0, 0.4)
        head = model.language_model.lm_head.weight.normal_(0, sharp / 64**0.5)
        head[ID["<|endoftext|>"]] *= 1.2  # so that some texts end
        head[ID["<|im_end|>"]] *= 1.2
    return model


def write_checkpoint(folder: Path, model: Reference, shards: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    names = sorted(weights)
    if shards == 1:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        mapping = {}
        for n in range(shards):
            file = f"model-{n + 1:05}-of-{shards:05}.safetensors"
            mine = names[n::shards]
            save_file({k: weights[k] for k in mine}, folder / file, metadata={"format": "pt"})
            mapping |= dict.fromkeys(mine, file)
        write(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": mapping})
    write(folder / "config.json", CONFIG)
    write(folder / "preprocessor_config.json", PREPROCESSOR)
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = {char: n for n, char in enumerate(sorted(ByteLevel.alphabet()))}
    added = [
        {
            "id": ID[token],
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in SPECIALS
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    write(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": level,
            "post_processor": level,
            "decoder": level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": "",
                "end_of_word_suffix": "",
                "fuse_unk": False,
                "byte_fallback": False,
                "vocab": vocabulary,
                "merges": [],
            },
        },
    )
    write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "unk_token": None,
            "bos_token": None,
            "add_prefix_space": False,
            "model_max_length": 8192,
            "chat_template": TEMPLATE,
        },
    )


def write(path: Path, data: object) -> None:
    path.write_text(json.dumps(data))


def change(path: Path, **keys: object) -> None:
    """Changes keys of a JSON file; None removes one."""
    data = json.loads(path.read_text())
    for key, value in keys.items():
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value
    write(path, data)
