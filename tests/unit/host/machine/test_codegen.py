# SPDX-License-Identifier: Apache-2.0
"""What is generated or listed says what the tables say."""

import re
import subprocess
import sys

import pytest

from tilewright.cli.agent import ServedDevice
from tilewright.cli.run import NetworkDevice
from tilewright.host.common.places import RTL_DIR
from tilewright.host.machine import codegen, isa
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.fusesoc_core import NAME
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Unit
from tilewright.host.machine.registers import (
    COUNTER_BASE,
    COUNTERS,
    DEVICE_ID,
    ERROR_TEXT,
    REGISTERS,
    UNIT_NAMES,
    ErrorCode,
    ErrorUnit,
    WaitState,
)
from tilewright.interface.options import LayerDevice
from tilewright.sim.tools.toolchain import find_verilator
from tilewright.sim.tools.yosys import rtl_parameters
from tilewright.sim.verilator.build import TOP
from tilewright.sim.verilator.elaboration import GENERAL, SIMULATED
from tilewright.tuner.measure.backends import BACKENDS
from tilewright.tuner.measure.measurement import CYCLES_ONLY
from tilewright.tuner.study.options import FidelityName
from tilewright.tuner.study.settings import SCREENS


def test_package_fields_stand_most_significant_first_with_their_widths():
    text = codegen.systemverilog_package()
    structs = dict(re.findall(r"typedef struct packed \{\n(.*?)\n  \} (\w+);", text, re.DOTALL))
    structs = {name: body for body, name in structs.items()}
    for name, layout, total in (
        ("load_t", isa.LOAD_FIELDS, 256), ("store_t", isa.STORE_FIELDS, 256),
        ("gemm_t", isa.GEMM_FIELDS, 256), ("vector_t", isa.VECTOR_FIELDS, 256),
        ("uop_t", isa.UOP_FIELDS, 64), ("param_t", isa.PARAM_FIELDS, 128),
    ):  # fmt: skip
        found = re.findall(r"logic( signed)? (?:\[(\d+):0\] )?(\w+);", structs[name])
        widths = [(n, int(high or 0) + 1, bool(sign)) for sign, high, n in found]
        assert sum(width for _, width, _ in widths) == total, name
        wanted = [(f.name, f.bits, f.signed) for f in reversed(layout)]
        assert [w for w in widths if w[0] != "spare"] == wanted
        assert all(w[0] != "spare" for w in widths[1:]), "spare bits are the highest"


# -- The FuseSoC core: its lists are those of the RTL, and FuseSoC lints it
TINY = load_hwconfig("tiny-4x4")


def test_fusesoc_elaborates_it(tmp_path):
    pytest.importorskip("fusesoc", reason="FuseSoC is not installed: pip install fusesoc==2.4.7")
    verilator = find_verilator()
    environment = verilator.full_environment()
    environment["PATH"] = f"{verilator.path.parent}:{environment['PATH']}"
    (tmp_path / "fusesoc.conf").write_text("[main]\n")
    values = {name: int(value.rpartition("h")[2], 16) if "'h" in value else int(value)
              for name, value in rtl_parameters(TINY).items()}  # fmt: skip
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fusesoc.main", "--config", "fusesoc.conf"),
            *("--cores-root", str(RTL_DIR), "run", "--target", "lint", "--work-root", "work"),
            *(NAME, *(f"--{name}={value}" for name, value in values.items())),
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = "".join(path.read_text() for path in (tmp_path / "work").rglob("*.vc"))
    assert f"--top-module {TOP}" in told
    assert f"-GConfigHash={values['ConfigHash']}" in told
    assert told.index("tw_pkg.sv") < told.index("tilewright_top.sv")


# -- There is one list of fidelities: what is registered, offered or stored is a part of it
NO_FIDELITIES = {"reference", "cxxrtl", "simulated-board"}
"""Devices that are no oracle's: they check others, or have no time."""


def test_fidelities_stand_from_slowest_to_fastest() -> None:
    assert list(Fidelity) == ["board", "rtl", "dpi", "timing", "twin", "model"]
    assert set(GENERAL) < set(SIMULATED) < set(Fidelity)


def test_what_counts_without_data_is_exact() -> None:
    assert {"timing", "twin"} == CYCLES_ONLY


def test_tune_offers_what_can_measure() -> None:
    assert list(FidelityName) == list(BACKENDS)
    assert all(backend.fidelity is name for name, backend in BACKENDS.items())
    assert set(SCREENS) <= {*Fidelity, "none"}


@pytest.mark.parametrize("choices", [LayerDevice, NetworkDevice, ServedDevice])
def test_devices_of_the_command_line_carry_the_names_of_fidelities(choices) -> None:
    assert {choice.value for choice in choices} <= {*Fidelity} | NO_FIDELITIES


def words():
    """Byte offsets of all 32-bit words: control registers, then two a counter."""
    yield from ((r.name, r.offset) for r in REGISTERS)
    for index, (name, _) in enumerate(COUNTERS):
        yield f"{name}_lo", COUNTER_BASE + 8 * index
        yield f"{name}_hi", COUNTER_BASE + 8 * index + 4


def test_no_two_words_share_an_address_or_a_name():
    offsets = [offset for _, offset in words()]
    names = [name for name, _ in words()]
    assert len(set(offsets)) == len(offsets)
    assert len(set(names)) == len(names)


def test_words_are_aligned_and_inside_one_page():
    assert all(offset % 4 == 0 and 0 <= offset < 4096 for _, offset in words())
    assert max(r.offset for r in REGISTERS) < COUNTER_BASE
    assert COUNTER_BASE % 8 == 0


def test_access_is_one_of_three_kinds_and_every_register_says_what_it_means():
    assert {r.access for r in REGISTERS} == {"ro", "rw", "w1c"}
    assert all(r.meaning for r in REGISTERS)


def test_64_bit_registers_are_pairs_low_word_first():
    offsets = {r.name: r.offset for r in REGISTERS}
    pairs = [name[:-3] for name in offsets if name.endswith("_LO")]
    assert {name[:-3] for name in offsets if name.endswith("_HI")} == set(pairs)
    assert pairs
    assert all(offsets[f"{p}_HI"] == offsets[f"{p}_LO"] + 4 for p in pairs)


def test_device_id_spells_its_name():
    assert DEVICE_ID.to_bytes(4, "big") == b"TWR1"


def test_every_error_has_a_text_and_fits_its_field():
    assert set(ERROR_TEXT) == set(ErrorCode)
    assert len(set(ERROR_TEXT.values())) == len(ErrorCode)
    assert max(ErrorCode) < 256
    assert max(ErrorUnit) < 16
    assert max(WaitState) < 16


def test_unit_numbers_agree_with_the_instruction_set():
    for unit in Unit:
        assert UNIT_NAMES[unit] == unit.name.lower()
        assert ErrorUnit[unit.name] == unit
        assert WaitState[f"TOKEN_{unit.name}"] - WaitState.TOKEN_LOAD == unit


def test_each_unit_counts_every_state_but_a_token_from_itself():
    names = [name for name, _ in COUNTERS]
    for unit in UNIT_NAMES:
        others = [u for u in UNIT_NAMES if u != unit]
        states = {"busy", "memory", "idle", *(f"token_{u}" for u in others)}
        found = {n.removeprefix(f"{unit}_") for n in names if n.startswith(f"{unit}_")}
        assert found - {"tiles"} == states | {"instructions"}
    assert names[0] == "cycles"
