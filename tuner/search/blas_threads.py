# SPDX-License-Identifier: Apache-2.0
"""One thread for numpy's linear algebra, for a while.

The matrices of a search have tens to hundreds of rows. Threads gain nothing on them, cost several
times the work where measurements keep the other cores busy (each waits for the rest by spinning),
and add up in another order on another machine, which may turn a choice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy.linalg  # noqa: F401  (its library must be loaded before the controller looks)
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it has none


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, BLAS uses one thread; afterwards as many as before."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
