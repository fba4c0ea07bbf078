# SPDX-License-Identifier: Apache-2.0
"""An exported landscape holds every point, says under which conditions, and serves Optuna."""

import contextlib
import gzip
import itertools
import json
import subprocess
import sys

import numpy as np
import optuna
import pytest
from support.command_line import call, refusal
from support.randomness import fresh_rng

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.tuner.exhaustive.exhaust import exhaust
from tilewright.tuner.exhaustive.table import header_of, read_table, write_table
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")
LAYER = conv2d("small", 6, 8, 8, 3, 1, 1)


@pytest.fixture(scope="module")
def landscape(tmp_path_factory):
    space = ScheduleSpace(LAYER, HW, host_rules(), "vta")
    return exhaust(space, MEMORY, tmp_path_factory.mktemp("landscapes"), identity="x")


@pytest.fixture
def path(landscape, tmp_path):
    header = header_of(landscape, identities={"rtl": "rtl-1", "twin": "twin-1"}, bound=5)
    return write_table(landscape, tmp_path / "t.csv.gz", header)


def test_every_point_is_read_back_with_its_cycles_or_as_illegal(landscape, path) -> None:
    table = read_table(path)
    sizes = [range(len(knob)) for knob in landscape.space.knobs]
    found = [table.lookup(positions) for positions in itertools.product(*sizes)]
    assert found == [c if c > 0 else None for c in landscape.cycles.tolist()]
    assert table.optimum == landscape.best[1] == table.about["optimum_cycles"]


def test_the_header_tells_conditions_and_identity_and_equal_tables_are_equal_files(
    landscape, path, tmp_path
) -> None:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        mark, header = text.readline().split(" ", 1)
        columns = text.readline().strip().split(",")
    about = json.loads(header)
    assert mark == "#"
    assert about["identity"] == {"rtl": "rtl-1", "twin": "twin-1"}
    assert about["hw"]["name"] == "tiny-4x4"
    assert about["memory"]["name"] == "ideal"
    assert about["workload"] == LAYER.to_mapping()
    assert about["bound_cycles"] == 5
    assert (
        columns == [*(knob["name"] for knob in about["knobs"]), "cycles"] == list(about["columns"])
    )
    again = write_table(landscape, tmp_path / "again.csv.gz", about)
    assert again.read_bytes() == path.read_bytes()


def test_optuna_searches_the_table_and_illegal_points_prune_their_trials(path) -> None:
    table = read_table(path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(table.objective(), n_trials=60)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE", "PRUNED"}
    assert study.best_value >= table.optimum
    assert set(study.best_trial.user_attrs) == {knob.name for knob in table.knobs}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda text: text[2:], "is no table"),
        (lambda text: text.replace('"version": 1', '"version": 9'), "version 1"),
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "rows, as its header says"),
        (lambda text: text.replace(",cycles\n", ",time\n"), "a column for each knob"),
        (lambda text: text.rsplit(",", 1)[0] + ",many\n", "value that its header"),
        (lambda text: text.rsplit(",", 1)[0] + ",0\n", "at least 1 cycle"),
        (lambda text: text.replace('"knobs": [', '"knobs": ["x", ', 1), "must have knobs"),
        (lambda text: text.replace('"values"', '"worth"'), "must have knobs"),
        (
            lambda text: "".join([*text.splitlines(keepends=True)[:-1], text.splitlines()[-2]]),
            "each point once",
        ),
    ],
)
def test_a_damaged_table_is_refused(path, change, wrong) -> None:
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(change(text).encode()))
    with pytest.raises(StoreError, match=wrong):
        read_table(path)


def test_a_file_that_is_cut_off_is_refused(path, tmp_path) -> None:
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match="cannot be read"):
        read_table(path)
    with pytest.raises(StoreError, match="cannot be read"):
        read_table(tmp_path / "none.csv.gz")


