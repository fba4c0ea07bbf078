# SPDX-License-Identifier: Apache-2.0
"""Read an ONNX file, as untrusted input, with its weights and fixed shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import external_data_helper, inliner, numpy_helper
from onnx.shape_inference import infer_shapes

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.element_types import widen_floats, widen_integers
from tilewright.host.compiler.read.foreign_operators import expanded, is_foreign
from tilewright.host.compiler.read.loop_shapes import is_fixed, state_loop_shapes
from tilewright.host.compiler.read.old_operator_sets import raised
from tilewright.host.compiler.read.own_models import (
    OLDEST_OPSET,
    attach_meanings,
    drop_meanings,
)
from tilewright.host.compiler.read.own_operators import OwnOperators
from tilewright.host.compiler.read.remedies import GIVE_SHAPES
from tilewright.host.compiler.read.whole_operators import (
    PARTS_DOMAIN,
    bodies_of,
    own_bodies,
    stated_results,
)
from tilewright.host.network.onnx_file import (
    DEFAULT_DOMAINS,
    MAX_TENSOR_ELEMENTS,
    batch_of_zero,
    malformed,
    names_are_text,
    parse_model,
    require_external_file,
    require_nodes,
    short,
    tensors_of,
)
from tilewright.host.network.operators import having

MAX_NODES: Final = 10_000
MAX_INLINED: Final = 2 * MAX_NODES
"""Nodes of the graph and of bodies of control flow, with functions in the place of their calls."""
_NEWEST_OPSET: Final = 26
"""Which ONNX Runtime has released."""

_MAX_NAME: Final = 512
"""Characters of a name: a compiled network holds longer ones, made of it."""

_MODE: Final = 2
"""Input of Dropout that says whether it is in training."""

_LARGE_BYTES: Final = 1 << 16
"""Of a constant that is no shape, list of axes or the like."""

_MAX_COMPUTED: Final = 2**26
"""Elements of what a model makes of smaller constants: TVM copies it several times."""

_OF_ONE_SHAPE: Final = having(lambda each: each.sized_as_data)

_OLDEST_IR: Final = 8
"""Of ONNX's file format, which ONNX Runtime and TVM take; older models are raised to it."""

_NEWEST_IR: Final = 13
"""Which ONNX Runtime takes; newer models are lowered to it."""


def read_model(
    path: Path, input_shapes: Mapping[str, tuple[int, ...]], own: OwnOperators | None = None
) -> onnx.ModelProto:
    """Read, check and normalise a model.

    The result has its weights inside, no model-local functions but those of users' operators, an
    operator set of at least `OLDEST_OPSET`, and inputs of fixed shapes. A dynamic first dimension
    is 1.

    Args:
        path: of the file.
        input_shapes: shapes of inputs by name, where the model leaves them open or others are
            wanted.
        own: operators that it may have besides those of ONNX; None: those of entry points.
    """
    return normalised(parse_model(path), path, input_shapes, own)


def normalised(
    model: onnx.ModelProto,
    path: Path,
    input_shapes: Mapping[str, tuple[int, ...]],
    own: OwnOperators | None = None,
) -> onnx.ModelProto:
    """`read_model` for a model in memory; ``path`` is for messages and external data."""
    try:
        return _normalised(model, path, input_shapes, own or OwnOperators())
    except WorkloadError:
        raise
    except Exception as error:  # the C++ library raises kinds of its own
        raise malformed(path, error) from error


