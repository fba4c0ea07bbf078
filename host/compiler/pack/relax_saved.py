# SPDX-License-Identifier: Apache-2.0
"""Relax modules as plain values, and back as untrusted input.

A saved module is a list of values in the order in which they are computed. A value refers to
earlier ones by their numbers, so there are no cycles and no depth; TVM never reads the file. When
it is read, every operator is one of a list (`relax_attributes`), every type is inferred anew and
must be of fixed size within a limit, and positions in tensors (take, gather, scatter) are bounded,
also those that are computed when the network runs. A module can compute nonsense, but reaches
neither files nor memory that is not its own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.relax_calls import (
    BUILDING,
    constant,
    dtype_of,
    is_constant,
    operator_name,
    shape_of,
)
from tilewright.host.compiler.divide.relax_onnx import (
    TensorKind,
    is_onnx_call,
    kinds_in,
    onnx_call,
    parts_of_call,
)
from tilewright.host.compiler.divide.relax_operators import is_known
from tilewright.host.compiler.divide.relax_writer import REGION_FUNCTION, region_call
from tilewright.host.compiler.pack.artefact_rules import DTYPES
from tilewright.host.compiler.pack.relax_attributes import (
    attributes_from_values,
    attributes_to_values,
    check_part,
    read_number,
    saved_number,
)
from tilewright.host.compiler.read.argument import Argument

MAX_VALUES: Final = 100_000
MAX_RANK: Final = 16
MAX_REFERENCES: Final = 4096
"""Of one value to others."""

MAX_ARGUMENTS: Final = 8
"""Of an operator; TVM holds it to the exact number."""

MAX_TENSOR_BYTES: Final = 1 << 30
MAX_ALL_BYTES: Final = 1 << 32
"""Of all tensors that a module computes, as if all lived at once."""

_REGION_CALL: Final = "relax.call_dps_packed"
_NAME: Final = re.compile(r"\w{1,64}", re.ASCII)
_SMALLEST_NUMBER, _LARGEST_NUMBER = -(1 << 63), (1 << 63) - 1

Values = list[dict[str, Any]]


def to_values(module: tvm.IRModule) -> dict[str, Any]:
    """A module as plain values, with the numbers of those that it returns."""
    for name, function in module.functions.items():
        if name.name_hint != "main" or not isinstance(function, relax.Function):
            raise WorkloadError(
                "a CPU part that is saved must consist of operators of Relax",
                field=str(name.name_hint),
                remedy="replace the operator that TVM expands in the model",
            )
    return _Writer(module["main"]).write()


def from_values(data: Any, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> tvm.IRModule:
    """Check and rebuild what `to_values` wrote."""
    with BUILDING:
        module = _Reader(data, inputs).read()
    _require_outputs(module["main"], outputs)
    return module


# -- writing ---------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, main: Any) -> None:
        self._main = main
        self._values: Values = []
        self._numbers: dict[Any, int] = {var: i for i, var in enumerate(main.params)}
        self._constants: dict[tuple[Any, ...], int] = {}
        self._first = len(self._numbers)

    def write(self) -> dict[str, Any]:
        for block in self._main.body.blocks:
            for binding in block.bindings:
                self._numbers[binding.var] = self._bound(binding)
        return {"values": self._values, "result": self._reference(self._main.body.body)}

    def _bound(self, binding: Any) -> int:
        value, name = binding.value, str(binding.var.name)
        if not isinstance(value, relax.Call):
            return self._reference(value)
        operator = operator_name(value)
        if operator == _REGION_CALL and _calls_region(value):
            number, count, *tensors = value.args[1].fields
            assert int(count.value) == len(tensors)
            shapes = [list(_fixed(one)) for kind in value.ty_args for one in _fields(kind)]
            arguments = [self._reference(tensor) for tensor in tensors]
            return self._add(
                region=int(number.value), arguments=arguments, shapes=shapes, name=name
            )
        if is_onnx_call(value):
            _, model, tensors = parts_of_call(value)
            return self._add(
                onnx=base64.b64encode(model).decode(),
                operators=kinds_in(model),
                arguments=[self._reference(tensor) for tensor in tensors],
                outputs=[
                    {"shape": list(_fixed(one)), "dtype": str(one.dtype)}
                    for kind in value.ty_args
                    for one in _fields(kind)
                ],
                name=name,
            )
        if not is_known(operator):
            raise _refusal(name, operator)
        try:
            attributes = attributes_to_values(operator, value.attrs)
        except ValueError as error:
            raise _refusal(name, f"{operator}: {error}") from error
        return self._add(
            call=operator,
            arguments=[self._reference(argument) for argument in value.args],
            attributes=attributes,
            name=name,
        )

    def _reference(self, expr: Any) -> int:
        """The number of a value that is known, or of a new one for what stands in its place."""
        if isinstance(expr, relax.Var):
            return self._numbers[expr]
        if isinstance(expr, relax.Tuple):
            return self._add(tuple=[self._reference(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            return self._add(item=self._reference(expr.tuple_value), index=int(expr.index))
        if is_constant(expr):
            array = constant(expr)
            data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
            key = (data, str(array.dtype), array.shape)
            if key not in self._constants:
                self._constants[key] = self._add(
                    constant=data, dtype=str(array.dtype), shape=list(array.shape)
                )
            return self._constants[key]
        if isinstance(expr, relax.ShapeExpr):
            return self._add(shape_of_sizes=list(_sizes(expr)))
        if isinstance(expr, tvm.tirx.IntImm | tvm.tirx.FloatImm):
            whole = isinstance(expr, tvm.tirx.IntImm)
            value = expr.value if whole else saved_number(expr.value)
            return self._add(number=value, dtype=str(expr.ty.dtype))
        raise _refusal("module", operator_name(expr) or type(expr).__name__)

    def _add(self, **value: Any) -> int:
        self._values.append(value)
        return self._first + len(self._values) - 1


def _calls_region(call: Any) -> bool:
    return (
        isinstance(call.args[0], relax.ExternFunc)
        and str(call.args[0].global_symbol) == REGION_FUNCTION
    )


def _refusal(name: str, what: str) -> WorkloadError:
    return WorkloadError(
        "a CPU part that is saved must consist of known operators and calls of regions",
        field=name,
        value=what,
        remedy="replace the operator in the model",
    )


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes: list[Any] = [getattr(size, "value", None) for size in shape.values]
    if None in sizes:
        raise _refusal("module", "a shape that is not fixed")
    return tuple(int(size) for size in sizes)


def _fixed(kind: Any) -> tuple[int, ...]:
    return _sizes(kind.shape)


def _fields(kind: Any) -> list[Any]:
    """The types in a tuple's type; of another type itself."""
    return list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]


