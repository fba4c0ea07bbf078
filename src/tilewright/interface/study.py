# SPDX-License-Identifier: Apache-2.0
"""Whole studies from Python: `tune` runs one, `load_study` reads one, `Study` is what it found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.board import THE_BOARDS, Board, MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.interface.search import tuner_name
from tilewright.interface.typed import typed
from tilewright.sim.verilator.rtl_variant import rtl_variant
from tilewright.tuner.measure.energy import DEFAULT_ENERGY
from tilewright.tuner.report.files import report_path
from tilewright.tuner.report.page import write_html
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.search.tuner import Tuner
from tilewright.tuner.store.database import hidden
from tilewright.tuner.store.location import store_location
from tilewright.tuner.store.store import Store, values_from
from tilewright.tuner.study.best_network import chosen_by_objective, hw_of
from tilewright.tuner.study.conduct import conduct, incomplete
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.prepare import DEFAULT_BASE, prepare_settings
from tilewright.tuner.study.results import StudyResult, TaskResult, load_result
from tilewright.tuner.study.session import Listener, Silent, StudyError
from tilewright.tuner.study.settings import DEFAULT_ALLOCATOR, DEFAULT_BUDGET, DEFAULT_TUNER, Mode


@dataclass(frozen=True, kw_only=True)
class TunedLayer:
    """What a study found for one layer.

    Attributes:
        name: of the layer.
        count: how often the network has it.
        hw: the configuration of ``schedule``.
        schedule: the best one that was measured.
        cycles: of one occurrence with ``schedule``.
        untuned_cycles: of one occurrence with the untuned schedule on the configuration that the
            study started from; None if that did not run.
        bound_cycles: no schedule takes fewer on ``hw``.
    """

    name: str
    count: int
    hw: HwConfig
    schedule: Schedule
    cycles: int
    untuned_cycles: int | None
    bound_cycles: int


class Study:
    """What a study found: the best configuration and schedules, and what they take.

    `tune` and `load_study` make it.

    Attributes:
        report: HTML file that `tune` writes.

    Example:
        >>> import tempfile
        >>> import tilewright as tw
        >>> layer = tw.dense("fc", rows=4, features_in=64, features_out=16)
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     study = tw.tune(layer, hw="tiny-4x4", budget=4, fidelity="twin", runs=runs)
        >>> study.cycles == study.layers[0].cycles, study.hw.name
        (True, 'tiny-4x4')
        >>> sorted(study.schedules)
        ['fc']
    """

    def __init__(self, result: StudyResult, report: Path) -> None:
        self.report: Final = report
        if result.mismatches:
            raise StudyError(
                "a device computed something else than the golden model "
                f"({result.mismatches[0].measurement.failure})",
                field=result.study.name,
                remedy="this is a defect of Tilewright: please report it with the study's settings",
            )
        self._result: Final = result
        self._layers: Final = tuple(_tuned(task, result.study.name) for task in result.tasks)
        if result.best_network is None or result.bound_network is None:
            raise incomplete(result.study.name)
        self._cycles: Final = result.best_network
        self._bound: Final = result.bound_network

    def __repr__(self) -> str:
        """Name and cycles."""
        return f"<Study {self.name}: {self.cycles:,} cycles>"

    @property
    def name(self) -> str:
        """Name in the store; `load_study` takes it."""
        return self._result.study.name

    @property
    def hw(self) -> HwConfig:
        """The configuration that the study chose for the network.

        Raises:
            StudyError: the study chose one per layer (``mode="per-layer"``).
        """
        if not self._result.shared:
            raise StudyError(
                "a study per layer has no single configuration",
                field=self.name,
                remedy="read the hw of each of its layers",
            )
        return self._layers[0].hw

    @property
    def layers(self) -> tuple[TunedLayer, ...]:
        """The layers in network order."""
        return self._layers

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Names of the layers to their best schedules."""
        return {layer.name: layer.schedule for layer in self._layers}

    @property
    def cycles(self) -> int:
        """Of the network with the best schedules: the layers' sum, counts included."""
        return self._cycles

    @property
    def untuned_cycles(self) -> int | None:
        """Of the untuned schedules on the first configuration; None if one of them did not run."""
        return self._result.default_network

    @property
    def bound_cycles(self) -> int:
        """No schedules of the layers take fewer cycles on the chosen configuration."""
        return self._bound

    @property
    def milliseconds(self) -> float:
        """Time of `cycles` at the board's clock, which is assumed unless a bitstream reached it."""
        return self._result.milliseconds(self._cycles)

    @property
    def measurements(self) -> int:
        """Distinct measurements of the search."""
        return self._result.search.summary.count

    @property
    def settings(self) -> Mapping[str, Any]:
        """The study's settings as the store keeps them: plain values."""
        return self._result.settings


