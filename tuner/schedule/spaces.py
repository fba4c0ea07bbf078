# SPDX-License-Identifier: Apache-2.0
"""The spaces of this accelerator: schedules, configurations, and both together.

Space kinds: ``full`` takes any tile size with ragged edges, both fusions and every loop order;
``vta`` takes divisors only and the two threadings (VTA's AutoTVM template: 13,760 raw points for
ResNet-18's C2-C11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tilewright.host.common import names
from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.search.space import Index, Knob, Space, SpaceError


def shape_of(task: Workload) -> str:
    """Identity of a workload without its epilogue: equal shapes share good schedules."""
    return replace(task, relu=True, residual=False).key


SPACE_KINDS: Final = ("full", "vta")

TILE_KNOBS: Final = ("tile_b", "tile_h", "tile_w", "tile_ci", "tile_co")


def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n, ascending."""
    return tuple(d for d in range(1, n + 1) if n % d == 0)


@dataclass(frozen=True, kw_only=True)
class Extents:
    """The largest tile that each tile knob can span, on one configuration."""

    tile_b: int
    tile_h: int
    tile_w: int
    tile_ci: int
    tile_co: int
    tile_ci_unit: int = 1  # what ``tile_ci`` is a multiple of, unless it is the largest

    @classmethod
    def of(cls, hw: HwConfig, workload: Workload, rules: Rules) -> Extents:
        """The extents of a workload on a configuration."""
        blocks_in, blocks_out = rules.channel_blocks(hw, workload)
        return cls(
            tile_b=-(-workload.n // hw.batch),
            tile_h=workload.out_height,
            tile_w=workload.out_width,
            tile_ci=blocks_in,
            tile_co=blocks_out,
            tile_ci_unit=rules.tile_ci_unit(hw, workload),
        )

    def sizes(self, knob: str, kind: str) -> list[int]:
        """The sizes of a tile knob in a kind of space, ascending."""
        extent: int = getattr(self, knob)
        unit = self.tile_ci_unit if knob == "tile_ci" else 1
        sizes = divisors(extent) if kind == "vta" else range(1, extent + 1)
        return [size for size in sizes if size % unit == 0 or size == extent]


def _schedule_knobs(extents: Sequence[Extents], kind: str) -> list[Knob]:
    if kind not in SPACE_KINDS:
        raise SpaceError(
            "no such kind of schedule space",
            field="space",
            value=kind,
            remedy=f"use one of {', '.join(SPACE_KINDS)}",
        )
    knobs = []
    for name in TILE_KNOBS:
        sizes = {size for each in set(extents) for size in each.sizes(name, kind)}
        knobs.append(Knob(name=name, values=tuple(sorted(sizes))))
    knobs.append(Knob(name="h_threading", values=(1, 2)))
    knobs.append(Knob(name="oc_threading", values=(1, 2)))
    if kind == "full":
        knobs.append(Knob(name="loop_order", values=tuple(LoopOrder), ordered=False))
        knobs.append(Knob(name="fusion", values=tuple(Fusion), ordered=False))
    return knobs


def _schedule_refusal(
    hw: HwConfig, workload: Workload, schedule: Schedule, *, kind: str, rules: Rules
) -> str:
    extents = Extents.of(hw, workload, rules)
    for name in TILE_KNOBS:
        size, extent = getattr(schedule, name), getattr(extents, name)
        if size > extent or (kind == "vta" and extent % size):
            return f"{name} {size} is not a tile size of extent {extent} in space {kind}"
    legality = rules.legal(hw, workload, schedule)
    return "" if legality.ok else (f"{legality.rule}: {legality.detail}")


class ScheduleSpace(Space[Schedule]):
    """The schedules of one workload on one configuration."""

    def __init__(self, workload: Workload, hw: HwConfig, rules: Rules, kind: str = "full") -> None:
        self.workload: Final = workload
        self.hw: Final = hw
        self.kind: Final = kind
        self._rules: Final = rules
        super().__init__(_schedule_knobs([Extents.of(hw, workload, rules)], kind))

    def decode(self, index: Index) -> Schedule:
        """The schedule of an index."""
        return Schedule(**self.values(index))

    def encode(self, point: Schedule) -> Index:
        """The index of a schedule."""
        index = self.index_of({knob.name: getattr(point, knob.name) for knob in self.knobs})
        if self.decode(index) != point:
            raise SpaceError(
                f"the schedule lies outside space {self.kind}",
                field="schedule",
                remedy="choose its values among the space's knobs; 'full' holds every tile size",
            )
        return index

    def _refusal(self, index: Index) -> str:
        return _schedule_refusal(
            self.hw, self.workload, self.decode(index), kind=self.kind, rules=self._rules
        )


class HardwareSpace(Space[HwConfig]):
    """Configurations that the rules of `HwConfig` and the resources of a board allow."""

    def __init__(
        self,
        board: Board,
        base: HwConfig,
        rules: Rules,
        choices: dict[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.board: Final = board
        self.base: Final = base
        self._rules: Final = rules
        offered = default_choices(board, base) if choices is None else choices
        known = {parameter.name for parameter in PARAMETERS}
        for name in offered:
            if name not in known:
                raise SpaceError(
                    "no such RTL parameter", field=name, remedy=names.choices(name, sorted(known))
                )
        self._configs: Final[dict[Index, HwConfig]] = {}
        super().__init__([Knob(name=n, values=tuple(sorted(v))) for n, v in offered.items()])

    def decode(self, index: Index) -> HwConfig:
        """The configuration of an index; its label tells geometry and identity.

        Configurations are remembered: in a joint space many schedules share one, and making one
        takes longer than judging a schedule.
        """
        known = self._configs.get(index)
        if known is None:
            known = labelled(self.base.with_(**self.values(index)), self.base)
            self._configs[index] = known
        return known

    def encode(self, point: HwConfig) -> Index:
        """The index of a configuration."""
        index = self.index_of(point.parameters())
        if self.base.with_(**self.values(index)).parameters() != point.parameters():
            raise SpaceError(
                "the configuration lies outside the space",
                field=point.name,
                remedy="add its values to the choices of the space",
            )
        return index

    def _refusal(self, index: Index) -> str:
        try:
            hw = self.decode(index)
        except TilewrightError as error:
            return str(error)
        if hw.axi_data_bits > self.board.axi_data_bits:
            return f"axi_data_bits {hw.axi_data_bits} exceeds the port of {self.board.name}"
        if hw.axi_burst_beats > self.board.axi_burst_beats:
            return f"axi_burst_beats {hw.axi_burst_beats} exceeds the port of {self.board.name}"
        fit = self._rules.fits(hw, self.board)
        return "" if fit.ok else fit.text


def labelled(hw: HwConfig, base: HwConfig) -> HwConfig:
    """The configuration with a label that tells its geometry, bus and identity."""
    if hw.parameters() == base.parameters():
        return base
    return hw.with_(
        name=f"{hw.batch}x{hw.block_in}x{hw.block_out}-axi{hw.axi_data_bits}-{hw.config_hash:08x}"
    )


def default_choices(board: Board, base: HwConfig) -> dict[str, tuple[int, ...]]:
    """The knobs that a board search offers by default.

    Blocks from 8 to 64; each operand buffer from a quarter to four times the base; buses up to
    the board's port; vector lanes from 4 to 64.
    """
    choices: dict[str, tuple[int, ...]] = {
        "block_in": (8, 16, 32, 64),
        "block_out": (8, 16, 32, 64),
        "axi_data_bits": tuple(b for b in (32, 64, 128, 256, 512) if b <= board.axi_data_bits),
        "vector_lanes": (4, 8, 16, 32, 64),
    }
    limits = {parameter.name: parameter for parameter in PARAMETERS}
    for name in ("inp_bytes", "wgt_bytes", "acc_bytes", "out_bytes", "res_bytes", "param_bytes"):
        here = getattr(base, name)
        scales = (here // 4, here // 2, here, here * 2, here * 4)
        low, high = limits[name].low, limits[name].high
        choices[name] = tuple(s for s in scales if low <= s <= high)
    for name, values in choices.items():
        choices[name] = tuple(sorted({*values, getattr(base, name)}))
    return choices


class HardwareChoice(Space[HwConfig]):
    """A given list of configurations, as one unordered knob."""

    def __init__(self, configs: Iterable[HwConfig]) -> None:
        self.configs: Final = tuple(configs)
        hashes = tuple(hw.config_hash for hw in self.configs)
        super().__init__([Knob(name="hw", values=hashes, ordered=False)])

    def decode(self, index: Index) -> HwConfig:
        """The configuration at a position."""
        return self.configs[index[0]]

    def encode(self, point: HwConfig) -> Index:
        """The position of a configuration."""
        return (self.knobs[0].position(point.config_hash),)

    def _refusal(self, index: Index) -> str:
        return "" if 0 <= index[0] < len(self.configs) else "no such configuration"


@dataclass(frozen=True, kw_only=True)
class JointPoint:
    """A configuration and a schedule on it."""

    hw: HwConfig
    schedule: Schedule


class JointSpace(Space[JointPoint]):
    """Configuration and schedule of one workload at once: the first knobs are the hardware's.

    Schedule knobs cover the extents of every block size that the hardware offers; an index whose
    tile exceeds the extent on *its* configuration is not valid, so no point has two indices.
    """

    def __init__(
        self,
        workload: Workload,
        hardware: HardwareSpace | HardwareChoice,
        rules: Rules,
        kind: str = "full",
    ) -> None:
        self.workload: Final = workload
        self.hardware: Final = hardware
        self.kind: Final = kind
        self._rules: Final = rules
        self._split: Final = len(hardware.knobs)
        knobs = _schedule_knobs(self._reachable_extents(), kind)
        super().__init__([*hardware.knobs, *knobs])

    def _reachable_extents(self) -> list[Extents]:
        if isinstance(self.hardware, HardwareChoice):
            return [Extents.of(hw, self.workload, self._rules) for hw in self.hardware.configs]
        values: dict[str, Any] = {k.name: k.values for k in self.hardware.knobs}
        base = self.hardware.base
        extents = []
        for block_in in values.get("block_in", (base.block_in,)):
            for block_out in values.get("block_out", (base.block_out,)):
                geometry = _roomy(base, block_in, block_out)
                if geometry is not None:
                    extents.append(Extents.of(geometry, self.workload, self._rules))
        return extents

    def decode(self, index: Index) -> JointPoint:
        """The configuration and schedule of an index."""
        schedule = {
            knob.name: knob.values[position]
            for knob, position in zip(self.knobs[self._split :], index[self._split :], strict=True)
        }
        hw = self.hardware.decode(index[: self._split])
        return JointPoint(hw=hw, schedule=Schedule(**schedule))

    def encode(self, point: JointPoint) -> Index:
        """The index of a joint point."""
        knobs = self.knobs[self._split :]
        tail = tuple(knob.position(getattr(point.schedule, knob.name)) for knob in knobs)
        index = (*self.hardware.encode(point.hw), *tail)
        if self.decode(index).schedule != point.schedule:
            raise SpaceError(
                f"the schedule lies outside space {self.kind}",
                field="schedule",
                remedy="choose its values among the space's knobs; 'full' holds every tile size",
            )
        return index

    def _refusal(self, index: Index) -> str:
        refusal = self.hardware.refusal(index[: self._split])
        if refusal:
            return refusal
        point = self.decode(index)
        return _schedule_refusal(
            point.hw, self.workload, point.schedule, kind=self.kind, rules=self._rules
        )


def _roomy(base: HwConfig, block_in: int, block_out: int) -> HwConfig | None:
    """A legal configuration of a geometry, for its extents alone; None if there is none."""
    try:
        return HwConfig(
            batch=base.batch,
            block_in=block_in,
            block_out=block_out,
            axi_data_bits=32,
            vector_lanes=max(1, base.batch * block_out // 4),
        )
    except TilewrightError:
        return None
