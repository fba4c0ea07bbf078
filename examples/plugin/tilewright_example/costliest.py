# SPDX-License-Identifier: Apache-2.0
"""An allocator in five lines: the layer that costs the network most, and each in turn."""

from __future__ import annotations

import tilewright as tw


class Costliest(tw.Allocator):
    """Every other slot goes to the layer with the most cycles, the others go round."""

    def _choose(self, available: list[int]) -> int:
        if self.slots % 2:
            return self.fewest_slots(available)
        return max(available, key=self.share)
