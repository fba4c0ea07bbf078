# SPDX-License-Identifier: Apache-2.0
"""Whole networks: those of examples/networks, the zoo of others, files, and drawn ones."""

# ruff: noqa: PLC0415  (each study loads what the other one does not need)

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.bench.commands import NetworksSettings
    from tilewright.bench.framework.study import Study


def study(settings: NetworksSettings) -> Study:
    """The study of whole networks, or that of --zoo, --tflite or --unseen."""
    if settings.zoo:
        from tilewright.bench.networks.zoo import Zoo

        return Zoo(settings)
    if settings.tflite:
        from tilewright.bench.networks.tflite_files import TfliteFiles

        return TfliteFiles(settings)
    if settings.unseen:
        from tilewright.bench.networks.unseen import Unseen

        return Unseen(settings)
    from tilewright.bench.networks.networks import Networks

    return Networks(settings)
