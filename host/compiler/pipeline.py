# SPDX-License-Identifier: Apache-2.0
"""The compiler from top to bottom: a model goes in, a file for one configuration comes out.

    read       a file as untrusted data, in a process of its own               `read`
    quantise   a float model to int8, with calibration data                    `quantise`
    import     the quantised model into TVM Relax                              `divide.relax_import`
    divide     find what the accelerator can take                              `divide`
    decide     which of that costs less on the accelerator than on the CPU     `divide.cost`
    fuse       rescaling and activations into the operators in front of them   `lower.fuse`
    lower      layers to instructions, with a schedule for each layer          `lower`
    pack       programs, weights and the CPU's part as one network             `pack`
    save       the network as a `.tw` file                                     `pack.artefact`

`compile_model` does all of it. `import_network`, `partition` and `compile_network` are its parts.
TVM, ONNX Runtime and PyTorch are imported when they are needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.library_loading import load_onnx_ir, load_tvm
from tilewright.host.common.names import counted
from tilewright.host.compiler.divide.placement import (
    Leave,
    OperatorPlacement,
    Work,
)
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.lower.qgraph import QGraph
from tilewright.host.compiler.lower.region import ScheduleOf
from tilewright.host.compiler.pack.artefact import PICTURES, CompiledNetwork, Placed, save
from tilewright.host.compiler.pack.limits import check_limits
from tilewright.host.compiler.quantise.hardware_options import for_hardware
from tilewright.host.compiler.quantise.narrowed_layers import narrowed
from tilewright.host.compiler.quantise.prepare_process import Reading, reading
from tilewright.host.compiler.quantise.prepared import Accuracy
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.read.requirements import require_packages, require_usable
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.vision.labels import stated_labels, stated_task

if TYPE_CHECKING:
    import onnx

    from tilewright.host.compiler.divide.relax_import import RelaxModel
    from tilewright.host.compiler.run.relax_host import HostModule

__all__ = [
    "Compilation",
    "ImportedNetwork",
    "PartitionedNetwork",
    "compile_model",
    "compile_network",
    "import_network",
    "partition",
]

Progress = Callable[[str], None]
"""Told in a line what is done."""

Accept = Callable[["ImportedNetwork"], None]
"""Looks at an imported network before anything long is done with it; may raise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedNetwork:
    """A quantised network.

    Attributes:
        inputs, outputs: in order.
    """

    name: str  # of the network
    qdq: onnx.ModelProto  # the model in canonical QDQ form; runs in ONNX Runtime
    relax: RelaxModel  # the same in TVM Relax
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    was_quantised: bool  # the model came quantised
    seconds: Mapping[str, float]  # what the stages of the import took
    own_operators: tuple[str, ...] = ()  # the user's operators in it, and who brings them
    accuracy: Accuracy = field(default_factory=Accuracy)  # how near it is to what was read


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionedNetwork:
    """A network divided between accelerator and CPU.

    Attributes:
        regions: what runs on the accelerator; region i is number i in the host module.
    """

    regions: tuple[QGraph, ...]
    host: HostModule  # the rest
    placements: tuple[OperatorPlacement, ...]  # of the (quantised) model's operators, in order
    conversions: Work  # between int8 and float, on the CPU


@dataclass(frozen=True, kw_only=True, eq=False)
class Compilation:
    """What compiling a network gives.

    Attributes:
        network: ready to be saved (`pack.artefact.save`) and run (`run.runtime.run_network`).
        layers: the layers of each region; their integer arithmetic (`lower.integer.evaluate`) is
            what every device is compared with.
    """

    network: CompiledNetwork
    layers: tuple[LayerGraph, ...]
    imported: ImportedNetwork  # the quantised network that it was made from
    seconds: float  # from the imported network to the compiled one


