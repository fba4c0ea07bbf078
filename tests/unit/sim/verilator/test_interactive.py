# SPDX-License-Identifier: Apache-2.0
"""`tilewright.sim.verilator.interactive`: pins, clock and waves of a module by itself."""

import pytest

from tilewright.host.common.errors import BuildError, ConfigError, DeviceError
from tilewright.sim.verilator import interactive


@pytest.fixture
def fifo():
    with interactive.load("tw_fifo", Width=70, Depth=4) as sim:
        sim.io.rst_i = 1
        sim.clock.tick()
        sim.io.rst_i = 0
        yield sim


def test_pins_have_names_widths_and_directions(fifo):
    assert set(dir(fifo.io)) == {
        "clk_i", "rst_i", "push_i", "data_i", "pop_i", "data_o", "valid_o", "full_o", "count_o",
    }  # fmt: skip
    assert (fifo.ports["data_i"].bits, fifo.ports["data_i"].is_input) == (70, True)
    assert (fifo.ports["count_o"].bits, fifo.ports["count_o"].is_input) == (3, False)


def test_a_fifo_gives_back_what_was_pushed(fifo):
    words = [1 << 69 | 5, 7 << 32, 3]
    for word in words:
        fifo.io.push_i, fifo.io.data_i = 1, word
        fifo.clock.tick()
    fifo.io.push_i = 0
    assert (fifo.io.valid_o, fifo.io.count_o, fifo.io.full_o) == (1, 3, 0)
    got = []
    fifo.io.pop_i = 1
    while fifo.io.valid_o:
        got.append(fifo.io.data_o)
        fifo.clock.tick()
    assert got == words
    assert fifo.clock.cycles == 1 + len(words) + len(words)


def test_refuses_a_pin_that_does_not_exist_an_output_and_a_value_too_wide(fifo):
    with pytest.raises(AttributeError, match="no pin 'x'; the module has clk_i"):
        fifo.io.x  # noqa: B018  (the access raises)
    with pytest.raises(AttributeError, match="no pin"):
        fifo.io.x = 1
    with pytest.raises(ConfigError, match="only inputs"):
        fifo.io.valid_o = 1
    with pytest.raises(ConfigError, match="fit 70 bits"):
        fifo.io.data_i = 1 << 70
    with pytest.raises(ConfigError, match="value"):
        fifo.io.push_i = [1, 0]


def test_waves_can_be_switched_on_and_off(fifo, tmp_path):
    path = tmp_path / "fifo.fst"
    fifo.start_waves(path)
    fifo.clock.tick(20)
    fifo.stop_waves()
    size = path.stat().st_size
    fifo.clock.tick(20)
    assert path.stat().st_size == size > 0
    header = path.read_bytes()[:25]
    start, end = (int.from_bytes(header[9 + 8 * i : 17 + 8 * i], "big") for i in range(2))
    assert 190 <= end - start <= 200, "ten units a cycle"
    with pytest.raises(DeviceError, match="writable"):
        fifo.start_waves(tmp_path / "missing" / "x.fst")


def test_a_closed_simulation_refuses_everything(fifo):
    fifo.close()
    fifo.close()
    with pytest.raises(DeviceError, match="closed"):
        fifo.settle()
    with pytest.raises(AttributeError):
        fifo.io.push_i = 1


def test_arrays_of_pins_are_lists_and_an_assertion_is_an_error(tmp_path):
    source = tmp_path / "adder.sv"
    source.write_text(
        "module adder (input logic clock, input logic [7:0] x[3], output logic [9:0] sum);\n"
        "  always_ff @(posedge clock) sum <= 10'(x[0]) + 10'(x[1]) + 10'(x[2]);\n"
        '  always_ff @(posedge clock) assert (x[0] != 8\'hff) else $error("x is 255");\n'
        "endmodule\n"
    )
    with interactive.load("adder", sources=[source]) as sim:
        sim.io.x = [1, 2, 250]
        sim.clock.tick()
        assert sim.io.sum == 253
        assert sim.io.x == [1, 2, 250]
        sim.io.x = [255, 0, 0]
        with pytest.raises(DeviceError, match=r"adder\.sv:3"):
            sim.clock.tick()


def test_refuses_an_unknown_clock_and_a_module_that_does_not_elaborate(tmp_path):
    with pytest.raises(ConfigError, match="clock"):
        interactive.load("tw_fifo", clock="tick", Width=70, Depth=4)
    with pytest.raises(BuildError, match="no_such_module"):
        interactive.load("no_such_module")
