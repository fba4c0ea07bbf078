# SPDX-License-Identifier: Apache-2.0
"""Quantised TensorFlow Lite files on the accelerator, beside LiteRT's own kernels.

Each file of a folder is compiled, runs on a device bit-exact to the reference, and is compared with
LiteRT where the package ``ai-edge-litert`` is installed: the outputs of the whole network, and each
operator alone, which gets what LiteRT's kernels computed before it. Data are random steps; an input
whose file stands beside the network (``NAME.npy``, float) is quantised and added.

    tilewright bench networks --tflite models/
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.commands import NETWORK_CONDITIONS, NetworksSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable, table_of, worded
from tilewright.bench.networks.networks import checked_run, compiled_row
from tilewright.host.common.errors import ConfigError
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.float_model import is_tflite_file
from tilewright.host.compiler.read.tflite.file import TfliteModel, parse_tflite, says_quantised
from tilewright.host.compiler.read.tflite.model import tflite_to_onnx
from tilewright.host.compiler.run.runtime import open_network
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.clock import ClockEstimate, clock_estimate
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.synth.design import rtl_digest

Array = npt.NDArray[Any]

INPUTS: Final = 16
"""Random inputs of a network."""

ALONE: Final = 8
"""Inputs at most that each operator gets alone."""

_MISSING: Final = "-"


class LiteRt:
    """LiteRT's reference kernels, or its optimised ones, with every tensor readable."""

    def __init__(self, data: bytes, *, optimised: bool = False) -> None:
        interpreter = import_module("ai_edge_litert.interpreter")

        kinds = interpreter.OpResolverType
        self._interpreter = interpreter.Interpreter(
            model_content=data,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            if optimised
            else kinds.BUILTIN_REF,
        )
        self._interpreter.allocate_tensors()

    @staticmethod
    def is_there() -> bool:
        """Whether the package is installed."""
        return find_spec("ai_edge_litert") is not None

    def run(self, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """Tensors that are computed, by number."""
        for index, array in inputs.items():
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()
        made = {
            int(index) for each in self._interpreter._get_ops_details() for index in each["outputs"]
        }
        return {index: self._interpreter.get_tensor(index) for index in made} | dict(inputs)


def alone(source: TfliteModel, number: int) -> TfliteModel:
    """One operator of a file as a network."""
    operation = source.operations[number]
    reads = dict.fromkeys(i for i in operation.inputs if i >= 0 and source.tensors[i].data is None)
    return replace(source, operations=(operation,), inputs=tuple(reads), outputs=operation.outputs)


def largest_steps(
    source: TfliteModel, tensors: Sequence[Mapping[int, Array]], hw: HwConfig, board: Board
) -> Iterator[tuple[str, int, float]]:
    """Kind, largest difference in steps and share of equal elements of each operator alone."""
    for number, operation in enumerate(source.operations):
        cut = alone(source, number)
        model = tflite_to_onnx(cut, {}, Path(operation.kind))
        compiled = compile_model(model, hw, board, offload_all=True).network
        runner = open_network(compiled, ReferenceDevice(hw), trusted=True)
        worst, equal = 0, []
        for known in tensors:
            given = {p.name: known[i] for p, i in zip(compiled.inputs, cut.inputs, strict=True)}
            found = runner.run(given).outputs[compiled.outputs[0].name].astype(np.int64)
            gap = np.abs(found - known[cut.outputs[0]])
            worst = max(worst, int(gap.max()))
            equal.append(float((gap == 0).mean()))
        yield operation.kind, worst, float(np.mean(equal))


def outputs_of(network: CompiledNetwork, inputs: Sequence[Array]) -> list[Array]:
    """The one output of a network for each input, on the reference device."""
    runner = open_network(network, ReferenceDevice(network.hw), trusted=True)
    name, result = network.inputs[0].name, network.outputs[0].name
    return [runner.run({name: each}).outputs[result] for each in inputs]


def largest_gap(found: Sequence[Array], theirs: Sequence[Array]) -> int:
    """In steps."""
    pairs = zip(found, theirs, strict=True)
    return max(int(np.abs(a.astype(np.int64) - b).max()) for a, b in pairs)


def before_softmax(source: TfliteModel) -> TfliteModel:
    """A network without its last softmax, which makes steps of its data larger."""
    *others, last = source.operations
    if last.kind != "SOFTMAX":
        return source
    return replace(source, operations=tuple(others), outputs=last.inputs)


def _inputs(path: Path, network: CompiledNetwork, count: int) -> list[Array]:
    """Random steps, and the steps of what stands beside a network."""
    rng, port = np.random.default_rng(0), network.inputs[0]
    limits = np.iinfo(port.dtype)
    found = [
        rng.integers(limits.min, limits.max + 1, port.shape).astype(port.dtype)
        for _ in range(count)
    ]
    real = path.with_suffix(".npy")
    if real.is_file():
        rows = np.load(real).astype(np.float32).reshape(-1, *port.shape)
        found += [port.quantise(each) for each in rows]
    return found


def measure(path: Path, given: NetworksSettings) -> Row:
    """One file; raises when a device and the reference differ."""
    started, hw, board = time.perf_counter(), load_hwconfig(given.hw), load_board(given.board)
    compilation, found_row = compiled_row(path, given)
    compiled = compilation.network
    inputs = _inputs(path, compiled, 2 if given.quick else INPUTS)
    first = {compiled.inputs[0].name: inputs[0]}
    checked_run(compiled, board, given.fidelity, first, found_row["cycles"])
    row: dict[str, Any] = {
        **found_row,
        "inputs": len(inputs),
    }
    if LiteRt.is_there():
        data = path.read_bytes()
        source = parse_tflite(data, path)
        given_to = source.inputs[0]
        own, fast = (
            [kernels.run({given_to: each}) for each in inputs]
            for kernels in (LiteRt(data), LiteRt(data, optimised=True))
        )
        cut = before_softmax(source)
        sums = compile_model(tflite_to_onnx(cut, {}, path), hw, board).network
        last, end = cut.outputs[0], source.outputs[0]
        found, theirs = outputs_of(compiled, inputs), [each[end] for each in own]
        layers = list(largest_steps(source, own[:: -(-len(own) // ALONE)], hw, board))
        row |= {
            "compared": len(layers),
            "largest_steps_operator": max(steps for _, steps, _ in layers),
            "equal_operator": float(np.mean([equal for _, _, equal in layers])),
            "largest_steps": largest_gap(found, theirs),
            "largest_steps_before_softmax": largest_gap(
                outputs_of(sums, inputs), [each[last] for each in own]
            ),
            "largest_steps_of_litert": largest_gap(
                [each[last] for each in fast], [each[last] for each in own]
            ),
            "equal_to_litert": float(np.mean([a == b for a, b in zip(found, theirs, strict=True)])),
            "same_answer": float(
                np.mean([a.argmax() == b.argmax() for a, b in zip(found, theirs, strict=True)])
            ),
        }
    return row | {"seconds": time.perf_counter() - started}


def _bracket(cycles: int, estimate: ClockEstimate | None) -> str:
    """Milliseconds at both ends of an estimated clock."""
    ends = () if estimate is None else estimate.mhz[::-1]
    return " to ".join(f"{cycles / mhz / 1e3:.2f}" for mhz in ends) or _MISSING


class TfliteFiles(Study):
    """Quantised files of a folder, one after another."""

    says = "{network}: {cycles:,} cycles, {seconds:.1f} s"

    def __init__(self, settings: NetworksSettings) -> None:
        super().__init__(settings.chosen(fidelity="dpi"))
        folder = Path(settings.tflite)
        self._files = {
            path.stem: path
            for path in sorted(folder.glob("*"))
            if is_tflite_file(path) and says_quantised(path.read_bytes(), path)
        }
        if not self._files:
            raise ConfigError(
                "must be a folder with quantised .tflite files",
                field="--tflite", value=settings.tflite, remedy="name another folder",
            )  # fmt: skip

    def cells(self) -> list[Cell]:
        return [{"network": name} for name in self._files]

    def measure(self, cell: Cell) -> list[Row]:
        return [measure(self._files[cell["network"]], self.settings)]

    def conditions(self) -> Row:
        hw, board = load_hwconfig(self.settings.hw), load_board(self.settings.board)
        return {
            **self.of_settings(*NETWORK_CONDITIONS),
            "clock": board.clock_text(hw.config_hash),
            "litert": LiteRt.is_there(),
            "rtl": rtl_digest(),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        steps = [row["largest_steps_operator"] for row in rows if "largest_steps_operator" in row]
        return {
            "regions": {row["network"]: row["regions"] for row in rows},
            "cycles": {row["network"]: row["cycles"] for row in rows},
            "largest_steps_operator": max(steps, default=None),
            "bit_exact": True,
        }

    def tables(self, document: Row) -> Iterator[FigureTable]:
        rows, hw = document["rows"], load_hwconfig(self.settings.hw)
        estimate = clock_estimate(load_board(self.settings.board).part, hw.config_hash)
        yield table_of(
            "On the accelerator",
            rows,
            {
                "network": "{network}",
                "regions": "{regions}",
                "operators": "{accelerated} of {operators}",
                "MACs": "{macs:,}",
                "MACs on the accelerator": "{mac_share:.0 %}",
                "cycles": "{cycles:,}",
                "ms, accelerator": "{accelerator_milliseconds:.2f}",
                f"ms at {estimate or 'an unknown clock'}": (
                    lambda row: _bracket(row["cycles"], estimate)
                ),
                "ms, end to end": "{milliseconds:.2f}",
            },
        )
        compared = {
            "operators": "{compared}",
            "steps, operator": "{largest_steps_operator}",
            "equal elements": "{equal_operator:.2 %}",
            "inputs": "{inputs}",
            "steps, before softmax": "{largest_steps_before_softmax}",
            "steps, LiteRT's other kernels": "{largest_steps_of_litert}",
            "steps, outputs": "{largest_steps}",
            "equal outputs": "{equal_to_litert:.1 %}",
            "same answer": "{same_answer:.0 %}",
        }

        def beside(form: str) -> Callable[[Row], str]:
            return lambda row: worded(form, row) if "compared" in row else _MISSING

        columns = {title: beside(form) for title, form in compared.items()}
        yield table_of("Beside LiteRT", rows, {"network": "{network}", **columns})
