# SPDX-License-Identifier: Apache-2.0
"""`import tilewright as tw`: its names, an example for each that runs, and what it loads."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import re
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from support.randomness import generator

import tilewright as tw
from tilewright.host.common.calls import named

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Path(tw.__file__)
TREE = ast.parse(SOURCE.read_text(encoding="utf-8"))


def typed_names():
    """Names that type checkers see, with their modules."""
    blocks = [
        n for n in TREE.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: statement.module
        for block in blocks
        for statement in block.body
        for alias in statement.names
    }


def test_type_checkers_see_the_names_that_are_imported_when_they_are_used():
    assert typed_names() == {name: f"tilewright.{home}" for name, home in tw._HOMES.items()}
    assert sorted(tw._HOMES) == sorted(tw.__all__) == sorted(set(tw.__all__))


@pytest.mark.parametrize("name", tw.__all__)
def test_a_name_is_what_its_module_defines(name):
    found = getattr(tw, name)
    assert inspect.getmodule(found).__name__.startswith("tilewright.")
    assert found.__name__ == name


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tun'"):
        tw.tun  # noqa: B018  (the access is the test)


def test_dir_tells_the_public_names_alone():
    assert set(dir(tw)) == {*tw.__all__, "__version__"}


@pytest.mark.parametrize("name", tw.__all__)
def test_a_name_has_an_example_that_runs(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    subject = getattr(tw, name)
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = [t for t in finder.find(subject, name, module=False, globs={}) if t.name == name]
    assert found.examples, f"tw.{name} needs an example"
    said: list[str] = []
    assert doctest.DocTestRunner().run(found, out=said.append).failed == 0, "".join(said)


def modules_after(line):
    """Modules that are loaded after one line in a fresh interpreter."""
    script = f"import json, sys\n{line}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_the_import_alone_loads_nothing_of_ours_and_nothing_heavy():
    loaded = modules_after("import tilewright")
    assert {name for name in loaded if name.startswith("tilewright")} == {"tilewright"}
    assert not {"numpy", "yaml", "importlib.metadata", "asyncio"} & loaded


def test_a_name_loads_what_it_needs_and_no_more():
    loaded = modules_after("import tilewright as tw; tw.load_hwconfig('tiny-4x4')")
    assert "tilewright.host.machine.hwconfig" in loaded
    assert not {"numpy", "onnx", "sqlalchemy", "tilewright.tuner"} & loaded


PUBLIC_MODULES = {
    "tilewright.testing",
    "tilewright.environments",
    # For designs around the core: nobody needs them who has a board of Tilewright's own.
    "tilewright.host.runtime.serial_port",
    "tilewright.host.runtime.shell_device",
    "tilewright.sim.synth.litex_core",
    # For systems of several cores.
    "tilewright.host.machine.system_config",
    "tilewright.host.runtime.system_device",
    "tilewright.sim.multicore.device",
}
"""What pages may import beside the public names."""


def deeper_imports(source):
    """Modules of Tilewright that Python code imports besides the public ones."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.startswith("tilewright.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilewright."):
            found.add(node.module)
    return found - PUBLIC_MODULES


def shown_code(page):
    """The Python blocks of a page, without the prompts of a session."""
    return "\n".join(
        re.sub(r"^(>>> |\.\.\. )", "", textwrap.dedent(block), flags=re.MULTILINE)
        for block in re.findall(r"^ *```python[^\n]*\n(.*?)^ *```$", page, flags=re.M | re.S)
    )


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_reader_of_pages_finds_a_deep_import():
    page = "text\n```python title='x'\nfrom tilewright.tuner.search import Space\n```\n"
    assert deeper_imports(shown_code(page)) == {"tilewright.tuner.search"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_the_public_interface_alone(path):
    code = shown_code(path.read_text(encoding="utf-8"))
    assert deeper_imports(code) == set()
    names = {node.attr for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)
             and isinstance(node.value, ast.Name) and node.value.id == "tw"}  # fmt: skip
    assert names <= {*tw.__all__, "__version__"}


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "examples").rglob("*.py")),
    ids=lambda path: path.name,
)
def test_examples_use_the_public_interface_alone(path):
    assert deeper_imports(path.read_text(encoding="utf-8")) == set()


FUNCTIONS = [name for name in tw.__all__ if inspect.isfunction(getattr(tw, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_argument_is_told_with_the_function_and_the_nearest(name):
    function = getattr(tw, name)
    rng = generator(f"misspelt {name}")
    known = list(inspect.signature(function).parameters.values())
    free = any(each.kind is each.VAR_KEYWORD for each in known)
    options = [
        each.name for each in known if len(each.name) > 4 and each.kind is not each.VAR_KEYWORD
    ]
    if options and not free:
        option = str(rng.choice(options))
        at = int(rng.integers(1, len(option)))
        wrong = option[:at] + option[at - 1] + option[at:]  # a letter is typed twice
        with pytest.raises(tw.TilewrightError) as caught:
            function(**{wrong: 1})
        assert f"{name}() has no option {wrong!r}; did you mean {option!r}?" in str(caught.value)
        assert isinstance(caught.value, TypeError)
        with pytest.raises(tw.TilewrightError, match="has no option 'zzzzzz'; it has: "):
            function(zzzzzz=1)
    needed = [e for e in known if e.default is e.empty and e.kind is not e.VAR_KEYWORD]
    if needed:
        with pytest.raises(
            tw.TilewrightError, match=re.escape(f"{name}() cannot be called so: missing")
        ):
            function()


def test_a_type_error_inside_a_function_stays_what_it_is():
    def inside(first):
        return first + 1

    with pytest.raises(TypeError, match="can only concatenate") as caught:
        named(inside)("x")
    assert not isinstance(caught.value, tw.TilewrightError)


def test_convolutions_and_pools_have_the_defaults_of_pytorch():
    rng = generator("defaults")
    size, kernel, channels = (int(rng.integers(low, low + 9)) for low in (12, 1, 1))
    layer = tw.conv2d("a", size, channels, 8, kernel)
    assert layer == tw.conv2d("a", size, channels, 8, kernel, 0, 1)
    assert layer.output_shape == (1, 8, size - kernel + 1, size - kernel + 1)
    assert tw.depthwise("a", size, 4, kernel) == tw.depthwise("a", size, 4, kernel, 0, 1)
    assert tw.maxpool("a", size, 4, kernel) == tw.maxpool("a", size, 4, kernel, 0, kernel)


def test_results_are_short_and_have_a_summary_and_a_table():
    layer = tw.dense("fc", 4, 64, 16)
    lowered = tw.lower("tiny-4x4", layer)
    with closing(tw.open_device("tiny-4x4", "ideal", fidelity="twin")) as device:
        done = device.run(lowered.program, lowered.program.image())
    layers = tw.simulate(layer, hw="tiny-4x4", fidelity="twin")
    results = [lowered, lowered.program, done, done.counters, layers, tw.load_board("pynq-z2"),
               tw.load_network("bert_base")]  # fmt: skip
    for result in results:
        assert len(repr(result)) <= 120
        assert "\n" not in repr(result)
        assert result._repr_html_().startswith("<table>")
        assert len(result.summary().splitlines()) > 2
    assert f"{layers.cycles:,} cycles" in repr(layers)
