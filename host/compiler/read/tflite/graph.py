# SPDX-License-Identifier: Apache-2.0
"""The ONNX model that grows while the operators of a TensorFlow Lite file are read.

Images of such a file have their channels last, and layers of ONNX want them first. Each tensor is
held in the order in which it was computed, and is transposed where a reader needs the other one.
So a network of layers has a transpose at its ends alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_shapes

from tilewright.host.common.errors import WorkloadError, reason_of
from tilewright.host.compiler.read.tflite.file import Operation, Tensor, TfliteModel
from tilewright.host.network.onnx_file import MAX_TENSOR_ELEMENTS, short

Array = npt.NDArray[Any]

OPSET: Final = 18
TO_FIRST: Final = (0, 3, 1, 2)
TO_LAST: Final = (0, 2, 3, 1)
PLACES: Final = TO_LAST
"""Where the axes of the file's order lie with channels first."""
IMAGE_RANK: Final = 4

_TOLD: Final = 1 << 10
"""Elements of a constant that shapes may follow from."""
_MOST_NAME: Final = 200
MOST_COMPUTED: Final = 1 << 26
"""Elements of a constant that is computed."""
_CONVERSIONS: Final = ("QuantizeLinear", "DequantizeLinear")

_NO_STEPS: Final = "export the model so that the converter knows it before it runs"


