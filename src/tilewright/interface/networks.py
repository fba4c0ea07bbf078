# SPDX-License-Identifier: Apache-2.0
"""Whole networks from Python: `compile` a model, `run` what it gave."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, WorkloadError, fields_named
from tilewright.host.common.options import takes
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load
from tilewright.host.compiler.pack.latency import layers_left_behind
from tilewright.host.compiler.pack.target import target_board
from tilewright.host.compiler.pipeline import (
    ImportedNetwork,
    compile_model,
    import_network,
)
from tilewright.host.compiler.quantise.agreement import Agreement, Comparison
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.run.network_runner import NetworkRun
from tilewright.host.compiler.run.picture_network import (
    PictureNetwork,
    PictureReader,
    scaling_of,
    stated_task,
)
from tilewright.host.compiler.run.runtime import differing_elements, run_network
from tilewright.host.compiler.run.runtime import open_network as runner_of
from tilewright.host.machine.board import Board, MemoryModel, load_board, load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.runtime.device import Device
from tilewright.host.vision.labels import read_labels
from tilewright.host.vision.names import Fit, Head, Task
from tilewright.host.vision.pictures import Scaling
from tilewright.host.vision.tasks import TaskOptions
from tilewright.interface.configurations import AUTO, Configurations
from tilewright.interface.options import (
    CompileOptions,
    ImageOptions,
    LookOptions,
    OpenOptions,
    RunOptions,
)
from tilewright.interface.simulate import WrongOutputError
from tilewright.interface.typed import typed
from tilewright.sim.devices import CXXRTL, REFERENCE, open_simulated
from tilewright.tuner.store.location import store_location
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.schedule_lookup import ScheduleLookup

Array = npt.NDArray[Any]

N = TypeVar("N")

COMPUTING: Final = (Fidelity.RTL, Fidelity.DPI, CXXRTL, REFERENCE)
"""Devices that a network runs on: those that move data."""


@typed
@takes(CompileOptions)
def compile(options: CompileOptions) -> CompiledNetwork:
    """Compile a network for one configuration: quantise, divide, lower; it needs ``[network]``.

    Returns:
        The compiled network: ``inputs`` and ``outputs`` (name, shape, dtype), ``placements`` (where
        every operator runs, and why), ``programs`` of the accelerator. A warning says so where an
        operator with multiplications stays on the CPU, or where an output is far from the float
        model's. ``conditions["agreement"]`` holds how near it is on calibration inputs, and
        ``conditions["check"]`` on those of ``check``.

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
    target = load_board(options.board)
    with ExitStack() as stack:
        trials = None
        if str(options.store):
            found = store_location(options.store, Path())
            trials = stack.enter_context(Store(found, must_exist=True, read_only=True))
        stack.enter_context(fields_named({"options.example_inputs": "calibration"}))
        data, check = (
            None if each is None else _scaled(_data(each), options.mean, options.std, options.fit)
            for each in (options.calibration, options.check)
        )
        config, model, given = _configuration(options, target, data, check)
        book = stack.enter_context(
            ScheduleLookup(config, target.memory, budget=options.search, store=trials)
        )
        compilation = compile_model(
            model,
            config,
            target,
            calibration=data,
            options=given,
            schedule_of=book,
            keep_rounding=options.keep_rounding,
            offload_all=options.offload_all,
            output=None if options.output is None else Path(options.output),
            check=check,
        )
    network, accuracy = compilation.network, compilation.imported.accuracy
    agreement = Agreement.from_mapping(accuracy.agreement) if accuracy.agreement else None
    if check is not None:
        agreement = agreement_on(network, check, accuracy.expected)
        checked = {**network.conditions, "check": agreement.to_mapping()}
        network = replace(network, conditions=checked)
    if agreement is not None and (far := agreement.warning()):
        warnings.warn(far, stacklevel=3)
    if told := layers_left_behind(network):
        warnings.warn(told, stacklevel=3)
    return network


def _configuration(
    options: CompileOptions, target: Board, data: Calibration | None, check: Calibration | None
) -> tuple[HwConfig, Any, ImportOptions]:
    """The configuration, the model, and how it is imported; of ``auto`` imported already."""
    given = options.import_options()
    if options.hw != AUTO:
        return load_hwconfig(options.hw), options.model, given

    def imported(wanted: ImportOptions) -> ImportedNetwork:
        return import_network(options.model, calibration=data, options=wanted, check=check)

    choice = Configurations(imported, options, target).fastest()
    return choice.hw, choice.imported, choice.options


