"""Pictures to visual tokens: the Qwen2-VL vision transformer of the transformers package, and our patch merger.

The transformer's own merger is taken out, as the checkpoint has none; `vision_abstractor` merges 2×2 patches into the
decoder's width instead (LayerNorm, Linear, GELU, Linear). Names of modules are those of the checkpoint's tensors. Does
not resize pictures (images.py).

Legend: N patches of all pictures, F numbers a patch, M visual tokens, D decoder width.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from derender.errors import MissingExtraError
from derender.mineru.config import VisionShape


class PatchMerger(nn.Module):
    """`vision_abstractor.projection`: merge² neighbouring patches become one token of the decoder's width."""

    def __init__(self, c: VisionShape, width: int) -> None:
        super().__init__()
        self.merged = c.width * c.merge**2
        self.ln_q = nn.LayerNorm(c.width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(self.merged, self.merged), nn.GELU(), nn.Linear(self.merged, width))

    def forward(self, x_NC: Tensor) -> Tensor:
        return self.mlp(self.ln_q(x_NC).view(-1, self.merged))


class Abstractor(nn.Module):
    def __init__(self, c: VisionShape, width: int) -> None:
        super().__init__()
        self.projection = PatchMerger(c, width)

    def forward(self, x_NC: Tensor) -> Tensor:
        return self.projection(x_NC)


def make_vision_model(c: VisionShape) -> Any:
    """The transformers package's vision transformer without its merger. Raises MissingExtraError."""
    try:
        from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
        from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel
    except ImportError as error:
        raise MissingExtraError(
            f"MinerU-Diffusion needs the transformers package ({error}): pip install 'derender[torch]'"
        ) from error
    config = Qwen2VLVisionConfig(
        depth=c.depth,
        embed_dim=c.width,
        hidden_size=c.width,  # the width of the merger that is taken out
        hidden_act=c.activation,
        mlp_ratio=c.mlp_ratio,
        num_heads=c.heads,
        in_channels=c.channels,
        patch_size=c.patch,
        spatial_merge_size=c.merge,
        temporal_patch_size=c.temporal_patch,
    )
    model: Any = Qwen2VisionTransformerPretrainedModel._from_config(config)
    model.merger = nn.Identity()
    return model


def visual_tokens(vision_model: Any, abstractor: Abstractor, pixels_NF: Tensor, grid: Tensor) -> Tensor:
    """(M, D) visual tokens of all pictures, one after the other. grid: (pictures, 3) patches in time, height, width."""
    seen = vision_model(pixels_NF.to(vision_model.get_dtype()), grid).last_hidden_state
    return abstractor(seen)
