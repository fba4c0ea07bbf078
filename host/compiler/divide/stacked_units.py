# SPDX-License-Identifier: Apache-2.0
"""Units of several images that are elements of one: windows of an image as a batch.

Also of heads, which are to channels what windows are to pixels.

The images lie one below the other, as one. Rows between them are as padding is, so that no window
reads two images; the rows of a result that would belong to two are left out.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.host.compiler.divide import index_maps
from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.index_maps import IndexMap, Source
from tilewright.host.compiler.divide.relax_calls import MAX_RANK, Refusal
from tilewright.host.compiler.lower.own_call import QuantisedTensor
from tilewright.host.compiler.lower.qgraph import QConcat, QConv, QPool, QSelect, Shape

if TYPE_CHECKING:
    from tilewright.host.compiler.divide.region_page import RegionPage
    from tilewright.host.compiler.divide.relax_graph import RelaxStep
    from tilewright.host.compiler.divide.relax_units import OffloadUnit


def compute(page: RegionPage, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
    """Append a unit's operators to a region.

    Raises:
        Refusal: it is no unit of several images, or the accelerator does not compute it.
    """
    operator, shape = unit.operator, unit.inputs[0].shape
    if len(shape) != MAX_RANK:
        raise Refusal("it is of no images")
    if shape[0] == 1:
        _mixed_heads(page, step, unit, label)
        return
    if unit.kind in ("convolution", "pool"):
        _window(page, step, unit, label)
        return
    bounds = operator.bounds
    maps = [
        page.rescaled(var, tensor, unit.output, bounds)
        for var, tensor in zip(unit.data, unit.inputs, strict=True)
    ]
    if isinstance(operator, QConcat):
        axis = unit.axes[0]
        page.maps[step.var] = index_maps.joined(maps, lambda each: np.concatenate(each, axis))
    elif isinstance(operator, QSelect) and unit.axes == (1,):
        (data,) = maps
        page.maps[step.var] = data.with_places(np.take(data.places, operator.channels, 1))
    else:
        raise Refusal("it is of several images")


def _mixed_heads(page: RegionPage, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
    """A convolution of single pixels over heads, where the last axis is channels with them.

    Talking heads (arXiv 2003.02436): an element of each head is multiplied by one weight.
    """
    operator, lies = unit.operator, page.lies.get(unit.data[0])
    shape, result = unit.inputs[0].shape, unit.output.shape
    if not isinstance(operator, QConv) or operator.transposed or lies is None:
        raise Refusal("it is of one image")
    if operator.weights.shape[2:] != (1, 1) or operator.groups > 1 or shape[2:] != result[2:]:
        raise Refusal("it is of more than single pixels")
    if lies[1] != layouts.heads(shape):
        raise Refusal("its heads lie otherwise")
    each = np.eye(shape[3], dtype=np.int8)
    whole = replace(
        operator,
        weights=np.kron(operator.weights[..., 0, 0], each)[..., None, None],
        weight_scales=np.repeat(operator.weight_scales, shape[3]),
        bias=np.repeat(operator.bias, shape[3]),
    )
    page.enter(step.var, unit.output, layouts.heads(result))
    written = page.append(whole, label, (lies[0],), page.lies[step.var][0])
    page.of_step[step.index] = written


def _window(page: RegionPage, step: RelaxStep, unit: OffloadUnit, label: str) -> None:
    """A convolution or a pool, on images with padding between them."""
    operator, (tensor,) = unit.operator, unit.inputs
    assert isinstance(operator, QConv | QPool)
    padded = any(operator.pads)
    if isinstance(operator, QConv):
        if operator.transposed:
            raise Refusal("it is a transposed convolution of several images")
        kernel, filling = operator.weights.shape[2:], tensor.zero_point
    else:
        if padded and not operator.maximum:
            raise Refusal("it is an average with padding of several images")
        kernel, filling = operator.kernel, -128
    images, _, height, width = tensor.shape
    top, left, bottom, right = operator.pads
    apart = -(-(height + max(top, bottom)) // operator.stride[0]) * operator.stride[0]
    rows, channels = (images - 1) * apart + height, unit.output.shape[1]
    source = _laid(page, page.map_of(unit.data[0], tensor.shape), tensor, apart, filling)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, operator.dilation, strict=True)]
    found = (
        (rows + top + bottom - reach[0]) // operator.stride[0] + 1,
        (width + left + right - reach[1]) // operator.stride[1] + 1,
    )
    whole: Shape = (1, channels, *found)
    name = page.tensor(page.name_of(step.var), unit.output, layouts.image(whole), whole)
    page.of_step[step.index] = page.append(replace(operator), label, (source,), name)
    numbers = np.arange(prod(whole)).reshape(channels, *found)
    step_rows = apart // operator.stride[0]
    firsts = np.arange(images) * step_rows
    chosen = firsts[:, None] + np.arange(unit.output.shape[2])
    page.maps[step.var] = IndexMap(
        sources=(Source(name, channels, prod(found)),),
        places=np.ascontiguousarray(numbers[:, chosen].transpose(1, 0, 2, 3)),
    )


def _laid(
    page: RegionPage, data: IndexMap, tensor: QuantisedTensor, apart: int, filling: int
) -> str:
    """The images one below the other: moved at once, or brought there and then moved apart."""
    images, _, height, width = tensor.shape
    sides = (images - 1) * apart + height, width
    if apart == height:
        return page.made(data, layouts.stacked(tensor.shape), tensor)

    def separated(data: IndexMap) -> str:
        both = index_maps.joined(
            [data, index_maps.fill(filling)], lambda each: _stacked(each[0], int(each[1]), apart)
        )
        return page.laid(both.sources, both.places, sides, tensor)

    try:
        return separated(data)
    except Refusal:
        stacked = layouts.stacked(tensor.shape)
        name = page.made(data, stacked, tensor)
        return separated(page.map_of_layout(name, stacked, tensor.shape))


def _stacked(places: index_maps.Places, filling: int, apart: int) -> index_maps.Places:
    """(B, C, H, W) as (C, pixels), so many rows from image to image, but none behind the last."""
    images, channels, height, width = places.shape
    whole = np.full((channels, images, apart, width), filling, np.int64)
    whole[:, :, :height] = places.transpose(1, 0, 2, 3)
    rows = whole.reshape(channels, images * apart, width)[:, : (images - 1) * apart + height]
    return rows.reshape(channels, -1)
