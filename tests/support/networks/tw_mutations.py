# SPDX-License-Identifier: Apache-2.0
"""Damaged `.tw` files: flipped bytes, and changes that keep the structure."""

import base64
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx

NUMBERS = (0, 1, -1, 2, 3, 7, 8, 127, 255, 4096, 10**6, 2**31 - 1, 2**31, 2**40, -(2**31), 2**62)


def members_of(data: bytes) -> dict[str, bytes]:
    """Members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members: dict[str, bytes]) -> bytes:
    """An archive of members."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return output.getvalue()


def edited(data: bytes, member: str, change: Callable[[Any], Any]) -> bytes:
    """An archive one of whose JSON members was changed, in place or by what is returned."""
    members = members_of(data)
    content = json.loads(members[member])
    result = change(content)
    members[member] = json.dumps(content if result is None else result).encode()
    return archive_of(members)


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One damaged file of many kinds."""
    kinds = (
        _raw_bytes, _program_bytes, _manifest, _host, _host, _host_operator, _host_links,
        _onnx_part,
    )  # fmt: skip
    return kinds[rng.integers(len(kinds))](data, rng)


def _flipped(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if changed:
            changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed)


def _raw_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    return _flipped(data, rng)[: rng.integers(1, 2 * len(data))]


def _program_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Instructions, micro-ops or weights, in an archive whose checksums are right."""
    members = members_of(data)
    name = _pick([name for name in members if "/" in name], rng)
    members[name] = _flipped(members[name], rng)
    return archive_of(members)


def _manifest(data: bytes, rng: np.random.Generator) -> bytes:
    return edited(data, "manifest.json", lambda manifest: _change_leaf(manifest, rng))


def _host(data: bytes, rng: np.random.Generator) -> bytes:
    return edited(data, "host.json", lambda host: _change_leaf(host, rng))


def _host_operator(data: bytes, rng: np.random.Generator) -> bytes:
    """Another operator, sometimes with arguments or attributes of yet another."""

    def change(host: Any) -> None:
        calls = [value for value in host["module"]["values"] if "call" in value]
        one, other = _pick(calls, rng), _pick(calls, rng)
        for field in ("call", "arguments", "attributes"):
            if rng.random() < 0.5:
                one[field] = other[field]

    return edited(data, "host.json", change)


def _onnx_part(data: bytes, rng: np.random.Generator) -> bytes:
    """A model that ONNX Runtime computes, changed; a file without one stays whole."""

    def change(host: Any) -> None:
        parts = [value for value in host["module"]["values"] if "onnx" in value]
        if not parts:
            return
        part = _pick(parts, rng)
        content = base64.b64decode(part["onnx"])
        if rng.random() < 0.2:
            content = _flipped(content, rng)
        else:
            model = onnx.ModelProto.FromString(content)
            for _ in range(int(rng.integers(1, 4))):
                _change_graph(model.graph, rng)
            content = model.SerializeToString()
        part["onnx"] = base64.b64encode(content).decode()

    return edited(data, "host.json", change)


_KINDS = (
    "Conv", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "GridSample", "If",
    "Loop", "MaxPool", "MaxUnpool", "Mul", "NonZero", "Pad", "Range", "Reshape", "Resize",
    "RoiAlign", "ScatterND", "Slice", "Tile", "TopK", "Transpose",
)  # fmt: skip


def _change_graph(graph: onnx.GraphProto, rng: np.random.Generator) -> None:
    nodes = list(graph.node)
    nodes += [n for node in graph.node for a in node.attribute for n in a.g.node]
    node, constants = _pick(nodes, rng), list(graph.initializer)
    match int(rng.integers(5)):
        case 0:
            node.op_type = _pick(_KINDS, rng)
        case 1 if node.attribute:
            attribute = _pick(list(node.attribute), rng)
            attribute.i = int(_pick(NUMBERS, rng))
            if attribute.ints:
                attribute.ints[int(rng.integers(len(attribute.ints)))] = attribute.i
        case 2 if node.input:
            names = [name for each in nodes for name in (*each.input, *each.output)]
            node.input[int(rng.integers(len(node.input)))] = _pick(names, rng)
        case 3 if constants:
            tensor = _pick(constants, rng)
            if tensor.dims:
                tensor.dims[int(rng.integers(len(tensor.dims)))] = int(_pick(NUMBERS, rng))
        case 4 if constants:
            tensor = _pick(constants, rng)
            tensor.raw_data = _flipped(tensor.raw_data, rng)


def _host_links(data: bytes, rng: np.random.Generator) -> bytes:
    """References anywhere, cycles among them; values doubled, lost or in another order."""

    def change(host: Any) -> None:
        values = host["module"]["values"]
        kind = rng.integers(4)
        if kind == 0:
            one = _pick([v for v in values if v.get("arguments")], rng)
            one["arguments"][rng.integers(len(one["arguments"]))] = int(rng.integers(len(values)))
        elif kind == 1:
            values.insert(int(rng.integers(len(values))), _pick(values, rng))
        elif kind == 2:
            del values[rng.integers(len(values))]
        else:
            a, b = rng.integers(len(values), size=2)
            values[a], values[b] = values[b], values[a]

    return edited(data, "host.json", change)


def _change_leaf(root: Any, rng: np.random.Generator) -> None:
    leaves = list(_leaves(root))
    for _ in range(int(rng.integers(1, 4))):
        container, key = _pick(leaves, rng)
        container[key] = _other(container[key], rng)


def _other(value: Any, rng: np.random.Generator) -> Any:
    if rng.random() < 0.05:
        return _pick([None, [], {}, "x", 1.5, True, [[]]], rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _pick([*NUMBERS, value + 1, value - 1, value * 2], rng)
    if isinstance(value, float):
        return _pick([0.0, -1.0, 1e30, 1e-30, value * 2], rng)
    if isinstance(value, str):
        return _pick(["", value + "x", value[: len(value) // 2], "relax.take", "float64"], rng)
    return 0


def _leaves(node: Any) -> Iterator[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        if isinstance(value, dict | list) and value:
            yield from _leaves(value)
        else:
            yield node, key


def _pick(choices: Any, rng: np.random.Generator) -> Any:
    return choices[rng.integers(len(choices))]
