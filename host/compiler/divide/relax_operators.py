# SPDX-License-Identifier: Apache-2.0
"""What is known of the operators of Relax: how they are computed, and which may be saved."""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "relax."

VIEWS: Final = frozenset({"expand_dims", "flatten", "reshape", "squeeze"})
"""Operators that give the same bytes another shape."""

BY_ELEMENT: Final = VIEWS | frozenset((
    "abs", "acos", "acosh", "add", "asin", "asinh", "astype", "atan", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_to", "ceil", "clip", "cos", "cosh",
    "dequantize", "divide", "equal", "erf", "exp", "floor", "floor_divide", "floor_mod", "greater",
    "greater_equal", "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "log",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod",
    "multiply", "negative", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.prelu", "nn.relu",
    "nn.selu", "nn.silu", "nn.softplus", "not_equal", "permute_dims", "power", "quantize",
    "right_shift", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "subtract",
    "take", "tan", "tanh", "trunc", "where",
))  # fmt: skip
"""What is computed element by element is in one pass."""

REDUCTIONS: Final = frozenset({"max", "mean", "min", "prod", "sum"})
"""They read what is computed element by element in the same pass."""

PRODUCTS: Final = frozenset({"matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d"})
"""What works element by element behind them is in the same pass."""

_OTHERS: Final = frozenset((
    "argmax", "argmin", "argsort", "concat", "cumprod", "cumsum", "eye_like", "flip", "full",
    "full_like", "gather_elements", "gather_nd", "image.affine_grid", "image.resize2d",
    "image.resize3d", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d",
    "nn.attention", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.batch_flatten",
    "nn.batch_norm", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose",
    "nn.dropout", "nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.log_softmax",
    "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "nn.pad", "nn.pixel_shuffle", "nn.rms_norm",
    "nn.softmax", "one_hot", "ones", "ones_like", "repeat", "scatter_elements", "scatter_nd",
    "shape_of", "shape_to_tensor", "size", "sort", "split", "stack", "std", "strided_slice", "tile",
    "topk", "tril", "triu", "variance", "zeros", "zeros_like",
))  # fmt: skip

OPERATORS: Final = BY_ELEMENT | REDUCTIONS | PRODUCTS | _OTHERS
"""What the importer makes of networks of fixed shapes, without the prefix ``relax.``.

Left out: results whose shape depends on data, and operators that read at positions which their data
choose unless `relax_saved` bounds them (take, gather, scatter).
"""


def is_known(operator: str) -> bool:
    """Whether ``relax.add`` and its like may be saved."""
    return operator.startswith(_PREFIX) and operator.removeprefix(_PREFIX) in OPERATORS
