# SPDX-License-Identifier: Apache-2.0
import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth import results as synthesis_results
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.synth.record import Ecp5Counts, Row, load_results
from tilewright.sim.synth.results import draw, record
from tilewright.sim.synth.synthesis import SynthesisReport

COUNTS = {"lut": 10, "lutram": 2, "ff": 3, "ramb36": 4, "ramb18": 5, "dsp": 6}


@pytest.fixture
def synthesised(monkeypatch):
    """Replace synthesis; the LUT count is the number of the call."""
    calls = []

    def synthesise(design, family):
        calls.append((design, family))
        return SynthesisReport(
            config=design.name, family=family, tool="pyosys 1", seconds=2.5, memories=(),
            **{**COUNTS, "lut": len(calls)},
        )  # fmt: skip

    monkeypatch.setattr(synthesis_results, "synthesise", synthesise)
    return calls


def test_what_is_recorded_is_read_back(tmp_path, synthesised):
    own = HwConfig(name="mine", vector_lanes=8)
    (tmp_path / "mine.yaml").write_text(own.to_yaml())
    path = tmp_path / "new" / "results.yaml"
    record([str(tmp_path / "mine.yaml"), "tiny-4x4"], path)
    results = load_results(path)
    assert (results.tool, results.family) == ("pyosys 1", "xc7")
    mine, tiny = results.rows
    assert mine == Row(hw=own, rtl=rtl_digest(), seconds=2.5, **{**COUNTS, "lut": 1})
    assert mine.area.bram36 == 7
    assert (mine.named, tiny.named) == (False, True)


def test_recording_one_configuration_keeps_the_others(tmp_path, synthesised):
    path = tmp_path / "results.yaml"
    record(["tiny-4x4", "edge-8x8"], path)
    record(["tiny-4x4", "zu-32x32"], path)
    luts = {r.hw.name: r.lut for r in load_results(path).rows}
    assert luts == {"tiny-4x4": 3, "edge-8x8": 2, "zu-32x32": 4}
    record([], path)
    assert len(synthesised) == 7


def test_ecp5_counts_stay_beside_the_row_and_stale_ones_alone_are_made_again(
    tmp_path, synthesised, monkeypatch
):
    path = tmp_path / "results.yaml"
    record(["tiny-4x4"], path)
    record(["tiny-4x4"], path, family="ecp5")
    (tiny,) = load_results(path).rows
    assert tiny.ecp5 == Ecp5Counts(
        rtl=rtl_digest(), lut=2, lutram=2, ff=3, dp16kd=5, mult18=6, seconds=2.5
    )
    assert tiny.lut == 1
    record([], path, stale_only=True)
    record([], path, family="ecp5", stale_only=True)
    assert len(synthesised) == 2
    monkeypatch.setattr(synthesis_results, "rtl_digest", lambda: "edited")
    record([], path, stale_only=True)
    (tiny,) = load_results(path).rows
    assert (tiny.rtl, tiny.lut, tiny.ecp5.lut) == ("edited", 3, 2)
    record([], path, family="ecp5", stale_only=True)
    assert [family for _, family in synthesised] == ["xc7", "ecp5", "xc7", "ecp5"]


def test_ecp5_counts_need_a_row_and_no_other_family_is_recorded(tmp_path, synthesised):
    path = tmp_path / "results.yaml"
    with pytest.raises(ConfigError, match="must have a row"):
        record(["tiny-4x4"], path, family="ecp5")
    with pytest.raises(ConfigError, match="must be xc7 or ecp5"):
        record(["tiny-4x4"], path, family="xcup")


def test_drawn_configurations_repeat_and_are_legal_small_and_different():
    first = draw(7)
    assert draw(7) == first
    assert draw(8) != first
    assert len({hw.config_hash for hw in draw(7, 20)}) > 15
    assert all(hw.macs_per_cycle <= 128 for hw in draw(9, 20))
    assert [hw.name for hw in first] == [f"heldout-7-{n}" for n in (1, 2, 3, 4)]


def test_drawn_rows_are_recorded_and_never_fitted(tmp_path, synthesised):
    path = tmp_path / "results.yaml"
    record(["tiny-4x4", *draw(7)], path)
    rows = load_results(path).rows
    assert [row.hw for row in rows[1:]] == list(draw(7))
    assert [row.fitted for row in rows] == [True] + [False] * 4
