# SPDX-License-Identifier: Apache-2.0
"""What a definition of this package is known by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that can be built."""

    build: Callable[[], nn.Module]  # makes it, with weights from PyTorch's generator
    input_shape: tuple[int, ...]  # of its one float32 input
