# SPDX-License-Identifier: Apache-2.0
"""Squeeze and excite (Hu et al., Squeeze-and-Excitation Networks, 2018, section 3)."""

from __future__ import annotations

from torch import Tensor, nn


class SqueezeExcite(nn.Module):
    """Every channel times a gate that follows from the means of all channels."""

    def __init__(self, channels: int, hidden: int, inner: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, hidden, 1)
        self.inner = inner
        self.expand = nn.Conv2d(hidden, channels, 1)
        self.gate = gate

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        means = x.mean((2, 3), keepdim=True)
        return x * self.gate(self.expand(self.inner(self.reduce(means))))
