# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's static quantisation to QDQ, with ranges of activations that are given."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.read.onnxruntime_errors import explained


def quantise_static(
    model: ir.Model,
    nodes: Collection[str],
    kinds: Collection[str],
    symmetric: Collection[str],
    ranges: Mapping[str, tuple[float, float]],
    options: QuantiseOptions,
) -> ir.Model:
    """A float model with QuantizeLinear and DequantizeLinear around operators.

    Args:
        model: in float.
        nodes: names of the operators to quantise.
        kinds: of these.
        symmetric: names of tensors, of activations or weights, whose zero point is 0; such weights
            have one scale.
        ranges: lowest and highest value of the activations around the operators, by name.
        options: how.

    Raises:
        WorkloadError: ONNX Runtime failed.
    """
    from onnxruntime import quantization  # noqa: PLC0415  (heavy, and only needed here)
    from onnxruntime.quantization import calibrate  # noqa: PLC0415  (heavy, too)

    known = calibrate.TensorsData(
        calibrate.CalibrationMethod.MinMax,
        {name: (np.float32(low), np.float32(high)) for name, (low, high) in ranges.items()},
    )
    kind = quantization.QuantType.QUInt8 if options.asymmetric else quantization.QuantType.QInt8
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name, explained():
        folder = Path(name)
        source, target, cache = (folder / file for file in ("float.onnx", "qdq.onnx", "ranges"))
        onnx.save(ir.to_proto(model), source)
        calibrate.save_tensors_data(known, cache)
        quantization.quantize_static(
            source,
            target,
            calibration_cache_path=cache,
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=sorted(kinds),
            nodes_to_quantize=list(nodes),
            per_channel=options.per_channel,
            activation_type=kind,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=calibrate.CalibrationMethod.MinMax,
            extra_options={
                "ActivationSymmetric": not options.asymmetric,
                "WeightSymmetric": True,
                "DedicatedQDQPair": True,
                # nothing is taken whose data are not int8, also where a table computes them
                "ForceQuantizeNoInputCheck": True,
                "TensorQuantOverrides": {name: [{"symmetric": True}] for name in sorted(symmetric)},
            },
        )
        return ir.from_proto(onnx.load(target))
