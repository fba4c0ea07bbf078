# SPDX-License-Identifier: Apache-2.0
"""Whole networks, from a PyTorch module to bit-exact int8 on the RTL: cycles, accuracy, seconds.

Each network is exported, quantised, imported, compiled with schedules searched on the twin, and
run once. Checked in every row: the device's outputs equal the reference's bit by bit, and the
twin's cycles the RTL's. Told: cycles and bounds, what ran on the CPU, agreement with ONNX Runtime
on the same QDQ model, and where the seconds go. ``digits`` is trained on scikit-learn's digits and
its accuracy is that of all its test images; the other networks have random weights.

    tilewright bench networks --quick
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from tilewright.bench.commands import NETWORK_CONDITIONS, NetworksSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.settings import require_names
from tilewright.bench.framework.study import Study
from tilewright.cli.partition_tables import latency_members
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.errors import DeviceError
from tilewright.host.common.names import counted
from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pack.latency import latency, mac_share
from tilewright.host.compiler.pipeline import (
    Compilation,
    ImportedNetwork,
    compile_model,
    compile_network,
    import_network,
)
from tilewright.host.compiler.quantise.hardware_options import for_hardware
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.run.network_runner import NetworkRun
from tilewright.host.compiler.run.runtime import open_network
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.twin.network_timing import time_network
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

_examples = clone_part("examples/networks", "networks")
_digits = import_module("networks.digits")

NETWORKS = _examples.NETWORKS
QUICK = ("digits", "squeezenet")
SAMPLES = 4
"""Calibration inputs of a network with random weights."""

CONTIGUOUS_BYTES = 1 << 28
"""VGG-16 has 138 MB of weights, more than a Pynq's image reserves (128 MiB)."""

Record = dict[str, Any]


def measure(name: str, given: NetworksSettings) -> Record:
    """One network; raises when a device and the reference differ."""
    hw, board = load_hwconfig(given.hw), load_board(given.board)
    board = replace(board, cpu=replace(board.cpu, contiguous_bytes=CONTIGUOUS_BYTES))
    digits = _digits.load_digits() if name == "digits" else None
    module = _digits.train(digits) if digits is not None else _examples.build(name)
    shape = NETWORKS[name].input_shape
    rng = np.random.default_rng(0)
    samples = (
        digits.train_images[:256]
        if digits is not None
        else rng.standard_normal((SAMPLES, *shape[1:]), dtype=np.float32)
    )
    network = import_network(
        module,
        calibration=Calibration(arrays={"x": samples}),
        options=for_hardware(ImportOptions(name=name, example_inputs=[samples[:1]]), hw),
    )
    book = ScheduleLookup(hw, board.memory, budget=given.search or 0)
    compilation = compile_network(network, hw, board, book, keep_rounding=given.keep_rounding)
    book.close()
    compiled = compilation.network
    timing = time_network(compiled, board.memory)
    cycles = timing.cycles
    image = {compiled.inputs[0].name: samples[:1]}
    run = checked_run(compiled, board, given.fidelity, image, cycles)
    placed = compiled.placements
    spent = latency(compiled, board, cycles)
    return {
        "layers": len(timing.layers),
        "regions": len(compiled.regions),
        "operators": len(placed),
        "accelerated": sum(p.where == "accelerator" for p in placed),
        "cycles": cycles,
        "milliseconds": 1e3 * spent.accelerator,
        "crossings_milliseconds": 1e3 * spent.crossings,
        "cpu_milliseconds": 1e3 * spent.cpu,
        "of_bound": timing.utilisation,
        "macs": sum(layer.workload.macs for layer in timing.layers),
        "memory_bytes": max((p.program.memory_bytes for p in compiled.programs), default=0),
        "cpu_milliseconds_here": 1e3 * run.cpu_seconds,
        "simulation_seconds": sum(r.host_seconds for r in run.results),
        "compile_seconds": compilation.seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **{f"seconds_{k.replace(' ', '_')}": v for k, v in network.seconds.items()},
        **agreement(network, run.outputs, image),
        **(digit_accuracy(compiled, module, digits) if digits is not None else {}),
    }


def checked_run(
    compiled: CompiledNetwork,
    board: Board,
    fidelity: str,
    inputs: Mapping[str, np.ndarray],
    cycles: int,
) -> NetworkRun:
    """A run on a device that agrees with the reference in every bit and with the twin in cycles."""
    hw = compiled.hw
    reference = open_network(compiled, ReferenceDevice(hw), trusted=True).run(inputs)
    if fidelity == "twin":
        return reference
    with closing(VerilatorDevice(hw, board.memory, fidelity=Fidelity(fidelity))) as device:
        run = open_network(compiled, device, trusted=True).run(inputs)
    exact = all(np.array_equal(a, reference.outputs[n]) for n, a in run.outputs.items())
    if not exact or run.cycles != cycles:
        raise DeviceError(
            f"bit-exact {exact}; {fidelity} {run.cycles} cycles, twin {cycles}",
            field=compiled.name,
        )
    return run


