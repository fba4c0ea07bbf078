# SPDX-License-Identifier: Apache-2.0
"""Small compiled networks with CPU parts that boards run, made without TVM, and their bundles."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from support.networks.qgraphs import draw_cnn
from support.randomness import generator

from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.pack.artefact import CompiledNetwork, save
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.deploy.bundle_parts import make_bundle
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

TINY = load_hwconfig("tiny-4x4")


def constant(array: Any) -> dict[str, Any]:
    array = np.asarray(array)
    data = base64.b64encode(array.tobytes()).decode()
    return {"constant": data, "dtype": str(array.dtype), "shape": list(array.shape)}


def call(operator: str, *arguments: int, **attributes: Any) -> dict[str, Any]:
    return {
        "call": f"relax.{operator}",
        "arguments": list(arguments),
        "attributes": attributes,
        "name": f"the_{operator.rpartition('.')[2]}",
    }


def cpu_part(inputs: list[Argument], outputs: list[Argument], values: list[Any]) -> str:
    """A CPU part that returns its last value."""
    module = {"values": values, "result": len(inputs) + len(values) - 1}
    return json.dumps(
        {
            "format": 2,
            "inputs": [vars(each) for each in inputs],
            "outputs": [vars(each) for each in outputs],
            "module": module,
        }
    )


def small_network(*more: Any) -> CompiledNetwork:
    """A network of one input and output; ``more`` follows its last value on the CPU."""
    graph, inputs = draw_cnn(generator("bundles"), 4)
    region = make_executable(
        graph, layer_graph(fuse(graph), TINY), TINY, lambda w: default_schedule(TINY, w)
    )
    (name,), (result,) = graph.inputs, graph.outputs[:1]
    shapes = [region.model_shapes.get(each, graph.tensors[each].shape) for each in graph.outputs]
    x = Argument(name="x", shape=inputs[name].shape, dtype="float32")
    y = Argument(name="y", shape=tuple(shapes[0]), dtype="float32")
    region_call = {
        "region": 0, "arguments": [3], "shapes": [list(shape) for shape in shapes], "name": "r",
    }  # fmt: skip
    values = [
        constant(np.float32(1 / 64)),
        constant(np.int8(0)),
        call("quantize", 0, 1, 2, out_dtype="int8", axis=1),
        region_call,
    ]
    data = 4
    if len(shapes) > 1:
        values.append({"item": 4, "index": 0})
        data = 5
    values.append(call("dequantize", data, 1, 2, out_dtype="float32", axis=1))
    return CompiledNetwork(
        name=str(result),
        hw=TINY,
        host=cpu_part([x], [y], [*values, *more]),
        regions=(region,),
        inputs=(x,),
        outputs=(y,),
        placements=(),
        conditions={"board": "pynq-z2"},
    )


def small_bundle(folder: Path, **options: Any) -> tuple[str, bytes]:
    path = folder / "small.tw"
    save(small_network(), path)
    return make_bundle(path, load_board("pynq-z2"), **options)
