# SPDX-License-Identifier: Apache-2.0
"""The zoo: where networks of other architectures run, and what one inference takes from end to end.

Each network is quantised with one random input and compiled. Told for each: regions, the share of
the multiplications that the accelerator computes, and the milliseconds of accelerator, crossings
and CPU apart. The summary compares them with what they took before the causes that kept them from
the accelerator were mended. Cycles are the twin's. The network runs once on the reference device,
or on the RTL; its outputs are compared with those of ONNX Runtime on the same quantised model.

    tilewright bench networks --zoo --quick
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tilewright.bench.commands import NETWORK_CONDITIONS, NetworksSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.settings import require_names
from tilewright.bench.framework.study import BenchResult, Study
from tilewright.bench.networks.networks import agreement, checked_run, compiled_row
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.errors import TilewrightError, WorkloadError
from tilewright.host.common.names import counted
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pack.latency import Latency
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

if TYPE_CHECKING:
    import onnx
    from torch import nn


_examples: Final = clone_part("examples/networks", "networks")

CONTROLS: Final = ("resnet18", "mobilenet-v2", "squeezenet")
"""They ran whole before anything was mended for the zoo, and must not have become slower."""

TRAINED: Final = ("text-detector", "body-detector", "file-classifier")
"""Of `networks.public`; the packages of the last two are not in the project's environment."""

BYTE_VALUES: Final = 256
"""An input of integers takes bytes."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A network that the zoo measures."""

    kind: Literal["zoo", "control"]  # ``zoo``, or ``control``: one that had nothing to gain
    # raises `TilewrightError` if the package that holds it is not installed
    load: Callable[[], nn.Module | onnx.ModelProto]
    input_name: str  # of its one input
    input_shape: tuple[int, ...]  # of that
    input_type: str  # of that: ``float32``, or ``int32`` for bytes

    def sample(self) -> np.ndarray[Any, Any]:
        """One random input, always the same: normally distributed, or bytes."""
        rng = np.random.default_rng(0)
        if self.input_type == "int32":
            return rng.integers(0, BYTE_VALUES, self.input_shape, dtype=np.int32)
        return rng.standard_normal(self.input_shape, dtype=np.float32)


def _members() -> Iterator[tuple[str, Member]]:
    architectures: Mapping[str, Any] = import_module("networks.zoo").ZOO
    for name in architectures:
        yield name, _with_random_weights(name, "zoo", architectures[name].input_shape)
    trained: Mapping[str, Any] = import_module("networks.public").PUBLIC_NETWORKS
    for name in TRAINED:
        public = trained[name]
        yield (
            name,
            Member(
                kind="zoo",
                load=public.load,
                input_name=public.input_name,
                input_shape=public.input_shape,
                input_type=public.input_type,
            ),
        )
    for name in CONTROLS:
        yield name, _with_random_weights(name, "control", _examples.NETWORKS[name].input_shape)


def _with_random_weights(
    name: str, kind: Literal["zoo", "control"], shape: tuple[int, ...]
) -> Member:
    return Member(
        kind=kind,
        load=lambda: _examples.build(name),
        input_name="x",
        input_shape=shape,
        input_type="float32",
    )


MEMBERS: Final[Mapping[str, Member]] = dict(_members())
"""In the order of the table."""


HOST_RUNS: Final = 3
"""Runs of the CPU's part on this machine, of which the fastest counts."""

Record = dict[str, Any]


def measure(
    name: str, member: Member, model: nn.Module | onnx.ModelProto, given: NetworksSettings
) -> Record:
    """One network, where ``model`` is what ``member`` has loaded."""
    sample = member.sample()
    data = Calibration(arrays={member.input_name: sample})
    quantise = QuantiseOptions(
        method="minmax", equalisation=False, bias_correction=False, int8_ends=given.int8_ends
    )
    options = ImportOptions(name=name, example_inputs=[sample], quantise=quantise)
    compilation, row = compiled_row(model, given, data, options)
    compiled, board = compilation.network, load_board(given.board)
    image = next(data.batches(compiled.inputs))
    run = checked_run(compiled, board, given.fidelity, image, row["cycles"])
    conversions = board.cpu.work_seconds(nbytes=compiled.conversion_bytes)
    return {
        "kind": member.kind,
        **row,
        "host_milliseconds": row["cpu_milliseconds"] + 1e3 * conversions,
        "host_milliseconds_here": 1e3 * host_seconds(compiled, image),
        **agreement(compilation.imported, run.outputs, image),
    }


def host_seconds(compiled: CompiledNetwork, inputs: Mapping[str, Any]) -> float:
    """Processor seconds of the CPU's part on this machine, the least of `HOST_RUNS` runs.

    Regions return zeros at once: what the CPU does takes no longer for other numbers. Seconds are
    those of all threads, so that other load on the machine does not count.
    """
    host = HostProgram(module=HostModule.from_json(compiled.host))

    def nothing(number: int, _: Sequence[Any]) -> Sequence[Any]:
        region = compiled.regions[number]
        shapes = [region.model_shapes.get(n, region.tensors[n].shape) for n in region.outputs]
        return [np.zeros(shape, np.int8) for shape in shapes]

    found = []
    for _ in range(HOST_RUNS):
        started = time.process_time()
        host.run(inputs, nothing)
        found.append(time.process_time() - started)
    return min(found)


