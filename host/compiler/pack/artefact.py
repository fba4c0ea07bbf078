# SPDX-License-Identifier: Apache-2.0
"""`.tw` files: a compiled network as one archive.

A ZIP archive with ``manifest.json`` (what the network is, for which configuration, where every
tensor lies), ``host.json`` (the Relax module of what runs on the CPU) and, for each program, its
instructions, weights and micro-ops as plain bytes. A file is untrusted input: every defect ends in
one `ProgramError`. Sizes are checked before anything is decompressed or allocated, and every value
of the manifest passes a rule (`artefact_rules`).
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ProgramError, TilewrightError, reason_of
from tilewright.host.common.names import counted
from tilewright.host.common.summaries import Summarised
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.common.zip_archives import (
    MAX_MEMBER_BYTES,
    add_member,
    check_sizes,
    open_archive,
    read_member,
)
from tilewright.host.compiler.lower.executable import ProgramStep, RegionExecutable, Wire
from tilewright.host.compiler.lower.qgraph import QTensor
from tilewright.host.compiler.lower.region_program import (
    Folding,
    LayerCode,
    RegionProgram,
    TensorBuffer,
)
from tilewright.host.compiler.pack.artefact_rules import MANIFEST, check_region
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.machine.program import Program, Region
from tilewright.host.network.layout import Spread
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

FORMAT: Final = 3
"""Version of the layout of a file."""

PICTURES: Final = "pictures"
"""Key of the conditions: mean and std of calibration images, what the model states of itself."""

MAX_MANIFEST_BYTES: Final = 1 << 27
_MEMBERS: Final = ("insn", "weights", "uop")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where an operator of the model runs, and why.

    Attributes:
        name, kind: of the operator.
        crossing_bytes: of int8 tensors that leave or enter a region because it stays on the CPU.
    """

    name: str
    kind: str
    where: str  # ``accelerator`` or ``cpu``
    reason: str  # why it stays on the CPU
    region: int | None = None  # number of its region on the accelerator
    macs: int = 0  # its multiplications
    bytes: int = 0  # of the activations that it reads and writes on the CPU
    crossing_bytes: int = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompiledNetwork(Summarised):
    """A network for one configuration.

    Attributes:
        inputs, outputs: of the model.
        placements: every operator of the model but those that only quantise and dequantise.
        conditions: how it was made (versions, options, origin of the schedules); plain values.
    """

    name: str  # label
    hw: HwConfig  # the configuration
    host: str  # the Relax module of the CPU's part, as JSON
    regions: tuple[RegionExecutable, ...]  # what its calls of the accelerator run, by position
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    placements: tuple[Placed, ...]
    conversion_bytes: int = 0  # what the CPU reads and writes to quantise and dequantise
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def _told(self) -> Mapping[str, object]:
        there = sum(each.where == "accelerator" for each in self.placements)
        regions = counted(len(self.regions), "region")
        return {
            "network": self.name,
            "configuration": self.hw.name,
            "on the accelerator": f"{there} of {len(self.placements)} operators in {regions}",
            "programs": counted(len(self.programs), "program"),
            "inputs": ", ".join(f"{p.name} {p.shape} {p.dtype}" for p in self.inputs),
            "outputs": ", ".join(f"{p.name} {p.shape} {p.dtype}" for p in self.outputs),
        }

    @property
    def programs(self) -> list[RegionProgram]:
        """All programs, in the order in which a run meets them."""
        return [step.program for region in self.regions for step in region.steps]


