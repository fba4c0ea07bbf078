# SPDX-License-Identifier: Apache-2.0
"""The trained networks of `bench.accuracy`, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from tilewright.bench.accuracy.data import (
    angle_classifier,
    digits,
    faces,
    file_classifier,
    text_recogniser,
)
from tilewright.bench.accuracy.detectors import body_detector, text_detector
from tilewright.bench.accuracy.subject import Subject

SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "digits": digits,
    "angle-classifier": angle_classifier,
    "text-recogniser": text_recogniser,
    "text-detector": text_detector,
    "rnet": lambda: faces("rnet"),
    "onet": lambda: faces("onet"),
    "body-detector": body_detector,
    "file-classifier": file_classifier,
}
"""MTCNN's P-net is left out: on 12 x 12 pixels it costs less than a call, and stays on the CPU."""

OPTIONAL: Mapping[str, str] = {"body-detector": "nudenet", "file-classifier": "magika"}
"""Packages that the project's environment does not install, by the network in each."""


def installed() -> list[str]:
    """The networks whose packages this environment has."""
    return [name for name in SUBJECTS if name not in OPTIONAL or find_spec(OPTIONAL[name])]
