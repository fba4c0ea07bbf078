# SPDX-License-Identifier: Apache-2.0
"""Linear algebra of a search takes one thread, and leaves the process as it was."""

from threadpoolctl import threadpool_info

from tilewright.tuner.search.blas_threads import one_blas_thread


def threads() -> list[int]:
    """Of numpy's library; other packages bring their own, loaded when a test needs them."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [pool["num_threads"] for pool in pools if "numpy" in pool["filepath"]]


def test_one_thread_inside_and_as_many_as_before_outside() -> None:
    before = threads()
    assert before
    with one_blas_thread():
        assert threads() == [1] * len(before)
    assert threads() == before


def test_the_threads_come_back_after_an_error() -> None:
    before = threads()
    try:
        with one_blas_thread():
            raise RuntimeError
    except RuntimeError:
        pass
    assert threads() == before
