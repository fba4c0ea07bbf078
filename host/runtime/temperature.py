# SPDX-License-Identifier: Apache-2.0
"""The temperature of the chip, where Linux tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SYSTEM: Final = Path("/sys")
_CONVERTERS: Final = ("xadc", "ams", "xilinx-xadc", "xilinx-ams")
"""Names of the converters in Zynq-7000 and Zynq UltraScale+ (Linux: drivers/iio/adc)."""


def chip_temperature(system: Path = _SYSTEM) -> float | None:
    """Degrees Celsius of the programmable chip or else of the CPU; None: Linux does not say."""
    for device in sorted(system.glob("bus/iio/devices/iio:device*")):
        if _text(device / "name") in _CONVERTERS:
            for raw in sorted(device.glob("in_temp*_raw")):
                channel = raw.name.removesuffix("_raw")
                value, scale = _number(raw), _number(device / f"{channel}_scale")
                if value is not None and scale is not None:
                    offset = _number(device / f"{channel}_offset") or 0
                    return (value + offset) * scale / 1000
    for zone in sorted(system.glob("class/thermal/thermal_zone*/temp")):
        if (found := _number(zone)) is not None:
            return found / 1000
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(path: Path) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None
