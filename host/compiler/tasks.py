# SPDX-License-Identifier: Apache-2.0
"""The tuning tasks of a network: its distinct workloads, however the network is given."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from tilewright.host.common.calls import named
from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.yaml_files import SUFFIXES
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.float_model import is_tflite_file, is_torch_file
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network import zoo
from tilewright.host.network.foreign_models import foreign_model
from tilewright.host.network.layer_table import load_layer_table
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
def load_network(model: str | Path | NetworkTable) -> NetworkTable:
    """The layers of a network that the accelerator can run, each with its count.

    Args:
        model: a built-in network (``resnet18``; ``tilewright networks`` lists them), or the path
            of an ONNX file, of a compiled network (``.tw``) or of a table of layers
            (``.yaml``). An ONNX file is read by shape inference: it needs no extra. A network
            that is loaded stays as it is.

    Raises:
        WorkloadError: there is no such network or file, it has no layer for the accelerator, or
            it is a file of PyTorch, whose layers only the compiler finds.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.load_network("vta-resnet18")["C8"]
        >>> layer.input_shape, layer.output_shape, layer.count
        ((1, 256, 14, 14), (1, 256, 14, 14), 3)
    """
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
    name = str(model)
    if is_torch_file(Path(name)) or is_tflite_file(Path(name)):
        maker = "PyTorch" if is_torch_file(Path(name)) else "TensorFlow Lite"
        raise WorkloadError(
            f"is a file of {maker}: its layers are those of its compiled graph",
            field="model",
            value=name,
            remedy="take its compiled graph (--compiled), or export it to ONNX",
        )
    if name.lower().endswith(".tw"):
        return network_table(load(Path(name)))
    if name.lower().endswith(".onnx"):
        from tilewright.host.network.onnx_layers import load_onnx  # noqa: PLC0415  (imports onnx)

        return load_onnx(Path(name))
    if Path(name).suffix.lower() in SUFFIXES:
        return load_layer_table(Path(name))
    if foreign := foreign_model(Path(name)):
        raise foreign
    return zoo.load_network(name)


def load_compiled_graph(
    model: str | Path, hw: HwConfig, board: Board, *, trust_model: bool = False
) -> NetworkTable:
    """The layers of an ONNX, TFLite or PyTorch model as a configuration's compiled graph has them.

    They are fused, with pooling and residual adds. Scales do not matter to a schedule, so a float
    model is quantised with one random input.
    """
    path = Path(model)
    if path.suffix.lower() == ".tw":
        raise WorkloadError(
            "is compiled already", field="compiled", value=str(model), remedy="leave it out"
        )
    if not path.is_file():
        raise WorkloadError(
            "needs the path of an ONNX, .tflite or .pt2 file",
            field="compiled",
            value=str(model),
            remedy="check the path; a built-in network has no file: leave it out",
        )
    compilation = compile_model(
        path,
        hw,
        board,
        calibration=Calibration(random_samples=1),
        options=ImportOptions(trust_model=trust_model),
    )
    return network_table(compilation.network)


def network_table(network: CompiledNetwork) -> NetworkTable:
    """Distinct workloads with counts.

    A task has the epilogue, the residual and the channels of the layer in its place. Pooling
    and products of tensors have too few schedules to be searched: they are listed with the
    operators that are not tuned.
    """
    layers = [layer for program in network.programs for layer in program.layers]
    tuned = collect(layer.workload for layer in layers if layer.workload.kind.weighs)
    rest: Counter[str] = Counter()
    for layer in layers:
        if not layer.workload.kind.weighs:
            rest[f"{_UNTUNED[layer.workload.kind]}: on the accelerator, not tuned"] += 1
    for placed in network.placements:
        if placed.where != "accelerator":
            rest[f"{placed.kind}: {placed.reason}"] += 1
    return NetworkTable(
        name=network.name,
        workloads=_named_apart(tuned),
        cpu_operators=tuple(f"{count} x {text}" for text, count in rest.items()),
    )


def _named_apart(workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    """The workloads with unique names."""
    taken: set[str] = set()
    named = []
    for workload in workloads:
        name, number = workload.name, 2
        while name in taken:
            name, number = f"{workload.name}.{number}", number + 1
        taken.add(name)
        named.append(workload.renamed(name))
    return tuple(named)
