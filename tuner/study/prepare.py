# SPDX-License-Identifier: Apache-2.0
"""A study's settings from what a user names: networks, boards, memories, configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tilewright.host.common.names import choices, counted
from tilewright.host.compiler.read.float_model import is_torch_file
from tilewright.host.compiler.tasks import load_compiled_graph, load_network
from tilewright.host.machine.bitstream import BitstreamManifest
from tilewright.host.machine.board import (
    Board,
    MemoryModel,
    board_with_bitstream,
    load_board,
    load_memory,
)
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.bitstreams import bit_file, read_bitstreams
from tilewright.tuner.measure.energy import DEFAULT_ENERGY
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.settings import (
    DEFAULT_ALLOCATOR,
    DEFAULT_BUDGET,
    DEFAULT_CONFIGS,
    DEFAULT_TUNER,
    Mode,
    SettingsError,
    StudySettings,
)

E = TypeVar("E", bound=StrEnum)

DEFAULT_BASE = "pynq-16x16"
"""Configuration that a study starts from unless another one is named."""


def prepare_settings(
    model: str | Path | NetworkTable | Workload,
    *,
    board: str | Path | Board = "pynq-z2",
    memory: str | Path | MemoryModel | Board = "board",
    layers: Sequence[str] = (),
    compiled: bool = False,
    trust_model: bool = False,
    hw: str | Path | HwConfig | None = None,
    base: str | Path | HwConfig = DEFAULT_BASE,
    configs: int | None = None,
    mode: str = Mode.SHARED,
    tuner: str = DEFAULT_TUNER,
    allocator: str = DEFAULT_ALLOCATOR,
    objective: str = ObjectiveName.LATENCY,
    energy: str = DEFAULT_ENERGY,
    space: str = "full",
    budget: int | None = None,
    seed: int = 0,
    screen: bool | None = None,
    fidelity: str = Fidelity.RTL,
    bitstreams: str | Path | None = None,
    without: Iterable[str] = (),
) -> StudySettings:
    """Look up what is named, and put a study's settings together."""
    if trust_model and not compiled:
        raise SettingsError(
            "needs the compiled graph", field="trust_model", remedy="ask for compiled as well"
        )
    if trust_model and not (isinstance(model, str | Path) and is_torch_file(Path(model))):
        raise SettingsError(
            "is for .pt2 files", field="trust_model", value=str(model), remedy="leave it out"
        )
    if hw is not None and base != DEFAULT_BASE:
        raise SettingsError(
            "is where a search of configurations starts; hw is the only one",
            field="base",
            value=str(base),
            remedy="leave one of both out",
        )
    if hw is not None and configs is not None and configs > 1:
        raise SettingsError(
            "a fixed hw is the only configuration",
            field="configs",
            value=configs,
            remedy="leave one of both out; base names where a choice of hardware starts",
        )
    if isinstance(without, str):
        raise SettingsError(
            "must be a list of parts", field="without", value=without, remedy=f"give [{without!r}]"
        )
    target = load_board(board)
    if bitstreams is not None:
        if fidelity != Fidelity.BOARD:
            raise SettingsError(
                "only boards load bitstreams",
                field="bitstreams",
                value=str(bitstreams),
                remedy="leave it out, or ask for fidelity board",
            )
        manifests = read_bitstreams(Path(bitstreams))
        target = _at_one_clock(target, manifests)
        start = _among(manifests, hw, base)
    else:
        if fidelity == Fidelity.BOARD and hw is None:
            raise SettingsError(
                "a board holds one configuration unless it can choose among bitstreams",
                field="hw",
                remedy="name the configuration that the boards hold (--hw), or a folder of "
                "bitstreams (--bitstreams)",
            )
        manifests = {}
        start = load_hwconfig(base if hw is None else hw)
    table = _table(model, start, target, compiled=compiled, trust_model=trust_model)
    tasks = table.select(layers)
    left = [workload for workload in table.workloads if workload not in tasks]
    not_named = f"{counted(sum(w.count for w in left), 'layer')} that --layers does not name"
    if screen is None:
        screen = fidelity != Fidelity.BOARD
    return StudySettings(
        model=table.name,
        tasks=tasks,
        cpu_operators=(*table.cpu_operators, *([not_named] if left else [])),
        cpu_macs=table.cpu_macs + sum(workload.macs * workload.count for workload in left),
        board=target,
        memory=load_memory(memory, target),
        mode=_member(Mode, mode, "mode"),
        tuner=tuner,
        allocator=allocator,
        objective=objective,
        energy=energy,
        space=space,
        budget=DEFAULT_BUDGET if budget is None else budget,
        seed=seed,
        base=start,
        configs=1 if hw is not None else (DEFAULT_CONFIGS if configs is None else configs),
        screen=Fidelity.TWIN.value if screen and fidelity != Fidelity.TWIN else "none",
        without=tuple(without),
        built=tuple(manifest.hw for manifest in manifests.values()),
        bitstreams={key: bit_file(manifest)[1] for key, manifest in manifests.items()},
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


def _table(
    model: str | Path | NetworkTable | Workload,
    hw: HwConfig,
    board: Board,
    *,
    compiled: bool,
    trust_model: bool,
) -> NetworkTable:
    if isinstance(model, Workload):
        return NetworkTable(name=model.name, workloads=(model,))
    if compiled and not isinstance(model, NetworkTable):
        return load_compiled_graph(model, hw, board, trust_model=trust_model)
    return load_network(model)
