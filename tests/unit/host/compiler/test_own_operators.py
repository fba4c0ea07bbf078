# SPDX-License-Identifier: Apache-2.0
"""Operators of users: the contract on one of each form, networks with them, and what is wrong."""

import sys
from typing import ClassVar

import numpy as np
import onnx
import pytest
from support.networks.own_operators import BINOMIAL
from support.networks.small_models import Model

from tilewright.cli.partition_tables import named
from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import compile_network, import_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.read.own_operators import (
    OPERATORS,
    OwnOperators,
    load_operator,
    operator_names,
)
from tilewright.host.machine.board import load_board
from tilewright.testing import OperatorContract
from tilewright.testing.operator_contract import PLAIN

HERE = "support.networks.own_operators"
NAMED = tuple(f"{HERE}:{name}" for name in ("Squareplus", "Blur", "Tripled"))


class TestSquareplus(OperatorContract):
    name = f"{HERE}:Squareplus"
    attributes: ClassVar = {"b": 0.5}


class TestBlur(OperatorContract):
    name = f"{HERE}:Blur"
    constants: ClassVar = {1: (BINOMIAL / 16).astype(np.float32)}


class TestMiddle(OperatorContract):
    name = f"{HERE}:Middle"
    shapes = ((1, 8, 4, 4), (1, 8, 4, 4))


class TestSteps(OperatorContract):
    name = f"{HERE}:Steps"


class TestTripled(OperatorContract):
    name = f"{HERE}:Tripled"


def network(seed=0):
    """A float network of three convolutions with users' operators between them."""
    model = Model(np.random.default_rng(seed))
    x = model.add("Conv", model.input(1, 8, 8, 8), model.weights(8, 8, 1, 1))
    x = model.add("Squareplus", x, domain="com.example", b=2.0)
    x = model.add("Conv", x, model.weights(8, 8, 1, 1))
    x = model.add("Blur", x, (BINOMIAL / 16).astype(np.float32), domain="com.example")
    x = model.add("Tripled", x, domain="com.example")
    return own_proto(model, model.add("Conv", x, model.weights(8, 8, 1, 1)))


def own_proto(model, *outputs):
    proto = model.proto(*outputs)
    proto.opset_import.add(domain="com.example", version=1)
    return proto


def test_an_old_operator_set_is_refused():
    model = Model(np.random.default_rng(0), opset=12)
    x = model.add("Squareplus", model.input(1, 8, 4, 4), domain="com.example")
    with pytest.raises(WorkloadError, match=r"com\.example\.Squareplus.*at least 13"):
        import_network(own_proto(model, x), options=ImportOptions(operators=NAMED[:1]))


def test_a_function_of_the_file_gives_way_to_the_plug_in():
    model = Model(np.random.default_rng(0))
    x = model.add("Conv", model.input(1, 8, 4, 4), model.weights(8, 8, 1, 1))
    proto = own_proto(model, model.add("Squareplus", x, domain="com.example"))
    function = onnx.parser.parse_function(
        '<domain: "com.example", opset_import: ["" : 17]>\nSquareplus (x) => (y) { y = Relu (x) }'
    )
    proto.functions.append(function)
    imported = import_network(
        proto, calibration=Calibration(random_samples=1), options=ImportOptions(operators=NAMED[:1])
    )
    assert "Squareplus" in [node.op_type for node in imported.qdq.graph.node]
    (mine,) = imported.qdq.functions
    assert "Sqrt" in [node.op_type for node in mine.node], "the plug-in's meaning, not the file's"


def test_the_network_records_its_operators():
    model = Model(np.random.default_rng(0))
    x = model.quantised(model.input(1, 8, 4, 4), 0.03)
    y = model.quantised(model.add("Squareplus", x, domain="com.example"), 0.03)
    options = ImportOptions(operators=NAMED[:1])
    imported = import_network(own_proto(model, y), options=options)
    assert imported.own_operators == (f"com.example.Squareplus ({NAMED[0]})",)
    compiled = compile_network(imported, PLAIN, load_board("pynq-z2"))
    (placed,) = compiled.network.placements
    assert named(compiled.network.placements, "Squareplus") == [placed]
    assert placed.reason == "it is a table, and the configuration has none (activation_table: 1)"


# -- what is wrong ---------------------------------------------------------------------------------

GOOD_MEANING = 'meaning = "Mine (x) => (y) { y = Abs (x) }"'
GOOD = f'domain = "com.example"; {GOOD_MEANING}'
TWO_INPUTS = GOOD.replace("(x)", "(x, z)")

WRONG = {
    "no domain": (GOOD_MEANING, "must state its domain"),
    "a domain with a blank": (f'domain = "com example"; {GOOD_MEANING}', "must state its domain"),
    "a taken domain": (f'domain = "ai.onnx"; {GOOD_MEANING}', "domain ai.onnx is taken"),
    "no meaning": ('domain = "com.example"', "must state its meaning"),
    "a meaning that is no function": (
        'domain = "com.example"; meaning = "y = x"', "no function in ONNX's text form",
    ),
    "two results": (
        'domain = "com.example"; meaning = "Mine (x) => (y, z) { y = Abs (x) z = Abs (x) }"',
        "must have one result",
    ),
    "a value of two tensors": (
        f"{TWO_INPUTS}\n    def value(self, x): return x",
        "must have one input",
    ),
    "both": (
        f"{GOOD}\n    def value(self, x): return x\n    def lower(self, call): return None",
        "a value or a lowering, not both",
    ),
    "a constructor that fails": (
        f'{GOOD}\n    def __init__(self): 1 / 0',
        "failed with ZeroDivisionError",
    ),
    "another name": (f'domain = "com.other"; {GOOD_MEANING}', "must be called com.other.Mine"),
}  # fmt: skip

