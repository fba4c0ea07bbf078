# SPDX-License-Identifier: Apache-2.0
"""Whole studies from Python: `tune` runs one, `load_study` reads one, `Study` is what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import StoreError
from tilewright.host.common.options import takes
from tilewright.host.common.summaries import Summarised
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.interface.figures import Comparison, Figures, grouped
from tilewright.interface.search import tuner_name
from tilewright.interface.typed import typed
from tilewright.sim.verilator.rtl_variant import rtl_variant
from tilewright.tuner.exhaustive.prove import Proof
from tilewright.tuner.report.page import write_html
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.report.result_json import report_path
from tilewright.tuner.store.database import hidden
from tilewright.tuner.store.location import store_location
from tilewright.tuner.store.store import Store, values_from
from tilewright.tuner.study.best_network import chosen_by_objective, hw_of
from tilewright.tuner.study.conduct import conduct, incomplete
from tilewright.tuner.study.options import TuneOptions
from tilewright.tuner.study.prepare import prepare_settings
from tilewright.tuner.study.results import StudyResult, TaskResult, load_result
from tilewright.tuner.study.session import Listener, Silent, StudyError


@dataclass(frozen=True, kw_only=True)
class TunedLayer:
    """What a study found for one layer.

    Attributes:
        untuned_cycles: of one occurrence with the untuned schedule on the configuration that the
            study started from; None if that did not run.
    """

    name: str  # of the layer
    count: int  # how often the network has it
    hw: HwConfig  # the configuration of ``schedule``
    schedule: Schedule  # the best one that was measured
    cycles: int  # of one occurrence with ``schedule``
    untuned_cycles: int | None
    bound_cycles: int  # no schedule takes fewer on ``hw``
    proof: Proof | None = None  # the last one of the layer; None: none was needed or asked for


class Study(Figures, Summarised):
    """What a study found: the best configuration and schedules, and what they take.

    `tune` and `load_study` make it. `compare` draws several in one figure.

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

    def __init__(self, result: StudyResult, report: Path, place: Path | str) -> None:
        super().__init__({result.settings["tuner"]: [(result, place)]})
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

    def _told(self) -> Mapping[str, object]:
        settings, untuned = self.settings, self.untuned_cycles
        return {
            "study": self.name,
            "cycles": f"{self.cycles:,} cycles",
            "tuner": f"{settings['tuner']}, seed {settings['seed']}",
            "untuned": "did not run" if untuned is None else f"{untuned:,} cycles",
            "bound": f"{self.bound_cycles:,} cycles",
            "time": f"{self.milliseconds:.3f} ms at {self._result.clock_text}",
            "configuration": self.hw.name if self._result.shared else "one per layer",
            "layers": len(self._layers),
            "measurements": f"{self.measurements:,} on {self._result.search.settings['fidelity']}",
            "report": self.report,
        }

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
        """Time of `cycles` at the board's clock, which is planned unless a bitstream reached it."""
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
@takes(TuneOptions)
def tune(options: TuneOptions) -> Study:
    """Tune configuration and schedules of a network; the same call resumes an interrupted study.

    It does what `tilewright tune` does. Every trial is stored the moment it is known, so an
    interrupted call loses nothing. Measuring in worker processes starts new interpreters: a script
    that calls this needs ``if __name__ == "__main__":``.

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
    options = replace(options, tuner=tuner_name(options.tuner))
    with ExitStack() as stack:
        stack.enter_context(rtl_variant(options.rtl))
        settings = prepare_settings(options)
        listener: Listener = Silent()
        if options.progress:
            from rich.console import Console  # noqa: PLC0415  (only for a display)

            from tilewright.tuner.report.progress import ProgressDisplay  # noqa: PLC0415  (slow to import)

            listener = stack.enter_context(ProgressDisplay(settings, Console()))
        found = conduct(settings, options, listener)
    folder = Path(options.runs)
    place = store_location(options.store, folder)
    with values_from(hidden(place)), Store(place, must_exist=True, read_only=True) as opened:
        result = chosen_by_objective(load_result(opened, found))
    report = write_html(result, pareto(result.search), report_path(found, folder))
    return Study(result, report, place)


@typed
def load_study(
    name: str | Path = "", *, runs: str | Path = "runs", store: str | Path = ""
) -> Study:
    """Read what a study found from its store.

    Args:
        name: of the study, a file that `tune` wrote (its report, its configuration, the store), or
            a folder of studies. Empty, a store or a folder: the study that was started last.
        runs: folder that `tune` was given; that of ``name`` where this is a path.
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
    path = Path(name)
    if path.name == str(name) and _holds(store_location(store, Path(runs)), str(name)):
        pass  # a study's name comes before a file's
    elif path.is_dir() and str(name):
        name, runs = "", path
    elif path.suffix in (".html", ".yaml"):
        name, runs = path.stem, path.parent
    elif path.is_file():
        name, runs, store = "", path.parent, path
    place = store_location(store, Path(runs))
    with values_from(hidden(place)), Store(place, must_exist=True, read_only=True) as opened:
        names = [study.name for study in opened.studies()]
        if not names:
            raise StoreError(
                "the trial store holds no study", field=opened.name, remedy="tune first"
            )
        result = chosen_by_objective(load_result(opened, str(name) or names[-1]))
    return Study(result, report_path(result.study.name, Path(runs)), place)


def _holds(place: Path | str, name: str) -> bool:
    """Whether a store is there and has a study of a name."""
    if not name:
        return False
    try:
        with values_from(hidden(place)), Store(place, must_exist=True, read_only=True) as opened:
            return any(study.name == name for study in opened.studies())
    except StoreError:
        return False


@typed
def compare(studies: Sequence[Study], *, by: str = "tuner") -> Comparison:
    """Several studies in one figure: of each group the median, and a band between the quartiles.

    Args:
        studies: of one network and one memory, such as several seeds of several tuners.
        by: setting (``study.settings``) whose values are the groups.

    Raises:
        ConfigError: no studies, no such setting, or studies of other networks or memories.

    Example:
        >>> import tempfile
        >>> import tilewright as tw
        >>> layer = tw.dense("fc", rows=4, features_in=64, features_out=16)
        >>> options = {"hw": "tiny-4x4", "budget": 4, "fidelity": "twin"}
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     found = [
        ...         tw.tune(layer, runs=runs, tuner=tuner, seed=seed, **options)
        ...         for tuner in ("random", "coordinate")
        ...         for seed in range(2)
        ...     ]
        >>> tw.compare(found)
        <Comparison random: 2 studies, coordinate: 2 studies>
    """
    return Comparison(grouped([each for study in studies for each in study._found], by))


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
        proof=task.proof,
    )
