# SPDX-License-Identifier: Apache-2.0
"""Tuners: they propose points of a `Space` (`ask`) and learn from their cost (`tell`).

There is one algorithm per file, behind the contract in `tuner`. Nothing here knows the
accelerator.
"""

from tilewright.tuner.search.registry import TUNERS, make_tuner, taken_by
from tilewright.tuner.search.tuner import Candidate, Offer, Result, Tuner, TunerError

__all__ = [
    "TUNERS",
    "Candidate",
    "Offer",
    "Result",
    "Tuner",
    "TunerError",
    "make_tuner",
    "taken_by",
]
