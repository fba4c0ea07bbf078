# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import LogicModel, estimate
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth.fit import fit, fittable, held_out
from tilewright.sim.synth.record import Row
from tilewright.sim.synth.tables import held_out_table

COEFFICIENTS = len(LogicModel.__dataclass_fields__)

SPREAD = [
    HwConfig(vector_lanes=lanes, block_out=out, batch=batch, axi_data_bits=bus, mac_packed=packed)
    for lanes, out, batch, bus, packed in [
        (4, 4, 1, 64, 0), (8, 8, 1, 64, 1), (16, 16, 1, 32, 0), (16, 32, 1, 64, 1),
        (16, 16, 2, 128, 1), (4, 16, 4, 256, 0), (32, 64, 1, 512, 1),
    ]
]  # fmt: skip


def row(hw, lut, ff):
    return Row(hw=hw, rtl="0", lut=lut, lutram=0, ff=ff, ramb36=1, ramb18=1, dsp=1, seconds=1.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 2000), min_size=COEFFICIENTS, max_size=COEFFICIENTS))
def test_the_fit_finds_the_coefficients_that_made_the_counts(values):
    names = list(LogicModel.__dataclass_fields__)
    truth = LogicModel(**{n: float(v) for n, v in zip(names, values, strict=True)})
    areas = [estimate(hw, truth) for hw in SPREAD]
    found = fit([row(hw, area.lut, area.ff) for hw, area in zip(SPREAD, areas, strict=True)])
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=0.11), name


def true_rows(configs, model, factor=1.0):
    areas = [estimate(hw, model) for hw in configs]
    return [
        replace(
            row(hw, round(area.lut * factor), round(area.ff * factor)),
            ramb36=area.bram36, ramb18=0, dsp=area.dsp,
        )
        for hw, area in zip(configs, areas, strict=True)
    ]  # fmt: skip


def test_held_out_errors_vanish_for_a_true_model_and_show_a_row_that_departs_from_it():
    truth = LogicModel(**dict.fromkeys(LogicModel.__dataclass_fields__, 100.0))
    rows = true_rows(SPREAD, truth)
    fresh = [replace(r, hw=r.hw.with_(name="heldout-x")) for r in true_rows(SPREAD[2:3], truth, 2)]
    errors = held_out([*rows, *fresh])
    assert all(abs(e.lut) < 0.01 and abs(e.ff) < 0.01 for e in errors[:-1])
    assert errors[-1].fresh
    assert errors[-1].lut == pytest.approx(-0.5, abs=0.01)
    assert all(e.bram36 == 0 and e.dsp == 0 for e in errors)
    odd = [replace(rows[0], lut=2 * rows[0].lut, dsp=rows[0].dsp + 3), *rows[1:]]
    assert held_out(odd)[0].lut == pytest.approx(-0.5, abs=0.01)
    assert held_out(odd)[0].dsp == -3
    lines = held_out_table(held_out(odd)).splitlines()
    assert lines[-1].startswith("| largest | left out | ")
    assert lines[-1].endswith("| 0 | 3 |")


def test_held_out_needs_more_rows_than_coefficients():
    with pytest.raises(ConfigError, match="must be more than 4 rows"):
        held_out([row(hw, 1, 1) for hw in SPREAD[:4]])


def test_a_row_of_another_rtl_than_most_is_estimated_and_never_fitted():
    truth = LogicModel(**dict.fromkeys(LogicModel.__dataclass_fields__, 100.0))
    rows = true_rows(SPREAD, truth)
    newer = replace(true_rows(SPREAD[2:3], truth, 2)[0], rtl="1")
    assert fittable([*rows, newer]) == rows
    errors = held_out([*rows, newer])
    assert [error.fresh for error in errors] == [False] * len(rows) + [True]
    assert errors[-1].lut == pytest.approx(-0.5, abs=0.01)
