# SPDX-License-Identifier: Apache-2.0
"""Networks that join, split and shuffle channels, and transformers: one region, bit-exact."""

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.verilator.device import VerilatorDevice

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

from networks.zoo import ZOO


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "hw_name", "row_unit"),
    [
        ("densenet121", "pynq-16x16", 0),
        ("shufflenet-v2", "pynq-16x16", 0),
        ("yolov5n-like", "pynq-16x16-act", 0),
        ("yolov8n-like", "pynq-16x16-act", 0),
        ("gpt-block", "pynq-16x16-act", 1),
        ("vit-tiny", "pynq-16x16-act", 1),
    ],
)
def test_a_network_is_one_region_and_bit_exact(name, hw_name, row_unit) -> None:
    rng = fresh_rng()
    hw, board = load_hwconfig(hw_name).with_(row_unit=row_unit), load_board("pynq-z2")
    data = rng.normal(size=ZOO[name].input_shape).astype(np.float32)
    compilation = compile_model(
        ZOO[name].build(),
        hw,
        board,
        calibration=Calibration(arrays={"x": data}),
        options=ImportOptions(
            name=name,
            quantise=QuantiseOptions(method="minmax", equalisation=False, bias_correction=False),
        ),
    )
    assert {p.where for p in compilation.network.placements} == {"accelerator"}
    (region,), (layers,) = compilation.network.regions, compilation.layers
    (source,), (result,) = region.inputs, region.outputs
    image = rng.integers(-128, 128, region.tensors[source].shape, dtype=np.int8)
    argument = from_normal_form(image, region.model_shapes.get(source, image.shape))
    expected = evaluate(layers, {source: to_normal_form(argument, image.shape)})[result]
    with closing(VerilatorDevice(hw, board.memory, fidelity=Fidelity("dpi"))) as device:
        (found,), _ = region.run(device, [argument])
    shape = region.model_shapes.get(result, expected.shape)
    np.testing.assert_array_equal(found, from_normal_form(expected, shape))
