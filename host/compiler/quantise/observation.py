# SPDX-License-Identifier: Apache-2.0
"""Shows tensors inside a float model while it runs on calibration data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.onnx_sessions import explained, open_session
from tilewright.host.compiler.read.edit import Array
from tilewright.host.network.onnx_file import short

_ENTRIES: Final = {
    "session.disable_quant_qdq": "1",  # fold int8 constants
    # Threads that wait take no core from the process that loads TVM meanwhile.
    "session.intra_op.allow_spinning": "0",
}

Batches = Sequence[Mapping[str, Array]]
"""Inputs by name, one mapping a run."""


def observe(
    model: onnx.ModelProto, names: Collection[str], batches: Batches
) -> Iterator[dict[str, Array]]:
    """Run a model on each batch and return tensors inside it."""
    inputs = {value.name for value in model.graph.input}
    inside = sorted(set(names) - inputs)
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in inside if name not in outputs
    )
    with explained():
        session = open_session(model, threads=0, entries=_ENTRIES)
    for batch in batches:
        with explained():
            found = session.run(inside, dict(batch)) if inside else []
        inputs_found = {name: batch[name] for name in names if name in inputs}
        yield dict(zip(inside, found, strict=True)) | inputs_found


def require_finite(name: str, *values: float) -> None:
    """Check what is found in an activation."""
    if not np.isfinite(values).all():
        raise WorkloadError(
            "must be finite on calibration data",
            field=f"activation {short(name)}",
            remedy="check the model on these data in float",
        )
