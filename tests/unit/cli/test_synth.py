# SPDX-License-Identifier: Apache-2.0
"""`tilewright synth`, `timing`, `pnr` and `synth-record`, without their tools."""

import json
from hashlib import sha256
from types import SimpleNamespace

import pytest
from support.boards.bitstreams import write_manifest
from support.command_line import call, refusal, rows

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import named_systems
from tilewright.sim.synth import ecp5_bitstream, place_route, results, synthesis
from tilewright.sim.synth.place_route import PlaceRouteResult
from tilewright.sim.synth.synthesis import SynthesisReport
from tilewright.sim.synth.timing_report import TimingPath
from tilewright.sim.timing import estimate as estimates
from tilewright.sim.timing.estimate import Estimate, Family
from tilewright.sim.timing.paths import Path

pytestmark = pytest.mark.usefixtures("told_members")


def report(**changes):
    values = {
        "config": "custom", "family": "xc7", "tool": "yosys", "lut": 100, "lutram": 10, "ff": 50,
        "ramb36": 1, "ramb18": 1, "dsp": 4, "seconds": 1.0, "memories": (),
    }  # fmt: skip
    return SynthesisReport(**values | changes)


def test_synth_exits_with_whether_the_configuration_fits(monkeypatch):
    monkeypatch.setattr(synthesis, "synthesise", lambda hw, family: report(config=hw.name))
    assert call("synth", "pynq-16x16").exit_code == 0
    monkeypatch.setattr(synthesis, "synthesise", lambda hw, family: report(dsp=1000))
    assert call("synth", "pynq-16x16", "--board", "pynq-z1").exit_code == 1
    monkeypatch.setattr(synthesis, "synthesise", lambda hw, family: report(family=family, dsp=999))
    small = call("synth", "pynq-16x16", "--family", "ecp5", "--device", "25k")
    assert small.exit_code == 1
    assert "custom does not fit LFE5U-25F" in small.stdout


def test_synth_writes_a_row_for_each_resource(monkeypatch):
    monkeypatch.setattr(synthesis, "synthesise", lambda hw, family: report())
    found = rows("synth", "pynq-16x16")
    assert [row["resource"] for row in found] == ["LUT", "FF", "BRAM36", "DSP"]
    assert found[0] == {"resource": "LUT", "used": 100, "available": 53200}


def placement(hw, *, seed, conditions, note):
    note(f"seed {seed}")
    path = TimingPath(
        source="a", source_module="m", target="b", target_module="m", cell_ns=0.5,
        routing_ns=0.5, cells={"LUT4": 2}, modules={"m": 1.0},
    )  # fmt: skip
    return PlaceRouteResult(
        config=hw.name, device=conditions.device, speed=conditions.speed, seed=seed, tools="t",
        target_mhz=conditions.frequency_mhz, seconds=1.0, fmax_mhz=100.0 + seed, used={},
        available={}, path=path, endpoints=(),
    )  # fmt: skip


def small_estimate(design, **options):
    """An estimate of two families, one of them with a name that is no markup."""
    paths = [
        Path(
            source=f"{unit}.left_q[3]", target="regs.irq_q", source_unit=unit, target_unit="regs",
            pin="FDRE.CE", cell_ns=4.0, wire_ns=ns - 4.0, wires=3, cells={"LUT6": 3, "CARRY4": 1},
            signals=[f"{unit}.left_q[3]"],
        )
        for unit, ns in (("load", 10.0), ("<b>", 8.0))
    ]  # fmt: skip
    return Estimate(
        design=design.name, family=options.get("family", "xc7"), part="xc7z020-1",
        control_only=options.get("control_only", False), rtl="r", tool="yosys", cells_ns=4.0,
        short_ns=10.0, long_ns=20.0, late=7, ends=90,
        families=tuple(Family(path=path, long_ns=2 * path.total_ns) for path in paths),
    )  # fmt: skip