FAILING = {
    "a value that fails": ("def value(self, x): return 1 // 0", "ZeroDivisionError"),
    "a value that is one number": ("def value(self, x): return 3.0", "must give 256 real numbers"),
    "a value of other arguments": ("def value(self, x, b): return x", "TypeError"),
    "a lowering that fails": ("def lower(self, call): return call.none", "AttributeError"),
    "a lowering to something": ("def lower(self, call): return 3", "must return what a method"),
    "a layer of two tensors": ("def lower(self, call): return call.add()", "must have 2 inputs"),
    "a short table": ("def lower(self, call): return call.table([1, 2])", "must be 256 int8"),
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a distribution with the class `Mine` as the operator com.example.Mine."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(body, dist="mine-dist", module="own_wrong"):
        source = f"import tilewright as tw\nclass Mine(tw.Operator):\n    {body}\n"
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
        folder = tmp_path / f"{dist.replace('-', '_')}-2.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {dist}\nVersion: 2.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text(
            f"[tilewright.operators]\ncom.example.Mine = {module}:Mine\n", encoding="utf-8"
        )

    yield make
    for name in [name for name in sys.modules if name.startswith("own_wrong")]:
        del sys.modules[name]


def mine(*shape):
    model = Model(np.random.default_rng(0))
    x = model.quantised(model.input(*(shape or (1, 8, 4, 4))), 0.03)
    return own_proto(model, model.quantised(model.add("Mine", x, domain="com.example"), 0.03))


@pytest.mark.parametrize("why", WRONG)
def test_an_operator_that_lacks_a_part_is_refused_by_its_entry_point(install, why):
    body, rule = WRONG[why]
    install(body)
    with pytest.raises(WorkloadError, match=r"com\.example\.Mine") as caught:
        import_network(mine())
    assert rule in str(caught.value)


@pytest.mark.parametrize("why", FAILING)
def test_code_that_fails_is_told_by_its_entry_point(install, why):
    code, rule = FAILING[why]
    install(f"{GOOD}\n    {code}")
    imported = import_network(mine())
    with pytest.raises(WorkloadError, match=r"operator com\.example\.Mine") as caught:
        partition(imported, tables=True)
    assert rule in str(caught.value)


def test_two_distributions_with_one_operator_are_named(install):
    install(GOOD)
    install(GOOD, dist="other-dist", module="own_wrong_2")
    with pytest.raises(WorkloadError, match=r"is brought by mine-dist 2\.0 and by other-dist 2\.0"):
        import_network(mine())


def test_an_installed_operator_needs_no_option_and_is_not_imported_for_other_models(install):
    install(f"{GOOD}\n    def value(self, x): return abs(x)")
    assert list(OPERATORS) == ["com.example.Mine"]
    model = Model(np.random.default_rng(0))
    x = model.quantised(model.input(1, 8, 4, 4), 0.03)
    import_network(model.proto(model.quantised(model.add("Relu", x), 0.03)))
    assert "own_wrong" not in sys.modules
    imported = import_network(mine())
    assert imported.own_operators == ("com.example.Mine (mine-dist 2.0)",)
    assert len(partition(imported, tables=True).regions) == 1


def test_a_lowering_may_leave_it_to_the_cpu(install):
    install(f"{GOOD}\n    def lower(self, call): return None")
    parts = partition(import_network(mine()))
    assert not parts.regions
    assert [p.reason for p in parts.placements] == ["its plug-in leaves it to the CPU"]


def test_two_classes_of_one_operator_are_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    body = f'    domain = "com.example"; {GOOD_MEANING}\n'
    source = f"import tilewright as tw\nclass A(tw.Operator):\n{body}class B(tw.Operator):\n{body}"
    (tmp_path / "own_wrong_two.py").write_text(source, encoding="utf-8")
    with pytest.raises(WorkloadError, match=r"own_wrong_two:A is the operator com\.example\.Mine"):
        OwnOperators(("own_wrong_two:A", "own_wrong_two:B"))


@pytest.mark.parametrize("attributes", [{"c": 1.0}, {}])
def test_a_node_that_does_not_fit_the_meaning_is_refused(attributes):
    model = Model(np.random.default_rng(0))
    x = model.input(1, 8, 4, 4)
    inputs = (x,) if attributes else (x, x)
    proto = own_proto(model, model.add("Squareplus", *inputs, domain="com.example", **attributes))
    with pytest.raises(WorkloadError, match=r"squareplus0.*and the meaning"):
        import_network(proto, options=ImportOptions(operators=NAMED[:1]))


def test_a_class_is_named_by_its_module():
    found = load_operator(NAMED[0])
    assert operator_names((NAMED[1], type(found.operator))) == (NAMED[1], NAMED[0])

    class Local(type(found.operator)):
        pass

    with pytest.raises(WorkloadError, match="top of a module"):
        operator_names((Local,))
