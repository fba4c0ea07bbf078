# SPDX-License-Identifier: Apache-2.0
"""The layers of an ONNX file as a `NetworkTable`, by ONNX shape inference alone.

Taken by the accelerator: Conv of images and sequences (dense and depthwise), Gemm, and MatMul with
constant weights. The epilogue behind each is recognised through folded operators (batch
normalisation, constant bias, quantise/dequantise pairs): an Add of two activations of equal shape
becomes ``residual``, a Relu or a Clip from 0 becomes ``relu``. Everything else is listed in
`NetworkTable.cpu_operators`.

Model files are untrusted input (see `host.network.onnx_file`): every defect is one
`WorkloadError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import AttributeProto, numpy_helper

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.onnx_file import (
    MAX_TENSOR_ELEMENTS,
    malformed,
    names_are_text,
    short,
)
from tilewright.host.network.onnx_graph import read_graph
from tilewright.host.network.operators import CONVERSIONS, LAYERS, having
from tilewright.host.network.workload import Kind, Workload, dense

_FOLDED: Final = having(lambda each: each.converts or each.idle)
"""Operators that disappear into the scale of an epilogue, wherever in it they occur."""

_CPU_REASONS: Final = {
    **dict.fromkeys(having(lambda each: each.pool), "pooling is not tuned"),
    **dict.fromkeys(having(lambda each: each.moves), "moves data only"),
    **dict.fromkeys(having(lambda each: each.control_flow), "control flow"),
    **dict.fromkeys(CONVERSIONS, "conversion between float and int8"),
    "Add": "not the residual of a convolution",
    "BatchNormalization": "does not follow a workload",
    "Clip": "not the activation of a workload, or its lower bound is not 0",
    "Relu": "not the activation of a workload",
}  # fmt: skip


def load_onnx(path: str | Path) -> NetworkTable:
    """Read an ONNX model as unique workloads with counts.

    A dynamic batch dimension of an input is taken as 1; all other dimensions must be known.
    """
    path = Path(path)
    graph = read_graph(path)
    try:
        return _Graph(str(path), graph).table(path.stem)
    except WorkloadError:
        raise
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise malformed(path, error) from error


# -- analysis ------------------------------------------------------------------------------------


@dataclass
class _Layer:
    """A workload under construction: what was found behind its node."""

    workload: Workload
    node: int
    depth: int
    add: int | None = None
    relu: int | None = None
    folded: list[int] = field(default_factory=list)


class _Unsupported(Exception):  # noqa: N818  (control flow, not an error)
    """An operator stays on the CPU; the text says why."""


class _Graph:
    """A shape-inferred graph, indexed for pattern matching."""

    def __init__(self, origin: str, graph: Any) -> None:
        self.origin = origin
        self.nodes = list(graph.node)
        self.outputs = {value.name for value in graph.output}
        self.initializers = {t.name: t for t in graph.initializer}
        self.shapes: dict[str, tuple[int | None, ...]] = {}
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.tensor_type.HasField("shape"):
                self.shapes[value.name] = tuple(
                    d.dim_value if d.WhichOneof("value") == "dim_value" else None
                    for d in value.type.tensor_type.shape.dim
                )
        self.shapes |= {name: tuple(t.dims) for name, t in self.initializers.items()}
        self.constant: set[str] = set(self.initializers)
        self.values: dict[str, Any] = dict(self.initializers)
        self.depth: dict[str, int] = {}
        self.consumers: dict[str, list[int]] = {}
        self._walk({value.name for value in graph.input})

    def _walk(self, inputs: set[str]) -> None:
        """Check order and single assignment; find constants, consumers and depths."""
        produced = {name for node in self.nodes for name in node.output if name}
        known = inputs | set(self.initializers)
        for index, node in enumerate(self.nodes):
            if not names_are_text(node):
                raise self._error("names must be UTF-8 text", node)
            arguments = [name for name in node.input if name]
            for name in arguments:
                if name not in known:
                    rule = (
                        "nodes must be sorted and the graph must be acyclic"
                        if name in produced
                        else "every input of a node must be defined"
                    )
                    raise self._error(rule, node, short(name))
                self.consumers.setdefault(name, []).append(index)
            is_constant = node.op_type == "Constant" or (
                bool(arguments) and all(name in self.constant for name in arguments)
            )
            if node.op_type == "Constant" and node.output:
                tensors = [a.t for a in node.attribute if a.HasField("t")]
                self.values |= dict.fromkeys(node.output[:1], tensors[0] if tensors else None)
            depth = max((self.depth.get(name, 0) for name in arguments), default=0)
            for name in node.output:
                if not name:
                    continue
                if name in known:
                    raise self._error("every value must be defined once", node, short(name))
                known.add(name)
                self.depth[name] = depth + (node.op_type in LAYERS)
                if is_constant:
                    self.constant.add(name)

    def _error(self, rule: str, node: Any, value: object = None, remedy: str = "") -> WorkloadError:
        label = short(node.name or (node.output[0] if node.output else ""))
        return WorkloadError(
            rule, field=f"{self.origin}: {short(node.op_type)} {label}", value=value, remedy=remedy
        )

    # -- operators -------------------------------------------------------------------------------

    def table(self, name: str) -> NetworkTable:
        """All workloads, merged, and the rest as text."""
        layers: list[_Layer] = []
        cpu: Counter[str] = Counter()
        macs: Counter[str] = Counter()

        def leave(index: int, reason: str) -> None:
            text = f"{short(self.nodes[index].op_type)}: {reason}"
            cpu[text] += 1
            macs[text] += self._macs(self.nodes[index])

        rest: list[int] = []
        builders = {"Conv": self._conv, "Gemm": self._gemm, "MatMul": self._matmul}
        names: set[str] = set()
        for index, node in enumerate(self.nodes):
            if all(output in self.constant for output in node.output if output):
                continue
            builder = builders.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if builder is None:
                rest.append(index)
                continue
            try:
                workload = builder(node, self._name(node, len(layers), names))
            except _Unsupported as unsupported:
                leave(index, str(unsupported))
                continue
            self._check_size(node, workload)
            if node.op_type == "Gemm" and _integer(node, "transA", 0):
                cpu["Transpose: of the activations of a Gemm (transA), moves data only"] += 1
            names.add(workload.name)
            layers.append(_Layer(workload, index, self.depth[node.output[0]]))
        self._epilogues(layers)
        taken = {i for a in layers for i in (*a.folded, a.add, a.relu) if i is not None}
        for index in rest:
            node = self.nodes[index]
            if index not in taken:
                reason = _CPU_REASONS.get(node.op_type, "not an operator of the accelerator")
                leave(index, reason)
        operators = tuple(
            f"{count} x {text}" + (f" ({macs[text]:,} MACs)" if macs[text] else "")
            for text, count in cpu.items()
        )
        if not layers:
            raise WorkloadError(
                "a model needs at least one operator that the accelerator takes "
                "(Conv, Gemm or MatMul whose second input is constant weights)",
                field=self.origin,
                remedy=f"found {'; '.join(operators[:4]) or 'constants only'}",
            )
        return NetworkTable(
            name=name,
            workloads=collect(a.workload for a in layers),
            cpu_operators=operators,
            cpu_macs=macs.total(),
        )

    def _macs(self, node: Any) -> int:
        """Multiply-accumulates of an operator that stays on the CPU; 0: none, or not known."""
        if node.op_type not in LAYERS or len(node.input) < 2:
            return 0
        first, second, result = (
            self.shapes.get(name) for name in (*node.input[:2], node.output[0])
        )
        if not (first and second and result) or None in (*first, *second, *result):
            return 0
        if node.op_type == "Conv":
            factors = (*result, *second[1:])
        elif node.op_type == "ConvTranspose":
            factors = (*first, *second[1:])
        else:
            depth = (
                first[-2] if node.op_type == "Gemm" and _integer(node, "transA", 0) else first[-1]
            )
            factors = (*result, depth)
        return prod(factor or 0 for factor in factors)

    def _name(self, node: Any, number: int, taken: set[str]) -> str:
        text = "".join(c if c.isalnum() or c in "_-" else "." for c in short(node.name))
        text = text.strip(".") or f"{node.op_type.lower()}{number}"
        while text in taken:
            text += f".{number}"
        return text

    def _check_size(self, node: Any, workload: Workload) -> None:
        for what in ("input", "weight", "output"):
            elements = prod(getattr(workload, f"{what}_shape"))
            if elements > MAX_TENSOR_ELEMENTS:
                raise self._error(
                    f"the {what} must have at most {MAX_TENSOR_ELEMENTS} elements", node, elements
                )
        inferred = self.shapes.get(node.output[0])
        if (
            inferred
            and all(inferred)
            and prod(d or 0 for d in inferred) != prod(workload.output_shape)
        ):
            raise self._error(
                f"shapes must agree (computed output {workload.output_shape})", node, inferred
            )

    def _shape(self, node: Any, tensor: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """A static shape; ``ranks`` are those that are offloaded, and none stands for all."""
        shape = self.shapes.get(tensor)
        if shape is not None and ranks and len(shape) not in ranks:
            taken = " or ".join(map(str, ranks))
            raise _Unsupported(f"its operand has {len(shape)} axes; {taken} are offloaded")
        if shape is None or None in shape:
            text = "unknown" if shape is None else tuple("?" if d is None else d for d in shape)
            raise self._error(
                f"the shape of {short(tensor)!r} must be static",
                node,
                text,
                "fix the input sizes at export, or take its compiled graph (--compiled)",
            )
        return tuple(d or 0 for d in shape)

    def _weight(self, node: Any) -> str:
        """The name of the constant second operand."""
        name = str(node.input[1])
        if node.input[0] in self.constant:
            raise _Unsupported("its first operand is constant")
        if name not in self.constant:
            raise _Unsupported("its weights are not constant")
        return name

    def _conv(self, node: Any, name: str) -> Workload:
        weight = self._weight(node)
        # A convolution over one axis is that of an image of one row.
        n, channels, *sizes = self._shape(node, node.input[0], (3, 4))
        rank = 2 + len(sizes)
        outputs, depth, *window = self._shape(node, weight, (rank,))
        height, width = _two(sizes)
        kernel_h, kernel_w = _two(window)
        groups = _integer(node, "group", 1)
        if depth * groups != channels:
            raise self._error(
                f"channels must be weight channels x groups ({depth} x {groups})", node, channels
            )
        kernel = _integers(node, "kernel_shape", window)
        if kernel != window:
            raise self._error(
                f"kernel_shape must match the weights ({' x '.join(map(str, window))})",
                node,
                kernel[:4],
            )
        is_depthwise = groups == channels and outputs == channels and groups > 1
        if groups != 1 and not is_depthwise:
            raise _Unsupported(f"{groups} groups of {depth} input channels")
        stride_h, stride_w = self._pair(node, "strides", len(window))
        dilation_h, dilation_w = self._pair(node, "dilations", len(window))
        spans = (dilation_h * (kernel_h - 1) + 1, dilation_w * (kernel_w - 1) + 1)
        top, left, bottom, right = self._pads(node, (height, width), (stride_h, stride_w), spans)
        return Workload(
            name=name,
            kind=Kind.DEPTHWISE if is_depthwise else Kind.CONV2D,
            n=n,
            height=height,
            width=width,
            channels_in=channels,
            channels_out=outputs,
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride_h=stride_h,
            stride_w=stride_w,
            pad_top=top,
            pad_bottom=bottom,
            pad_left=left,
            pad_right=right,
            dilation_h=dilation_h,
            dilation_w=dilation_w,
            relu=False,
        )

    def _pair(self, node: Any, attribute: str, axes: int) -> tuple[int, int]:
        values = _integers(node, attribute, [1] * axes)
        if len(values) != axes or min(values) < 1:
            words = {1: "one positive integer", 2: "two positive integers"}
            raise self._error(f"{attribute} must be {words[axes]}", node, values[:4])
        return _two(values)

    def _pads(
        self,
        node: Any,
        sizes: tuple[int, int],
        strides: tuple[int, int],
        spans: tuple[int, int],
    ) -> tuple[int, int, int, int]:
        """Top, left, bottom, right padding (ONNX Conv: pads and auto_pad)."""
        attribute = _attribute(node, "auto_pad", AttributeProto.STRING)
        mode = "NOTSET" if attribute is None else short(attribute.s)
        if mode == "VALID":
            return 0, 0, 0, 0
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            low, high = [], []
            for size, stride, span in zip(sizes, strides, spans, strict=True):
                total = max((-(-size // stride) - 1) * stride + span - size, 0)
                small, large = total // 2, total - total // 2
                low.append(small if mode == "SAME_UPPER" else large)
                high.append(large if mode == "SAME_UPPER" else small)
            return low[0], low[1], high[0], high[1]
        if mode != "NOTSET":
            raise self._error(
                "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER", node, mode
            )
        axes = len(self._shape(node, node.input[0], (3, 4))) - 2
        pads = _integers(node, "pads", [0] * 2 * axes)
        if len(pads) != 2 * axes or min(pads) < 0:
            words = {1: "two", 2: "four"}
            raise self._error(f"pads must be {words[axes]} integers of at least 0", node, pads[:8])
        (top, left), (bottom, right) = (
            _two(part, padding=0) for part in (pads[:axes], pads[axes:])
        )
        return top, left, bottom, right

    def _gemm(self, node: Any, name: str) -> Workload:
        weight = self._weight(node)
        if len(node.input) > 2 and node.input[2] and node.input[2] not in self.constant:
            raise _Unsupported("its addend is not constant")
        rows, features = self._shape(node, node.input[0], (2,))
        if _integer(node, "transA", 0):
            rows, features = features, rows
        first, second = self._shape(node, weight, (2,))
        if _integer(node, "transB", 0):
            first, second = second, first
        return self._dense(node, name, (rows, features), (first, second))

    def _matmul(self, node: Any, name: str) -> Workload:
        weight = self._weight(node)
        first, second = self._shape(node, weight, (2,))
        *rows, features = self._shape(node, node.input[0], ()) or (0,)
        return self._dense(node, name, (prod(rows), features), (first, second))

    def _dense(
        self, node: Any, name: str, activations: tuple[int, int], weights: tuple[int, int]
    ) -> Workload:
        (rows, features), (depth, outputs) = activations, weights
        if features != depth:
            raise self._error(f"the operands must agree in features ({depth})", node, features)
        return dense(name, rows, features, outputs)

    # -- epilogues -------------------------------------------------------------------------------

    def _epilogues(self, layers: list[_Layer]) -> None:
        """Give every layer the Add and the Relu or Clip that its vector pass can absorb.

        When both operands of an Add come from layers, it belongs to the deeper one (the main
        path, not the projection shortcut); the other one is computed before it.
        """
        owners: dict[int, _Layer] = {}
        for layer in layers:
            add = self._follow(layer)
            if add is None:
                continue
            rival = owners.get(add)
            if rival is None or _rank(layer) > _rank(rival):
                owners[add] = layer
        for add, layer in owners.items():
            layer.add = add
            layer.workload = replace(layer.workload, residual=True)
            self._follow(layer, self.nodes[add].output[0])
        for layer in layers:
            if layer.relu is not None:
                layer.workload = replace(layer.workload, relu=True)

    def _follow(self, layer: _Layer, tensor: str = "") -> int | None:
        """Fold what follows a layer; returns the Add of activations at which it stops."""
        tensor = tensor or self.nodes[layer.node].output[0]
        while (index := self._only_user(tensor)) is not None:
            node = self.nodes[index]
            others = [name for name in node.input if name and name != tensor]
            if any(name not in self.constant for name in others):
                return index if self._is_residual(layer, node) else None
            if not self._fold(layer, index, tensor, others):
                return None
            tensor = node.output[0]
        return None

    def _only_user(self, tensor: str) -> int | None:
        """The only node that reads a tensor, unless the tensor leaves the graph."""
        users = self.consumers.get(tensor, [])
        if len(users) != 1 or tensor in self.outputs:
            return None
        node = self.nodes[users[0]]
        return users[0] if node.domain in ("", "ai.onnx") and node.output else None

    def _is_residual(self, layer: _Layer, node: Any) -> bool:
        """An Add of two activations of equal shape, before any activation function."""
        shapes = {self.shapes.get(name) for name in (*node.input, node.output[0])}
        return (
            node.op_type == "Add"
            and len(node.input) == 2
            and layer.add is None
            and layer.relu is None
            and len(shapes) == 1
            and None not in shapes
        )

    def _fold(self, layer: _Layer, index: int, tensor: str, others: list[str]) -> bool:
        """Note a node with constant other operands as part of the layer, if it can be."""
        node = self.nodes[index]
        if node.op_type == "Add":
            folds = self._is_affine(layer, node, others)
        elif tensor != node.input[0]:
            folds = False
        elif layer.relu is None and self._is_relu(node):
            layer.relu = index
            return True
        else:
            folds = node.op_type in _FOLDED or self._is_affine(layer, node, others)
        if folds:
            layer.folded.append(index)
        return folds

    def _is_affine(self, layer: _Layer, node: Any, others: list[str]) -> bool:
        """A batch normalisation or a constant bias that folds into weights and bias."""
        if layer.add is not None or layer.relu is not None:
            return False
        return node.op_type == "BatchNormalization" or (
            node.op_type == "Add" and self._is_bias(node, others)
        )

    def _is_bias(self, node: Any, others: list[str]) -> bool:
        """An Add of a constant that does not enlarge the result."""
        if len(others) != 1:
            return False
        shape, result = self.shapes.get(others[0]), self.shapes.get(node.output[0])
        elements = prod(d or 0 for d in shape) if shape is not None else 0
        return result is not None and bool(elements) and elements in (1, *result)

    def _is_relu(self, node: Any) -> bool:
        """Relu, or Clip with a lower bound of 0."""
        if node.op_type == "Clip":
            if len(node.input) > 1:
                return self._scalar(node.input[1]) == 0
            minimum = _attribute(node, "min", AttributeProto.FLOAT)
            return minimum is not None and minimum.f == 0
        return bool(node.op_type == "Relu")

    def _scalar(self, name: str) -> float | None:
        tensor = self.values.get(name)
        if tensor is None or prod(tensor.dims) != 1:
            return None
        return float(np.asarray(numpy_helper.to_array(tensor)).reshape(()))


def _two(values: Sequence[int], padding: int = 1) -> tuple[int, int]:
    """Numbers for rows and columns; one number is that of the columns."""
    rows, columns = values if len(values) == 2 else (padding, values[0])
    return rows, columns


def _rank(layer: _Layer) -> tuple[int, int, int]:
    """Which of two layers absorbs their common Add: the deeper, then the heavier, then the later.

    Depth counts the convolutions and products on the longest path from an input.
    """
    return layer.depth, layer.workload.macs, layer.node


def _attribute(node: Any, name: str, kind: int) -> Any:
    """The attribute of that name, or ``None``."""
    for attribute in node.attribute:
        if attribute.name == name:
            if attribute.type != kind:
                raise WorkloadError(
                    f"must be of type {AttributeProto.AttributeType.Name(kind)}",
                    field=f"{short(node.op_type)} {short(node.name)}: {name}",
                    remedy="export the model again and check it with onnx.checker",
                )
            return attribute
    return None


def _integer(node: Any, name: str, default: int) -> int:
    attribute = _attribute(node, name, AttributeProto.INT)
    return default if attribute is None else int(attribute.i)


def _integers(node: Any, name: str, default: list[int]) -> list[int]:
    attribute = _attribute(node, name, AttributeProto.INTS)
    return default if attribute is None else [int(i) for i in attribute.ints]
