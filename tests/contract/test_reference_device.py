# SPDX-License-Identifier: Apache-2.0
"""The reference fulfils the contract of a device."""

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.testing.device_contract import DeviceContract


class TestReferenceDevice(DeviceContract):
    programs = 1  # it is compared with itself here; tests/unit has the independent model

    def make_device(self, hw: HwConfig) -> ReferenceDevice:
        return ReferenceDevice(hw)
