# SPDX-License-Identifier: Apache-2.0
"""Every cocotb bench over its grid of parameters: a small one by default, all with `-m slow`."""

from __future__ import annotations

from typing import Any

import pytest
from builds import run_top, run_unit
from support.randomness import often

from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES


def grid(*fast: dict[str, int], slow: tuple[dict[str, int], ...] = ()) -> list[Any]:
    """Parameter sets: a fast run draws one of ``fast``, a slow run takes all of both."""
    cases = [pytest.param(p, id=_label(p)) for p in fast]
    return often(str(fast), cases, 1) + [
        pytest.param(p, id=_label(p), marks=pytest.mark.slow) for p in slow
    ]


def _label(parameters: dict[str, int]) -> str:
    return "-".join(str(value) for value in parameters.values())


def _gemm(batch: int, block_in: int, block_out: int, pipeline: int, packed: int) -> dict[str, int]:
    return {
        "Batch": batch,
        "BlockIn": block_in,
        "BlockOut": block_out,
        "MacPipeline": pipeline,
        "MacPacked": packed,
        "UopDepth": 64,
        "InpDepth": 32,
        "WgtDepth": 32,
        "AccDepth": 64,
        "AccBankShift": 4,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _gemm(1, 4, 4, 1, 0),
        _gemm(2, 8, 4, 3, 1),
        slow=(_gemm(1, 4, 8, 2, 1), _gemm(4, 4, 4, 6, 0), _gemm(1, 16, 16, 2, 1)),
    ),
)
def test_gemm(parameters: dict[str, int]) -> None:
    run_unit("tw_gemm", parameters)


TABLE_ROWS = TABLE_ENTRIES // TABLE_ROW_ENTRIES


def _vector(
    batch: int, block_out: int, lanes: int, par_row: int, *, options: bool = True
) -> dict[str, int]:
    return {
        "Batch": batch,
        "BlockOut": block_out,
        "Lanes": lanes,
        "ParRowBytes": par_row,
        "ParDepth": 8,
        "AccDepth": 64,
        "OutDepth": 32,
        "ResDepth": 32,
        "TableDepth": TABLE_ROWS if options else 0,
        "RowUnit": int(options),
        "AccBankShift": 4,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _vector(1, 4, 4, 32, options=False),
        _vector(1, 4, 4, 32),
        _vector(2, 8, 4, 64),
        slow=(
            _vector(1, 8, 1, 32),
            _vector(2, 4, 8, 32),
            _vector(4, 4, 2, 64),
            _vector(2, 16, 16, 32),
            _vector(1, 64, 64, 32),
        ),
    ),
)
def test_vector(parameters: dict[str, int]) -> None:
    run_unit("tw_vector", parameters)


def _store(beat: int, burst: int, outstanding: int, tile: int, depth: int) -> dict[str, int]:
    return {
        "BeatBytes": beat,
        "BurstBeats": burst,
        "Outstanding": outstanding,
        "TileBytes": tile,
        "OutDepth": depth,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _store(8, 16, 4, 16, 64),
        _store(16, 4, 2, 4, 64),
        slow=(_store(4, 1, 1, 8, 32), _store(8, 64, 16, 8, 64), _store(64, 16, 3, 4, 128)),
    ),
)
def test_store(parameters: dict[str, int]) -> None:
    run_unit("tw_store", parameters)


def _load(
    beat: int,
    burst: int,
    inp: int,
    wgt: int,
    res: int,
    diagonal: int,
    *,
    options: bool = True,
    int4: int = 2,
) -> dict[str, int]:
    return {
        "BeatBytes": beat,
        "BurstBeats": burst,
        "InpTileBytes": inp,
        "WgtTileBytes": wgt,
        "AccTileBytes": 4 * res,
        "ParTileBytes": 64,
        "ResTileBytes": res,
        "InpDepth": 128,
        "WgtDepth": 32,
        "AccDepth": 64,
        "UopDepth": 128,
        "ParDepth": 8,
        "ResDepth": 128,
        "TableDepth": TABLE_ROWS if options else 0,
        "Int4Weights": int4 if options and wgt >= 2 * beat else 0,
        "AccBankShift": 4,
        "DiagBytes": diagonal,
        "DiagBlocks": wgt // diagonal**2,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _load(8, 16, 4, 16, 4, 4, int4=1),
        _load(4, 16, 8, 128, 4, 8),
        _load(16, 4, 16, 64, 4, 4),
        _load(8, 16, 16, 256, 16, 16, options=False),
        slow=(
            _load(4, 1, 4, 16, 8, 4),
            _load(8, 64, 8, 64, 16, 8),
            _load(64, 16, 4, 16, 16, 4),
            _load(32, 64, 8, 512, 16, 8),
        ),
    ),
)
def test_load(parameters: dict[str, int]) -> None:
    run_unit("tw_load", parameters)


