# SPDX-License-Identifier: Apache-2.0
"""The AXI4-Lite register map, error codes and counters: one description for RTL, C++ and Python.

A core by itself has one page of registers. A system has a shared page 0, and for core i page 1 + i,
its window: at its start what a core by itself has, from `QUEUE_BASE` on its queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

DEVICE_ID: Final = 0x54575231
"""ASCII ``TWR1``: what the ID register reads."""


@dataclass(frozen=True, kw_only=True)
class Register:
    """One 32-bit register."""

    name: str  # in capitals
    offset: int  # in bytes
    access: str  # ``ro``, ``rw`` or ``w1c``
    meaning: str  # of its bits
    kept: int = 0  # bits of a ``rw`` register that keep what is written; the others read as 0
    reset: int = 0  # what it reads after a hardware reset


def _r(
    name: str, offset: int, access: str, meaning: str, *, kept: int = 0, reset: int = 0
) -> Register:
    return Register(
        name=name, offset=offset, access=access, meaning=meaning, kept=kept, reset=reset
    )


ADDRESS_BITS: Final = 40
"""Of an address on the DRAM port."""

SIZE_BITS: Final = 39
"""Of MEM_SIZE: an offset inside of it plus a stride of an instruction cannot wrap."""

PAGE_BYTES: Final = 4096
"""Bases and sizes of memory are multiples of it."""

_WORD: Final = 0xFFFF_FFFF
_PAGES: Final = _WORD & -PAGE_BYTES
_HIGH_ADDRESS: Final = (1 << ADDRESS_BITS - 32) - 1
_HIGH_SIZE: Final = (1 << SIZE_BITS - 32) - 1

NOT_COHERENT: Final = 0x003
"""AXI_ATTRIBUTES for a memory port that snoops nothing: bufferable, modifiable."""

COHERENT: Final = 0x00F
"""AXI_ATTRIBUTES for a port that snoops the CPU's caches: write-back, allocate."""


REGISTERS: Final = (
    _r("ID", 0x000, "ro", "0x54575231, ASCII TWR1"),
    _r("ISA", 0x004, "ro", "instruction set version"),
    _r("CONFIG_HASH", 0x008, "ro", "hash of the configuration that was elaborated"),
    _r("CTRL", 0x00C, "rw",
       "bit 0: start (without any effect unless idle), bit 1: soft reset (a start in the same "
       "write has no effect); reads as 0"),
    _r("STATUS", 0x010, "ro", "bit 0: busy, bit 1: done, bit 2: error, bit 3: resetting"),
    _r("ERROR", 0x014, "ro", "bits 7:0 ErrorCode, bits 11:8 ErrorUnit"),
    _r("ERROR_INSN", 0x018, "ro",
       "index of the instruction that failed: the one whose data, answer or token was wrong"),
    _r("WAIT_STATE", 0x01C, "ro", "4 bits a unit: WaitState when the error was taken"),
    _r("IRQ_ENABLE", 0x020, "rw", "bit 0: done, bit 1: error", kept=0b11),
    _r("IRQ_STATUS", 0x024, "w1c", "bit 0: done, bit 1: error"),
    _r("INSN_BASE_LO", 0x028, "rw", "offset of the first instruction from MEM_BASE, 4 KiB aligned",
       kept=_PAGES),
    _r("INSN_BASE_HI", 0x02C, "rw", "bits 39:32", kept=_HIGH_ADDRESS),
    _r("INSN_COUNT", 0x030, "rw", "instructions in the program, all inside MEM_SIZE", kept=_WORD),
    _r("MEM_BASE_LO", 0x034, "rw", "physical address of the program's memory, 4 KiB aligned",
       kept=_PAGES),
    _r("MEM_BASE_HI", 0x038, "rw", "bits 39:32", kept=_HIGH_ADDRESS),
    _r("MEM_SIZE_LO", 0x03C, "rw",
       "bytes of the memory, a multiple of 4 KiB, MEM_BASE + MEM_SIZE at most 2^40; "
       "no access beyond", kept=_PAGES),
    _r("MEM_SIZE_HI", 0x040, "rw", "bits 38:32", kept=_HIGH_SIZE),
    _r("WATCHDOG", 0x044, "rw", "cycles without progress before the watchdog fires; 0: never",
       kept=_WORD),
    _r("SNAPSHOT", 0x048, "rw", "any write copies all counters to the readable copies"),
    _r("AXI_ATTRIBUTES", 0x04C, "rw",
       "of every burst on the DRAM port: bits 3:0 AxCACHE, 6:4 AxPROT, 11:8 AxQOS", kept=0xF7F,
       reset=NOT_COHERENT),
)  # fmt: skip
"""Control registers; counters follow at `COUNTER_BASE`.

A run takes what is kept from INSN_BASE_LO on when its start is accepted: a later write is for the
next run."""

COUNTER_BASE: Final = 0x100
"""Byte offset of the first counter; each reads as 64 bits, low word first.

A counter holds 40 bits, wraps after 2^40 (three hours of cycles at 100 MHz), with zeros above."""

