# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow Lite file as plain records, with every field checked: it is untrusted input."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ToolError, WorkloadError, reason_of
from tilewright.host.common.extras import install_line
from tilewright.host.network.onnx_file import MAX_TENSOR_ELEMENTS, short

Array = npt.NDArray[Any]

MAX_OPERATORS: Final = 10_000
_MAX_TENSORS: Final = 8 * MAX_OPERATORS
_MAX_RANK: Final = 8
_MAX_INPUTS: Final = 1_000
_MAX_NAME: Final = 1_000
_SCHEMA: Final = 3
_CUSTOM: Final = 32

_DTYPES: Final[Mapping[int, str]] = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16",
    9: "int8", 10: "float64", 15: "uint32", 17: "int4",
}  # fmt: skip
"""Types of tensors by their number; int4 is kept as int8."""

_DAMAGE: Final = (AttributeError, IndexError, OverflowError, TypeError, ValueError, struct.error)
"""What reading beyond the end of a file, or at a wrong place, raises."""

_EXPORT: Final = "export or copy it again"


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantisation:
    """Real value = scale x (q - zero point), for a tensor or for each place of an axis."""

    scale: Array  # float32
    zero_point: Array  # int64
    axis: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Tensor:
    """A tensor of the file.

    Attributes:
        shape: with channels last; -1 where the file leaves an axis open.
        stored: the shape that the file was converted with; None: it says none.
        data: of a constant.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored: tuple[int, ...] | None
    quantisation: Quantisation | None
    data: Array | None

    @property
    def quantised(self) -> bool:
        """Whether it holds steps of 8 bits that stand for real numbers."""
        return self.quantisation is not None and self.dtype in ("int8", "uint8")


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operator at its place; tensors by number, -1 for one that is left out."""

    kind: str  # as the schema names it
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TfliteModel:
    """The one graph of a file."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def parse_tflite(data: bytes, origin: Path) -> TfliteModel:
    """The records of a file's bytes.

    Raises:
        WorkloadError: the file is truncated or hostile, or holds what nothing here reads.
    """
    try:
        return _Parser(data, origin).model()
    except _DAMAGE as error:
        raise _damaged(origin, error) from error


def _damaged(origin: Path, error: Exception) -> WorkloadError:
    reason = reason_of(error, 80)
    return WorkloadError(
        f"must be a TensorFlow Lite model (the file is truncated or damaged: {reason})",
        field=str(origin),
        remedy=_EXPORT,
    )


def says_quantised(data: bytes, origin: Path) -> bool:
    """Whether something that is computed is quantised; nothing else is read.

    Raises:
        WorkloadError: the file is truncated or hostile.
    """
    try:
        return _Parser(data, origin).says_quantised()
    except _DAMAGE as error:
        raise _damaged(origin, error) from error


def _library() -> Any:
    try:
        return import_module("tflite")
    except ImportError as error:
        raise ToolError(
            "TensorFlow Lite files need the package tflite", remedy=install_line("network")
        ) from error


class _Parser:
    def __init__(self, data: bytes, origin: Path) -> None:
        self._origin, self._library = origin, _library()
        self._bytes = data
        if data[4:8] != b"TFL3":
            raise self.refusal(
                "must be a TensorFlow Lite file, with TFL3 as its bytes 4 to 7",
                value=data[4:8].decode("ascii", "replace"),
            )
        self._root = self._library.Model.GetRootAs(data, 0)
        # Tensors may share what they name: it is kept once, or a small file takes all the memory.
        self._scales: dict[int, tuple[Array, Array]] = {}
        self._nibbles: dict[int, Array] = {}

    def refusal(
        self, rule: str, place: str = "", *, value: object = None, remedy: str = _EXPORT
    ) -> WorkloadError:
        field = f"{self._origin}: {place}" if place else str(self._origin)
        return WorkloadError(rule, field=field, value=value, remedy=remedy)

    def says_quantised(self) -> bool:
        graph = self._graph()
        for i in self._counted(graph.OperatorsLength(), MAX_OPERATORS, "operators"):
            for index in self._vector(graph.Operators(i), "Outputs"):
                tensor = graph.Tensors(int(index))
                stated = tensor.Quantization()
                eight = _DTYPES.get(tensor.Type()) in ("int8", "uint8")
                if eight and stated is not None and stated.ScaleLength():
                    return True
        return False

    def _graph(self) -> Any:
        root = self._root
        if root.Version() != _SCHEMA:
            raise self.refusal(
                f"must have version {_SCHEMA} of the schema",
                value=root.Version(),
                remedy="convert the model again with a newer TensorFlow",
            )
        if root.SubgraphsLength() != 1:
            raise self.refusal(
                "must have one subgraph",
                value=root.SubgraphsLength(),
                remedy="export the model without control flow and without variables",
            )
        return root.Subgraphs(0)

    def model(self) -> TfliteModel:
        graph = self._graph()
        tensors = tuple(
            self._tensor(graph.Tensors(i), i)
            for i in self._counted(graph.TensorsLength(), _MAX_TENSORS, "tensors")
        )
        ends = [
            self._indices(values, len(tensors), what)
            for values, what in (
                (self._vector(graph, "Inputs"), "inputs"),
                (self._vector(graph, "Outputs"), "outputs"),
            )
        ]
        if not all(ends) or any(-1 in each or len(set(each)) < len(each) for each in ends):
            raise self.refusal("must have inputs and outputs, each once")
        operations = tuple(
            self._operation(graph.Operators(i), i, len(tensors))
            for i in self._counted(graph.OperatorsLength(), MAX_OPERATORS, "operators")
        )
        if not operations:
            raise self.refusal("must have at least one operator")
        return TfliteModel(tensors=tensors, operations=operations, inputs=ends[0], outputs=ends[1])

    def _counted(self, count: int, most: int, what: str) -> range:
        if not 0 <= count <= most:
            raise self.refusal(
                f"must have at most {most} {what}", value=count, remedy="divide the model"
            )
        return range(count)

    def _indices(self, values: Array, count: int, place: str) -> tuple[int, ...]:
        if not all(-1 <= int(each) < count for each in values):
            raise self.refusal(f"must be numbers of tensors from 0 to {count - 1}", place)
        return tuple(map(int, values))

    def _vector(self, table: Any, name: str, most: int = _MAX_INPUTS) -> Array:
        """A vector of numbers, as a view of the file; empty if it is left out."""
        length = getattr(table, f"{name}Length")()
        if length > most:
            raise self.refusal(f"must have at most {most} numbers", name, value=length)
        found: Array = getattr(table, f"{name}AsNumpy")() if length else np.zeros(0, np.int64)
        return found

    def _text(self, text: bytes | None) -> str:
        return (text or b"")[:_MAX_NAME].decode("utf-8", "replace")

    # -- tensors -----------------------------------------------------------------------------

    def _tensor(self, table: Any, index: int) -> Tensor:
        name = self._text(table.Name())
        place = f"tensor {index} {short(name)}".rstrip()
        dtype = _DTYPES.get(table.Type())
        wrong = _names(self._library.TensorType).get(table.Type(), table.Type())
        if dtype is not None:
            sparse = "a sparse tensor" if table.Sparsity() is not None else None
            wrong = "a variable" if table.IsVariable() else sparse
        if wrong is not None:
            raise self.refusal(
                "must be a dense tensor of numbers, and no variable",
                place,
                value=wrong,
                remedy="export the model without variables, text, sparse and complex tensors",
            )
        assert dtype is not None
        stored = [int(size) for size in self._vector(table, "Shape")]
        stated = [int(size) for size in self._vector(table, "ShapeSignature")] or stored
        sizes = [each for each in stored if each >= 0]
        if (
            len(stated) > _MAX_RANK
            or len(stated) != len(stored)
            or min(stated, default=1) < -1
            or min(stored, default=1) < -1
            or prod(max(size, 1) for size in sizes) > MAX_TENSOR_ELEMENTS
        ):
            raise self.refusal(
                f"must have at most {_MAX_RANK} axes and {MAX_TENSOR_ELEMENTS} elements",
                place,
                value=stored[:_MAX_RANK],
                remedy="export the model with a smaller input or batch",
            )
        unknown = (
            not stored and not table.HasRank() and not self._buffer(table.Buffer(), place).size
        )
        quantisation = self._quantisation(table.Quantization(), stored, dtype, place)
        if quantisation is not None and dtype == "int16":
            raise self.refusal(
                "must have activations of 8 bits",
                place,
                value=dtype,
                remedy="quantise the model with int8 activations (TFLITE_BUILTINS_INT8)",
            )
        data = self._data(table.Buffer(), dtype, stored, place)
        return Tensor(
            name=name,
            dtype="int8" if dtype == "int4" else dtype,
            shape=tuple(stored if data is not None else stated),
            stored=None if unknown or -1 in stored else tuple(stored),
            quantisation=quantisation,
            data=data,
        )

    def _buffer(self, index: int, place: str) -> Array:
        if index >= self._root.BuffersLength():
            raise self.refusal("must name a buffer of the file", place, value=index)
        buffer = self._root.Buffers(index)
        if buffer.Offset() > 1 or buffer.Size() > 1:
            raise self.refusal(
                "must have its weights inside the flatbuffer",
                place,
                remedy="convert the model without external buffers",
            )
        found: Array = buffer.DataAsNumpy() if buffer.DataLength() else np.zeros(0, np.uint8)
        return found

    def _data(self, index: int, dtype: str, shape: list[int], place: str) -> Array | None:
        raw = self._buffer(index, place)
        if not raw.size:
            return None
        count = prod(shape)
        wanted = -(-count // 2) if dtype == "int4" else count * np.dtype(dtype).itemsize
        if raw.size != wanted or -1 in shape:
            raise self.refusal(f"must have {wanted} bytes of data", place, value=int(raw.size))
        if dtype == "int4":
            if index not in self._nibbles:
                codes = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)
                self._nibbles[index] = (codes ^ 8).astype(np.int8) - np.int8(8)
            return self._nibbles[index][:count].reshape(shape)
        return raw.view(np.dtype(dtype).newbyteorder("<")).reshape(shape)

    def _quantisation(
        self, table: Any, shape: list[int], dtype: str, place: str
    ) -> Quantisation | None:
        if table is None or not table.ScaleLength():
            return None
        scale, zero = self._numbers(table, place)
        axis = table.QuantizedDimension()
        several = scale.size > 1
        if table.DetailsType() or (
            several and not (0 <= axis < len(shape) and shape[axis] == scale.size)
        ):
            raise self.refusal("must have one scale, or one for each place of an axis", place)
        limits = np.iinfo("int8" if dtype == "int4" else dtype) if "int" in dtype else None
        if limits is not None and not (limits.min <= zero.min() and zero.max() <= limits.max):
            raise self.refusal(f"must have a zero point of {dtype}", place, value=int(zero.max()))
        return Quantisation(scale=scale, zero_point=zero, axis=axis)

    def _numbers(self, table: Any, place: str) -> tuple[Array, Array]:
        """Scales and zero points."""
        key = table._tab.Pos
        if key not in self._scales:
            scale, zero = (
                self._vector(table, name, MAX_TENSOR_ELEMENTS) for name in ("Scale", "ZeroPoint")
            )
            zero = zero if zero.size else np.zeros(scale.size, np.int64)
            if zero.size != scale.size or not (np.isfinite(scale).all() and (scale > 0).all()):
                raise self.refusal(
                    "must have finite positive scales, and a zero point for each", place
                )
            self._scales[key] = scale, zero
        return self._scales[key]

    # -- operators ---------------------------------------------------------------------------

    def _operation(self, table: Any, index: int, tensors: int) -> Operation:
        number = table.OpcodeIndex()
        if number >= self._root.OperatorCodesLength():
            raise self.refusal("must name a kind of the file", f"operator {index}", value=number)
        code = self._root.OperatorCodes(number)
        value = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())  # one is for small codes
        kind = _names(self._library.BuiltinOperator).get(value, f"number {value}")
        if value == _CUSTOM:
            kind = f"CUSTOM {short(self._text(code.CustomCode()))}".rstrip()
        place = f"operator {index} {kind}"
        return Operation(
            kind=kind,
            inputs=self._indices(self._vector(table, "Inputs"), tensors, f"{place}: inputs"),
            outputs=self._indices(self._vector(table, "Outputs"), tensors, f"{place}: outputs"),
            options=dict(self._options(table)),
        )

    def _options(self, table: Any) -> Iterator[tuple[str, Any]]:
        """The fields of an operator's table of options, whatever table that is."""
        kind = _names(self._library.BuiltinOptions).get(table.BuiltinOptionsType())
        options, inner = getattr(self._library, kind or "", None), table.BuiltinOptions()
        if kind in (None, "NONE") or options is None or inner is None:
            return
        read = options()
        read.Init(inner.Bytes, inner.Pos)
        for name, method in vars(type(read)).items():
            if name.endswith("AsNumpy"):
                yield (
                    name.removesuffix("AsNumpy"),
                    tuple(map(int, self._vector(read, name.removesuffix("AsNumpy")))),
                )
            elif _is_field(method) and not name.endswith(("Length", "IsNone")):
                yield name, getattr(read, name)()


def _is_field(method: Callable[..., object]) -> bool:
    code = getattr(method, "__code__", None)
    return code is not None and code.co_argcount == 1


def _names(enumeration: type) -> dict[int, str]:
    return {n: name for name, n in vars(enumeration).items() if isinstance(n, int)}
