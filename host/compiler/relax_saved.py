# SPDX-License-Identifier: Apache-2.0
"""Relax modules as text, and back as untrusted input.

A module that is read calls nothing but operators of Relax and regions, and all its types are
inferred anew: it can compute nonsense, but reaches neither files nor memory that is not its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import tvm
from tvm import relax

from tilewright.host.compiler.argument import Argument
from tilewright.host.compiler.relax_calls import (
    BUILDING,
    dtype_of,
    is_constant,
    operator_name,
    shape_of,
)
from tilewright.host.compiler.relax_writer import REGION_FUNCTION, region_call, renamed
from tilewright.host.errors import WorkloadError

_UNSAFE: Final = (
    "relax.assert", "relax.builtin", "relax.call", "relax.ccl", "relax.dist", "relax.grad",
    "relax.hint", "relax.inspect", "relax.invoke", "relax.make", "relax.memory", "relax.print",
    "relax.stop", "relax.vm",
)  # fmt: skip
"""Beginnings of operators that do not compute a tensor from tensors."""


def to_text(module: tvm.IRModule) -> str:
    """A module as JSON.

    Raises:
        WorkloadError: it has loops of TVM's own, which `from_text` would refuse.
    """
    _require_plain(module)
    return str(tvm.ir.save_json(module))


def from_text(text: str, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> tvm.IRModule:
    """Read, check and rebuild what `to_text` wrote.

    Args:
        text: the JSON.
        inputs: of ``main``, which the module must match.
        outputs: of ``main``, which the module must match.

    Raises:
        WorkloadError: it is something else.
    """
    with BUILDING:
        module = tvm.ir.load_json(text)
        _require_plain(module)
        rebuilt = _rebuilt_module(module["main"])
    _require_arguments(rebuilt["main"], inputs, outputs)
    return rebuilt


def _rebuilt_module(main: Any) -> tvm.IRModule:
    params = [relax.Var(var.name, _tensor_type(var)) for var in main.params]
    new = dict(zip(main.params, params, strict=True))
    builder = relax.BlockBuilder()
    with builder.function("main", params=params):
        with builder.dataflow():
            for block in main.body.blocks:
                for binding in block.bindings:
                    new[binding.var] = builder.emit(
                        _rebuilt(binding.value, new), name_hint=binding.var.name
                    )
            result = builder.emit_output(renamed(main.body.body, new))
        builder.emit_func_output(result)
    return builder.get()


def _require_plain(module: tvm.IRModule) -> None:
    for name, function in module.functions.items():
        if name.name_hint != "main" or not isinstance(function, relax.Function):
            raise WorkloadError(
                "a CPU part that is saved must consist of operators of Relax",
                field=str(name.name_hint),
                remedy="replace the operator that TVM expands in the model",
            )
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            _require_safe(binding)


def _require_safe(binding: Any) -> None:
    value = binding.value
    name = operator_name(value)
    if isinstance(value, relax.Call):
        region = name == "relax.call_dps_packed" and (
            isinstance(value.args[0], relax.ExternFunc)
            and str(value.args[0].global_symbol) == REGION_FUNCTION
        )
        plain = name.startswith("relax.") and not name.startswith(_UNSAFE)
        safe = region or (plain and not any(map(_is_call, value.args)))
    else:
        safe = isinstance(value, relax.Var | relax.Tuple | relax.TupleGetItem)
        safe = safe or is_constant(value)
    if not safe:
        raise WorkloadError(
            "a CPU part must consist of operators of Relax and calls of regions",
            field=str(binding.var.name),
            value=name or type(value).__name__,
        )


def _is_call(expr: Any) -> bool:
    return isinstance(expr, relax.Call)


def _tensor_type(var: Any) -> Any:
    shape = shape_of(var)
    if shape is None or not dtype_of(var):
        raise ValueError(f"parameter {var.name} has no fixed shape")
    return relax.TensorType(shape, dtype_of(var))


def _rebuilt(value: Any, new: dict[Any, Any]) -> Any:
    if operator_name(value) != "relax.call_dps_packed":
        return renamed(value, new)
    number, count, *tensors = value.args[1].fields
    if int(count.value) != len(tensors):
        raise ValueError("a region has another number of inputs")
    arguments = [new[tensor] for tensor in tensors]
    if any(dtype_of(argument) != "int8" for argument in arguments):
        raise ValueError("a region has an input that is not int8")
    kinds = [one for kind in value.ty_args for one in _fields(kind)]
    shapes = [tuple(int(size) for size in kind.shape.values) for kind in kinds]
    if any(str(kind.dtype) != "int8" for kind in kinds):
        raise ValueError("a region has an output that is not int8")
    return region_call(int(number.value), arguments, shapes)


def _require_arguments(main: Any, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> None:
    results = _fields(main.body.ty)
    for stated, found in ((inputs, [param.ty for param in main.params]), (outputs, results)):
        shapes = [tuple(int(size) for size in one.shape.values) for one in found]
        dtypes = [str(one.dtype) for one in found]
        if shapes != [a.shape for a in stated] or dtypes != [a.dtype for a in stated]:
            raise ValueError("its arguments are not those of the module")


def _fields(kind: Any) -> list[Any]:
    """The types in a tuple's type; of another type itself."""
    return list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
