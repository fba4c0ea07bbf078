# SPDX-License-Identifier: Apache-2.0
"""The door of the network compiler's front end: a model in, regions and a CPU part out.

    network = import_network("resnet18.onnx", calibration=Calibration(path=Path("photos")))
    parts = partition(network)
    program = HostProgram(module=parts.host)
    outputs = program.run({"x": image}, regions=run_region)

Files are read and quantised in a process of their own (see `import_process`). TVM, ONNX Runtime and
PyTorch are imported when they are needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tilewright.host.common.errors import ToolError
from tilewright.host.common.extras import EXTRAS, install_line
from tilewright.host.compiler.divide.placement import Choose, OperatorPlacement
from tilewright.host.compiler.lower.qgraph import QGraph
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.float_model import require_quantised
from tilewright.host.compiler.read.import_options import ImportOptions, Limits, QuantiseOptions

if TYPE_CHECKING:
    from tilewright.host.compiler.divide.relax_import import RelaxModel
    from tilewright.host.compiler.quantise.prepare import Prepared
    from tilewright.host.compiler.run.relax_host import HostModule

__all__ = [
    "Argument",
    "Calibration",
    "ImportOptions",
    "ImportedNetwork",
    "Limits",
    "PartitionedNetwork",
    "QuantiseOptions",
    "import_network",
    "partition",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedNetwork:
    """A quantised network.

    Attributes:
        name: of the network.
        qdq: the model in canonical QDQ form; runs in ONNX Runtime.
        relax: the same in TVM Relax.
        inputs, outputs: in order.
        was_quantised: the model came quantised.
        seconds: what the stages of the import took.
    """

    name: str
    qdq: onnx.ModelProto
    relax: RelaxModel
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    was_quantised: bool
    seconds: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionedNetwork:
    """A network divided between accelerator and CPU.

    Attributes:
        regions: what runs on the accelerator; region i is number i in the host module.
        host: the rest.
        placements: of the (quantised) model's operators, in order.
    """

    regions: tuple[QGraph, ...]
    host: HostModule
    placements: tuple[OperatorPlacement, ...]


def import_network(
    source: str | os.PathLike[str] | onnx.ModelProto | Any,
    *,
    calibration: Calibration | None = None,
    options: ImportOptions | None = None,
) -> ImportedNetwork:
    """Import a network and quantise it, unless it is quantised.

    Args:
        source: an ONNX file, a ``.pt2`` file of ``torch.export.save``, an ONNX model, an
            ``nn.Module`` or an ``ExportedProgram``.
        calibration: what the inputs of a float network look like.
        options: see `ImportOptions`.

    Raises:
        WorkloadError: the network is malformed, of dynamic shape, or has an operator that TVM does
            not know; or calibration data are missing or do not fit; or
            a ``.pt2`` file that is not trusted holds what could run code.
        ToolError: a package of the extra ``network`` is missing.
    """
    _require_packages()
    if calibration is None and isinstance(source, str | os.PathLike):
        require_quantised(Path(source))
    from tilewright.host.compiler.quantise.prepare import arguments_of  # noqa: PLC0415  (heavy)

    options = options or ImportOptions()
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        name, prepared = options.name or path.stem, _read(path, calibration, options)
    else:
        name = options.name or type(source).__name__
        prepared = _exported(source, name, calibration, options, seconds)
    seconds |= prepared.seconds
    before_tvm = time.perf_counter()
    from tilewright.host.compiler.divide.relax_import import to_relax  # noqa: PLC0415  (heavy)

    loaded = time.perf_counter()
    relax = to_relax(prepared.model)
    finished = time.perf_counter()
    inputs, outputs = arguments_of(prepared.model)
    seconds["load TVM"] = loaded - before_tvm
    seconds["import into Relax"] = finished - loaded
    seconds["total"] = finished - started
    return ImportedNetwork(
        name=name,
        qdq=prepared.model,
        relax=relax,
        inputs=inputs,
        outputs=outputs,
        was_quantised=prepared.was_quantised,
        seconds=seconds,
    )


def partition(network: ImportedNetwork, choose: Choose | None = None) -> PartitionedNetwork:
    """Divide a network.

    Args:
        network: what to divide.
        choose: which candidates go to the accelerator (see `placement.OffloadGraph`); without it
            all.

    Raises:
        WorkloadError: the network has control flow, or ``choose`` names an unknown candidate.
    """
    _require_packages()
    from tilewright.host.compiler.divide.relax_partition import divide  # noqa: PLC0415  (heavy)
    from tilewright.host.compiler.run.relax_host import HostModule  # noqa: PLC0415  (heavy)

    division = divide(network.relax, choose)
    return PartitionedNetwork(
        regions=tuple(region.graph for region in division.regions),
        host=HostModule(module=division.host, inputs=network.inputs, outputs=network.outputs),
        placements=division.placements,
    )


def _read(path: Path, calibration: Calibration | None, options: ImportOptions) -> Prepared:
    """From a file, in a process of its own; TVM loads meanwhile."""
    from tilewright.host.compiler.quantise.prepare_process import prepare_file  # noqa: PLC0415  (heavy)

    return prepare_file(
        path,
        options.input_shapes,
        calibration,
        options.quantise,
        options.limits,
        _load_tvm,
        trust_model=options.trust_model,
    )


def _exported(
    source: Any,
    name: str,
    calibration: Calibration | None,
    options: ImportOptions,
    seconds: dict[str, float],
) -> Prepared:
    """From an object in memory, which is trusted."""
    from tilewright.host.compiler.quantise.prepare import prepare  # noqa: PLC0415  (heavy)
    from tilewright.host.compiler.read.model_file import normalised  # noqa: PLC0415  (heavy)

    origin = Path(name)
    started = time.perf_counter()
    model = source
    if not isinstance(source, onnx.ModelProto):
        from tilewright.host.compiler.read.torch_export import export_module  # noqa: PLC0415  (heavy)

        examples = options.example_inputs
        if not examples and calibration is not None and calibration.arrays is not None:
            examples = [array[:1] for array in calibration.arrays.values()]
        model = export_module(source, examples)
        seconds["export"] = time.perf_counter() - started
    model = normalised(model, origin, options.input_shapes)
    return prepare(model, origin, calibration, options.quantise)


def _load_tvm() -> None:
    import tvm  # noqa: F401, PLC0415  (heavy)


def _require_packages() -> None:
    missing = EXTRAS["network"].missing("networkx", "onnx_ir", "onnxruntime", "tvm")
    if missing:
        raise ToolError(
            f"networks need the packages {', '.join(missing)}",
            remedy=install_line("network"),
        )
