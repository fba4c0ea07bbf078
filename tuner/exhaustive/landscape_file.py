# SPDX-License-Identifier: Apache-2.0
"""A landscape on disk: two files in a folder, NAME.json (what is enumerated) and NAME.cycles.

The second is written as it goes, so that a stopped enumeration goes on where it was. It holds eight
bytes a point of the space, in index order: 0 where nothing is known yet, else a value in the lower
bits and a checksum of value, point and name in the upper ones. So what a disk or a hand has changed
is found, point by point, and is measured anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import StoreError
from tilewright.host.common.printable import printable
from tilewright.host.common.whole_file import write_whole
from tilewright.host.machine.board import MemoryModel
from tilewright.tuner.schedule.spaces import ScheduleSpace

NOT_YET: Final = 0
ILLEGAL: Final = -1

Cycles = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_VALUE_BITS: Final = np.uint64(40)
_MIX: Final = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64
)
"""Odd numbers of splitmix64 (Steele et al., OOPSLA 2014)."""

_BLOCK: Final = 1 << 20
"""Points that are checked at a time."""

_NAMED: Final = 60
"""Letters of a layer's name that the names of its files have; the digest tells layers apart."""


class LandscapeFile:
    """The values of a landscape's points, as far as they are known.

    Args:
        folder: of the files, which are made when they are not there.
        space: whose points these are.
        memory, identity: DRAM timing, and the twin that counts.
        quantity: what the values are; the ending of the file.
        least: cycles that no point undercuts; a smaller value is damage.
    """

    def __init__(
        self,
        folder: Path,
        space: ScheduleSpace,
        memory: MemoryModel,
        identity: str,
        *,
        quantity: str = "cycles",
        least: int = 1,
    ) -> None:
        text = json.dumps(_about(space, memory, identity), indent=1, sort_keys=True) + "\n"
        digest = hashlib.sha256(text.encode())
        name = _safe(space.workload.name)
        record = folder / f"{name}-{space.kind}-{digest.hexdigest()[:12]}.json"
        digest.update(quantity.encode())
        self._salt: Final = np.frombuffer(digest.digest(), dtype=np.uint64)[0]
        self._words: Final = _mapped(record, record.with_suffix(f".{quantity}"), text, space)
        self.values: Final[Cycles] = np.zeros(space.raw_size, dtype=np.int64)
        """What is known, int64 of shape (points,): `NOT_YET`, `ILLEGAL` or a count."""
        damaged = sum(self._read(start, least) for start in range(0, space.raw_size, _BLOCK))
        if damaged:
            print(  # noqa: T201  (a line of its own beside any output)
                f"{printable(name)}: {damaged:,} of {space.raw_size:,} points of the landscape "
                "are damaged on disk, or of an older version, and are measured anew",
                file=sys.stderr,
                flush=True,
            )

    def keep(self, places: npt.NDArray[np.int64], values: npt.ArrayLike) -> None:
        """Values of some points, from now on."""
        self.values[places] = values
        self._words[places] = self._sealed(places, self.values[places])

    def flush(self) -> None:
        """Bring what is kept to the disk."""
        self._words.flush()

    def _read(self, start: int, least: int) -> int:
        """Take a block from the file; how many of its points were damaged."""
        words = self._words[start : start + _BLOCK]
        places = np.arange(start, start + len(words))
        values = (words & ((np.uint64(1) << _VALUE_BITS) - np.uint64(1))).astype(np.int64) - 1
        good = self._sealed(places, values) == words
        good &= (values == ILLEGAL) | (values >= least)
        self.values[places] = np.where(good, values, NOT_YET)
        return int((~good & (words != 0)).sum())

    def _sealed(self, places: npt.NDArray[np.int64], values: Cycles) -> Words:
        """Values as they stand in the file."""
        code = (values + 1).astype(np.uint64)
        mixed = code * _MIX[0] ^ places.astype(np.uint64) * _MIX[1] ^ self._salt
        mixed = (mixed ^ mixed >> np.uint64(30)) * _MIX[2]
        sealed: Words = (mixed >> _VALUE_BITS | np.uint64(1)) << _VALUE_BITS | code
        return sealed


def _safe(layer: str) -> str:
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in layer[:_NAMED])


def _about(space: ScheduleSpace, memory: MemoryModel, identity: str) -> dict[str, Any]:
    return {
        "hw": space.hw.parameters(),
        "memory": asdict(memory),
        "workload": space.workload.to_mapping(),
        "space": space.kind,
        "knobs": {knob.name: [str(value) for value in knob.values] for knob in space.knobs},
        "rtl": identity,
    }


def _mapped(
    record: Path, data: Path, text: str, space: ScheduleSpace
) -> np.memmap[Any, np.dtype[np.uint64]]:
    """A file of words, opened or created with zeros."""
    bytes_ = space.raw_size * 8
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        if not record.exists() or not data.exists():
            with data.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, bytes_)  # a full disk kills who maps the file
            if not record.exists():
                write_whole(record, text)
        size = data.stat().st_size
        if size != bytes_:
            raise StoreError(
                f"the landscape must hold {bytes_} bytes",
                field=str(data),
                value=size,
                remedy="delete it",
            )
        return np.memmap(data, dtype=np.uint64, mode="r+", shape=(space.raw_size,))
    except OSError as error:
        raise StoreError(
            f"the folder of landscapes must be writable ({error.strerror})",
            field=str(record.parent),
        ) from error
