# SPDX-License-Identifier: Apache-2.0
"""What the zoo measures of one network: where it runs, and what one inference takes.

Cycles are the twin's. The network runs once on the reference device, or on the RTL, and its outputs
are compared with those of ONNX Runtime on the same quantised model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tilewright.bench.networks.compiled_row import compiled_row
from tilewright.bench.networks.networks import agreement, checked_run
from tilewright.bench.networks.settings import NetworksSettings
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.machine.board import load_board

if TYPE_CHECKING:
    import onnx
    from torch import nn


_examples: Final = clone_part("examples/networks", "networks")

CONTROLS: Final = ("resnet18", "mobilenet-v2", "squeezenet")
"""They ran whole before anything was mended for the zoo, and must not have become slower."""

TRAINED: Final = ("text-detector", "body-detector", "file-classifier")
"""Of `networks.public`; the packages of the last two are not in the project's environment."""

BYTE_VALUES: Final = 256
"""An input of integers takes bytes."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A network that the zoo measures."""

    kind: Literal["zoo", "control"]  # ``zoo``, or ``control``: one that had nothing to gain
    # raises `TilewrightError` if the package that holds it is not installed
    load: Callable[[], nn.Module | onnx.ModelProto]
    input_name: str  # of its one input
    input_shape: tuple[int, ...]  # of that
    input_type: str  # of that: ``float32``, or ``int32`` for bytes

    def sample(self) -> np.ndarray[Any, Any]:
        """One random input, always the same: normally distributed, or bytes."""
        rng = np.random.default_rng(0)
        if self.input_type == "int32":
            return rng.integers(0, BYTE_VALUES, self.input_shape, dtype=np.int32)
        return rng.standard_normal(self.input_shape, dtype=np.float32)


def _members() -> Iterator[tuple[str, Member]]:
    architectures: Mapping[str, Any] = import_module("networks.zoo").ZOO
    for name in architectures:
        yield name, _with_random_weights(name, "zoo", architectures[name].input_shape)
    trained: Mapping[str, Any] = import_module("networks.public").PUBLIC_NETWORKS
    for name in TRAINED:
        public = trained[name]
        yield (
            name,
            Member(
                kind="zoo",
                load=public.load,
                input_name=public.input_name,
                input_shape=public.input_shape,
                input_type=public.input_type,
            ),
        )
    for name in CONTROLS:
        yield name, _with_random_weights(name, "control", _examples.NETWORKS[name].input_shape)


def _with_random_weights(
    name: str, kind: Literal["zoo", "control"], shape: tuple[int, ...]
) -> Member:
    return Member(
        kind=kind,
        load=lambda: _examples.build(name),
        input_name="x",
        input_shape=shape,
        input_type="float32",
    )


MEMBERS: Final[Mapping[str, Member]] = dict(_members())
"""In the order of the table."""


HOST_RUNS: Final = 3
"""Runs of the CPU's part on this machine, of which the fastest counts."""

Record = dict[str, Any]


def measure(
    name: str, member: Member, model: nn.Module | onnx.ModelProto, given: NetworksSettings
) -> Record:
    """One network, where ``model`` is what ``member`` has loaded.

    On the twin outputs come from the reference device; else the device runs too and must agree.
    With ``int8_ends`` the network takes and gives int8, so that nobody converts on the board's CPU;
    an input of integers stays what it is.
    """
    sample = member.sample()
    data = Calibration(arrays={member.input_name: sample})
    quantise = QuantiseOptions(
        method="minmax", equalisation=False, bias_correction=False, int8_ends=given.int8_ends
    )
    options = ImportOptions(name=name, example_inputs=[sample], quantise=quantise)
    compilation, row = compiled_row(model, given, data, options)
    compiled, board = compilation.network, load_board(given.board)
    image = next(data.batches(compiled.inputs))
    run = checked_run(compiled, board, given.fidelity, image, row["cycles"])
    conversions = board.cpu.work_seconds(nbytes=compiled.conversion_bytes)
    return {
        "kind": member.kind,
        **row,
        "host_milliseconds": row["cpu_milliseconds"] + 1e3 * conversions,
        "host_milliseconds_here": 1e3 * host_seconds(compiled, image),
        **agreement(compilation.imported, run.outputs, image),
    }


def host_seconds(compiled: CompiledNetwork, inputs: Mapping[str, Any]) -> float:
    """Processor seconds of the CPU's part on this machine, the least of `HOST_RUNS` runs.

    Regions return zeros at once: what the CPU does takes no longer for other numbers. Seconds are
    those of all threads, so that other load on the machine does not count.
    """
    host = HostProgram(module=HostModule.from_json(compiled.host))

    def nothing(number: int, _: Sequence[Any]) -> Sequence[Any]:
        region = compiled.regions[number]
        shapes = [region.model_shapes.get(n, region.tensors[n].shape) for n in region.outputs]
        return [np.zeros(shape, np.int8) for shape in shapes]

    found = []
    for _ in range(HOST_RUNS):
        started = time.process_time()
        host.run(inputs, nothing)
        found.append(time.process_time() - started)
    return min(found)