def compile_model(
    model: str | os.PathLike[str] | onnx.ModelProto | Any,
    hw: HwConfig,
    board: Board,
    *,
    calibration: Calibration | None = None,
    options: ImportOptions | None = None,
    schedule_of: ScheduleOf | None = None,
    keep_rounding: bool = False,
    offload_all: bool = False,
    output: Path | None = None,
    check: Calibration | None = None,
    accept: Accept = lambda _: None,
    progress: Progress = lambda _: None,
) -> Compilation:
    """Compile a model for one configuration of the accelerator and one board.

    Example::

        hw, board = load_hwconfig("pynq-16x16"), load_board("pynq-z2")
        compilation = compile_model(
            "resnet18.onnx", hw, board, calibration=Calibration(path=Path("photos")),
            output=Path("resnet18.tw"),
        )
        inputs = {"x": image}  # float32 (1, 3, 224, 224)
        run = run_network(compilation.network, ReferenceDevice(hw), inputs)

    Args:
        model: an ONNX file, a ``.tflite`` file, a ``.pt2`` file of ``torch.export.save``, an ONNX
            model, an ``nn.Module`` or an ``ExportedProgram``, or what `import_network` made of one
            with the configuration's options. A file is untrusted; an object is
            trusted. A file may be in reading already (`prepare_process.reading`), with calibration
            data and options of its own (`hardware_options.for_hardware`).
        hw: the configuration that the programs are for.
        board: its clock, memory timing and CPU decide what is offloaded; its memory in bytes
            limits the programs.
        calibration: what the inputs of a float model look like, in the model's shapes; None for a
            model that is quantised.
        options: how the model is read and quantised.
        schedule_of: a legal schedule for each workload; None: the untuned default. A
            `tuner.study.schedule_lookup.ScheduleLookup` finds tuned ones.
        keep_rounding: keep every quantisation of the model instead of fusing it away.
        offload_all: offload whatever the accelerator can compute, whatever it costs.
        output: the ``.tw`` file to write; None: nothing is written.
        check: inputs whose outputs the imported network keeps as the model computes them, in
            float (`ImportedNetwork.accuracy`); a file that is in reading has its own.
        accept: called with the imported network before it is divided; may refuse it.
        progress: told in a line what is done.
    """
    if isinstance(model, Reading):
        calibration, options = model.calibration, model.options
        source = model.path.name
    else:
        options = for_hardware(options or ImportOptions(), hw)
        source = Path(model).name if isinstance(model, str | os.PathLike) else ""

    def compiled(model: Any, options: ImportOptions) -> Compilation:
        imported = (
            model
            if isinstance(model, ImportedNetwork)
            else import_network(
                model, calibration=calibration, options=options, check=check, progress=progress
            )
        )
        accept(imported)
        measured = None if imported.was_quantised else calibration
        chosen = replace(options.quantise, **imported.accuracy.chosen)
        return compile_network(
            imported,
            hw,
            board,
            schedule_of,
            keep_rounding=keep_rounding,
            offload_all=offload_all,
            conditions={
                "model": source or imported.name,
                "board": board.name,
                "memory": board.memory.name,
                "clock_mhz": board.clock_mhz,
                "clock_source": board.sources.get("clock_mhz", ""),
                "was_quantised": imported.was_quantised,
                "calibration": "0 random inputs" if measured is None else measured.origin,
                "asymmetric": chosen.asymmetric,
                "calibration_method": chosen.method,
                "equalisation": chosen.equalisation,
                "bias_correction": chosen.bias_correction,
                "int4_weights": options.quantise.int4_weights,
                "int4_kept": list(options.quantise.int4_kept),
                "keep_rounding": keep_rounding,
                "float_layers": list(chosen.float_layers),
                "agreement": dict(imported.accuracy.agreement),
                "operators": list(imported.own_operators),
                PICTURES: {
                    **({} if measured is None else measured.pictures()),
                    **model_states(imported.qdq),
                },
            },
            progress=progress,
        )

    compilation = compiled(model, options)
    if kept := _never_packed(compilation):
        progress(f"again with 8 bits for {counted(len(kept), 'layer')} that cannot be packed to 4")
        quantise = replace(options.quantise, int4_kept=kept)
        again = model.path if isinstance(model, Reading) else model
        compilation = compiled(again, replace(options, quantise=quantise))
    if output is not None:
        save(compilation.network, output)
    return compilation