def test_timing_tells_the_bracket_and_the_slowest_families_first(monkeypatch, tmp_path):
    monkeypatch.setattr(estimates, "estimate", small_estimate)
    page, saved = tmp_path / "page.html", tmp_path / "timing.json"
    words = ["timing", "tiny-4x4", "--control", "--paths", "1", "--set", "mac_pipeline=3"]
    result = call(*words, "--html", str(page), "--json", str(saved))
    assert result.exit_code == 0, result.output
    assert "tiny-4x4,mac_pipeline=3, control alone on xc7z020-1: 50.0 to 100.0 MHz" in result.stdout
    assert "10.00  20.00   4.00      3    3     1  load.left_q[3] -> regs.irq_q" in result.stdout
    assert "and 1 more families" in result.stdout
    assert "<b>.left_q" not in page.read_text()
    assert "&lt;b&gt;.left_q" in page.read_text()
    document = json.loads(saved.read_text())
    assert [row["source_unit"] for row in document["rows"]] == ["load", "<b>"]
    assert document["summary"]["low_mhz"] == 50.0
    assert document["summary"]["control_only"] is True


def test_timing_refuses_a_page_of_somebody_elses_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setattr(estimates, "estimate", lambda *_, **__: pytest.fail("it worked already"))
    page = tmp_path / "mine.html"
    page.write_text("mine")
    result = refusal("timing", "tiny-4x4", "--html", str(page))
    assert result.startswith("error: --html: must be a new file")
    assert str(page) in result
    assert page.read_text() == "mine"


def test_timing_says_when_the_part_cannot_hold_the_configuration(monkeypatch):
    monkeypatch.setattr(estimates, "estimate", small_estimate)
    assert "it does not fit the part: " in call("timing", "zu-32x32").stdout
    assert "does not fit" not in call("timing", "pynq-16x32").stdout


def test_timing_refuses_parameters_of_a_system_and_ecp5_without_a_data_path(tmp_path):
    system = named_systems()[0]
    for words in (
        ["timing", system, "--set", "mac_pipeline=3"],
        ["timing", system, "--family", "ecp5"],
        ["timing", "tiny-4x4", "--family", "ecp5", "--control"],
        ["timing", "tiny-4x4", "--html", str(tmp_path)],
    ):
        refusal(*words)


def test_pnr_places_every_seed_and_writes_the_median(monkeypatch, tmp_path):
    monkeypatch.setattr(place_route, "place", placement)
    monkeypatch.setattr(place_route, "netlist", lambda hw: tmp_path)
    monkeypatch.setattr(
        estimates, "time_netlist", lambda design, path, **options: small_estimate(design)
    )
    saved = tmp_path / "new folder" / "pnr.json"
    words = ["pnr", "tiny-4x4", "--seed", "1", "--seed", "5", "--set", "mac_pipeline=3"]
    result = call(*words, "--json", str(saved))
    assert result.exit_code == 0, result.output
    assert "tiny-4x4,mac_pipeline=3 on 85k speed 8" in result.stdout
    document = json.loads(saved.read_text())
    assert [row["seed"] for row in document["rows"]] == [1, 5]
    assert document["summary"]["median_fmax_mhz"] == 103.0
    assert document["summary"]["estimated_low_mhz"] == 50.0
    assert "before it was placed: 50.0 to 100.0 MHz" in result.stdout
    assert document["conditions"]["target_mhz"] == 100.0
    assert "--set mac_pipeline=3" in document["command"]


def test_the_record_gets_named_and_drawn_configurations(monkeypatch):
    seen = SimpleNamespace()
    monkeypatch.setattr(
        results, "record", lambda names, **options: vars(seen).update(names=names, **options)
    )
    assert call("synth-record", "record", "tiny-4x4", "--draw", "7", "--stale").exit_code == 0
    assert seen.names == ["tiny-4x4", *results.draw(7)]
    assert (seen.family, seen.stale_only) == ("xc7", True)
    assert call("synth-record", "heldout").exit_code == 0


def test_a_dry_run_writes_the_folder_that_vivado_builds_from(tmp_path):
    out = tmp_path / "p"
    done = call("bitstream", "tiny-4x4", "--board", "zcu104", "--dry-run", "--output", str(out))
    assert done.exit_code == 0, done.output
    assert "vivado -mode batch -source build.tcl" in done.stdout
    assert "settings(clock_mhz) 200" in (out / "settings.tcl").read_text(encoding="utf-8")
    written = rows("bitstream", "tiny-4x4", "--dry-run", "--clock", "90", "--output", str(out))
    assert {row["file"] for row in written} == {
        str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()
    }
    assert "settings(clock_mhz) 90" in (out / "settings.tcl").read_text(encoding="utf-8")