QUICK: Final = ("keyword-spotter", "bert-tiny", "gpt-block", "mobilenet-v3-small")

BEFORE_FILE: Final = Path(__file__).with_name("zoo_before.yaml")
"""Milliseconds that `zoo.geomean_speedup` compares with."""


def summary(records: Sequence[Row], before: Mapping[str, float]) -> Record:
    """The figures of `zoo`, and how the CPU's model compares with this machine."""
    zoo = [r for r in records if r["kind"] == "zoo"]
    controls = [r for r in records if r["kind"] == "control"]
    gained, kept = _ratios(zoo, before), _ratios(controls, before)
    factors = sorted(
        r["host_milliseconds"] / r["host_milliseconds_here"]
        for r in records
        if r["host_milliseconds"] >= MEASURABLE_MILLISECONDS
    )
    return {
        "zoo": {
            "most_regions": max((r["regions"] for r in zoo), default=None),
            "worst_mac_share": min((r["mac_share"] for r in zoo), default=None),
            "worst_cpu_and_crossings_share": max(
                (r["cpu_and_crossings_share"] for r in zoo), default=None
            ),
            "geomean_speedup": _geometric_mean(gained),
            "geomean_speedup_with_controls": _geometric_mean([*gained, *kept]),
            "controls_worst_ratio": min(kept, default=None),
            "networks": len(zoo),
            "networks_with_before": len(gained),
            "controls": len(controls),
            "before_hw": _recorded()["conditions"]["hw"] if gained or kept else None,
        },
        "host_factor": {
            "median": factors[len(factors) // 2] if factors else None,
            "least": factors[0] if factors else None,
            "most": factors[-1] if factors else None,
        },
    }


MEASURABLE_MILLISECONDS: Final = 1.0
"""Less work on the CPU is not compared with this machine: calls of TVM outweigh it."""


def _ratios(records: Sequence[Row], before: Mapping[str, float]) -> list[float]:
    """How many times longer each took before, of those on record."""
    return [before[r["network"]] / r["milliseconds"] for r in records if r["network"] in before]


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else None


def before_milliseconds(hw: str, board: str) -> dict[str, float]:
    """End-to-end milliseconds on record for a configuration and a board; empty: there are none."""
    recorded = _recorded()
    conditions = recorded["conditions"]
    plain = load_hwconfig(hw).without_options().config_hash
    same = plain == load_hwconfig(conditions["hw"]).config_hash
    if not same or conditions["board"] != board:
        return {}
    return {
        name: Latency(**{part: value / 1e3 for part, value in parts.items()}).total * 1e3
        for name, parts in recorded["milliseconds"].items()
    }


def _recorded() -> Mapping[str, Any]:
    return read_yaml_mapping(BEFORE_FILE, "figures of the zoo")


class Zoo(Study):
    """Networks of other architectures, one after another."""

    tells = False

    resumes = True

    def __init__(self, settings: NetworksSettings) -> None:
        super().__init__(settings.chosen())
        self.failures: Final[dict[str, str]] = {}
        """What kept a network from being compiled."""
        self.left_out: Final[dict[str, str]] = {}
        """Networks whose packages are not installed."""
        require_names("--networks", settings.networks, MEMBERS)

    def cells(self) -> list[Cell]:
        chosen = self.settings.networks or (QUICK if self.settings.quick else MEMBERS)
        return [{"network": name} for name in chosen]

    def measure(self, cell: Cell) -> Iterator[Row]:
        started, name = time.perf_counter(), cell["network"]
        try:
            model = MEMBERS[name].load()
        except TilewrightError as error:
            self.left_out[name] = str(error)
            print(f"{name}, left out: {error}", flush=True)
            return
        try:
            row = measure(name, MEMBERS[name], model, self.settings)
        except WorkloadError as error:
            self.failures[name] = str(error)
            print(f"{name}: {error}", flush=True)
            return
        yield {**row, "seconds": time.perf_counter() - started}

    def conditions(self) -> Row:
        return {
            **self.of_settings(*NETWORK_CONDITIONS),
            "weights": "random, seed 0, or trained",
            "calibration": "one random input, minmax",
            "host_runs": HOST_RUNS,
            "int8_ends": self.settings.int8_ends,
        }

    def result(self, rows: Sequence[Row]) -> BenchResult:
        before = before_milliseconds(self.settings.hw, self.settings.board)
        told = {"failures": self.failures, "left_out": self.left_out}
        return BenchResult(
            rows=rows,
            conditions=self.conditions(),
            summary=summary(rows, before) | told,
            passed=not self.failures,
        )

    def line(self, row: Row) -> str:
        return (
            f"{row['network']}: {counted(row['regions'], 'region')}, {row['accelerated']} of "
            f"{row['operators']} operators, {100 * row['mac_share']:.1f} % of the MACs; "
            f"{row['milliseconds']:.2f} ms = accelerator {row['accelerator_milliseconds']:.2f} + "
            f"crossings {row['crossings_milliseconds']:.2f} + CPU {row['cpu_milliseconds']:.2f} "
            f"(bottleneck: {row['bottleneck']}), {row['cycles']:,} cycles, "
            f"{100 * row['bound_cycles'] / max(1, row['cycles']):.1f} % of them bound; "
            f"largest gap to ONNX Runtime {100 * row['largest_gap_to_ort']:.2f} % of the range"
        )
