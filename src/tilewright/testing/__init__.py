# SPDX-License-Identifier: Apache-2.0
"""Contract suites for parts of your own: one import, one subclass, and pytest runs the rest.

A tuner, in any test file of your package::

    from tilewright.testing import TunerContract

    class TestMine(TunerContract):
        name = "my_package.my_module:MyTuner"

An allocator has `AllocatorContract` with the same attribute, an operator of networks
`OperatorContract`. A `Device` has `DeviceContract`, whose `make_device` makes one. A variant of the
RTL has `RtlContract`, whose `manifest` names its sources. Our own parts pass the same suites. This
is the only package of Tilewright that imports pytest.
"""

import pytest

for _suite in ("tuner_contract", "allocator_contract", "device_contract", "operator_contract"):
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")

from tilewright.testing.allocator_contract import AllocatorContract  # noqa: E402  (after their rewriting)
from tilewright.testing.device_contract import DeviceContract, RtlContract  # noqa: E402  (after their rewriting)
from tilewright.testing.operator_contract import OperatorContract  # noqa: E402  (after their rewriting)
from tilewright.testing.tuner_contract import TunerContract  # noqa: E402  (after their rewriting)

__all__ = [
    "AllocatorContract",
    "DeviceContract",
    "OperatorContract",
    "RtlContract",
    "TunerContract",
]
