# SPDX-License-Identifier: Apache-2.0
"""`HwConfig`: the parameters of one accelerator, checked by the same rules as the RTL.

`PARAMETERS` and `RULES` are the single source of truth. `host.machine.codegen` generates the
SystemVerilog module that refuses an illegal elaboration with the same rule and text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.calls import named
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import check_name
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.plain_values import is_integer, refuse_unknown
from tilewright.host.common.yaml_files import named_file, read_yaml_mapping
from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES

ISA_VERSION: Final = 3
"""Version of the instruction set and register map; part of every configuration hash."""

MAX_ACC_BANKS: Final = 4
"""Banks of the accumulator scratchpad that an instruction can name."""

PARAM_BYTES_PER_CHANNEL: Final = 16
"""Bytes of one output channel's entry in the PARAM scratchpad."""

UOP_BYTES: Final = 8
INSTRUCTION_BYTES: Final = 32


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One RTL parameter: its Python name, SystemVerilog name, unit, range and meaning."""

    name: str
    rtl_name: str
    unit: str
    low: int
    high: int
    power_of_two: bool
    meaning: str


def _p(
    name: str, rtl_name: str, unit: str, low: int, high: int, meaning: str, pow2: bool = True
) -> Parameter:
    return Parameter(
        name=name,
        rtl_name=rtl_name,
        unit=unit,
        low=low,
        high=high,
        power_of_two=pow2,
        meaning=meaning,
    )


_KIB: Final = 1024
_MIB: Final = 1024 * 1024

PARAMETERS: Final[tuple[Parameter, ...]] = (
    _p("batch", "Batch", "rows", 1, 8, "rows of the activation tile"),
    _p("block_in", "BlockIn", "channels", 4, 64, "input channels of a tile"),
    _p("block_out", "BlockOut", "channels", 4, 64, "output channels of a tile"),
    _p("inp_bytes", "InpBytes", "bytes", _KIB, _MIB, "INP scratchpad (activations)"),
    _p("wgt_bytes", "WgtBytes", "bytes", _KIB, _MIB, "WGT scratchpad (weights)"),
    _p("acc_bytes", "AccBytes", "bytes", _KIB, _MIB, "ACC scratchpad (int32 accumulators)"),
    _p("out_bytes", "OutBytes", "bytes", _KIB, _MIB, "OUT scratchpad (int8 results)"),
    _p("uop_bytes", "UopBytes", "bytes", _KIB, _MIB, "UOP scratchpad (micro-operations)"),
    _p("res_bytes", "ResBytes", "bytes", _KIB, _MIB, "RES scratchpad (int8 residuals)"),
    _p("param_bytes", "ParamBytes", "bytes", _KIB, _MIB, "PARAM scratchpad (requantisation)"),
    _p("axi_data_bits", "AxiDataBits", "bits", 32, 512, "width of the AXI4 data bus"),
    _p("axi_burst_beats", "AxiBurstBeats", "beats", 1, 64,
       "longest AXI burst (16 on an AXI3 port)"),
    _p("read_outstanding", "ReadOutstanding", "bursts", 1, 16, "reads in flight", pow2=False),
    _p("write_outstanding", "WriteOutstanding", "bursts", 1, 16, "writes in flight", pow2=False),
    _p("vector_lanes", "VectorLanes", "elements", 1, 512, "elements a cycle of the vector unit"),
    _p("mac_pipeline", "MacPipeline", "stages", 1, 6, "registers of the MAC reduction", pow2=False),
    _p("mac_packed", "MacPacked", "flag", 0, 1, "1: two int8 MACs share one DSP multiplier",
       pow2=False),
    _p("mac_lut_columns", "MacLutColumns", "channels", 0, 64,
       "output channels, counted from the last, that multiply in LUTs instead of DSPs", pow2=False),
    _p("activation_table", "ActivationTable", "flag", 0, 1,
       "1: requantised results can be looked up in a table of 256 entries", pow2=False),
    _p("row_unit", "RowUnit", "flag", 0, 1,
       "1: VECTOR reduces rows, takes operands from ACC, squares, has powers of two", pow2=False),
    _p("int4_weights", "Int4Weights", "form", 0, 2,
       "1: LOAD unpacks weights that DRAM holds with 4 bits; 2: groups of them have scales",
       pow2=False),
    _p("acc_bank_count", "AccBankCount", "banks", 2, MAX_ACC_BANKS,
       "banks of ACC, fewer when it holds fewer tiles; units use different ones at the same time"),
)  # fmt: skip
"""Every RTL parameter, in the order of the top module's parameter list."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A legality rule that spans parameters.

    Attributes:
        expression: holds for legal configurations; integer arithmetic over parameter names,
            written so that it means the same in Python and in SystemVerilog.
    """

    name: str  # short identifier
    expression: str
    field: str  # the parameter that the message names
    text: str  # what must hold
    remedy: str  # what to change


def _range_rule(p: Parameter) -> Rule:
    return Rule(
        name=f"{p.name}_range",
        expression=f"({p.name} >= {p.low}) & ({p.name} <= {p.high})",
        field=p.name,
        text=f"must be from {p.low} to {p.high} {p.unit}",
        remedy="choose a value in that range",
    )


def _pow2_rule(p: Parameter) -> Rule:
    return Rule(
        name=f"{p.name}_power_of_two",
        expression=f"({p.name} & ({p.name} - 1)) == 0",
        field=p.name,
        text="must be a power of two",
        remedy="round it to the nearest power of two",
    )


def _two_tiles_rule(field: str, tile: str, tile_text: str) -> Rule:
    return Rule(
        name=f"{field}_two_tiles",
        expression=f"{field} >= 2 * {tile}",
        field=field,
        text=f"must hold at least two tiles of {tile_text} bytes",
        remedy="enlarge the buffer or shrink the tile",
    )


_OPTIONS: Final = {"activation_table": 0, "row_unit": 0, "int4_weights": 0, "acc_bank_count": 4}
"""Parameters by the value with which the hardware is as it was without them."""

TIMING_PARAMETERS: Final = (
    "batch",
    "block_in",
    "block_out",
    "axi_bytes",
    "axi_burst_beats",
    "read_outstanding",
    "write_outstanding",
    "vector_lanes",
    "mac_pipeline",
    "int4_tile_bytes",
)
"""What shapes time: configurations that agree in these take the same cycles for a program."""

RULES: Final[tuple[Rule, ...]] = (
    *(_range_rule(p) for p in PARAMETERS),
    *(_pow2_rule(p) for p in PARAMETERS if p.power_of_two),
    Rule(
        name="macs_limit",
        expression="batch * block_in * block_out <= 4096",
        field="block_out",
        text="batch x block_in x block_out must be at most 4096",
        remedy="shrink batch, block_in or block_out",
    ),
    _two_tiles_rule("inp_bytes", "batch * block_in", "batch x block_in"),
    _two_tiles_rule("wgt_bytes", "block_in * block_out", "block_in x block_out"),
    _two_tiles_rule("acc_bytes", "4 * batch * block_out", "4 x batch x block_out"),
    _two_tiles_rule("out_bytes", "batch * block_out", "batch x block_out"),
    _two_tiles_rule("res_bytes", "batch * block_out", "batch x block_out"),
    _two_tiles_rule("param_bytes", "16 * block_out", "16 x block_out"),
    Rule(
        name="axi_within_acc_tile",
        expression="axi_data_bits <= 32 * batch * block_out",
        field="axi_data_bits",
        text="must not exceed an accumulator tile (32 x batch x block_out bits)",
        remedy="narrow the bus or widen block_out",
    ),
    Rule(
        name="vector_lanes_within_tile",
        expression="vector_lanes <= batch * block_out",
        field="vector_lanes",
        text="must not exceed the elements of an output tile (batch x block_out)",
        remedy="lower vector_lanes",
    ),
    Rule(
        name="vector_lanes_share",
        expression="vector_lanes * 64 >= batch * block_out",
        field="vector_lanes",
        text="must be at least 1/64 of an output tile (batch x block_out)",
        remedy="raise vector_lanes",
    ),
    Rule(
        name="mac_lut_columns_within_tile",
        expression="mac_lut_columns <= block_out",
        field="mac_lut_columns",
        text="must not exceed the output channels of a tile (block_out)",
        remedy="lower mac_lut_columns",
    ),
    Rule(
        name="int4_weights_two_beats",
        expression="(int4_weights > 0) * axi_data_bits <= 4 * block_in * block_out",
        field="int4_weights",
        text="needs weight tiles of at least two beats (block_in x block_out bytes)",
        remedy="narrow the bus, widen the array or set it to 0",
    ),
    Rule(
        name="read_fifo_burst",
        expression="axi_burst_beats * axi_data_bits <= 32768",
        field="axi_burst_beats",
        text="a burst must not exceed 4096 bytes",
        remedy="shorten the burst",
    ),
)
"""Every legality rule, in the order in which they are checked."""


@dataclass(frozen=True, kw_only=True)
class HwConfig:
    """One legal accelerator configuration; construction refuses an illegal one.

    Sizes are in the units of `PARAMETERS`. `name` is a label: it is not part of the hash.

    Raises:
        ConfigError: on the first rule of `RULES` that does not hold.

    Example:
        >>> import tilewright as tw
        >>> hw = tw.HwConfig(name="mine", block_in=8, block_out=8, vector_lanes=8)
        >>> hw.macs_per_cycle, hw.inp_tile_bytes
        (64, 8)
    """

    name: str = "custom"
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    inp_bytes: int = 32 * _KIB
    wgt_bytes: int = 256 * _KIB
    acc_bytes: int = 128 * _KIB
    out_bytes: int = 32 * _KIB
    uop_bytes: int = 32 * _KIB
    res_bytes: int = 32 * _KIB
    param_bytes: int = 16 * _KIB
    axi_data_bits: int = 64
    axi_burst_beats: int = 16
    read_outstanding: int = 8
    write_outstanding: int = 4
    vector_lanes: int = 16
    mac_pipeline: int = 4
    mac_packed: int = 1
    mac_lut_columns: int = 0
    activation_table: int = 0
    row_unit: int = 0
    int4_weights: int = 0
    acc_bank_count: int = 4

    def __post_init__(self) -> None:
        """Check types, then every rule in order."""
        for parameter in PARAMETERS:
            value = getattr(self, parameter.name)
            if not is_integer(value):
                raise ConfigError(
                    f"must be an integer ({parameter.unit})",
                    field=parameter.name,
                    value=value,
                    remedy=f"use a whole number from {parameter.low} to {parameter.high}",
                )
        check_name(self.name, "name")
        values = self.parameters()
        for rule in RULES:
            if not eval(_COMPILED[rule.name], {"__builtins__": {}}, values):
                raise ConfigError(
                    rule.text, field=rule.field, value=values[rule.field], remedy=rule.remedy
                )

    # -- identity ---------------------------------------------------------------------------

    def parameters(self) -> dict[str, int]:
        """The RTL parameters by Python name, without the label."""
        return {p.name: getattr(self, p.name) for p in PARAMETERS}

    @property
    def config_hash(self) -> int:
        """32-bit identity of the RTL parameters and the ISA version (a hardware register).

        An option that is off is left out: hardware without it keeps the identity that it had before
        there was the option.
        """
        values = self.parameters()
        for option, without in _OPTIONS.items():
            if values[option] == without:
                del values[option]
        text = json.dumps({"isa": ISA_VERSION, **values}, sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    def without_options(self) -> HwConfig:
        """The same hardware without options: what can be left out and is an addition elsewhere."""
        return self.with_(**_OPTIONS)

    def with_(self, **changes: Any) -> HwConfig:
        """A copy with some fields replaced (and validated)."""
        return replace(self, **changes)

    # -- derived geometry (bytes, tiles) ----------------------------------------------------

    @property
    def inp_tile_bytes(self) -> int:
        """Bytes of one INP tile: batch x block_in int8."""
        return self.batch * self.block_in

    @property
    def wgt_tile_bytes(self) -> int:
        """Bytes of one WGT tile: block_out x block_in int8."""
        return self.block_in * self.block_out

    @property
    def int4_tile_bytes(self) -> int:
        """Bytes in DRAM of a WGT tile with 4-bit weights, scales included; 0: there are none.

        Each beat of a bus of B bytes has a scale of 4 bits. Scales fill whole beats.
        """
        weights = self.wgt_tile_bytes // 2
        if self.int4_weights < 2:
            return weights * self.int4_weights
        return weights + max(self.axi_bytes, weights // (2 * self.axi_bytes))

    @property
    def acc_tile_bytes(self) -> int:
        """Bytes of one ACC tile: batch x block_out int32."""
        return 4 * self.batch * self.block_out

    @property
    def out_tile_bytes(self) -> int:
        """Bytes of one OUT (and RES) tile: batch x block_out int8."""
        return self.batch * self.block_out

    @property
    def param_tile_bytes(self) -> int:
        """Bytes of one PARAM tile: block_out entries of 16 bytes."""
        return PARAM_BYTES_PER_CHANNEL * self.block_out

    @property
    def inp_depth(self) -> int:
        """Tiles in INP."""
        return self.inp_bytes // self.inp_tile_bytes

    @property
    def wgt_depth(self) -> int:
        """Tiles in WGT."""
        return self.wgt_bytes // self.wgt_tile_bytes

    @property
    def acc_depth(self) -> int:
        """Tiles in ACC."""
        return self.acc_bytes // self.acc_tile_bytes

    @property
    def out_depth(self) -> int:
        """Tiles in OUT."""
        return self.out_bytes // self.out_tile_bytes

    @property
    def res_depth(self) -> int:
        """Tiles in RES."""
        return self.res_bytes // self.out_tile_bytes

    @property
    def uop_depth(self) -> int:
        """Micro-operations in UOP."""
        return self.uop_bytes // UOP_BYTES

    @property
    def param_depth(self) -> int:
        """Tiles in PARAM."""
        return self.param_bytes // self.param_tile_bytes

    @property
    def table_depth(self) -> int:
        """Rows of the activation table, 0 when there is none."""
        return self.activation_table * TABLE_ENTRIES // TABLE_ROW_ENTRIES

    @property
    def axi_bytes(self) -> int:
        """Bytes of one AXI beat."""
        return self.axi_data_bits // 8

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates a cycle."""
        return self.batch * self.block_in * self.block_out

    @property
    def acc_banks(self) -> int:
        """Banks that ACC really has (a bank holds at least one tile)."""
        return min(self.acc_bank_count, self.acc_depth)

    def acc_bank_mask(self, first: int, count: int) -> int:
        """Bit mask of the banks that tiles ``first .. first + count - 1`` of ACC touch."""
        per_bank = self.acc_depth // self.acc_banks
        low, high = first // per_bank, (first + count - 1) // per_bank
        return ((1 << (high - low + 1)) - 1) << low

    # -- YAML -------------------------------------------------------------------------------

    def to_yaml(self) -> str:
        """YAML text that `load_hwconfig` reads back."""
        import yaml  # noqa: PLC0415  (a board that runs a bundle has none)

        return str(yaml.safe_dump(asdict(self), sort_keys=False))

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], *, origin: str = "") -> HwConfig:
        """Build from a mapping (a parsed YAML document).

        Raises:
            ConfigError: on an unknown key or a broken rule.
        """
        known = [each.name for each in fields(cls)]
        refuse_unknown(data, known, of="a hardware configuration", where=origin)
        return cls(**data)


