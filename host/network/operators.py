# SPDX-License-Identifier: Apache-2.0
"""What is known of the operators of ONNX: one row for each, from which every list of them comes.

Of an operator without a row nothing is assumed: the CPU computes it. What a rewrite or a converter
does with an operator stands where it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, kw_only=True)
class Operator:
    """The traits of an operator.

    Attributes:
        moves: its result holds elements of its first input as they are. ``view``: all, in their
            order; ``order``: all, in another; ``part``: some; ``repeat``: some more than once;
            ``join``: with others among them.
        layer: of multiply-accumulates, by constant weights or of two tensors.
        pool: over a window, or over all pixels.
        by_element: tensors of whose elements it makes one (2: or more); 0: it does not work element
            by element. PRelu has one slope for each, Clip and Cast but parameters.
        unit: of the accelerator that computes it between int8 tensors, if the form fits.
        bounded: the function that it is has a bounded result, and is flat at both ends.
        passes_factors: positive factors on the channels of its data are those of its result.
        rounded_once: the result is not rounded before the bias, factor or activation behind it.
        narrow_weights: it may have weights of 4 bits.
        gates: of a step of a recurrent layer.
        random: its result is drawn.
        idle: it returns its data, once a network is trained.
        converts: between float and int8 alone.
        sized_by_data: the shape of its result depends on what is in its data.
        sized_as_data: its result is as large as its data, which ONNX's inference does not say.
        control_flow: its attributes hold graphs.
    """

    moves: Literal["", "view", "order", "part", "repeat", "join"] = ""
    layer: Literal["", "convolution", "product"] = ""
    pool: Literal["", "window", "whole"] = ""
    by_element: int = 0
    unit: Literal["", "array", "table", "row"] = ""
    bounded: bool = False
    passes_factors: bool = False
    rounded_once: bool = False
    narrow_weights: bool = False
    gates: int = 0
    random: bool = False
    idle: bool = False
    converts: bool = False
    sized_by_data: bool = False
    sized_as_data: bool = False
    control_flow: bool = False


OPERATORS: Final[Mapping[str, Operator]] = {
    "Abs": Operator(by_element=1, unit="table"),
    "Add": Operator(by_element=2, unit="array", rounded_once=True),
    "And": Operator(by_element=2, unit="table"),
    "AveragePool": Operator(pool="window", unit="array", passes_factors=True),
    "Bernoulli": Operator(random=True),
    "Cast": Operator(by_element=1, unit="table"),
    "Ceil": Operator(by_element=1, unit="table"),
    "Celu": Operator(by_element=1, unit="table"),
    "Clip": Operator(by_element=1, unit="array", passes_factors=True),
    "Compress": Operator(sized_by_data=True),
    "Concat": Operator(moves="join", unit="array", rounded_once=True),
    "Conv": Operator(layer="convolution", unit="array", rounded_once=True, narrow_weights=True),
    "ConvTranspose": Operator(layer="convolution", unit="array", rounded_once=True),
    "Cos": Operator(by_element=1, unit="table"),
    "DepthToSpace": Operator(moves="order"),
    "DequantizeLinear": Operator(converts=True),
    "Div": Operator(by_element=2, unit="array", rounded_once=True),
    "Dropout": Operator(idle=True),
    "Elu": Operator(by_element=1, unit="table"),
    "Equal": Operator(by_element=2, unit="table"),
    "Erf": Operator(by_element=1, unit="table", bounded=True),
    "Exp": Operator(by_element=1, unit="table"),
    "Expand": Operator(moves="repeat"),
    "Flatten": Operator(moves="view", unit="array"),
    "Floor": Operator(by_element=1, unit="table"),
    "GRU": Operator(gates=3),
    "Gather": Operator(moves="part", unit="array"),
    "GatherND": Operator(moves="part"),
    "Gelu": Operator(by_element=1, unit="table"),
    "Gemm": Operator(layer="product", unit="array", rounded_once=True, narrow_weights=True),
    "GlobalAveragePool": Operator(
        pool="whole", unit="array", passes_factors=True, rounded_once=True
    ),
    "GlobalLpPool": Operator(pool="whole"),
    "GlobalMaxPool": Operator(pool="whole", unit="array", passes_factors=True, rounded_once=True),
    "Greater": Operator(by_element=2, unit="table"),
    "GreaterOrEqual": Operator(by_element=2, unit="table"),
    "GroupNormalization": Operator(sized_as_data=True),
    "HardSigmoid": Operator(by_element=1, unit="table", bounded=True),
    "HardSwish": Operator(by_element=1, unit="table"),
    "Identity": Operator(moves="view", by_element=1, idle=True, passes_factors=True),
    "If": Operator(control_flow=True),
    "LSTM": Operator(gates=4),
    "LayerNormalization": Operator(unit="row"),
    "LeakyRelu": Operator(by_element=1, unit="table", passes_factors=True),
    "Less": Operator(by_element=2, unit="table"),
    "LessOrEqual": Operator(by_element=2, unit="table"),
    "Log": Operator(by_element=1, unit="table"),
    "Loop": Operator(control_flow=True),
    "LpPool": Operator(pool="window"),
    "MatMul": Operator(layer="product", unit="array", rounded_once=True, narrow_weights=True),
    "Max": Operator(by_element=2, unit="array", rounded_once=True),
    "MaxPool": Operator(pool="window", unit="array", passes_factors=True, rounded_once=True),
    "MeanVarianceNormalization": Operator(sized_as_data=True),
    "Min": Operator(by_element=2, unit="array", rounded_once=True),
    "Mish": Operator(by_element=1, unit="table"),
    "Mul": Operator(by_element=2, unit="array", rounded_once=True),
    "Multinomial": Operator(random=True),
    "Neg": Operator(by_element=1, unit="table"),
    "NonMaxSuppression": Operator(sized_by_data=True),
    "NonZero": Operator(sized_by_data=True),
    "Not": Operator(by_element=1, unit="table"),
    "Or": Operator(by_element=2, unit="table"),
    "PRelu": Operator(by_element=2, unit="array", passes_factors=True),
    "Pad": Operator(moves="join"),
    "Pow": Operator(by_element=2, unit="table"),
    "QuantizeLinear": Operator(converts=True),
    "RNN": Operator(gates=1),
    "RandomNormal": Operator(random=True),
    "RandomNormalLike": Operator(random=True),
    "RandomUniform": Operator(random=True),
    "RandomUniformLike": Operator(random=True),
    "Reciprocal": Operator(by_element=1, unit="table"),
    "ReduceMax": Operator(unit="array"),
    "ReduceMean": Operator(unit="array"),
    "ReduceSum": Operator(unit="array"),
    "Relu": Operator(by_element=1, unit="array", passes_factors=True),
    "Reshape": Operator(moves="view", unit="array"),
    "Resize": Operator(unit="array"),
    "Scan": Operator(control_flow=True),
    "Selu": Operator(by_element=1, unit="table"),
    "Sigmoid": Operator(by_element=1, unit="table", bounded=True),
    "Sign": Operator(by_element=1, unit="table"),
    "Sin": Operator(by_element=1, unit="table"),
    "Slice": Operator(moves="part", unit="array"),
    "Softmax": Operator(unit="row"),
    "Softplus": Operator(by_element=1, unit="table"),
    "Softsign": Operator(by_element=1, unit="table", bounded=True),
    "SpaceToDepth": Operator(moves="order"),
    "Split": Operator(moves="part"),
    "Sqrt": Operator(by_element=1, unit="table"),
    "Squeeze": Operator(moves="view", unit="array"),
    "Sub": Operator(by_element=2, unit="array", rounded_once=True),
    "Swish": Operator(by_element=1),
    "Tanh": Operator(by_element=1, unit="table", bounded=True),
    "Tile": Operator(moves="repeat"),
    "Transpose": Operator(moves="order", unit="array"),
    "Unique": Operator(sized_by_data=True),
    "Unsqueeze": Operator(moves="view", unit="array"),
    "Where": Operator(by_element=3, unit="table"),
}


def having(trait: Callable[[Operator], object]) -> tuple[str, ...]:
    """The kinds of operators that have a trait."""
    return tuple(kind for kind, operator in OPERATORS.items() if trait(operator))


VIEWS: Final = having(lambda each: each.moves == "view")
REARRANGEMENTS: Final = having(lambda each: each.moves in ("view", "order"))
"""Their results hold every element once."""
MOVES: Final = having(lambda each: each.moves not in ("", "join"))
"""Their results hold nothing but elements of their data."""

LAYERS: Final = having(lambda each: each.layer)
CONVOLUTIONS: Final = having(lambda each: each.layer == "convolution")
PRODUCTS: Final = having(lambda each: each.layer == "product")

OF_ONE: Final = having(lambda each: each.by_element == 1)
OF_TWO: Final = having(lambda each: each.by_element == 2)
BY_ELEMENT: Final = having(lambda each: each.by_element)

ON_ARRAY: Final = having(lambda each: each.unit == "array")
ON_TABLE: Final = having(lambda each: each.unit == "table")
ON_ROWS: Final = having(lambda each: each.unit == "row")

RANDOM: Final = having(lambda each: each.random)
RECURRENT: Final = having(lambda each: each.gates)
CONVERSIONS: Final = having(lambda each: each.converts)
