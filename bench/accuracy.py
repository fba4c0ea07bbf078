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
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions, version
from typing import Any

import numpy as np
import onnx
import onnxruntime
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has none

from tilewright.bench.accuracy_data import SEED
from tilewright.bench.accuracy_loss import loss
from tilewright.bench.accuracy_subject import Answer, Subject
from tilewright.bench.accuracy_subjects import SUBJECTS
from tilewright.bench.result import BenchResult
from tilewright.host.common.names import counted
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pack.latency import mac_share
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

QUICK = ("digits", "angle-classifier", "rnet")
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


@dataclass(frozen=True, kw_only=True)
class Options:
    """How networks are measured.

    Attributes:
        networks: of `SUBJECTS`.
        forms: of `FORMS`.
        hw: configuration.
        board: clock, memory and CPU.
        fidelity: ``rtl`` or ``dpi``: of the sample.
        sample: images per network that run on the device, too.
        search: measurements per layer.
        quick: few images.
    """

    networks: Sequence[str]
    forms: Sequence[str]
    hw: str
    board: str
    fidelity: str
    sample: int
    search: int
    quick: bool


class Accelerator:
    """A compiled network on the definition of its arithmetic.

    Args:
        compiled: the network.
        graphs: the layers of its regions.
    """

    def __init__(self, compiled: CompiledNetwork, graphs: Sequence[LayerGraph]) -> None:
        self._compiled = compiled
        self._graphs = graphs
        self._host = HostProgram(module=HostModule.from_json(compiled.host))
        self._input = compiled.inputs[0].name
        self._output = compiled.outputs[0].name
        self.cpu_seconds: list[float] = []

    def run(self, image: Array, devices: Sequence[Device] = ()) -> Array:
        """The first output for one image.

        Args:
            image: of the input's shape.
            devices: each runs every region, too; its results must be equal.

        Raises:
            SystemExit: a device returns something else.
        """

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
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
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


def placement(compiled: CompiledNetwork) -> Record:
    """What runs where, why, and how much of the work that is."""
    cpu = Counter((p.kind, p.reason) for p in compiled.placements if p.where == "cpu")
    return {
        "operators": len(compiled.placements),
        "accelerated": sum(p.where == "accelerator" for p in compiled.placements),
        "accelerated_kinds": dict(
            Counter(p.kind for p in compiled.placements if p.where == "accelerator").most_common()
        ),
        "cpu_kinds": [
            {"kind": kind, "reason": reason, "count": count}
            for (kind, reason), count in cpu.most_common()
        ],
        "regions": len(compiled.regions),
        "macs": sum(p.macs for p in compiled.placements),
        "macs_accelerated": mac_share(compiled),
    }


def measure(
    subject: Subject,
    model: onnx.ModelProto,
    exact: Sequence[Array],
    form: str,
    given: Options,
) -> Record:
    """One network in one form of quantisation; exits when a device is not bit-exact.

    Args:
        subject: network and images.
        model: the float network.
        exact: outputs of the float network.
        form: of `FORMS`.
        given: how it is measured.
    """
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
        "network": subject.name,
        "source": subject.source,
        "form": form,
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


def show(record: Record) -> None:
    """Print one record."""
    lowest, highest = record["points_lost_interval"]
    print(
        f"{record['network']}, {record['form']}: {100 * record['float']:.2f} % of "
        f"{record['points']} {record['unit']} in float, int8 "
        f"{100 * record['int8_onnxruntime']:.2f} % in ONNX Runtime, "
        f"{100 * record['int8_accelerator']:.2f} % on the accelerator "
        f"({record['points_lost']:+.2f} points lost, {lowest:+.2f} to {highest:+.2f} with 95 %; "
        f"{counted(record['images_worse'], 'image')} worse, "
        f"{record['images_better']} better; {100 * record['answers_as_onnxruntime']:.1f} % of "
        f"answers as ONNX Runtime's); {counted(record['images_bit_exact'], 'image')} bit-exact; "
        f"{record['accelerated']} of {record['operators']} operators and "
        f"{100 * record['macs_accelerated']:.1f} % of {record['macs']:,} products on the "
        f"accelerator in {counted(record['regions'], 'region')}, {record['cycles']:,} cycles "
        f"({record['milliseconds']:.2f} ms); CPU {record['cpu_milliseconds_here']:.2f} ms here",
        flush=True,
    )
    for row in record["cpu_kinds"]:
        print(f"    CPU: {row['count']} {row['kind']}: {row['reason']}", flush=True)


def thinned(subject: Subject) -> Subject:
    """The subject with every `SMALL`-th test image."""
    return replace(subject, images=subject.images[::SMALL], truths=subject.truths[::SMALL])


def run(options: Options) -> BenchResult:
    """Measure networks one after another.

    Raises:
        DeviceError: a result is not bit-exact.
    """
    records = []
    present = {found.name for found in distributions()}
    with threadpool_limits(1):  # more threads are slower on products as small as these
        for name in options.networks:
            subject = thinned(SUBJECTS[name]()) if options.quick else SUBJECTS[name]()
            model = subject.load()
            exact = outputs_of(model, subject)
            for form in options.forms:
                records.append(measure(subject, model, exact, form, options))
                show(records[-1])
    return BenchResult(
        rows=records,
        summary={
            form: {
                "points_lost": {
                    r["network"]: r["points_lost"] for r in records if r["form"] == form
                },
                "most_points_lost": max(r["points_lost"] for r in records if r["form"] == form),
            }
            for form in options.forms
        },
        conditions={
            **asdict(options),
            "forms": {form: asdict(FORMS[form]) for form in options.forms},
            "seed": SEED,
            "packages": {name: version(name) for name in PACKAGES if name in present},
            "rtl": rtl_digest(),
        },
    )
