# SPDX-License-Identifier: Apache-2.0
"""Tuners: one algorithm a file behind the `Tuner` contract of `_base`."""

from tilewright.tuner.search.registry import TUNERS, TunerSpec, make_tuner, tuner_class, tuner_spec
from tilewright.tuner.search.tuner import Candidate, Result, Tuner, TunerError

__all__ = [
    "TUNERS",
    "Candidate",
    "Result",
    "Tuner",
    "TunerError",
    "TunerSpec",
    "make_tuner",
    "tuner_class",
    "tuner_spec",
]
