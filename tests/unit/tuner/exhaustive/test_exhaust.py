# SPDX-License-Identifier: Apache-2.0
"""Exhaustive enumeration, complete and safe to stop, and its report."""

import io
import json
import threading

import numpy as np
import pytest
from support.command_line import call
from support.randomness import fresh_rng

from tilewright.cli.common.console import PrintableConsole
from tilewright.host.common.errors import StoreError
from tilewright.host.lowering import legal, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.tuner.exhaustive import exhaust as module
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.exhaustive.landscape_file import ILLEGAL, LandscapeFile
from tilewright.tuner.exhaustive.landscape_report import print_landscapes
from tilewright.tuner.exhaustive.options import ExhaustOptions
from tilewright.tuner.measure import backends
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.space import SpaceError

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")
LAYER = conv2d("small", 6, 8, 8, 3, 1, 1)


def space(kind: str = "vta") -> ScheduleSpace:
    return ScheduleSpace(LAYER, HW, host_rules(), kind)


@pytest.mark.parametrize("kind", ["vta", "full"])
def test_every_point_has_the_cycles_that_it_has_alone(tmp_path, kind):
    points = space(kind)
    found = exhaust(points, MEMORY, tmp_path, identity="x")
    assert found.cycles.shape == (points.raw_size,)
    twin, rng = Twin(HW, MEMORY), np.random.default_rng(1)
    shape = tuple(len(knob) for knob in points.knobs)
    seen = set()
    for flat in rng.choice(points.raw_size, size=60, replace=False):
        schedule = points.decode(tuple(int(i) for i in np.unravel_index(flat, shape)))
        expected = ILLEGAL
        if legal(HW, LAYER, schedule).ok:
            expected = twin.counters(lower(HW, LAYER, schedule).program).cycles
        assert found.cycles[flat] == expected, schedule
        seen.add(expected == ILLEGAL)
    assert False in seen
    assert ((found.cycles > 0) | (found.cycles == ILLEGAL)).all()


def test_the_best_is_the_least_and_the_summary_describes_the_legal_ones(tmp_path):
    found = exhaust(space(), MEMORY, tmp_path, identity="x")
    schedule, cycles = found.best
    assert cycles == found.legal[0] == min(c for c in found.cycles if c > 0)
    assert Twin(HW, MEMORY).counters(lower(HW, LAYER, schedule).program).cycles == cycles
    assert found.ranked(len(found.legal) - 1)[1] == found.legal[-1]
    summary = found.summary()
    assert summary["legal"] == (found.cycles > 0).sum() < summary["points"]
    assert summary["quantiles"]["100"] == found.legal[-1]
    assert summary["share_within"]["2.0"] == (found.legal <= 2 * cycles).mean()
    json.dumps(summary)
    with pytest.raises(SpaceError, match="too few"):
        found.ranked(len(found.legal))


def test_workers_do_not_change_the_result(tmp_path):
    one = exhaust(space(), MEMORY, tmp_path / "1", identity="x", workers=1)
    three = exhaust(space(), MEMORY, tmp_path / "3", identity="x", workers=3)
    assert np.array_equal(one.cycles, three.cycles)


class StopError(Exception):
    pass


def test_a_stopped_enumeration_goes_on_and_a_finished_one_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    calls = []

    def stop(done, points):
        calls.append(done)
        if done >= 48:
            raise StopError

    with pytest.raises(StopError):
        exhaust(space(), MEMORY, tmp_path, identity="x", on_progress=stop)
    assert calls[-1] < space().raw_size
    progress = []
    whole = exhaust(space(), MEMORY, tmp_path, identity="x",
                    on_progress=lambda done, points: progress.append(done))  # fmt: skip
    assert 48 <= progress[0] < progress[-1] == space().raw_size
    assert (whole.cycles != 0).all()
    again = []
    exhaust(space(), MEMORY, tmp_path, identity="x", on_progress=lambda d, p: again.append(d))
    assert again == [space().raw_size], "nothing is measured twice"
    fresh = exhaust(space(), MEMORY, tmp_path / "fresh", identity="x")
    assert np.array_equal(fresh.cycles, whole.cycles)


def test_who_stops_asking_waits_for_no_part_that_looks_whether_it_should_go_on():
    def run(part: int, stopped: threading.Event) -> int:
        assert not part or stopped.wait(600)
        return part

    found = module.in_threads(run, [0, 1, 2, 3], 2)
    assert next(found) == 0
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt)


@pytest.mark.parametrize("name", ["block1/conv", "../conv", "/conv", "c" * 300, "a\nb"])
def test_a_layer_of_any_name_has_its_landscape_in_the_folder(tmp_path, name):
    folder = tmp_path / "here" / "landscapes"
    named = ScheduleSpace(LAYER.renamed(name), HW, host_rules(), "vta")
    LandscapeFile(folder, named, MEMORY, "x")
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) == 2
    assert all(path.parent == folder and path.name.isprintable() for path in paths)


