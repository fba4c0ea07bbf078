# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's static quantisation to QDQ, with ranges of activations that are given."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx
import onnx_ir as ir

from tilewright.host.common.onnx_sessions import explained
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.read.model_file import with_shapes


def quantise_static(
    model: ir.Model,
    nodes: Collection[str],
    kinds: Collection[str],
    symmetric: Collection[str],
    ranges: Mapping[str, tuple[float, float]],
    options: QuantiseOptions,
) -> ir.Model:
    """A float model with QuantizeLinear and DequantizeLinear around operators."""
    from onnxruntime import quantization  # noqa: PLC0415  (heavy, and only needed here)
    from onnxruntime.quantization import quant_utils  # noqa: PLC0415  (heavy, too)

    from tilewright.host.compiler.quantise.channel_quantiser import (  # noqa: PLC0415  (heavy, too)
        ChannelQuantiser,
    )

    known = quantization.TensorsData(
        quantization.CalibrationMethod.MinMax,
        {name: tuple(np.array(end, np.float32) for end in ends) for name, ends in ranges.items()},
    )
    kind = quantization.QuantType.QUInt8 if options.asymmetric else quantization.QuantType.QInt8
    with explained():
        source = with_shapes(ir.to_proto(model))
        quant_utils.add_infer_metadata(source)
        quantiser = ChannelQuantiser(
            source,
            options.per_channel,
            reduce_range=False,
            weight_qType=quantization.QuantType.QInt8,
            activation_qType=kind,
            tensors_range=known,
            nodes_to_quantize=list(nodes),
            nodes_to_exclude=[],
            op_types_to_quantize=sorted(kinds),
            extra_options={
                "ActivationSymmetric": not options.asymmetric,
                "WeightSymmetric": True,
                "DedicatedQDQPair": True,
                # what clips stays an operator: calibrated ranges are no part of a float model
                "QDQKeepRemovableActivations": True,
                # nothing is taken whose data are not int8, also where a table computes them
                "ForceQuantizeNoInputCheck": True,
                "TensorQuantOverrides": {name: [{"symmetric": True}] for name in sorted(symmetric)},
            },
        )
        quantiser.quantize_model()
        quantiser.model.topological_sort()
        quantised: onnx.ModelProto = quantiser.model.model
        return ir.from_proto(quantised)
