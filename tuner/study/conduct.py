# SPDX-License-Identifier: Apache-2.0
"""Conduct a study on real devices: its store, its warm start, its oracles and their workers.

`study.run_study` brings a study to its end on oracles that it is given; this is where the oracles
of this machine, or of a cluster, come from.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.plain_values import is_integer, is_number
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.runtime.board_pool import BoardAddress, load_board_pool
from tilewright.sim.executor.protocol import Executor
from tilewright.sim.executor.worker import WorkerPool
from tilewright.sim.tools.toolchain import find_compiler, find_verilator
from tilewright.sim.twin.agreement import require_agreement
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.board_oracle import BoardOracle
from tilewright.tuner.measure.measurement import Oracle
from tilewright.tuner.measure.oracle import RETRIES, WALL_LIMIT_S, DeviceOracle, rtl_identity
from tilewright.tuner.measure.twin_oracle import TwinOracle
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.store.database import hidden
from tilewright.tuner.store.location import store_location
from tilewright.tuner.store.store import Store, values_from
from tilewright.tuner.study.options import TuneOptions
from tilewright.tuner.study.results import screening_name
from tilewright.tuner.study.session import Listener, StudyError
from tilewright.tuner.study.settings import SettingsError, StudySettings
from tilewright.tuner.study.study import run_study
from tilewright.tuner.study.warm_start import WarmStart, read_warm_start

LONGEST_NAME: Final = 200
"""Bytes of a study's name, which its report has as file name."""


class IncompleteStudyError(TilewrightError):
    """A study ended before every layer had a valid measurement."""


def conduct(
    settings: StudySettings,
    options: TuneOptions,
    listener: Listener,
    *,
    waiting: Callable[[str], None] = lambda _: None,
) -> str:
    """Run a study to the end of its budget, or take it up where it was left."""
    workers, seconds, fidelity = options.workers, options.seconds, options.fidelity
    location = store_location(options.store, Path(options.runs))
    if workers is not None and not is_integer(workers, 1):
        raise SettingsError(
            "must be an integer of at least 1",
            field="workers",
            value=workers,
            remedy="leave it out for one worker per core",
        )
    if seconds is not None and not is_number(seconds, 0):
        raise SettingsError(
            "must be a number of at least 0",
            field="seconds",
            value=seconds,
            remedy="leave it out for no limit",
        )
    name = study_name(settings, options)
    on_boards = fidelity == Fidelity.BOARD
    if on_boards != (options.boards is not None):
        raise SettingsError(
            "a pool of boards is given exactly for fidelity board",
            field="boards",
            value=None if options.boards is None else str(options.boards),
            remedy="use both or neither",
        )
    if on_boards and (options.ray or settings.rtl):
        raise SettingsError(
            "boards hold their own RTL and are reached from this machine",
            field="fidelity",
            value=fidelity,
            remedy="leave the cluster and the RTL of your own out",
        )
    if on_boards and workers is not None and settings.screen != Fidelity.TWIN:
        raise SettingsError(
            "is for what this machine simulates; each board is one by itself",
            field="workers",
            value=workers,
            remedy="leave it out, or ask for screen twin",
        )
    pool = () if options.boards is None else load_board_pool(Path(options.boards))
    # A search of an hour must not end for want of these.
    if fidelity not in (Fidelity.TWIN, Fidelity.BOARD) and not options.ray:
        find_verilator()
        find_compiler()
    counts = settings.within is not None or Fidelity.TWIN in (settings.screen, fidelity)
    if settings.rtl and counts:
        require_agreement(settings.base, settings.memory)
    if options.warm_start:
        begun = _warm_start(str(options.warm_start), location, name, settings)
        settings = replace(settings, warm_start=begun)
    with contextlib.ExitStack() as opened:
        oracle: Oracle = (
            open_boards(pool, settings, listener)
            if on_boards
            else open_oracle(fidelity, options.ray, workers, listener.note)
        )
        opened.callback(oracle.close)
        screen = TwinOracle(workers) if settings.screen == Fidelity.TWIN else None
        if screen is not None:
            opened.callback(screen.close)
        # Last: what cannot be measured makes no store.
        store = opened.enter_context(Store(location, waiting=waiting))
        study = run_study(
            name,
            settings,
            store=store,
            oracle=oracle,
            rules=host_rules(),
            listener=listener,
            screen=screen,
            seconds=seconds,
            threads=workers,
        )
    return study.name


def study_name(settings: StudySettings, options: TuneOptions) -> str:
    """The name that a user gave a study, or one that follows from its settings and the sources.

    So the same command begins another study once the RTL that it measures has changed.
    """
    measuring = [options.fidelity, *([settings.screen] if settings.screen != "none" else [])]
    name = options.name or settings.default_name(
        fidelity=options.fidelity,
        warm_start=str(options.warm_start),
        oracle=" ".join(map(identity_of, measuring)),
    )
    if not isinstance(name, str) or not name.isprintable() or len(name.encode()) > LONGEST_NAME:
        raise StudyError(
            f"must be printable text of at most {LONGEST_NAME} bytes",
            field="name",
            value=name,
            remedy="it names the report's file: choose a short one",
        )
    return name


def open_boards(
    pool: Sequence[BoardAddress], settings: StudySettings, listener: Listener
) -> BoardOracle:
    """What measures on boards."""
    return BoardOracle(
        pool,
        board=settings.board.name,
        configs=settings.built or [settings.base],
        digests=settings.bitstreams,
        tell=listener.note,
    )


def open_oracle(
    fidelity: str, cluster: str, workers: int | None, tell: Callable[[str], object]
) -> Oracle:
    """What measures: the twin of this machine in this process, everything else in workers."""
    if fidelity == Fidelity.TWIN and not cluster:
        return TwinOracle(workers)
    return DeviceOracle(fidelity, open_executor(cluster, workers), tell)


def open_executor(cluster: str, workers: int | None) -> Executor:
    """Processes of this machine, or a cluster whose machines must run the same sources."""
    if cluster:
        from tilewright.sim.executor.ray_executor import RayExecutor  # noqa: PLC0415  (optional)

        return RayExecutor(
            cluster, workers, wall_limit_s=WALL_LIMIT_S, retries=RETRIES, fingerprint=rtl_identity
        )
    return WorkerPool(workers or os.cpu_count() or 1, wall_limit_s=WALL_LIMIT_S, retries=RETRIES)


def incomplete(name: str) -> IncompleteStudyError:
    """What is said of a study without a network."""
    return IncompleteStudyError(
        "no configuration has a valid measurement of every layer",
        field=name,
        remedy="its report tells why trials failed; raise the budget or the seconds, or start it "
        "again if it was stopped",
    )


def _warm_start(source: str, location: Path | str, name: str, settings: StudySettings) -> WarmStart:
    """The trials to begin with: those that the study began with, when it is taken up again."""
    wanted = screening_name(name) if settings.screen != "none" else name
    earlier = None
    if "://" in str(location) or Path(location).exists():
        with Store(location) as store:
            for study in store.studies():
                if study.name == wanted:
                    earlier = study.settings.get("warm_start")
    with values_from(hidden(location)):
        return read_warm_start(source, name=name, earlier=earlier)
