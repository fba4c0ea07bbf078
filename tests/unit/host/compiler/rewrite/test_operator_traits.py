# SPDX-License-Identifier: Apache-2.0
"""The table of operators is what every rewrite goes by, and says what ONNX defines."""

import ast
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto
from support.networks.onnx_results import after_rewrites
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host import compiler
from tilewright.host.compiler.rewrite.qoperator import to_qdq
from tilewright.host.network import operators
from tilewright.host.network.operators import OPERATORS, Operator, having

LISTS_OF_THEIR_OWN = {"old_operator_sets.py"}
"""What ONNX said of operators before operator set 6."""


def test_every_row_is_an_operator_of_onnx_with_a_trait() -> None:
    for kind, traits in OPERATORS.items():
        assert onnx.defs.has(kind), kind
        assert traits != Operator(), kind
    assert list(OPERATORS) == sorted(OPERATORS)


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


def test_padding_of_any_pool_is_stated() -> None:
    model = Model(fresh_rng())
    y = model.input(1, 2, 7, 7)
    for kind in having(lambda each: each.pool == "window"):
        y = model.add(kind, y, kernel_shape=[2, 2], auto_pad="SAME_UPPER")
    graph = after_rewrites(model.proto(y)).graph
    assert [list(node.attributes["pads"].as_ints()) for node in graph] == [[0, 0, 1, 1]] * 3


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
