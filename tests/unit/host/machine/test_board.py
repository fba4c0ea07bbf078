# SPDX-License-Identifier: Apache-2.0
import contextlib
import copy
import itertools
from dataclasses import replace

import pytest
import yaml
from support.randomness import SLOW_SHARE, fresh_rng

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import (
    BOARD_DIR,
    MemoryModel,
    load_board,
    load_memory,
    load_vivado_target,
    named_boards,
    pessimistic_memory,
)
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import load_system

GOOD = yaml.safe_load((BOARD_DIR / "pynq-z2.yaml").read_text())


def write(tmp_path, data):
    path = tmp_path / "board.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def memory(**changes):
    values = {
        "name": "m",
        "read_latency": 10,
        "write_latency": 10,
        "read_bytes_per_cycle": 8,
        "write_bytes_per_cycle": 8,
    }
    return MemoryModel(**(values | changes))


DRAM = {
    "arty-z7-20": 2100,
    "kr260": 19200,
    "kv260": 19200,
    "pynq-z1": 2100,
    "pynq-z2": 2100,
    "ultra96-v2": 4264,
    "zcu104": 19200,
    "zedboard": 4267,
    "zybo-z7-20": 4267,
}
"""MB/s of the DRAM of each board."""


def test_the_boards_are_there():
    assert named_boards() == tuple(DRAM)


@pytest.mark.parametrize("name", named_boards())
def test_every_figure_of_a_board_has_a_source(name):
    raw = yaml.safe_load((BOARD_DIR / f"{name}.yaml").read_text())
    named = {part.strip() for key in raw["sources"] for part in key.split(",")}
    figures = {k for k in raw if k not in ("memory", "cpu", "sources", "vivado")}
    figures |= {f"cpu.{k}" for k in raw["cpu"] if k != "name"}
    figures |= {f"vivado.{k}" for k in raw["vivado"]}
    figures |= {f"memory.{k}" for k in raw["memory"] if k != "source"}
    assert figures == named
    assert all(raw["sources"].values())


@pytest.mark.parametrize(("name", "megabytes_per_second"), DRAM.items())
def test_shared_bandwidth_is_three_quarters_of_the_dram_peak(name, megabytes_per_second):
    board = load_board(name)
    bytes_per_second = board.memory.shared_bytes_per_cycle * board.clock_mhz
    assert bytes_per_second == pytest.approx(0.75 * megabytes_per_second, rel=0.005)


@pytest.mark.parametrize("name", named_boards())
def test_channels_run_at_the_rate_of_the_port(name):
    board = load_board(name)
    assert board.memory.read_bytes_per_cycle == board.axi_data_bits / 8
    assert board.memory.write_bytes_per_cycle == board.axi_data_bits / 8
    assert board.axi_burst_beats == 16


@pytest.mark.parametrize("names", [("pynq-z1", "pynq-z2", "arty-z7-20"), ("kv260", "kr260")])
def test_boards_with_the_same_parts_differ_only_in_names_and_sources(names):
    first, *others = (load_board(name).to_mapping() for name in names)
    for data in (first, *others):
        del data["name"], data["sources"], data["memory"]["name"]
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", named_boards())
def test_a_zynq_7000_has_its_clocks_without_board_files(name):
    """Beside the crystal: multipliers of its PLLs are whole numbers, whatever Vivado assumes."""
    properties = load_vivado_target(name).processor_properties
    if load_board(name).axi_data_bits == 64:
        crystal, cpu, dram = (
            float(properties[key])
            for key in (
                "PCW_CRYSTAL_PERIPHERAL_FREQMHZ",
                "PCW_APU_PERIPHERAL_FREQMHZ",
                "PCW_UIPARAM_DDR_FREQ_MHZ",
            )
        )
        for clock in (cpu, dram):
            assert 2 * clock / crystal == pytest.approx(round(2 * clock / crystal), abs=1e-3)
        width = int(properties["PCW_UIPARAM_DDR_BUS_WIDTH"].split()[0])
        assert DRAM[name] == pytest.approx(2 * dram * width / 8, rel=0.001)


def test_a_yaml_path_is_loaded_and_named_after_the_file(tmp_path):
    board = load_board(write(tmp_path, GOOD))
    assert (board.name, board.memory.name, board.dsp) == ("board", "board", 220)