@typed
def tune(
    model: str | Path | NetworkTable | Workload,
    *,
    board: str | Path | Board = "pynq-z2",
    budget: int = DEFAULT_BUDGET,
    tuner: str | type[Tuner[Any]] = DEFAULT_TUNER,
    hw: str | Path | HwConfig | None = None,
    base: str | Path | HwConfig = DEFAULT_BASE,
    configs: int | None = None,
    layers: Sequence[str] = (),
    compiled: bool = False,
    trust_model: bool = False,
    memory: str | Path | MemoryModel | Board = THE_BOARDS,
    mode: str = Mode.SHARED,
    objective: str = ObjectiveName.LATENCY,
    energy: str = DEFAULT_ENERGY,
    space: str = "full",
    allocator: str = DEFAULT_ALLOCATOR,
    without: Iterable[str] = (),
    fidelity: str = Fidelity.RTL,
    screen: bool | None = None,
    seed: int = 0,
    seconds: float | None = None,
    warm_start: str | Path = "",
    workers: int | None = None,
    ray: str = "",
    boards: str | Path | None = None,
    bitstreams: str | Path | None = None,
    rtl: str | Path | None = None,
    runs: str | Path = "runs",
    store: str | Path = "",
    name: str = "",
    progress: bool = False,
) -> Study:
    """Tune configuration and schedules of a network; the same call resumes an interrupted study.

    It does what `tilewright tune` does. Every trial is stored the moment it is known, so an
    interrupted call loses nothing. Measuring in worker processes starts new interpreters: a script
    that calls this needs ``if __name__ == "__main__":``.

    Args:
        model: a built-in network, the path of an ONNX or compiled (``.tw``) file, a network that
            `load_network` returned, or a single layer.
        board: name, YAML file or `Board`.
        budget: distinct measurements of the search.
        tuner: name, ``package.module:Class``, or a subclass of `Tuner` from the top level of a
            module.
        hw: the only configuration: name, YAML file or `HwConfig`. None: configurations that fit the
            board are searched, too.
        base: configuration that such a search starts from.
        configs: configurations that it measures at most; None: 4.
        layers: names of the layers to tune; none: all.
        compiled: compile an ONNX or ``.pt2`` model first and tune its fused layers (needs the extra
            ``network``).
        trust_model: as in `compile`; needs ``compiled``.
        memory: ``board``: the board's; or as in `simulate`.
        mode: ``shared``: one configuration for the network; ``per-layer``: one for each layer.
        objective: ``latency`` (cycles), ``edp`` (cycles x energy), ``area`` (cycles x area), or
            ``package.module:Class``.
        space: ``full`` or ``vta``; see `schedule_space`.
        energy: model of it, ``counters`` or ``package.module:Class``.
        allocator: who decides which layer gets the next measurements.
        without: parts of the tuner that are switched off, for an ablation.
        fidelity: what measures, or confirms what was screened: ``board``, ``rtl``, ``dpi``,
            ``timing`` or ``twin``.
        screen: search on the cycle-exact twin, and confirm the untuned and the best network on
            ``fidelity``. False: ``fidelity`` measures everything. None: screen, but not for boards.
        seed: of every random choice.
        seconds: start no new trial of the search after so long.
        warm_start: STORE[:STUDY] whose schedules the study begins with.
        workers: worker processes; None: one per core.
        ray: address of a Ray cluster that measures: ``auto``, ``host:port``, or ``local`` to start
            one here. Empty: this machine.
        boards: file that lists the agents of the boards that fidelity ``board`` measures on.
        bitstreams: folder of bitstreams whose configurations those boards choose from.
        rtl: manifest of your RTL, which is built in place of ours: a text file that names the
            sources, one per line, relative to itself.
        runs: folder of the store and of the report ``<name>.html``.
        store: SQLite file or ``postgresql://`` URL; empty: ``studies.sqlite`` in ``runs``.
        name: of the study; empty: made from the settings.
        progress: show a progress display on standard output.

    Returns:
        What the study found, with the path of its report.

    Raises:
        TilewrightError: a name that does not exist, or settings that contradict each other.
        IncompleteStudyError: some layer has no valid measurement.
        StudyError: the name is taken by a study that does not follow from these settings.
        ToolError: Verilator or the compiler is missing.
        EnvironmentFaultError: the machine cannot build or run.

    Example:
        >>> import tempfile
        >>> import tilewright as tw
        >>> layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     study = tw.tune(layer, hw="tiny-4x4", budget=16, fidelity="twin", runs=runs)
        >>> study.cycles < study.untuned_cycles
        True
        >>> tw.legal(study.hw, layer, study.schedules["example"]).ok
        True
    """
    folder = Path(runs)
    location = store_location(store, folder)
    with ExitStack() as stack:
        stack.enter_context(rtl_variant(rtl))
        settings = prepare_settings(
            model,
            board=board,
            memory=memory,
            layers=layers,
            compiled=compiled,
            trust_model=trust_model,
            hw=hw,
            base=base,
            configs=configs,
            mode=mode,
            tuner=tuner_name(tuner),
            allocator=allocator,
            objective=objective,
            energy=energy,
            space=space,
            budget=budget,
            seed=seed,
            screen=screen,
            fidelity=fidelity,
            bitstreams=bitstreams,
            without=without,
        )
        listener: Listener = Silent()
        if progress:
            from rich.console import Console  # noqa: PLC0415  (only for a display)

            from tilewright.tuner.report.progress import ProgressDisplay  # noqa: PLC0415  (slow to import)

            listener = stack.enter_context(ProgressDisplay(settings, Console()))
        found = conduct(
            settings,
            name,
            location,
            fidelity=fidelity,
            listener=listener,
            workers=workers,
            cluster=ray,
            boards=None if boards is None else Path(boards),
            seconds=seconds,
            warm_start=str(warm_start),
        )
    with Store(location, must_exist=True, read_only=True) as opened:
        result = chosen_by_objective(load_result(opened, found))
    report = write_html(result, pareto(result.search), report_path(found, folder))
    return Study(result, report)


