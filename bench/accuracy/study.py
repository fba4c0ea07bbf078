# SPDX-License-Identifier: Apache-2.0
"""Accuracy of trained networks on real images: float, int8 in ONNX Runtime and on the accelerator.

Every test image runs through the compiled network: the CPU's part in TVM, the regions by the
integer arithmetic that defines the accelerator (`host.compiler.lower.integer`). A sample of images
runs on the RTL and on the reference device as well, and each region's result must be equal bit by
bit.

    tilewright bench accuracy --quick
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.metadata import distributions, version
from typing import Any

import numpy as np
import onnx
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has none

from tilewright.bench.accuracy.data import SEED, Answer, Subject
from tilewright.bench.accuracy.subjects import SUBJECTS, installed
from tilewright.bench.commands import AccuracySettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.statistics import loss
from tilewright.bench.framework.study import Study
from tilewright.bench.networks.networks import placement
from tilewright.host.common.names import counted
from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.machine.board import load_board
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.device import Device
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.twin.network_timing import time_network
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

PLAIN = QuantiseOptions(method="minmax", equalisation=False, bias_correction=False)
SMALL = 4
"""A small sample has every so many-th test input."""
FORMS = {
    "plain": PLAIN,
    "mse": replace(PLAIN, method="mse"),
    "equalised": replace(PLAIN, equalisation=True),
    "corrected": replace(PLAIN, bias_correction=True),
    "symmetric": QuantiseOptions(),
    "asymmetric-plain": replace(PLAIN, asymmetric=True),
    "asymmetric": QuantiseOptions(asymmetric=True),
    "int4-dense": QuantiseOptions(int4_weights="dense"),
    "int4-all": QuantiseOptions(int4_weights="all"),
}
"""How a network is quantised: by ONNX Runtime alone, with one technique each, and with all.

The last two give weights 4 bits; they need a configuration with ``int4_weights`` 1 or 2.
"""
PACKAGES = (
    "apache-tvm", "facenet-pytorch", "magika", "nudenet", "onnxruntime", "pillow",
    "rapidocr-onnxruntime", "scikit-image", "scikit-learn", "torch",
)  # fmt: skip

Array = np.ndarray[Any, Any]
Record = dict[str, Any]


class Accelerator:
    """A compiled network on the definition of its arithmetic."""

    def __init__(self, compiled: CompiledNetwork, graphs: Sequence[LayerGraph]) -> None:
        self._compiled = compiled
        self._graphs = graphs
        self._host = HostProgram(module=HostModule.from_json(compiled.host))
        self._input = compiled.inputs[0].name
        self._output = compiled.outputs[0].name
        self.cpu_seconds: list[float] = []

    def run(self, image: Array, devices: Sequence[Device] = ()) -> Array:
        """The first output for one image."""

        def region(number: int, arguments: Sequence[Array]) -> list[Array]:
            expected = self._evaluate(number, arguments)
            for device in devices:
                found, _ = self._compiled.regions[number].run(device, list(arguments))
                if not all(map(np.array_equal, found, expected)):
                    raise SystemExit(
                        f"{self._compiled.name}, region {number}: {type(device).__name__} differs"
                    )
            return expected

        outputs = self._host.run({self._input: image}, region)
        self.cpu_seconds.append(self._host.times.cpu)
        return outputs[self._output]

    def _evaluate(self, number: int, arguments: Sequence[Array]) -> list[Array]:
        graph, region = self._graphs[number], self._compiled.regions[number]
        values = evaluate(
            graph,
            {
                name: to_normal_form(argument, graph.tensors[name].shape)
                for name, argument in zip(graph.inputs, arguments, strict=True)
            },
        )
        return [
            from_normal_form(values[name], region.model_shapes.get(name, values[name].shape))
            for name in graph.outputs
        ]


def outputs_of(model: onnx.ModelProto, subject: Subject) -> list[Array]:
    """A model's first output for each test image, in ONNX Runtime."""
    session = open_session(model)
    name = session.get_inputs()[0].name
    return [session.run(None, {name: image[None]})[0] for image in subject.images]


def answers_of(subject: Subject, outputs: Sequence[Array]) -> list[Answer]:
    """What the outputs mean."""
    return [subject.answer(output) for output in outputs]


def points(subject: Subject, answers: Sequence[Answer]) -> Array:
    """Right and all points of each image, (images, 2)."""
    pairs = zip(answers, subject.truths, strict=True)
    return np.array([subject.credit(answer, truth) for answer, truth in pairs])


def share(credit: Array) -> float:
    """The share of right points."""
    return float(credit[:, 0].sum() / credit[:, 1].sum())


