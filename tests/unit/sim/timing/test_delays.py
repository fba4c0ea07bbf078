# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest
from tests.support.randomness import fresh_rng, sample

from tilewright.host.common.errors import BuildError
from tilewright.host.common.places import ROOT
from tilewright.sim.timing.delays import FAMILIES, load_library

SDF = ROOT.parent / "shared" / "refdata" / "xc7_delays"
DSP_INPUTS = {"A": 30, "B": 18, "C": 48, "D": 25, "PCIN": 48, "CEP": 1, "RSTM": 1, "INMODE": 5}
DSP_OUTPUTS = {"P": -48, "PCOUT": -48}


def worst(path: Path, kind: str, source: str, target: str) -> float:
    """The slow corner's maximum of an arc in an SDF file."""
    for block in path.read_text().split("(CELL\n"):
        if f'(CELLTYPE "{kind}")' in block:
            arc = re.search(rf"IOPATH {source} {target} \([^)]*\)\([\d.]+::([\d.]+)\)", block)
            if arc:
                return float(arc[1])
    raise AssertionError(kind)


@pytest.mark.skipif(not SDF.is_dir(), reason="needs the SDF files")
def test_carry_cells_have_the_delays_of_the_device():
    arcs = load_library("xc7").arcs("CARRY4", {}, {"S": 4, "CI": 1, "O": -4, "CO": -4})
    for source in range(4):
        for target in range(source, 4):
            for port in ("O", "CO"):
                expected = worst(SDF / "slicel.sdf", "CARRY4", f"S{source}", f"{port}{target}")
                assert (("S", source), expected) in arcs.through[port, target]


@pytest.mark.parametrize("_case", sample(20, 300))
def test_every_register_setting_of_a_dsp_has_delays(_case):
    """Each input is taken by a register or goes through to the outputs."""
    rng = fresh_rng()
    choices = {
        **dict.fromkeys(("AREG", "BREG"), (0, 1, 2)),
        **dict.fromkeys(("CREG", "DREG", "ADREG", "MREG", "PREG", "INMODEREG"), (0, 1)),
        "USE_DPORT": ("TRUE", "FALSE"),
    }
    parameters = {name: values[int(rng.integers(len(values)))] for name, values in choices.items()}
    parameters |= {"USE_MULT": "MULTIPLY", "INMODEREG": 1}
    arcs = load_library("xc7").arcs("DSP48E1", parameters, {**DSP_INPUTS, **DSP_OUTPUTS})
    used = {"A", "B", "C", "PCIN"} | ({"D"} if parameters["USE_DPORT"] == "TRUE" else set())
    through = {source[0] for inner in arcs.through.values() for source, _ in inner}
    captured = {port for port, _ in arcs.capture}
    assert used <= through | captured
    assert parameters["PREG"] == 0 or not through
    assert ("P", 0) in arcs.launch or through >= used - captured


@pytest.mark.parametrize("family", FAMILIES)
def test_cells_and_inputs_without_a_figure_are_refused(family):
    library = load_library(family)
    with pytest.raises(BuildError, match="no delays of this cell"):
        library.arcs("CARRY8", {}, {})
    block = {"xc7": "RAMB36E1", "ecp5": "DP16KD"}[family]
    with pytest.raises(BuildError, match="no delay of this input") as error:
        library.arcs(block, {}, {"SLEEP": 1})
    assert f"{block}.SLEEP" in str(error.value)


def test_wires_grow_with_their_sinks_up_to_a_limit():
    library = load_library("xc7")
    lengths = [library.wire_ns("LUT6", "O", "LUT6", "I0", sinks) for sinks in (1, 2, 64, 10**6)]
    assert lengths == [0.45, pytest.approx(0.6), pytest.approx(1.35), 2.2]
    assert library.wire_ns("FDRE", "Q", "DSP48E1", "A", 1) == pytest.approx(0.75)
    assert library.wire_ns("LUT6", "O", "FDRE", "D", 1) == 0
    assert library.wire_ns("LUT6", "O", "FDRE", "D", 2) > 0
