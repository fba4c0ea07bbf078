# SPDX-License-Identifier: Apache-2.0
"""What the seeds of this work published, with the conditions that make it context and no target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Published:
    """A figure from a paper.

    Attributes:
        system: whose.
        claim: the figure in the paper's terms.
        conditions: under which it was taken.
        ours: key of the study's summary that is the nearest of our figures; empty: none.
        tuner: ours that the figure is of.
    """

    system: str
    claim: str
    conditions: str
    ours: str = ""
    tuner: str = "dcoc"


_DCO = (
    "VTA++ simulator, 1,000 measurements (not said whether per task or per network), mean and best "
    "of AlexNet, VGG-11/13/16/19, ResNet-18/34; from slides and abstract"
)

PUBLISHED: Final = (
    Published(
        system="DCO-Comp (DCOC)",
        claim="throughput over AutoTVM: +17 % in the mean, +37.95 % at best",
        conditions=_DCO,
        ours="throughput_gain_over_autotvm_pct",
    ),
    Published(
        system="DCO-Comp (DCOC)",
        claim="compile time against AutoTVM: -22.3 % in the mean, -42.2 % at best",
        conditions=_DCO,
        ours="compile_time_reduction_pct",
    ),
    Published(
        system="DCO-Comp (DCOC)",
        claim="near its peak after 455 trials, AutoTVM after 800",
        conditions=_DCO,
        ours="trials_to_1pct",
    ),
    Published(
        system="CHAMELEON",
        claim="optimisation time 4.45 times shorter than AutoTVM's",
        conditions="GPU, AutoTVM's spaces, real measurements; the public code never activates the "
        "sampler",
        ours="compile_time_reduction_pct",
        tuner="chameleon",
    ),
    Published(
        system="AutoTVM on VTA",
        claim="ten convolutions of ResNet-18 in spaces of 480 to 2,304 points, 13,760 in all",
        conditions="fixed hardware: small enough to enumerate, so that 1,000 trials prove nothing",
    ),
)