def save(network: CompiledNetwork, path: Path) -> None:
    """Write a network to a file; an existing one is replaced only when all is written."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        add_member(archive, "manifest.json", json.dumps(_manifest(network), indent=1), level=1)
        add_member(archive, "host.json", network.host, level=1)
        for index, program in enumerate(network.programs):
            add_member(archive, f"{index}/insn", program.program.instructions, level=1)
            for name in ("weights", "uop"):
                add_member(archive, f"{index}/{name}", program.program.constants[name], level=1)
        archive.comment = MARK.encode()
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise ProgramError(
            f"the compiled network cannot be written ({error.strerror or error})",
            field=str(path),
            remedy="name a file in a folder that can be written with --output",
        ) from error


def load(path: Path) -> CompiledNetwork:
    """Read a network."""
    try:
        with open_archive(path) as archive:
            check_sizes(archive, path)
            manifest = json.loads(read_member(archive, "manifest.json", MAX_MANIFEST_BYTES))
            version = manifest.get("format") if isinstance(manifest, dict) else None
            if version != FORMAT:
                raise ProgramError(
                    f"must have format {FORMAT}",
                    field=str(path),
                    value=version,
                    remedy="compile the model again",
                )
            return _network(archive, MANIFEST(manifest))
    except OSError as error:
        raise ProgramError(
            f"cannot be read ({error.strerror or error})",
            field=str(path),
            remedy="check the path, or compile the model again",
        ) from error
    except TilewrightError as error:
        if error.field == str(path):
            raise
        raise _damaged(path, error) from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        NotImplementedError,
        RecursionError,
        RuntimeError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ProgramError:
    detail = reason_of(error, 120)
    return ProgramError(
        f"must be a compiled network ({detail})",
        field=str(path),
        remedy="make it with 'tilewright compile'",
    )


# -- to plain values -------------------------------------------------------------------------------


def _manifest(network: CompiledNetwork) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "name": network.name,
        "hw": {"name": network.hw.name, **network.hw.parameters()},
        "inputs": [asdict(port) for port in network.inputs],
        "outputs": [asdict(port) for port in network.outputs],
        "placements": [asdict(placed) for placed in network.placements],
        "conversion_bytes": network.conversion_bytes,
        "conditions": dict(network.conditions),
        "regions": [_region_values(region) for region in network.regions],
    }


def _region_values(region: RegionExecutable) -> dict[str, Any]:
    return {
        "name": region.name,
        "inputs": region.inputs,
        "outputs": region.outputs,
        "tensors": [asdict(tensor) for tensor in region.tensors.values()],
        "model_shapes": dict(region.model_shapes),
        "aliases": dict(region.aliases),
        "views": sorted(region.views),
        "steps": [
            {
                "program": _program_values(step.program),
                "reads": [asdict(wire) for wire in step.reads],
                "writes": [asdict(wire) for wire in step.writes],
            }
            for step in region.steps
        ],
    }


def _program_values(code: RegionProgram) -> dict[str, Any]:
    return {
        "name": code.name,
        "regions": {name: asdict(region) for name, region in code.program.regions.items()},
        "memory_bytes": code.program.memory_bytes,
        "inputs": [asdict(buffer) for buffer in code.inputs],
        "outputs": [asdict(buffer) for buffer in code.outputs],
        "activation_peak": code.activation_peak,
        "layers": [
            asdict(layer)
            | {"workload": layer.workload.to_mapping(), "schedule": layer.schedule.to_mapping()}
            for layer in code.layers
        ],
    }


# -- from plain values -----------------------------------------------------------------------------


def _network(archive: zipfile.ZipFile, manifest: dict[str, Any]) -> CompiledNetwork:
    hw = HwConfig.from_mapping(manifest["hw"])
    numbers = iter(range(sum(len(region["steps"]) for region in manifest["regions"])))
    regions = []
    for region in manifest["regions"]:
        steps = tuple(
            ProgramStep(
                program=_program(archive, next(numbers), step["program"], hw),
                reads=tuple(_wire(wire) for wire in step["reads"]),
                writes=tuple(_wire(wire) for wire in step["writes"]),
            )
            for step in region["steps"]
        )
        tensors = [_tensor(values) for values in region["tensors"]]
        executable = RegionExecutable(
            name=region["name"],
            steps=steps,
            tensors={tensor.name: tensor for tensor in tensors},
            inputs=tuple(region["inputs"]),
            outputs=tuple(region["outputs"]),
            model_shapes={n: tuple(s) for n, s in region["model_shapes"].items()},
            aliases=dict(region["aliases"]),
            views=frozenset(region.get("views", ())),  # older files have none
        )
        check_region(executable, hw)
        regions.append(executable)
    return CompiledNetwork(
        name=manifest["name"],
        hw=hw,
        host=read_member(archive, "host.json", MAX_MEMBER_BYTES).decode(),
        regions=tuple(regions),
        inputs=tuple(map(Argument.from_mapping, manifest["inputs"])),
        outputs=tuple(map(Argument.from_mapping, manifest["outputs"])),
        placements=tuple(Placed(**values) for values in manifest["placements"]),
        conversion_bytes=manifest["conversion_bytes"],
        conditions=manifest["conditions"],
    )


def _tensor(values: Mapping[str, Any]) -> QTensor:
    return QTensor(**{**values, "shape": tuple(values["shape"])})


def _wire(values: Mapping[str, Any]) -> Wire:
    spread = values["spread"]
    return Wire(**{**values, "spread": None if spread is None else Spread(*spread)})


def _buffer(values: Mapping[str, Any]) -> TensorBuffer:
    folding = values["folding"]
    return TensorBuffer(
        tensor=values["tensor"],
        shape=tuple(values["shape"]),
        offset=values["offset"],
        nbytes=values["nbytes"],
        block=values["block"],
        planes=values["planes"],
        folding=None if folding is None else Folding(**folding),
    )


def _program(
    archive: zipfile.ZipFile, index: int, values: Mapping[str, Any], hw: HwConfig
) -> RegionProgram:
    regions = {name: Region(**region) for name, region in values["regions"].items()}
    members = {
        name: read_member(archive, f"{index}/{name}", min(regions[name].nbytes, MAX_MEMBER_BYTES))
        for name in _MEMBERS
    }
    if len(members["insn"]) % INSTRUCTION_BYTES:
        raise ValueError("a program must hold whole instructions")
    for name, data in members.items():
        if len(data) != regions[name].nbytes:
            raise ValueError(f"{index}/{name} must have {regions[name].nbytes} bytes")
    program = Program(
        config_hash=hw.config_hash,
        instructions=members["insn"],
        regions=regions,
        constants={name: members[name] for name in ("weights", "uop")},
        memory_bytes=values["memory_bytes"],
    )
    buffers = {
        kind: tuple(_buffer(buffer) for buffer in values[kind]) for kind in ("inputs", "outputs")
    }
    activations = regions["activations"].nbytes
    for buffer in (*buffers["inputs"], *buffers["outputs"]):
        if not 0 <= buffer.offset <= buffer.offset + buffer.nbytes <= activations:
            raise ValueError(f"tensor {buffer.tensor} lies outside the activations")
    return RegionProgram(
        hw=hw,
        name=values["name"],
        program=program,
        inputs=buffers["inputs"],
        outputs=buffers["outputs"],
        layers=tuple(_layer(layer) for layer in values["layers"]),
        activation_peak=values["activation_peak"],
    )


def _layer(values: Mapping[str, Any]) -> LayerCode:
    return LayerCode(
        **{
            **values,
            "workload": Workload.from_mapping(values["workload"]),
            "schedule": Schedule.from_mapping(values["schedule"]),
            "operators": tuple(values["operators"]),
        }
    )
