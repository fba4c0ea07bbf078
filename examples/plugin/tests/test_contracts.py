# SPDX-License-Identifier: Apache-2.0
"""Our tuner and our allocator keep Tilewright's contracts."""

from tilewright.testing import AllocatorContract, TunerContract


class TestBestNeighbour(TunerContract):
    name = "best-neighbour"


class TestCostliest(AllocatorContract):
    name = "tilewright_example.costliest:Costliest"
