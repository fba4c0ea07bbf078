# SPDX-License-Identifier: Apache-2.0
"""From a checked model to canonical QDQ: clean up, quantise if it is float, normalise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from tilewright.host.common.errors import TilewrightError, WorkloadError, reason_of
from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.common.scratch import scratch_folder
from tilewright.host.compiler.quantise.improve import Judge, Trial, apart, improved
from tilewright.host.compiler.quantise.layer_losses import agreement, outputs_of
from tilewright.host.compiler.quantise.masks import mask_inputs
from tilewright.host.compiler.quantise.observation import Batches
from tilewright.host.compiler.quantise.prepared import Accuracy, Prepared
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.edit import Array, Editor, array_of, input_of, is_kind
from tilewright.host.compiler.read.float_model import calibration_missing
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.read.model_ends import arguments_of
from tilewright.host.compiler.read.model_file import check as require_sound
from tilewright.host.compiler.read.model_file import inferred, normalised, of_a_runtime
from tilewright.host.compiler.read.own_models import put_back, set_aside
from tilewright.host.compiler.read.own_operators import OwnOperators
from tilewright.host.compiler.read.whole_operators import bodies_of, keep_whole
from tilewright.host.compiler.rewrite import qdq, qoperator
from tilewright.host.compiler.rewrite.constants import fold_constants, fold_dequantised
from tilewright.host.compiler.rewrite.dynamic_quantisation import fold_dynamic
from tilewright.host.compiler.rewrite.int8_ends import read_function_outputs, to_int8_ends
from tilewright.host.compiler.rewrite.int8_moves import bound_floats, move_int8
from tilewright.host.compiler.rewrite.int8_weights import (
    fold_integer_biases,
    fold_into_int8_layers,
)
from tilewright.host.compiler.rewrite.lookups import look_up_int8
from tilewright.host.compiler.rewrite.plain import state_groups, state_plain
from tilewright.host.compiler.rewrite.recurrent_layers import unroll_recurrent
from tilewright.host.compiler.rewrite.rewrites import rewrite
from tilewright.host.compiler.rewrite.transposes import cancel_transposes
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS, malformed, short
from tilewright.host.network.operators import LAYERS

_FACTORS: Final = (*LAYERS, "BatchNormalization", "DequantizeLinear", "Mul", "PRelu")
"""Operators that multiply by a constant: infinity times zero is no number."""
_COMPARED: Final = 4
"""Batches of calibration data on which float and quantised model are compared in each import."""


def prepare(
    model: onnx.ModelProto,
    origin: Path,
    calibration: Calibration | None,
    options: QuantiseOptions,
    own: OwnOperators | None = None,
    check: Calibration | None = None,
) -> Prepared:
    """Bring a model into canonical QDQ form.

    Args:
        model: as `read.model_file` returns it.
        origin: the file that messages name.
        calibration: of a float model.
        options: how it is quantised.
        own: operators that it may have besides those of ONNX.
        check: inputs whose outputs are wanted as the model, as it was read, computes them.
    """
    try:
        _name_nodes(model)  # ONNX Runtime may refuse names that several have
        return _prepared(model, origin, calibration, options, own or OwnOperators(), check)
    except (MemoryError, TilewrightError):
        raise
    except Exception as error:  # libraries raise kinds of their own
        raise malformed(origin, error) from error


def prepare_object(
    source: Any,
    name: str,
    calibration: Calibration | None,
    options: ImportOptions,
    check: Calibration | None = None,
) -> Prepared:
    """`prepare` for an object in memory, which is trusted."""
    origin = Path(name)
    exported: dict[str, float] = {}
    model = source
    if not isinstance(source, onnx.ModelProto):
        started = time.perf_counter()
        from tilewright.host.compiler.read.torch_export import export_module  # noqa: PLC0415  (heavy)

        examples = options.example_inputs
        if not examples and calibration is not None and calibration.arrays is not None:
            examples = [array[:1] for array in calibration.arrays.values()]
        model = export_module(source, examples)
        exported["export"] = time.perf_counter() - started
    else:  # reading changes a model in place: the caller's stays as it is
        model = onnx.ModelProto()
        model.CopyFrom(source)
    own = OwnOperators(options.operators)
    model = normalised(model, origin, options.input_shapes, own)
    prepared = prepare(model, origin, calibration, options.quantise, own, check)
    return replace(prepared, seconds=exported | prepared.seconds)


def _prepared(
    model: onnx.ModelProto,
    origin: Path,
    calibration: Calibration | None,
    options: QuantiseOptions,
    own: OwnOperators,
    to_check: Calibration | None,
) -> Prepared:
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    stated = model
    model, was_quantised = _plain(model, origin, calibrated=calibration is not None)
    inputs = arguments_of(model)[0]
    current = ir.from_proto(_settled(model, origin))
    if not was_quantised:
        fold_dequantised(current, blocks_alone=False)  # of what is constant by now
    masks: frozenset[str] = frozenset()
    if calibration is not None and options.row_functions and not was_quantised:
        masks = mask_inputs(calibration, inputs)
    rewrite(current, None if was_quantised else options, masks)
    if was_quantised:
        move_int8(Editor(current.graph))
    seconds["clean up"] = time.perf_counter() - started
    if options.int8_ends and not was_quantised:
        read_function_outputs(current)
    expected = _Checked.of(stated, inputs, to_check)
    accuracy = Accuracy(expected=expected.outputs)
    if calibration is not None and not was_quantised:
        started = time.perf_counter()
        batches = list(calibration.batches(inputs))
        current, accuracy = _quantised(
            stated, current, batches, options, own, expected, calibration.origin
        )
        seconds["quantise"] = time.perf_counter() - started
    started = time.perf_counter()
    _require_finite(current, origin)
    qdq.canonical(current)
    look_up_int8(current)
    if options.int8_ends:
        to_int8_ends(current)
    result = inferred(ir.to_proto(current), origin)
    _keep_used_domains(result)
    require_sound(result)
    seconds["normalise"] = time.perf_counter() - started
    return Prepared(model=result, was_quantised=was_quantised, seconds=seconds, accuracy=accuracy)


def _plain(
    model: onnx.ModelProto, origin: Path, *, calibrated: bool
) -> tuple[onnx.ModelProto, bool]:
    """A model without what its exporter left, as QDQ if it came quantised; whether it did."""
    current = ir.from_proto(model)
    folded = qoperator.is_quantised(current) and fold_constants(current)
    was_quantised = qoperator.is_quantised(current)  # and not its weights alone
    folded |= fold_dynamic(current)
    folded |= fold_dequantised(current, blocks_alone=was_quantised)
    if folded:
        model = inferred(ir.to_proto(current), origin)
    model = _settled(model, origin, shapes=not was_quantised)
    if was_quantised:
        model = _settled(_plainly_quantised(model, origin), origin)
    else:
        if not calibrated:
            raise calibration_missing(origin)
        model = inferred(_optimised(model, origin), origin)
    _require_known_domains(model, origin)
    kept = keep_whole(model)
    if kept is not model:
        model = inferred(kept, origin)
    _name_nodes(model)
    return model, was_quantised


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """Data to check with, and what the model as it was read makes of them."""

    batches: Sequence[Mapping[str, Array]] = ()
    outputs: Sequence[Mapping[str, Array]] = ()
    origin: str = ""

    @classmethod
    def of(
        cls, model: onnx.ModelProto, inputs: Sequence[Argument], check: Calibration | None
    ) -> _Checked:
        if check is None:
            return cls()
        try:
            batches = list(check.batches(inputs))
        except TilewrightError as error:
            raise type(error)(
                error.rule,
                field=error.field.replace("calibration", "check", 1),
                value=error.value,
                remedy=error.remedy,
            ) from error
        return cls(batches=batches, outputs=outputs_of(model, batches), origin=check.origin)


def _quantised(
    stated: onnx.ModelProto,
    model: ir.Model,
    batches: Batches,
    options: QuantiseOptions,
    own: OwnOperators,
    checked: _Checked,
    origin: str,
) -> tuple[ir.Model, Accuracy]:
    """A float model quantised, as asked for or better, and how near it is to what was read.

    Args:
        stated: as it was read.
        model: the same, ready to be quantised.
        batches: calibration data, and in `origin` where they come from.
        options: how.
        own: operators that it may have besides those of ONNX.
        checked: data that judge what is tried, if there are any.
        origin: of the calibration data, in words.
    """
    chosen, trials = options, list[Trial]()
    if options.improve:
        fitting, judging = (batches, checked.batches) if checked.batches else apart(batches)
        judge = Judge(
            batches=judging,
            expected=checked.outputs or outputs_of(stated, judging),
            origin=checked.origin or origin,
        )
        chosen, trials = improved(model, fitting, judge, options, own)
    quantised = quantise(model, batches, chosen, own)
    few = batches[:_COMPARED]
    found = agreement(model, quantised, few, outputs_of(stated, few), origin)
    fields = asdict(chosen)
    return quantised, Accuracy(
        agreement=found.to_mapping(),
        trials=[trial.to_mapping() for trial in trials],
        chosen={n: value for n, value in fields.items() if value != asdict(options)[n]},
        expected=checked.outputs,
    )


def _plainly_quantised(model: onnx.ModelProto, origin: Path) -> onnx.ModelProto:
    """A quantised model as QDQ, without what its exporter left between layers."""
    _open_session(model, origin, None)
    current = ir.from_proto(model)
    qoperator.to_qdq(current)
    current = ir.from_proto(inferred(ir.to_proto(current), origin))
    editor = Editor(current.graph)
    bound_floats(editor)
    cancel_transposes(editor)
    fold_into_int8_layers(editor)
    fold_integer_biases(editor)
    return inferred(ir.to_proto(current), origin)


def _settled(model: onnx.ModelProto, origin: Path, *, shapes: bool = True) -> onnx.ModelProto:
    """Known shapes and what is computed of them as constants, loops of known length unrolled.

    Each may tell what another one waits for, so it goes on until none finds anything.
    """
    while True:
        current = ir.from_proto(model)
        if shapes:
            state_plain(Editor(current.graph))
        found = [
            shapes and fold_constants(current),
            unroll_recurrent(current),
            state_groups(current),
        ]
        if not any(found):
            return model
        model = inferred(ir.to_proto(current), origin)


def _optimised(model: onnx.ModelProto, origin: Path) -> onnx.ModelProto:
    """Constants and batch normalisation folded, by ONNX Runtime's basic optimisations.

    They would replace users' operators by their meanings.
    """
    rest, aside = set_aside(model) if model.functions else (model, [])
    if not rest.graph.output:
        return model
    with scratch_folder() as folder:
        target = folder / "optimised.onnx"
        _open_session(rest, origin, target)
        optimised = onnx.load(target, load_external_data=False)
    return put_back(optimised, aside, model) if aside else optimised


def _require_finite(model: ir.Model, origin: Path) -> None:
    """Refuse attributes and constants that make NaN in front of int8, which has no number for it.

    Calibration does not meet all of them, and a quantised model has none. What is added, compared
    or chosen may be infinite.
    """
    rounded = set[ir.Value | None]()
    for node in reversed(list(model.graph)):
        on_cpu = not is_kind(node, "QuantizeLinear") and rounded.isdisjoint(node.outputs)
        if on_cpu or is_kind(node, "Clip"):
            _require_finite_attributes(node, origin)
        if on_cpu:
            continue
        rounded.update(node.inputs)
        for name, array, takes_infinity in () if is_kind(node, "Clip") else _numbers(node):
            wrong = np.isnan(array) if takes_infinity else ~np.isfinite(array)
            if wrong.any():
                raise WorkloadError(
                    "must be finite, because int8 is computed of it",
                    field=f"{origin}: {node.op_type} {short(node.name or '')}: {short(name)}",
                    value=float(array[wrong][0]),
                    remedy="export the model again, and check what it computes in float",
                )


def _require_finite_attributes(node: ir.Node, origin: Path) -> None:
    """Refuse what TVM and ONNX Runtime compute other numbers of, where no int8 is behind it."""
    if is_kind(node, "Clip"):
        ends = {name: _bound(node, index, name) for index, name in ((1, "min"), (2, "max"))}
        wrong = {name: end for name, end in ends.items() if np.isnan(end)}
        wrong.update({"min": np.inf} if ends["min"] == np.inf else {})
        wrong.update({"max": -np.inf} if ends["max"] == -np.inf else {})
    else:
        wrong = {
            name: attribute.as_float()
            for name, attribute in node.attributes.items()
            if attribute.type == ir.AttributeType.FLOAT
            and not is_kind(node, "Constant", "Pad")
            and not np.isfinite(attribute.as_float())
        }
    for name, value in wrong.items():
        raise WorkloadError(
            "must leave finite numbers" if is_kind(node, "Clip") else "must be finite",
            field=f"{origin}: {node.op_type} {short(node.name or '')}: {short(name)}",
            value=value,
            remedy="export the model again, and check what it computes in float",
        )


def _bound(node: ir.Node, index: int, name: str) -> float:
    """A bound of a Clip, as an attribute or a constant; 0: neither is known, or there is none."""
    stated = node.attributes.get(name)
    if stated is not None and stated.type == ir.AttributeType.FLOAT:
        return stated.as_float()
    array = array_of(input_of(node, index))
    return 0.0 if array is None or array.size != 1 else float(array.reshape(-1)[0])


def _numbers(node: ir.Node) -> Iterator[tuple[str, Array, bool]]:
    """Float attributes and constants of a node, by name, and whether infinity may be one."""
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.FLOAT:
            yield name, np.array([attribute.as_float()]), False
    for value in node.inputs:
        array = array_of(value)
        if value is not None and array is not None and array.dtype.kind == "f":
            yield value.name or "", array, not is_kind(node, *_FACTORS)


def _open_session(model: onnx.ModelProto, origin: Path, optimised: Path | None) -> None:
    """Let ONNX Runtime check a model, and write it optimised."""
    try:
        open_session(
            model,
            optimised=str(optimised or ""),
            without=["MatMulAddFusion"],  # would flatten sequences to matrices
            entries={"session.disable_prepacking": "1"},
        )
    except Exception as error:  # ONNX Runtime raises kinds of its own
        raise WorkloadError(
            f"must be a model that ONNX Runtime takes ({reason_of(error)})",
            field=str(origin),
            remedy="check it with onnxruntime",
        ) from error


def _require_known_domains(model: onnx.ModelProto, origin: Path) -> None:
    own = {(function.domain, function.name) for function in model.functions}
    graphs = (model.graph, *bodies_of(model.graph))
    for node in (node for graph in graphs for node in graph.node):
        if node.domain not in DEFAULT_DOMAINS and (node.domain, node.op_type) not in own:
            if node.domain == "com.microsoft":
                raise of_a_runtime(node, origin)
            raise WorkloadError(
                "must be an operator of standard ONNX",
                field=f"{origin}: {short(node.op_type)} {short(node.name)}",
                value=short(node.domain),
                remedy="export the model for plain ONNX, without operators of a runtime",
            )


def _keep_used_domains(model: onnx.ModelProto) -> None:
    used = {*DEFAULT_DOMAINS, *(function.domain for function in model.functions)}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a name of its own."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
        while node.name in taken:
            node.name += "_"
        taken.add(node.name)
