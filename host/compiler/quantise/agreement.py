# SPDX-License-Identifier: Apache-2.0
"""`Agreement`: how near a quantised network is to its float model, output by output.

The signal-to-quantisation-noise ratio (SQNR) of a tensor is the power of its float elements over
the power of their errors, in dB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.printable import printable

Array = npt.NDArray[Any]

LEAST_DB: Final = 20.0
"""SQNR of an output below which a user is warned: errors of a tenth of the signal."""
_MOST_DB: Final = 99.0


@dataclass(frozen=True, kw_only=True)
class OutputAgreement:
    """An output of a network beside that of its float model.

    Attributes:
        cosine: of both as vectors.
        same: share of equal elements of integers, otherwise of equal positions of the largest
            element along the classes, (N, C) or (N, C, H, W); None: there are no classes.
    """

    name: str
    sqnr_db: float
    cosine: float
    same: float | None


@dataclass(frozen=True, kw_only=True)
class LayerLoss:
    """What a layer's rounding costs, in dB of SQNR."""

    name: str
    sqnr_db: float  # of its result
    lost_db: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A network beside its float model, on some inputs.

    Attributes:
        computed_by: what computed the network.
        inputs: how many.
        origin: of the inputs, in words.
        layers: that lose most, worst first.
    """

    computed_by: str
    inputs: int
    origin: str
    outputs: tuple[OutputAgreement, ...]
    layers: tuple[LayerLoss, ...] = ()

    @property
    def worst_db(self) -> float:
        """The least SQNR of an output."""
        return min((each.sqnr_db for each in self.outputs), default=_MOST_DB)

    @property
    def is_of_noise(self) -> bool:
        """Whether the inputs are random: then it says little of others."""
        return "random input" in self.origin

    def warning(self) -> str:
        """What a user should know; empty: no output is far from the float model's."""
        far = min(self.outputs, key=lambda each: each.sqnr_db, default=None)
        if far is None or far.sqnr_db >= LEAST_DB or self.is_of_noise:
            return ""
        return (
            f"output {printable(far.name)} has {far.sqnr_db:.1f} dB of signal over its errors "
            f"({self.computed_by}), and {LEAST_DB:g} are the least of a sound network: give more "
            "and typical calibration data, or try improve"
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for JSON and the saved network."""
        parts = {name: list(map(asdict, getattr(self, name))) for name in ("outputs", "layers")}
        return asdict(self) | parts

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Agreement:
        """Inverse of `to_mapping`."""
        outputs = tuple(OutputAgreement(**each) for each in values["outputs"])
        layers = tuple(LayerLoss(**each) for each in values["layers"])
        return cls(**{**values, "outputs": outputs, "layers": layers})


@dataclass(kw_only=True)
class Powers:
    """Of a tensor's float elements, and of their errors, over batches."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, expected: Array, found: Array) -> None:
        """A tensor of the float model, and the same of the quantised one."""
        with np.errstate(over="ignore", invalid="ignore"):
            plain, error = expected.reshape(-1), (expected - found).reshape(-1)
            signal, noise = float(plain @ plain), float(error @ error)
            if not np.isfinite((signal, noise)).all():  # masks, and numbers beyond float32
                known = np.isfinite(plain) & np.isfinite(error)
                plain, error = (each[known].astype(np.float64) for each in (plain, error))
                signal, noise = float(plain @ plain), float(error @ error)
        self.signal += signal
        self.noise += noise

    @property
    def sqnr_db(self) -> float:
        """In dB, within 99 on either side."""
        if not self.noise:
            return _MOST_DB
        ratio = 10 * np.log10(max(self.signal, 1e-300) / self.noise)
        return float(np.clip(ratio, -_MOST_DB, _MOST_DB))


@dataclass(kw_only=True)
class _Output:
    """What of an output and its float model's is summed over batches."""

    powers: Powers = field(default_factory=Powers)
    other: float = 0.0
    product: float = 0.0
    places: int = 0
    same: int = 0

    def add(self, expected: Array, found: Array) -> None:
        if expected.dtype.kind in "iub":
            self.places += expected.size
            self.same += int((expected == found).sum())
        elif expected.ndim in (2, 4) and expected.shape[1] > 1:
            largest = expected.argmax(axis=1) == found.argmax(axis=1)
            self.places += largest.size
            self.same += int(largest.sum())
        a, b = (each.astype(np.float64).reshape(-1) for each in (expected, found))
        finite = np.isfinite(a) & np.isfinite(b)
        a, b = a[finite], b[finite]
        self.powers.add(a, b)
        self.other += float(b @ b)
        self.product += float(a @ b)

    def agreement(self, name: str) -> OutputAgreement:
        norm = (self.powers.signal * self.other) ** 0.5
        equal = self.powers.signal == self.other
        return OutputAgreement(
            name=name,
            sqnr_db=round(self.powers.sqnr_db, 2),
            cosine=round(self.product / norm, 6) if norm else float(equal),
            same=self.same / self.places if self.places else None,
        )


@dataclass(kw_only=True)
class Comparison:
    """Collects outputs, batch by batch."""

    inputs: int = 0
    _outputs: dict[str, _Output] = field(default_factory=dict)

    def add(self, expected: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        """Outputs of one batch by name: of the float model, and of the network."""
        self.inputs += 1
        for name, array in expected.items():
            self._outputs.setdefault(name, _Output()).add(array, found[name])

    def result(self, computed_by: str, origin: str, layers: Sequence[LayerLoss] = ()) -> Agreement:
        """How near both are."""
        return Agreement(
            computed_by=computed_by,
            inputs=self.inputs,
            origin=origin,
            outputs=tuple(sums.agreement(name) for name, sums in self._outputs.items()),
            layers=tuple(layers),
        )