def measure(
    subject: Subject,
    model: onnx.ModelProto,
    exact: Sequence[Array],
    form: str,
    given: AccuracySettings,
) -> Record:
    """One network in one form of quantisation; exits when a device is not bit-exact."""
    hw, board = load_hwconfig(given.hw), load_board(given.board)
    book = ScheduleLookup(hw, board.memory, budget=given.search)
    compilation = compile_model(
        model,
        hw,
        board,
        calibration=Calibration(
            arrays={model.graph.input[0].name: subject.calibration},
            limit=len(subject.calibration),
        ),
        options=ImportOptions(name=subject.name, quantise=FORMS[form]),
        schedule_of=book,
    )
    compiled, graphs = compilation.network, compilation.layers
    book.close()
    cycles = time_network(compiled, board.memory).cycles
    accelerator = Accelerator(compiled, graphs)
    outputs = [accelerator.run(image[None]) for image in subject.images]
    cpu_seconds = statistics.median(accelerator.cpu_seconds)
    sample = np.linspace(0, len(outputs) - 1, min(given.sample, len(outputs))).astype(int)
    device = VerilatorDevice(hw, board.memory, fidelity=Fidelity(given.fidelity))
    try:
        for index in sample:
            accelerator.run(subject.images[index][None], [device, ReferenceDevice(hw)])
    finally:
        device.close()
    answers = answers_of(subject, outputs)
    theirs = answers_of(subject, outputs_of(compilation.imported.qdq, subject))
    credit, before = points(subject, answers), points(subject, answers_of(subject, exact))
    lost = loss(before, credit)
    gaps = [np.abs(a - b).mean() for a, b in zip(outputs, exact, strict=True)]
    return {
        "source": subject.source,
        "unit": subject.unit,
        "calibration_images": len(subject.calibration),
        "test_images": len(answers),
        "points": int(credit[:, 1].sum()),
        "float": share(before),
        "int8_onnxruntime": share(points(subject, theirs)),
        "int8_accelerator": share(credit),
        "points_lost": lost.points,
        "points_lost_interval": [lost.lowest, lost.highest],
        "images_worse": int((credit[:, 0] < before[:, 0]).sum()),
        "images_better": int((credit[:, 0] > before[:, 0]).sum()),
        "answers_as_onnxruntime": float(
            np.mean([a == b for a, b in zip(answers, theirs, strict=True)])
        ),
        "mean_gap_to_float": float(np.mean(gaps) / np.ptp(exact)),
        "images_bit_exact": len(sample),
        "cycles": cycles,
        "milliseconds": cycles / board.clock_mhz / 1e3,
        "cpu_milliseconds_here": 1e3 * cpu_seconds,
        **placement(compiled),
    }


@lru_cache(maxsize=1)
def loaded(name: str, quick: bool) -> tuple[Subject, onnx.ModelProto, list[Array]]:
    """A subject, its float network, and that one's outputs: its forms follow one another."""
    subject = SUBJECTS[name]()
    if quick:
        images, truths = subject.images[::SMALL], subject.truths[::SMALL]
        subject = replace(subject, images=images, truths=truths)
    model = subject.load()
    return subject, model, outputs_of(model, subject)


class Accuracy(Study):
    """Trained networks in several forms of quantisation."""

    tells = False

    def cells(self) -> list[Cell]:
        networks = self.settings.networks or installed()
        return [{"network": n, "form": form} for n in networks for form in self.settings.forms]

    def measure(self, cell: Cell) -> list[Row]:
        with threadpool_limits(1):  # more threads are slower on products as small as these
            found = loaded(cell["network"], self.settings.quick)
            return [measure(*found, cell["form"], self.settings)]

    def conditions(self) -> Row:
        present = {found.name for found in distributions()}
        return {
            **asdict(self.settings),
            "networks": list(self.settings.networks or installed()),
            "forms": {form: asdict(FORMS[form]) for form in self.settings.forms},
            "seed": SEED,
            "packages": {name: version(name) for name in PACKAGES if name in present},
            "rtl": rtl_digest(),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        lost: dict[str, dict[str, float]] = {}
        for row in rows:
            lost.setdefault(row["form"], {})[row["network"]] = row["points_lost"]
        return {
            form: {"points_lost": of, "most_points_lost": max(of.values())}
            for form, of in lost.items()
        }

    def line(self, row: Row) -> str:
        lowest, highest = row["points_lost_interval"]
        about = (
            f"{row['network']}, {row['form']}: {100 * row['float']:.2f} % of "
            f"{row['points']} {row['unit']} in float, int8 "
            f"{100 * row['int8_onnxruntime']:.2f} % in ONNX Runtime, "
            f"{100 * row['int8_accelerator']:.2f} % on the accelerator "
            f"({row['points_lost']:+.2f} points lost, {lowest:+.2f} to {highest:+.2f} with 95 %; "
            f"{counted(row['images_worse'], 'image')} worse, {row['images_better']} better; "
            f"{100 * row['answers_as_onnxruntime']:.1f} % of answers as ONNX Runtime's); "
            f"{counted(row['images_bit_exact'], 'image')} bit-exact; "
            f"{row['accelerated']} of {row['operators']} operators and "
            f"{100 * row['mac_share']:.1f} % of {row['macs']:,} products on the "
            f"accelerator in {counted(row['regions'], 'region')}, {row['cycles']:,} cycles "
            f"({row['milliseconds']:.2f} ms); CPU {row['cpu_milliseconds_here']:.2f} ms here"
        )
        kinds = (f"    CPU: {k['count']} {k['kind']}: {k['reason']}" for k in row["cpu_kinds"])
        return "\n".join([about, *kinds])
