# SPDX-License-Identifier: Apache-2.0
"""Every allocator of the registry keeps the contract."""

import pytest

from tilewright.testing.allocator_contract import AllocatorContract
from tilewright.tuner.allocate import ALLOCATORS, make_allocator
from tilewright.tuner.search import TunerError

for _name in ALLOCATORS:
    _kind = type(f"Test{_name.title().replace('-', '')}", (AllocatorContract,), {"name": _name})
    globals()[_kind.__name__] = _kind


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TunerError, match="round-robin"):
        make_allocator("fair", [], seed=0, slot=1.0)