def _normalised(
    model: onnx.ModelProto,
    path: Path,
    input_shapes: Mapping[str, tuple[int, ...]],
    own: OwnOperators,
) -> onnx.ModelProto:
    _check_structure(model, path, own)
    _load_external_data(model, path)
    if model.functions:
        _require_few_when_inlined(model, path)
        drop_meanings(model, own)
        model = inliner.inline_local_functions(model)
        _check_structure(model, path, own)
    model = expanded(model, path, own, with_shapes)
    version = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)
    if version > _NEWEST_OPSET:
        raise WorkloadError(
            f"must use version {_NEWEST_OPSET} of ONNX's operators or an older one",
            field=str(path),
            value=version,
            remedy="export it with opset_version=18, or convert it with onnx.version_converter",
        )
    if version >= OLDEST_OPSET and any(node.op_type == "Loop" for node in model.graph.node):
        model = _without_loops(model)
        _check_structure(model, path, own)
    _require_no_old_bodies(model, version, path)
    model = attach_meanings(model, own)
    _state_sides(model)
    if not all(value.type.tensor_type.HasField("shape") for value in model.graph.output):
        model = with_shapes(model)  # the checker wants them
    check(model)
    widen_floats(model)
    widen_integers(model, path)
    stated = _stated_outputs(model) if not input_shapes else {}
    _fix_shapes(model, path, input_shapes)
    _take_weights_off_inputs(model)
    if version < OLDEST_OPSET:
        model = raised(model, version, path)
    model = inferred(_pools_rounded_down(model), path)
    for value in model.graph.output:
        if value.name in stated and not is_fixed(value):
            value.CopyFrom(stated[value.name])
    return model


