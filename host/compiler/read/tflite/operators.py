# SPDX-License-Identifier: Apache-2.0
"""What becomes of each operator of TensorFlow Lite: one row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tilewright.host.compiler.read.tflite import functions, layers, moves
from tilewright.host.compiler.read.tflite.functions import of_one, of_two, reduced
from tilewright.host.compiler.read.tflite.graph import Step

CONVERSIONS: Final[Mapping[str, Callable[[Step], None]]] = {
    "ABS": of_one("Abs"),
    "ADD": of_two("Add"),
    "ARG_MAX": functions.place_of_largest("ArgMax"),
    "ARG_MIN": functions.place_of_largest("ArgMin"),
    "AVERAGE_POOL_2D": layers.average_pool,
    "BATCH_MATMUL": layers.batch_product,
    "BATCH_TO_SPACE_ND": moves.put_back,
    "BROADCAST_TO": moves.broadcast,
    "CAST": functions.converted,
    "CEIL": of_one("Ceil"),
    "CONCATENATION": moves.join,
    "CONV_2D": layers.convolution,
    "COS": of_one("Cos"),
    "DEPTHWISE_CONV_2D": layers.depthwise,
    "DEPTH_TO_SPACE": moves.depth_to_space,
    "DEQUANTIZE": functions.dequantise,
    "DIV": of_two("Div"),
    "ELU": of_one("Elu"),
    "EXP": of_one("Exp"),
    "EXPAND_DIMS": moves.expand_axis,
    "FILL": functions.filled,
    "FLOOR": of_one("Floor"),
    "FULLY_CONNECTED": layers.dense,
    "GATHER": moves.gather,
    "GELU": functions.gelu,
    "HARD_SWISH": of_one("HardSwish"),
    "LEAKY_RELU": functions.leaky_relu,
    "LOG": of_one("Log"),
    "LOGISTIC": of_one("Sigmoid"),
    "LOG_SOFTMAX": functions.log_softmax,
    "MAXIMUM": of_two("Max"),
    "MAX_POOL_2D": layers.max_pool,
    "MEAN": reduced("ReduceMean"),
    "MINIMUM": of_two("Min"),
    "MIRROR_PAD": moves.mirror,
    "MUL": of_two("Mul"),
    "NEG": of_one("Neg"),
    "PACK": moves.pack,
    "PAD": moves.pad,
    "PADV2": moves.pad,
    "POW": of_two("Pow"),
    "PRELU": functions.prelu,
    "QUANTIZE": functions.quantise,
    "REDUCE_MAX": reduced("ReduceMax"),
    "REDUCE_MIN": reduced("ReduceMin"),
    "RELU": of_one("Relu"),
    "RELU6": of_one("RELU6"),
    "RELU_0_TO_1": of_one("RELU_0_TO_1"),
    "RELU_N1_TO_1": of_one("RELU_N1_TO_1"),
    "RESHAPE": moves.reshape,
    "RESIZE_BILINEAR": moves.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": moves.resize_nearest,
    "RSQRT": of_one("Sqrt", "Reciprocal"),
    "SHAPE": functions.stated_shape,
    "SIN": of_one("Sin"),
    "SLICE": moves.cut,
    "SOFTMAX": functions.softmax,
    "SPACE_TO_BATCH_ND": moves.spread,
    "SPACE_TO_DEPTH": moves.space_to_depth,
    "SPLIT": moves.split,
    "SPLIT_V": moves.split_sizes,
    "SQRT": of_one("Sqrt"),
    "SQUARE": functions.square,
    "SQUARED_DIFFERENCE": functions.squared_difference,
    "SQUEEZE": moves.squeeze,
    "STRIDED_SLICE": moves.cut_strided,
    "SUB": of_two("Sub"),
    "SUM": reduced("ReduceSum"),
    "TANH": of_one("Tanh"),
    "TILE": moves.repeat,
    "TRANSPOSE": moves.transpose,
    "TRANSPOSE_CONV": layers.transposed_convolution,
    "UNPACK": moves.unpack,
}

KEEPING: Final = frozenset(
    {
        "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
        "EXPAND_DIMS", "GATHER", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MIRROR_PAD", "PACK", "PAD",
        "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT",
        "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
    }
)  # fmt: skip
"""Their kernels take steps as they are, whatever scales stand beside them."""
