# SPDX-License-Identifier: Apache-2.0
"""The function ``main`` of a Relax module as steps: units of the accelerator, single bindings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.relax_calls import (
    Refusal,
    is_constant,
    operator_name,
    variables_of,
)
from tilewright.host.compiler.divide.relax_general import match_general
from tilewright.host.compiler.divide.relax_import import RelaxModel, operator_index
from tilewright.host.compiler.divide.relax_own import OwnNode, match_own
from tilewright.host.compiler.divide.relax_patterns import match_table, match_unit
from tilewright.host.compiler.divide.relax_units import GENERAL, OffloadUnit, read_unit
from tilewright.host.network.operators import CONVERSIONS

Var = Any
Expr = Any


_PERHAPS_TABLES: Final = ("multiply", "prelu")
"""Units that are one look-up where they are functions of one tensor: x * sigmoid(x)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RelaxStep:
    """A unit, or one binding that runs on the CPU."""

    index: int  # in the order of the program
    var: Var  # what the step defines
    value: Expr  # the expression bound to it; of a unit the quantize call
    interior: tuple[tuple[Var, Expr], ...]  # bindings that the unit contains besides, in order
    reads: tuple[Var, ...]  # variables of other steps and parameters
    operators: tuple[int, ...]  # which operators of the model are in it
    unit: OffloadUnit | None  # ``None`` on the CPU


@dataclass(frozen=True, kw_only=True, eq=False)
class StepGraph:
    """All steps of a function."""

    steps: tuple[RelaxStep, ...]  # in topological order
    writer: dict[Var, RelaxStep]  # the step that defines a variable
    readers: dict[Var, list[RelaxStep]]  # the steps that read a variable
    result: Expr  # what the function returns
    refusals: dict[int, str]  # reasons by operator of the model


def read_steps(model: RelaxModel, *, tables: bool = False, rows: bool = False) -> StepGraph:
    """Find the units in a module."""
    function = model.module["main"]
    bindings = list(_bindings(function))
    values = relax.analysis.get_var2val(function)
    users = _users(bindings, function.body.body)
    own = _own_nodes(bindings, model)
    refusals = {} if tables else _without_table(model)
    units: dict[Var, tuple[OffloadUnit, tuple[tuple[Var, Expr], ...]]] = {}
    inside: set[Var] = set()
    for var, value in bindings:
        if operator_name(value) != "relax.quantize":
            continue
        matched = match_own(value, values, own) or match_unit(value, values, rows=rows)
        if tables and (matched is None or matched[0] in _PERHAPS_TABLES):
            matched = match_table(value, values, own) or matched
        for kind, parts in _ways(matched, match_general(value, values)):
            stops = {parts[name].args[0] for name in parts if name.startswith("data")}
            interior = _interior(value, stops, values)
            try:
                _require_private(var, interior, users)
                unit = read_unit(kind, value, parts)
            except Refusal as refusal:
                for operator in _operators(interior, model):
                    refusals.setdefault(operator, str(refusal))
                continue
            units[var] = (unit, interior)
            inside |= {name for name, _ in interior}
            for operator in _operators(interior, model):
                refusals.pop(operator, None)
            break
    steps: list[RelaxStep] = []
    for var, value in bindings:
        if var in inside:
            continue
        found = units.get(var)
        inner = found[1] if found is not None else ()
        reads = variables_of(value)
        if found is not None:
            reads = [var for var in found[0].data if not is_constant(var)]
        steps.append(
            RelaxStep(
                index=len(steps),
                var=var,
                value=value,
                interior=inner,
                reads=tuple(dict.fromkeys(reads)),
                operators=tuple(_operators((*inner, (var, value)), model)),
                unit=found[0] if found is not None else None,
            )
        )
    readers: dict[Var, list[RelaxStep]] = {}
    for step in steps:
        for read in step.reads:
            readers.setdefault(read, []).append(step)
    return StepGraph(
        steps=tuple(steps),
        writer={step.var: step for step in steps},
        readers=readers,
        result=function.body.body,
        refusals=refusals,
    )


def _ways(
    matched: tuple[str, dict[str, Any]] | None, general: dict[str, Any] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A match, which knows its general form if that has the same data, and that form alone."""
    if matched is not None:
        kind, parts = matched
        data = [[part for name, part in each.items() if name.startswith("data")]
                for each in (parts, general or {})]  # fmt: skip
        if general is not None and [d.args[0] for d in data[0]] == [d.args[0] for d in data[1]]:
            parts = {**parts, "computation": general["computation"]}
        yield kind, parts
    if general is not None:
        yield GENERAL, general


def _own_nodes(bindings: list[tuple[Var, Expr]], model: RelaxModel) -> dict[Var, OwnNode]:
    """Users' operators by the variables of their results."""
    found = {}
    for var, _ in bindings:
        index = operator_index(var.name)
        if index is not None and index in model.own:
            found[var] = model.own[index]
    return found


def _without_table(model: RelaxModel) -> dict[int, str]:
    """Why the CPU runs users' operators that a table would compute."""
    return {
        index: "it is a table, and the configuration has none (activation_table: 1)"
        for index, node in model.own.items()
        if node.operator.pointwise
    }


def _bindings(function: Any) -> Iterator[tuple[Var, Expr]]:
    for block in function.body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if not isinstance(binding, relax.VarBinding) or isinstance(
                value, relax.If | relax.Function | relax.SeqExpr
            ):
                raise WorkloadError(
                    "a network must not have control flow or shapes that depend on data",
                    field=str(binding.var.name),
                    remedy="export it for fixed input shapes, in inference mode",
                )
            yield binding.var, value


def _users(bindings: list[tuple[Var, Expr]], result: Expr) -> dict[Var, list[Var | None]]:
    """Which variables read a variable; None is the function's result."""
    users: dict[Var, list[Var | None]] = {}
    for var, value in bindings:
        for read in variables_of(value):
            users.setdefault(read, []).append(var)
    for read in variables_of(result):
        users.setdefault(read, []).append(None)
    return users


def _interior(root: Expr, stops: set[Expr], values: Any) -> tuple[tuple[Var, Expr], ...]:
    """The bindings between a quantize call and its unit's data, in topological order."""
    found: dict[Var, Expr] = {}

    def visit(expr: Expr) -> None:
        for var in variables_of(expr):
            if var not in stops and var not in found and var in values:
                visit(values[var])
                found[var] = values[var]

    visit(root)
    return tuple(found.items())


def _require_private(
    root: Var, interior: tuple[tuple[Var, Expr], ...], users: dict[Var, list[Var | None]]
) -> None:
    members = {var for var, _ in interior} | {root}
    if any(user not in members for var, _ in interior for user in users[var]):
        raise Refusal("its result before quantisation is used elsewhere too")


def _operators(bindings: tuple[tuple[Var, Expr], ...], model: RelaxModel) -> list[int]:
    """The model's operators among bindings, without those that only convert."""
    found = []
    for var, _ in bindings:
        index = operator_index(var.name)
        if index is not None and model.operators[index].kind not in CONVERSIONS:
            found.append(index)
    return found