UNIT_COUNTER_STATES: Final = (
    ("busy", "cycles in which the unit worked"),
    ("token_load", "cycles waiting for a token from load"),
    ("token_gemm", "cycles waiting for a token from gemm"),
    ("token_vector", "cycles waiting for a token from vector"),
    ("token_store", "cycles waiting for a token from store"),
    ("memory", "cycles waiting for the bus (load, store) or an ACC bank (gemm, vector)"),
    ("idle", "cycles without an instruction"),
)
"""Per-unit states; every unit is in exactly one of them in every cycle of a run."""

UNIT_NAMES: Final = ("load", "gemm", "vector", "store")


def _counters() -> tuple[tuple[str, str], ...]:
    counters = [("cycles", "cycles from the start write to the retirement of FINISH")]
    for unit in UNIT_NAMES:
        for state, meaning in UNIT_COUNTER_STATES:
            if state == f"token_{unit}":
                continue
            counters.append((f"{unit}_{state}", meaning))
    counters += [(f"{unit}_instructions", f"instructions retired by {unit}") for unit in UNIT_NAMES]
    counters += [
        ("macs_tiles", "tile products issued (batch x block_in x block_out MACs each)"),
        ("vector_tiles", "tiles processed by vector"),
        ("bytes_read", "bytes of accepted read beats"),
        ("bytes_written", "bytes of write strobes set"),
        ("read_bursts", "read bursts issued"),
        ("write_bursts", "write bursts issued"),
    ]
    return tuple(counters)


COUNTERS: Final = _counters()
"""(name, meaning) of every counter, in register order."""


class Ctrl(IntFlag):
    """Bits of CTRL."""

    START = 1
    SOFT_RESET = 2


class Status(IntFlag):
    """Bits of STATUS."""

    BUSY = 1
    DONE = 2
    ERROR = 4
    RESETTING = 8


class ErrorUnit(IntEnum):
    """Who raised an error."""

    LOAD = 0
    GEMM = 1
    VECTOR = 2
    STORE = 3
    FETCH = 4
    WATCHDOG = 5


class ErrorCode(IntEnum):
    """Why the accelerator stopped."""

    NONE = 0
    ILLEGAL_OPCODE = 1
    ILLEGAL_FIELD = 2
    SRAM_RANGE = 3
    DRAM_RANGE = 4
    DRAM_ALIGNMENT = 5
    AXI_READ = 6
    AXI_WRITE = 7
    TOKEN_OVERFLOW = 8
    WATCHDOG = 9
    ACC_BANK = 10
    NO_FINISH = 11
    SETTINGS = 12
    AXI_LAST = 13


ERROR_TEXT: Final = {
    ErrorCode.NONE: "no error",
    ErrorCode.ILLEGAL_OPCODE: "illegal opcode",
    ErrorCode.ILLEGAL_FIELD: "illegal field (memory, operation, token to itself, zero count)",
    ErrorCode.SRAM_RANGE: "scratchpad index out of range",
    ErrorCode.DRAM_RANGE: "DRAM address outside MEM_SIZE",
    ErrorCode.DRAM_ALIGNMENT: "DRAM offset not aligned to min(tile, beat)",
    ErrorCode.AXI_READ: "AXI read response SLVERR or DECERR",
    ErrorCode.AXI_WRITE: "AXI write response SLVERR or DECERR",
    ErrorCode.TOKEN_OVERFLOW: "token counter overflow",
    ErrorCode.WATCHDOG: "no progress within the watchdog limit",
    ErrorCode.ACC_BANK: "ACC access outside the declared banks",
    ErrorCode.NO_FINISH: "program ended without FINISH",
    ErrorCode.AXI_LAST: "AXI read burst of another length than asked for (RLAST)",
    ErrorCode.SETTINGS: "MEM_BASE + MEM_SIZE beyond the addresses of the memory port (2^40, or "
    "fewer on a board), or the program not inside MEM_SIZE",
}


class WaitState(IntEnum):
    """What a unit was doing when the error was taken (4 bits a unit in WAIT_STATE)."""

    IDLE = 0
    BUSY = 1
    TOKEN_LOAD = 2
    TOKEN_GEMM = 3
    TOKEN_VECTOR = 4
    TOKEN_STORE = 5
    MEMORY = 6


# -- systems of cores ---------------------------------------------------------------------------

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
    _r("WEIGHT", 0x0, "rw",
       "bursts in a row while others want the port, 1 to 15 (0 counts as 1; bits above 3 are not "
       "kept). It counts in full where PORT_LIMITS is below the bursts that the core can have in "
       "flight", kept=0xF),
    _r("READ_BUDGET", 0x4, "rw", "beats a window that it may read, up to 65535; 0: no limit",
       kept=0xFFFF),
    _r("WRITE_BUDGET", 0x8, "rw", "beats a window that it may write, up to 65535; 0: no limit",
       kept=0xFFFF),
)  # fmt: skip
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
