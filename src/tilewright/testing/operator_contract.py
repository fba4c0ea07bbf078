# SPDX-License-Identifier: Apache-2.0
"""The contract that every user's operator keeps; a subclass names the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load, save
from tilewright.host.compiler.pipeline import (
    Compilation,
    compile_network,
    import_network,
)
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.read.own_operators import OPERATORS, OwnOperator, load_operator
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.devices import REFERENCE, open_simulated
from tilewright.testing.randomness import generator

Array = npt.NDArray[Any]

PLAIN: Final = load_hwconfig("tiny-4x4")
TABLED: Final = PLAIN.with_(name="tiny-4x4-act", activation_table=1)

_OPSET: Final = 17
_HALF: Final = 127
_TIES: Final = 0.02
"""Share of elements that may be one step from ONNX Runtime's, which computes in float32."""


class OperatorContract:
    """Your operator means one thing on the accelerator, on the CPU and in ONNX Runtime."""

    name: ClassVar[str]  # ``package.module:Class``, or ``domain.op_type`` of an entry point
    shapes: ClassVar[Sequence[tuple[int, ...]]] = ((1, 8, 6, 6),)  # of the inputs that are tensors
    constants: ClassVar[Mapping[int, Array]] = {}  # the other inputs by their place
    attributes: ClassVar[Mapping[str, Any]] = {}  # of the node
    spread: ClassVar[float] = 4.0  # largest magnitude of the inputs
    device: ClassVar[str] = REFERENCE  # that the programs run on, as of ``tilewright run --device``

    def test_it_has_its_parts(self) -> None:
        assert self._loaded().label == ".".join(self._loaded().key)

    def test_its_value_is_its_meaning_in_onnx_runtime(self) -> None:
        own = self._loaded()
        if not own.pointwise:
            pytest.skip("it has no value")
        real = np.linspace(-2 * self.spread, 2 * self.spread, 257)
        node = onnx.NodeProto()
        node.CopyFrom(self._node(["x0"], "y"))
        found = own.values(real, own.attributes_of(node))
        model = self._model([real.shape], constants={})
        (expected,) = _in_onnx_runtime(model, {"x0": real.astype(np.float32)})
        assert np.allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())

    def test_its_value_is_computed_element_by_element(self) -> None:
        own = self._loaded()
        if not own.pointwise:
            pytest.skip("it has no value")
        attributes = own.attributes_of(self._node(["x0"], "y"))
        real = np.linspace(-self.spread, self.spread, 256)
        order = generator("operator contract, order").permutation(256)
        found = own.values(real, attributes)
        assert np.array_equal(own.values(real[order], attributes), found[order], equal_nan=True)
        assert np.array_equal(own.values(real, attributes), found, equal_nan=True)

    def test_the_accelerator_gives_the_bits_of_its_layers_and_the_steps_of_onnx_runtime(
        self,
    ) -> None:
        own, data = self._loaded(), self._data()
        compilation = self._compiled(data, TABLED)
        places = {p.where for p in compilation.network.placements if p.kind == own.label}
        if own.pointwise or own.lowered:
            assert places == {"accelerator"}, compilation.network.placements
        found = self._run(compilation.network, data)
        assert np.array_equal(found, _by_layers(compilation, data))
        self._compare(compilation, found, data)

    def test_without_the_accelerator_the_cpu_computes_it(self) -> None:
        own, data = self._loaded(), self._data()
        if not own.pointwise:
            pytest.skip("it needs no activation table")
        compilation = self._compiled(data, PLAIN)
        (placed,) = [p for p in compilation.network.placements if p.kind == own.label]
        assert placed.where == "cpu"
        assert "activation_table: 1" in placed.reason
        self._compare(compilation, self._run(compilation.network, data), data)

    def test_a_compiled_file_does_not_need_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = self._data()
        network = self._compiled(data, TABLED).network
        expected = self._run(network, data)
        save(network, tmp_path / "own.tw")

        def gone(name: str) -> None:
            raise AssertionError(f"{name} was asked for")

        monkeypatch.setattr(OPERATORS, "load", gone)
        assert np.array_equal(self._run(load(tmp_path / "own.tw"), data), expected)

    # -- parts -------------------------------------------------------------------------------------

    def _loaded(self) -> OwnOperator:
        return load_operator(self.name)

    def _data(self) -> dict[str, Array]:
        rng = generator("operator contract, data")
        return {
            f"x{place}": rng.uniform(-self.spread, self.spread, shape).astype(np.float32)
            for place, shape in zip(self._places(), self.shapes, strict=True)
        }

    def _places(self) -> list[int]:
        count = len(self.shapes) + len(self.constants)
        return [place for place in range(count) if place not in self.constants]

    def _node(self, inputs: Sequence[str], output: str) -> onnx.NodeProto:
        domain, kind = self._loaded().key
        return helper.make_node(
            kind, list(inputs), [output], "own", domain=domain, **dict(self.attributes)
        )

    def _model(
        self,
        shapes: Sequence[tuple[int, ...]],
        constants: Mapping[int, Array],
        scales: Mapping[str, float] | None = None,
    ) -> onnx.ModelProto:
        """One node; with scales between rounded tensors."""
        own, scales = self._loaded(), scales or {}
        places = [p for p in range(len(shapes) + len(constants)) if p not in constants]
        names = [f"x{place}" for place in range(len(shapes) + len(constants))]
        arrays = {f"x{place}": np.asarray(array) for place, array in constants.items()}
        nodes = []
        read = list(names)
        for name, scale in scales.items():
            if name == "y":
                continue
            arrays |= _numbers(name, scale)
            nodes += _rounding(name, f"{name}_rounded")
            read[names.index(name)] = f"{name}_rounded"
        nodes.append(self._node(read, "exact" if "y" in scales else "y"))
        if "y" in scales:
            arrays |= _numbers("exact", scales["y"])
            nodes += _rounding("exact", "y")
        graph = helper.make_graph(
            nodes,
            "own",
            [
                helper.make_tensor_value_info(f"x{place}", TensorProto.FLOAT, shape)
                for place, shape in zip(places, shapes, strict=True)
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(own.key[0], 1)]
        function = onnx.FunctionProto()
        function.CopyFrom(own.function)
        return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)

    def _compiled(self, data: Mapping[str, Array], hw: HwConfig) -> Compilation:
        (real,) = _in_onnx_runtime(self._model(self.shapes, self.constants), data)
        scales = {name: float(np.abs(array).max()) / _HALF for name, array in data.items()}
        scales["y"] = float(np.abs(real).max()) / _HALF
        own = self._loaded()
        named = () if self.name == own.label else (self.name,)
        imported = import_network(
            self._model(self.shapes, self.constants, scales),
            options=ImportOptions(name="own", operators=named),
        )
        return compile_network(imported, hw, load_board("pynq-z2"), offload_all=True)

    def _run(self, network: CompiledNetwork, data: Mapping[str, Array]) -> Array:
        with closing(
            open_simulated(self.device, network.hw, load_board("pynq-z2").memory)
        ) as device:
            return run_network(network, device, data, trusted=True).outputs["y"]

    @staticmethod
    def _compare(compilation: Compilation, found: Array, data: Mapping[str, Array]) -> None:
        """With ONNX Runtime, in steps of the result."""
        model = compilation.imported.qdq
        (expected,) = _in_onnx_runtime(model, data)
        (last,) = [node for node in model.graph.node if list(node.output) == ["y"]]
        arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        steps = np.rint((found - expected) / float(arrays[last.input[1]]))
        assert np.abs(steps).max() <= 1
        assert np.count_nonzero(steps) <= max(3, _TIES * steps.size)


