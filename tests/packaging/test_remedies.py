# SPDX-License-Identifier: Apache-2.0
"""What a user can cause is told with a remedy: networks, schedules, stores, studies, options."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "site"))

import errors_page

ROOMS = (
    "host/compiler/",
    "host/lowering/",
    "host/network/",
    "src/tilewright/cli/",
    "tuner/schedule/",
    "tuner/store/",
    "tuner/study/",
)
INTERNAL = {
    ("host/compiler/divide/offload.py", "must be a known operator"),
    ("host/compiler/divide/offload.py", "a cost must be a number of seconds, not negative"),
    ("host/compiler/lower/qgraph.py", "must be four positive sizes"),
    ("host/compiler/lower/qgraph.py", "must be a positive number"),
    ("host/compiler/lower/qgraph.py", "must be from -128 to 127"),
    ("host/compiler/lower/qgraph.py", "must lead to the shape ..."),
    ("host/compiler/lower/qgraph.py", "must have as many elements"),
    ("host/compiler/lower/qgraph.py", "has no rule that leads to it"),
    ("host/compiler/lower/region_program.py", "must be int8 of shape ..."),
    (
        "host/compiler/lower/region.py",
        "a part of a tensor must begin at a multiple of ... channels, batch 1",
    ),
    (
        "host/compiler/run/host_process.py",
        "the CPU part of a network gave other outputs than it stated",
    ),
    ("host/compiler/run/relax_host.py", "the CPU part of a network failed (...)"),
    ("host/lowering/program_builder.py", "unknown field"),
    ("host/lowering/program_builder.py", "the program is finished"),
    ("src/tilewright/cli/verify.py", "... (seed ...)"),  # another error, whole, with the seed
    ("tuner/store/store.py", "the study already holds this trial"),
    ("tuner/study/session.py", "more proposals than the budget allows"),
    ("tuner/study/session.py", "the oracle left requests without an answer"),
    ("tuner/study/study.py", "a screen is given exactly to screened studies"),
}
"""What only a fault of Tilewright itself can cause: its files and rules."""


def test_every_error_of_a_users_input_has_a_remedy():
    found = {
        (message.place, message.rule)
        for message in errors_page.messages()
        if message.place.startswith(ROOMS) and not message.remedy
    }
    assert found == INTERNAL
