# SPDX-License-Identifier: Apache-2.0
"""How a network is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.remedies import CHOOSE_PERCENTILE

Array = npt.NDArray[Any]
Method = Literal["minmax", "mse", "percentile"]
Int4Layers = Literal["none", "dense", "all"]

_PERCENTILE: Final = 99.99
_LEAST_PERCENTILE: Final = 50.0


@dataclass(frozen=True, kw_only=True)
class QuantiseOptions:
    """How a float network is quantised.

    Attributes:
        asymmetric: activations with a zero point (uint8 at heart), otherwise symmetric int8.
        method: how ranges of activations follow from calibration data: all that occurs
            (``minmax``), a share of all elements (``percentile``), or what has the least mean
            square error (``mse``).
        percentile: of all elements that lie within a range, more than 50 and at most 100; of
            method ``percentile`` alone.
        equalisation: channels of activations are scaled to similar ranges, and weights
            inversely (see `equalisation`).
        int4_weights: layers whose weights have 4 bits (see `int4_weights`): ``none``, those of
            ``dense`` layers, or ``all`` but convolutions in groups.
        int4_kept: names of layers that keep 8 bits all the same, because the accelerator would not
            pack their weights; compiling finds them.
        int4_group: output and input channels of a group of 4-bit weights that has a scale, and
            input channels of a tile (`host.network.int4_tiles`), None: groups have none; compiling
            for a configuration sets it.
        activation_tables: the accelerator has a table for activations, so that operators behind
            them work on int8 too; compiling for such a configuration sets it.
        float_layers: names of operators that stay in float, on the CPU.
        improve: other options are tried on the calibration data, and the best are taken
            (see `improve`).
        int8_ends: the network takes and gives int8 where one scale holds (see `int8_ends`).
    """

    asymmetric: bool = False
    per_channel: bool = True  # a weight scale for each output channel
    method: Method = "mse"
    percentile: float = _PERCENTILE
    equalisation: bool = True
    bias_correction: bool = True  # biases take the mean errors of layers (see `bias_correction`)
    int4_weights: Int4Layers = "none"
    int4_kept: tuple[str, ...] = ()
    int4_group: tuple[int, int, int] | None = None
    activation_tables: bool = False
    row_functions: bool = False  # the same of softmax and layer normalisation
    int8_ends: bool = False
    float_layers: tuple[str, ...] = ()
    improve: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        for name, kinds, remedy in (
            ("method", Method, "mse suits most networks"),
            ("int4_weights", Int4Layers, "dense halves the weights that cost most to read"),
        ):
            if getattr(self, name) not in get_args(kinds):
                raise WorkloadError(
                    f"must be one of {', '.join(get_args(kinds))}",
                    field=name,
                    value=getattr(self, name),
                    remedy=remedy,
                )
        if self.percentile != _PERCENTILE and self.method != "percentile":
            raise WorkloadError(
                "is for calibration method percentile",
                field="percentile",
                value=self.method,
                remedy=CHOOSE_PERCENTILE,
            )
        if not _LEAST_PERCENTILE < self.percentile <= 100:
            raise WorkloadError(
                f"must be more than {_LEAST_PERCENTILE:g} and at most 100",
                field="percentile",
                value=self.percentile,
                remedy="99.99 clips one element in 10,000",
            )


@dataclass(frozen=True, kw_only=True)
class ImportLimits:
    """What reading a file may cost."""

    memory_bytes: int = 0  # of address space; 0: 80 % of the machine's memory
    seconds: float = 1800.0  # until it is stopped


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportOptions:
    """How a network is imported.

    Attributes:
        input_shapes: by input name, where the model leaves them open.
        example_inputs: arguments of an ``nn.Module``; without them one sample of the calibration
            arrays.
        trust_model: let PyTorch read a ``.pt2`` file of any layout, which may run code from it.
        operators: a user's own (`own_operator.Operator`), as ``package.module:Class``; those of
            entry points are found without it.
    """

    quantise: QuantiseOptions = field(default_factory=QuantiseOptions)  # of a float model
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    example_inputs: Sequence[Array] = ()
    name: str = ""  # of the network; without it the file's or class's
    limits: ImportLimits = field(default_factory=ImportLimits)  # of the process that reads a file
    trust_model: bool = False
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate."""
        for name, shape in self.input_shapes.items():
            if not all(isinstance(size, int | np.integer) and size > 0 for size in shape):
                raise WorkloadError(
                    "must be positive sizes",
                    field=f"input_shapes.{name}",
                    value=shape,
                    remedy="give a size above 0 for each axis, such as (1, 3, 224, 224)",
                )
