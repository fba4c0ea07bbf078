# SPDX-License-Identifier: Apache-2.0
"""`Architecture`: the spatial accelerator that a mapping runs on, read from a YAML file.

DRAM feeds one shared buffer (L2). A network (NoC) with multicast and spatial reduction joins it to
clusters of PEs. Each PE has a buffer (L1) and does one multiply-accumulate per cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import check_name
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.plain_values import build_record, is_number
from tilewright.host.common.yaml_files import named_file, read_yaml_mapping
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.tuner.mapping.nest import DIMENSIONS

ARCHITECTURE_DIR: Final = CONSTRAINTS_DIR / "architectures"
DEFAULT_ARCHITECTURE: Final = "flexible-256"
OWN_PREFIX: Final = "tilewright-"
"""Before the name of a configuration: Tilewright's accelerator as an architecture."""

MAX_PES: Final = 1 << 20

_SUM_BYTES: Final = 4

_MOST: Final = 1e12
_LEAST: Final = 1e-9
"""Ends of prices, bytes and bandwidths: between them every cost is a finite number."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A described accelerator.

    Energies are in the energy of one multiply-accumulate, areas in the area of one PE's datapath.

    Attributes:
        max_clusters, max_cluster_size: shape of an array that is wired in rows and columns: most
            clusters, most PEs per cluster; 0: any shape of ``pes``.
        l1_bytes, l2_bytes: capacity of a PE's buffer and of the shared one; 0: as much as the
            mapping needs, which then counts in its area.
        weight_bytes, input_bytes, output_bytes, partial_bytes: of one element; ``partial``: an
            output that is not complete.
        outer_parallel, inner_parallel: loops that may be spread over clusters and PEs.
        pass_cycles: cycles of a PE tile beyond its multiply-accumulates: a systolic array fills and
            drains.
        mac_energy, l1_energy, l2_energy, noc_energy, dram_energy: of a multiply-accumulate; of a
            byte read or written, or delivered to a PE.
        pe_area, l1_area, l2_area, noc_area: of a PE; of a byte; of a byte per cycle.
        sources: where figures come from.
    """

    name: str  # label, in one line
    pes: int  # PEs that a mapping may use
    max_clusters: int = 0
    max_cluster_size: int = 0
    l1_bytes: int = 0
    l2_bytes: int = 0
    noc_bytes_per_cycle: float  # between L2 and the PEs, each direction; a multicast counts once
    dram_bytes_per_cycle: float  # both directions together
    weight_bytes: float = 1
    input_bytes: float = 1
    output_bytes: float = 1
    partial_bytes: float = 4
    buffers: int = 2  # copies of each tile; 2: the next one loads while this one is used
    outer_parallel: str = "".join(DIMENSIONS)
    inner_parallel: str = "".join(DIMENSIONS)
    pass_cycles: float = 0
    mac_energy: float = 1
    l1_energy: float
    l2_energy: float
    noc_energy: float = 0
    dram_energy: float
    pe_area: float = 1
    l1_area: float = 0
    l2_area: float = 0
    noc_area: float = 0
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Validate."""
        check_name(self.name, "name")
        if not isinstance(self.sources, Mapping):
            raise ConfigError(
                "must name fields, each with its source", field="sources", value=self.sources
            )
        for name, low, high in (
            ("pes", 1, MAX_PES),
            ("max_clusters", 0, MAX_PES),
            ("max_cluster_size", 0, MAX_PES),
            ("l1_bytes", 0, 1 << 40),
            ("l2_bytes", 0, 1 << 40),
            ("buffers", 1, 2),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(
                    f"must be an integer from {low} to {high}", field=name, value=value
                )
        for name in (
            "noc_bytes_per_cycle", "dram_bytes_per_cycle", "weight_bytes", "input_bytes",
            "output_bytes", "partial_bytes",
        ):  # fmt: skip
            self._require_number(name, _LEAST)
        for name in (
            "pass_cycles", "mac_energy",
            "l1_energy", "l2_energy", "noc_energy", "dram_energy", "pe_area", "l1_area", "l2_area",
            "noc_area",
        ):  # fmt: skip
            self._require_number(name, 0)
        if self.output_bytes > self.partial_bytes:
            raise ConfigError(
                "must be at least output_bytes: a partial sum is no narrower than the result",
                field="partial_bytes",
                value=self.partial_bytes,
            )
        for name in ("outer_parallel", "inner_parallel"):
            value = getattr(self, name)
            known = isinstance(value, str) and set(value) <= set(DIMENSIONS)
            if not known or not value or len(set(value)) != len(value):
                raise ConfigError(
                    "must be some of the loops, such as KC",
                    field=name,
                    value=value,
                    remedy=f"loops: {' '.join(DIMENSIONS)}",
                )

    def _require_number(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if not is_number(value, least, _MOST):
            raise ConfigError(
                f"must be a number from {least:g} to {_MOST:g}", field=name, value=value
            )


def accelerator_architecture(hw: HwConfig, memory: MemoryModel) -> Architecture:
    """The accelerator of a configuration, as far as the model can say it.

    The scratchpads are L2. A column of the array sums over input channels, so input channels lie
    across clusters and output channels along a cluster. A PE keeps nothing: each cycle it takes a
    weight, an input and a sum from the scratchpads.

    A PE tile is one multiply-accumulate, for which a PE has two copies of a weight, an input and a
    sum. DRAM moves a bus word per cycle; the accelerator has a channel in each direction, the model
    has both together. Prices of energy are those of Horowitz, ISSCC 2014 (45 nm), over 0.3 pJ for
    an 8-bit multiply and a 32-bit add: 2.5 pJ per byte of a 32 KB SRAM, 162 pJ per byte of DRAM.
    Registers are assumed to take 0.03 pJ per byte.
    """
    if hw.batch != 1:
        raise ConfigError(
            "must be 1: a mapping has no loop over images", field=f"{hw.name}.batch", value=hw.batch
        )
    sums = hw.block_out * _SUM_BYTES
    return Architecture(
        name=f"tilewright-{hw.name}",
        pes=hw.block_in * hw.block_out,
        max_clusters=hw.block_in,
        max_cluster_size=hw.block_out,
        l1_bytes=2 * (1 + 1 + _SUM_BYTES),
        l2_bytes=hw.inp_bytes + hw.wgt_bytes + hw.acc_bytes,
        noc_bytes_per_cycle=hw.block_in * hw.block_out + hw.block_in + sums,
        dram_bytes_per_cycle=min(hw.axi_bytes, memory.read_bytes_per_cycle),
        outer_parallel="C",
        inner_parallel="K",
        l1_energy=0.1,
        l2_energy=8.3,
        dram_energy=540,
    )


def named_architectures() -> tuple[str, ...]:
    """Names of the architectures that ship with Tilewright, its own configurations among them."""
    own = (OWN_PREFIX + name for name in named_configs() if load_hwconfig(name).batch == 1)
    return tuple(sorted([*(path.stem for path in ARCHITECTURE_DIR.glob("*.yaml")), *own]))


def load_architecture(name_or_path: str | Path | Architecture) -> Architecture:
    """Load a named architecture or a YAML file; one that is loaded stays as it is.

    ``tilewright-CONFIGURATION`` is Tilewright's accelerator behind DRAM that a bus word per cycle
    never waits for.
    """
    if isinstance(name_or_path, Architecture):
        return name_or_path
    own = str(name_or_path)
    if own.startswith(OWN_PREFIX) and own in named_architectures():
        hw = load_hwconfig(own.removeprefix(OWN_PREFIX))
        return accelerator_architecture(hw, load_memory("ideal"))
    path = named_file(
        name_or_path, ARCHITECTURE_DIR, "architecture", "hardware", named_architectures()
    )
    data: dict[str, Any] = read_yaml_mapping(path, "an architecture")
    data.setdefault("name", path.stem)
    found: Architecture = build_record(Architecture, data, str(path))
    return found
