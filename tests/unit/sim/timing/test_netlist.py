# SPDX-License-Identifier: Apache-2.0
import pytest

from tilewright.sim.timing.netlist import PORT, read_netlist, readable, unit


@pytest.mark.parametrize(
    ("name", "short", "where"),
    [
        ("u_core.u_load.u_stepper.left_q[3]", "load.stepper.left_q[3]", "load.stepper"),
        ("u_core.running", "core.running", "core"),
        ("u_top.u_core.u_vector.last_q", "vector.last_q", "vector"),
        ("u_core.gen_queue[2].u_queue.count_q", "queue.count_q", "queue"),
        ("u_core.u_acc.mem.0.1", "acc.mem.0.1", "acc.mem.0"),
        ("status[4]", "status[4]", "top"),
        ("u_regs.irq_q_FDRE_Q_3", "regs.irq_q", "regs"),
    ],
)
def test_names_are_those_of_the_rtl_without_its_prefixes(name, short, where):
    assert (readable(name), unit(readable(name))) == (short, where)


def test_a_bit_takes_the_name_of_the_register_that_makes_it():
    nets = {
        "u_core.u_regs.go_i": {"bits": [7]},
        "$abc$1$lut$x": {"bits": [7, 8]},
        "u_core.u_load.go_q": {"bits": [7]},
        "u_core.word": {"bits": ["0", 8], "offset": 4},
    }
    ports = {
        "valid": {"direction": "input", "bits": [8]},
        "last": {"direction": "output", "bits": [7]},
    }
    found = read_netlist({"modules": {"t": {"cells": {}, "ports": ports, "netnames": nets}}}, "t")
    assert (found.name(7), found.name(8), found.name(9)) == ("load.go_q", "core.word[5]", "?")
    assert [cell.kind for cell in found.cells] == [PORT, PORT]
    assert (found.driver[8][0], found.sinks[7], found.sinks[8]) == (0, 1, 0)
