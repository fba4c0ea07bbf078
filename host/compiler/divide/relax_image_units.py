# SPDX-License-Identifier: Apache-2.0
"""Operators of images whose numbers need more than a look: enlargement, PReLU."""

from __future__ import annotations

import numpy as np

from tilewright.host.compiler.divide.relax_calls import constant
from tilewright.host.compiler.divide.relax_match import MAX_RANK, Match, Refusal
from tilewright.host.compiler.divide.tensor_layouts import natural
from tilewright.host.compiler.lower.own_call import placeholders
from tilewright.host.compiler.lower.qgraph import QEnlarge, QOperator, QPrelu


def enlarge(match: Match) -> QOperator:
    """Bilinear resizing by whole factors."""
    attrs = match.call.attrs
    modes = (str(attrs.method), str(attrs.coordinate_transformation_mode))
    if modes not in (("linear", "half_pixel"), ("linear", "pytorch_half_pixel")):
        raise Refusal(f"it is resized by {modes[0]}, {modes[1]}, not linearly by half_pixel")
    before, after = match.inputs[0].shape, match.output.shape
    if str(attrs.layout) != "NCHW" or len(before) != MAX_RANK:
        raise Refusal("it resizes something else than an image with channels first")
    rows, columns = (b // a for a, b in zip(before[2:], after[2:], strict=True))
    if (before[2] * rows, before[3] * columns) != after[2:]:
        raise Refusal(f"{before[2:]} to {after[2:]} is no enlargement by whole factors")
    return QEnlarge(**placeholders(1), factors=(rows, columns))


def prelu(match: Match) -> QOperator:
    """A ReLU with slopes for negative values."""
    slopes = constant(match.parts["slopes"]).astype(np.float64).reshape(-1)
    shape = match.output.shape
    if slopes.size > 1 and (int(match.call.attrs.axis) % len(shape) != 1 or len(shape) == 3):
        raise Refusal("its slopes are not one for each channel of an image")
    if not np.isfinite(slopes).all():
        raise Refusal("its slopes are not finite")
    layout = natural(shape)
    channels = layout.shape[1] if layout is not None else 0
    return QPrelu(**placeholders(1), slopes=np.array(np.broadcast_to(slopes, channels)))
