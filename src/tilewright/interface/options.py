# SPDX-License-Identifier: Apache-2.0
"""What a user says of a network that is compiled or run, in Python and on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.options import option
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.vision.names import Fit, Head, Task
from tilewright.tuner.study.options import SEARCH_BUDGET

if TYPE_CHECKING:
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.read.import_options import (
        Array,
        ImportOptions,
        Int4Layers,
        Method,
    )
    from tilewright.host.compiler.read.own_operator import Operator
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.network.schedule import Schedule
    from tilewright.host.network.workload import Workload
    from tilewright.host.runtime.device import Device

_QUANTISATION: Final = "Quantisation"
_DIVISION: Final = "Division and schedules"


class CalibrationMethod(StrEnum):
    """How ranges of activations follow from calibration data (`QuantiseOptions.method`)."""

    MSE = "mse"
    MINMAX = "minmax"
    PERCENTILE = "percentile"


class Int4Weights(StrEnum):
    """Layers whose weights have 4 bits (`QuantiseOptions.int4_weights`)."""

    NONE = "none"
    DENSE = "dense"
    ALL = "all"


class LayerDevice(StrEnum):
    """What the command `sim` runs on."""

    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    TIMING = Fidelity.TIMING
    TWIN = Fidelity.TWIN
    REFERENCE = "reference"
    CXXRTL = "cxxrtl"


class NetworkDevice(StrEnum):
    """What the command `run` runs on."""

    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    REFERENCE = "reference"
    TWIN = Fidelity.TWIN
    BOARD = Fidelity.BOARD


@dataclass(frozen=True)
class SimulateOptions:
    """One layer on one device."""

    workload: Workload | str = option(
        MISSING,
        "Layer of the network, such as C8. In Python a layer, or the name of one: C8 of "
        "vta-resnet18, or NETWORK:LAYER, where the network is built-in or a file.",
        kind=str,
        argument=True,
        metavar="LAYER",
    )
    schedule: Schedule | str | Path | None = option(
        None,
        "YAML file of how it is lowered; default: the untuned one of `default_schedule`.",
        kind=str | None,
        parse=lambda given: None if given == "default" else given,
        metavar="FILE",
    )
    _: KW_ONLY
    hw: HwConfig | str | Path = option(
        "pynq-16x16", "Named configuration or YAML file.", kind=str, metavar="HW"
    )
    memory: MemoryModel | Board | str | Path = option(
        "board",
        "Memory timing: 'board' (that of --board; in Python of pynq-z2), 'ideal', a board's name "
        "or a YAML file.",
        kind=str,
        metavar="MEMORY",
    )
    fidelity: str = option(
        Fidelity.RTL.value,
        "rtl (the RTL in Verilator), dpi (its data in C++), timing (without data), twin "
        "(cycle-exact, without data); the command's also cxxrtl (a second simulator) and reference "
        "(NumPy). All but the last count the same cycles.",
        kind=LayerDevice,
        flags=("--device",),
    )
    max_cycles: int = option(
        0, "Cycles after which the run is stopped; 0: 1,000,000,000.", low=0, metavar="CYCLES"
    )
    rtl: str | Path | None = option(
        None, "Manifest of your RTL, which is built in place of ours; see `tune`.", kind=None
    )


def read_numbers(name: str, text: str) -> tuple[float, ...]:
    """Comma-separated numbers; others are a `WorkloadError`."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise WorkloadError(
            "must be numbers separated by commas",
            field=name,
            value=text,
            remedy="write them as in 0.485,0.456,0.406",
        ) from error


