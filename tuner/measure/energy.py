# SPDX-License-Identifier: Apache-2.0
"""Energy of a run, from its counters: picojoules an event times events.

A relative figure that ranks schedules and configurations, not watts. Sources of the constants:

- *MAC, scratchpad, DRAM*: Horowitz, "Computing's energy problem (and what we can do about it)",
  ISSCC 2014, figure 1.1.9, 45 nm at 0.9 V: int8 multiply 0.2 pJ, int32 add 0.1 pJ; 64 bits from an
  SRAM of 32 KB 20 pJ; 64 bits from DRAM 1,300 to 2,600 pJ, of which the lower end is taken. An FPGA
  spends more on logic, so these ratios make moving data look dearer than it is there.
- *static*: no published figure for this design. 100 mW of leakage and clock tree at 100 MHz is an
  assumption, of the size that vendors' estimators give for a device of the class of an xc7z020.

A user's own is an `EnergyModel` named by an entry point of the group ``tilewright.energy``, or as
``package.module:Class``.

Scratchpad traffic is not counted by the hardware; it follows from tile products and bus bytes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.plugins import Entry, Registry, is_ours, is_positive
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload

MAC_PJ: Final = 0.3
"""An int8 product added to an int32 sum."""

SCRATCHPAD_BYTE_PJ: Final = 2.5
"""A byte read from or written to a scratchpad."""

DRAM_BYTE_PJ: Final = 162.5
"""A byte on the bus to or from DRAM."""

STATIC_CYCLE_PJ: Final = 1000.0
"""A cycle, whatever happens in it."""

ACC_BYTES: Final = 4
"""Of an accumulator."""


COUNTED: Final = frozenset({"cycles", "macs_tiles", "vector_tiles", "bytes_read", "bytes_written"})
"""Counters that `energy_pj` is made of."""


def scratchpad_bytes(hw: HwConfig, counters: Mapping[str, int]) -> int:
    """Bytes that a run reads from and writes to the scratchpads.

    A tile product reads an input and a weight tile and updates (reads and writes) a tile of
    accumulators. A tile of the vector unit reads accumulators and writes bytes. What LOAD brings
    is written once, what STORE takes is read once.
    """
    inputs, outputs = hw.batch * hw.block_in, hw.batch * hw.block_out
    product = inputs + hw.block_in * hw.block_out + 2 * ACC_BYTES * outputs
    vector = (ACC_BYTES + 1) * outputs
    moved = counters["bytes_read"] + counters["bytes_written"]
    return counters["macs_tiles"] * product + counters["vector_tiles"] * vector + moved


def energy_pj(hw: HwConfig, counters: Mapping[str, int]) -> float:
    """Energy of a run in picojoules."""
    macs = counters["macs_tiles"] * hw.batch * hw.block_in * hw.block_out
    return (
        MAC_PJ * macs
        + SCRATCHPAD_BYTE_PJ * scratchpad_bytes(hw, counters)
        + DRAM_BYTE_PJ * (counters["bytes_read"] + counters["bytes_written"])
        + STATIC_CYCLE_PJ * counters["cycles"]
    )


def least_energy_pj(task: Workload) -> float:
    """No run of a task on any configuration takes less: its MACs, its weights and output once."""
    weights = math.prod(task.weight_shape) * task.weight_bits / 8
    moved = weights + math.prod(task.output_shape)
    return MAC_PJ * task.macs + DRAM_BYTE_PJ * moved


class EnergyError(TilewrightError):
    """An energy model does not exist or cannot be used."""


class EnergyModel(ABC):
    """Energy of a run from its counters.

    Attributes:
        static_cycle_pj: picojoules that every cycle takes at least, whatever happens in it.

    Example:
        >>> import tilewright as tw
        >>> class Bus(tw.EnergyModel):
        ...     def energy_pj(self, hw, counters):
        ...         return 150.0 * (counters["bytes_read"] + counters["bytes_written"])
        ...     def least_energy_pj(self, task):
        ...         return 1.0
        >>> measured = tw.simulate("C8", fidelity="twin")
        >>> Bus().energy_pj(measured.hw, measured.counters) > 0
        True
    """

    static_cycle_pj: ClassVar[float] = 0.0

    @abstractmethod
    def energy_pj(self, hw: HwConfig, counters: Mapping[str, int]) -> float:
        """Energy of a run in picojoules, above 0.

        Args:
            hw: configuration that ran.
            counters: of the run, all of `host.machine.registers.COUNTERS`.
        """

    @abstractmethod
    def least_energy_pj(self, task: Workload) -> float:
        """No run of a task takes less than this and its cycles' static energy; above 0."""


class CounterEnergy(EnergyModel):
    """The model of this module."""

    static_cycle_pj: ClassVar[float] = STATIC_CYCLE_PJ

    def energy_pj(self, hw: HwConfig, counters: Mapping[str, int]) -> float:
        """See `energy_pj`."""
        return energy_pj(hw, counters)

    def least_energy_pj(self, task: Workload) -> float:
        """See `least_energy_pj`."""
        return least_energy_pj(task)


DEFAULT_ENERGY: Final = "counters"

ENERGY_MODELS: Final[Registry[EnergyModel]] = Registry(
    "energy model",
    base=EnergyModel,
    group="tilewright.energy",
    package="tilewright.tuner.measure",
    builtin={
        DEFAULT_ENERGY: Entry("energy", "CounterEnergy", "picojoules per counted event, relative")
    },
    error=EnergyError,
)
"""Every energy model by its name on the command line."""


class _ForeignEnergy(EnergyModel):
    """A user's own model: each figure is checked, and what fails in it is told as its error."""

    def __init__(self, model: EnergyModel, name: str) -> None:
        self._model: Final = model
        self._name: Final = name
        static = model.static_cycle_pj
        if static != 0:
            self._checked("static_cycle_pj", static)
        self.static_cycle_pj = static  # type: ignore[misc]  # of this model

    def energy_pj(self, hw: HwConfig, counters: Mapping[str, int]) -> float:
        """See `EnergyModel.energy_pj`."""
        with ENERGY_MODELS.running(type(self._model)):
            found = self._model.energy_pj(hw, counters)
        return self._checked("energy_pj", found)

    def least_energy_pj(self, task: Workload) -> float:
        """See `EnergyModel.least_energy_pj`."""
        with ENERGY_MODELS.running(type(self._model)):
            found = self._model.least_energy_pj(task)
        return self._checked("least_energy_pj", found)

    def _checked(self, what: str, value: float) -> float:
        if not is_positive(value):
            raise EnergyError(
                f"{what} must be a positive and finite number",
                field=f"energy model {self._name}",
                value=value,
                remedy="give picojoules",
            )
        return float(value)


def load_energy(name: str = DEFAULT_ENERGY) -> EnergyModel:
    """The energy model of a name."""
    model = ENERGY_MODELS.make(name)
    return model if is_ours(type(model)) else _ForeignEnergy(model, name)
