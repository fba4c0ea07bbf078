# SPDX-License-Identifier: Apache-2.0
"""Tuners: one algorithm per file behind the `Tuner` contract of `tuner`."""

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
