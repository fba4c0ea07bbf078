# SPDX-License-Identifier: Apache-2.0
"""`RemoteDevice` over an agent fulfils the contract of a device."""

import threading

import numpy as np
import pytest
from support.boards.simulated import FewErrorsContract
from support.programs.rtl import IDEAL

from tilewright.host.common.errors import DeviceTimeoutError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.host.runtime.agent.tls import Identity, make_identity
from tilewright.host.runtime.device import Device
from tilewright.host.runtime.scrub import scrub
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.testing.residue import dirt, peek, residue

TOKEN = b"a secret of the tests"


class Served(RemoteDevice):
    """A client that ends its agent when it is closed."""

    def __init__(self, device: Device, identity: Identity | None) -> None:
        self._device = device
        self._server = AgentServer(device, listen="127.0.0.1:0", token=TOKEN, identity=identity)
        threading.Thread(target=self._server.serve, daemon=True).start()
        super().__init__(self._server.address, TOKEN, plain=identity is None)

    def close(self) -> None:
        if not self._closed:
            super().close()
            self._server.stop()
            self._device.close()


class TestRemoteRtl(FewErrorsContract):
    def make_device(self, hw: HwConfig) -> RemoteDevice:
        return Served(VerilatorDevice(hw, IDEAL, watchdog_cycles=20_000), make_identity())


@pytest.mark.parametrize("end", ["leaves", "is killed", "fails"])
@pytest.mark.parametrize("memory", list(scratchpads(load_hwconfig("tiny-4x4"))))
def test_a_client_reads_nothing_of_the_one_before(memory, end):
    """Neither scratchpads nor counters tell what it did, however it ended."""
    hw = load_hwconfig("tiny-4x4")
    fresh = VerilatorDevice(hw, IDEAL, watchdog_cycles=20_000)
    scrub(fresh)
    program = peek(hw, memory)
    expected = fresh.run(program, program.image())
    fresh.close()
    device = VerilatorDevice(hw, IDEAL, watchdog_cycles=20_000)
    server = AgentServer(device, listen="127.0.0.1:0", token=TOKEN, identity=None)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        first = RemoteDevice(server.address, TOKEN, plain=True)
        first.run(dirt(hw), dirt(hw).image())
        assert residue(first, memory), "its own data stays in a lease"
        first.run(dirt(hw), dirt(hw).image())
        if end == "is killed":
            first._channel.abort()  # as the system does for a process that is gone
        elif end == "fails":
            with pytest.raises(DeviceTimeoutError):
                first.run(dirt(hw), dirt(hw).image(), max_cycles=50)
            first._channel.abort()
        else:
            first.close()
        second = RemoteDevice(server.address, TOKEN, wait_seconds=60, plain=True)
        found = second.run(program, program.image())
        assert found.counters == expected.counters
        assert np.array_equal(found.memory, expected.memory)
        assert residue(second, memory) == 0
        second.close()
        first.close()
    finally:
        server.stop()
        device.close()


class TestRemoteBoard(FewErrorsContract):
    programs = 1

    def make_device(self, hw: HwConfig) -> RemoteDevice:
        pytest.importorskip("pynq")
        from tilewright.sim.verilator.pynq_simulation import SimulatedBoard  # noqa: PLC0415  (pynq)

        return Served(SimulatedBoard(hw, IDEAL, build_model(hw), watchdog_cycles=20_000), None)