def test_a_file_with_other_bytes_inside_is_refused(path) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes(byte ^ 255 for byte in data[middle:-20]) + data[-20:])
    with pytest.raises(StoreError, match="cannot be read"):
        read_table(path)


def test_the_command_writes_a_table_of_a_layer(tmp_path) -> None:
    words = ["export-table", "C10", "--hw", "pynq-16x16", "--folder", str(tmp_path)]
    output = tmp_path / "c10.csv.gz"
    done = call(*words, "--output", str(output))
    assert done.exit_code == 0, done.output
    assert "memory pynq-z2" in done.stdout
    assert "replaced" not in done.output
    table = read_table(output)
    assert f"optimum {table.optimum:,} cycles" in done.output
    assert np.all(table.cycles >= table.about["bound_cycles"])
    assert table.about["identity"]["rtl"].startswith("rtl-")
    again = call(*words, "--output", str(output))
    assert again.exit_code == 0
    assert f"{output}: replaced the file that was there" in again.stderr
    refusal(*words, "--output", str(tmp_path / "c10.parquet"))


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ({"knobs": [{"name": "a", "values": [1], "ordered": True}], "legal": 10**400}, ""),
        ({"knobs": [{"name": "a", "values": [1], "ordered": True}], "legal": float("inf")}, ""),
        ({"knobs": [{"name": [], "values": [1], "ordered": True}]}, ""),
        ({"knobs": [{"name": "a", "values": [[1]], "ordered": True}]}, ""),
        ({"knobs": {"a": 1}}, ""),
        ({}, "a,cycles\n1," + "9" * 400),
        ({}, "a,cycles\n1"),
        ({}, "a,cycles\n1,nan"),
        ({}, "a,cycles\n1,\0"),
        ({}, "a,cycles\n" + "1" * 200_000 + ",1"),
        ({}, "a,cycles\n1,1\n1,1"),
        (DEEP, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_a_table_of_anybody_is_read_or_refused_in_one_line(header, rows, tmp_path) -> None:
    about = {
        "format": "tilewright-table", "version": 1, "points": 1, "legal": 1, "identity": {},
        "hw": {}, "memory": {}, "knobs": [{"name": "a", "values": [1], "ordered": True}],
    }  # fmt: skip
    first = header if isinstance(header, str) else json.dumps(
        {**about, **header} if isinstance(header, dict) else header
    )  # fmt: skip
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(f"# {first}\n{rows}\n".encode()))
    with pytest.raises(StoreError):
        read_table(path)


def test_random_damage_of_a_table_is_refused_or_leaves_a_table(path, tmp_path) -> None:
    rng = fresh_rng()
    text = gzip.decompress(path.read_bytes())
    signs = [b"9" * 30, b"", b",", b"\n", b'"', b"\0", b"-", b"1e9", b"[", b"}", b"\xff", b"null"]
    for number in range(300):
        broken = bytearray(text if number % 2 else path.read_bytes())
        for _ in range(int(rng.integers(1, 6))):
            place = int(rng.integers(min(len(broken), 2500)))
            broken[place : place + int(rng.integers(8))] = signs[int(rng.integers(len(signs)))]
        other = tmp_path / "o.csv.gz"
        other.write_bytes(gzip.compress(bytes(broken)) if number % 2 else bytes(broken))
        with contextlib.suppress(StoreError):
            read_table(other)


SMALL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import tilewright as tw
try:
    tw.read_table(sys.argv[1])
except tw.TilewrightError as error:
    print(error)
"""


@pytest.mark.parametrize("content", [b"1,1\n", b"1,", b"\n", b"\0"])
def test_a_table_that_swells_is_refused_before_it_takes_memory(content, tmp_path) -> None:
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"# {}\na,cycles\n")
        for _ in range(60):
            file.write(content * (1_000_000 // len(content)))
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(path)], capture_output=True, text=True, check=False
    )
    assert "must not swell" in done.stdout, done.stderr[-500:]
