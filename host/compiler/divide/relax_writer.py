# SPDX-License-Identifier: Apache-2.0
"""Writes the part of a network that stays on the CPU, with calls of the regions in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import tvm
from tvm import relax

from tilewright.host.compiler.divide.relax_calls import shape_of
from tilewright.host.compiler.divide.relax_graph import RelaxStep, StepGraph
from tilewright.host.compiler.divide.relax_regions import RelaxRegion

REGION_FUNCTION: Final = "tilewright.region"
"""Called with the region's number, the number of inputs, the inputs, and the outputs to fill."""


def renamed(expr: Any, new: Mapping[Any, Any]) -> Any:
    """An expression with other variables, its types to be inferred anew."""
    if isinstance(expr, relax.Var):
        return new[expr]
    if isinstance(expr, relax.Call):
        arguments = [renamed(arg, new) for arg in expr.args]
        return relax.Call(expr.op, arguments, expr.attrs, expr.ty_args)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([renamed(field, new) for field in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(renamed(expr.tuple_value, new), expr.index)
    return expr


def region_call(number: int, arguments: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Any:
    """The call of a region with int8 arguments and int8 results of these shapes."""
    return relax.op.call_dps_packed(
        REGION_FUNCTION,
        relax.Tuple([relax.prim_value(number), relax.prim_value(len(arguments)), *arguments]),
        out_ty=[relax.TensorType(shape, "int8") for shape in shapes],
    )


def write_host(
    module: tvm.IRModule, graph: StepGraph, regions: Sequence[RelaxRegion]
) -> tvm.IRModule:
    """The module with calls of regions in place of their steps.

    Regions are called in an order in which every input is known; region i is number i.
    """
    return _HostWriter(module, graph, regions).write()


class _HostWriter:
    def __init__(
        self, module: tvm.IRModule, graph: StepGraph, regions: Sequence[RelaxRegion]
    ) -> None:
        self._module = module
        self._graph = graph
        self._regions = regions
        self._region_of = {step.var: n for n, region in enumerate(regions) for step in region.steps}
        self._new: dict[Any, Any] = {}
        self._builder = relax.BlockBuilder()

    def write(self) -> tvm.IRModule:
        main = self._module["main"]
        params = list(main.params)
        self._new = {param: param for param in params}
        with self._builder.function("main", params=params):
            with self._builder.dataflow():
                for unit in self._order():
                    if isinstance(unit, int):
                        self._call_region(unit)
                    else:
                        self._bind(unit)
                result = self._builder.emit_output(renamed(self._graph.result, self._new))
            self._builder.emit_func_output(result)
        functions = dict(self._module.functions.items())
        functions[self._module.get_global_var("main")] = self._builder.get()["main"]
        written = relax.transform.DeadCodeElimination(["main"])(tvm.IRModule(functions))
        return relax.transform.CanonicalizeBindings()(written)

    def _order(self) -> Iterator[int | RelaxStep]:
        """Regions and steps, each after what it reads (depth first, without recursion)."""
        done: set[Any] = set()
        stack: list[tuple[int | RelaxStep, bool]] = [
            (s, False) for s in reversed(self._graph.steps)
        ]
        while stack:
            item, ready = stack.pop()
            if ready:
                yield item
                continue
            if isinstance(item, RelaxStep):
                region = self._region_of.get(item.var)
                if region is not None and not self._is_move(item):
                    item = region
            key = item if isinstance(item, int) else item.var
            if key in done:
                continue
            done.add(key)
            stack.append((item, True))
            reads = self._regions[item].inputs if isinstance(item, int) else item.reads
            for var in reversed(reads):
                if var in self._graph.writer:
                    stack.append((self._graph.writer[var], False))

    @staticmethod
    def _is_move(step: RelaxStep) -> bool:
        return step.unit is not None and step.unit.moves_only

    def _call_region(self, number: int) -> None:
        region = self._regions[number]
        arguments = [self._new[var] for var in region.inputs]
        shapes = [_known_shape(var) for var in region.outputs]
        result = self._builder.emit(region_call(number, arguments, shapes))
        for index, var in enumerate(region.outputs):
            value = relax.TupleGetItem(result, index) if len(shapes) > 1 else result
            self._new[var] = self._builder.emit(value) if len(shapes) > 1 else value

    def _bind(self, step: RelaxStep) -> None:
        if self._is_move(step):
            self._bind_move(step)
            return
        for var, value in (*step.interior, (step.var, step.value)):
            self._new[var] = self._builder.emit(renamed(value, self._new), name_hint=var.name)

    def _bind_move(self, step: RelaxStep) -> None:
        """A move of data works on int8; one that only a region needs vanishes as dead code."""
        unit = step.unit
        assert unit is not None
        if unit.data[0] not in self._new:
            return  # inside a region
        data = self._new[unit.data[0]]
        moved = (
            relax.op.permute_dims(data, list(unit.axes))
            if unit.axes
            else relax.op.reshape(data, list(unit.output.shape))
        )
        self._new[step.var] = self._builder.emit(moved, name_hint=step.var.name)


def _known_shape(var: Any) -> tuple[int, ...]:
    shape = shape_of(var)
    assert shape is not None  # units have no others
    return shape
