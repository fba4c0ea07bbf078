# SPDX-License-Identifier: Apache-2.0
"""`run_study`: one tuning run, from settings and a store to results; it can be resumed.

To resume, the same search runs again from its first proposal, and `Session` answers from the store
what an earlier run measured. A search depends only on its settings and on these answers. It
therefore takes the same course, repeats no measurement and goes on where the earlier run ended.

Mode *per-layer*: each task searches configuration and schedule together, on its own.

Papers report this mode. One bitstream cannot serve the sum over tasks, and the report says so. All
joint spaces share one short list of configurations, because each of them costs a build.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from tilewright.host.common.errors import StoreError, TilewrightError
from tilewright.host.common.names import counted
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.tuner.measure.measurement import Oracle, hw_key
from tilewright.tuner.schedule.network_prior import network_prior
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.shortlist import shortlist
from tilewright.tuner.schedule.spaces import HardwareChoice, JointPoint, JointSpace
from tilewright.tuner.search.space import Index
from tilewright.tuner.store.store import Store, StoredStudy, values_from
from tilewright.tuner.study import confirmation
from tilewright.tuner.study.best_network import chosen_by_objective
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.results import load_result, screening_name
from tilewright.tuner.study.session import Listener, Session, StudyError, TimeUp
from tilewright.tuner.study.settings import StudySettings, software_versions
from tilewright.tuner.study.shared_hardware import run_shared
from tilewright.tuner.study.task_search import TaskSearch, TaskSearches, advance_together
from tilewright.tuner.study.tuner_factory import TunerFactory


def run_per_layer(session: Session, configs: Sequence[HwConfig]) -> None:
    """Spend the session's budget on the tasks, as its allocator decides.

    The first trials of a task are the untuned schedules, on the base configuration first.
    """
    hardware = HardwareChoice(configs)
    for hw in configs:
        session.record_config(hw, "measured")
    factory = TunerFactory.of(session)
    searches = []
    for number, task in enumerate(session.settings.tasks):
        space = JointSpace(task, hardware, session.rules, session.settings.space)
        origins = _initial(session, space, configs, task)
        bound = min(session.objective.bound(hw, task, session.bound(hw, task)) for hw in configs)
        tuner = factory.make(
            space,
            seed=(number,),
            initial=tuple(origins),
            prior=session.rules.joint_prior(configs, task, session.settings.memory),
        )
        searches.append(TaskSearch(task=task, hw=None, tuner=tuner, origins=origins, bound=bound))
    together = TaskSearches(session, searches, seed=(), transfer=False)
    together.proving = session.settings.within is not None
    together.configs = tuple(configs)
    advance_together(session, [(together, session.left)])
    together.finish()


def _initial(
    session: Session, space: JointSpace, configs: Sequence[HwConfig], task: Workload
) -> dict[Index, str]:
    """Points to begin with and their origins: untuned schedules, then the warm start's.

    Where a prior tells what else to start with, the untuned schedule of the base alone.
    """
    found: dict[Index, str] = {}
    for hw in configs[:1] if session.rules.ranks else configs:
        try:
            schedule = session.rules.default_schedule(hw, task)
            found[space.encode(JointPoint(hw=hw, schedule=schedule))] = "default"
        except TilewrightError as error:
            session.note(f"{task.name}: no untuned schedule on {hw.name}: {error}")
    warm = session.settings.warm_start
    for place, schedule in [] if warm is None else warm.schedules(task, configs[0]):
        same = [hw for hw in configs if hw.config_hash == place.config_hash]
        with contextlib.suppress(TilewrightError):  # it lies outside this space
            point = JointPoint(hw=(same or list(configs))[0], schedule=schedule)
            found.setdefault(space.encode(point), "transfer")
    return found


__all__ = ["STOPPED", "StudyError", "run_study"]

_NOT_KNOWN_YET: Final = frozenset({"budget"})
"""Settings of a confirming study that its screening decides."""

STOPPED: Final = "stopped"
"""Status of a study that a limit in seconds has ended."""


def run_study(
    name: str,
    settings: StudySettings,
    *,
    store: Store,
    oracle: Oracle,
    rules: Rules,
    listener: Listener,
    screen: Oracle | None = None,
    seconds: float | None = None,
    threads: int | None = None,
) -> StoredStudy:
    """Run a study to the end of its budget, or take it up where it was left.

    A limit in seconds is no setting: it ends the study's course early and never changes it. The
    study is then marked as stopped, and goes on when it is run again. What a stopped screening
    found is confirmed in a study of its own, since the rest of the screening may find something
    else (`confirmation.stopped_name`).
    """
    if (screen is not None) != (settings.screen != "none"):
        raise StudyError(
            "a screen is given exactly to screened studies", field="screen", value=settings.screen
        )
    fit = rules.fits(settings.base, settings.board)
    if not fit.ok:
        raise StudyError(
            f"the base configuration must fit {settings.board.name} ({fit.text})",
            field="hw",
            value=settings.base.name,
            remedy="choose a smaller --hw or another --board",
        )

    deadline = None if seconds is None else time.monotonic() + seconds
    run = partial(_run, store=store, rules=rules, threads=threads)
    mapping = settings.to_mapping()
    if screen is None:
        return run(
            name, mapping, settings, search, oracle=oracle, listener=listener, deadline=deadline
        )
    screening = screening_name(name)
    # Refused now, not after the search: how many trials will be confirmed is all that is open.
    expected = {"oracle": oracle.identity, "fidelity": oracle.fidelity}
    store.require_equal(
        name,
        confirmation.confirmed_settings(settings, screening, 0) | expected,
        ignoring=_NOT_KNOWN_YET,
    )
    quiet = confirmation.ScreeningListener(listener, settings)
    row = run(
        screening, mapping, settings, search, oracle=screen, listener=quiet, deadline=deadline
    )
    base = f"{settings.base.config_hash:08x}"
    with values_from(store.name):
        screened = chosen_by_objective(load_result(store, screening))
        chosen = confirmation.finalists(settings, screened, store.untuned(row.id, base))
    if row.status == STOPPED:
        name = confirmation.stopped_name(name, screened.summary.count)
    listener.note(
        f"screened {counted(screened.summary.count, 'trial')} on the {screen.fidelity} "
        f"(study {screening}); confirming {len(chosen)} on {oracle.fidelity}"
    )
    return run(
        name,
        confirmation.confirmed_settings(settings, screening, len(chosen)),
        replace(settings, budget=max(len(chosen), len(settings.tasks))),
        lambda session: confirmation.confirm(session, screened, chosen),
        oracle=oracle,
        listener=listener,
    )


def search(session: Session) -> None:
    """Choose configurations and spend the session's budget on them."""
    settings, rules = session.settings, session.rules
    session.prepare(settings.base)
    predict = network_prior(settings.tasks, settings.memory, rules, settings.space)
    lists = [
        shortlist(
            settings.board,
            settings.base,
            rules,
            session.network_bound,
            settings.configs,
            weight=weight,
            predict=predict,
            built=settings.built,
        )
        for weight in session.objective.weights()
    ]
    in_turn = [hw for place in zip_longest(*lists) for hw in place if hw is not None]
    configs = list({hw_key(hw): hw for hw in in_turn}.values())[: settings.configs]
    if settings.mode is Mode.SHARED:
        run_shared(session, configs)
    else:
        run_per_layer(session, configs)