_COMPILED: Final = {rule.name: compile(rule.expression, rule.name, "eval") for rule in RULES}

CONFIG_DIR: Final = CONSTRAINTS_DIR / "configs"

TUNED: Final = "tuned"
"""Key of a configuration's file under which a study writes what it found on it."""


def named_configs() -> tuple[str, ...]:
    """Names of the configurations that ship with Tilewright."""
    return tuple(sorted(p.stem for p in CONFIG_DIR.glob("*.yaml")))


@named
def load_hwconfig(name_or_path: str | Path | HwConfig) -> HwConfig:
    """Load a named configuration (``pynq-16x16``) or a YAML file; a loaded one stays as it is.

    Raises:
        ConfigError: unknown name, unreadable file, or an illegal configuration.

    Example:
        >>> import tilewright as tw
        >>> hw = tw.load_hwconfig("pynq-16x16")
        >>> hw.batch, hw.block_in, hw.block_out
        (1, 16, 16)
    """
    if isinstance(name_or_path, HwConfig):
        return name_or_path
    path = named_file(name_or_path, CONFIG_DIR, "configuration", "hw", named_configs())
    data = read_yaml_mapping(path, "a hardware configuration")
    data.setdefault("name", path.stem)
    data.pop(TUNED, None)
    return HwConfig.from_mapping(data, origin=str(path))
