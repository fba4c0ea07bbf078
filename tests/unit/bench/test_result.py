# SPDX-License-Identifier: Apache-2.0
"""A long benchmark keeps its first step, then one in a while, and at the end what is left."""

from contextlib import suppress

from tilewright.bench import result
from tilewright.bench.result import BenchResult, kept


def test_steps_are_kept_now_and_then_and_the_rest_at_the_end(monkeypatch):
    clock = iter([100.0, 100.0, 101.0, 115.0, 115.0, 116.0])
    monkeypatch.setattr(result.time, "monotonic", lambda: next(clock))
    rows, files = [], []
    with (
        suppress(KeyboardInterrupt),
        kept(
            lambda found: files.append(len(found.rows)),
            lambda: BenchResult(rows=list(rows), conditions={}),
        ) as step,
    ):
        for number in range(4):
            rows.append({"number": number})
            step()
        raise KeyboardInterrupt
    assert files == [1, 3, 4]


def test_nothing_is_kept_twice_or_without_a_step():
    files = []
    with kept(files.append, lambda: BenchResult(rows=[], conditions={})):
        pass
    with kept(files.append, lambda: BenchResult(rows=[], conditions={})) as step:
        step()
    assert len(files) == 1
