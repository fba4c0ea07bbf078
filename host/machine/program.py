# SPDX-License-Identifier: Apache-2.0
"""`Program`: an instruction stream with its memory layout, ready to run on a `Device`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ProgramError
from tilewright.host.common.summaries import Summarised
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.machine.isa import OPCODE_MASK, Opcode

REGION_ALIGNMENT = 4096
"""Regions start on 4 KiB boundaries: aligned for every tile and every AXI beat."""


@dataclass(frozen=True, kw_only=True)
class Region:
    """A named range of the program's memory, in bytes from its start."""

    offset: int
    nbytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Program(Summarised):
    """Instructions, constants and layout.

    Attributes:
        regions: memory layout; ``insn`` is the instruction stream and ``uop`` the micro-ops.
        constants: initial bytes of some regions (``uop``; the instruction stream is implied).
    """

    config_hash: int  # `HwConfig.config_hash` of the configuration it was built for
    instructions: bytes  # concatenated 32-byte instructions, ending with FINISH
    regions: Mapping[str, Region]
    constants: Mapping[str, bytes]
    memory_bytes: int  # size of the whole memory image

    def _told(self) -> Mapping[str, object]:
        return {
            "instructions": f"{len(self.instructions) // INSTRUCTION_BYTES:,} instructions",
            "memory": f"{self.memory_bytes:,} bytes",
            "regions": ", ".join(self.regions),
            "configuration": f"{self.config_hash:08x}",
        }

    def __post_init__(self) -> None:
        """Refuse regions that leave the memory or overlap."""
        end, last = 0, ""
        for name, region in sorted(self.regions.items(), key=lambda item: item[1].offset):
            if region.offset < end or region.nbytes < 0:
                raise ProgramError("regions must not overlap", field=f"{last}, {name}")
            end, last = region.offset + region.nbytes, name
        if end > self.memory_bytes:
            raise ProgramError(
                f"regions must lie in the program's {self.memory_bytes} bytes",
                field=last,
                value=end,
            )

    @property
    def instruction_count(self) -> int:
        """Number of instructions."""
        return len(self.instructions) // INSTRUCTION_BYTES

    def executed(self) -> list[bytes]:
        """The instructions before the first FINISH, encoded: no device runs what follows it."""
        found = []
        for start in range(0, len(self.instructions), INSTRUCTION_BYTES):
            if self.instructions[start] & OPCODE_MASK == Opcode.FINISH:
                break
            found.append(self.instructions[start : start + INSTRUCTION_BYTES])
        return found

    def image(self) -> npt.NDArray[np.uint8]:
        """A fresh memory image (uint8, ``memory_bytes``) with instructions and constants."""
        memory = np.zeros(self.memory_bytes, dtype=np.uint8)
        self.write(memory, "insn", np.frombuffer(self.instructions, dtype=np.uint8))
        for name, data in self.constants.items():
            self.write(memory, name, np.frombuffer(data, dtype=np.uint8))
        return memory

    def write(
        self, memory: npt.NDArray[np.uint8], region: str, data: npt.NDArray[np.uint8]
    ) -> None:
        """Copy bytes to the start of a region."""
        target = self._region(region)
        if data.size > target.nbytes:
            raise ProgramError(
                f"data must fit the region's {target.nbytes} bytes",
                field=region,
                value=int(data.size),
            )
        memory[target.offset : target.offset + data.size] = data.ravel()

    def read(self, memory: npt.NDArray[np.uint8], region: str) -> npt.NDArray[np.uint8]:
        """A view of a region's bytes."""
        target = self._region(region)
        return memory[target.offset : target.offset + target.nbytes]

    def check(self, hw: HwConfig) -> None:
        """Refuse a program that was built for another configuration."""
        if self.config_hash != hw.config_hash:
            raise ProgramError(
                f"program was built for configuration {self.config_hash:#010x}, "
                f"the device is {hw.config_hash:#010x} ({hw.name})",
                field="config_hash",
                remedy="lower the workload again for this configuration",
            )

    def _region(self, name: str) -> Region:
        try:
            return self.regions[name]
        except KeyError as error:
            raise ProgramError(
                "no such region", field=name, remedy=f"regions: {', '.join(self.regions)}"
            ) from error


def layout_regions(sizes: Mapping[str, int]) -> tuple[dict[str, Region], int]:
    """Place regions one after another, each aligned; returns them and the total bytes."""
    regions: dict[str, Region] = {}
    offset = 0
    for name, nbytes in sizes.items():
        regions[name] = Region(offset=offset, nbytes=nbytes)
        offset += -(-max(nbytes, 1) // REGION_ALIGNMENT) * REGION_ALIGNMENT
    return regions, offset
