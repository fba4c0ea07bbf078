# SPDX-License-Identifier: Apache-2.0
"""Longest paths against every path that there is, walked one by one."""

import math

import pytest
from tests.support.randomness import fresh_rng, sample

from tilewright.host.common.errors import BuildError
from tilewright.sim.timing.delays import load_library
from tilewright.sim.timing.netlist import read_netlist
from tilewright.sim.timing.paths import Timing

# Of xc7, from the SDF files by hand: LUT, clock to output, set-up of D and of CE.
LUT, LAUNCH, SETUP, ENABLE = 0.124, 0.340 + 0.116, -0.045 + 0.109 - 0.093, 0.109 + 0.189 - 0.093


def cell(kind, ports, **pins):
    """A cell of Yosys's JSON: ``ports`` are its outputs."""
    return {
        "type": kind,
        "parameters": {},
        "attributes": {},
        "port_directions": {name: "output" if name in ports else "input" for name in pins},
        "connections": {
            name: bits if isinstance(bits, list) else [bits] for name, bits in pins.items()
        },
    }


def netlist(cells, names=None):
    nets = {name: {"bits": [bit]} for name, bit in (names or {}).items()}
    module = {"cells": cells, "ports": {}, "netnames": nets}
    return read_netlist({"modules": {"top": module}}, "top")


def timing(cells, names=None):
    return Timing(netlist(cells, names), load_library("xc7"))


def wire(sinks, factor):
    return factor * (0.45 + 0.15 * math.log2(sinks))


def random_cells(rng):
    """Registers, LUTs in an order that has no loop, and who reads what."""
    registers, luts = int(rng.integers(2, 6)), int(rng.integers(1, 14))
    bits = [10 + n for n in range(registers)]
    reads = {}
    for n in range(luts):
        inputs = rng.choice(bits, size=int(rng.integers(1, min(6, len(bits)) + 1)), replace=False)
        reads[100 + n] = [int(bit) for bit in inputs]
        bits.append(100 + n)
    ends = {10 + n: int(rng.choice(bits)) for n in range(registers)}
    enables = {10 + n: int(rng.choice(bits)) for n in range(registers) if rng.random() < 0.5}
    return reads, ends, enables


def every_path(reads, ends, enables, factor):
    """Delay of the longest path to each register's D and CE, by walking all of them."""
    sinks = {}
    for inputs in reads.values():
        for bit in inputs:
            sinks[bit] = sinks.get(bit, 0) + 1
    for bit in (*ends.values(), *enables.values()):
        sinks[bit] = sinks.get(bit, 0) + 1

    def arrivals(bit):
        if bit < 100:
            return [LAUNCH]
        return [
            ns + wire(sinks[source], factor) + LUT
            for source in reads[bit]
            for ns in arrivals(source)
        ]

    found = {}
    for register, bit in ends.items():
        in_slice = bit >= 100 and sinks[bit] == 1
        found[register, "D"] = (
            max(arrivals(bit)) + SETUP + (0 if in_slice else wire(sinks[bit], factor))
        )
    for register, bit in enables.items():
        found[register, "CE"] = max(arrivals(bit)) + ENABLE + wire(sinks[bit], factor)
    return found


@pytest.mark.parametrize("_case", sample(20, 300))
def test_arrivals_are_those_of_the_longest_of_all_paths(_case):
    rng = fresh_rng()
    reads, ends, enables = random_cells(rng)
    cells = {
        f"lut{bit}": cell(
            f"LUT{len(bits)}", {"O"}, O=bit, **{f"I{i}": b for i, b in enumerate(bits)}
        )
        for bit, bits in reads.items()
    }
    for register, bit in ends.items():
        more = {"CE": enables[register]} if register in enables else {}
        cells[f"ff{register}"] = cell("FDRE", {"Q"}, Q=register, D=bit, C=1, **more)
    factor = float(rng.choice([0, 0.67, 1]))
    built = timing(cells)
    found = {
        (built._netlist.cells[end.cell].name, end.port): end.ns
        for end in built.analyse(factor).ends
    }
    expected = every_path(reads, ends, enables, factor)
    assert found == {
        (f"ff{register}", pin): pytest.approx(ns) for (register, pin), ns in expected.items()
    }


def test_a_path_names_its_ends_and_what_is_between():
    cells = {
        "a": cell("FDRE", {"Q"}, Q=10, D=12, C=1),
        "lut": cell("LUT2", {"O"}, I0=10, I1="0", O=11),
        "b": cell("FDRE", {"Q"}, Q=12, D=11, C=1),
    }
    found = timing(cells, {"u_core.u_load.left_q": 10, "u_core.u_regs.irq_q": 12}).analyse(1.0)
    path = found.families()["load", "regs"]
    assert (path.source, path.target, path.pin) == ("load.left_q", "regs.irq_q", "FDRE.D")
    assert (path.luts, path.carries, path.wires) == (1, 0, 1)
    assert path.cell_ns == pytest.approx(LAUNCH + LUT + SETUP, abs=1e-3)
    assert path.wire_ns == pytest.approx(0.45)


def test_a_carry_chain_stays_in_its_column():
    wide = [20, 21, 22, 23]
    cells = {
        "a": cell("FDRE", {"Q"}, Q=10, D=24, C=1),
        "lut": cell("LUT1", {"O"}, I0=10, O=11),
        "low": cell("CARRY4", {"CO"}, S=[11, "0", "0", "0"], CO=wide),
        "high": cell("CARRY4", {"O"}, CI=23, O=["x", 24, "x", "x"]),
    }
    path = timing(cells).analyse(1.0).ends[0]
    # From S[0] to CO[3] of the first, from CI to O[1] of the second; no wire but that of the LUT.
    assert path.ns == pytest.approx(LAUNCH + 0.45 + LUT + 0.508 + 0.334 + SETUP)


def test_a_loop_without_a_register_is_refused():
    cells = {
        "a": cell("LUT1", {"O"}, I0=11, O=10),
        "b": cell("LUT1", {"O"}, I0=10, O=11),
    }
    with pytest.raises(BuildError, match="loop without a register"):
        timing(cells, {"u_core.ready": 10})
