# SPDX-License-Identifier: Apache-2.0
"""A detector like YOLOv8, small: one region from the first layer to distances and scores."""

import numpy as np
import pytest
from support.detector_models import detector
from support.qdq_runs import operator_errors, quantised_names, run_all

from tilewright.host.compiler.lower.qgraph import QSoftmax
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

HW = load_hwconfig("tiny-4x4").with_(row_unit=1, activation_table=1)
ARITHMETIC = {"Add", "Concat", "Div", "Mul", "Reshape", "Slice", "Sub"}


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_detector_is_one_region_and_float_arithmetic_on_boxes(asymmetric) -> None:
    model, board = detector(np.random.default_rng(7)), load_board("pynq-z2")
    compilation = compile_model(
        model,
        HW,
        board,
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(asymmetric=asymmetric)),
        offload_all=True,
    )
    network, imported = compilation.network, compilation.imported
    assert len(network.regions) == 1
    left = [each.kind for each in network.placements if each.where != "accelerator"]
    assert set(left) == ARITHMETIC
    assert len(left) == 12  # none of them twice, as for each level
    data = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    tensors, names = run_all(imported.qdq, data), quantised_names(imported.qdq)
    (region,) = partition(imported, tables=True, rows=True).regions
    assert [each.heads for each in region.operators if isinstance(each, QSoftmax)] == [4]
    assert sorted(np.prod(region.tensors[name].shape) for name in region.outputs) == [63, 84]
    for name, errors in operator_errors(region, tensors, names).items():
        assert np.abs(errors).max() <= 1, name
    (found,) = run_network(network, ReferenceDevice(HW), data, trusted=True).outputs.values()
    (output,) = imported.qdq.graph.output
    expected, real = tensors[output.name], run_all(model, data)[model.graph.output[0].name]
    assert found.shape == expected.shape == (1, 7, 21)
    boxes, scores = np.split(np.abs(found - expected), [4], axis=1)
    assert boxes.max() < 1.0  # pixels of 8: two steps of a distance, of at most 8 strides
    assert scores.max() < 2.5 / 127
    boxes, scores = np.split(np.abs(found - real), [4], axis=1)
    assert boxes.mean() < 1.0
    assert scores.mean() < 0.03
