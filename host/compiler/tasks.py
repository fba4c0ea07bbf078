# SPDX-License-Identifier: Apache-2.0
"""The tuning tasks of a network: its distinct workloads, however the network is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.calls import named
from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.yaml_files import SUFFIXES
from tilewright.host.compiler.lower.lower_executable import DATA
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.float_model import is_tflite_file, is_torch_file
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.read.remedies import COMPILE_FIRST, GIVE_ARRAYS, GIVE_SHAPES
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network import zoo
from tilewright.host.network.foreign_models import foreign_model
from tilewright.host.network.layer_table import load_layer_table
from tilewright.host.network.layout import behind_a_layer
from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.workload import Kind, Workload

_UNTUNED: Final = {
    Kind.AVGPOOL: "average pooling",
    Kind.GATHER: "move of pixels",
    Kind.MAXIMUM: "maximum of tensors",
    Kind.MAXPOOL: "max pooling",
    Kind.MINIMUM: "minimum of tensors",
    Kind.MULTIPLY: "product of tensors",
    Kind.ROWS: "softmax, layer normalisation",
    Kind.SCALE: "product of tensors",
}
"""What a kind is called that has too few schedules to be searched."""


@named
def load_network(
    model: str | Path | NetworkTable,
    *,
    hw: str | Path | HwConfig = "pynq-16x16",
    board: str | Path | Board = "pynq-z2",
    trust_model: bool = False,
) -> NetworkTable:
    """The layers of a network that the accelerator can run, each with its count.

    Those of an ONNX, ``.tflite`` or ``.pt2`` file are the compiler's, fused, with pooling and
    residual adds: all that the accelerator can take, since what pays depends on the configuration
    and the schedules that are searched. They are divided for ``hw``: where a model joins tensors
    along channels or has groups of them, each fills blocks of that configuration, and what it
    leaves to the CPU parts layers. Scales do not matter to a schedule, so a float model is
    quantised with one random input. It needs the extra ``network``.

    Args:
        model: a built-in network (``resnet18``; ``tilewright networks`` lists them), or the path of
            a model, of a compiled network (``.tw``) or of a table of layers (``.yaml``). A network
            that is loaded stays as it is.
        hw: the configuration that a model is divided for.
        board: the board that a model is divided for.
        trust_model: read a ``.pt2`` file of any layout with PyTorch's own reader, which may run
            code from it.

    Raises:
        WorkloadError: there is no such network or file, or it has no layer for the accelerator.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.load_network("vta-resnet18")["C8"]
        >>> layer.input_shape, layer.output_shape, layer.count
        ((1, 256, 14, 14), (1, 256, 14, 14), 3)
    """
    if not isinstance(trust_model, bool):
        raise WorkloadError(
            "must be true or false",
            field="trust_model",
            value=trust_model,
            remedy="write True or False, without quotes",
        )
    if trust_model and not (isinstance(model, str | Path) and is_torch_file(Path(model))):
        raise WorkloadError(
            "is for .pt2 files", field="trust_model", value=str(model), remedy="leave it out"
        )
    if isinstance(model, NetworkTable):
        return model
    if not isinstance(model, str | Path):
        raise WorkloadError(
            "must be the name of a network or the path of a file",
            field="model",
            value=model,
            remedy="give a name (`tilewright networks` lists them), or hand a model in memory to "
            "compile",
        )
    path = Path(model)
    if path.suffix.lower() == ".tw":
        return network_table(load(path))
    if path.suffix.lower() == ".onnx" or is_tflite_file(path) or is_torch_file(path):
        try:
            compilation = compile_model(
                path,
                load_hwconfig(hw),
                load_board(board),
                calibration=Calibration(random_samples=1),
                options=ImportOptions(trust_model=trust_model),
                offload_all=True,
            )
        except WorkloadError as error:
            if error.remedy not in (GIVE_ARRAYS, GIVE_SHAPES):
                raise
            raise WorkloadError(
                error.rule, field=error.field, value=error.value, remedy=COMPILE_FIRST
            ) from error
        return network_table(compilation.network)
    if path.suffix.lower() in SUFFIXES:
        return load_layer_table(path)
    if foreign := foreign_model(path):
        raise foreign
    return zoo.load_network(str(model))


def network_table(network: CompiledNetwork) -> NetworkTable:
    """Distinct workloads with counts.

    A task has the epilogue, the residual and the channels of the layer in its place. Pooling
    and products of tensors have too few schedules to be searched: they are listed with the
    operators that are not tuned.
    """
    layers = list(_workloads(network))
    weighing = [layer for layer in layers if layer.kind.weighs]
    tuned = _named_apart(weighing)
    names = {workload.key: workload.name for workload in tuned}
    rest: Counter[str] = Counter()
    macs: Counter[str] = Counter()
    for layer in layers:
        if not layer.kind.weighs:
            rest[f"{_UNTUNED[layer.kind]}: on the accelerator, not tuned"] += 1
    for placed in network.placements:
        if placed.where != "accelerator":
            text = f"{placed.kind}: {placed.reason}"
            rest[text] += 1
            macs[text] += placed.macs
    operators = tuple(
        f"{count} x {text}" + (f" ({macs[text]:,} MACs)" if macs[text] else "")
        for text, count in rest.items()
    )
    if not tuned:
        raise WorkloadError(
            f"must have a layer that the accelerator computes, which has: {'; '.join(operators)}",
            field=network.name,
            remedy="choose another configuration, or change what the reasons name",
        )
    return NetworkTable(
        name=network.name,
        workloads=tuned,
        cpu_operators=operators,
        cpu_macs=macs.total(),
        same={each.name: names[each.key] for each in weighing if each.name not in names.values()},
    )


def _workloads(network: CompiledNetwork) -> Iterator[Workload]:
    """Of all layers; what a layer writes is no input of the host's where the host moves it, too.

    It is so where layers do not chain. On another configuration the next layer reads it in place.
    """
    for region in network.regions:
        for step in region.steps:
            inside = any(
                wire.tensor not in region.inputs for wire in step.reads if wire.inner == DATA
            )
            for layer in step.program.layers:
                yield behind_a_layer(layer.workload) if inside else layer.workload


def _named_apart(layers: Sequence[Workload]) -> tuple[Workload, ...]:
    """The distinct workloads with unique names, none of which another layer has."""
    everyone, taken = {layer.name for layer in layers}, set[str]()
    named = []
    for workload in collect(layers):
        name, number = workload.name, 2
        while name in taken or (number > 2 and name in everyone):
            name, number = f"{workload.name}.{number}", number + 1
        taken.add(name)
        named.append(workload.renamed(name))
    return tuple(named)
