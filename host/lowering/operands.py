# SPDX-License-Identifier: Apache-2.0
"""Random operands of a layer for one configuration: what a device is checked with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.golden import Int8Array, LayerTensors, random_tensors
from tilewright.host.network.int4_tiles import LARGEST_SCALE, group_shape, has_scales
from tilewright.host.network.layout import fold_weights
from tilewright.host.network.workload import Workload

_SCALES = np.array([1, 1, 2, 2, 3, 4, 7, LARGEST_SCALE])


def random_operands(hw: HwConfig, workload: Workload, rng: np.random.Generator) -> LayerTensors:
    """Operands as `golden.random_tensors` draws them; groups of 4-bit weights have other scales."""
    tensors = random_tensors(workload, rng)
    weights = tensors.weights
    if weights is None or not (has_scales(hw) and geometry(hw, workload).int4):
        return tensors
    return replace(tensors, weights=_with_scales(hw, workload, weights, rng))


def _with_scales(
    hw: HwConfig, workload: Workload, weights: Int8Array, rng: np.random.Generator
) -> Int8Array:
    """4-bit weights times a scale in each group of a tile."""
    folded = geometry(hw, workload).folded
    stored = fold_weights(weights) if folded else weights
    step_out, step_in = group_shape(hw)
    outputs, inputs, *kernel = stored.shape
    scales = rng.choice(_SCALES, (-(-outputs // step_out), -(-inputs // step_in), *kernel))
    every = scales.repeat(step_out, axis=0).repeat(step_in, axis=1)[:outputs, :inputs]
    scaled: Int8Array = (stored * every).astype(np.int8)
    if not folded:
        return scaled
    columns = scaled.reshape(outputs, workload.kernel_w, workload.channels_in, workload.kernel_h)
    return np.ascontiguousarray(columns.transpose(0, 2, 3, 1))
