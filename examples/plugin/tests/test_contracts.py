# SPDX-License-Identifier: Apache-2.0
"""Our tuner, our allocator and our operator keep Tilewright's contracts."""

from tilewright.testing import AllocatorContract, OperatorContract, TunerContract


class TestBestNeighbour(TunerContract):
    name = "best-neighbour"


class TestCostliest(AllocatorContract):
    name = "tilewright_example.costliest:Costliest"


class TestSquareplus(OperatorContract):
    name = "com.example.Squareplus"
