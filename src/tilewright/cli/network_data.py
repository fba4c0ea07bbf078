# SPDX-License-Identifier: Apache-2.0
"""Options that state data for the inputs of a network: images, arrays or noise."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tilewright.cli.parse_errors import UsageError

FOR_FLOAT_MODELS: Final = "is for a float model; this one is quantised already"
"""Why options of the quantisation are refused."""

MeanOption = Annotated[
    str,
    typer.Option(metavar="MEAN,...", help="Mean per image channel in 0..1, separated by commas."),
]
StdOption = Annotated[
    str,
    typer.Option(
        metavar="STD,...", help="Standard deviation per image channel, separated by commas."
    ),
]


def read_numbers(option: str, text: str) -> tuple[float, ...]:
    """Comma-separated numbers."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(
            "must be numbers separated by commas",
            field=option,
            value=text,
            remedy="write them as in 0.485,0.456,0.406",
        ) from error


def data_fields(source: str) -> dict[str, str]:
    """The fields of a `Calibration` to the options that state them."""
    return {"calibration.mean": "--mean", "calibration.std": "--std", "calibration": source}
