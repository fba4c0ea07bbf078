# SPDX-License-Identifier: Apache-2.0
"""Mode *per-layer*: each task searches configuration and schedule together, on its own.

Papers report this mode. One bitstream cannot serve the sum over tasks, and the report says so. All
joint spaces share one short list of configurations, because each of them costs a build.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.tuner.schedule.spaces import HardwareChoice, JointPoint, JointSpace
from tilewright.tuner.search.space import Index
from tilewright.tuner.study.session import Session
from tilewright.tuner.study.task_search import TaskSearch, TaskSearches
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
    TaskSearches(session, searches, seed=(), transfer=False).advance(session.left)


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
