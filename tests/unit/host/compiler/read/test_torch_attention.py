# SPDX-License-Identifier: Apache-2.0
"""Attention of any number of axes leaves PyTorch, which exports only that of four."""

import numpy as np
import onnxruntime
import pytest
import torch
from support.randomness import fresh_rng, often
from torch import nn

from tilewright.host.compiler.read.torch_export import export_module

HEADS, TOKENS, WIDTH = 4, 6, 8


class Attention(nn.Module):
    def __init__(self, axes: tuple[int, ...], **options: object) -> None:
        super().__init__()
        self.axes, self.options = axes, options
        mask = torch.rand(TOKENS, TOKENS) < 0.8
        mask.fill_diagonal_(True)
        self.masks = {"bool": mask, "float": torch.randn(TOKENS, TOKENS), None: None}

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        mask = self.masks[self.options.get("mask")]
        more = {name: value for name, value in self.options.items() if name != "mask"}
        attend = nn.functional.scaled_dot_product_attention
        return attend(q, k, k.flip(-1), attn_mask=mask, **more)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"mask": "bool"},
        {"mask": "float"},
        {"enable_gqa": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("axes", often("axes of attention", [(1, 3), (2, 1, 2)], 1))
def test_attention_of_other_axes(options, axes) -> None:
    rng = fresh_rng()
    torch.manual_seed(int(rng.integers(1 << 31)))
    heads = HEADS // 2 if "enable_gqa" in options else HEADS
    q, k = (rng.normal(size=(*axes, h, TOKENS, WIDTH)).astype(np.float32) for h in (HEADS, heads))
    module = Attention(axes, **options)
    model = export_module(module, [q, k])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    (found,) = session.run(None, dict(zip(names, (q, k), strict=True)))
    expected = module(torch.from_numpy(q), torch.from_numpy(k)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
