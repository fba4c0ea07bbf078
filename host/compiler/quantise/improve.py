# SPDX-License-Identifier: Apache-2.0
"""Tries other ways to quantise a network, and keeps those that bring it nearer to its float model.

One change after another: a zero point, other ranges, no equalisation, no correction of biases;
then the layers that lose most stay in float on the CPU. Each is judged by the least SQNR of an
output on inputs that took no part in choosing the ranges, if there are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import onnx_ir as ir

from tilewright.host.compiler.quantise.agreement import Agreement
from tilewright.host.compiler.quantise.layer_losses import agreement
from tilewright.host.compiler.quantise.observation import Batches
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.edit import Array
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.read.own_operators import OwnOperators

_BETTER_DB: Final = 0.1
_WORTH_DB: Final = 1.0
"""What a layer in float must bring: it leaves the accelerator,"""
_ENOUGH_DB: Final = 40.0
"""and none does where this is reached: errors of a hundredth of the signal."""
_FEWEST: Final = 4
"""Batches of which some are kept to judge."""
_CHANGES: Final[Sequence[tuple[str, Callable[[QuantiseOptions], QuantiseOptions]]]] = (
    ("a zero point or none", lambda o: replace(o, asymmetric=not o.asymmetric)),
    ("ranges of all values", lambda o: replace(o, method="minmax", percentile=99.99)),
    ("ranges of 99.9 % of the values", lambda o: replace(o, method="percentile", percentile=99.9)),
    ("equalisation or none", lambda o: replace(o, equalisation=not o.equalisation)),
    ("bias correction or none", lambda o: replace(o, bias_correction=not o.bias_correction)),
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A way to quantise a network that was tried."""

    change: str  # in words
    worst_db: float  # the least SQNR of an output
    kept: bool

    def to_mapping(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Inputs that judge, and what the float model makes of them."""

    batches: Batches
    expected: Sequence[Mapping[str, Array]]
    origin: str

    def of(self, model: ir.Model, quantised: ir.Model) -> Agreement:
        """How near a quantised model is."""
        return agreement(model, quantised, self.batches, self.expected, self.origin)


def apart(batches: Batches) -> tuple[Batches, Batches]:
    """Batches that choose ranges, and others that judge: all, if there are few."""
    if len(batches) < _FEWEST:
        return batches, batches
    judging = set(range(0, len(batches), _FEWEST))
    return (
        [batch for index, batch in enumerate(batches) if index not in judging],
        [batch for index, batch in enumerate(batches) if index in judging],
    )


def improved(
    model: ir.Model, batches: Batches, judge: Judge, options: QuantiseOptions, own: OwnOperators
) -> tuple[QuantiseOptions, list[Trial]]:
    """The best options that were found, and all that were tried, the given ones first."""

    def tried(tested: QuantiseOptions) -> Agreement:
        copy = model.clone()
        return judge.of(copy, quantise(copy, batches, tested, own))

    best, found = options, tried(options)
    trials = [Trial(change="as asked for", worst_db=found.worst_db, kept=True)]

    def attempt(change: str, tested: QuantiseOptions, least: float) -> None:
        nonlocal best, found
        result = tried(tested)
        kept = result.worst_db >= found.worst_db + least
        trials.append(Trial(change=change, worst_db=result.worst_db, kept=kept))
        if kept:
            best, found = tested, result

    for change, altered in _CHANGES:
        attempt(change, altered(best), _BETTER_DB)
    for loss in found.layers:
        if found.worst_db >= _ENOUGH_DB:
            break
        kept = (*best.float_layers, loss.name)
        attempt(f"{loss.name} in float on the CPU", replace(best, float_layers=kept), _WORTH_DB)
    return best, trials