# -- reading ---------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: Any, inputs: Sequence[Argument]) -> None:
        self._values, self._result = data["values"], data["result"]
        if not isinstance(self._values, list) or len(self._values) > MAX_VALUES:
            raise ValueError(f"a module must have at most {MAX_VALUES} values")
        self._builder = relax.BlockBuilder()
        self._bytes = 0
        self._params = [
            relax.Var(f"input{i}", self._input_type(argument)) for i, argument in enumerate(inputs)
        ]
        self._known: list[Any] = list(self._params)
        self._onnx_parts = 0

    def read(self) -> tvm.IRModule:
        with self._builder.function("main", params=self._params):
            with self._builder.dataflow():
                for value in self._values:
                    self._known.append(self._expression(value))
                result = self._builder.emit_output(self._at(self._result))
            self._builder.emit_func_output(result)
        return self._builder.get()

    def _input_type(self, argument: Argument) -> Any:
        self._count(argument.shape, argument.dtype)
        return relax.TensorType(argument.shape, argument.dtype)

    def _count(self, shape: Any, dtype: str, least: int = 1) -> tuple[int, ...]:
        """A shape that is legal, its bytes counted."""
        sizes = tuple(_integer(size) for size in shape)
        if dtype not in DTYPES or len(sizes) > MAX_RANK or min(sizes, default=1) < least:
            raise ValueError(f"a tensor must not be {dtype[:20]} of shape {str(sizes)[:60]}")
        nbytes = prod(sizes) * np.dtype(dtype).itemsize
        self._bytes += nbytes
        if nbytes > MAX_TENSOR_BYTES or self._bytes > MAX_ALL_BYTES:
            raise ValueError(
                f"a tensor must have at most {MAX_TENSOR_BYTES} bytes, all together {MAX_ALL_BYTES}"
            )
        return sizes

    def _at(self, number: Any) -> Any:
        if not 0 <= _integer(number) < len(self._known):
            raise ValueError(f"value {str(number)[:20]} is not known yet")
        return self._known[number]

    def _all(self, numbers: Any) -> list[Any]:
        if not isinstance(numbers, list) or len(numbers) > MAX_REFERENCES:
            raise ValueError(f"a value must refer to at most {MAX_REFERENCES} others")
        return [self._at(number) for number in numbers]

    def _expression(self, value: Any) -> Any:
        result: Any
        match value:
            case {"call": operator, "arguments": arguments, "attributes": attributes, "name": name}:
                result = self._call(operator, self._all(arguments), attributes, name)
            case {"region": number, "arguments": arguments, "shapes": shapes, "name": name}:
                result = self._region(_integer(number), self._all(arguments), shapes, name)
            case {"onnx": model, "arguments": arguments, "outputs": outputs, "name": name}:
                result = self._onnx(model, self._all(arguments), outputs, name)
            case {"constant": data, "dtype": dtype, "shape": shape}:
                result = self._constant(data, dtype, shape)
            case {"tuple": fields}:
                result = relax.Tuple(self._all(fields))
            case {"item": container, "index": index}:
                result = self._item(self._at(container), _integer(index))
            case {"shape_of_sizes": sizes}:
                result = relax.ShapeExpr(self._count(sizes, "int8"))
            case {"number": number, "dtype": dtype}:
                result = _number(number, dtype)
            case _:
                raise ValueError(f"a value of unknown kind ({str(value)[:40]})")
        return result

    def _call(self, operator: Any, arguments: list[Any], attributes: Any, name: Any) -> Any:
        if not isinstance(operator, str) or not is_known(operator):
            raise WorkloadError(
                "a CPU part must consist of known operators and calls of regions",
                field="host module",
                value=str(operator)[:60],
                remedy="compile the network again",
            )
        op = tvm.ir.Op.get(operator)
        if not 0 < len(arguments) <= MAX_ARGUMENTS:
            raise ValueError(f"{operator} has another number of arguments")
        arguments = self._bounded(operator, arguments, attributes)
        checked = attributes_from_values(operator, attributes)
        return self._emit(relax.Call(op, arguments, checked), _name(name))

    def _emit(self, expr: Any, name: str = "") -> Any:
        var = self._builder.emit(expr, name_hint=name)
        for kind in _fields(var.ty):
            if isinstance(kind, relax.ShapeType):
                continue
            if not isinstance(kind, relax.TensorType) or shape_of(relax.Var("x", kind)) is None:
                raise ValueError(f"{name or 'a value'} must have a fixed shape")
            self._count(_fixed(kind), str(kind.dtype))
        return var

    def _region(self, number: int, arguments: list[Any], shapes: Any, name: Any) -> Any:
        if any(dtype_of(argument) != "int8" for argument in arguments):
            raise ValueError("a region has an input that is not int8")
        sizes = [self._count(shape, "int8") for shape in shapes]
        if number < 0 or not arguments or not sizes:
            raise ValueError("a region must have a number, inputs and outputs")
        return self._builder.emit(region_call(number, arguments, sizes), name_hint=_name(name))

    def _onnx(self, model: Any, arguments: list[Any], outputs: Any, name: Any) -> Any:
        content = base64.b64decode(model, validate=True)
        kinds = [
            TensorKind(shape=self._count(each["shape"], each["dtype"]), dtype=each["dtype"])
            for each in outputs
        ]
        given = [TensorKind(shape=_shape_or_scalar(a), dtype=dtype_of(a)) for a in arguments]
        check_part(content, given, kinds)
        call = onnx_call(self._onnx_parts, content, arguments, kinds)
        self._onnx_parts += 1
        return self._builder.emit(call, name_hint=_name(name))

    def _constant(self, data: Any, dtype: Any, shape: Any) -> Any:
        sizes = self._count(shape, dtype, least=0)
        content = base64.b64decode(data, validate=True)
        array = np.frombuffer(content, np.dtype(dtype)).reshape(sizes)
        return relax.const(array.copy(), dtype)

    def _item(self, container: Any, index: int) -> Any:
        if isinstance(container, relax.Tuple):
            return container.fields[index]
        if not 0 <= index < len(_fields(container.ty)):
            raise ValueError(f"a tuple has no item {index}")
        return self._builder.emit(relax.TupleGetItem(container, index))

    # Positions in tensors that data choose

    def _bounded(self, operator: str, arguments: list[Any], attributes: Any) -> list[Any]:
        match operator, arguments:
            case "relax.gather_elements", [data, positions]:
                size = _shape(data)[_axis(attributes["axis"], data)]
                return [data, self._inside(positions, size)]
            case "relax.scatter_elements", [data, positions, updates]:
                size = _shape(data)[_axis(attributes["axis"], data)]
                return [data, self._inside(positions, size), updates]
            case "relax.gather_nd", [data, positions]:
                skipped = _integer(attributes["batch_dims"])
                return [data, self._inside_all(data, positions, skipped)]
            case "relax.scatter_nd", [data, positions, updates]:
                return [data, self._inside_all(data, positions, 0), updates]
            case ("relax.gather_elements" | "relax.scatter_elements", _) | (
                "relax.gather_nd" | "relax.scatter_nd",
                _,
            ):
                raise ValueError(f"{operator} has another number of arguments")
        return arguments

    def _inside_all(self, data: Any, positions: Any, skipped: int) -> Any:
        """Positions on several axes, the last axis of ``positions``."""
        count = _shape(positions)[-1]
        sizes = _shape(data)[skipped : skipped + count]
        if skipped < 0 or len(sizes) != count:
            raise ValueError("positions must be on axes of the data")
        return self._inside(positions, np.array(sizes))

    def _inside(self, positions: Any, sizes: Any) -> Any:
        """Positions clipped to a tensor; negative ones count from its end."""
        dtype = dtype_of(positions)
        if dtype not in ("int32", "int64"):
            raise ValueError("positions must be int32 or int64")
        size = relax.const(np.array(sizes, dtype), dtype)
        last = relax.const(np.array(sizes, dtype) - np.array(1, dtype), dtype)
        zero = relax.const(np.array(0, dtype), dtype)
        wrapped = self._emit(relax.op.add(positions, size))
        negative = self._emit(relax.op.less(positions, zero))
        counted = self._emit(relax.op.where(negative, wrapped, positions))
        return self._emit(relax.op.minimum(self._emit(relax.op.maximum(counted, zero)), last))


