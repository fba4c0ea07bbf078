# SPDX-License-Identifier: Apache-2.0
"""Whole networks from Python: `compile` a model, `run` what it gave."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, fields_named
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load
from tilewright.host.compiler.pack.latency import layers_left_behind
from tilewright.host.compiler.pack.target import target_board
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import (
    ImportOptions,
    Int4Layers,
    Method,
    QuantiseOptions,
)
from tilewright.host.compiler.read.own_operator import Operator
from tilewright.host.compiler.read.own_operators import operator_names
from tilewright.host.compiler.run.network_runner import NetworkRun
from tilewright.host.compiler.run.runtime import differing_elements, run_network
from tilewright.host.machine.board import THE_BOARDS, Board, MemoryModel, load_board, load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.runtime.device import Device
from tilewright.interface.simulate import WrongOutputError
from tilewright.interface.typed import typed
from tilewright.sim.devices import CXXRTL, REFERENCE, open_simulated
from tilewright.tuner.store.location import store_location
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.schedule_lookup import SEARCH_BUDGET, ScheduleLookup

Array = npt.NDArray[Any]

COMPUTING: Final = (Fidelity.RTL, Fidelity.DPI, CXXRTL, REFERENCE)
"""Devices that a network runs on: those that move data."""


@typed
def compile(
    model: Any,
    *,
    hw: HwConfig | str | Path = "pynq-16x16",
    board: Board | str | Path = "pynq-z2",
    calibration: str | Path | Array | Mapping[str, Array] | int | None = None,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    asymmetric: bool = False,
    calibration_method: Method = "mse",
    percentile: float = 99.99,
    equalisation: bool = True,
    bias_correction: bool = True,
    int8_ends: bool = False,
    int4_weights: Int4Layers = "none",
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    store: str | Path = "",
    search: int = SEARCH_BUDGET,
    keep_rounding: bool = False,
    offload_all: bool = False,
    operators: Sequence[str | type[Operator]] = (),
    trust_model: bool = False,
    output: str | Path | None = None,
    name: str = "",
) -> CompiledNetwork:
    """Compile a network for one configuration: quantise, divide, lower; it needs ``[network]``.

    Args:
        model: path of an ONNX file, or of a ``.pt2`` file of ``torch.export.save``, which is read
            as untrusted data; or an ONNX model, an ``nn.Module`` or an ``ExportedProgram``.
        hw: the configuration: `HwConfig`, name or YAML file.
        board: its clock, memory timing and CPU decide what is offloaded: `Board`, name or file.
        calibration: inputs of a float model: a folder of images, an ``.npy`` or ``.npz`` file, one
            array, arrays by input name (batches along the first axis), or a number of batches of
            noise, which is good for timing and not for accuracy. None: the model is quantised. An
            ``nn.Module`` needs arrays.
        mean: of image channels in 0..1; for images alone, as ``std``.
        std: of image channels.
        asymmetric: activations with a zero point.
        calibration_method: how ranges of activations follow from the data: ``mse``, ``minmax`` or
            ``percentile``.
        percentile: of all elements that lie within a range, for that method alone.
        equalisation: scale channels of activations to similar ranges.
        bias_correction: correct biases by the mean error of each layer.
        int8_ends: the network takes and gives int8 where one scale holds; ``inputs`` and
            ``outputs`` have scale and zero point.
        int4_weights: layers whose weights have 4 bits: ``none``, those of ``dense`` layers, or
            ``all``; it needs a configuration with ``int4_weights`` 1, or 2, which loses less.
        input_shapes: sizes of inputs that the model leaves open, by name.
        store: SQLite file or URL of studies whose schedules are used; empty: none.
        search: measurements on the twin for a layer that the store does not know.
        keep_rounding: keep every quantisation of the model: one rounding more per fusion.
        offload_all: offload whatever the accelerator can compute, at any cost.
        operators: your own that the model has, as classes or ``package.module:Class``; those of
            entry points are found without it.
        trust_model: read a ``.pt2`` file of any layout, which may run code from it.
        output: the ``.tw`` file to write, which `run` and `tilewright run` take.
        name: of the network; empty: the file's or class's.

    Returns:
        The compiled network: ``inputs`` and ``outputs`` (name, shape, dtype), ``placements`` (where
        every operator runs, and why), ``programs`` of the accelerator. A warning says so where an
        operator with multiplications stays on the CPU.

    Raises:
        WorkloadError: the model cannot be read or compiled, or data do not fit it.
        ConfigError: no such configuration or board.
        ProgramError: the programs exceed the board's memory, or the file cannot be written.
        ToolError: a package of the extra ``network`` is missing.

    Example:
        >>> import tilewright as tw
        >>> network = tw.compile("examples/digits/digits.onnx", hw="tiny-4x4", calibration=2)
        >>> [(port.shape, port.dtype) for port in network.inputs]
        [((1, 1, 8, 8), 'float32')]
    """
    config, target = load_hwconfig(hw), load_board(board)
    with ExitStack() as stack:
        trials = None
        if str(store):
            found = store_location(store, Path())
            trials = stack.enter_context(Store(found, must_exist=True, read_only=True))
        book = stack.enter_context(
            ScheduleLookup(config, target.memory, budget=search, store=trials)
        )
        stack.enter_context(fields_named({"options.example_inputs": "calibration"}))
        network = compile_model(
            model,
            config,
            target,
            calibration=None if calibration is None else _data(calibration, mean, std),
            options=ImportOptions(
                quantise=QuantiseOptions(
                    asymmetric=asymmetric,
                    method=calibration_method,
                    percentile=percentile,
                    equalisation=equalisation,
                    bias_correction=bias_correction,
                    int8_ends=int8_ends,
                    int4_weights=int4_weights,
                ),
                input_shapes=dict(input_shapes or {}),
                name=name,
                trust_model=trust_model,
                operators=operator_names(operators),
            ),
            schedule_of=book,
            keep_rounding=keep_rounding,
            offload_all=offload_all,
            output=None if output is None else Path(output),
        ).network
    if told := layers_left_behind(network):
        warnings.warn(told, stacklevel=3)
    return network


@typed
def run(
    network: CompiledNetwork | str | Path,
    inputs: str | Path | Array | Mapping[str, Array] | int = 1,
    *,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    device: str | Device = Fidelity.RTL,
    board: Board | str | Path | None = None,
    memory: MemoryModel | Board | str | Path = THE_BOARDS,
    check: bool = True,
    trusted: bool = False,
) -> NetworkRun:
    """Run a compiled network once on a simulated device, and check it bit by bit.

    Args:
        network: what `compile` returned, or the path of a ``.tw`` file.
        inputs: an image, an ``.npy`` or ``.npz`` file, one array, or arrays by input name, in the
            model's shapes; 1: seeded noise.
        mean: of image channels in 0..1; for images alone, as ``std``.
        std: of image channels.
        device: ``rtl`` (the RTL in Verilator), ``dpi`` (its control, data in C++), ``cxxrtl``, or
            ``reference`` (NumPy, which counts no cycles); or an open device, such as the board of
            `connect_device`, which stays open.
        board: whose memory is simulated; None: the board that the network was compiled for.
        memory: ``board``, or as in `simulate`.
        check: run the reference, too, and compare every output.
        trusted: run the CPU's part in this process, without its limits of memory and time.

    Returns:
        ``outputs`` by name, ``cycles`` of all programs on the accelerator, ``results`` (memory and
        counters, program by program), ``cpu_seconds`` of this machine.

    Raises:
        WrongOutputError: an output differs from the reference: a defect of Tilewright.
        WorkloadError: an input is missing or does not fit.
        ProgramError: the file is damaged.
        ConfigError: no such device, board or memory.
        DeviceError: the device stopped with an error.
        ToolError: a package of the extra ``network`` is missing.

    Example:
        >>> import tilewright as tw
        >>> network = tw.compile("examples/digits/digits.onnx", hw="tiny-4x4", calibration=2)
        >>> done = tw.run(network, "examples/digits/images/3.png", trusted=True)
        >>> [array.shape for array in done.outputs.values()], done.cycles > 0
        ([(1, 10)], True)
    """
    if isinstance(device, str) and device not in COMPUTING:
        raise ConfigError(
            "must move data",
            field="device",
            value=device,
            remedy=f"use one of {', '.join(COMPUTING)}; simulate counts a layer's cycles on others",
        )
    compiled = network if isinstance(network, CompiledNetwork) else load(Path(network))
    with fields_named({"calibration": "inputs"}):
        given = next(_data(inputs, mean, std).batches(compiled.inputs))
    target = target_board(compiled) if board is None else load_board(board)
    timing = load_memory(memory, target)
    done = _on(device, compiled, timing, given, trusted=trusted)
    if check and device != REFERENCE:
        expected = _on(REFERENCE, compiled, timing, given, trusted=trusted)
        wrong = {name: n for name, n in differing_elements(done, expected).items() if n}
        if wrong:
            raise WrongOutputError(
                "outputs must be those of the reference, bit by bit",
                field=compiled.name,
                value=wrong,
                remedy="this is a defect of Tilewright: please report it with the network",
            )
    return done


def _on(
    device: str | Device,
    network: CompiledNetwork,
    memory: MemoryModel,
    inputs: Mapping[str, Array],
    *,
    trusted: bool,
) -> NetworkRun:
    if not isinstance(device, str):
        return run_network(network, device, inputs, trusted=trusted)
    with closing(open_simulated(device, network.hw, memory)) as opened:
        return run_network(network, opened, inputs, trusted=trusted)


def _data(
    source: str | Path | Array | Mapping[str, Array] | int,
    mean: Sequence[float],
    std: Sequence[float],
) -> Calibration:
    """What a user gives as data for a network's inputs."""
    path: Path | None = None
    arrays: Mapping[str, Array] | None = None
    samples: int | None = None
    match source:
        case int() | np.integer():
            samples = int(source)
        case str() | Path():
            path = Path(source)
        case np.ndarray():
            arrays = {"": source}
        case _:
            arrays = source
    with fields_named({"calibration.mean": "mean", "calibration.std": "std"}):
        data = Calibration(
            path=path, arrays=arrays, random_samples=samples, mean=tuple(mean), std=tuple(std)
        )
        data.require_images()
    return data
