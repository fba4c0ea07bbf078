# SPDX-License-Identifier: Apache-2.0
"""Configurations that are worth measuring, each of them once."""

import pytest

from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.tuner.schedule import shortlist as module
from tilewright.tuner.schedule.network_prior import network_prior
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.shortlist import shortlist
from tilewright.tuner.schedule.spaces import HardwareSpace

BOARD, RULES = load_board("pynq-z2"), host_rules()
BASE = load_hwconfig("tiny-4x4")
TASKS = (conv2d("A", 6, 8, 8, 3, 1, 1, count=2), conv2d("B", 6, 8, 16, 1, 0, 2))


def bound(hw: HwConfig) -> int:
    return sum(RULES.bound(hw, task, BOARD.memory).cycles * task.count for task in TASKS)


def test_a_class_whose_first_depths_are_its_largest_is_listed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the objective area it was twice: its second trials ended the study."""
    only = BASE.with_(name="only", block_out=8)
    space = HardwareSpace(BOARD, only, RULES, {"inp_bytes": (only.inp_bytes,)})
    monkeypatch.setattr(module, "class_starts", lambda *_: [(space, only)])
    found = shortlist(
        BOARD, BASE, RULES, bound, 9,
        predict=network_prior(TASKS, BOARD.memory, RULES, "vta"),
        weight=lambda hw: 1.0 if hw == BASE else 0.5,
    )  # fmt: skip
    assert [hw.parameters() for hw in found] == [BASE.parameters(), only.parameters()]


def test_a_bitstream_of_the_base_under_another_name_is_the_base() -> None:
    built = (BASE.with_(name="mine"), BASE.with_(name="other", block_out=8))
    found = shortlist(BOARD, BASE, RULES, bound, 9, built=built)
    assert [hw.name for hw in found] == [BASE.name, "other"]