def test_other_rtl_starts_another_landscape_and_damage_is_refused(tmp_path):
    exhaust(space(), MEMORY, tmp_path, identity="x")
    exhaust(space(), MEMORY, tmp_path, identity="y")
    data = sorted(tmp_path.glob("*.cycles"))
    assert len(data) == 2
    for path in data:
        path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError, match="must hold"):
        exhaust(space(), MEMORY, tmp_path, identity="x")


@pytest.mark.parametrize("damage", ["bytes", "values", "zeros", "moved", "another layer's"])
def test_points_that_are_damaged_on_disk_are_measured_anew(tmp_path, capfd, damage):
    rng = fresh_rng()
    whole = exhaust(space(), MEMORY, tmp_path, identity="x").cycles
    (data,) = tmp_path.glob("*.cycles")
    words = np.fromfile(data, dtype=np.int64)
    places = rng.choice(len(words), size=int(rng.integers(1, 9)), replace=False)
    if damage == "bytes":
        words[places] ^= rng.integers(1, 256, len(places)) << 8 * rng.integers(0, 8, len(places))
    elif damage == "values":
        words[places] = rng.integers(1, 2 * whole.max(), len(places))
    elif damage == "zeros":
        words[places] = 0
    elif damage == "moved":
        words = np.roll(words, int(rng.integers(1, len(words))))
    else:
        other = ScheduleSpace(LAYER.renamed("other"), HW, host_rules(), "vta")
        exhaust(other, MEMORY, tmp_path / "other", identity="x")
        words = np.fromfile(*(tmp_path / "other").glob("*.cycles"), dtype=np.int64)
    words.tofile(data)
    assert np.array_equal(exhaust(space(), MEMORY, tmp_path, identity="x").cycles, whole)
    said = capfd.readouterr().err
    assert ("damaged on disk, or of an older version" in said) == (damage != "zeros")
    exhaust(space(), MEMORY, tmp_path, identity="x")
    assert not capfd.readouterr().err


def test_no_point_of_a_landscape_is_below_the_bound_of_its_layer(tmp_path):
    bound = host_rules().bound(HW, LAYER, MEMORY).cycles
    rng = fresh_rng()
    file = LandscapeFile(tmp_path, space(), MEMORY, "x")
    file.keep(np.arange(space().raw_size), rng.integers(1, bound, space().raw_size))
    file.flush()
    found = exhaust(space(), MEMORY, tmp_path, identity="x")
    assert found.legal[0] >= bound


def test_a_space_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 10)
    with pytest.raises(SpaceError, match="at most 10"):
        exhaust(space(), MEMORY, tmp_path, identity="x")
    assert not list(tmp_path.iterdir())


# -- The table of exhausted layers shows names as they are
REPORTED = "[red]layer"


@pytest.fixture
def another_twin(tmp_path, monkeypatch):
    """Makes the twin one of other sources, for what asks for its identity."""
    source = tmp_path / "pipeline.cpp"
    source.write_text("// mended")

    def change() -> None:
        monkeypatch.setattr(backends, "twin_inputs", lambda: [source])
        backends._identity.cache_clear()

    yield change
    backends._identity.cache_clear()


def test_what_another_twin_counted_is_not_taken_for_the_truth(tmp_path, another_twin):
    folder = tmp_path / "landscapes"

    def found() -> int:
        print_landscapes(
            load_hwconfig("tiny-4x4"), [conv2d(REPORTED, 4, 4, 4, 3, 1, 1)], load_memory("ideal"),
            settings=ExhaustOptions(confirm=0, workers=1, folder=folder),
            console=PrintableConsole(file=io.StringIO()),
        )  # fmt: skip
        return len(list(folder.glob("*.cycles")))

    assert (found(), found()) == (1, 1)
    another_twin()
    assert found() == 2


def test_an_exported_table_is_of_the_twin_that_it_names(tmp_path, another_twin):
    words = ["export-table", "small", "--network", str(tmp_path / "net.yaml"), "--hw", "tiny-4x4"]
    words += ["--folder", str(tmp_path / "landscapes"), "--output", str(tmp_path / "t.csv.gz")]
    (tmp_path / "net.yaml").write_text(
        "layers: [{name: small, height: 4, width: 4, channels_in: 4, channels_out: 4}]"
    )
    for number in (1, 2):
        done = call(*words)
        assert done.exit_code == 0, done.output
        assert len(list((tmp_path / "landscapes").glob("*.cycles"))) == number
        another_twin()


def test_names_are_no_markup(tmp_path):
    output = io.StringIO()
    (landscape,) = print_landscapes(
        load_hwconfig("tiny-4x4"),
        [conv2d(REPORTED, 4, 4, 4, 3, 1, 1)],
        load_memory("ideal"),
        settings=ExhaustOptions(confirm=0, workers=1, folder=tmp_path),
        console=PrintableConsole(file=output, width=200),
    )
    text = output.getvalue()
    assert "memory ideal, space vta" in text
    assert f"{REPORTED}: {landscape.best[1]:,} cycles" in text
    row = next(line for line in text.splitlines() if REPORTED in line and "0 equal" in line)
    assert f"{landscape.best[1]:,}" in row
