# SPDX-License-Identifier: Apache-2.0
"""How to repeat a study and use what it found: its command, its schedules as YAML."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import counted
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.energy import DEFAULT_ENERGY
from tilewright.tuner.study.results import StudyResult, screening_name
from tilewright.tuner.study.settings import DEFAULT_ALLOCATOR, DEFAULT_TUNER


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """How a study is repeated.

    Attributes:
        command: for a shell.
        remarks: what the command cannot say by itself, such as files of the user's own.
    """

    command: str
    remarks: tuple[str, ...]


def repeat(result: StudyResult) -> Repeat:
    """The command that makes the trials of a study again, from its stored settings.

    Names are used where they still mean what the study used; otherwise the command names a file
    that the user has to put there, and a remark says so.
    """
    search, remarks = result.search.settings, list[str]()
    model, layers = _model(search, remarks)
    words = ["tilewright", "tune", model]
    words += ["--board", _board(search, remarks)]
    base = _config(search["base"], remarks)
    words += ["--hw", base] if search["configs"] == 1 else ["--base", base]
    if search["configs"] != 1:
        words += ["--configs", str(search["configs"])]
    words += layers
    words += _memory(search, remarks)
    for option, key, default in (
        ("--mode", "mode", "shared"),
        ("--tuner", "tuner", DEFAULT_TUNER),
        ("--allocator", "allocator", DEFAULT_ALLOCATOR),
        ("--objective", "objective", "latency"),
        ("--energy", "energy", DEFAULT_ENERGY),
        ("--space", "space", "full"),
    ):
        if search.get(key, default) != default:
            words += [option, str(search[key])]
    for part in search.get("without", ()):
        words += ["--without", str(part)]
    if start := search.get("warm_start"):
        words += ["--warm-start", str(start["source"])]
        remarks.append("--warm-start needs the store that the study began with, as it was then.")
    if rtl := search.get("rtl"):
        words += ["--rtl", "mine/tilewright.f"]
        remarks.append(f"--rtl needs the manifest of the RTL of that day; its digest is {rtl}.")
    words += ["--budget", str(search["budget"]), "--seed", str(search["seed"])]
    words += _fidelity(result, remarks)
    if result.search.study.status != "complete":
        remarks.append(
            f"The study has {counted(result.search.summary.count, 'measurement')} of a budget of "
            f"{search['budget']}; the command makes them all."
        )
    screening = "" if result.screening is None else result.screening.study.name
    words += ["--name", screening.removesuffix(screening_name("")) or result.study.name]
    return Repeat(command=_wrapped(words), remarks=tuple(remarks))


def _fidelity(result: StudyResult, remarks: list[str]) -> list[str]:
    """What measures, with the boards that do."""
    fidelity = str(result.settings["fidelity"])
    words = [] if fidelity == Fidelity.RTL else ["--fidelity", fidelity]
    if fidelity == Fidelity.BOARD:
        words += ["--boards", "pool.yaml"]
        remarks.append("pool.yaml stands for the file that lists the agents of the boards.")
        if result.search.settings.get("bitstreams"):
            words += ["--bitstreams", "bitstreams"]
            remarks.append(
                "bitstreams stands for the folder of the bitstreams; they must be those of then."
            )
    if result.screening is None and fidelity not in (Fidelity.TWIN, Fidelity.BOARD):
        words += ["--screen", "none"]
    if result.screening is not None and fidelity == Fidelity.BOARD:
        words += ["--screen", Fidelity.TWIN.value]
    return words


def _wrapped(words: Sequence[str]) -> str:
    """A command, broken before options so that no line is long."""
    lines, line = [], ""
    for word in words:
        quoted = shlex.quote(word)
        if word.startswith("--") and len(line) > 56:
            lines.append(line + " \\")
            line = "  "
        line += quoted if not line.strip() else f" {quoted}"
    return "\n".join([*lines, line])


def _model(settings: Any, remarks: list[str]) -> tuple[str, list[str]]:
    """The model as a command names it, and ``--layers`` where only some were tuned."""
    name, tasks = str(settings["model"]), [dict(task) for task in settings["tasks"]]
    try:
        known = {w.name: w.to_mapping() for w in load_network(name).workloads}
    except TilewrightError:
        known = {}
    names = [str(task["name"]) for task in tasks]
    if not all(known.get(str(task["name"])) == task for task in tasks):
        remarks.append(
            f"The model came from a file: put its path in the place of {name}.onnx, and its "
            "options (--compiled, --layers) if it had some."
        )
        return f"{name}.onnx", []
    return name, ([] if names == list(known) else ["--layers", ",".join(names)])


def _board(settings: Any, remarks: list[str]) -> str:
    board = settings["board"]
    name = str(board["name"])
    try:
        if load_board(name).to_mapping() == board:
            return name
    except TilewrightError:
        pass
    remarks.append(f"{name}.yaml stands for the board's file, which is not one of today's boards.")
    return f"{name}.yaml"


def _config(hw: Any, remarks: list[str]) -> str:
    name = str(hw["name"])
    try:
        if load_hwconfig(name) == HwConfig(**hw):
            return name
    except TilewrightError:
        pass
    remarks.append(f"{name}.yaml stands for the configuration's file; its contents are below.")
    return f"{name}.yaml"


def _memory(settings: Any, remarks: list[str]) -> list[str]:
    memory = settings["memory"]
    if memory == settings["board"]["memory"]:
        return []
    name = str(memory["name"])
    try:
        if vars(load_memory(name)) == memory:
            return ["--memory", name]
    except TilewrightError:
        pass
    remarks.append(f"{name}.yaml stands for the file of the memory's timing.")
    return ["--memory", f"{name}.yaml"]


def schedules_yaml(result: StudyResult) -> str:
    """The best schedule of every layer that has one; each is a file for ``sim --schedule``."""
    found: dict[str, Any] = {}
    for task in result.tasks:
        if task.best is not None:
            entry = Schedule.from_mapping(task.best.schedule).to_mapping()  # in their usual order
            found[task.name] = (
                entry
                if result.shared
                else {"hw": result.config_name(task.best.config_hash), "schedule": entry}
            )
    return (
        str(yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=96))
        if found
        else ""
    )


def config_yaml(result: StudyResult) -> str:
    """The configuration that the network runs on, as a file for ``--hw``; empty: none chosen."""
    return "" if result.chosen is None else HwConfig(**result.chosen.hw).to_yaml()
