# SPDX-License-Identifier: Apache-2.0
"""Layouts of what the modules of the RTL hand to each other, as `tw_pkg` declares them.

Widths that depend on a configuration stay at the ports of the modules. Benches take the values
apart with `host.machine.isa.unpack_fields`.
"""

from __future__ import annotations

from typing import Final

from tilewright.host.machine.geometry import CONTROL_SIZES
from tilewright.host.machine.hwconfig import PARAMETERS
from tilewright.host.machine.isa import INSTRUCTION_BITS, Field

CONFIG: Final = (
    *(Field(name=p.name, bits=32, meaning=f"{p.unit}: {p.meaning}") for p in PARAMETERS),
    Field(name="config_hash", bits=32, meaning="HwConfig.config_hash of the above"),
    Field(name="data_path", bits=32, meaning="0: control and UOP alone, for simulation"),
    Field(name="address_bits", bits=32, meaning="of the memory port, 32 to 40"),
)

SIZES: Final = tuple(
    Field(name=size.name, bits=32, meaning=size.meaning) for size in reversed(CONTROL_SIZES)
)

ENTRY: Final = (
    Field(name="insn", bits=INSTRUCTION_BITS, meaning="the instruction"),
    Field(name="index", bits=32, meaning="its place in the program"),
)

ERROR: Final = (
    Field(name="valid", bits=1, meaning="there is one in this cycle"),
    Field(name="code", bits=8, meaning="error_e: the cause"),
    Field(name="index", bits=32, meaning="instruction that caused it"),
)

NEEDS: Final = (
    Field(name="pop", bits=4, meaning="tokens that it takes, by producer; none if it is wrong"),
    Field(name="banks", bits=4, meaning="ACC banks that others must not hold"),
    Field(name="illegal", bits=1, meaning="a field is wrong"),
    Field(name="unaligned", bits=1, meaning="no field is wrong but that rows start inside a tile"),
)

QUEUE: Final = (
    Field(name="entry", bits=288, type="entry_t", meaning="the oldest one of its queue"),
    Field(name="needs", bits=10, type="needs_t", meaning="of that entry"),
    Field(name="valid", bits=1, meaning="there is one"),
    Field(name="tokens", bits=4, meaning="available, by producer"),
)

UNIT: Final = (
    Field(name="error", bits=41, type="error_t", meaning="it halts the run"),
    Field(name="state", bits=4, type="wait_e", meaning="what it does or waits for"),
    Field(name="retire_index", bits=32, meaning="instruction that retires"),
    Field(name="retire", bits=1, meaning="an instruction has ended"),
    Field(name="idle", bits=1, meaning="nothing is left to do of what was taken"),
    Field(name="token_push", bits=4, meaning="given, by consumer"),
    Field(name="token_pop", bits=4, meaning="taken, by producer"),
    Field(name="take", bits=1, meaning="the entry leaves the queue"),
)

SPAD_WRITE: Final = (
    Field(name="tile", bits=18, meaning="the first one"),
    Field(name="slice", bits=10, meaning="beat within what DRAM holds of a wide tile"),
    Field(name="lane", bits=5, meaning="first narrow tile, or diagonal, within the beat"),
    Field(name="count", bits=5, meaning="narrow tiles, at least 1"),
    Field(name="pad", bits=1, meaning="the beat fills the whole tile"),
    Field(name="diagonal", bits=1, meaning="WGT: the data are a diagonal, zeros around it"),
    Field(name="phase", bits=4, meaning="WGT: block that has the diagonal"),
    Field(name="int4", bits=1, meaning="WGT: the data are 4-bit numbers, for two beats of a tile"),
    Field(name="scale", bits=4, meaning="WGT: what they are multiplied by, minus 1"),
)

FIRST_STEP: Final = (
    Field(name="beyond", bits=5, meaning="its tiles beyond the first"),
    Field(name="count", bits=5, meaning="its tiles"),
    Field(name="ends_row", bits=1, meaning="nothing is left of the row"),
    Field(name="few", bits=1, meaning="a row has no more tiles than a beat"),
    Field(name="lane_end", bits=1, meaning="no lane of the beat is left"),
    Field(name="lane", bits=5, meaning="first narrow tile within the beat"),
)

SETTINGS: Final = (
    Field(name="insn_base", bits=40, meaning="offset of the program from mem_base"),
    Field(name="insn_count", bits=32, meaning="instructions of the program"),
    Field(name="mem_base", bits=40, meaning="physical address of the program's memory"),
    Field(name="mem_size", bits=39, meaning="bytes of it"),
    Field(name="watchdog", bits=32, meaning="limit in cycles; 0: never"),
    Field(name="attributes", bits=11, meaning="of every burst: AxQOS, AxPROT, AxCACHE"),
)

STATUS: Final = (
    Field(name="busy", bits=1, meaning="a run has begun and not ended"),
    Field(name="done", bits=1, meaning="it has ended well"),
    Field(name="failed", bits=1, meaning="it has ended with an error: the next four tell"),
    Field(name="resetting", bits=1, meaning="a soft reset waits for the bus"),
    Field(name="error", bits=8, meaning="error_e"),
    Field(name="error_unit", bits=4, meaning="error_unit_e"),
    Field(name="error_index", bits=32, meaning="instruction that failed"),
    Field(name="waits", bits=16, meaning="wait_e of each unit at that time"),
)

STRUCTURES: Final = (
    ("config_t", CONFIG, "A configuration: the parameters of a core."),
    ("sizes_t", SIZES, "Sizes that control reads."),
    ("entry_t", ENTRY, "An entry of a unit's queue."),
    ("error_t", ERROR, "What a unit says is wrong; its wire says which unit."),
    ("needs_t", NEEDS, "What an entry needs before its unit takes it."),
    ("queue_t", QUEUE, "What a unit sees of its queue and of its tokens."),
    ("unit_t", UNIT, "What a unit takes and gives, and how it is."),
    ("spad_write_t", SPAD_WRITE, "Where LOAD puts a beat, or padding, in a scratchpad."),
    ("first_step_t", FIRST_STEP, "The first step of a region, known before the region begins."),
    ("settings_t", SETTINGS, "What a run works with, as the registers give it."),
    ("status_t", STATUS, "What has become of the run."),
)
"""Name in `tw_pkg`, fields from the lowest bit, what it is."""
