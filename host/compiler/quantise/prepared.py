# SPDX-License-Identifier: Apache-2.0
"""`Prepared`: what becomes of a model before it is imported into TVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A model in canonical QDQ form."""

    model: onnx.ModelProto  # the model
    was_quantised: bool  # it came quantised
    seconds: dict[str, float] = field(default_factory=dict)  # by stage
