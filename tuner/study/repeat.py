# SPDX-License-Identifier: Apache-2.0
"""What a study found as one file, and the measurement of that file again, without a search.

The file is the configuration as ``--hw`` takes it, with a key `TUNED` that holds what else the
cycles depend on: memory, layers and their schedules, and the cycles themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common import plain_values
from tilewright.host.common.errors import ConfigError, WorkloadError, errors_in
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.lowering import legal
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import TUNED, HwConfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.measurement import Measurement, Oracle, Request
from tilewright.tuner.study.results import StudyResult

_LIMIT: Final = 4
"""A run is stopped at so many times the cycles that it took before."""


@dataclass(frozen=True, kw_only=True)
class TunedLayer:
    """One layer of a file."""

    workload: Workload
    schedule: Schedule
    cycles: int  # of one occurrence


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A configuration, and what a study found on it."""

    hw: HwConfig
    memory: MemoryModel
    study: str
    fidelity: str  # which counted the cycles
    layers: tuple[TunedLayer, ...]


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A layer that was measured again."""

    layer: TunedLayer
    answer: Measurement

    @property
    def equal(self) -> bool:
        """Whether it takes the same cycles, with the right output where that is checked."""
        return self.answer.valid and self.answer.cycles == self.layer.cycles


def tuned_mapping(result: StudyResult) -> dict[str, Any]:
    """What is written under `TUNED`; cycles and schedules of layers with a valid trial."""
    workloads = {str(task["name"]): task for task in result.settings["tasks"]}
    return {
        "study": result.study.name,
        "fidelity": str(result.settings["fidelity"]),
        "memory": dict(result.settings["memory"]),
        "layers": [
            {
                "workload": dict(workloads[task.name]),
                "schedule": Schedule.from_mapping(task.best.schedule).to_mapping(),
                "cycles": task.best_cycles,
            }
            for task in result.tasks
            if task.best is not None
        ],
    }


_MAPPING: Final = plain_values.plain(dict)
_LAYER: Final = plain_values.record(
    workload=_MAPPING, schedule=_MAPPING, cycles=plain_values.integer(1, 1 << 48)
)
_TUNED: Final = plain_values.record(
    study=plain_values.plain(str),
    fidelity=plain_values.plain(str),
    memory=_MAPPING,
    layers=plain_values.each(_LAYER, most=10_000),
)


def load_tuned(path: Path) -> Tuned:
    """Read what a study wrote beside its report.

    Raises:
        TilewrightError: it is no such file, or a layer of it cannot run on its configuration.
    """
    data = read_yaml_mapping(path, "what a study found")
    try:
        told = _TUNED(data.pop(TUNED, None))
        with errors_in(str(path)):
            hw = HwConfig.from_mapping(data, origin=str(path))
            layers = tuple(_layer(hw, each) for each in told["layers"])
            NetworkTable(name=TUNED, workloads=tuple(each.workload for each in layers))
            return Tuned(
                hw=hw,
                memory=MemoryModel.from_mapping(told["memory"], origin=f"{TUNED}.memory"),
                study=told["study"],
                fidelity=told["fidelity"],
                layers=layers,
            )
    except (plain_values.PlainValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"must be the YAML file that tune writes beside its report ({error})",
            field=str(path),
            remedy="name runs/STUDY.yaml",
        ) from error


def _layer(hw: HwConfig, values: Mapping[str, Any]) -> TunedLayer:
    workload = Workload.from_mapping(values["workload"])
    name = workload.name
    if not isinstance(name, str) or not name:
        raise WorkloadError("must be text", field="a layer's name", value=name, remedy="name it")
    if not workload.kind.weighs:
        raise WorkloadError(
            "has no schedules that a study searches",
            field=f"{name}.kind",
            value=str(workload.kind),
            remedy="leave the layer out; conv2d and depthwise have some",
        )
    with errors_in(name):
        schedule = Schedule.from_mapping(values["schedule"])
    legality = legal(hw, workload, schedule)
    if not legality.ok:
        raise WorkloadError(
            f"is not legal on {hw.name}: {legality.rule}, {legality.detail}",
            field=f"{name}.schedule",
            value=" ".join(f"{knob}={value}" for knob, value in schedule.to_mapping().items()),
            remedy="take configuration and schedules of one study",
        )
    return TunedLayer(workload=workload, schedule=schedule, cycles=values["cycles"])


def repeat(tuned: Tuned, oracle: Oracle) -> list[Repeated]:
    """Measure every layer again, in the order of the file; nothing comes from a store."""
    if oracle.fidelity == Fidelity.BOARD:
        raise ConfigError(
            "repeats what this machine counts",
            field="fidelity",
            value=oracle.fidelity,
            remedy="use rtl, dpi, timing or twin",
        )
    if oracle.fidelity == Fidelity.TWIN:
        Twin(tuned.hw, tuned.memory)  # refuses a memory that it does not cover
    requests: Sequence[Request] = [
        Request(
            hw=tuned.hw,
            workload=layer.workload,
            schedule=layer.schedule,
            memory=tuned.memory,
            max_cycles=_LIMIT * layer.cycles,
        )
        for layer in tuned.layers
    ]
    oracle.prepare(tuned.hw)
    answers = dict(oracle.measure(requests))
    return [
        Repeated(layer=layer, answer=answers[place]) for place, layer in enumerate(tuned.layers)
    ]


def repeated_row(each: Repeated) -> dict[str, Any]:
    """A layer as plain values."""
    return {
        "name": each.layer.workload.name,
        "count": each.layer.workload.count,
        "before_cycles": each.layer.cycles,
        "cycles": each.answer.cycles,
        "equal": each.equal,
        "failure": each.answer.failure,
        "schedule": each.layer.schedule.to_mapping(),
    }