def model_states(model: onnx.ModelProto) -> dict[str, Any]:
    """The task and the labels that a model's exporter wrote into it, as plain values."""
    properties = {entry.key: entry.value for entry in model.metadata_props}
    labels, task = stated_labels(properties), stated_task(properties)
    return {**({"labels": list(labels)} if labels else {}), **({"task": task} if task else {})}


def _never_packed(compilation: Compilation) -> tuple[str, ...]:
    """Layers whose weights were cut to 4 bits, and lie in DRAM with 8, or are the CPU's."""
    packed = {
        name
        for program in compilation.network.programs
        for layer in program.layers
        for name in layer.operators
        if layer.workload.weight_bits == 4
    }
    return tuple(sorted(narrowed(compilation.imported.qdq) - packed))


def import_network(
    model: str | os.PathLike[str] | onnx.ModelProto | Any,
    *,
    calibration: Calibration | None = None,
    options: ImportOptions | None = None,
    check: Calibration | None = None,
    progress: Progress = lambda _: None,
) -> ImportedNetwork:
    """Read, quantise (unless the model is quantised) and import a model."""
    options = options or ImportOptions()
    if isinstance(model, str | os.PathLike):
        require_usable(Path(model), calibration)
        with reading(Path(model), calibration, options, check) as begun:
            return import_network(begun, progress=progress)
    started = time.perf_counter()
    if isinstance(model, Reading):
        options = model.options
        name = options.name or model.path.stem
        progress(f"reading and quantising {name}")
        prepared = model.finish(_load_libraries)
    else:
        name = options.name or type(model).__name__
        progress(f"reading and quantising {name}")
        require_packages()
        load_onnx_ir()
        from tilewright.host.compiler.quantise.prepare import prepare_object  # noqa: PLC0415  (heavy)

        prepared = prepare_object(model, name, calibration, options, check)
    before_tvm = time.perf_counter()
    _load_libraries()
    from tilewright.host.compiler.divide.relax_import import to_relax  # noqa: PLC0415  (heavy)
    from tilewright.host.compiler.read.model_ends import arguments_of  # noqa: PLC0415  (heavy)
    from tilewright.host.compiler.read.own_operators import OwnOperators  # noqa: PLC0415  (heavy)

    loaded = time.perf_counter()
    progress(f"importing {counted(len(prepared.model.graph.node), 'node')} into TVM")
    relax = to_relax(prepared.model, OwnOperators(options.operators))
    finished = time.perf_counter()
    inputs, outputs = arguments_of(prepared.model)
    return ImportedNetwork(
        name=name,
        qdq=prepared.model,
        relax=relax,
        inputs=inputs,
        outputs=outputs,
        was_quantised=prepared.was_quantised,
        seconds={
            **prepared.seconds,
            "load TVM": loaded - before_tvm,
            "import into Relax": finished - loaded,
            "total": finished - started,
        },
        accuracy=prepared.accuracy,
        own_operators=tuple(sorted({each.operator.described() for each in relax.own.values()})),
    )


def partition(
    network: ImportedNetwork, leave: Leave | None = None, **taken: Any
) -> PartitionedNetwork:
    """Divide a network between accelerator and CPU (`divide.relax_partition.divide`)."""
    return partitions(network, leave, **taken)[0]


