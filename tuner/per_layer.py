# SPDX-License-Identifier: Apache-2.0
"""Mode *per-layer*: each task searches configuration and schedule together, on its own.

What the papers report. The sum over tasks is not deployable as one bitstream, and the report says
so. The hardware part of each joint space is one short list of configurations, because every
distinct configuration costs a build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.host.errors import TilewrightError
from tilewright.host.hwconfig import HwConfig
from tilewright.host.workload import Workload
from tilewright.tuner.search import Result, Tuner
from tilewright.tuner.session import Proposal, Session
from tilewright.tuner.space import Index
from tilewright.tuner.space_prior import SpacePrior
from tilewright.tuner.spaces import HardwareChoice, JointPoint, JointSpace
from tilewright.tuner.study_tuner import TunerFactory


def run_per_layer(session: Session, configs: Sequence[HwConfig]) -> None:
    """Spend the session's budget evenly over the tasks, one trial each in turn.

    The first trials of a task are the untuned schedules, on the base configuration first.

    Args:
        session: measures, counts and stores.
        configs: the configurations of every joint space; the base is the first.
    """
    settings = session.settings
    hardware = HardwareChoice(configs)
    for hw in configs:
        session.record_config(hw, "measured")
    factory = TunerFactory(settings)
    tuners: dict[str, Tuner[JointPoint]] = {}
    defaults: dict[str, set[Index]] = {}
    for number, task in enumerate(settings.tasks):
        space = JointSpace(task, hardware, session.rules, settings.space)
        initial = _initial(session, space, configs, task)
        defaults[task.name] = set(initial)
        tuners[task.name] = factory.make(
            space, seed=(number,), initial=tuple(initial), prior=_prior(session, configs, task)
        )
    active = list(settings.tasks)
    while active and session.left:
        asked = []
        for task in list(active)[: session.left]:
            candidates = tuners[task.name].ask(1)
            if not candidates:
                active.remove(task)
                continue
            asked.append((task, candidates[0]))
        proposals = []
        for task, candidate in asked:
            best = tuners[task.name].best
            proposals.append(
                Proposal(
                    task=task,
                    hw=candidate.point.hw,
                    schedule=candidate.point.schedule,
                    origin=(
                        "default" if candidate.index in defaults[task.name] else settings.tuner
                    ),
                    incumbent=None if best is None or best.value is None else int(best.value),
                )
            )
        answers = session.measure(proposals)
        for (task, candidate), answer in zip(asked, answers, strict=True):
            value = float(answer.cycles) if answer.valid and answer.cycles is not None else None
            tuners[task.name].tell([Result(index=candidate.index, value=value)])


def _prior(
    session: Session, configs: Sequence[HwConfig], task: Workload
) -> SpacePrior | Callable[[JointPoint], float]:
    rules, memory = session.rules, session.settings.memory
    if rules.joint_prior is not None:
        return rules.joint_prior(configs, task, memory)
    return lambda point: rules.predicted_cycles(point.hw, task, point.schedule, memory)


def _initial(
    session: Session, space: JointSpace, configs: Sequence[HwConfig], task: Workload
) -> list[Index]:
    """The untuned schedules: of the base alone where a prior tells what else to start with."""
    found = []
    for hw in configs if session.rules.joint_prior is None else configs[:1]:
        try:
            schedule = session.rules.default_schedule(hw, task)
            found.append(space.encode(JointPoint(hw=hw, schedule=schedule)))
        except TilewrightError as error:
            session.note(f"{task.name}: no untuned schedule on {hw.name}: {error}")
    return found