def agreement(
    network: ImportedNetwork, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> Record:
    """How the outputs compare with those of ONNX Runtime on the same quantised model."""
    session = open_session(network.qdq, threads=0)
    names = [output.name for output in session.get_outputs()]
    own = np.concatenate([np.asarray(outputs[name], np.float64).ravel() for name in names])
    found = session.run(names, dict(inputs))
    theirs = np.concatenate([np.asarray(array, np.float64).ravel() for array in found])
    gap = np.abs(own - theirs)
    spread = float(np.ptp(theirs)) or 1.0
    return {
        "equal_to_ort": float((gap <= 1e-6 * spread).mean()),
        "largest_gap_to_ort": float(gap.max()) / spread,
    }


def digit_accuracy(compiled: CompiledNetwork, module: Any, digits: Any) -> Record:
    """Accuracy on the test images: float, and int8 on the reference (equal to the RTL)."""
    runner = open_network(compiled, ReferenceDevice(compiled.hw), trusted=True)
    name = compiled.inputs[0].name
    found = [
        int(next(iter(runner.run({name: image[None]}).outputs.values())).argmax())
        for image in digits.test_images
    ]
    return {
        "float_accuracy": _digits.accuracy(module, digits),
        "int8_accuracy": float((np.array(found) == digits.test_labels).mean()),
        "test_images": len(found),
    }


class Networks(Study):
    """Networks of `examples/networks`, one after another."""

    tells = False

    def __init__(self, settings: NetworksSettings) -> None:
        super().__init__(
            settings.chosen(hw="pynq-16x16", fidelity="dpi" if settings.quick else "rtl")
        )
        require_names("--fidelity", [self.settings.fidelity], ("rtl", "dpi"))
        require_names("--networks", settings.networks, sorted(NETWORKS))

    def cells(self) -> list[Cell]:
        chosen = self.settings.networks or (QUICK if self.settings.quick else sorted(NETWORKS))
        return [{"network": name} for name in chosen]

    def measure(self, cell: Cell) -> list[Row]:
        return [measure(cell["network"], self.settings)]

    def conditions(self) -> Row:
        return {
            **self.of_settings(*NETWORK_CONDITIONS),
            "keep_rounding": self.settings.keep_rounding,
            "contiguous_bytes": CONTIGUOUS_BYTES,
            "rtl": rtl_digest(),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return {
            "cycles": {r["network"]: r["cycles"] for r in rows},
            "milliseconds": {r["network"]: r["milliseconds"] for r in rows},
            "bit_exact": True,
        }

    def line(self, row: Row) -> str:
        accuracy = (
            f", accuracy {100 * row['int8_accuracy']:.2f} % "
            f"(float {100 * row['float_accuracy']:.2f} %)"
            if "int8_accuracy" in row
            else ""
        )
        return (
            f"{row['network']}: {row['cycles']:,} cycles ({row['milliseconds']:.2f} ms, crossings "
            f"{row['crossings_milliseconds']:.2f} ms, CPU {row['cpu_milliseconds']:.2f} ms), "
            f"{100 * row['of_bound']:.1f} % of the bounds, {row['accelerated']} of "
            f"{row['operators']} operators in {counted(row['regions'], 'region')}, "
            f"{100 * row['equal_to_ort']:.1f} % of outputs equal to ONNX Runtime (largest gap "
            f"{100 * row['largest_gap_to_ort']:.2f} % of the range), import "
            f"{row['seconds_total']:.1f} s, compile {row['compile_seconds']:.1f} s, "
            f"simulation {row['simulation_seconds']:.1f} s{accuracy}"
        )


def compiled_row(
    model: Any,
    given: NetworksSettings,
    calibration: Calibration | None = None,
    options: ImportOptions | None = None,
) -> tuple[Compilation, Row]:
    """A network compiled as the settings say, and the members of its row."""
    hw, board = load_hwconfig(given.hw), load_board(given.board)
    book = ScheduleLookup(hw, board.memory, budget=given.search or 0)
    compilation = compile_model(
        model, hw, board, calibration=calibration, options=options, schedule_of=book
    )
    book.close()
    compiled = compilation.network
    timing = time_network(compiled, board.memory)
    return compilation, {
        **placement(compiled),
        "cycles": timing.cycles,
        "bound_cycles": timing.bound,
        **latency_members(compiled, board, timing.cycles),
    }


def placement(compiled: CompiledNetwork) -> Row:
    """What runs where, why, and how much of the work that is."""
    taken = Counter(p.kind for p in compiled.placements if p.where == "accelerator")
    left = Counter((p.kind, p.reason) for p in compiled.placements if p.where == "cpu")
    return {
        "regions": len(compiled.regions),
        "operators": len(compiled.placements),
        "accelerated": taken.total(),
        "accelerated_kinds": dict(taken.most_common()),
        "cpu_kinds": [
            {"kind": kind, "reason": reason, "count": count}
            for (kind, reason), count in left.most_common()
        ],
        "macs": sum(p.macs for p in compiled.placements),
        "mac_share": mac_share(compiled),
    }
