# SPDX-License-Identifier: Apache-2.0
"""RTL tests: the small grid unless markers are chosen with `-m`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE))  # of `builds` and `bench`


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow RTL tests when the user has not said which markers to run."""
    if config.getoption("markexpr"):
        return
    slow = [i for i in items if i.path.is_relative_to(_HERE) and i.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
