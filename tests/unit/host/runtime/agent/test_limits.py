# SPDX-License-Identifier: Apache-2.0
"""Limits are numbers that every part of an agent can keep."""

import socket
from dataclasses import fields
from typing import Any

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.runtime.agent.limits import Limits, limits_of_options

OPTIONS = {
    "max_seconds": 60,
    "max_program_mib": 128,
    "max_memory_mib": 128,
    "lease_seconds": 30,
    "max_connections": 64,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 2**40, True, "1"])
def test_refuses_what_is_no_number_of_the_range(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["run_seconds", "lease_seconds"])
def test_the_longest_time_is_one_that_sockets_wait(name: str) -> None:
    """Ten billion seconds were taken, and then no session could begin."""
    with pytest.raises(ConfigError, match=name):
        Limits(**{name: 1e10})
    longest = getattr(Limits(**{name: 1e9}), name)
    with socket.socket() as connection:
        connection.settimeout(longest + 30)


@pytest.mark.parametrize(
    ("option", "value", "most"),
    [("max_seconds", 1e10, "1,073,741,824"), ("max_program_mib", 2**20, "1,048,576")],
)
def test_an_option_is_named_as_it_was_written_with_what_it_must_be_below(
    option: str, value: float, most: str
) -> None:
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(ConfigError, match=f"{flag}.*below {most}"):
        limits_of_options(**{**OPTIONS, option: value})
    assert limits_of_options(**OPTIONS) == Limits()
