# SPDX-License-Identifier: Apache-2.0
"""The functions that activation tables compute, as functions of the value that they look up.

A table's error is that of its result: an input that the function does not tell apart, such as what
lies below -3 in front of a hard-swish, may be clipped for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from tilewright.host.common.onnx_sessions import explained, open_session
from tilewright.host.compiler.read.edit import Array, array_of, is_kind, scalar_of
from tilewright.host.compiler.read.own_operators import OwnOperators
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS
from tilewright.host.network.operators import having

_KINDS: Final = having(lambda each: each.by_element and each.unit)
"""Of several inputs all but one may be numbers."""


class PointwiseResults:
    """Follows a graph in order; values that come from one rounded value by numbers alone."""

    def __init__(self, own: OwnOperators) -> None:
        self._sources: dict[ir.Value, ir.Value] = {}
        self._own = own

    def continues(self, node: ir.Node) -> bool:
        """Whether a node works on a result that a table computes."""
        return any(value in self._sources for value in node.inputs if value is not None)

    def takes(self, node: ir.Node, rounded: Collection[ir.Value]) -> bool:
        """Whether a table computes a node's result, from one of the rounded values."""
        own = self._own.find(node.domain, node.op_type)
        if not is_kind(node, *_KINDS) and (own is None or not own.pointwise):
            return False
        found = set()
        for value in node.inputs:
            if value is None or scalar_of(value) is not None:
                continue
            source = self._sources.get(value, value)
            if source not in rounded:
                return False
            found.add(source)
        if len(found) != 1 or len(node.outputs) != 1:
            return False
        self._sources[node.outputs[0]] = found.pop()
        return True


TableFunction = Callable[[Array], Array]
"""Of values (n,) the results (results, n)."""

_INPUT: Final = "table_input"
_RANK: Final = 4
"""Of what the operators are given: constants of a model have at most as many axes."""


def table_functions(
    model: ir.Model, tables: Collection[str], rounded: Collection[str]
) -> dict[str, TableFunction]:
    """Of each rounded activation that tables alone read, what they make of it."""
    found: dict[str, TableFunction] = {}
    for node in model.graph:
        for value in node.outputs:
            if value.name not in rounded or value.is_graph_output():
                continue
            chain = _chain(value, tables)
            results = [each for each in _results(chain, tables) if each.name]
            if chain and results:
                found[value.name or ""] = _Function(model, value, chain, results)
    return found


def _chain(value: ir.Value, tables: Collection[str]) -> list[ir.Node]:
    """The table operators behind a value in order; none if anything else reads it."""
    users = [use.node for use in value.uses()]
    if not users or any(node.name not in tables for node in users):
        return []
    chain: list[ir.Node] = []
    reached = {value}
    waiting = list(users)
    while waiting:
        node = waiting.pop(0)
        data = [each for each in node.inputs if each is not None and array_of(each) is None]
        if node in chain or any(each not in reached for each in data):
            continue  # it comes again behind what it waits for
        chain.append(node)
        reached |= set(node.outputs)
        waiting += [use.node for o in node.outputs for use in o.uses() if use.node.name in tables]
    return chain


def _results(chain: list[ir.Node], tables: Collection[str]) -> list[ir.Value]:
    """What leaves the tables."""
    return [
        value
        for node in chain
        for value in node.outputs
        if value.is_graph_output() or any(use.node.name not in tables for use in value.uses())
    ]


class _Function:
    """Operators of a model as a function; ONNX Runtime computes it."""

    def __init__(
        self, model: ir.Model, value: ir.Value, chain: list[ir.Node], results: list[ir.Value]
    ) -> None:
        nodes = [ir.to_proto(node) for node in chain]
        for node in nodes:
            for index, name in enumerate(node.input):
                if name == value.name:
                    node.input[index] = _INPUT
        constants = {
            each.name: array
            for node in chain
            for each in node.inputs
            if each is not None and (array := array_of(each)) is not None
        }
        kind = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            nodes,
            "table",
            [onnx.helper.make_tensor_value_info(_INPUT, kind, (1,) * (_RANK - 1) + ("n",))],
            [onnx.helper.make_tensor_value_info(each.name or "", kind, None) for each in results],
            [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        used = {node.domain for node in nodes} | set(DEFAULT_DOMAINS)
        functions = [ir.to_proto(each) for each in model.functions.values()]
        self._model = onnx.helper.make_model(
            graph,
            functions=[each for each in functions if each.domain in used],
            opset_imports=[
                onnx.helper.make_opsetid(domain, version)
                for domain, version in model.opset_imports.items()
                if domain in used
            ],
            ir_version=model.ir_version,
        )

    def __call__(self, values: Array) -> Array:
        with explained():
            session = open_session(self._model)
            shaped = values.astype(np.float32).reshape((1,) * (_RANK - 1) + (-1,))
            found = session.run(None, {_INPUT: shaped})
        return np.stack([each.reshape(-1) for each in found]).astype(np.float64)
