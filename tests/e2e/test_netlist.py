# SPDX-License-Identifier: Apache-2.0
"""Netlists of Yosys, simulated: fresh random programs end as on the reference."""

from itertools import product
from pathlib import Path

import pytest
from support.randomness import drawn, generator, where

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.verify.netlist import Stage, build_netlist, differences
from tilewright.sim.verilator.build import read_manifest

TINY = load_hwconfig("tiny-4x4")


def check(hw: HwConfig, library: Path, programs: int, name: str) -> None:
    found = list(differences(hw, library, generator(name), programs))
    assert not found, f"{len(found)} of {programs} wrong: {found[:3]} {where(hw=hw.parameters())}"


def test_packed_slices_of_the_smallest_array_compute_what_the_reference_does() -> None:
    check(TINY, build_netlist(TINY, stage=Stage.PACKED), 40, "packed slices")


def test_refuses_a_family_or_a_stage_without_models() -> None:
    with pytest.raises(ConfigError, match="family: must be one of xc7, ecp5, not 'xcup'"):
        build_netlist(TINY, family="xcup")
    with pytest.raises(ConfigError, match="must be xc7 for the stage packed"):
        build_netlist(TINY, family="ecp5", stage=Stage.PACKED)


LARGE = (
    "edge-8x8",
    "pynq-16x16",
    "pynq-16x32",
    "pynq-16x16-rows",
    "batch2-8x16",
    "wide-8x32",
    "zu-32x32",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn("packed slices", LARGE))
def test_packed_slices_of_larger_arrays_compute_what_the_reference_does(name: str) -> None:
    hw = load_hwconfig(name)
    check(hw, build_netlist(hw, stage=Stage.PACKED), 30, f"packed slices {name}")


WHOLE = {
    "tiny": TINY,
    "two products a slice, three stages": TINY.with_(mac_packed=1, mac_pipeline=3),
    "chains of four products": TINY.with_(block_in=8, mac_packed=1, mac_pipeline=5),
    "a table and a row unit": TINY.with_(activation_table=1, row_unit=1),
    "weights of 4 bits with scales": TINY.with_(int4_weights=2),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family"), drawn("whole netlists", product(WHOLE, ("xc7", "ecp5")))
)
def test_whole_netlists_compute_what_the_reference_does(name: str, family: str) -> None:
    hw = WHOLE[name]
    check(hw, build_netlist(hw, family=family), 100, f"whole netlist {name} {family}")


@pytest.mark.slow
def test_the_simulation_shows_the_fault_of_the_rtl_without_its_kept_register(tmp_path) -> None:
    for source in read_manifest():
        text = source.read_text(encoding="utf-8").replace("(* keep *)", "")
        (tmp_path / source.name).write_text(text, encoding="utf-8")
    manifest = tmp_path / "rtl.f"
    manifest.write_text("".join(f"{path.name}\n" for path in read_manifest()))
    library = build_netlist(TINY, stage=Stage.PACKED, manifest=manifest, checked=False)
    wrong = list(differences(TINY, library, generator("without keep"), 30))
    assert len(wrong) > 10, wrong
