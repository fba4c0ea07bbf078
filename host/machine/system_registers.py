# SPDX-License-Identifier: Apache-2.0
"""The register map of a system of cores: the page that cores share, and the queue of each core.

A page has 4 KiB. Page 0 is shared; page 1 + i is the window of core i: at its start what a core by
itself has (`host.machine.registers`), from `QUEUE_BASE` on its queue.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from tilewright.host.machine.registers import Register

SYSTEM_ID: Final = 0x54575331
"""ASCII ``TWS1``: what the ID register of the shared page reads."""

PAGE: Final = 0x1000
QUEUE_BASE: Final = 0x400
"""Offset of the queue's registers in a core's window; below are those of a core by itself."""

CORE_TABLE: Final = 0x100
CORE_TABLE_STEP: Final = 0x10
SHARE_BASE: Final = 0x200
SHARE_STEP: Final = 0x40
SHARE_COUNTERS: Final = 0x10
"""Offset of the counters in the share of a core, 64 bits each, low word first."""


def window(core: int) -> int:
    """Byte offset of the window of a core."""
    return PAGE * (1 + core)


def _r(
    name: str, offset: int, access: str, meaning: str, *, kept: int = 0, reset: int = 0
) -> Register:
    return Register(
        name=name, offset=offset, access=access, meaning=meaning, kept=kept, reset=reset
    )


_WORD: Final = 0xFFFF_FFFF
_PAGES: Final = 0xFFFF_F000

SYSTEM_REGISTERS: Final = (
    _r("ID", 0x000, "ro", "0x54575331, ASCII TWS1"),
    _r("VERSION", 0x004, "ro", "of this register map"),
    _r("CONFIG_HASH", 0x008, "ro", "hash of the system that was elaborated"),
    _r("SHAPE", 0x00C, "ro", "bits 7:0 cores, 15:8 memory ports, 23:16 descriptors of a queue"),
    _r("START", 0x010, "wo",
       "bit i: as bit 0 of CTRL in the window of core i; of several bits all in the same cycle"),
    _r("QUEUE_ENABLE", 0x014, "rw", "bit i: the queue of core i may begin its next descriptor",
       kept=0xFF),
    _r("IRQ_PENDING", 0x018, "ro", "bit i: core i interrupts, by its window or its queue"),
    _r("TIME_LO", 0x01C, "ro", "cycles since the reset; a read keeps bits 63:32 in TIME_HI"),
    _r("TIME_HI", 0x020, "ro",
       "bits 63:32 as they were at the last read of a LO register of this page, counters included"),
    _r("WINDOW", 0x024, "rw",
       "cycles in which a budget counts, 1 to 65535 (files: from 16); a write of 0 has no effect",
       kept=0xFFFF),
    _r("PORT_LIMITS", 0x028, "rw",
       "bursts in flight of each memory port, 1 to 32 (0 counts as 1, more as 32): bits 7:0 reads, "
       "15:8 writes", kept=0xFFFF),
)  # fmt: skip
"""The shared page, without the core table and the shares."""

CORE_ENTRY: Final = (
    _r("HASH", 0x0, "ro", "CONFIG_HASH of the core"),
    _r("PORT", 0x4, "ro", "memory port that it is connected to"),
)
"""An entry of the core table, `CORE_TABLE_STEP` bytes each from `CORE_TABLE` on."""

SHARE_REGISTERS: Final = (
    _r(
        "WEIGHT",
        0x0,
        "rw",
        "bursts in a row while others want the port, 1 to 15 (0 counts as 1; bits above 3 are not "
        "kept). It counts in full where PORT_LIMITS is below the bursts that the core can have in "
        "flight",
        kept=0xF,
    ),
    _r(
        "READ_BUDGET",
        0x4,
        "rw",
        "beats a window that it may read, up to 65535; 0: no limit",
        kept=0xFFFF,
    ),
    _r(
        "WRITE_BUDGET",
        0x8,
        "rw",
        "beats a window that it may write, up to 65535; 0: no limit",
        kept=0xFFFF,
    ),
)
"""A core's share of its memory port, `SHARE_STEP` bytes each from `SHARE_BASE` on."""

