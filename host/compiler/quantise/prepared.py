# SPDX-License-Identifier: Apache-2.0
"""`Prepared`: what becomes of a model before it is imported into TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

    from tilewright.host.compiler.read.edit import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Accuracy:
    """What is known of how near the quantised model is to the model as it was read.

    Attributes:
        agreement: on calibration data, as `agreement.Agreement.to_mapping`; empty: it came
            quantised.
        trials: of `improve`, as `improve.Trial.to_mapping`.
        chosen: the options of quantisation that those led to, where they differ from the given.
        expected: what the model as it was read makes of the data to check with, batch by batch.
    """

    agreement: Mapping[str, Any] = field(default_factory=dict)
    trials: Sequence[Mapping[str, Any]] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)
    expected: Sequence[Mapping[str, Array]] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A model in canonical QDQ form."""

    model: onnx.ModelProto  # the model
    was_quantised: bool  # it came quantised
    seconds: dict[str, float] = field(default_factory=dict)  # by stage
    accuracy: Accuracy = field(default_factory=Accuracy)
