# SPDX-License-Identifier: Apache-2.0
"""The networks of the zoo, the controls beside them, and an input for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tilewright.host.common.clone_parts import clone_part

if TYPE_CHECKING:
    import onnx
    from torch import nn

_examples: Final = clone_part("examples/networks", "networks")

CONTROLS: Final = ("resnet18", "mobilenet-v2", "squeezenet")
"""They ran whole before anything was mended for the zoo, and must not have become slower."""

TRAINED: Final = ("text-detector", "body-detector", "file-classifier")
"""Of `networks.public`; the packages of the last two are not in the project's environment."""

BYTE_VALUES: Final = 256
"""An input of integers takes bytes."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A network that the zoo measures.

    Attributes:
        kind: ``zoo``, or ``control``: one that had nothing to gain.
        load: makes it; raises `TilewrightError` if the package that holds it is not installed.
        input_name: of its one input.
        input_shape: of that.
        input_type: of that: ``float32``, or ``int32`` for bytes.
    """

    kind: Literal["zoo", "control"]
    load: Callable[[], nn.Module | onnx.ModelProto]
    input_name: str
    input_shape: tuple[int, ...]
    input_type: str

    def sample(self) -> np.ndarray[Any, Any]:
        """One random input, always the same: normally distributed, or bytes."""
        rng = np.random.default_rng(0)
        if self.input_type == "int32":
            return rng.integers(0, BYTE_VALUES, self.input_shape, dtype=np.int32)
        return rng.standard_normal(self.input_shape, dtype=np.float32)


def _members() -> Iterator[tuple[str, Member]]:
    architectures: Mapping[str, Any] = import_module("networks.zoo").ZOO
    for name in architectures:
        yield name, _with_random_weights(name, "zoo", architectures[name].input_shape)
    trained: Mapping[str, Any] = import_module("networks.public").PUBLIC_NETWORKS
    for name in TRAINED:
        public = trained[name]
        yield (
            name,
            Member(
                kind="zoo",
                load=public.load,
                input_name=public.input_name,
                input_shape=public.input_shape,
                input_type=public.input_type,
            ),
        )
    for name in CONTROLS:
        yield name, _with_random_weights(name, "control", _examples.NETWORKS[name].input_shape)


def _with_random_weights(
    name: str, kind: Literal["zoo", "control"], shape: tuple[int, ...]
) -> Member:
    return Member(
        kind=kind,
        load=lambda: _examples.build(name),
        input_name="x",
        input_shape=shape,
        input_type="float32",
    )


MEMBERS: Final[Mapping[str, Member]] = dict(_members())
"""In the order of the table."""
