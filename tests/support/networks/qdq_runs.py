# SPDX-License-Identifier: Apache-2.0
"""Runs a QDQ model in ONNX Runtime without optimisations and hands out every tensor."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader
from support.networks.qgraph_floats import evaluate

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.lower.qgraph import QGraph, from_normal_form, to_normal_form


def run_all(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All tensors of a model by name."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    known = {value.name for value in model.graph.output}
    for node in wide.graph.node:
        for name in node.output:
            if name and name not in known:
                wide.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        wide.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True)) | dict(inputs)


def output_of(
    models: Iterable[onnx.ModelProto], inputs: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """The one output of several forms of a model, which all have its name."""
    every = list(models)
    (name,) = (value.name for value in every[0].graph.output)
    return [open_session(model, optimised=False).run([name], dict(inputs))[0] for model in every]


class Samples(CalibrationDataReader):
    """Calibration data of input ``x`` for ONNX Runtime's quantiser; the last one first."""

    def __init__(self, samples: np.ndarray) -> None:
        self._waiting = [{"x": each[None]} for each in samples]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._waiting.pop() if self._waiting else None


def region_errors(
    graph: QGraph, tensors: Mapping[str, np.ndarray], quantised_as: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Differences, in steps, between a region's outputs by `evaluate` and by ONNX Runtime.

    Args:
        graph: the region.
        tensors: from `run_all`.
        quantised_as: for a float tensor the name of its int8 form.
    """
    arrays = []
    for name in graph.inputs:
        data = tensors[quantised_as.get(name, name)]
        assert data.dtype == np.int8, name
        arrays.append(to_normal_form(data, graph.tensors[name].shape))
    errors = {}
    for name, found in zip(graph.outputs, evaluate(graph, arrays), strict=True):
        stem = name if name in tensors else name.rsplit("_", 1)[0]  # reshaped on its way out
        expected = tensors[quantised_as.get(stem, stem)]
        shaped = from_normal_form(found, graph.model_shapes.get(name, found.shape))
        errors[name] = shaped.astype(int) - expected.astype(int)
    return errors


def operator_errors(
    graph: QGraph, tensors: Mapping[str, np.ndarray], quantised_as: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """As `region_errors`, operator by operator: each gets what ONNX Runtime computed before it.

    Operators on tensors that ONNX Runtime does not have in the same form are left out.
    """
    known = {}
    for name, tensor in graph.tensors.items():
        data = tensors.get(quantised_as.get(name, name))
        if data is not None and data.dtype == np.int8:
            with contextlib.suppress(WorkloadError):
                known[name] = to_normal_form(data, tensor.shape)
    errors = {}
    for operator in graph.operators:
        if {*operator.inputs, operator.output} <= set(known):
            alone = replace(
                graph,
                operators=(operator,),
                inputs=tuple(dict.fromkeys(operator.inputs)),
                outputs=(operator.output,),
            )
            (found,) = evaluate(alone, [known[name] for name in alone.inputs])
            errors[operator.name] = found.astype(int) - known[operator.output].astype(int)
    return errors


def quantised_names(model: onnx.ModelProto) -> dict[str, str]:
    """For each float tensor that is quantised, the name of its int8 form."""
    return {
        node.input[0]: node.output[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear"
    }


def assert_near(found: np.ndarray, real: np.ndarray, share: float = 0.15) -> None:
    """Two tensors differ by less than a share of the second one, by their lengths.

    Single elements of a random network may differ by more.
    """
    assert np.linalg.norm(found - real) < share * np.linalg.norm(real)
