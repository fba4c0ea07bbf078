# SPDX-License-Identifier: Apache-2.0
"""Plug-ins are found by name, and a broken one is told in one line to who asks for it."""

import sys

import pytest
from support.randomness import generator

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.plugins import Entry, Registry, is_positive, short_name
from tilewright.tuner.allocate.registry import ALLOCATORS
from tilewright.tuner.mapping.methods.registry import MAPPERS
from tilewright.tuner.measure.energy import ENERGY_MODELS
from tilewright.tuner.multicore.methods.registry import GROUP_MAPPERS
from tilewright.tuner.search.registry import TUNERS
from tilewright.tuner.study.goals import OBJECTIVES

GROUP = "tilewright.test_parts"

BASE = """
from abc import ABC, abstractmethod
class Part(ABC):
    @abstractmethod
    def work(self): ...
"""

GOOD = '''
from parts_base import Part
class Mine(Part):
    """Works well.

    And more.
    """
    def work(self): return 1
class Open(Part): pass
class Other: pass
value = 3
'''


class PartError(TilewrightError):
    """Of these tests."""


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A registry, and a function that installs a distribution with entry points."""
    (tmp_path / "parts_base.py").write_text(BASE, encoding="utf-8")
    (tmp_path / "parts_good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "parts_bad.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    (tmp_path / "parts_raise.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import parts_base  # noqa: PLC0415  (made above)

    def install(dist: str, **points: str) -> None:
        folder = tmp_path / f"{dist.replace('-', '_')}-1.5.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {dist}\nVersion: 1.5\n", encoding="utf-8")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}", encoding="utf-8")

    registry: Registry[object] = Registry(
        "part",
        base=parts_base.Part,
        group=GROUP,
        package="collections",
        builtin={"ours": Entry("abc", "Mapping", "built in")},
        error=PartError,
    )
    yield registry, install
    for name in [name for name in sys.modules if name.startswith("parts_")]:
        del sys.modules[name]


def test_an_entry_point_is_listed_after_the_built_in_ones_and_loaded_by_name(parts) -> None:
    registry, install = parts
    install("my-parts", mine="parts_good:Mine")
    assert list(registry) == ["ours", "mine"]
    assert "parts_good" not in sys.modules, "nothing is imported for a list"
    assert registry.find("mine").source == "my-parts 1.5"
    assert registry.load("mine").__name__ == "Mine"
    assert registry.summary("mine") == "Works well."
    assert registry.summary("ours") == "built in"


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("parts_bad:Mine", "No module named 'nothing_of_that_name'"),
        ("parts_gone:Mine", "No module named 'parts_gone'"),
        ("parts_raise:Mine", "ZeroDivisionError"),
        ("parts_good:Gone", "no such class"),
        ("parts_good:Other", "must be a subclass of parts_base.Part"),
        ("parts_good:value", "must be a subclass of parts_base.Part"),
        ("parts_good:Open", "must define what parts_base.Part leaves open: work"),
    ],
)
def test_a_broken_plug_in_is_told_with_distribution_module_and_reason(parts, value, wrong) -> None:
    registry, install = parts
    install("my-parts", mine=value)
    assert registry.load("ours").__name__ == "Mapping", "what does not use it is not broken"
    assert set(registry) == {"ours", "mine"}
    for name, source in (("mine", "my-parts 1.5"), (value, "the command line")):
        with pytest.raises(PartError) as caught:
            registry.check(name)
        text = str(caught.value)
        assert caught.value.field == f"part {name}"
        assert wrong in text
        assert f"(plug-in of {source}, {value})" in text
    with pytest.raises(PartError, match="mend or uninstall my-parts"):
        registry.load("mine")


def test_a_module_that_ends_the_process_is_a_broken_plug_in(parts, tmp_path) -> None:
    registry, _ = parts
    (tmp_path / "parts_exit.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    with pytest.raises(PartError, match="cannot be imported: SystemExit: 0"):
        registry.load("parts_exit:Mine")


@pytest.mark.parametrize("fault", [ValueError("first\nsecond"), SystemExit(0), KeyError("x")])
def test_what_fails_in_a_users_code_is_one_line_with_its_place(parts, tmp_path, fault) -> None:
    registry, _ = parts
    kind = registry.load("parts_good:Mine")
    wrong = f"failed with {type(fault).__name__}: "
    with pytest.raises(PartError, match=wrong) as caught, registry.running(kind):
        raise fault
    assert caught.value.field == "part parts_good:Mine"
    assert "\n" not in str(caught.value)
    (tmp_path / "parts_fault.py").write_text(
        "from parts_base import Part\nclass Faulty(Part):\n    def work(self):\n        1 / 0\n",
        encoding="utf-8",
    )
    faulty = registry.load("parts_fault:Faulty")
    with pytest.raises(PartError, match=r"parts_fault\.py, line 4"), registry.running(faulty):
        faulty().work()


def test_what_fails_in_our_code_and_our_own_errors_pass_as_they_are(parts) -> None:
    registry, _ = parts
    with pytest.raises(ZeroDivisionError), registry.running(Registry):
        raise ZeroDivisionError
    own = registry.load("parts_good:Mine")
    with pytest.raises(TilewrightError, match="mine"), registry.running(own):
        raise TilewrightError("mine")


@pytest.mark.parametrize("value", [None, "1", True, 0, -1.0, float("nan"), 10**400, [1]])
def test_only_a_finite_number_above_0_is_positive(value) -> None:
    assert not is_positive(value)
    assert is_positive(3)
    assert is_positive(0.5)


@pytest.mark.parametrize("name", ["a b:C", ":C", "m:", "m.:C", "../m:C", "a.py:"])
def test_what_is_neither_a_name_nor_a_path_of_a_class_is_refused(parts, name) -> None:
    with pytest.raises(PartError, match=r"must be a name, package\.module:Class or FILE\.py:Class"):
        parts[0].load(name)


SIZED = """
from parts_base import Part
from {beside} import BASE
class {kind}(Part):
    def __init__(self, start=BASE, *, size=1, exact=False, label="a"):
        self.told = (start, size, exact, label)
    def work(self): return self.told