def _numbers(name: str, scale: float) -> dict[str, Array]:
    """The scale and the zero point of a tensor, as constants."""
    scale_array, zero = np.array(scale, np.float32), np.array(0, np.int8)
    return {f"{name}_scale": scale_array, f"{name}_zero": zero}


def _rounding(source: str, target: str) -> list[onnx.NodeProto]:
    """Through int8 and back."""
    numbers = [f"{source}_scale", f"{source}_zero"]
    return [
        helper.make_node("QuantizeLinear", [source, *numbers], [f"{source}_int8"]),
        helper.make_node("DequantizeLinear", [f"{source}_int8", *numbers], [target]),
    ]


def _by_layers(compilation: Compilation, data: Mapping[str, Array]) -> Array:
    """The result with each layer computed by its definition."""
    from tilewright.host.compiler.run.relax_host import (  # noqa: PLC0415  (loads TVM)
        HostModule,
        HostProgram,
    )

    def region(number: int, arrays: Sequence[npt.NDArray[np.int8]]) -> list[npt.NDArray[np.int8]]:
        graph, shapes_of = compilation.layers[number], _shapes_of(compilation, number)
        shapes = [graph.tensors[name].shape for name in graph.inputs]
        values = evaluate(
            graph,
            {
                name: to_normal_form(array, shape)
                for name, array, shape in zip(graph.inputs, arrays, shapes, strict=True)
            },
        )
        return [from_normal_form(values[name], shapes_of[name]) for name in graph.outputs]

    program = HostProgram(module=HostModule.from_json(compilation.network.host))
    return program.run(dict(data), region)["y"]


def _shapes_of(compilation: Compilation, region: int) -> dict[str, tuple[int, ...]]:
    """The shapes that the model gives a region's results."""
    known = compilation.network.regions[region]
    return {name: known.model_shapes.get(name, known.tensors[name].shape) for name in known.outputs}


def _in_onnx_runtime(model: onnx.ModelProto, data: Mapping[str, Array]) -> list[Array]:
    """All results, without optimisations, which round elsewhere than the model says."""
    session = open_session(model, optimised=False)
    return [np.asarray(result) for result in session.run(None, dict(data))]