def _pools_rounded_down(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without `ceil_mode`, whose sizes ONNX infers otherwise than ONNX Runtime."""
    rounded = any(a.name == "ceil_mode" and a.i for n in model.graph.node for a in n.attribute)
    while rounded:
        import onnx_ir as ir  # noqa: PLC0415  (heavy, and only needed for such models)

        from tilewright.host.compiler.read.pools import round_pool_down  # noqa: PLC0415  (heavy, too)

        current = ir.from_proto(with_shapes(model))
        if rounded := round_pool_down(current.graph):
            for value in (value for node in current.graph for value in node.outputs):
                value.shape = None  # inferred anew
            model = ir.to_proto(current)
    return model


def check(model: onnx.ModelProto) -> None:
    """ONNX's checker; it wants shapes of outputs, which need not follow from those of inputs."""
    if all(value.type.tensor_type.HasField("shape") for value in model.graph.output):
        onnx.checker.check_model(model)
        return
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for value in whole.graph.output:
        value.type.tensor_type.shape.SetInParent()
    onnx.checker.check_model(whole)


def _stated_outputs(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Outputs whose sizes the model states: those of suppressed boxes do not follow from others."""
    found = {}
    for value in model.graph.output:
        if is_fixed(value):
            found[value.name] = onnx.ValueInfoProto()
            found[value.name].CopyFrom(value)
    return found


def _state_sides(model: onnx.ModelProto) -> None:
    """State that STFT has one side where it says nothing: ONNX infers the sizes of two."""
    for graph in (model.graph, *bodies_of(model.graph)):
        for node in graph.node:
            named = {attribute.name for attribute in node.attribute}
            if node.op_type == "STFT" and node.domain in DEFAULT_DOMAINS:
                given = onnx.helper.make_attribute("onesided", 1)
                node.attribute.extend([] if "onesided" in named else [given])


def _take_weights_off_inputs(model: onnx.ModelProto) -> None:
    """Before IR 4 weights were inputs with a default; here they are constants.

    No version changes what is computed, so that the newest is not refused for its number.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = min(max(model.ir_version, _OLDEST_IR), _NEWEST_IR)


def inferred(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model with inferred shapes."""
    # What a part of PARTS_DOMAIN gives does not follow from its function.
    parts = [node for node in model.graph.node if node.domain == PARTS_DOMAIN]
    leaving = {value.name for value in model.graph.output}
    kept = [value for node in parts for value in stated_results(node, model.functions)]
    del model.graph.value_info[:]
    model.graph.value_info.extend(value for value in kept if value.name not in leaving)
    for value in model.graph.output:  # exporters write -1 for a size that they do not know
        for size in value.type.tensor_type.shape.dim:
            if size.dim_value < 0:
                size.ClearField("dim_value")
    model = with_shapes(model)
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if min(sizes, default=1) < 0 or prod(max(size, 1) for size in sizes) > MAX_TENSOR_ELEMENTS:
            raise WorkloadError(
                f"must have at most {MAX_TENSOR_ELEMENTS} elements",
                field=f"{path}: {short(value.name)}",
                value=sizes,
                remedy="export the model with a smaller input or batch",
            )
    _require_small_constants(model, path)
    return model


def _require_small_constants(model: onnx.ModelProto, path: Path) -> None:
    """Refuse what a model makes large of small constants, which every step would copy."""
    graph = model.graph
    known = {tensor.name: prod(tensor.dims) for tensor in graph.initializer} | {"": 0}
    sizes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.output)
    }
    for node in graph.node:
        shapes = node.op_type in ("Shape", "Size")  # inputs are of fixed shapes
        if not shapes and (node.domain or any(name not in known for name in node.input)):
            continue
        largest = max((known[name] for name in node.input if name in known), default=0)
        for name in node.output:
            known[name] = prod(sizes.get(name, ()))
            if known[name] > max(largest, _MAX_COMPUTED) and node.op_type != "Constant":
                raise WorkloadError(
                    f"a constant that is computed must have at most {_MAX_COMPUTED} elements",
                    field=f"{path}: {short(node.op_type)} {short(node.name)}",
                    value=sizes[name],
                    remedy="let the operator that reads it broadcast a smaller one",
                )


def with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with inferred shapes, besides those that it states.

    Shapes follow from few and small constants. ONNX gets the others without their elements: it
    would copy them four times.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for tensor in bare.graph.initializer:
        if len(tensor.raw_data) > _LARGE_BYTES:
            tensor.ClearField("raw_data")
    for node in bare.graph.node:
        if node.op_type in _OF_ONE_SHAPE and node.domain in DEFAULT_DOMAINS:
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
    found = infer_shapes(bare, strict_mode=False, data_prop=False)
    while state_loop_shapes(found):
        found = infer_shapes(found, strict_mode=False, data_prop=False)
    for node, whole in zip(found.graph.node, model.graph.node, strict=True):
        if node.op_type != whole.op_type:
            node.CopyFrom(whole)
    for tensor, original in zip(found.graph.initializer, model.graph.initializer, strict=True):
        if original.raw_data and not tensor.raw_data:
            tensor.raw_data = original.raw_data
    return found


def _check_structure(model: onnx.ModelProto, path: Path, own: OwnOperators) -> None:
    """What the ONNX checker leaves out."""
    graph = model.graph
    require_nodes(model, path)
    if len(graph.node) > MAX_NODES:
        raise WorkloadError(
            f"must have at most {MAX_NODES} nodes",
            field=str(path),
            value=len(graph.node),
            remedy="divide the model, or simplify it with onnxsim",
        )
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= newest:
            raise WorkloadError(
                f"must be an operator set from 1 to {newest}",
                field=str(path),
                value=entry.version,
                remedy="convert the model with onnx.version_converter",
            )
    if graph.sparse_initializer:
        raise WorkloadError(
            "must not have sparse weights",
            field=str(path),
            remedy="export the model with dense weights",
        )
    _check_nodes(model, path, own)
    for tensor in graph.initializer:
        if min(tensor.dims, default=0) < 0 or prod(tensor.dims) > MAX_TENSOR_ELEMENTS:
            raise WorkloadError(
                f"must have at most {MAX_TENSOR_ELEMENTS} elements",
                field=f"{path}: {short(tensor.name)}",
                value=list(tensor.dims),
                remedy="divide the operator that reads it into several",
            )


def _check_nodes(model: onnx.ModelProto, path: Path, own: OwnOperators) -> None:
    functions = {(function.domain, function.name) for function in model.functions}
    inside = [node for body in bodies_of(model.graph) for node in body.node]
    if len(inside) > MAX_NODES:
        raise WorkloadError(
            f"must have at most {MAX_NODES} nodes in bodies of control flow",
            field=str(path),
            value=len(inside),
            remedy="divide the model, or simplify it with onnxsim",
        )
    constants = _flags((model.graph, *bodies_of(model.graph)))
    for node in (*model.graph.node, *inside):
        if not names_are_text(node):
            raise WorkloadError(
                "names must be UTF-8 text",
                field=f"{path}: {short(node.op_type)}",
                remedy="export the model again with plain names",
            )
        names = (node.name, *node.input, *node.output)
        wrong = [name for name in names if len(name) > _MAX_NAME or name.isspace()]
        if wrong:
            raise WorkloadError(
                f"must be a name of at most {_MAX_NAME} characters that are not all blank",
                field=f"{path}: {short(node.op_type)}",
                value=short(wrong[0]),
                remedy="export the model again with plain names",
            )
        if _trains(node, constants):
            raise WorkloadError(
                "must be exported in inference mode, not in that of training",
                field=f"{path}: {short(node.op_type)} {short(node.name)}",
                remedy="export the model in evaluation mode: model.eval() in PyTorch",
            )
        if own.find(node.domain, node.op_type) is None and _is_of_a_layout(node):
            raise of_a_runtime(node, path)
        standard = node.domain in DEFAULT_DOMAINS and onnx.defs.has(node.op_type)
        if (
            not standard
            and not is_foreign(node.domain, node.op_type)
            and (node.domain, node.op_type) not in functions
            and own.find(node.domain, node.op_type) is None
        ):
            raise WorkloadError(
                "must be an operator of standard ONNX",
                field=f"{path}: {short(node.name or node.output[0])}",
                value=f"{short(node.domain)}:{short(node.op_type)}".lstrip(":"),
                remedy="replace it in the model, or register it (docs/how-to/plug-ins.md)",
            )


def _is_of_a_layout(node: onnx.NodeProto) -> bool:
    """Whether a node is for an order of elements that ONNX Runtime chose for one processor."""
    runtime = node.domain.startswith(("com.microsoft.", "com.ms."))
    return runtime or any(a.name == "channels_last" and a.i for a in node.attribute)


def of_a_runtime(node: onnx.NodeProto, path: Path) -> WorkloadError:
    """The error for an operator that ONNX Runtime writes when it optimises a model."""
    return WorkloadError(
        "must be an operator of standard ONNX (ONNX Runtime has optimised the model)",
        field=f"{path}: {short(node.op_type)} {short(node.name)}",
        value=short(node.domain),
        remedy="export the model anew, or save it with ORT_ENABLE_BASIC and no higher level",
    )


def _require_few_when_inlined(model: onnx.ModelProto, path: Path) -> None:
    """Refuse functions that call themselves, or grow the model beyond what may be inlined."""
    bodies = {(f.domain, f.name): f.node for f in model.functions}
    calls = {name: Counter(_called(nodes)) for name, nodes in bodies.items()}
    sizes: dict[tuple[str, str], int] = {}

    def size(called: Counter[tuple[str, str]]) -> int:
        found = sum(number * sizes.get(name, 1) for name, number in called.items())
        return min(found, MAX_INLINED + 1)  # of a text of a readable length

    try:
        for name in TopologicalSorter(calls).static_order():
            if name in calls:
                sizes[name] = size(calls[name])
    except CycleError as error:
        raise WorkloadError(
            "functions must not call themselves",
            field=str(path),
            value=short(error.args[1][0][1]),
            remedy="export the model with its functions inlined",
        ) from error
    if size(Counter(_called(model.graph.node))) > MAX_INLINED:
        raise WorkloadError(
            f"must have at most {MAX_INLINED} nodes once its functions are inlined",
            field=str(path),
            remedy="divide the model, or simplify it with onnxsim",
        )


def _called(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    """Domain and name of what each node runs, those in bodies included."""
    for node in nodes:
        yield node.domain, node.op_type
        for body in own_bodies(node):
            yield from _called(body.node)


def _flags(graphs: Sequence[onnx.GraphProto]) -> dict[str, bool]:
    """Constants of one element, and whether they are true."""
    stated = [(tensor.name, tensor) for graph in graphs for tensor in graph.initializer]
    stated += [
        (node.output[0], attribute.t)
        for graph in graphs
        for node in graph.node
        for attribute in node.attribute
        if node.op_type == "Constant" and node.output and attribute.HasField("t")
    ]
    return {
        name: bool(numpy_helper.to_array(tensor).any())
        for name, tensor in stated
        if tensor.data_type == onnx.TensorProto.BOOL
        and list(tensor.dims) in ([], [1])
        and tensor.data_location != onnx.TensorProto.EXTERNAL
    }


def _trains(node: onnx.NodeProto, constants: Mapping[str, bool]) -> bool:
    """Whether a node is in training mode, or may be: Dropout takes the mode as an input, too."""
    if any(a.name == "training_mode" and a.i for a in node.attribute):
        return True
    mode = node.input[_MODE] if node.op_type == "Dropout" and len(node.input) > _MODE else ""
    return bool(mode) and constants.get(mode, True)


def _without_loops(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with loops of a known number of rounds unrolled."""
    import onnx_ir as ir  # noqa: PLC0415  (heavy, and only needed for such models)

    from tilewright.host.compiler.read.loops import unroll_loops  # noqa: PLC0415  (heavy, too)

    current = ir.from_proto(model)
    return ir.to_proto(current) if unroll_loops(current) else model


def _require_no_old_bodies(model: onnx.ModelProto, version: int, path: Path) -> None:
    """Refuse control flow of old operator sets, which ONNX's converter does not look into."""
    node = next((each for each in model.graph.node if any(True for _ in own_bodies(each))), None)
    if node is not None and version < OLDEST_OPSET:
        raise WorkloadError(
            f"control flow must be of operator set {OLDEST_OPSET} or newer",
            field=f"{path}: {short(node.op_type)} {short(node.name)}",
            value=version,
            remedy="export the model for a newer operator set",
        )


def _load_external_data(model: onnx.ModelProto, path: Path) -> None:
    for tensor in tensors_of(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            require_external_file(tensor, path)
            external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
            tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _fix_shapes(
    model: onnx.ModelProto, path: Path, input_shapes: Mapping[str, tuple[int, ...]]
) -> None:
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    for name in input_shapes:
        if name not in inputs:
            raise WorkloadError(
                f"must be an input of the model ({', '.join(map(short, inputs))})",
                field="input_shapes",
                value=short(name),
                remedy="name the input as the model does",
            )
    for name, value in inputs.items():
        if value.type.WhichOneof("value") != "tensor_type":
            raise WorkloadError(
                "an input must be a tensor",
                field=f"{path}: {short(name)}",
                remedy="export the model without sequences, maps and optional inputs",
            )
        tensor = value.type.tensor_type
        stated = input_shapes.get(name)
        if stated is not None:
            _set_shape(tensor, stated, f"{path}: {short(name)}")
        elif not tensor.HasField("shape"):
            _refuse_dynamic(path, value, "no shape")
        for index, dim in enumerate(tensor.shape.dim):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0:
                continue
            if not index and dim.WhichOneof("value") == "dim_value" and dim.dim_value == 0:
                raise batch_of_zero(path, name)
            if index:
                _refuse_dynamic(path, value, f"axis {index}")
            dim.dim_value = 1
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def _set_shape(tensor: Any, stated: tuple[int, ...], field: str) -> None:
    dims = tensor.shape.dim
    if tensor.HasField("shape") and len(dims) != len(stated):
        raise WorkloadError(
            f"must have {len(dims)} axes",
            field=field,
            value=stated,
            remedy="state a size for each axis, also for the fixed ones",
        )
    for dim, size in zip(dims, stated, strict=False):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value not in (size, 0, -1):
            raise WorkloadError(
                f"must be {dim.dim_value} on a fixed axis",
                field=field,
                value=size,
                remedy="export the model with this axis open, or state its size",
            )
    del dims[:]
    for size in stated:
        if size < 1:
            raise WorkloadError(
                "a size must be positive",
                field=field,
                value=stated,
                remedy="state a size above 0 for each axis",
            )
        dims.add().dim_value = size


def _refuse_dynamic(path: Path, value: onnx.ValueInfoProto, what: str) -> None:
    tensor = value.type.tensor_type
    sizes = ", ".join(short(dim.dim_param) or str(dim.dim_value or "?") for dim in tensor.shape.dim)
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    raise WorkloadError(
        f"must have a fixed shape ({what} is open)",
        field=f"{path}: {short(value.name)}",
        value=f"{kind} ({sizes})",
        remedy=GIVE_SHAPES,
    )
