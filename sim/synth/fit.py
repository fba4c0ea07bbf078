# SPDX-License-Identifier: Apache-2.0
"""Fit of the area model to the recorded syntheses, and its error on rows that it has not seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import LogicModel, estimate
from tilewright.sim.synth.record import Row


def fit(rows: Sequence[Row]) -> LogicModel:
    """Least squares of the relative error over the coefficients of `LogicModel`.

    The model is linear, so a term is what a coefficient of one adds to the estimate without any.
    """
    solution: dict[str, float] = {}
    for resource in ("lut", "ff"):
        names = [f.name for f in fields(LogicModel) if f.name.startswith(f"{resource}_")]
        known = np.array([getattr(estimate(row.hw, LogicModel()), resource) for row in rows])
        with_one = [
            [getattr(estimate(row.hw, LogicModel(**{name: 1.0})), resource) for name in names]
            for row in rows
        ]
        counts = np.array([getattr(row, resource) for row in rows], dtype=float)
        terms = (np.array(with_one) - known[:, None]) / counts[:, None]
        values = np.linalg.lstsq(terms, (counts - known) / counts, rcond=None)[0]
        solution |= {name: round(float(v), 1) for name, v in zip(names, values, strict=True)}
    return LogicModel(**solution)


def fittable(rows: Sequence[Row]) -> list[Row]:
    """The rows that shape the model: of the RTL that most of them were made of."""
    fitted = [row for row in rows if row.fitted]
    states = Counter(row.rtl for row in fitted)
    return [row for row in fitted if row.rtl == states.most_common(1)[0][0]]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Error of an estimate for a row that its fit has not seen.

    Attributes:
        lut, ff: estimate over count, less one.
        bram36, dsp: estimate less count.
    """

    name: str  # configuration
    fresh: bool  # never fitted (else left out of a fit over all the others)
    lut: float
    ff: float
    bram36: int
    dsp: int


def held_out(rows: Sequence[Row]) -> tuple[HeldOut, ...]:
    """Leave-one-out errors of the fitted rows, and the errors of the rows that are never fitted."""
    seen = fittable(rows)
    terms = max(
        sum(f.name.startswith(resource) for f in fields(LogicModel)) for resource in ("lut", "ff")
    )
    if len(seen) <= terms:
        raise ConfigError(f"must be more than {terms} rows", field="results", value=len(seen))
    whole = fit(seen)
    errors = []
    for row in rows:
        fresh = row not in seen
        model = whole if fresh else fit([other for other in seen if other is not row])
        guess, area = estimate(row.hw, model), row.area
        errors.append(
            HeldOut(
                name=row.hw.name,
                fresh=fresh,
                lut=guess.lut / area.lut - 1,
                ff=guess.ff / area.ff - 1,
                bram36=guess.bram36 - area.bram36,
                dsp=guess.dsp - area.dsp,
            )
        )
    return tuple(errors)
