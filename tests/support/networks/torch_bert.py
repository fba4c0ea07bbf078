# SPDX-License-Identifier: Apache-2.0
"""A small BERT in PyTorch, with the forms in which its mask reaches softmax."""

from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

FORMS: Final = ("added", "expanded", "filled", "conditions")
TOKENS, WORDS, HEADS, WIDTH = 12, 40, 2, 8


class Layer(nn.Module):  # type: ignore[misc]  # untyped base
    """Attention and two dense layers, with the normalisation behind each."""

    def __init__(self, form: str) -> None:
        super().__init__()
        features = HEADS * WIDTH
        self.form = form
        self.query, self.key, self.value, self.mix = (
            nn.Linear(features, features) for _ in range(4)
        )
        self.wide, self.narrow = nn.Linear(features, 32), nn.Linear(32, features)
        self.norms = nn.ModuleList(nn.LayerNorm(features) for _ in range(2))

    def forward(self, x: Any, mask: Any) -> Any:
        """Of (B, T, C), with what `Bert` makes of its mask."""
        b, t, c = x.shape
        q, k, v = (
            each(x).view(b, t, HEADS, WIDTH).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        if self.form == "conditions":
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            scores = q @ k.transpose(-1, -2) / WIDTH**0.5
            filled = self.form == "filled"
            scores = scores.masked_fill(mask, float("-inf")) if filled else scores + mask
            mixed = scores.softmax(-1) @ v
        x = self.norms[0](x + self.mix(mixed.transpose(1, 2).reshape(b, t, c)))
        return self.norms[1](x + self.narrow(functional.relu(self.wide(x))))


class Bert(nn.Module):  # type: ignore[misc]  # untyped base
    """Words and positions, two layers, and a dense layer for each token.

    Args:
        form: ``added``, ``expanded``: a number for each token, or for each query and token.
            ``filled``: scores are replaced. ``conditions``: PyTorch's own attention.
    """

    def __init__(self, form: str) -> None:
        super().__init__()
        features = HEADS * WIDTH
        self.form = form
        self.words, self.positions = nn.Embedding(WORDS, features), nn.Embedding(TOKENS, features)
        self.norm = nn.LayerNorm(features)
        self.layers = nn.ModuleList(Layer(form) for _ in range(2))
        self.last = nn.Linear(features, 10)

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """Of two (B, T) tensors of integers; the mask is 1 for tokens and 0 for padding."""
        x = self.norm(self.words(input_ids) + self.positions.weight[None])
        mask = self.prepared(attention_mask)
        for layer in self.layers:
            x = layer(x, mask)
        return self.last(x)

    def prepared(self, mask: Any) -> Any:
        """What the layers read."""
        row = mask[:, None, None, :]
        least = torch.finfo(torch.float32).min
        if self.form == "added":
            return (1.0 - row.to(torch.float32)) * least
        if self.form == "filled":
            return row == 0
        wide = row.expand(mask.shape[0], 1, TOKENS, TOKENS)
        if self.form == "conditions":
            return wide.to(torch.bool)
        inverted = 1.0 - wide.to(torch.float32)
        return inverted.masked_fill(inverted.to(torch.bool), least)