@typed
def load_study(name: str = "", *, runs: str | Path = "runs", store: str | Path = "") -> Study:
    """Read what a study found from its store.

    Args:
        name: of the study; empty: the one that was started last.
        runs: folder that `tune` was given.
        store: as `tune` was given it.

    Raises:
        StoreError: there is no such store or study.
        IncompleteStudyError: some layer has no valid measurement yet.

    Example:
        >>> import tempfile
        >>> import tilewright as tw
        >>> layer = tw.dense("fc", rows=1, features_in=64, features_out=16)
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     study = tw.tune(layer, hw="tiny-4x4", budget=4, fidelity="twin", runs=runs)
        ...     tw.load_study(study.name, runs=runs).cycles == study.cycles
        True
    """
    place = store_location(store, Path(runs))
    with values_from(hidden(place)), Store(place, must_exist=True, read_only=True) as opened:
        names = [study.name for study in opened.studies()]
        if not names:
            raise StoreError(
                "the trial store holds no study", field=opened.name, remedy="tune first"
            )
        result = chosen_by_objective(load_result(opened, name or names[-1]))
    return Study(result, report_path(result.study.name, Path(runs)))


def _tuned(task: TaskResult, study: str) -> TunedLayer:
    if task.best is None or task.best_cycles is None or task.bound is None:
        raise incomplete(study)
    return TunedLayer(
        name=task.name,
        count=task.count,
        hw=hw_of(task.best),
        schedule=Schedule.from_mapping(task.best.schedule),
        cycles=task.best_cycles,
        untuned_cycles=task.default_cycles,
        bound_cycles=task.bound,
    )
