# SPDX-License-Identifier: Apache-2.0
"""What the operators of a Relax module compute and move, counted from its shapes.

TVM runs neighbouring operators that work element by element in one pass. Tensors inside of a pass
are not moved, and its operators share what it reads and writes in equal parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from tvm import relax

from tilewright.host.compiler.divide.placement import Work
from tilewright.host.compiler.divide.relax_calls import (
    operator_name,
    shape_of,
    shape_of_type,
    variables_of,
)
from tilewright.host.compiler.divide.relax_import import RelaxModel, operator_index
from tilewright.host.compiler.divide.relax_operators import (
    BY_ELEMENT,
    PRODUCTS,
    REDUCTIONS,
    VIEWS,
)

Expr = Any
Var = Any


def operator_work(model: RelaxModel) -> tuple[Work, ...]:
    """The work of each of the model's operators.

    An operator of the model that TVM imports as several (LayerNormalization, Gemm) has the work of
    all of them. What depends on constants alone is computed when the network is compiled.
    """
    found = [Work() for _ in model.operators]
    waiting = Work()
    main = model.module["main"]
    bindings, constants = _computed(main)
    shares = _shares(bindings, constants, variables_of(main.body.body))
    for var, value in bindings:
        waiting += Work(macs=_macs(_name(value), value), bytes=shares[var])
        index = operator_index(var.name)
        if index is not None:
            if index in model.parts:
                waiting += Work(macs=model.parts[index].macs)
            found[index] += waiting
            waiting = Work()
    return tuple(found)


def bytes_of(expr: Expr) -> int:
    """The size of a tensor; 0 for anything else."""
    return _bytes_of_type(expr.ty)


def _computed(function: Any) -> tuple[list[tuple[Var, Expr]], set[Var]]:
    """The bindings that an inference computes, and the variables that are constants."""
    constants: set[Var] = set()
    bindings = []
    for block in function.body.blocks:
        for binding in block.bindings:
            read = variables_of(binding.value)
            if all(var in constants for var in read):
                constants.add(binding.var)
            else:
                bindings.append((binding.var, binding.value))
    return bindings, constants


def _shares(
    bindings: Sequence[tuple[Var, Expr]], constants: Collection[Var], results: Collection[Var]
) -> dict[Var, int]:
    """The bytes that each binding reads and writes: its share of its pass."""
    values = dict(bindings)
    readers: dict[Var, list[Var]] = {}
    for var, value in bindings:
        for read in variables_of(value):
            readers.setdefault(read, []).append(var)
    passes: dict[Var, list[Var]] = {var: [var] for var in values}
    inside = dict.fromkeys(
        var
        for var, value in bindings
        if var not in results and _stays_inside(_name(value), var, readers, values)
    )
    for var in inside:
        for reader in readers[var]:
            if passes[reader] is not passes[var]:
                passes[var] += passes[reader]
                for member in passes[reader]:
                    passes[member] = passes[var]
    shares = {}
    for members in {id(members): members for members in passes.values()}.values():
        moved = 0
        if any(_name(values[var]) not in VIEWS | {""} for var in members):
            read = {v for var in members for v in variables_of(values[var])} - set(members)
            moved = sum(bytes_of(var) for var in read - set(constants))
            moved += sum(map(_bytes_of_type, _written(members, inside, values)))
        for number, var in enumerate(members):
            shares[var] = moved * (number + 1) // len(members) - moved * number // len(members)
    return shares


def _stays_inside(
    name: str, var: Var, readers: Mapping[Var, Sequence[Var]], values: Mapping[Var, Expr]
) -> bool:
    """Whether a tensor is never written: all that reads it is in the pass that computes it.

    What is quantised may leave a region, and what is dequantised may enter one.
    """
    names = {_name(values[reader]) for reader in readers.get(var, ())}
    rounded = str(getattr(values[var].ty, "dtype", "")) == "int8"
    if not names or name == "quantize" or (rounded and "dequantize" in names):
        return False
    if name in BY_ELEMENT:
        return names <= BY_ELEMENT | REDUCTIONS
    return name in PRODUCTS and names <= BY_ELEMENT


def _written(
    members: Sequence[Var], inside: Collection[Var], values: Mapping[Var, Expr]
) -> Iterator[Any]:
    """Types of the tensors that a pass writes; a view or a member of a tuple is none."""
    for var in members:
        value = values[var]
        if var in inside or not isinstance(value, relax.Call):
            continue
        kind = value.ty
        yield from kind.fields if isinstance(kind, relax.TupleType) else (kind,)


def _name(value: Expr) -> str:
    return operator_name(value).removeprefix("relax.")


def _bytes_of_type(kind: Any) -> int:
    shape, dtype = shape_of_type(kind), str(getattr(kind, "dtype", "") or "")
    if shape is None or not dtype:
        return 0
    bits = "".join(c for c in dtype if c.isdecimal())
    return prod(shape) * (max(int(bits), 8) // 8 if bits else 1)


def _macs(name: str, value: Expr) -> int:
    if name.startswith("nn.conv"):
        weights, output = shape_of(value.args[1]), shape_of(value)
        if "transpose" in name:
            output = shape_of(value.args[0])
        if weights is None or output is None:
            return 0
        pixels = prod(output) // output[1]
        return pixels * prod(weights)
    if name == "matmul":
        a, output = shape_of(value.args[0]), shape_of(value)
        return prod(output) * a[-1] if a and output is not None else 0
    return 0