@typed
@takes(RunOptions)
def run(options: RunOptions) -> NetworkRun:
    """Run a compiled network once on a simulated device, and check it bit by bit.

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
    network, device = options.network, options.device
    if isinstance(device, str) and device not in COMPUTING:
        raise ConfigError(
            "must move data",
            field="device",
            value=device,
            remedy=f"use one of {', '.join(COMPUTING)}; simulate counts a layer's cycles on others",
        )
    compiled = network if isinstance(network, CompiledNetwork) else load(Path(network))
    with fields_named({"calibration": "inputs"}):
        data = scaled_as_compiled(_data(options.inputs), compiled, options)
        given = next(data.batches(compiled.inputs))
    board = options.board
    target = target_board(compiled) if board is None else load_board(board)
    timing = load_memory(options.memory, target)
    done = _on(device, compiled, timing, given, trusted=options.trusted)
    if options.check and device != REFERENCE:
        expected = _on(REFERENCE, compiled, timing, given, trusted=options.trusted)
        wrong = {name: n for name, n in differing_elements(done, expected).items() if n}
        if wrong:
            raise WrongOutputError(
                "outputs must be those of the reference, bit by bit",
                field=compiled.name,
                value=wrong,
                remedy="this is a defect of Tilewright: please report it with the network",
            )
    return done


@typed
@takes(OpenOptions)
def open_network(options: OpenOptions) -> PictureNetwork:
    """Open a compiled network that looks at pictures, one or many; close it in the end.

    Returns:
        An open network. ``see(picture)`` looks at a file or a Pillow image, ``watch(source)`` at a
        folder, a video or, by its number, a camera. Both give frames: ``seen`` (classes, boxes,
        areas or keypoints in pixels of the picture), ``draw()`` (the picture with them), ``run``
        (outputs and cycles), ``seconds``.

    Raises:
        WorkloadError: the network takes no pictures, or its outputs are not those of the task.
        ConfigError: no such device, board or memory.
        ToolError: a package of the extras ``network`` or ``vision`` is missing.

    Example:
        >>> import tilewright as tw
        >>> network = tw.compile("examples/digits/digits.onnx", hw="tiny-4x4", calibration=2)
        >>> with tw.open_network(network, device="dpi", task="classify", trusted=True) as opened:
        ...     frame = opened.see("examples/digits/images/3.png")
        >>> frame.title, len(frame.seen.found), frame.run.cycles > 0
        ('3.png', 5, True)
    """
    network = options.network
    compiled = network if isinstance(network, CompiledNetwork) else load(Path(network))
    looks = look_options(compiled, options)
    reader = PictureReader(compiled, scaling_between(compiled, options, looks.task), looks)
    board = options.board
    target = target_board(compiled) if board is None else load_board(board)
    device = options.device
    opened = (
        open_simulated(device, compiled.hw, load_memory(options.memory, target))
        if isinstance(device, str)
        else device
    )
    stack = ExitStack()
    try:
        if isinstance(device, str):
            stack.enter_context(closing(opened))
        runner = stack.enter_context(runner_of(compiled, opened, trusted=options.trusted))
        return PictureNetwork(runner, reader, stack.close)
    except BaseException:
        stack.close()
        raise


def look_options(network: CompiledNetwork, options: LookOptions) -> TaskOptions:
    """What is looked for: as given, otherwise as the network's model states."""
    stated, labels = stated_task(network)
    if not (task := options.task or stated):
        raise WorkloadError(
            "must be given: the model does not say what it is for",
            field="task",
            value=network.name,
            remedy=f"use one of {', '.join(Task)}",
        )
    given = options.labels
    if isinstance(given, str | Path):
        labels = read_labels(Path(given)) if str(given) else labels
    else:
        labels = tuple(map(str, given))
    return TaskOptions(
        task=_one_of(Task, "task", task),
        labels=labels,
        head=_one_of(Head, "head", options.head),
        score=options.score,
        overlap=options.overlap,
    )


def _one_of(kind: Callable[[str], N], field: str, name: str) -> N:
    """A name's member of an enumeration."""
    try:
        return kind(name)
    except ValueError as error:
        known: Any = kind
        raise ConfigError(
            f"must be one of {', '.join(known)}",
            field=field,
            value=name,
            remedy="leave it out for the usual one",
        ) from error


def scaling_between(network: CompiledNetwork, options: ImageOptions, task: str = "") -> Scaling:
    """How pictures become a network's input: as given, otherwise as in its calibration."""
    found = scaling_of(network, task, _one_of(Fit, "fit", options.fit) if options.fit else "")
    return replace(found, mean=options.mean or found.mean, std=options.std or found.std)


def scaled_as_compiled(
    data: Calibration, network: CompiledNetwork, options: ImageOptions
) -> Calibration:
    """Data for a network, images among them as `scaling_between` says."""
    given = _scaled(data, options.mean or (0.0,), options.std or (1.0,), Fit.CROP)
    if not data.has_images:
        return given
    scaling = scaling_between(network, options)
    return _scaled(data, scaling.mean, scaling.std, scaling.fit)


def _scaled(
    data: Calibration, mean: Sequence[float], std: Sequence[float], fit: str
) -> Calibration:
    """Data whose images are scaled; the same options for arrays are refused."""
    with fields_named({"calibration.mean": "mean", "calibration.std": "std"}):
        scaled = replace(data, mean=tuple(mean), std=tuple(std), fit=_one_of(Fit, "fit", fit))
        scaled.require_images()
    return scaled


def agreement_on(
    network: CompiledNetwork,
    check: Calibration,
    expected: Sequence[Mapping[str, Array]],
    progress: Callable[[str], None] = lambda _: None,
) -> Agreement:
    """How near a network is to its model, computed as the accelerator and the CPU compute it."""
    comparison = Comparison()
    outputs = {output.name: output for output in network.outputs}
    for batch, known in zip(check.batches(network.inputs), expected, strict=True):
        progress(f"running input {comparison.inputs + 1} of {len(expected)}")
        timing = target_board(network).memory
        found = _on(REFERENCE, network, timing, batch, trusted=True).outputs
        real = {
            name: outputs[name].dequantise(array) if outputs[name].is_quantised else array
            for name, array in found.items()
        }
        comparison.add(known, real)
    return comparison.result("the accelerator's arithmetic", check.origin)


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


def _data(source: str | Path | Array | Mapping[str, Array] | int) -> Calibration:
    """What a user gives as data for a network's inputs."""
    match source:
        case int() | np.integer():
            return Calibration(random_samples=int(source))
        case str() | Path():
            return Calibration(path=Path(source))
        case np.ndarray():
            return Calibration(arrays={"": source})
        case _:
            return Calibration(arrays=source)
