# SPDX-License-Identifier: Apache-2.0
"""Operators that stay together: control flow, and those whose sizes depend on data.

A body of an `If`, `Loop` or `Scan` reads tensors of the graph around it, and what `NonZero` or
`NonMaxSuppression` gives has no fixed shape. Neither can be quantised or divided. Each becomes a
function of the model with all operators up to tensors of fixed shapes: a part that the CPU computes
as a whole (`divide.relax_onnx`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import onnx

from tilewright.host.network.onnx_file import DEFAULT_DOMAINS
from tilewright.host.network.operators import having

PARTS_DOMAIN: Final = "tilewright"
"""Of the functions; their names are the kind of their first operator and a number."""

_SIZED_BY_DATA: Final = having(lambda each: each.sized_by_data)


def bodies_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graphs in attributes of nodes, and those in them."""
    for node in graph.node:
        for body in own_bodies(node):
            yield body
            yield from bodies_of(body)


def own_bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the attributes of a node, not those in them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def kind_of_part(name: str) -> str:
    """The kind of operator that a function is named after."""
    return name.rpartition("_")[0]


def stated_results(
    node: onnx.NodeProto, functions: Iterable[onnx.FunctionProto]
) -> list[onnx.ValueInfoProto]:
    """What a call of a function of `keep_whole` gives, as far as its sizes are known.

    They stand in the function's description: not all of them follow from the function, and whoever
    rewrites a model keeps that.
    """
    for function in functions:
        if (function.domain, function.name) == (node.domain, node.op_type):
            kinds = json.loads(function.doc_string)
            return [
                onnx.helper.make_tensor_value_info(name, *kinds[inner])
                for inner, name in zip(function.output, node.output, strict=True)
                if inner in kinds
            ]
    return []


def keep_whole(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose control flow, and what has no fixed shape, is in functions.

    Args:
        model: with inferred shapes and without nodes of other domains but its functions'. It stays
            as it is.
    """
    nodes = list(model.graph.node)
    groups = _groups(model.graph, nodes)
    if not groups:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    inside = {index for group in groups for index in group.members}
    changed.graph.node.extend(n for index, n in enumerate(nodes) if index not in inside)
    leaving = {value.name for value in model.graph.output}
    imports = [entry for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS]
    kinds = _fixed(model.graph)
    for number, group in enumerate(groups):
        function, call = _function(nodes, group, number, leaving)
        stated = {name: kinds[name] for name in function.output if name in kinds}
        function.doc_string = json.dumps(stated)
        function.opset_import.extend(imports)
        changed.functions.append(function)
        changed.graph.node.append(call)
    changed.opset_import.add(domain=PARTS_DOMAIN, version=1)
    import onnx_ir as ir  # noqa: PLC0415  (heavy, and only needed for such models)

    ordered = ir.from_proto(changed)
    ordered.graph.sort()
    return ir.to_proto(ordered)


@dataclass(kw_only=True)
class _Group:
    """Nodes of one function."""

    first: int  # the one that it is named after
    members: set[int] = field(default_factory=set)  # numbers of the nodes


def _groups(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> list[_Group]:
    """Disjoint sets of nodes that no path leaves and enters again."""
    fixed = _fixed(graph)
    writer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    reads = [{writer[n] for n in read_by(node) if n in writer} for node in nodes]
    readers: list[set[int]] = [set() for _ in nodes]
    for index, sources in enumerate(reads):
        for source in sources:
            readers[source].add(index)
    kinds = {value.name: value.type.WhichOneof("value") for value in graph.value_info}
    seeds = [index for index, node in enumerate(nodes) if _is_seed(node, kinds)]
    groups: list[_Group] = []
    for seed in seeds:
        if any(seed in group.members for group in groups):
            continue
        group = _Group(first=seed, members={seed})
        _grow(group, nodes, readers, fixed)
        groups.append(group)
    return _apart(groups, reads, readers)


def _is_seed(node: onnx.NodeProto, kinds: Mapping[str, str | None]) -> bool:
    """Whether a node has bodies, sizes by data, or a result that is no tensor (see `kinds`)."""
    standard = node.domain in DEFAULT_DOMAINS
    if standard and (node.op_type in _SIZED_BY_DATA or any(True for _ in own_bodies(node))):
        return True
    return any(kinds.get(name) not in (None, "tensor_type") for name in node.output)


def _grow(
    group: _Group,
    nodes: Sequence[onnx.NodeProto],
    readers: Sequence[set[int]],
    fixed: Collection[str],
) -> None:
    """Add all that reads tensors of no fixed shape."""
    waiting = list(group.members)
    while waiting:
        number = waiting.pop()
        loose = {name for name in nodes[number].output if name and name not in fixed}
        for index in readers[number] - group.members:
            if loose & set(read_by(nodes[index])):
                group.members.add(index)
                waiting.append(index)


def _apart(
    groups: list[_Group], reads: Sequence[set[int]], readers: Sequence[set[int]]
) -> list[_Group]:
    """Take in what lies between members; groups that meet become one."""
    done: list[_Group] = []
    waiting = list(groups)
    while waiting:
        group = waiting.pop(0)
        group.members |= _reached(group.members, reads) & _reached(group.members, readers)
        other = next((each for each in (*done, *waiting) if each.members & group.members), None)
        if other is None:
            done.append(group)
            continue
        other.members |= group.members
        other.first = min(other.first, group.first)
        if other in done:
            done.remove(other)
            waiting.append(other)
    return sorted(done, key=lambda group: group.first)


def _reached(start: Iterable[int], edges: Sequence[set[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        for index in edges[waiting.pop()] - found:
            found.add(index)
            waiting.append(index)
    return found


def _function(
    nodes: Sequence[onnx.NodeProto], group: _Group, number: int, leaving: set[str]
) -> tuple[onnx.FunctionProto, onnx.NodeProto]:
    members = [nodes[index] for index in sorted(group.members)]
    rest = [node for index, node in enumerate(nodes) if index not in group.members]
    written = dict.fromkeys(name for node in members for name in node.output if name)
    needed = leaving | {name for node in rest for name in read_by(node)}
    first = nodes[group.first]
    function = onnx.FunctionProto(domain=PARTS_DOMAIN, name=f"{first.op_type}_{number}")
    read = dict.fromkeys(name for node in members for name in read_by(node))
    function.input.extend(name for name in read if name not in written)
    function.output.extend(name for name in written if name in needed)
    function.node.extend(members)
    call = onnx.helper.make_node(
        function.name, function.input, function.output, first.name, domain=PARTS_DOMAIN
    )
    return function, call


def _fixed(graph: onnx.GraphProto) -> dict[str, tuple[int, list[int]]]:
    """Element type and sizes of the tensors whose sizes are known."""
    found = {}
    for value in (*graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape"):
            continue
        if all(dim.WhichOneof("value") == "dim_value" for dim in kind.shape.dim):
            found[value.name] = kind.elem_type, [dim.dim_value for dim in kind.shape.dim]
    return found


def read_by(node: onnx.NodeProto) -> list[str]:
    """Tensors that a node reads, those of the graph around it that its bodies read among them."""
    found: dict[str, Any] = dict.fromkeys(name for name in node.input if name)
    for body in own_bodies(node):
        inner = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
        inner |= {name for each in body.node for name in each.output}
        names = [name for each in body.node for name in read_by(each)]
        names += [value.name for value in body.output]
        found |= dict.fromkeys(name for name in names if name not in inner)
    return list(found)
