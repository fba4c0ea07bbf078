# SPDX-License-Identifier: Apache-2.0
"""The table of operators is what every rewrite goes by, and says what ONNX defines."""

import ast
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto
from support.networks.detector_models import Detector
from support.networks.onnx_results import after_rewrites, read_in, rewritten
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host import compiler
from tilewright.host.compiler.quantise.int4_weights import _image_channels
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.qoperator import to_qdq
from tilewright.host.network import operators
from tilewright.host.network.operators import BY_ELEMENT, MOVES, OF_ONE, OPERATORS, Operator, having

OPSET = 20
REAL = sorted({*OF_ONE} - {"Cast", "Ceil", "Floor", "Log", "Not", "Sign", "Sqrt", "Swish"})
"""Functions of any real number, of that operator set, that rounding does not make jump."""

LISTS_OF_THEIR_OWN = {"old_operator_sets.py"}
"""What ONNX said of operators before operator set 6."""


def test_every_row_is_an_operator_of_onnx_with_a_trait() -> None:
    for kind, traits in OPERATORS.items():
        assert onnx.defs.has(kind), kind
        assert traits != Operator(), kind
    assert list(OPERATORS) == sorted(OPERATORS)


def test_operators_that_move_elements_compute_nothing() -> None:
    computes = having(lambda each: each.layer or each.pool or each.gates or each.random)
    assert not {*MOVES} & {*computes}
    assert {*MOVES} & {*BY_ELEMENT} == {"Identity"}


def test_no_file_of_the_compiler_lists_operators_besides() -> None:
    """Tables of functions are no lists; what names few operators treats each apart."""
    rooms = [Path(each.__file__).parent for each in (compiler, operators)]
    files = [file for room in rooms for file in room.rglob("*.py")]
    for file in {*files} - {Path(operators.__file__)}:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Tuple | ast.Set | ast.List) and file.name not in (
                LISTS_OF_THEIR_OWN
            ):
                texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
                assert len({*texts} & {*OPERATORS}) < 5, f"{file}:{node.lineno}"


@pytest.mark.parametrize("rank", [3, 5])
def test_functions_of_one_element_are_passed_between_convolutions_of_images(rank) -> None:
    sides, kernel = ((9,), (3,)) if rank == 3 else ((3, 9, 9), (1, 3, 3))
    model = Model(fresh_rng(), opset=OPSET)
    y = model.add("Conv", model.input(1, 2, *sides), model.weights(2, 2, *kernel))
    for kind in REAL:
        bounds = (np.float32(-1), np.float32(1)) if kind == "Clip" else ()
        y = model.add(kind, y, *bounds)
    y = model.add("PRelu", y, model.weights(2, *[1] * len(sides)))
    proto = model.proto(model.add("Conv", y, model.weights(2, 2, *kernel)))
    rewritten(proto)
    graph = after_rewrites(proto).graph
    inside = [node.op_type for node in graph if len(node.inputs[0].shape or ()) == rank]
    assert {*inside} <= {"Concat", "Gather", "Reshape"}  # at the ends


@pytest.mark.parametrize("rank", [3, 5])
def test_conditions_and_functions_of_two_are_passed_likewise(rank) -> None:
    sides, kernel = ((9,), (3,)) if rank == 3 else ((3, 9, 9), (1, 3, 3))
    model = Model(fresh_rng(), opset=OPSET)
    y = model.add("Conv", model.input(1, 2, *sides), model.weights(2, 2, *kernel))
    few = model.add("And", model.add("Greater", y, np.float32(0)), model.add("Equal", y, y))
    chosen = model.add("Cast", model.add("Not", model.add("Or", few, few)), to=TensorProto.FLOAT)
    y = model.add("Pow", model.add("Max", model.add("Mul", y, chosen), y), np.float32(2))
    kinds = rewritten(model.proto(model.add("Conv", y, model.weights(2, 2, *kernel))))
    assert kinds.count("Conv") == kinds.count("Not") * 2
    assert "Reshape" not in kinds[kinds.index("Conv") : kinds.index("Pow")]


def test_padding_of_any_pool_is_stated() -> None:
    model = Model(fresh_rng())
    y = model.input(1, 2, 7, 7)
    for kind in having(lambda each: each.pool == "window"):
        y = model.add(kind, y, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    graph = after_rewrites(model.proto(y)).graph
    assert [list(node.attributes["pads"].as_ints()) for node in graph] == [[0, 0, 1, 1]] * 3


def test_the_results_of_products_are_layers_results_to_what_follows_their_join() -> None:
    model = Detector(fresh_rng())
    x = model.input(2, 4)
    parts = [model.add("MatMul", x, model.weights(4, n)) for n in (3, 5)]
    parts[0] = model.add("Unsqueeze", parts[0], [1])
    y = model.add("Concat", parts[0], model.add("Unsqueeze", parts[1], [1]), axis=2)
    proto = model.proto(model.add("Neg", model.add("Softsign", y)))
    kinds = rewritten(proto, QuantiseOptions(activation_tables=True))
    assert kinds.count("Softsign") == 2
    assert [kinds[place - 1] for place, kind in enumerate(kinds) if kind == "Softsign"] == (
        ["MatMul"] * 2
    )


@pytest.mark.parametrize("kind", ["Gather", "Tile"])
def test_moves_of_quantised_elements_are_between_conversions(kind) -> None:
    model = Model(fresh_rng())
    scale, zero = model.constant(np.float32(0.1)), model.constant(np.int8(0))
    rounded = model.add("QuantizeLinear", model.input(1, 4), scale, zero)
    moved = model.add(kind, rounded, np.array([0, 0] if kind == "Gather" else [2, 1]))
    current = ir.from_proto(model.proto(moved, kinds=[TensorProto.INT8]))
    to_qdq(current)
    kinds = [node.op_type for node in current.graph]
    assert kinds == ["QuantizeLinear", "DequantizeLinear", kind, "QuantizeLinear"]


@pytest.mark.parametrize("kind", ["HardSwish", "Relu"])
def test_channels_of_an_image_are_found_behind_any_activation(kind) -> None:
    model = Model(fresh_rng())
    flat = model.add("Flatten", model.add("Relu", model.input(1, 3, 2, 2)))
    proto = model.proto(model.add("MatMul", model.add(kind, flat), model.weights(12, 5)))
    assert _image_channels(list(read_in(proto).graph)[-1], 12) == 3
