# SPDX-License-Identifier: Apache-2.0
"""Post-training quantisation: a float model becomes a QDQ model in int8.

Which operators, and that a unit of the accelerator is rounded only once, is decided here. Channels
are equalised (`equalisation`), ranges calibrated (`activation_ranges`), ONNX Runtime quantises
(`static_quantisation`), weights may be made narrower (`int4_weights`), and biases are corrected
(`bias_correction`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.names import nearest
from tilewright.host.compiler.quantise.activation_ranges import find_ranges, product_factors
from tilewright.host.compiler.quantise.bias_correction import correct_biases
from tilewright.host.compiler.quantise.endings import Ending
from tilewright.host.compiler.quantise.equalisation import equalise
from tilewright.host.compiler.quantise.general_forms import first_moves, is_general, keep_ranges
from tilewright.host.compiler.quantise.int4_weights import to_int4
from tilewright.host.compiler.quantise.masks import round_masks
from tilewright.host.compiler.quantise.names_apart import (
    keep_names_apart,
    name_conversions_apart,
    rename_ends,
    restore_ends,
)
from tilewright.host.compiler.quantise.static_quantisation import quantise_static
from tilewright.host.compiler.quantise.table_functions import PointwiseResults, table_functions
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    number,
    only_user,
    scalar_of,
    shape_of,
)
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.read.own_operators import OwnOperators
from tilewright.host.compiler.rewrite.attention import added_constant
from tilewright.host.compiler.rewrite.masks import masked_scores
from tilewright.host.compiler.rewrite.resizes import enlarges
from tilewright.host.compiler.rewrite.rewrites import IMAGE_RANK
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS, short
from tilewright.host.network.operators import LAYERS, ON_ROWS, REARRANGEMENTS, having

_OF_ANY_FORM: Final = having(
    lambda each: each.unit == "array" and (each.moves in ("view", "order") or each.pool == "whole")
)
"""Operators that the accelerator takes whatever their attributes say."""
_ACTIVATIONS: Final = ("Clip", "Relu")
_ROUNDED_ONCE: Final = having(lambda each: each.rounded_once)


@dataclass(kw_only=True)
class _Selection:
    """What to quantise.

    Attributes:
        floats: constants that stay float, by node name and input: biases and factors.
        constants: the same of operators whose inputs are rounded: slopes, constants of users' own.
        one_scale: weights that cannot have a scale for each channel: those of transposed
            convolutions in groups for ONNX Runtime, the matrices of products for the accelerator.
        masks: names of operators that add masks, given at run time, to what a row unit takes.
    """

    nodes: list[str] = field(default_factory=list)  # names
    kinds: set[str] = field(default_factory=set)  # their operators
    floats: list[tuple[str, int, Array]] = field(default_factory=list)
    constants: list[tuple[str, int, Array]] = field(default_factory=list)
    one_scale: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)  # names of operators that a table computes
    masks: list[str] = field(default_factory=list)


def quantise(
    model: ir.Model,
    batches: Iterable[Mapping[str, Array]],
    options: QuantiseOptions,
    own: OwnOperators | None = None,
) -> ir.Model:
    """Quantise a float model.

    Args:
        model: with known shapes and unique node names, rewritten by `onnx_rewrites.rewrite`. It
            is changed, but not what it computes.
        batches: inputs by name, as the model takes them; at least one batch.
        options: how.
        own: operators that it may have besides those of ONNX; None: those of entry points.
    """
    own = own or OwnOperators()
    _require_known(options.float_layers, model.graph)
    names = rename_ends(model.graph)
    keep_names_apart(Editor(model.graph))
    selection = _select(model.graph, options, own)
    if not selection.nodes:
        raise WorkloadError(
            "must have an operator that the accelerator takes (Conv, Gemm or MatMul whose second "
            "input is constant weights, ...)",
            field="model",
            value=sorted({node.op_type for node in model.graph})[:12],
            remedy="export the model with its weights as constants, or run it with onnxruntime",
        )
    now = {old: new for new, old in names.items()}
    known = [{now.get(name, name): array for name, array in batch.items()} for batch in batches]
    if options.equalisation:
        rounded = _activations(model.graph, selection)[0]
        equalise(model, rounded, selection.nodes, known, selection.tables)
        selection = _select(model.graph, options, own)
    rounded, inner = _activations(model.graph, selection)
    functions = table_functions(model, selection.tables, rounded)
    ranges = find_ranges(ir.to_proto(model), rounded, inner, known, options, functions)
    scores = Ending(model.graph, lambda node: _is_any_layer(node, own)).score_ranges()
    ranges |= {name: found for name, found in scores.items() if name in rounded}
    keep_ranges(model.graph, selection.nodes, ranges)
    symmetric = product_factors(model.graph, selection.nodes) & rounded
    quantised = quantise_static(
        model, selection.nodes, selection.kinds, {*selection.one_scale, *symmetric}, ranges, options
    )
    editor = Editor(quantised.graph)
    name_conversions_apart(editor)
    _restore_floats(editor, selection)
    _round_for_all_readers(editor, {*selection.nodes, *selection.tables})
    _drop_inner_pairs(editor, {name for name, _, _ in selection.floats})
    round_masks(editor, selection.masks)
    editor.drop_unused()
    to_int4(quantised, model, options)
    if options.bias_correction:
        correct_biases(quantised, model, known)
    for each in (quantised, model) if names else ():
        restore_ends(each.graph, names)
    return quantised


def _require_known(layers: Collection[str], graph: ir.Graph) -> None:
    known = [node.name for node in graph if node.name]
    for name in layers:
        if name not in known:
            near = nearest(name, known)
            raise WorkloadError(
                "must be the name of an operator of the model",
                field="float_layers",
                value=short(name),
                remedy=f"did you mean {near}?" if near else "--explain all lists the operators",
            )


# -- selection -----------------------------------------------------------------------------------


def _select(graph: ir.Graph, options: QuantiseOptions, own: OwnOperators) -> _Selection:
    """The operators that the accelerator takes; where data are int8 anyway, also cheap ones.

    What a table or a row unit computes is rounded where an operator that is taken reads it.
    """
    selection, pointwise = _Selection(), PointwiseResults(own)
    ending = Ending(graph, lambda node: _is_any_layer(node, own))
    int8: set[ir.Value] = first_moves(graph)
    functions: set[str] = set()
    for node in graph:
        if node.name in options.float_layers:
            continue
        if _looks_up_layers_data(node, rows=options.row_functions):
            int8.add(node.outputs[0])
            continue
        if options.row_functions and is_kind(node, *ON_ROWS) and _row_data(node) in int8:
            data = _row_data(node)
            source = data.producer() if data is not None else None
            if source is not None and source.name in functions:
                _round(node, selection)
            int8.add(node.outputs[0])
            functions.add(node.name or "")
            selection.masks += _added_masks(node)
            continue
        if _is_own_layer(node, int8, selection, own):
            selection.nodes.append(node.name or "")
            selection.kinds.add(node.op_type)
            int8.add(node.outputs[0])
            continue
        if options.row_functions and _is_addend_of_softmax(node):
            continue
        inside = is_kind(node, *_ACTIVATIONS) and pointwise.continues(node)
        itself = options.activation_tables and _is_of_one(node, pointwise, int8)
        floats = ending.joins_floats(node, int8)
        taken = _is_taken(node, int8, selection) or (
            (ending.is_before_layers(node) or _is_inner(node, int8))
            and not (options.activation_tables and pointwise.takes(node, int8))
            and is_general(node, int8, selection.constants)
        )
        if itself or inside or floats or not taken:
            if options.activation_tables and pointwise.takes(node, int8):
                for value in node.inputs:
                    source = value.producer() if value is not None else None
                    if is_kind(source, *ON_ROWS) and source.name in functions:
                        _round(source, selection)
                int8.add(node.outputs[0])
                selection.tables.add(node.name or "")
                functions.add(node.name or "")
            continue
        selection.nodes.append(node.name or "")
        selection.kinds.add(node.op_type)
        several = is_kind(node, "MatMul") and not _is_dense(node)
        if several or (is_kind(node, "ConvTranspose") and integer(node, "group", 1) > 1):
            constants = [value for value in node.inputs[:2] if array_of(value) is not None]
            selection.one_scale += [value.name or "" for value in constants if value is not None]
        int8.add(node.outputs[0])
        int8 |= {value for value in node.inputs if value is not None and _is_activation(value)}
    biases = {name for name, _, _ in selection.floats}
    left = ending.left_to_cpu(set(selection.nodes) - biases, functions)
    selection.nodes = [name for name in selection.nodes if name not in left]
    return selection


def _round(node: ir.Node, selection: _Selection) -> None:
    """Round what a function reads and writes, as an operator that is taken, but no constant."""
    selection.nodes.append(node.name or "")
    selection.kinds.add(node.op_type)
    selection.constants += [
        (node.name or "", index, array)
        for index, each in enumerate(node.inputs)
        if (array := array_of(each)) is not None
    ]


def _is_inner(node: ir.Node, int8: Collection[ir.Value]) -> bool:
    """Whether all that a node computes with is int8 anyway."""
    return all(value is None or value in int8 for value in node.inputs)


def _looks_up_layers_data(node: ir.Node, *, rows: bool) -> bool:
    """Whether a node looks up constant rows that, after moves alone, a layer or row unit reads.

    They are rounded once, where they are kept (`read.int8_lookups`).
    """
    table = array_of(input_of(node, 0))
    if not is_kind(node, "Gather") or table is None or table.dtype != np.float32:
        return False
    reader = only_user(node.outputs[0])
    moves = 0
    while is_kind(reader, *REARRANGEMENTS):
        reader, moves = only_user(reader.outputs[0]), moves + 1
    read = is_kind(reader, *LAYERS, *(ON_ROWS if rows else ()))
    return moves > 0 and read and array_of(input_of(node, 1)) is None


def _is_any_layer(node: ir.Node, own: OwnOperators) -> bool:
    operator = own.find(node.domain, node.op_type)
    return is_kind(node, *LAYERS) or (operator is not None and operator.lowered)


def _added_masks(node: ir.Node) -> list[str]:
    """Names of the operators that add a mask in front of a function of rows: one or none."""
    data = input_of(node, 0)
    source = None if data is None else data.producer()
    return [] if source is None or masked_scores(source) is None else [source.name or ""]


def _row_data(node: ir.Node) -> ir.Value | None:
    """What a row unit computes a function of: in front of what softmax adds."""
    data = input_of(node, 0)
    masked = None if data is None else masked_scores(data.producer())
    data = data if masked is None else masked[0]
    source = None if data is None else data.producer()
    if source is not None and _is_addend_of_softmax(source):
        found = added_constant(source)
        return None if found is None else found[0]
    return data


def _is_addend_of_softmax(node: ir.Node) -> bool:
    """Whether a node adds a constant or a mask to what a softmax alone reads.

    A dense layer has its bias.
    """
    if masked_scores(node) is not None:
        return True
    found, reader = added_constant(node), only_user(node.outputs[0])
    if reader is not None and masked_scores(reader) is not None:
        reader = only_user(reader.outputs[0])
    if found is None or not is_kind(reader, "Softmax"):
        return False
    value, constant = found
    product, channels = value.producer(), (shape_of(value) or ())[-1:]
    dense = is_kind(product, "MatMul") and _is_dense(product) and only_user(value) is not None
    bias = dense and constant.shape[-1:] == channels == (constant.size,)
    return not bias or not np.isfinite(constant).all()  # a mask is no bias


def _activations(graph: ir.Graph, selection: _Selection) -> tuple[set[str], set[str]]:
    """The activations around the selected operators: those that are rounded, and the others."""
    nodes, epilogues = set(selection.nodes), {name for name, _, _ in selection.floats}
    rounded: set[str] = set()
    inner: set[str] = set()
    for node in graph:
        if node.name not in nodes:
            continue
        for value in (*node.inputs, *node.outputs):
            if value is None or not value.name or not _is_activation(value):
                continue
            source, reader = value.producer(), only_user(value)
            is_inner = (
                is_kind(source, *_ROUNDED_ONCE)
                and source.name in nodes
                and reader is not None
                and reader.name in nodes
                and (is_kind(reader, *_ACTIVATIONS) or reader.name in epilogues)
            )
            (inner if is_inner else rounded).add(value.name)
    return rounded, inner


def _is_activation(value: ir.Value | None) -> bool:
    return (
        value is not None and array_of(value) is None and value.dtype in (None, ir.DataType.FLOAT)
    )


def _is_taken(node: ir.Node, int8: set[ir.Value], selection: _Selection) -> bool:
    data = input_of(node, 0)
    if data is None or node.domain not in DEFAULT_DOMAINS or len(node.outputs) != 1:
        return False
    kind = node.op_type
    if kind in LAYERS:
        return _is_layer(node)
    if kind in ("Add", "Mul", "Div"):
        return _is_epilogue(node, int8, selection) or _is_sum(node, int8) or _is_gate(node, int8)
    if kind == "Concat":
        return _joins(node) and any(value in int8 for value in node.inputs)
    if kind in ("MaxPool", "AveragePool"):
        takes = _is_pool(node)
    elif kind == "Slice":
        takes = _takes_some(node)
    elif kind == "Gather":
        positions = array_of(input_of(node, 1))
        takes = positions is not None and positions.ndim == 1
    elif kind == "Resize":
        takes = enlarges(node)
    elif kind == "PRelu":
        takes = data in int8 and _has_slopes(node, selection)
    elif kind == "Clip":
        takes = all(value is None or scalar_of(value) is not None for value in node.inputs[1:])
    else:
        takes = kind in (*_OF_ANY_FORM, "Relu") or _averages_tokens(node)
    return takes and data in int8


def _is_own_layer(
    node: ir.Node, int8: Collection[ir.Value], selection: _Selection, own: OwnOperators
) -> bool:
    """An operator of a user that one layer computes; its constants stay as they are."""
    operator = own.find(node.domain, node.op_type)
    if operator is None or not operator.lowered:
        return False
    arrays = [(index, array_of(value)) for index, value in enumerate(node.inputs)]
    constants = [(index, array) for index, array in arrays if array is not None]
    data = [v for v in node.inputs if v is not None and array_of(v) is None]
    if not data or any(value not in int8 for value in data):
        return False
    selection.constants += [(node.name or "", index, array) for index, array in constants]
    return True


def _is_layer(node: ir.Node) -> bool:
    if node.op_type == "MatMul":
        return _is_dense(node) or _is_product(node)
    if node.op_type == "Gemm":
        plain = all(number(node, name, 1.0) == 1 for name in ("alpha", "beta"))
        return plain and not integer(node, "transA", 0) and _is_weight(node, 2) and _has_bias(node)
    return _is_activation(node.inputs[0]) and _is_weight(node, IMAGE_RANK)


def _has_bias(node: ir.Node) -> bool:
    """Whether what a Gemm adds is nothing, or one number for each channel."""
    bias, array, shape = input_of(node, 2), array_of(input_of(node, 2)), shape_of(node.outputs[0])
    return bias is None or (array is not None and shape is not None and array.shape == shape[1:])


def _is_weight(node: ir.Node, rank: int) -> bool:
    array = array_of(input_of(node, 1))
    return array is not None and array.ndim == rank and array.dtype == np.float32


def _is_dense(node: ir.Node) -> bool:
    shape = shape_of(node.inputs[0])
    return shape is not None and len(shape) in (2, 3, 4) and _is_weight(node, 2)


def _is_product(node: ir.Node) -> bool:
    """A product of two activations, or of one and constant matrices, one for each of its own."""
    if not (any(map(_is_activation, node.inputs)) and all(map(_is_rounded, node.inputs))):
        return False
    a, b = (shape_of(value) for value in node.inputs)
    return a is not None and b is not None and len(a) in (3, 4) and a[:-2] == b[:-2]


def _is_epilogue(node: ir.Node, int8: set[ir.Value], selection: _Selection) -> bool:
    """A bias behind a product with weights, or a number behind one of two activations."""
    for index, other in ((0, 1), (1, 0)):
        source, constant = node.inputs[index], array_of(node.inputs[other])
        if source is None or constant is None or source not in int8:
            continue
        product, result = source.producer(), shape_of(node.outputs[0])
        if not is_kind(product, "MatMul") or product is None or only_user(source) is None:
            continue
        dense = _is_dense(product)
        if node.op_type == "Add":
            fits = dense and result is not None and constant.size == result[-1]
            fits = fits and constant.size == max(constant.shape[-1:], default=1)
            fits = fits and bool(np.isfinite(constant).all())
        else:
            fits = not dense and constant.size == 1 and (node.op_type == "Mul" or index == 0)
        if fits and constant.dtype == np.float32:
            selection.floats.append((node.name or "", other, constant))
            return True
    return False


def _is_sum(node: ir.Node, int8: set[ir.Value]) -> bool:
    """Two tensors of one shape; one of them may be a constant."""
    shapes = {shape_of(value) for value in node.inputs}
    return (
        node.op_type == "Add"
        and all(map(_is_rounded, node.inputs))
        and any(value in int8 for value in node.inputs)
        and len(shapes) == 1
        and None not in shapes
        and len(next(iter(shapes)) or ()) in (2, 3, 4)
    )


def _is_of_one(node: ir.Node, pointwise: PointwiseResults, int8: Collection[ir.Value]) -> bool:
    """A tensor plus or times a function of itself: a table computes it, rounded once."""
    both = node.op_type in ("Add", "Mul") and all(map(_is_activation, node.inputs))
    return both and pointwise.takes(node, int8)


def _is_gate(node: ir.Node, int8: set[ir.Value]) -> bool:
    """A product of two int8 tensors, of one shape or one of them a number for each channel."""
    if node.op_type != "Mul" or not all(value in int8 for value in node.inputs):
        return False
    a, b = (shape_of(value) for value in node.inputs)
    if a is None or b is None or len(a) != len(b) or len(a) not in (2, 3, 4):
        return False
    kept = (0, 1) if len(a) == IMAGE_RANK else (0, len(a) - 1)
    pixels = [tuple(n if i in kept else 1 for i, n in enumerate(shape)) for shape in (a, b)]
    return a == b or a == pixels[1] or b == pixels[0]


def _is_rounded(value: ir.Value | None) -> bool:
    """Whether a value is an activation, or a constant that can be rounded."""
    array = array_of(value)
    if array is None:
        return _is_activation(value)
    return array.dtype == np.float32 and bool(np.isfinite(array).all())


def _joins(node: ir.Node) -> bool:
    """Whether channels are joined, or the tokens of sequences, of which some may be constant."""
    shape = shape_of(node.outputs[0])
    if shape is None or len(shape) not in (2, 3, 4):
        return False
    axis = integer(node, "axis", 0) % len(shape)
    if len(shape) == 3 and axis == 1:
        return all(map(_is_rounded, node.inputs))
    if not all(_is_activation(value) for value in node.inputs):
        return False
    return axis == (2 if len(shape) == 3 else 1)


def _takes_some(node: ir.Node) -> bool:
    """Whether a slice leaves out channels of an image, or features or tokens of a sequence."""
    shape, result = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if shape is None or result is None or len(shape) not in (3, IMAGE_RANK):
        return False
    constant = all(value is None or array_of(value) is not None for value in node.inputs[1:])
    cut = [axis for axis, size in enumerate(shape) if size != result[axis]]
    return constant and cut in ([], [1], [2] if len(shape) == 3 else [1])


def _is_pool(node: ir.Node) -> bool:
    shape = shape_of(node.inputs[0])
    if shape is None or len(shape) != IMAGE_RANK:
        return False
    padded = any(integers(node, "pads", ()))
    if node.op_type == "AveragePool":
        counts = not padded or bool(integer(node, "count_include_pad", 0))
        return counts and set(integers(node, "dilations", ())) <= {1}
    return True


def _has_slopes(node: ir.Node, selection: _Selection) -> bool:
    """Whether a PReLU has a slope for each channel; those with one number are tables."""
    shape, slopes = shape_of(node.inputs[0]), array_of(node.inputs[1])
    if shape is None or slopes is None or slopes.dtype != np.float32 or len(shape) not in (2, 4):
        return False
    ones = (1,) * (len(shape) - slopes.ndim)
    if slopes.size == 1 or (*ones, *slopes.shape) != (1, shape[1], *(1,) * (len(shape) - 2)):
        return False
    selection.constants.append((node.name or "", 1, slopes))
    return True


def _averages_tokens(node: ir.Node) -> bool:
    shape = shape_of(node.inputs[0])
    axes = array_of(input_of(node, 1))
    return (
        node.op_type == "ReduceMean"
        and shape is not None
        and len(shape) == 3
        and axes is not None
        and [int(axis) % 3 for axis in axes.reshape(-1)] == [1]
        and not integer(node, "keepdims", 1)
    )


# -- afterwards ----------------------------------------------------------------------------------


def _restore_floats(editor: Editor, selection: _Selection) -> None:
    """Biases and factors as they were: they are exact in a unit."""
    nodes = {node.name: node for node in editor.graph}
    for name, index, array in (*selection.floats, *selection.constants):
        if name in nodes:
            nodes[name].replace_input_with(index, editor.constant(f"{name}_constant", array))


def _round_for_all_readers(editor: Editor, selected: Collection[str]) -> None:
    """What a unit computes leaves it as int8, also to readers that work on floats."""
    for node in list(editor.graph):
        rounding = [u.node for u in node.outputs[0].uses() if is_kind(u.node, "QuantizeLinear")]
        if node.name not in selected or not rounding:
            continue
        source = rounding[0]
        for user, index in list(node.outputs[0].uses()):
            if is_kind(user, "QuantizeLinear"):
                continue
            real = editor.after(
                source,
                "DequantizeLinear",
                [source.outputs[0], *source.inputs[1:]],
                dict(source.attributes),
                stem=f"{node.outputs[0].name}_rounded",
                like=node.outputs[0],
            )
            user.replace_input_with(index, real)
    editor.graph.sort()  # a reader may stand before the quantisation that it reads now


def _drop_inner_pairs(editor: Editor, epilogues: Collection[str]) -> None:
    """Round once in a unit: not between an operator and its bias, factor or activation."""
    for node in list(editor.graph):
        if is_kind(node, *_ACTIVATIONS) or node.name in epilogues:
            for index, value in enumerate(node.inputs[:2]):
                _drop_pair(node, index, value)


def _drop_pair(node: ir.Node, index: int, value: ir.Value | None) -> None:
    rounded = _only_source(value, "DequantizeLinear")
    exact = _only_source(rounded, "QuantizeLinear")
    if exact is None or only_user(exact) is None:
        return
    if is_kind(exact.producer(), *_ROUNDED_ONCE) and _is_quantised_later(node):
        node.replace_input_with(index, exact)


def _only_source(value: ir.Value | None, kind: str) -> ir.Value | None:
    """What an operator of that kind makes a value from that has one reader; or ``None``."""
    if value is None or only_user(value) is None:
        return None
    node = value.producer()
    return node.inputs[0] if is_kind(node, kind) else None


def _is_quantised_later(node: ir.Node) -> bool:
    """Whether all readers of a node quantise its result."""
    uses = list(node.outputs[0].uses())
    return bool(uses) and all(
        is_kind(use.node, "QuantizeLinear")
        or (is_kind(use.node, *_ACTIVATIONS) and _is_quantised_later(use.node))
        for use in uses
    )
