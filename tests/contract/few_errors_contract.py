# SPDX-License-Identifier: Apache-2.0
"""The device contract where errors only pass through: a fast run takes some of them."""

import pytest
from support.randomness import often

from tilewright.testing.device_contract import ERRORS, DeviceContract


class FewErrorsContract(DeviceContract):
    """Of a device that only hands on what another, which is held to all errors, says."""

    @pytest.mark.parametrize("case", often("errors of a device", sorted(ERRORS), 8))
    def test_reports_an_illegal_instruction_and_stays_usable(self, tiny, case: str) -> None:
        super().test_reports_an_illegal_instruction_and_stays_usable(tiny, case)
