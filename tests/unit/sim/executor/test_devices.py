# SPDX-License-Identifier: Apache-2.0
"""Devices stay open from job to job, and the least recently used one goes first."""

from tilewright.host.machine.fidelity import Fidelity
from tilewright.sim.executor import devices
from tilewright.sim.executor.devices import DeviceCache


def test_device_cache_keeps_recent_devices_and_closes_the_oldest(monkeypatch):
    closed = []

    class Fake:
        def __init__(self, hw, memory, *, fidelity, library):
            assert library == f"without checks: {hw.config_hash}"
            self.key = (hw.config_hash, memory, fidelity.value)

        def close(self):
            closed.append(self.key)

    class Hw:
        def __init__(self, config_hash):
            self.config_hash = config_hash

    def build(hw, *, jobs, checks, fidelity):
        assert (jobs, checks) == (1, False)
        return f"without checks: {hw.config_hash}"

    monkeypatch.setattr(devices, "VerilatorDevice", Fake)
    monkeypatch.setattr(devices, "build_model", build)
    cache = DeviceCache(capacity=2)
    one = cache.get(Hw(1), "ideal")
    cache.get(Hw(2), "ideal")
    assert cache.get(Hw(1), "ideal") is one
    cache.get(Hw(1), "slow")
    assert closed == [(2, "ideal", "rtl")]
    assert cache.get(Hw(1), "ideal") is one
    cache.get(Hw(1), "ideal", Fidelity.TIMING)
    assert closed[1:] == [(1, "slow", "rtl")]
    cache.close()
    assert len(closed) == 4
