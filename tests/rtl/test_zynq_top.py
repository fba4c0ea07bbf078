# SPDX-License-Identifier: Apache-2.0
"""`zynq_top` between the ports of a processing system and a stub in the accelerator's place."""

from __future__ import annotations

from axi3 import Processors
from builds import open_unit
from support.randomness import fresh_rng, where

from tilewright.host.machine.hwconfig import PARAMETERS, load_hwconfig
from tilewright.host.machine.registers import REGISTERS, Ctrl, ErrorCode, Status

HW = load_hwconfig("tiny-4x4")
AT = {register.name: register.offset for register in REGISTERS}
MEMORY = 0x1000_0000
SIZE = 4096
BEAT, BUSY = 8, 1 << 4


class System(Processors):
    """The processing system: software at M_AXI_GP0, a DRAM behind S_AXI_HP0."""

    def __init__(self, rng) -> None:
        self.sim = open_unit("zynq_top", "BUFG.sv", "PS7.sv", "tilewright.sv", bench="bench_zynq")
        self.io, self.rng = self.sim.io, rng
        self.memory = bytearray(rng.bytes(SIZE))
        self.read_beats: list[int] = []
        self.write_at = -1
        self.due = 0
        self.hold = False  # no address is taken
        self.sim.clock.tick(4)
        self.io.resetn_i = 1
        self.sim.clock.tick(4)

    def cycle(self) -> None:
        """One cycle of the DRAM, which stalls at random."""
        io = self.io
        io.m_arready_i = int(not self.read_beats and not self.hold and self.rng.integers(2))
        io.m_awready_i = int(self.write_at < 0 and not self.due and self.rng.integers(2))
        io.m_wready_i = int(self.write_at >= 0 and self.rng.integers(2))
        io.m_bvalid_i = self.due
        self.due = 0
        io.m_rvalid_i = int(bool(self.read_beats) and self.rng.integers(2))
        if io.m_rvalid_i:
            place = self.read_beats[0]
            io.m_rdata_i = int.from_bytes(self.memory[place : place + BEAT], "little")
            io.m_rlast_i = int(len(self.read_beats) == 1)
        self.sim.settle()
        if io.m_rvalid_i:
            self.read_beats.pop(0)
        if io.m_arready_i and io.m_arvalid_o:
            first = io.m_araddr_o - MEMORY
            self.read_beats = [first + BEAT * beat for beat in range(io.m_arlen_o + 1)]
        if io.m_wready_i and io.m_wvalid_o:
            data = io.m_wdata_o.to_bytes(BEAT, "little")
            for lane in range(BEAT):
                if io.m_wstrb_o >> lane & 1:
                    self.memory[self.write_at + lane] = data[lane]
            self.write_at = -1 if io.m_wlast_o else self.write_at + BEAT
            self.due = io.m_wlast_o
        if io.m_awready_i and io.m_awvalid_o:
            self.write_at = io.m_awaddr_o - MEMORY
        self.sim.clock.tick()


def whole(*words: int) -> list[tuple[int, int]]:
    """Words of which every byte is written."""
    return [(word, 15) for word in words]


def test_software_reaches_the_accelerator_and_it_the_dram():
    rng = fresh_rng()
    system = System(rng)
    assert system.io.irq_o == 1
    for _ in range(12):
        beats, strobes = int(rng.integers(1, 17)), int(rng.integers(256))
        here, there = (BEAT * int(p) for p in rng.integers(0, SIZE // BEAT - beats + 1, 2))
        words = [beats - 1, MEMORY + here, MEMORY + there, strobes, 0]
        assert system.write(0x4000_0004, whole(*words)) == 0
        assert system.read(0x4000_0004, 5) == (words, [0] * 5)
        expected = bytearray(system.memory)
        for index, value in enumerate(system.memory[here : here + BEAT * beats]):
            if strobes >> index % BEAT & 1:
                expected[there + index] = value
        system.write(0x4000_0000, whole(1))
        busy = (system.read(0x4000_003C)[0][0] & BUSY for _ in range(50))
        assert not all(busy), where()
        assert system.io.irq_o == 1
        assert system.memory == expected, where(beats=beats, here=here, there=there)
    # A reset ends what is under way: the burst that the DRAM has not taken never comes.
    system.write(0x4000_0004, whole(3, MEMORY, MEMORY + 64, 255, 0))
    system.hold = True
    system.write(0x4000_0000, whole(1))
    system.io.resetn_i = 0
    system.sim.clock.tick()
    system.io.resetn_i = 1
    for _ in range(4):
        system.cycle()
    assert system.io.irq_o == 1
    assert not system.io.m_arvalid_o
    system.hold = False
    assert system.write(0x4000_0040, whole(1)) == 2
    assert system.read(0x4000_003C, 2)[1] == [0, 2]
    system.sim.close()


def test_a_run_beyond_the_addresses_of_the_port_is_refused():
    """The port has 32 bits; the core refuses what it cannot reach, and reads nothing."""
    system = System(fresh_rng())
    assert system.read(0x4000_0038) == ([32], [0])
    system.sim.close()
    values = {p.rtl_name: getattr(HW, p.name) for p in PARAMETERS}
    sim = open_unit("tilewright_top", **values, DataPath=0, AddressBits=32)
    io = sim.io
    sim.clock.tick(4)
    io.aresetn = io.s_axil_bready = io.s_axil_rready = 1

    def write(name: str, value: int) -> None:
        io.s_axil_awaddr, io.s_axil_wdata, io.s_axil_wstrb = AT[name], value, 15
        io.s_axil_awvalid = io.s_axil_wvalid = 1
        sim.clock.tick()
        io.s_axil_awvalid = io.s_axil_wvalid = 0
        sim.clock.tick(2)

    def read(name: str) -> int:
        io.s_axil_araddr, io.s_axil_arvalid = AT[name], 1
        sim.clock.tick()
        io.s_axil_arvalid = 0
        value = io.s_axil_rdata
        sim.clock.tick()
        return value

    for base, refused in ((0xFFFF_E000, False), (0xFFFF_F000, True), (0x1_0000_0000, True)):
        for name, value in (("MEM_BASE", base), ("MEM_SIZE", 0x2000), ("INSN_BASE", 0)):
            write(f"{name}_LO", value & 0xFFFF_FFFF)
            write(f"{name}_HI", value >> 32)
        write("INSN_COUNT", 1)
        write("CTRL", Ctrl.START)
        asked = 0
        for _ in range(20):
            sim.clock.tick()
            asked += io.m_axi_arvalid
        assert bool(asked) is not refused
        if refused:
            assert read("STATUS") == Status.ERROR
            assert read("ERROR") & 0xFF == ErrorCode.SETTINGS
        io.aresetn = 0
        sim.clock.tick(2)
        io.aresetn = 1
    sim.close()