"""


@pytest.mark.parametrize("number", range(4))
def test_classes_of_files_take_options_wherever_the_files_lie(
    parts, tmp_path, monkeypatch, number
) -> None:
    rng = generator(f"plugin files {number}")
    registry, _ = parts
    monkeypatch.setattr(sys, "path", list(sys.path))

    def drawn() -> str:
        return "".join(rng.choice(list("abcdefgxyz"), size=8))

    stem, kind, folders = f"parts_{drawn()}", drawn().title(), [drawn(), drawn()]
    for base, folder in enumerate(folders):
        (tmp_path / folder).mkdir()
        beside = f"parts_{drawn()}"
        source = SIZED.format(kind=kind, beside=beside)
        (tmp_path / folder / f"{stem}.py").write_text(source, encoding="utf-8")
        (tmp_path / folder / f"{beside}.py").write_text(f"BASE = {base}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / folders[0])
    size, between = int(rng.integers(2, 100)), str(rng.choice([",", ":"]))
    options = between.join([f"size={size}", "exact=true", "label=x-y"])
    file = tmp_path / folders[0] / f"{stem}.py"
    for where in (stem, file.name, f"../{folders[0]}/{file.name}", file):
        name = f"{where}:{kind}"
        assert registry.parse(f"{name}:{options}")[0] == name
        registry.check(f"{name}:{options}")
        assert registry.make(f"{name}:{options}").work() == (0, size, True, "x-y")
        assert registry.make(name, 7).work() == (7, 1, False, "a")
        assert short_name(f"{name}:{options}") == short_name(name) == kind
    other = registry.make(f"../{folders[1]}/{stem}.py:{kind}")
    assert other.work()[0] == 1, "a file of the same name elsewhere is another one"
    assert registry.load(f"../{folders[1]}/{stem}.py:{kind}") is type(other)
    made = registry.make(registry.load(f"{stem}:{kind}"), size=size)
    assert made.work() == (0, size, False, "a")


KINDS = {kind.noun: kind for kind in (TUNERS, ALLOCATORS, MAPPERS, GROUP_MAPPERS, OBJECTIVES,
                                      ENERGY_MODELS)}  # fmt: skip


def test_a_class_that_judges_its_options_itself_is_told_in_one_line() -> None:
    with pytest.raises(TilewrightError, match="does not take these options") as caught:
        GROUP_MAPPERS.make("magma:no_such=1")
    assert "no_such" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("noun", KINDS)
def test_every_kind_of_part_may_lie_in_a_file(noun, tmp_path, monkeypatch) -> None:
    rng, registry = generator(f"files of {noun}"), KINDS[noun]
    names = [name for name, entry in registry._builtin.items() if not entry.packages]
    names = [name for name in names if name != "magma"]  # it takes any, and judges them itself
    base = registry.find(str(rng.choice(names)))
    stem = "my-" + ".".join("".join(rng.choice(list("abcxyz"), size=6)) for _ in range(2))
    (tmp_path / f"{stem}.py").write_text(
        f"from {base.module} import {base.kind}\nclass Mine({base.kind}): pass\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in (f"{stem}.py:Mine", f"{tmp_path}/{stem}.py:Mine"):
        registry.check(name)
        assert name in registry
        assert registry.load(name).__mro__[1].__name__ == base.kind
    with pytest.raises(TilewrightError, match="must be an option of its class"):
        registry.check(f"{stem}.py:Mine:no_such_option=1")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ("siz=1", "did you mean size"),
        ("size=true", "of the kind of its default"),
        ("exact=1", "of the kind of its default"),
        ("size=many", "its default is 1"),
        ("size", "must be option=value"),
        ("start=2", "which sets it"),
    ],
)
def test_options_that_a_class_does_not_have_are_refused(parts, tmp_path, options, wrong) -> None:
    registry, _ = parts
    (tmp_path / "parts_one.py").write_text("BASE = 0\n", encoding="utf-8")
    source = SIZED.format(kind="Sized", beside="parts_one")
    (tmp_path / "parts_sized.py").write_text(source, encoding="utf-8")
    with pytest.raises(PartError, match=wrong):
        registry.make(f"parts_sized:Sized:{options}", start=1)
    with pytest.raises(PartError, match="did you mean ours"):
        registry.check("our:size=1")


def test_an_entry_point_takes_options_and_one_named_as_a_module_hides_no_class(parts) -> None:
    registry, install = parts
    install("my-parts", parts_good="parts_good:Mine")
    assert registry.parse("parts_good:a=1", ()) == ("parts_good", {"a": 1})
    assert registry.parse("parts_good:Mine", ()) == ("parts_good:Mine", {})
    assert registry.parse("parts_good:bare", ("bare",)) == ("parts_good", {"bare": True})


def test_an_unknown_name_suggests_the_nearest(parts) -> None:
    registry, install = parts
    install("my-parts", mine="parts_good:Mine")
    with pytest.raises(PartError, match="did you mean mine"):
        registry.find("mime")
    assert "mime" not in registry


def test_a_built_in_name_stays_ours_and_the_plug_in_is_reported(parts) -> None:
    registry, install = parts
    install("my-parts", ours="parts_good:Mine")
    assert list(registry) == ["ours"]
    assert registry.load("ours").__name__ == "Mapping"
    assert registry.hidden() == [
        "part ours of my-parts 1.5 is not used: Tilewright has one of that name"
    ]
