"""The whole network of a checkpoint: vision transformer, merger, decoder, under the names of its tensors.

Built by checkpoint.load_model; what runs it is runtime.py.

Legend: N patches, F numbers a patch, R rows, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from derender.errors import ModelError
from derender.mineru.config import MineruConfig
from derender.mineru.decoder import MineruDecoder
from derender.mineru.vision import Abstractor, make_vision_model, visual_tokens


class MineruModel(nn.Module):
    def __init__(self, config: MineruConfig) -> None:
        super().__init__()
        self.config = config
        self.vision_model: Any = make_vision_model(config.vision)
        self.vision_abstractor = Abstractor(config.vision, config.text.width)
        self.language_model = MineruDecoder(config.text)

    @property
    def device(self) -> torch.device:
        return self.language_model.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.language_model.lm_head.weight.dtype

    def embed_prompt(self, ids_R: Tensor, pixels_NF: Tensor, grid: Tensor) -> Tensor:
        """(R, D) inputs of prompts, one after the other: token embeddings, with visual tokens where the image id
        stands. grid: (pictures, 3) patches in time, height and width. Raises ModelError where counts differ.
        """
        x_RD = self.language_model.embed(ids_R)
        seen = visual_tokens(self.vision_model, self.vision_abstractor, pixels_NF, grid)
        at = ids_R == self.config.image_id
        if int(at.sum()) != len(seen):
            raise ModelError(f"the prompts have {int(at.sum())} places for visual tokens and the pictures {len(seen)}")
        x_RD[at] = seen.to(x_RD.dtype)
        return x_RD