COUNTS = ("lut", "ff", "bram36", "dsp", "axi_data_bits", "axi_burst_beats")
CPU = GOOD["cpu"]
REFUSED = [
    *(({k: v for k, v in GOOD.items() if k != key}, key) for key in GOOD
      if key not in ("sources", "vivado")),
    (GOOD | {"luts": 1}, "luts.*bram36"),
    *((GOOD | {key: value}, f"board.yaml: {key}: .*positive integer")
      for key in COUNTS for value in (0, -1, 1.5, "many", True, None)),
    *((GOOD | {"clock_mhz": value}, "1 to 2000 MHz")
      for value in (0, 2001, "fast", True, float("nan"))),
    *((GOOD | {"memory": value}, "mapping of memory timing") for value in (None, 3, "fast", [1])),
    (GOOD | {"memory": GOOD["memory"] | {"latency": 3}}, r"board\.yaml: memory: latency"),
    *((text, "mapping of keys") for text in ("- a\n- b\n", "", "just text")),
    ("part: [", "valid YAML"),
    (GOOD | {"cpu": None}, "cpu: must be a mapping that describes the CPU"),
    (GOOD | {"cpu": CPU | {"macs_per_second": 0}}, "macs_per_second: must be a positive number, n"),
    (GOOD | {"cpu": CPU | {"call_seconds": -1}}, "cpu.call_seconds: must not be negative, not -1"),
    (GOOD | {"cpu": CPU | {"cores": 2}}, "cpu: cores: unknown key"),
    *((GOOD | {"sources": sources}, "sources") for sources in
      (5, ["a"], "text", True, {"speed": "x"}, {5: "x"}, {"lut": 5}, {"lut": ["x"]})),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), REFUSED)
def test_what_is_wrong_in_a_file_is_named(tmp_path, data, message):
    with pytest.raises(ConfigError, match=message):
        load_board(write(tmp_path, data))
    with pytest.raises(ConfigError, match="readable file"):
        load_board(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("field", "low"),
    [
        ("read_bytes_per_cycle", 0.0625),
        ("write_bytes_per_cycle", 0.0625),
        ("shared_bytes_per_cycle", 0.0),
    ],
)
def test_memory_bandwidths_have_a_minimum(field, low):
    assert getattr(memory(**{field: low}), field) == low
    for value in (low - 0.01, 5000.0, float("nan"), float("inf"), "8", True):
        with pytest.raises(ConfigError, match=f"from {low} to 4096"):
            memory(**{field: value})


def test_a_board_file_cannot_say_that_a_bitstream_reached_its_clock(tmp_path):
    changed = {**GOOD, "sources": {"clock_mhz": "reached by my.yaml"}}
    assert "planned" in load_board(write(tmp_path, changed)).clock_text()


VALUES = (5, -1, [], None, {}, "x", "", True, float("nan"), float("inf"), [None], {"a": {}})
PLACES = {
    "board": (load_board, "boards/pynq-z2"),
    "memory": (load_memory, "boards/pynq-z2"),
    "configuration": (load_hwconfig, "configs/tiny-4x4"),
    "system": (load_system, "systems/big-little"),
    "vivado": (load_vivado_target, "boards/pynq-z2"),
}


def spots(value, path=()):
    """Every place in a document."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from spots(inner, (*path, key))


@pytest.mark.parametrize("kind", PLACES)
def test_a_field_of_any_value_is_taken_or_refused_in_a_line(tmp_path, kind):
    load, name = PLACES[kind]
    whole = yaml.safe_load((BOARD_DIR.parent / f"{name}.yaml").read_text())
    cases = list(itertools.product(spots(whole), VALUES))
    for number in fresh_rng().permutation(len(cases))[: len(cases) if SLOW_SHARE == 1 else 80]:
        spot, value = cases[number]
        data = copy.deepcopy(whole)
        holder = data
        for key in spot[:-1]:
            holder = holder[key]
        holder[spot[-1]] = value
        path = write(tmp_path, data)
        with contextlib.suppress(ConfigError):
            found = load(path)
            if kind == "board":
                found.at_clock(50, "a test")
                assert found.clock_text()
                assert found.cpu.rates()


@pytest.mark.parametrize("name", [n for n in named_boards() if load_board(n).axi_data_bits == 64])
def test_the_pessimistic_memory_is_nowhere_better_than_the_boards(name):
    board = load_board(name)
    worst = pessimistic_memory(board)
    assert worst is not None
    assert worst.name == f"{name}-pessimistic"
    assert worst.read_latency > board.memory.read_latency
    assert worst.write_latency > board.memory.write_latency
    assert worst.shared_bytes_per_cycle < board.memory.shared_bytes_per_cycle


def test_nobody_wrote_down_the_worst_of_other_boards_clocks_and_memories(tmp_path):
    board = load_board("pynq-z2")
    assert pessimistic_memory(load_board("zcu104")) is None
    assert pessimistic_memory(board.at_clock(50, "mine")) is None
    assert pessimistic_memory(replace(board, memory=load_memory("ideal"))) is None
    assert pessimistic_memory(load_board(write(tmp_path, GOOD))) is None