SHARE_COUNTER_NAMES: Final = (
    ("read_beats", "beats of read bursts that the port took"),
    ("read_waited", "cycles in which a read waited for other cores or the limit of the port"),
    ("read_throttled", "cycles in which a read waited for the next window"),
    ("write_beats", "beats of write bursts that the port took"),
    ("write_waited", "the same of a write, its data included"),
    ("write_throttled", "cycles in which a write waited for the next window"),
)
"""(name, meaning) of what is counted of a core, in register order, since the reset; 48 bits."""

QUEUE_REGISTERS: Final = (
    _r("DESC_INSN_BASE_LO", 0x400, "rw", "of the next descriptor, as INSN_BASE", kept=_PAGES),
    _r("DESC_INSN_BASE_HI", 0x404, "rw", "bits 39:32", kept=0xFF),
    _r("DESC_INSN_COUNT", 0x408, "rw", "as INSN_COUNT", kept=_WORD),
    _r("DESC_MEM_BASE_LO", 0x40C, "rw", "as MEM_BASE", kept=_PAGES),
    _r("DESC_MEM_BASE_HI", 0x410, "rw", "bits 39:32", kept=0xFF),
    _r("DESC_MEM_SIZE_LO", 0x414, "rw", "as MEM_SIZE: no access beyond", kept=_PAGES),
    _r("DESC_MEM_SIZE_HI", 0x418, "rw", "bits 38:32", kept=0x7F),
    _r("DESC_WATCHDOG", 0x41C, "rw", "as WATCHDOG", kept=_WORD),
    _r("DESC_TAG", 0x420, "rw", "any number; the completion has it", kept=_WORD),
    _r("QUEUE_PUSH", 0x424, "wo",
       "appends a descriptor; bit 0: zero all scratchpads before it. One too many is dropped"),
    _r("QUEUE_STATUS", 0x428, "ro",
       "bits 7:0 descriptors (the one that runs included), 15:8 completions, bit 16: one runs, "
       "bit 17: one was dropped since the reset, bit 18: an error of the window's own run stands "
       "and none begins before a soft reset (CTRL of the window)"),
    _r("QUEUE_IRQ_ENABLE", 0x42C, "rw", "bit 0: interrupt while there is a completion", kept=1),
    _r("COMPLETION_POP", 0x430, "wo", "removes the oldest completion, which the next ones show"),
    _r("COMPLETION_TAG", 0x434, "ro", "DESC_TAG of its descriptor"),
    _r("COMPLETION_STATUS", 0x438, "ro",
       "bits 7:0 ErrorCode, bits 11:8 ErrorUnit, bit 16: ended well, bit 17: error, "
       "bit 18: a soft reset ended it, bit 19: it happened to the scrub before it"),
    _r("COMPLETION_ERROR_INSN", 0x43C, "ro", "as ERROR_INSN"),
    _r("COMPLETION_WAIT_STATE", 0x440, "ro", "as WAIT_STATE"),
    _r("COMPLETION_BEGIN_LO", 0x444, "ro", "TIME at which its program started"),
    _r("COMPLETION_BEGIN_HI", 0x448, "ro", "bits 47:32"),
    _r("COMPLETION_CYCLES_LO", 0x44C, "ro",
       "cycles of the run: the counter of that name, if it ended well"),
    _r("COMPLETION_CYCLES_HI", 0x450, "ro", "bits 47:32"),
)  # fmt: skip
"""The queue of a core, in its window."""


class Completion(IntFlag):
    """Bits of COMPLETION_STATUS."""

    DONE = 1 << 16
    ERROR = 1 << 17
    RESET = 1 << 18
    SCRUB = 1 << 19


class QueueStatus(IntFlag):
    """Bits of QUEUE_STATUS."""

    RUNNING = 1 << 16
    DROPPED = 1 << 17
    HELD = 1 << 18
