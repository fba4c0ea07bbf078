# SPDX-License-Identifier: Apache-2.0
"""The operators of Relax that the CPU part of a saved network may hold."""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "relax."

OPERATORS: Final = frozenset((
    "abs", "acos", "acosh", "add", "argmax", "argmin", "argsort", "asin", "asinh", "astype", "atan",
    "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_to", "ceil",
    "clip", "concat", "cos", "cosh", "cumprod", "cumsum", "dequantize", "divide", "equal", "erf",
    "exp", "expand_dims", "eye_like", "flatten", "flip", "floor", "floor_divide", "floor_mod",
    "full", "full_like", "gather_elements", "gather_nd", "greater", "greater_equal",
    "image.affine_grid", "image.resize2d", "image.resize3d", "isfinite", "isinf", "isnan",
    "left_shift", "less", "less_equal", "log", "logical_and", "logical_not", "logical_or",
    "logical_xor", "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "multiply",
    "negative", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d",
    "nn.attention", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.batch_flatten",
    "nn.batch_norm", "nn.conv1d", "nn.conv1d_transpose", "nn.conv2d", "nn.conv2d_transpose",
    "nn.conv3d", "nn.conv3d_transpose", "nn.dropout", "nn.gelu", "nn.gelu_tanh", "nn.group_norm",
    "nn.instance_norm", "nn.layer_norm", "nn.leakyrelu", "nn.log_softmax", "nn.max_pool1d",
    "nn.max_pool2d", "nn.max_pool3d", "nn.pad", "nn.pixel_shuffle", "nn.prelu", "nn.relu",
    "nn.rms_norm", "nn.selu", "nn.silu", "nn.softmax", "nn.softplus", "not_equal", "one_hot",
    "ones", "ones_like", "permute_dims", "power", "prod", "quantize", "repeat", "reshape",
    "right_shift", "round", "rsqrt", "scatter_elements", "scatter_nd", "shape_of",
    "shape_to_tensor", "sigmoid", "sign", "sin", "sinh", "size", "sort", "split", "sqrt", "square",
    "squeeze", "stack", "std", "strided_slice", "subtract", "sum", "take", "tan", "tanh", "tile",
    "topk", "tril", "triu", "trunc", "variance", "where", "zeros", "zeros_like",
))  # fmt: skip
"""What the importer makes of networks of fixed shapes, without the prefix ``relax.``.

Left out: results whose shape depends on data, and operators that read at positions which their data
choose unless `relax_saved` bounds them (take, gather, scatter).
"""


def is_known(operator: str) -> bool:
    """Whether ``relax.add`` and its like may be saved."""
    return operator.startswith(_PREFIX) and operator.removeprefix(_PREFIX) in OPERATORS