class Graph:
    """Nodes and constants of an ONNX model, with the shape of each value."""

    def __init__(self, origin: Path, taken: Iterable[str] = ()) -> None:
        self.origin = origin
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self._writers: dict[str, onnx.NodeProto] = {}
        self._names = set(taken)
        self._copies: Counter[str] = Counter()
        self.stem = "model"  # of the nodes that are added

    def name(self, stem: str) -> str:
        """A new name that starts with a stem."""
        stem = short(stem) if len(stem) > _MOST_NAME or not stem.isprintable() else stem
        stem = stem if stem.strip() else "tensor"
        name = stem
        while name in self._names:
            self._copies[stem] += 1
            name = f"{stem}_{self._copies[stem]}"
        self._names.add(name)
        return name

    def state(self, name: str, shape: Sequence[int], dtype: Any) -> str:
        """Note what a value is."""
        self.shapes[name], self.dtypes[name] = tuple(shape), np.dtype(dtype)
        return name

    def constant(self, array: Array, stem: str = "") -> str:
        """A constant."""
        name = self.name(stem or f"{self.stem}_constant")
        self.constants[name] = np.ascontiguousarray(array).reshape(array.shape)
        return self.state(name, array.shape, array.dtype)

    def add(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The result of a new node."""
        return self.add_several(kind, inputs, 1, **attributes)[0]

    def add_several(
        self, kind: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> list[str]:
        """The results of a new node; of constants alone, they are constants."""
        stem = self.stem
        outputs = [self.name(f"{stem}_{kind}" if count == 1 else stem) for _ in range(count)]
        node = helper.make_node(kind, list(inputs), outputs, name=outputs[0], **attributes)
        self._infer(node)
        known = all(name in self.constants or not name for name in inputs)
        most = max(int(np.prod(self.shapes[name])) for name in outputs)
        if known and kind not in _CONVERSIONS and most <= MOST_COMPUTED:
            results = ReferenceEvaluator(self._alone(node, whole=True)).run(None, {})
            return [self.constant(np.asarray(each)) for each in results]
        self.nodes.append(node)
        self._writers.update(dict.fromkeys(outputs, node))
        return outputs

    def _alone(self, node: onnx.NodeProto, *, whole: bool) -> onnx.ModelProto:
        """A model of one node, with its constants, or but those that shapes may follow from."""
        names = [name for name in dict.fromkeys(node.input) if name]
        told = [
            name
            for name in names
            if name in self.constants and (whole or self.constants[name].size <= _TOLD)
        ]
        graph = helper.make_graph(
            [node],
            "alone",
            [self.value(name) for name in names if name not in told],
            [helper.make_empty_tensor_value_info(name) for name in node.output] if whole else [],
            [numpy_helper.from_array(self.constants[name], name) for name in told],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])

    def value(self, name: str) -> onnx.ValueInfoProto:
        """A value with type and shape."""
        kind = helper.np_dtype_to_tensor_dtype(self.dtypes[name])
        return helper.make_tensor_value_info(name, kind, self.shapes[name])

    def _infer(self, node: onnx.NodeProto) -> None:
        try:
            found = infer_shapes(self._alone(node, whole=False), strict_mode=True, data_prop=True)
        except (InferenceError, ValueError) as error:
            raise WorkloadError(
                f"must have inputs that fit each other ({reason_of(error, 100)})",
                field=f"{self.origin}: {short(self.stem)}",
                remedy="export or copy it again",
            ) from error
        types = {value.name: value.type.tensor_type for value in found.graph.value_info}
        for name in node.output:
            stated = types.get(name)
            sizes = None if stated is None else [d.dim_value for d in stated.shape.dim]
            if stated is None or sizes is None or not stated.HasField("shape") or 0 in sizes:
                raise WorkloadError(
                    "must have a shape that is known before it runs, with elements",
                    field=f"{self.origin}: {short(self.stem)}",
                    value=sizes,
                    remedy=_NO_STEPS,
                )
            if prod(sizes) > MAX_TENSOR_ELEMENTS:
                raise WorkloadError(
                    f"must have at most {MAX_TENSOR_ELEMENTS} elements",
                    field=f"{self.origin}: {short(self.stem)}",
                    value=sizes,
                    remedy="export the model with a smaller input or batch",
                )
            self.state(name, sizes, helper.tensor_dtype_to_np_dtype(stated.elem_type))

    def transposed(self, name: str, order: Sequence[int]) -> str:
        """A value with its axes in another order: two orders in a row are one."""
        order, shape = tuple(order), self.shapes[name]
        if order == tuple(range(len(order))):
            return name
        if name in self.constants:
            return self.constant(self.constants[name].transpose(order), name)
        if [axis for axis in order if shape[axis] > 1] == [
            a for a in sorted(order) if shape[a] > 1
        ]:
            return self.reshaped(name, [shape[axis] for axis in order])
        writer = self._writers.get(name)
        if writer is not None and writer.op_type == "Transpose":
            before = writer.attribute[0].ints
            return self.transposed(writer.input[0], [before[axis] for axis in order])
        return self.add("Transpose", [name], perm=order)

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """A value in another shape: two shapes in a row are one."""
        if self.shapes[name] == tuple(shape):
            return name
        if name in self.constants:
            return self.constant(self.constants[name].reshape(shape), name)
        writer = self._writers.get(name)
        if writer is not None and writer.op_type == "Reshape":
            return self.reshaped(writer.input[0], shape)
        return self.add("Reshape", [name, self.constant(np.array(shape, np.int64))])

    def renamed(self, name: str, wanted: str) -> str:
        """Let the value of a node have a name; what no node of its own writes is copied."""
        writer = self._writers.pop(name, None)
        if writer is None:
            self.nodes.append(helper.make_node("Identity", [name], [wanted], name=wanted))
        else:
            for node in self.nodes:
                for names in (node.input, node.output):
                    names[:] = [wanted if each == name else each for each in names]
        return self.state(wanted, self.shapes[name], self.dtypes[name])


class Held:
    """Which values of the graph hold the tensors of the file."""

    def __init__(self, source: TfliteModel, graph: Graph) -> None:
        self.source, self.graph = source, graph
        self.ends = {*source.inputs, *source.outputs}
        self._names: dict[int, dict[bool, str]] = {}
        self.spread: dict[int, tuple[tuple[int, int], list[int]]] = {}
        """Dilations and padding of a convolution that reads pixels spread over the batch."""
        self.unlike: set[int] = set()  # tensors that are held in another shape than the file's

    def __contains__(self, index: int) -> bool:
        return index in self._names or self.source.tensors[index].data is not None

    def keep(self, index: int, name: str, *, first: bool) -> None:
        """Note that a value holds a tensor, with channels first or in the file's order."""
        self._names.setdefault(index, {})[first] = name

    def shape(self, index: int) -> tuple[int, ...]:
        """Of a tensor, in the file's order."""
        data = self.source.tensors[index].data
        if index not in self._names and data is not None:
            return data.shape
        first, name = next(iter(self._names[index].items()))
        shape = self.graph.shapes[name]
        return tuple(shape[axis] for axis in TO_LAST) if first else shape

    def is_first(self, index: int) -> bool:
        """Whether a tensor was computed with channels first."""
        return True in self._names.get(index, {}) and False not in self._names[index]

    def raw(self, index: int, *, first: bool) -> str:
        """A tensor as the file stores it, quantised or not."""
        tensor = self.source.tensors[index]
        names = self._names.setdefault(index, {})
        if not names and tensor.data is not None:
            names[False] = self.graph.constant(tensor.data, tensor.name)
        if first not in names:
            order = TO_FIRST if first else TO_LAST
            name = names[not first]
            if tensor.quantised and tensor.data is None and index not in self.ends:
                real = self.graph.transposed(self.converted(tensor, name), order)
                names[first] = self.converted(tensor, real, back=True)
            else:
                names[first] = self.graph.transposed(name, order)
        return names[first]

    def converted(self, tensor: Tensor, name: str, *, back: bool = False, axis: int = 0) -> str:
        """What the steps of a tensor stand for, or its steps; `axis` is that of several scales."""
        stated = tensor.quantisation
        assert stated is not None
        several = stated.scale.size > 1
        numbers = [
            self.graph.constant(stated.scale if several else stated.scale.reshape(())),
            self.graph.constant(
                (stated.zero_point if several else stated.zero_point.reshape(())).astype(
                    tensor.dtype
                )
            ),
        ]
        attributes = {"axis": axis} if several else {}
        return self.graph.add(_CONVERSIONS[not back], [name, *numbers], **attributes)


def real_numbers(tensor: Tensor) -> Array:
    """What a constant stands for, as float32."""
    assert tensor.data is not None
    stated = tensor.quantisation
    if stated is None or tensor.data.dtype.kind not in "iu":
        return tensor.data.astype(np.float32)
    shape = [1] * tensor.data.ndim
    if stated.scale.size > 1:
        shape[stated.axis] = -1
    scale, zero = stated.scale.reshape(shape), stated.zero_point.reshape(shape)
    if not tensor.data.ndim:
        scale, zero = scale.reshape(()), zero.reshape(())
    return np.asarray((tensor.data.astype(np.int64) - zero).astype(np.float32) * scale)


class Step:
    """One operator of the file, as those who convert it see it."""

    def __init__(self, held: Held, operation: Operation, place: str) -> None:
        self.held, self.graph, self.source = held, held.graph, held.source
        self.operation, self._place = operation, place
        self.quantised = any(self.source.tensors[i].quantised for i in operation.outputs)

    def refuse(self, rule: str, value: object = None, remedy: str = "") -> NoReturn:
        """Raise the error for what cannot be read."""
        raise WorkloadError(
            rule,
            field=f"{self.graph.origin}: {self._place}",
            value=value,
            remedy=remedy or "leave the operator out, or export it as others",
        )

    def has(self, place: int) -> bool:
        """Whether an input is given."""
        return place < len(self.operation.inputs) and self.operation.inputs[place] >= 0

    def index(self, place: int) -> int:
        """The tensor of an input."""
        if not self.has(place):
            self.refuse(f"must have {place + 1} inputs", len(self.operation.inputs))
        return self.operation.inputs[place]

    def tensor(self, place: int) -> Tensor:
        """The record of an input."""
        return self.source.tensors[self.index(place)]

    def result(self, place: int = 0) -> Tensor:
        """The record of an output."""
        if place >= len(self.operation.outputs) or self.operation.outputs[place] < 0:
            self.refuse(f"must have {place + 1} outputs", len(self.operation.outputs))
        return self.source.tensors[self.operation.outputs[place]]

    def shape(self, place: int, rank: int = 0) -> tuple[int, ...]:
        """Of an input, in the file's order; of a rank, if one is given."""
        shape = self.held.shape(self.index(place))
        if rank and len(shape) != rank:
            self.refuse(f"must have {rank} axes", list(shape))
        return shape

    def option(self, name: str, default: Any = 0) -> Any:
        """A field of the operator."""
        return self.operation.options.get(name, default)

    def known(self, place: int) -> Array:
        """An input that must be constant, as the file stores it."""
        name = self.held.raw(self.index(place), first=False)
        if name not in self.graph.constants:
            self.refuse(f"input {place} must be constant", remedy=_NO_STEPS)
        return self.graph.constants[name]

    def whole(self, place: int) -> list[int]:
        """Whole numbers of an input that must be constant."""
        array = self.known(place)
        if array.dtype.kind not in "iu" or array.size > _TOLD:
            self.refuse(f"input {place} must hold few whole numbers", str(array.dtype))
        return [int(each) for each in array.reshape(-1)]

    def axis(self, number: int, rank: int) -> int:
        """An axis without a sign."""
        if not -rank <= number < rank:
            self.refuse(f"an axis must be from {-rank} to {rank - 1}", number)
        return number % rank

    def is_first(self, *places: int) -> bool:
        """Whether to work with channels first: one of these inputs was computed so, and all can."""
        indices = [self.index(place) for place in places]
        varying = [i for i in indices if self.source.tensors[i].data is None]
        return any(map(self.held.is_first, indices)) and all(
            len(self.held.shape(i)) == IMAGE_RANK for i in varying
        )

    def raw(self, place: int, *, first: bool = False) -> str:
        """An input as the file stores it."""
        return self.held.raw(self.index(place), first=first)

    def real(self, place: int, *, first: bool = False, folded: bool = False) -> str:
        """An input as real numbers. Constants of lower rank get leading axes of size 1.

        Args:
            place: of the input.
            first: with channels first.
            folded: a constant is one of floats, and not of steps and a conversion.
        """
        index, tensor = self.index(place), self.tensor(place)
        if tensor.data is not None and index not in self.source.outputs:
            return self._real_constant(tensor, first=first, folded=folded)
        name = self.raw(place, first=first)
        if tensor.quantised:
            if tensor.quantisation is not None and tensor.quantisation.scale.size > 1:
                self.refuse("must have one scale for each tensor that is computed")
            return self.held.converted(tensor, name)
        return name

    def _real_constant(self, tensor: Tensor, *, first: bool, folded: bool) -> str:
        assert tensor.data is not None
        several = tensor.quantisation is not None and tensor.quantisation.scale.size > 1
        folds = tensor.quantised and (folded or several or not self.quantised)
        array = real_numbers(tensor) if folds else tensor.data
        if first:
            wide = array.reshape((1,) * (IMAGE_RANK - array.ndim) + array.shape)
            array = wide.transpose(TO_FIRST) if array.ndim else array
        name = self.graph.constant(array, tensor.name)
        return self.held.converted(tensor, name) if tensor.quantised and not folds else name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of a new node."""
        return self.graph.add(kind, inputs, **attributes)

    def numbers(self, values: Any, dtype: Any = np.int64) -> str:
        """A constant of numbers."""
        return self.graph.constant(np.array(values, dtype))

    def activated(self, name: str) -> str:
        """A value behind the activation that the operator has in it."""
        number = self.option("FusedActivationFunction")
        if number not in _FUSED:
            self.refuse("must have an activation inside that is known", number)
        return self.applied(name, _FUSED[number])

    def applied(self, name: str, kind: str) -> str:
        """A value behind an activation: an operator without attributes, or bounds."""
        if kind in BOUNDS:
            return self.add("Clip", name, *(self.numbers(e, np.float32) for e in BOUNDS[kind]))
        return self.add(kind, name) if kind else name

    def give(self, name: str, place: int = 0, *, first: bool = False) -> None:
        """State that real numbers, or what is not quantised, are an output."""
        tensor = self.result(place)
        if tensor.quantised:
            if tensor.quantisation is not None and tensor.quantisation.scale.size > 1:
                self.refuse("must have one scale for each tensor that is computed")
            name = self.held.converted(tensor, name, back=True)
        self.give_raw(name, place, first=first)

    def give_raw(self, name: str, place: int = 0, *, first: bool = False) -> None:
        """State that a value is an output as the file stores it."""
        tensor, dtype = self.result(place), self.graph.dtypes[name]
        if dtype != np.dtype(tensor.dtype):
            self.refuse(f"must give {tensor.dtype}", str(dtype))
        self.held.keep(self.operation.outputs[place], name, first=first)


BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
_FUSED: Final[Mapping[int, str]] = {0: "", 1: "Relu", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "Tanh"}
