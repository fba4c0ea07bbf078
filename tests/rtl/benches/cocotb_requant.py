# SPDX-License-Identifier: Apache-2.0
"""tw_requant against exact integers, and against the model that the host uses."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, start_clock
from cocotb.triggers import RisingEdge
from support.programs.elements import requantised, saturated

from tilewright.host.machine.isa import PARAM_FIELDS, pack_fields
from tilewright.host.network.requant import RequantParams, requantise

_LATENCY = 7
_PRODUCT = 3  # cycles behind its operands
_MUL_BITS = 18


def random_case(rng: np.random.Generator) -> dict[str, int]:
    """Operands: uniform over the full range, or made to lie at a rounding tie."""
    case = {
        "acc": int(rng.integers(-(2**31), 2**31)),
        "residual": int(rng.integers(-128, 128)),
        "bias": int(rng.integers(-(2**31), 2**31)),
        "m1": int(rng.integers(-(2**15), 2**15)),
        "m2": int(rng.integers(-(2**15), 2**15)),
        "shift": int(rng.integers(48)),
        "zero_point": int(rng.integers(-128, 128)),
        "low": -128,
        "high": 127,
    }
    kind = rng.random()
    if kind < 0.5:
        # A value near a tie: total = (2 k + 1) * 2^(shift - 1) + {-1, 0, 1} with m1 = 1.
        shift = int(rng.integers(0, 24))
        half = (1 << shift) >> 1
        total = (2 * int(rng.integers(-130, 130)) + 1) * half + int(rng.integers(-1, 2))
        case |= {"shift": shift, "m1": 1, "m2": 0, "bias": 0, "zero_point": 0, "acc": total}
        if rng.random() < 0.5:
            case["bias"] = int(rng.integers(-1000, 1000))
            case["acc"] -= case["bias"]
    elif kind < 0.6:
        case |= {
            "acc": int(rng.choice([-(2**31), 2**31 - 1])),
            "m1": int(rng.choice([-(2**15), 2**15 - 1])),
        }
        case["bias"] = int(rng.choice([-(2**31), 2**31 - 1, 0]))
    elif kind < 0.8:
        case |= {"acc": int(rng.integers(-(2**20), 2**20)), "bias": int(rng.integers(-99, 99))}
        case["shift"] = int(rng.integers(20, 36))
    if rng.random() < 0.5:
        case["low"], case["high"] = sorted(int(n) for n in rng.integers(-128, 128, 2))
    return case


def host_model(case: dict[str, int]) -> int:
    """`tilewright.host.network.requant` on one element."""
    names = ("bias", "m1", "m2", "shift", "zero_point")
    params = RequantParams(
        **{name: np.array([case[name]]) for name in names},
        clip_min=case["low"],
        clip_max=case["high"],
    )
    acc = np.array(case["acc"], dtype=np.int64).reshape(1, 1, 1, 1)
    residual = np.array(case["residual"], dtype=np.int8).reshape(1, 1, 1, 1)
    return int(requantise(acc, params, residual)[0, 0, 0, 0])


def _factor(rng: np.random.Generator) -> int:
    half = 1 << (_MUL_BITS - 1)
    return int(rng.choice([0, 1, -1, half - 1, -half, int(rng.integers(-half, half))]))


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def results_are_exact(dut: Any, knob: str) -> None:
    rng = generator("requant" + knob)
    flow = Knob(knob, rng)
    await start_clock(dut)
    dut.valid_i.value = 0
    # Parameters of an element are wanted in its cycles 1 and 4.
    line: deque[dict[str, int] | None] = deque([None] * _LATENCY, maxlen=_LATENCY + 1)
    held: dict[str, int] | None = None
    seen = 0
    while seen < 3000:
        valid = not (flow.source_pauses() or flow.sink_pauses())
        case = random_case(rng) if valid else None
        if case is not None:
            case["multiply"] = int(rng.random() < 0.3)
            case["factor"] = _factor(rng)
        # The clip is held for the cycles after an element: it changes only in an empty pipe.
        if case is not None:
            if held is not None and any(line):
                case |= {"low": held["low"], "high": held["high"]}
            held = case
            dut.low_i.value, dut.high_i.value = case["low"] & 0xFF, case["high"] & 0xFF
            dut.acc_i.value = case["acc"] & 0xFFFF_FFFF
            dut.residual_i.value = case["residual"] & 0xFF
            dut.multiply_i.value = case["multiply"]
            dut.factor_i.value = case["factor"] & (1 << _MUL_BITS) - 1
        dut.valid_i.value = int(valid)
        line.append(case)
        for name, age in (("param1_i", 0), ("param4_i", 3)):
            then = line[-1 - age]
            if then is not None:
                fields = {f.name: then[f.name] for f in PARAM_FIELDS if f.name in then}
                getattr(dut, name).value = pack_fields(PARAM_FIELDS, fields)
        product = line[-1 - _PRODUCT]
        dut.product_i.value = int(product is not None and product["multiply"])
        await RisingEdge(dut.clk_i)
        if product is not None and product["multiply"]:
            expected = saturated(product["acc"] * product["factor"])
            assert int(dut.product_o.value.to_signed()) == expected, product
            seen += 1
        done = line[0] if len(line) == _LATENCY + 1 else None
        if done is not None and not done["multiply"]:
            expected = requantised(done["acc"], done["residual"], done, done["low"], done["high"])
            assert expected == host_model(done), "the models differ"
            actual = int(dut.out_o.value.to_signed())
            assert actual == expected, f"{done}: {actual}, not {expected}"
            seen += 1
