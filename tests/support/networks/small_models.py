# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models, written node by node."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.networks.qdq_runs import (
    operator_errors,
    output_of,
    quantised_names,
    region_errors,
    run_all,
)

from tilewright.host.compiler.divide.placement import OffloadGraph
from tilewright.host.compiler.lower.qgraph import QOperator
from tilewright.host.compiler.pipeline import (
    ImportedNetwork,
    PartitionedNetwork,
    import_network,
    partition,
)
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

TIES = 3
"""Elements of a tensor that may differ by one step, however small it is: a rare tie is no fault."""


class Model:
    """An ONNX model under construction; values are names."""

    def __init__(self, rng: np.random.Generator, opset: int = 17) -> None:
        self.rng = rng
        self._opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, *shape: int, name: str = "x", kind: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int) -> str:
        fan_in = max(int(np.prod(shape[1:])), 1)
        return self.constant((self.rng.normal(size=shape) / fan_in**0.5).astype(np.float32))

    def add(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """A node; inputs that are no names are numbers: constants of the model."""
        name = f"{kind.lower()}{len(self.nodes)}"
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], name, domain=domain, **attributes))
        return name

    def quantised(
        self, x: str, scale: float, zero_point: int = 0, dtype: type[np.integer] = np.int8
    ) -> str:
        """A float value through QuantizeLinear and DequantizeLinear."""
        numbers = self.constant(np.float32(scale)), self.constant(dtype(zero_point))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *numbers), *numbers)

    def proto(self, *outputs: str, kinds: Sequence[int] = ()) -> onnx.ModelProto:
        kinds = kinds or [TensorProto.FLOAT] * len(outputs)
        results = [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in zip(outputs, kinds, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "g", self._inputs, results, self._constants)
        opsets = [helper.make_opsetid("", self._opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def imported(
    model: onnx.ModelProto, samples: int = 2, *, asymmetric: bool = False, name: str = "net"
) -> ImportedNetwork:
    """A model, quantised with noise if it is float."""
    return import_network(
        model,
        calibration=Calibration(random_samples=samples),
        options=ImportOptions(name=name, quantise=QuantiseOptions(asymmetric=asymmetric)),
    )


def imported_with_its_inputs(
    model: onnx.ModelProto, rng: np.random.Generator, samples: int = 8
) -> tuple[ImportedNetwork, dict[str, np.ndarray]]:
    """A float model, quantised with noise, and inputs among it: they leave no range."""
    sizes = {a.name: [d.dim_value for d in a.type.tensor_type.shape.dim] for a in model.graph.input}
    seen = {n: rng.normal(size=[samples * d[0], *d[1:]]).astype("f4") for n, d in sizes.items()}
    network = import_network(
        model,
        calibration=Calibration(arrays=seen),
        options=ImportOptions(name="net", quantise=QuantiseOptions()),
    )
    return network, {name: array[: len(array) // samples] for name, array in seen.items()}


def imported_with_its_results(
    proto: onnx.ModelProto, rng: np.random.Generator, step: float
) -> tuple[ImportedNetwork, dict[str, np.ndarray]]:
    """A quantised model, and inputs of which it gives the same once imported, but for a step."""
    network = imported(proto)
    inputs = noise(network, rng)
    found, expected = output_of((network.qdq, proto), inputs)
    np.testing.assert_allclose(found, expected, atol=1.01 * step)
    return network, inputs


def imported_near_its_results(
    proto: onnx.ModelProto, rng: np.random.Generator, share: float = 0.15
) -> tuple[ImportedNetwork, dict[str, np.ndarray]]:
    """A float model, quantised, and inputs of which it gives the same but for a share."""
    network, inputs = imported_with_its_inputs(proto, rng)
    found, expected = output_of((network.qdq, proto), inputs)
    np.testing.assert_allclose(found, expected, atol=share * np.abs(expected).max())
    return network, inputs


def noise(network: ImportedNetwork, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs for a network."""
    return {a.name: rng.normal(size=a.shape).astype(a.dtype) for a in network.inputs}


def operators(parts: PartitionedNetwork) -> list[QOperator]:
    """The operators of all regions."""
    return [operator for region in parts.regions for operator in region.operators]


def assert_regions_agree(
    network: ImportedNetwork,
    parts: PartitionedNetwork,
    inputs: dict[str, np.ndarray],
    ties: float = 0.02,
) -> None:
    """Every operator computes what ONNX Runtime computes, but for ties in single precision.

    ONNX Runtime runs without its optimisations, which round elsewhere than the model says.
    Averages of few elements have many ties. What ties change may grow behind them: a region's
    results may differ by two steps.
    """
    assert parts.regions
    tensors, names = run_all(network.qdq, inputs), quantised_names(network.qdq)
    for region in parts.regions:
        for name, errors in operator_errors(region, tensors, names).items():
            assert np.abs(errors).max() <= 1, (region.name, name)
            assert (errors != 0).sum() <= max(TIES, ties * errors.size), (region.name, name)
        for name, errors in region_errors(region, tensors, names).items():
            assert np.abs(errors).max() <= 2, (region.name, name)
            allowed = max(2 * TIES, max(ties, 0.1) * errors.size)  # of few elements one is a third
            assert np.abs(errors).sum() <= allowed, (region.name, name)


def accelerated(
    model: onnx.ModelProto, *, asymmetric: bool = False, ties: float = 0.02
) -> PartitionedNetwork:
    """The parts of a model, after comparing its regions with ONNX Runtime."""
    network = imported(model, asymmetric=asymmetric)
    parts = partition(network)
    assert_regions_agree(network, parts, noise(network, np.random.default_rng(0)), ties)
    return parts


def everything(graph: OffloadGraph) -> dict[int, str]:
    """Leave all candidates to the CPU."""
    return dict.fromkeys((each.id for each in graph.candidates), "it is left to the CPU by choice")
