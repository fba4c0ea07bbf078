# SPDX-License-Identifier: Apache-2.0
"""Every benchmark runs, with its smallest options, and writes a document; its sources compile."""

import json

import numpy as np
import pytest
import typer
from e2e.command import tilewright

from tilewright.bench.speed.simspeed import plain_runs
from tilewright.cli import app
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.golden import random_tensors
from tilewright.host.network.zoo import load_network
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice

SMALLEST = {
    "ablation": ("--hw", "edge-8x8", "--search-cycles", "1000000"),
    "accuracy": ("--quick",),
    "agent": ("--mib", "1", "--repeats", "1"),
    "allocate": ("--quick", "--networks", "squeezenet", "--seeds", "1"),
    "builds": ("--quick", "--rounds", "1"),
    "certificates": ("--quick", "--layers", "1", "--budget", "8", "--proof-seconds", "1"),
    "decode": ("--hw", "tiny-4x4", "--width", "64", "--context", "8", "--blocks", "2",
               "--words", "0", "--search-cycles", "1"),
    "default-tuner": ("--seeds", "1", "--budget", "24", "--long", "24", "--ranked", "8"),
    "execution": ("--quick", "--no-ray", "--hw", "tiny-4x4"),
    "first-count": ("--networks", "resnet18", "--hw", "tiny-4x4", "--repeat", "1"),
    "intervals": ("--samples", "2"),
    "lowering": ("--quick", "--sample", "8", "--seconds", "0.1", "--repeat", "1"),
    "mapping": ("--quick", "--networks", "alexnet", "--per-network", "1", "--budget", "300"),
    "mapping-models": ("--network", "vta-resnet18", "--layers", "C10", "--hw", "tiny-4x4"),
    "multicore": ("--quick", "--size", "10", "--budget", "300", "--seeds", "1"),
    "multicore-networks": ("--quick", "--device", "twin", "--frames", "1"),
    "multicore-pipeline": ("--quick", "--device", "twin"),
    "multicore-rtl": ("--quick", "--device", "twin", "--seeds", "1", "--budget", "300"),
    "networks": ("--quick",),
    "objectives": ("--quick",),
    "roofline": ("--quick", "--search-cycles", "1000000"),
    "simspeed": ("--quick", "--rounds", "1", "--arrays", "8"),
    "store": ("--trials", "200", "--commits", "20", "--repeats", "1"),
    "tables": ("--networks", "ncf", "--fresh", "0", "--output", "tables.npz", "--folder", "arena"),
    "tuners": ("--quick", "--networks", "vta-resnet18", "--layers", "C10", "--seeds", "1",
               "--budget", "24", "--tuners", "random coordinate"),
    "waiting": ("--quick",),
}  # fmt: skip
"""Options with which each benchmark ends soonest."""

WRITERS = {"allocate-tables", "study-page", "tuners-page"}
"""They write pages of documents that others made."""


def commands() -> set[str]:
    """Names of all benchmarks."""
    return set(typer.main.get_command(app).commands["bench"].commands)


def test_every_benchmark_is_run() -> None:
    assert commands() == {*SMALLEST, *WRITERS}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_writes_its_document(name, tmp_path) -> None:
    done = tilewright("bench", name, *SMALLEST[name], "--json", "found.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["rows"]
    assert document["conditions"]


def test_the_testbench_in_c_compiles_and_counts_the_cycles_of_the_device(tmp_path) -> None:
    hw = load_hwconfig("tiny-4x4")
    (task,) = (w for w in load_network("vta-resnet18").workloads if w.name == "C10")
    layer = lower(hw, task, default_schedule(hw, task))
    image = layer.image(random_tensors(task, np.random.default_rng(0)))
    library = build_model(hw)
    device = VerilatorDevice(hw, load_memory("ideal"), library=library)
    cycles = device.run(layer.program, image).counters.cycles
    runs = plain_runs(library, hw, layer.program, image, runs=2, folder=tmp_path)
    assert [found for found, _ in runs] == [cycles + 1] * 2  # to the interrupt