def test_project_is_for_vivado(tmp_path):
    out = tmp_path / "p"
    done = call("bitstream", "tiny-4x4", "--project", "--dry-run", "--output", str(out))
    assert done.exit_code == 0, done.output
    assert "settings(flow) project" in (out / "settings.tcl").read_text(encoding="utf-8")
    done = call("bitstream", "tiny-4x4", "--project", "--dry-run", "--board", "ulx3s")
    assert "--project: is for Vivado" in done.output


def test_a_shared_bitstream_is_verified(tmp_path):
    names = ("tilewright.bit", "tilewright.hwh")
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    digests = {name: sha256(name.encode()).hexdigest() for name in names}
    path = write_manifest(tmp_path / "tilewright.yaml", load_hwconfig("tiny-4x4"), files=digests)
    done = call("bitstream", "tiny-4x4", "--verify", str(path))
    assert done.exit_code == 0, done.output
    assert sha256(path.read_bytes()).hexdigest() in done.output
    found = rows("bitstream", "tiny-4x4", "--verify", str(path))
    assert {row["file"]: row["sha256"] for row in found} == digests
    done = call("bitstream", "edge-8x8", "--verify", str(path))
    assert "--verify: must be of edge-8x8" in done.output
    (tmp_path / "tilewright.hwh").write_bytes(b"another")
    assert (
        "must be the file of the manifest"
        in call("bitstream", "tiny-4x4", "--verify", str(path)).output
    )


def test_without_vivado_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "p"
    assert call("bitstream", "tiny-4x4", "--output", str(out)).exit_code != 0
    assert not out.exists()


@pytest.mark.parametrize(
    ("board", "told"),
    [("ulx3s", "nextpnr-ecp5 and ecppack are"), ("openxc7-z7020", "nobody has tried it")],
)
def test_a_dry_run_writes_the_folder_that_open_tools_build_from(tmp_path, board, told):
    out = tmp_path / "p"
    done = call("bitstream", "tiny-4x4", "--board", board, "--dry-run", "--output", str(out))
    assert done.exit_code == 0, done.output
    assert told in " ".join(done.stdout.split())
    written = rows("bitstream", "tiny-4x4", "--board", board, "--dry-run", "--output", str(out))
    assert {row["file"] for row in written} >= {"build.sh", "tilewright.v", "rtl/tw_core.sv"}
    refused = refusal("bitstream", "tiny-4x4", "--board", board, "--dry-run", "--clock", "50")
    assert "--clock" in refused


def test_a_bitstream_by_open_tools_is_told_with_its_limit(monkeypatch, tmp_path):
    built = ecp5_bitstream.Ecp5Bitstream(
        path=tmp_path / "tilewright.bit", clock_mhz=25, limit_mhz=31.5, tools="t",
        used={"DP16KD": 98}, available={"DP16KD": 208},
    )  # fmt: skip
    monkeypatch.setattr(ecp5_bitstream, "build_ecp5", lambda *arguments: built)
    words = ["bitstream", "tiny-4x4", "--board", "ulx3s", "--output", str(tmp_path / "p")]
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert "limit 31.5 MHz" in done.stdout
    assert "openFPGALoader -b ulx3s" in done.stdout
    assert rows(*words) == [{"resource": "DP16KD", "used": 98, "available": 208}]


def test_openxc7_is_a_recipe_alone():
    assert "--dry-run" in refusal("bitstream", "tiny-4x4", "--board", "openxc7-z7020")


def test_a_configuration_that_cannot_fit_an_open_board_is_refused_before_any_tool(tmp_path):
    words = ["bitstream", "pynq-16x16", "--board", "ulx3s", "--output", str(tmp_path)]
    refused = refusal(*words)
    assert "of 156 (MULT18X18D)" in refused
    assert "such as tiny-4x4" in refused
    assert "pynq-16x16 does not fit ulx3s" in call(*words, "--dry-run").stdout


@pytest.mark.parametrize("board", ["pynq-z2", "ulx3s", "openxc7-z7020"])
def test_a_folder_that_cannot_be_written_names_its_option(tmp_path, board):
    file = tmp_path / "file"
    file.write_text("")
    words = ["bitstream", "tiny-4x4", "--board", board, "--dry-run", "--output", str(file)]
    assert "--output: must be a new or empty folder" in refusal(*words)
