# SPDX-License-Identifier: Apache-2.0
"""Whether a model file is float, found without the libraries that read it in full.

A float model needs calibration data. That they are missing is said before TVM, PyTorch and ONNX
Runtime are loaded, which takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.zip_archives import open_archive
from tilewright.host.compiler.read.remedies import GIVE_CALIBRATION

TORCH_SUFFIXES: Final = frozenset({".pt", ".pt2", ".pth"})
"""Of files that PyTorch writes; everything but these and the next is taken for ONNX."""

TFLITE_SUFFIXES: Final = frozenset({".tflite", ".lite"})
"""Of files of TensorFlow Lite (LiteRT)."""

QOPERATOR_KINDS: Final = frozenset(
    {
        "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearConv",
        "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMatMul", "QLinearMul",
        "QLinearSigmoid", "QLinearSoftmax",
    }
)  # fmt: skip
"""Operators of ONNX on quantised tensors."""

QUANTISED_KINDS: Final = QOPERATOR_KINDS | {"QuantizeLinear"}
"""A model with one of these is quantised."""

QONNX_KINDS: Final = frozenset({"BipolarQuant", "IntQuant", "Quant", "Trunc"})
"""Quantisers of QONNX, which become conversions at reading."""

_SAYS_SO: Final = QUANTISED_KINDS | QONNX_KINDS | {"QAttention"}

_TORCH_QUANTISED: Final = b"quantized_decomposed"


def is_torch_file(path: Path) -> bool:
    """Whether a file's name is one of PyTorch's."""
    return path.suffix.lower() in TORCH_SUFFIXES


def is_tflite_file(path: Path) -> bool:
    """Whether a file's name is one of TensorFlow Lite's."""
    return path.suffix.lower() in TFLITE_SUFFIXES


def require_quantised(path: Path) -> None:
    """Refuse a float model, for which there are no calibration data.

    A file that cannot be read passes: whoever reads it in full says what is wrong with it.
    """
    says = _onnx_is_quantised
    if is_torch_file(path):
        says = _torch_is_quantised
    elif is_tflite_file(path):
        says = _tflite_is_quantised
    if not says(path):
        raise calibration_missing(path)


def calibration_missing(path: Path) -> WorkloadError:
    """The error for a float model without calibration data."""
    return WorkloadError(
        "a float model needs calibration data",
        field=str(path),
        remedy=GIVE_CALIBRATION,
    )


def _onnx_is_quantised(path: Path) -> bool:
    import onnx  # noqa: PLC0415  (not needed for files of PyTorch)

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # whatever it is, the reader says it better
        return True
    return not model.graph.node or any(n.op_type in _SAYS_SO for n in model.graph.node)


def _tflite_is_quantised(path: Path) -> bool:
    from tilewright.host.compiler.read.tflite.file import says_quantised  # noqa: PLC0415  (not needed for others)

    try:
        return says_quantised(path.read_bytes(), path)
    except Exception:  # whatever it is, the reader says it better
        return True


def _torch_is_quantised(path: Path) -> bool:
    try:
        with open_archive(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("/models/model.json")]
            return not names or any(_TORCH_QUANTISED in archive.read(name) for name in names)
    except Exception:  # whatever it is, the reader says it better
        return True
