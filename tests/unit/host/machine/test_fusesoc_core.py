# SPDX-License-Identifier: Apache-2.0
"""The FuseSoC core: its lists are those of the RTL, and FuseSoC lints it."""

import re
import subprocess
import sys

import pytest
import yaml

from tilewright.host.common.places import RTL_DIR
from tilewright.host.machine.fusesoc_core import NAME, fusesoc_core
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.tools.toolchain import find_verilator
from tilewright.sim.tools.yosys import rtl_parameters
from tilewright.sim.verilator.build import TOP, read_manifest

TINY = load_hwconfig("tiny-4x4")


def test_lists_the_files_and_parameters_of_the_rtl():
    core = yaml.safe_load(fusesoc_core().partition("\n")[2])
    files = [RTL_DIR / name for name in core["filesets"]["rtl"]["files"]]
    assert files == read_manifest()
    assert list(core["parameters"]) == list(rtl_parameters(TINY))
    top = files[-1].read_text()
    for target in core["targets"].values():
        assert target["toplevel"] == TOP
        assert target["parameters"] == list(core["parameters"])
    assert all(re.search(rf"\bparameter [^=]*\b{name}\b", top) for name in core["parameters"])


def test_fusesoc_elaborates_it(tmp_path):
    pytest.importorskip("fusesoc", reason="FuseSoC is not installed: pip install fusesoc==2.4.7")
    verilator = find_verilator()
    environment = verilator.full_environment()
    environment["PATH"] = f"{verilator.path.parent}:{environment['PATH']}"
    (tmp_path / "fusesoc.conf").write_text("[main]\n")
    values = {name: int(value.rpartition("h")[2], 16) if "'h" in value else int(value)
              for name, value in rtl_parameters(TINY).items()}  # fmt: skip
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fusesoc.main", "--config", "fusesoc.conf"),
            *("--cores-root", str(RTL_DIR), "run", "--target", "lint", "--work-root", "work"),
            *(NAME, *(f"--{name}={value}" for name, value in values.items())),
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = "".join(path.read_text() for path in (tmp_path / "work").rglob("*.vc"))
    assert f"--top-module {TOP}" in told
    assert f"-GConfigHash={values['ConfigHash']}" in told
    assert told.index("tw_pkg.sv") < told.index("tilewright_top.sv")