def partitions(
    network: ImportedNetwork, leave: Leave | None = None, *alternatives: Leave, **taken: Any
) -> list[PartitionedNetwork]:
    """Divide a network, and in other ways too (`divide.relax_partition.divide`)."""
    require_packages()
    from tilewright.host.compiler.divide.relax_partition import divide  # noqa: PLC0415  (heavy)
    from tilewright.host.compiler.run.relax_host import HostModule  # noqa: PLC0415  (heavy)

    return [
        PartitionedNetwork(
            regions=tuple(
                replace(region.graph, saturates=network.was_quantised)
                for region in division.regions
            ),
            host=HostModule(module=division.host, inputs=network.inputs, outputs=network.outputs),
            placements=division.placements,
            conversions=division.conversions,
        )
        for division in divide(network.relax, leave, *alternatives, **taken)
    ]


def compile_network(
    imported: ImportedNetwork,
    hw: HwConfig,
    board: Board,
    schedule_of: ScheduleOf | None = None,
    *,
    keep_rounding: bool = False,
    offload_all: bool = False,
    conditions: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
) -> Compilation:
    """Divide, decide, fuse, lower and pack an imported network."""
    from tilewright.host.compiler.divide.cost import CostModel  # noqa: PLC0415  (heavy)

    started = time.perf_counter()
    schedule_of = schedule_of or (lambda workload: default_schedule(hw, workload))

    def lower(region: QGraph) -> LayerGraph:
        saturates = imported.was_quantised
        fused = fuse(replace(region, saturates=saturates), keep_rounding=keep_rounding)
        return layer_graph(fused, hw)

    progress("dividing the network between accelerator and CPU")
    costs = CostModel(hw, board, lower)
    divided = partitions(
        imported,
        costs.refused,
        *(() if offload_all else (costs.dear, costs.dear_alone)),
        tables=bool(hw.activation_table),
        rows=bool(hw.row_unit),
        turns=bool(hw.row_unit) and hw.batch == 1,
        why_not=costs.why_not,
        price=costs.price,
    )
    lowered: list[tuple[float, PartitionedNetwork, tuple[LayerGraph, ...]]] = []
    for number, parts in enumerate(divided):
        try:
            layers = tuple(map(lower, parts.regions))
        except TilewrightError:
            if not lowered and number == len(divided) - 1:
                raise
            continue
        seconds = costs.seconds(layers, parts.placements, parts.conversions)
        lowered.append((seconds, parts, layers))
    lowered.sort(key=lambda each: each[0])
    least, parts, layers = lowered[0]
    told = f"{counted(len(parts.regions), 'region')} on the accelerator"
    others = [f"{1e3 * seconds:.4g} ms" for seconds, _, _ in lowered[1:]]
    more = f", divided otherwise {', '.join(others)}" if others else ""
    progress(f"{told}: at least {1e3 * least:.4g} ms{more}")
    executables = []
    for region, graph in zip(parts.regions, layers, strict=True):
        progress(f"{region.name} of {len(parts.regions)}: {counted(len(graph.layers), 'layer')}")
        executables.append(make_executable(region, graph, hw, schedule_of, board))
    network = CompiledNetwork(
        name=imported.name,
        hw=hw,
        host=parts.host.to_json(),
        regions=tuple(executables),
        inputs=imported.inputs,
        outputs=imported.outputs,
        placements=tuple(
            Placed(
                name=p.name,
                kind=p.kind,
                where=p.place,
                reason=p.reason,
                region=p.region,
                macs=p.work.macs,
                bytes=p.work.bytes,
                crossing_bytes=p.crossing_bytes,
            )
            for p in parts.placements
        ),
        conversion_bytes=parts.conversions.bytes,
        conditions=dict(conditions or {}),
    )
    check_limits(network, board)
    return Compilation(
        network=network,
        layers=layers,
        imported=imported,
        seconds=time.perf_counter() - started,
    )


def _load_libraries() -> None:
    """What every network needs, while another process reads the model."""
    load_tvm()
    import tilewright.host.compiler.divide.cost  # noqa: PLC0415  (heavy)
    import tilewright.host.compiler.divide.relax_partition  # noqa: F401, PLC0415  (heavy)