def _run(
    name: str,
    stored: Mapping[str, Any],
    settings: StudySettings,
    body: Callable[[Session], None],
    *,
    store: Store,
    oracle: Oracle,
    rules: Rules,
    listener: Listener,
    deadline: float | None = None,
    threads: int | None = None,
) -> StoredStudy:
    """Open a study's row, let ``body`` spend its session, and close it."""
    identity = {**stored, "oracle": oracle.identity, "fidelity": oracle.fidelity}
    study = store.open_study(name, identity, software_versions())
    session = Session(
        settings,
        store=store,
        study=study,
        oracle=oracle,
        rules=rules,
        listener=listener,
        deadline=deadline,
        threads=threads,
    )
    if session.replayed:
        listener.note(f"resuming {name}: {counted(session.replayed, 'trial')} already in the store")
    try:
        listener.stage(
            f"{'search' if body is search else 'confirmation'} on {oracle.fidelity}",
            settings.budget,
        )
        body(session)
        if session.replaying:
            raise StudyError(
                "the stored trials do not follow from the settings (more are stored than the "
                "search makes)",
                field=name,
                remedy="the software has changed since: start another study with --name",
            )
    except TimeUp:
        kept = store.summary(study.id).count
        listener.note(
            f"time is up: {kept} of {settings.budget} measurements of {name} are stored; the same "
            "command goes on from there"
        )
        store.set_status(study.id, STOPPED)
        return store.study(name)
    except BaseException:
        # At once or not at all: whoever presses Ctrl-C does not wait for a locked store, and what
        # went wrong is not hidden behind a store that fails, too.
        with contextlib.suppress(StoreError):
            store.set_status(study.id, "interrupted", patient=False)
        raise
    finally:
        session.close()
    store.set_status(study.id, "complete")
    return store.study(name)
