# SPDX-License-Identifier: Apache-2.0
"""Architectures of timm (Wightman, PyTorch Image Models, 2019), drawn over its families.

The package is not in the project's environment, and of torchvision, which it asks for, networks
need nothing: where that is missing, empty modules stand for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.errors import ToolError

if TYPE_CHECKING:
    from torch import nn

VERSION: Final = "timm==1.0.31"

MOST_PARAMETERS: Final = 32_000_000
MOST_PIXELS: Final = 256
"""Of a side of the input."""

IN_THE_ZOO: Final = {
    "convnext_tiny": "convnext-t",
    "densenet121": "densenet121",
    "efficientnet_b0": "efficientnet-b0",
    "mobilenetv2_100": "mobilenet-v2",
    "mobilenetv3_small_100": "mobilenet-v3-small",
    "resnet18": "resnet18",
    "swin_tiny_patch4_window7_224": "swin-t",
    "vit_tiny_patch16_224": "vit-tiny",
}
"""What timm calls networks that the compiler was made with, and what the zoo does."""

_TORCHVISION: Final = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
)


def drawn(
    families: Mapping[str, Sequence[str]],
    count: int,
    seed: int,
    fits: Callable[[str], bool] = lambda _: True,
) -> list[tuple[str, str]]:
    """Families and architectures: one of each family before any has a second."""
    rng = np.random.default_rng(seed)
    names = sorted(families)
    fitting = {f: filter(fits, list(rng.permutation(sorted(families[f])))) for f in names}
    order = [names[place] for place in rng.permutation(len(names))]

    def turns() -> Iterator[tuple[str, str]]:
        """Every architecture that fits, family after family, until all are through."""
        waiting = order
        while waiting:
            left = []
            for family in waiting:
                if (name := next(fitting[family], None)) is not None:
                    left.append(family)
                    yield family, str(name)
            waiting = left

    return list(islice(turns(), count))


def families() -> dict[str, list[str]]:
    """The architectures of each of timm's modules, without those that the zoo has."""
    timm = load_timm()
    return {
        family: sorted(set(timm.list_models(module=family)) - set(IN_THE_ZOO))
        for family in timm.list_modules()
    }


def fits(name: str) -> bool:
    """Whether an architecture is within `MOST_PARAMETERS` and `MOST_PIXELS`."""
    import torch  # noqa: PLC0415  (heavy)

    if max(input_shape(name)[2:]) > MOST_PIXELS:
        return False
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        network = load_timm().create_model(name, pretrained=False)
    return parameters(network) <= MOST_PARAMETERS


def parameters(network: nn.Module) -> int:
    """How many numbers a network has learnt."""
    return sum(each.numel() for each in network.parameters())


def input_shape(name: str) -> tuple[int, ...]:
    """Of one image."""
    return (1, *load_timm().get_pretrained_cfg(name).input_size)


def build(name: str, seed: int) -> nn.Module:
    """An architecture with random weights."""
    import torch  # noqa: PLC0415  (heavy)

    timm = load_timm()
    examples = clone_part("examples/networks", "networks")
    with warnings.catch_warnings(action="ignore"), torch.random.fork_rng(), torch.no_grad():
        network: nn.Module = examples.with_random_weights(
            lambda: timm.create_model(name, pretrained=False), seed
        )
        torch.manual_seed(seed)
        for each in network.parameters():
            if 0 < float(each.min()) == float(each.max()) < 0.1:
                each.uniform_(0.1, 1)
    return network


@lru_cache(maxsize=1)
def load_timm() -> Any:
    """The package, or a `ToolError` where it is not installed."""
    if importlib.util.find_spec("timm") is None:
        raise ToolError(
            "needs the package timm",
            field="--unseen",
            remedy=f"pip install --no-deps {VERSION}",
        )
    if importlib.util.find_spec("torchvision") is None:
        for name in _TORCHVISION:
            _stand_in(name)
    return importlib.import_module("timm")


class _Empty(ModuleType):
    """A module that has every name, as a class without members."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {mode: mode for mode in _MODES})
        setattr(self, name, made)
        return made


_MODES: Final = ("NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS")
"""Members of an enumeration that timm reads while it is imported."""


def _stand_in(name: str) -> None:
    """Put an empty module where imports find it."""
    module = _Empty(name)
    module.__path__ = []
    module.__spec__ = importlib.util.spec_from_loader(name, None)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