def _fifo(width: int, depth: int, key_bits: int) -> dict[str, int]:
    return {"Width": width, "Depth": depth, "KeyBits": key_bits}


@pytest.mark.parametrize(
    "parameters",
    grid(
        _fifo(8, 4, 0),
        _fifo(12, 4, 5),
        slow=(_fifo(1, 2, 0), _fifo(2, 2, 1), _fifo(280, 16, 0), _fifo(300, 16, 10)),
    ),
)
def test_fifo(parameters: dict[str, int]) -> None:
    run_unit("tw_fifo", parameters)


@pytest.mark.parametrize("parameters", grid({"CountBits": 2}, slow=({"CountBits": 16},)))
def test_tokens(parameters: dict[str, int]) -> None:
    run_unit("tw_tokens", parameters, wrapper=True)


@pytest.mark.parametrize("parameters", grid({"AddrBits": 40}, slow=({"AddrBits": 3},)))
def test_rows(parameters: dict[str, int]) -> None:
    run_unit("tw_rows", parameters)


@pytest.mark.parametrize(
    "parameters",
    grid(
        {"BeatBytes": 8, "BurstBeats": 16},
        slow=(
            {"BeatBytes": 4, "BurstBeats": 1},
            {"BeatBytes": 16, "BurstBeats": 64},
            {"BeatBytes": 64, "BurstBeats": 64},
        ),
    ),
)
def test_bursts(parameters: dict[str, int]) -> None:
    run_unit("tw_bursts", parameters)


@pytest.mark.parametrize(
    "parameters",
    grid(
        {"BeatBytes": 8, "BurstBeats": 16},
        slow=({"BeatBytes": 16, "BurstBeats": 1}, {"BeatBytes": 64, "BurstBeats": 64}),
    ),
)
def test_hold(parameters: dict[str, int]) -> None:
    run_unit("tw_hold", parameters)


def test_padding() -> None:
    run_unit("tw_padding", {})


@pytest.mark.parametrize(
    "parameters",
    grid(
        {"BeatBytes": 8, "Outstanding": 4},
        slow=({"BeatBytes": 4, "Outstanding": 1}, {"BeatBytes": 64, "Outstanding": 16}),
    ),
)
def test_read(parameters: dict[str, int]) -> None:
    run_unit("tw_read", parameters, wrapper=True)


@pytest.mark.parametrize(
    "parameters",
    grid(
        {"BeatBytes": 8, "BurstBeats": 16},
        {"BeatBytes": 32, "BurstBeats": 64},
        slow=(
            {"BeatBytes": 4, "BurstBeats": 1},
            {"BeatBytes": 16, "BurstBeats": 2},
            {"BeatBytes": 64, "BurstBeats": 1},
        ),
    ),
)
def test_fetch(parameters: dict[str, int]) -> None:
    run_unit("tw_fetch", parameters)


