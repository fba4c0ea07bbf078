# SPDX-License-Identifier: Apache-2.0
"""Runs a quantised model beside its float model: how near it is, and which layers lose most.

A layer *loses* what the SQNR of its rounded result is below that of the worst tensor that it is
computed from; a network's input has the SQNR that 8 bits give a sine wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import onnx
import onnx_ir as ir

from tilewright.host.compiler.quantise.agreement import Agreement, Comparison, LayerLoss, Powers
from tilewright.host.compiler.quantise.observation import Batches, observe
from tilewright.host.compiler.read.edit import Array, array_of, is_kind

_TOLD: Final = 3
"""Layers that are told."""
_INPUT_DB: Final = 50.0


def outputs_of(model: onnx.ModelProto, batches: Batches) -> list[dict[str, Array]]:
    """What ONNX Runtime computes of each batch, by output."""
    names = [value.name for value in model.graph.output]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return list(observe(copy, names, batches))


@dataclass(frozen=True, kw_only=True)
class _Rounded:
    """A tensor that a quantised model rounds.

    Attributes:
        name: of the operator that computes it.
        exact, found: names of the tensors in the float and the quantised model.
        sources: indices of the rounded tensors that it is computed of.
    """

    name: str
    exact: str
    found: str
    sources: tuple[int, ...]


def agreement(
    model: ir.Model,
    quantised: ir.Model,
    batches: Batches,
    expected: Iterable[Mapping[str, Array]],
    origin: str,
) -> Agreement:
    """A quantised model beside the float model that it was made from.

    Args:
        model: as it was quantised, in float.
        quantised: the same with conversions; names of operators are those of the float model.
        batches: inputs of both.
        expected: outputs of the model as it was read, for each batch.
        origin: of the inputs, in words.
    """
    tensors = _rounded(model, quantised)
    names = [value.name or "" for value in quantised.graph.outputs]
    exact = observe(ir.to_proto(model), [each.exact for each in tensors], batches)
    found = observe(ir.to_proto(quantised), [*names, *(each.found for each in tensors)], batches)
    outputs, sums = Comparison(), [Powers() for _ in tensors]
    for known, one, other in zip(expected, exact, found, strict=True):
        outputs.add(known, other)
        for each, total in zip(tensors, sums, strict=True):
            total.add(one[each.exact], other[each.found])
    ratios = [each.sqnr_db for each in sums]
    losses = []
    for each, own in zip(tensors, ratios, strict=True):
        before = min((ratios[index] for index in each.sources), default=_INPUT_DB)
        lost = min(before, _INPUT_DB) - own
        losses.append(LayerLoss(name=each.name, sqnr_db=round(own, 2), lost_db=round(lost, 2)))
    losses.sort(key=lambda loss: -loss.lost_db)
    return outputs.result("the quantised model in ONNX Runtime", origin, losses[:_TOLD])


def _rounded(model: ir.Model, quantised: ir.Model) -> list[_Rounded]:
    """The activations that are rounded, in order."""
    originals = {node.name: node for node in model.graph}
    found: list[_Rounded] = []
    made_of: dict[ir.Value, frozenset[int]] = {}
    for node in quantised.graph:
        before = frozenset[int]().union(
            *(made_of.get(value, ()) for value in node.inputs if value is not None)
        )
        source = node.inputs[0] if is_kind(node, "QuantizeLinear") else None
        writer = None if source is None or array_of(source) is not None else source.producer()
        own = None if writer is None else originals.get(writer.name)
        if writer is not None and own is not None and own.op_type == writer.op_type:
            index = list(writer.outputs).index(source)  # type: ignore[arg-type]  # its writer
            readers = [use.node for use in node.outputs[0].uses()]
            back = next((each for each in readers if is_kind(each, "DequantizeLinear")), None)
            exact = own.outputs[index]
            if back is not None and exact.name and back.outputs[0].name:
                found.append(
                    _Rounded(
                        name=writer.name or writer.op_type,
                        exact=exact.name,
                        found=back.outputs[0].name,
                        sources=tuple(sorted(before)),
                    )
                )
                before = frozenset({len(found) - 1})
        made_of |= dict.fromkeys(node.outputs, before)
    return found
