# SPDX-License-Identifier: Apache-2.0
"""A measurement in a process of its own: its row, or a line that says what became of it."""

import operator
import os
import time

import pytest

from tilewright.bench.framework.study import limited, told
from tilewright.host.common.errors import WorkloadError

SECONDS, BYTES = 60.0, 4 << 30


@pytest.mark.parametrize(
    ("measure", "arguments", "seconds", "error"),
    [
        (operator.truediv, (1, 0), SECONDS, "ZeroDivisionError: division by zero [at study.py:"),
        (bytearray, (2 * BYTES,), SECONDS, "MemoryError"),
        (os.abort, (), SECONDS, "ended without an answer (SIGABRT)"),
        (os._exit, (3,), SECONDS, "ended without an answer (exit code 3)"),
        (time.sleep, (60,), 0.2, "not finished in 0.2 s"),
    ],
)
def test_a_failure_is_a_line(measure, arguments, seconds, error) -> None:
    started = time.monotonic()
    row = limited(measure, *arguments, seconds=seconds, memory_bytes=BYTES)
    assert row["error"].startswith(error)
    assert "\n" not in row["error"]
    assert time.monotonic() - started < 60


def failing(text: str) -> None:
    raise KeyError(text)


def test_an_error_on_purpose_is_its_text_and_what_lies_behind_it_is_told() -> None:
    plain = WorkloadError("must be\nsmall", field="x")
    assert told(plain) == "x: must be small"
    assert told(ValueError("\x1b[96mblue\x1b[0m")).startswith("ValueError: blue [at ")
    try:
        failing("gone")
    except KeyError as error:
        plain.__cause__ = error
    assert told(plain).startswith("x: must be small [KeyError: 'gone' at test_limits.py:")
    assert told(plain).count(" < ") == 1