def _spad(
    tile: int, read: int, beat: int, total: int, diagonal: int = 0, row: int = 16, int4: int = 0
) -> dict[str, int]:
    return {
        "TileBytes": tile,
        "ReadBytes": read,
        "BeatBytes": beat,
        "TotalBytes": total,
        "DiagBytes": diagonal,
        "RowBytes": row,
        "Int4": int4,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _spad(16, 16, 8, 1024),
        _spad(4, 4, 16, 1024),
        _spad(64, 64, 4, 4096, 8, 8, int4=1),
        _spad(16, 16, 64, 4096, 4, 4),
        _spad(128, 128, 16, 8192, 8, 16),
        _spad(32, 32, 16, 4096, 4, 4, int4=2),
        slow=(
            _spad(256, 256, 8, 16384, 16, 16, int4=2),
            _spad(128, 128, 8, 8192, 8, 8),
            _spad(256, 256, 4, 16384, 4, 64),
            _spad(16, 16, 16, 4096, 4, 4),
            _spad(8, 8, 8, 1024),
            _spad(64, 32, 8, 2048),
            _spad(64, 64, 4, 4096),
            _spad(8, 8, 64, 1024),
        ),
    ),
)
def test_spad(parameters: dict[str, int]) -> None:
    run_unit("tw_spad", parameters)


def _out(tile: int, part: int, beat: int, total: int) -> dict[str, int]:
    return {"TileBytes": tile, "PartBytes": part, "BeatBytes": beat, "TotalBytes": total}


@pytest.mark.parametrize(
    "parameters",
    grid(
        {"Lanes": 4, "BeatBytes": 8, "Present": 1},
        slow=(
            {"Lanes": 1, "BeatBytes": 4, "Present": 1},
            {"Lanes": 8, "BeatBytes": 64, "Present": 1},
            {"Lanes": 4, "BeatBytes": 8, "Present": 0},
        ),
    ),
)
def test_table(parameters: dict[str, int]) -> None:
    run_unit("tw_table", parameters)


@pytest.mark.parametrize(
    "parameters",
    grid(
        _out(16, 4, 8, 1024),
        _out(4, 4, 16, 1024),
        slow=(_out(8, 8, 8, 1024), _out(8, 1, 64, 2048), _out(64, 16, 4, 2048)),
    ),
)
def test_out(parameters: dict[str, int]) -> None:
    run_unit("tw_out", parameters)


def _acc(tile: int, part: int, beat: int, total: int, banks: int) -> dict[str, int]:
    return {
        "TileBytes": tile,
        "PartBytes": part,
        "BeatBytes": beat,
        "TotalBytes": total,
        "Banks": banks,
    }


@pytest.mark.parametrize(
    "parameters",
    grid(
        _acc(32, 16, 8, 1024, 4),
        slow=(
            _acc(16, 16, 16, 1024, 4),
            _acc(64, 4, 16, 1024, 4),
            _acc(512, 512, 8, 1024, 2),
            _acc(64, 16, 64, 4096, 4),
        ),
    ),
)
def test_acc(parameters: dict[str, int]) -> None:
    run_unit("tw_acc", parameters)


def _mac(batch: int, block_in: int, block_out: int, pipeline: int) -> dict[str, int]:
    return {"Batch": batch, "BlockIn": block_in, "BlockOut": block_out, "Pipeline": pipeline}


@pytest.mark.parametrize(
    "parameters",
    grid(
        _mac(1, 8, 4, 6),
        slow=(
            _mac(1, 4, 4, 6),
            _mac(2, 8, 4, 6),
            _mac(1, 16, 4, 6),
            _mac(1, 16, 16, 2),
            _mac(1, 64, 4, 3),
        ),
    ),
)
def test_mac(parameters: dict[str, int]) -> None:
    run_unit("tw_mac", parameters, wrapper=True)


def test_requant() -> None:
    run_unit("tw_requant", {}, wrapper=True)


def test_regs() -> None:
    run_unit("tw_regs", {"ConfigHash": 0x1234ABCD}, wrapper=True)


@pytest.mark.parametrize("bits", often("settings", [32, 40], 1))
def test_settings(bits: int) -> None:
    run_unit("tw_settings", {"AddressBits": bits})


def test_control() -> None:
    run_unit("tw_control", {}, wrapper=True)


def test_queue() -> None:
    run_unit("tw_queue", {}, wrapper=True)


def test_arbiter() -> None:
    run_unit("tw_arbiter", {}, wrapper=True)


@pytest.mark.parametrize(
    "parameters",
    grid({"BeatBytes": 8}, {"BeatBytes": 8, "CountBits": 8}, slow=({"BeatBytes": 64},)),
)
def test_counters(parameters: dict[str, int]) -> None:
    run_unit("tw_counters", parameters, wrapper=True)


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
