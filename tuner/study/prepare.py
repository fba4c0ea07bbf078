# SPDX-License-Identifier: Apache-2.0
"""A study's settings from what a user names: networks, boards, memories, configurations."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tilewright.host.common.names import choices, counted
from tilewright.host.compiler.tasks import load_network
from tilewright.host.machine.bitstream import BitstreamManifest
from tilewright.host.machine.board import (
    Board,
    board_with_bitstream,
    load_board,
    load_memory,
)
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.bitstreams import bit_file, read_bitstreams
from tilewright.tuner.study.options import DEFAULT_BASE, DEFAULT_CONFIGS, Mode, TuneOptions
from tilewright.tuner.study.settings import SettingsError, StudySettings

E = TypeVar("E", bound=StrEnum)


def prepare_settings(options: TuneOptions) -> StudySettings:
    """Look up what is named, and put a study's settings together."""
    hw, base = options.hw, options.base
    _require_options(options)
    target = load_board(options.board)
    manifests: Mapping[str, BitstreamManifest] = {}
    if options.bitstreams is None:
        start = load_hwconfig(base if hw is None else hw)
    else:
        manifests = read_bitstreams(Path(options.bitstreams))
        target = _at_one_clock(target, manifests)
        start = _among(manifests, hw, base)
    table = _table(options, start, target)
    tasks = table.select(options.layers)
    left = [workload for workload in table.workloads if workload not in tasks]
    not_named = f"{counted(sum(w.count for w in left), 'layer')} that --layers does not name"
    screen = options.fidelity != Fidelity.BOARD if options.screen is None else options.screen
    configs = DEFAULT_CONFIGS if options.configs is None else options.configs
    return StudySettings(
        model=table.name,
        tasks=tasks,
        cpu_operators=(*table.cpu_operators, *([not_named] if left else [])),
        cpu_macs=table.cpu_macs + sum(workload.macs * workload.count for workload in left),
        board=target,
        memory=load_memory(options.memory, target),
        mode=_member(Mode, options.mode, "mode"),
        tuner=str(options.tuner),
        allocator=options.allocator,
        objective=options.objective,
        energy=options.energy,
        space=options.space,
        budget=options.budget,
        seed=options.seed,
        base=start,
        configs=1 if hw is not None else configs,
        screen=Fidelity.TWIN.value if screen and options.fidelity != Fidelity.TWIN else "none",
        without=tuple(options.without),
        built=tuple(manifest.hw for manifest in manifests.values()),
        bitstreams={key: bit_file(manifest)[1] for key, manifest in manifests.items()},
        within=options.within,
        proof_seconds=options.proof_seconds,
        asynchronous=options.asynchronous,
    )


def _require_options(options: TuneOptions) -> None:
    """Refuse options that contradict each other."""
    model, hw, base = options.model, options.hw, options.base
    if model == "":
        raise SettingsError(
            "a network must be named",
            field="model",
            remedy="name a built-in network, an ONNX file or a table of layers",
        )
    if hw is not None and base != DEFAULT_BASE:
        raise SettingsError(
            "is where a search of configurations starts; hw is the only one",
            field="base",
            value=str(base),
            remedy="leave one of both out",
        )
    if hw is not None and options.configs is not None and options.configs > 1:
        raise SettingsError(
            "a fixed hw is the only configuration",
            field="configs",
            value=options.configs,
            remedy="leave one of both out; base names where a choice of hardware starts",
        )
    if options.within is not None and options.fidelity == Fidelity.BOARD:
        raise SettingsError(
            "proves cycles of the modelled memory, which is not a board's",
            field="within",
            value=options.within,
            remedy="leave it out, or tune on fidelity rtl",
        )
    if isinstance(options.without, str):
        raise SettingsError(
            "must be a list of parts",
            field="without",
            value=options.without,
            remedy=f"give [{options.without!r}]",
        )
    if options.bitstreams is not None and options.fidelity != Fidelity.BOARD:
        raise SettingsError(
            "only boards load bitstreams",
            field="bitstreams",
            value=str(options.bitstreams),
            remedy="leave it out, or ask for fidelity board",
        )
    if options.bitstreams is None and options.fidelity == Fidelity.BOARD and hw is None:
        raise SettingsError(
            "a board holds one configuration unless it can choose among bitstreams",
            field="hw",
            remedy="name the configuration that the boards hold (--hw), or a folder of "
            "bitstreams (--bitstreams)",
        )


def _at_one_clock(board: Board, manifests: Mapping[str, BitstreamManifest]) -> Board:
    """The board at the clock of its bitstreams."""
    clocks = {manifest.path: manifest.clock_mhz for manifest in manifests.values()}
    if len(set(clocks.values())) > 1:
        raise SettingsError(
            "the bitstreams of a study must have one clock: it compares cycles",
            field="bitstreams",
            value=", ".join(f"{path}: {clock:g} MHz" for path, clock in clocks.items()),
            remedy="build them for one clock, or study each by itself with --hw",
        )
    for manifest in manifests.values():
        board = board_with_bitstream(board, bit_file(manifest)[0])
    return board


def _among(
    manifests: Mapping[str, BitstreamManifest],
    hw: str | Path | HwConfig | None,
    base: str | Path | HwConfig,
) -> HwConfig:
    """The configuration to start from: the one that is named, or the first of the folder."""
    named = base if hw is None else hw
    if hw is None and base == DEFAULT_BASE:
        return next(iter(manifests.values())).hw
    start = load_hwconfig(named)
    if f"{start.config_hash:08x}" not in manifests:
        raise SettingsError(
            "there is no bitstream of that configuration",
            field="base" if hw is None else "hw",
            value=start.name,
            remedy=choices(start.name, sorted(m.hw.name for m in manifests.values())),
        )
    return start


def _member(kind: type[E], name: str, field: str) -> E:
    """The member of a name."""
    try:
        return kind(name)
    except ValueError as error:
        known = [member.value for member in kind]
        raise SettingsError(
            f"no {field} of that name", field=field, value=name, remedy=choices(name, known)
        ) from error


def _table(options: TuneOptions, hw: HwConfig, board: Board) -> NetworkTable:
    model = options.model
    if isinstance(model, Workload):
        model = NetworkTable(name=model.name, workloads=(model,))
    return load_network(model, hw=hw, board=board, trust_model=options.trust_model)