def read_shapes(texts: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Input sizes of the form NAME=1,3,224,224; another form is a `WorkloadError`."""
    shapes = {}
    for text in texts or ():
        name, sign, sizes = text.rpartition("=")
        try:
            shape = tuple(int(part) for part in sizes.split(","))
        except ValueError:
            shape = ()
        if not (name and sign and shape and min(shape) > 0):
            raise WorkloadError(
                "must look like NAME=1,3,224,224",
                field="--shape",
                value=text,
                remedy="give the name of an input and its sizes, all of them above 0",
            )
        shapes[name] = shape
    return shapes


def _numbers(
    name: str, default: float, text: str, panel: str = "", *, recorded: bool = False
) -> Any:
    usual = "that of the calibration that the network was compiled with" if recorded else ""
    return option(
        None if recorded else (default,),
        f"{text}, separated by commas; for images alone. Default: {usual or f'{default:g}'}.",
        kind=str | None,
        parse=lambda given: (
            (None if recorded else (default,)) if given is None else read_numbers(name, given)
        ),
        metavar=f"{name[2:].upper()},...",
        panel=panel,
    )


_MEAN: Final = partial(_numbers, "--mean", 0, "Mean per image channel in 0..1")
_STD: Final = partial(_numbers, "--std", 1, "Standard deviation per image channel")
PICTURES_PANEL: Final = "Pictures"


def _fit(default: str, text: str, panel: str = "") -> Any:
    return option(
        default,
        f"How an image of other proportions becomes the input: cut off, between bars, or "
        f"distorted{text}.",
        kind=Fit if default else Fit | None,
        parse=None if default else lambda given: given.value if given else "",
        panel=panel,
    )


_TAKEN: Final = "; default: that of the calibration, or letterbox, to classify crop"


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """How the pixels of images become a network's input."""

    mean: Sequence[float] | None = _MEAN(recorded=True, panel=PICTURES_PANEL)
    std: Sequence[float] | None = _STD(recorded=True, panel=PICTURES_PANEL)
    fit: str = _fit("", _TAKEN, panel=PICTURES_PANEL)


@dataclass(frozen=True)
class CompileOptions:
    """What decides a compiled network."""

    model: Any = option(
        MISSING,
        "ONNX file, .tflite file of TensorFlow Lite, or .pt2 file of torch.export.save, which is "
        "read as untrusted data. In Python "
        "also an ONNX model, an nn.Module or an ExportedProgram.",
        kind=Path,
        argument=True,
        metavar="MODEL",
    )
    _: KW_ONLY
    hw: HwConfig | str | Path = option(
        "pynq-16x16",
        "Named configuration, YAML file, SYSTEM:CORE for a core of a system, or auto: the named "
        "one that is the fastest on the board.",
        kind=str,
        metavar="HW",
    )
    board: Board | str | Path = option(
        "pynq-z2",
        "Board or YAML file: clock, memory and CPU decide what is offloaded.",
        kind=str,
        metavar="BOARD",
    )
    output: str | Path | None = option(
        None,
        "File to write; the command's default is MODEL.tw.",
        kind=Path | None,
        flags=("--output", "-o"),
        metavar="FILE",
    )
    calibration: str | Path | Array | Mapping[str, Array] | int | None = option(
        None,
        "Inputs of a float model: folder of images, .npy, or .npz (one array per input). In Python "
        "also one array, arrays by input name (batches along the first axis), or a number of "
        "batches of noise; an nn.Module needs arrays.",
        kind=Path | None,
        metavar="PATH",
    )
    mean: Sequence[float] = _MEAN(panel=_QUANTISATION)
    std: Sequence[float] = _STD(panel=_QUANTISATION)
    fit: str = _fit(Fit.CROP.value, "; of calibration", panel=_QUANTISATION)
    asymmetric: bool = option(
        False, "Quantise activations to uint8 with a zero point.", panel=_QUANTISATION
    )
    calibration_method: Method = option(
        CalibrationMethod.MSE.value,
        "Range of activations: least square error (mse), all values (minmax), or a percentile.",
        kind=CalibrationMethod,
        panel=_QUANTISATION,
    )
    percentile: float = option(
        99.99,
        "Percent of the values in the range, for that method alone.",
        metavar="PERCENT",
        panel=_QUANTISATION,
    )
    equalisation: bool = option(
        True, "Scale the channels of activations to similar ranges.", panel=_QUANTISATION
    )
    bias_correction: bool = option(
        True, "Correct biases by the mean error of each layer.", panel=_QUANTISATION
    )
    int4_weights: Int4Layers = option(
        Int4Weights.NONE.value,
        "Layers whose weights have 4 bits; needs a configuration with int4_weights 1, or 2, which "
        "loses less.",
        kind=Int4Weights,
        panel=_QUANTISATION,
    )
    improve: bool = option(
        False,
        "Try other options of the quantisation, and layers in float on the CPU, and take the best: "
        "judged on a quarter of the calibration inputs, or those of --check.",
        panel=_QUANTISATION,
    )
    float_layers: Sequence[str] = option(
        (),
        "Operator that stays in float, on the CPU.",
        kind=list[str] | None,
        parse=lambda given: tuple(given or ()),
        flags=("--float-layer",),
        metavar="NAME",
        panel=_QUANTISATION,
    )
    check: str | Path | Array | Mapping[str, Array] | int | None = option(
        None,
        "Inputs, like those of --calibration, that the compiled network is run on: how near it is "
        "to the model, with the accelerator's arithmetic.",
        kind=Path | None,
        metavar="PATH",
        panel=_QUANTISATION,
    )
    int8_ends: bool = option(
        False,
        "Take and give int8 where one scale holds: the caller quantises and dequantises.",
        panel=_QUANTISATION,
    )
    input_shapes: Mapping[str, tuple[int, ...]] | None = option(
        None,
        "Shapes of inputs that the model leaves open; on the command line NAME=1,3,224,224.",
        kind=list[str] | None,
        parse=read_shapes,
        flags=("--shape",),
        metavar="NAME=SIZES",
    )
    store: str | Path = option(
        "", "Store of 'tune' whose schedules are used.", kind=str, metavar="PATH|URL",
        panel=_DIVISION,
    )  # fmt: skip
    search: int = option(
        SEARCH_BUDGET,
        "Measurements on the twin for each layer without a schedule in --store; 0: none, the "
        "schedule that the closed form predicts to be the fastest.",
        low=0,
        metavar="N",
        panel=_DIVISION,
    )
    keep_rounding: bool = option(
        False, "Keep every quantisation of the model, also inside fused layers.", panel=_DIVISION
    )
    offload_all: bool = option(
        False, "Run on the accelerator whatever can run there, at any cost.", panel=_DIVISION
    )
    operators: Sequence[str | type[Operator]] = option(
        (),
        "Operator of your own in the model, MODULE:CLASS (in Python also a class); those of entry "
        "points need no mention.",
        kind=list[str] | None,
        parse=lambda given: tuple(given or ()),
        flags=("--operator",),
        metavar="MODULE:CLASS",
        panel=_DIVISION,
    )
    trust_model: bool = option(
        False,
        "Read a .pt2 file of any layout with PyTorch's own reader. It may run code from the file: "
        "only for files that you trust.",
        panel=_DIVISION,
    )
    name: str = option("", "Name of the network; empty: the file's or class's.", kind=None)

    def import_options(self) -> ImportOptions:
        """How the model is read and quantised."""
        from tilewright.host.compiler.read.import_options import (  # noqa: PLC0415  (loads NumPy)
            ImportOptions,
            QuantiseOptions,
        )

        operators = tuple(each for each in self.operators if isinstance(each, str))
        if len(operators) < len(self.operators):
            from tilewright.host.compiler.read.own_operators import operator_names  # noqa: PLC0415  (loads ONNX)

            operators = operator_names(self.operators)
        return ImportOptions(
            quantise=QuantiseOptions(
                asymmetric=self.asymmetric,
                method=self.calibration_method,
                percentile=self.percentile,
                equalisation=self.equalisation,
                bias_correction=self.bias_correction,
                int8_ends=self.int8_ends,
                int4_weights=self.int4_weights,
                improve=self.improve,
                float_layers=tuple(self.float_layers),
            ),
            input_shapes=dict(self.input_shapes or {}),
            name=self.name,
            trust_model=self.trust_model,
            operators=operators,
        )


@dataclass(frozen=True)
class DeviceOptions(ImageOptions):
    """What runs a compiled network, and how pictures become its input."""

    network: CompiledNetwork | str | Path = option(
        MISSING,
        "File of 'tilewright compile'; in Python also what `compile` returned.",
        kind=Path,
        argument=True,
        metavar="NETWORK",
    )
    _: KW_ONLY
    device: str | Device = option(
        Fidelity.RTL.value,
        "rtl (the RTL in Verilator), dpi (its data in C++), reference (NumPy), twin (cycle-exact), "
        "or a board. In Python rtl, dpi, reference, cxxrtl (a second simulator), or an open "
        "device, such as the board of `connect_device`, which stays open.",
        kind=NetworkDevice,
    )
    board: Board | str | Path | None = option(
        None,
        "Board or YAML file: clock and memory; default: the board that the network was compiled "
        "for.",
        kind=str | None,
        metavar="BOARD",
    )
    memory: MemoryModel | Board | str | Path = option(
        "board",
        "Memory timing: 'board' (the board's), 'ideal', a board's name or a YAML file.",
        kind=str,
        metavar="MEMORY",
    )
    trusted: bool = option(
        False,
        "Run the CPU's part in this process, without limits of memory and time.",
        flags=("--trust-model",),
    )


@dataclass(frozen=True)
class RunOptions(DeviceOptions):
    """What decides a run of a compiled network."""

    inputs: str | Path | Array | Mapping[str, Array] | int = option(
        1,
        "An image, an .npy or .npz file, one array, or arrays by input name, in the model's "
        "shapes; 1: seeded noise.",
        kind=None,
    )
    _: KW_ONLY
    check: bool = option(True, "Compare every output with the reference, bit by bit.")


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """How what a network says of pictures is read."""

    task: str = option(
        "",
        "Read outputs as classes, boxes, areas or keypoints of pictures; default: what the model "
        "states of itself.",
        kind=Task | None,
        parse=lambda given: given.value if given else "",
        panel=PICTURES_PANEL,
    )
    labels: Sequence[str] | str | Path = option(
        "",
        "Text file with the name of a class in each line; default: those that the model states.",
        kind=Path | None,
        parse=lambda given: given or "",
        metavar="FILE",
        panel=PICTURES_PANEL,
    )
    head: str = option(
        Head.AUTO.value,
        f"Form of a detector's outputs: {', '.join(Head)}; auto: told by their shapes.",
        kind=Head,
        metavar="HEAD",
        panel=PICTURES_PANEL,
    )
    score: float = option(
        0.25, "Least score of what is told.", low=0, high=1, metavar="SHARE", panel=PICTURES_PANEL
    )
    overlap: float = option(
        0.45,
        "Intersection over union from which the lesser of two boxes of a class is dropped.",
        low=0,
        high=1,
        metavar="SHARE",
        panel=PICTURES_PANEL,
    )


@dataclass(frozen=True)
class OpenOptions(LookOptions, DeviceOptions):
    """What decides how an open network looks at pictures."""