def _integer(value: Any) -> int:
    if type(value) is not int or not _SMALLEST_NUMBER <= value <= _LARGEST_NUMBER:
        raise ValueError(f"{str(value)[:20]} must be an integer of 64 bits")
    return value


def _number(value: Any, dtype: Any) -> Any:
    if dtype not in DTYPES:
        raise ValueError("a number must have a known type")
    if np.dtype(dtype).kind == "f":
        return tvm.tirx.FloatImm(dtype, read_number(value))
    return tvm.tirx.IntImm(dtype, _integer(value))


def _name(value: Any) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _shape(expr: Any) -> tuple[int, ...]:
    shape = shape_of(expr)
    if not shape:
        raise ValueError("positions need a tensor with axes")
    return shape


def _shape_or_scalar(expr: Any) -> tuple[int, ...]:
    shape = shape_of(expr)
    if shape is None:
        raise ValueError("an argument must be a tensor of fixed shape")
    return shape


def _axis(value: Any, data: Any) -> int:
    rank = len(_shape(data))
    if not -rank <= _integer(value) < rank:
        raise ValueError(f"a tensor has no axis {value}")
    return int(value)


def _require_outputs(main: Any, outputs: Sequence[Argument]) -> None:
    found: list[Mapping[str, Any]] = [
        {"shape": _fixed(kind), "dtype": str(kind.dtype)} for kind in _fields(main.body.ty)
    ]
    if found != [{"shape": o.shape, "dtype": o.dtype} for o in outputs]:
        raise ValueError("its results are not those of the module")
