# SPDX-License-Identifier: Apache-2.0
"""Every cocotb bench over its grid of parameters: a small one by default, all with `-m slow`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from builds import run_top, run_unit
from support.randomness import often

from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES


def bench(
    unit: str,
    names: str = "",
    *fast: tuple[int, ...],
    slow: tuple[tuple[int, ...], ...] = (),
    wrapper: bool = False,
    fixed: Mapping[str, int] = MappingProxyType({}),
) -> Callable[[dict[str, int]], None]:
    """The test of a unit: a fast run draws one of ``fast``, a slow run takes all of both.

    ``names`` are the parameters that the values of each case are for; with `wrapper` a bench of
    ``hdl`` flattens the ports.
    """

    def cases(rows: tuple[tuple[int, ...], ...], *marks: pytest.MarkDecorator) -> list[Any]:
        return [
            pytest.param(
                dict(zip(names.split(), row, strict=True)) | dict(fixed),
                id="-".join(map(str, row)),
                marks=marks,
            )
            for row in rows
        ]

    @pytest.mark.parametrize(
        "parameters", often(unit, cases(fast or ((),)), 1) + cases(slow, pytest.mark.slow)
    )
    def runs(parameters: dict[str, int]) -> None:
        run_unit(unit, parameters, wrapper=wrapper)

    return runs


TABLE_ROWS = TABLE_ENTRIES // TABLE_ROW_ENTRIES

test_gemm = bench(
    "tw_gemm",
    "Batch BlockIn BlockOut MacPipeline MacPacked",
    (1, 4, 4, 1, 0),
    (2, 8, 4, 3, 1),
    slow=((1, 4, 8, 2, 1), (4, 4, 4, 6, 0), (1, 16, 16, 2, 1)),
    fixed={"UopDepth": 64, "InpDepth": 32, "WgtDepth": 32, "AccDepth": 64, "AccBankShift": 4},
)
test_vector = bench(
    "tw_vector",
    "Batch BlockOut Lanes ParRowBytes TableDepth RowUnit",
    (1, 4, 4, 32, 0, 0),
    (1, 4, 4, 32, TABLE_ROWS, 1),
    (2, 8, 4, 64, TABLE_ROWS, 1),
    slow=(
        (1, 8, 1, 32, TABLE_ROWS, 1),
        (2, 4, 8, 32, TABLE_ROWS, 1),
        (4, 4, 2, 64, TABLE_ROWS, 1),
        (2, 16, 16, 32, TABLE_ROWS, 1),
        (1, 64, 64, 32, TABLE_ROWS, 1),
    ),
    fixed={"ParDepth": 8, "AccDepth": 64, "OutDepth": 32, "ResDepth": 32, "AccBankShift": 4},
)
test_store = bench(
    "tw_store",
    "BeatBytes BurstBeats Outstanding TileBytes OutDepth",
    (8, 16, 4, 16, 64),
    (16, 4, 2, 4, 64),
    slow=((4, 1, 1, 8, 32), (8, 64, 16, 8, 64), (64, 16, 3, 4, 128)),
)
test_load = bench(
    "tw_load",
    "BeatBytes BurstBeats InpTileBytes WgtTileBytes AccTileBytes ResTileBytes DiagBytes DiagBlocks"
    " TableDepth Int4Weights",
    (8, 16, 4, 16, 16, 4, 4, 1, TABLE_ROWS, 1),
    (4, 16, 8, 128, 16, 4, 8, 2, TABLE_ROWS, 2),
    (16, 4, 16, 64, 16, 4, 4, 4, TABLE_ROWS, 2),
    (8, 16, 16, 256, 64, 16, 16, 1, 0, 0),
    slow=(
        (4, 1, 4, 16, 32, 8, 4, 1, TABLE_ROWS, 2),
        (8, 64, 8, 64, 64, 16, 8, 1, TABLE_ROWS, 2),
        (64, 16, 4, 16, 64, 16, 4, 1, TABLE_ROWS, 0),
        (32, 64, 8, 512, 64, 16, 8, 8, TABLE_ROWS, 2),
    ),
    fixed={
        "ParTileBytes": 64,
        "InpDepth": 128,
        "WgtDepth": 32,
        "AccDepth": 64,
        "UopDepth": 128,
        "ParDepth": 8,
        "ResDepth": 128,
        "AccBankShift": 4,
    },
)
test_fifo = bench(
    "tw_fifo",
    "Width Depth KeyBits",
    (8, 4, 0),
    (12, 4, 5),
    slow=((1, 2, 0), (2, 2, 1), (280, 16, 0), (300, 16, 10)),
)
test_tokens = bench("tw_tokens", "CountBits", (2,), slow=((16,),), wrapper=True)
test_rows = bench("tw_rows", "AddrBits", (40,), slow=((3,),))
test_bursts = bench("tw_bursts", "BeatBytes BurstBeats", (8, 16), slow=((4, 1), (16, 64), (64, 64)))
test_hold = bench("tw_hold", "BeatBytes BurstBeats", (8, 16), slow=((16, 1), (64, 64)))
test_padding = bench("tw_padding")
test_read = bench("tw_read", "BeatBytes Outstanding", (8, 4), slow=((4, 1), (64, 16)), wrapper=True)
test_fetch = bench(
    "tw_fetch", "BeatBytes BurstBeats", (8, 16), (32, 64), slow=((4, 1), (16, 2), (64, 1))
)
test_spad = bench(
    "tw_spad",
    "TileBytes ReadBytes BeatBytes TotalBytes DiagBytes RowBytes Int4",
    (16, 16, 8, 1024, 0, 16, 0),
    (4, 4, 16, 1024, 0, 16, 0),
    (64, 64, 4, 4096, 8, 8, 1),
    (16, 16, 64, 4096, 4, 4, 0),
    (128, 128, 16, 8192, 8, 16, 0),
    (32, 32, 16, 4096, 4, 4, 2),
    slow=(
        (256, 256, 8, 16384, 16, 16, 2),
        (128, 128, 8, 8192, 8, 8, 0),
        (256, 256, 4, 16384, 4, 64, 0),
        (16, 16, 16, 4096, 4, 4, 0),
        (8, 8, 8, 1024, 0, 16, 0),
        (64, 32, 8, 2048, 0, 16, 0),
        (64, 64, 4, 4096, 0, 16, 0),
        (8, 8, 64, 1024, 0, 16, 0),
    ),
)
test_table = bench(
    "tw_table", "Lanes BeatBytes Present", (4, 8, 1), slow=((1, 4, 1), (8, 64, 1), (4, 8, 0))
)
test_out = bench(
    "tw_out",
    "TileBytes PartBytes BeatBytes TotalBytes",
    (16, 4, 8, 1024),
    (4, 4, 16, 1024),
    slow=((8, 8, 8, 1024), (8, 1, 64, 2048), (64, 16, 4, 2048)),
)
test_acc = bench(
    "tw_acc",
    "TileBytes PartBytes BeatBytes TotalBytes Banks",
    (32, 16, 8, 1024, 4),
    slow=(
        (16, 16, 16, 1024, 4),
        (64, 4, 16, 1024, 4),
        (512, 512, 8, 1024, 2),
        (64, 16, 64, 4096, 4),
    ),
)
test_mac = bench(
    "tw_mac",
    "Batch BlockIn BlockOut Pipeline",
    (1, 8, 4, 6),
    slow=((1, 4, 4, 6), (2, 8, 4, 6), (1, 16, 4, 6), (1, 16, 16, 2), (1, 64, 4, 3)),
    wrapper=True,
)
test_requant = bench("tw_requant", wrapper=True)
test_regs = bench("tw_regs", "ConfigHash", (0x1234ABCD,), wrapper=True)
test_settings = bench("tw_settings", "AddressBits", (32,), (40,))
test_control = bench("tw_control", wrapper=True)
test_queue = bench("tw_queue", wrapper=True)
test_arbiter = bench("tw_arbiter", wrapper=True)
test_counters = bench(
    "tw_counters", "BeatBytes CountBits", (8, 48), (8, 8), slow=((64, 48),), wrapper=True
)

_ODD = HwConfig(
    name="odd",
    batch=2,
    block_in=8,
    block_out=4,
    inp_bytes=2048,
    wgt_bytes=4096,
    acc_bytes=4096,
    out_bytes=1024,
    uop_bytes=2048,
    res_bytes=2048,
    param_bytes=1024,
    axi_data_bits=128,
    axi_burst_beats=4,
    read_outstanding=3,
    write_outstanding=1,
    vector_lanes=2,
    mac_pipeline=3,
    mac_packed=1,
    mac_lut_columns=1,
    activation_table=1,
    row_unit=1,
    int4_weights=2,
    acc_bank_count=2,
)
_TOPS = (
    *often("top", [pytest.param(hw, id=hw.name) for hw in (load_hwconfig("tiny-4x4"), _ODD)], 1),
    *(
        pytest.param(hw, id=hw.name, marks=pytest.mark.slow)
        for hw in (
            load_hwconfig("edge-8x8"),
            load_hwconfig("batch2-8x16"),
            load_hwconfig("wide-8x32"),
            load_hwconfig("tiny-4x4").with_(name="tiny-128", axi_data_bits=128, axi_burst_beats=1),
            load_hwconfig("tiny-4x4").with_(
                name="tiny-32", axi_data_bits=32, axi_burst_beats=64, vector_lanes=1, mac_pipeline=6
            ),
            _ODD.with_(
                name="odd-256", block_out=32, param_bytes=2048, vector_lanes=4, axi_data_bits=256
            ),
        )
    ),
)


@pytest.mark.parametrize("hw", _TOPS)
def test_top(hw: HwConfig) -> None:
    run_top(hw)


def test_top_on_a_memory_that_ends_bursts_wrongly() -> None:
    run_top(load_hwconfig("tiny-4x4"), module="top.cocotb_last", protocol=False)


@pytest.mark.parametrize(
    ("hw", "cases"),
    [
        pytest.param(load_hwconfig("tiny-4x4"), 3, id="tiny-4x4"),
        pytest.param(load_hwconfig("tiny-4x4"), 12, id="tiny-4x4-long", marks=pytest.mark.slow),
        pytest.param(load_hwconfig("edge-8x8"), 4, id="edge-8x8", marks=pytest.mark.slow),
        pytest.param(_ODD, 4, id="odd", marks=pytest.mark.slow),
    ],
)
def test_the_pynq_device_on_a_foreign_board(hw: HwConfig, cases: int) -> None:
    run_top(hw, module="top.cocotb_pynq", cases=cases)
