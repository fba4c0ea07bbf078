# SPDX-License-Identifier: Apache-2.0
"""Models with users' operators: their meanings as functions of the model, and what is without them.

ONNX Runtime and ONNX's shape inference take a function for what its nodes compute. The nodes stay
whole, so that the compiler sees them; only where ONNX Runtime rewrites a model they are set aside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx
from onnx import inliner

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.own_operators import Key, OwnOperator, OwnOperators
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS

OLDEST_OPSET: Final = 13
"""Since then weights can have a scale for each channel; older models are converted, which ONNX does
only with its own operators."""


def attach_meanings(model: onnx.ModelProto, own: OwnOperators) -> onnx.ModelProto:
    """A model with the functions of its own operators; those that are nothing else are inlined."""
    found = _used(model, own)
    if not found:
        return model
    version = next((e.version for e in model.opset_import if e.domain in DEFAULT_DOMAINS), 0)
    if version < OLDEST_OPSET:
        raise WorkloadError(
            f"must be at least {OLDEST_OPSET} in a model with operators of your own",
            field=f"operator set, for {next(iter(found.values())).label}",
            value=version,
            remedy="export the model for a newer operator set",
        )
    imported = {entry.domain for entry in model.opset_import}
    for operator in found.values():
        function = model.functions.add()
        function.CopyFrom(operator.function)
        function.opset_import[0].version = version
        if function.domain not in imported:
            model.opset_import.add(domain=function.domain, version=1)
            imported.add(function.domain)
    inlined = [key for key, each in found.items() if not (each.pointwise or each.lowered)]
    return inliner.inline_selected_functions(model, inlined) if inlined else model


def drop_meanings(model: onnx.ModelProto, own: OwnOperators) -> None:
    """Remove the functions that have the name of an operator of the user."""
    kept = [each for each in model.functions if own.find(each.domain, each.name) is None]
    del model.functions[:]
    model.functions.extend(kept)


def _used(model: onnx.ModelProto, own: OwnOperators) -> dict[Key, OwnOperator]:
    """The operators of a model, whose nodes state all attributes from now on.

    ONNX's inliner would leave out what a node leaves to the meaning's default.
    """
    found: dict[Key, OwnOperator] = {}
    for node in model.graph.node:
        operator = own.find(node.domain, node.op_type)
        if operator is None:
            continue
        found[operator.key] = operator
        function = operator.function
        known = {*function.attribute, *(each.name for each in function.attribute_proto)}
        given = {each.name for each in node.attribute}
        if not given <= known or not set(function.attribute) <= given:
            raise operator.wrong(
                f"node {node.name[:40]!r} has the attributes {sorted(given)}, and the meaning "
                f"{sorted(known)}"
            )
        if len(node.input) > len(function.input) or len(node.output) != 1:
            raise operator.wrong(
                f"node {node.name[:40]!r} has {len(node.input)} inputs, and the meaning "
                f"{len(function.input)}"
            )
        node.attribute.extend(each for each in function.attribute_proto if each.name not in given)
    return found


def set_aside(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[onnx.NodeProto]]:
    """A model without the nodes of its functions, and these nodes.

    Their results become inputs of the model, and what they read outputs.

    Args:
        model: with inferred shapes.
    """
    keys = {(each.domain, each.name) for each in model.functions}
    aside = [node for node in model.graph.node if (node.domain, node.op_type) in keys]
    rest = [node for node in model.graph.node if (node.domain, node.op_type) not in keys]
    graph = model.graph
    known = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    computed = {name for node in rest for name in node.output if node.op_type != "Constant"}
    made = dict.fromkeys(name for node in aside for name in node.output)
    read = dict.fromkeys(name for node in aside for name in node.input if name in computed)
    cut = type(model)()
    cut.CopyFrom(model)
    for part in (cut.functions, cut.graph.node, cut.graph.output):
        del part[:]
    cut.graph.node.extend(rest)
    cut.graph.input.extend(known[name] for name in made if name in known)
    left = dict.fromkeys(v.name for v in graph.output if v.name in computed)
    cut.graph.output.extend(known[name] for name in (left | read) if name in known)
    return cut, aside


def put_back(
    changed: onnx.ModelProto, aside: Iterable[onnx.NodeProto], original: onnx.ModelProto
) -> onnx.ModelProto:
    """A model with the nodes of `set_aside`, and with inputs, outputs and functions as before."""
    graph = changed.graph
    nodes = list(aside)
    for part, old in ((graph.input, original.graph.input), (graph.output, original.graph.output)):
        del part[:]
        part.extend(old)
    graph.node.extend(nodes)
    changed.functions.extend(original.functions)
    domains = {entry.domain for entry in changed.opset_import}
    changed.opset_import.extend(e for e in original.opset_import if e.domain not in domains)
    read = {name for node in nodes for name in node.input}
    present = {tensor.name for tensor in graph.initializer}
    present |= {name for node in graph.node for name in node.output}
    for tensor in original.graph.initializer:
        if tensor.name in read - present:
            graph.initializer.append(tensor)
    for node in original.graph.node:
        if node.op_type == "Constant" and node.output[0] in read - present:
            graph.node.append(node)
    import onnx_ir as ir  # noqa: PLC0415  (heavy, and only needed for such models)

    sorted_model = ir.from_proto(changed)
    sorted_model.graph.sort()
    return ir.to_proto(sorted_model)
