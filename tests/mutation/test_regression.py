# SPDX-License-Identifier: Apache-2.0
"""The RTL passes every stage of the in-process regression, timing to the cycle included."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation.models import CONFIGS, Model
from mutation.mutate import summarise
from mutation.stages import STAGES
from support.randomness import SEED, often

from tilewright.sim.verilator.build import build_model

CHECKS = [
    pytest.param(name, check, id=f"{stage}-{check.__name__}")
    for stage, (name, checks) in STAGES.items()
    for check in checks
]


SMALLEST = [case for case in CHECKS if case.values[0] == "tiny-4x4"]
OTHERS = [case for case in CHECKS if case.values[0] != "tiny-4x4"]
"""Each but two checks needs a build of its own."""


@pytest.mark.parametrize(
    ("name", "check"),
    [*often("stages", SMALLEST, len(SMALLEST) // 2), *often("other stages", OTHERS, 1)],
)
def test_the_rtl_passes(name, check) -> None:
    hw = CONFIGS[name]
    check(Model(hw=hw, library=build_model(hw), seed=SEED))


def record(ident: str, killed_by: str) -> dict[str, str]:
    return {"ident": ident, "killed_by": killed_by, "operator": "logic", "file": "tw_x.sv"}


def test_equivalent_mutants_and_stillborn_ones_are_no_part_of_the_share() -> None:
    records = [record("a", "data"), record("b", "stillborn"), record("c", ""), record("d", "")]
    explained = {"c": {"equivalent": True, "reason": "cannot happen"}}
    summary = summarise(records, explained)
    assert (summary["mutants"], summary["stillborn"], summary["killed"]) == (3, 1, 1)
    assert (summary["equivalent"], summary["unexplained"]) == (1, 1)
    assert summary["share_killed"] == 0.5
    assert summary["by_operator"] == {"logic": "1/3"}


def test_a_survivor_explained_as_a_hole_counts_as_not_killed() -> None:
    explained = {"b": {"equivalent": False, "reason": "not covered"}}
    summary = summarise([record("a", "data"), record("b", "")], explained)
    assert (summary["share_killed"], summary["unexplained"]) == (0.5, 0)
