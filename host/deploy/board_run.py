# SPDX-License-Identifier: Apache-2.0
"""Runs a bundle on its board: ``python3 run`` in the bundle's folder calls `main`."""

from __future__ import annotations

import argparse
import errno
import hashlib
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.calls import named
from tilewright.host.common.errors import ConfigError, ProgramError, TilewrightError, fields_named
from tilewright.host.common.names import counted
from tilewright.host.common.printable import printable
from tilewright.host.common.result_document import result_document, to_json
from tilewright.host.common.whole_file import prepare_place, renew_folder, write_whole
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.network_runner import NetworkRun, NetworkRunner
from tilewright.host.compiler.run.numpy_host import NumpyHost
from tilewright.host.compiler.run.picture_network import PictureNetwork, PictureReader
from tilewright.host.deploy.bundle import Bundle, read_bundle
from tilewright.host.deploy.measure import IN_FLIGHT, Inputs, Measured, measure
from tilewright.host.runtime.device import Device
from tilewright.host.runtime.pynq_device import PynqDevice
from tilewright.host.vision.drawing import draw as drawn
from tilewright.host.vision.drawing import png_of, save
from tilewright.host.vision.names import Task
from tilewright.host.vision.pictures import Scaling, image_files, read_picture
from tilewright.host.vision.tasks import Seen, TaskOptions

_TOP: Final = 5


def _largest(run: NetworkRun) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Indices and values of the largest elements of every output."""
    for name, array in run.outputs.items():
        flat = np.asarray(array).reshape(-1)
        most = np.argsort(-flat.astype(np.float64), kind="stable")[:_TOP]
        yield name, [(int(i), float(flat[i])) for i in most]


def top_classes(run: NetworkRun, labels: Sequence[str]) -> str:
    """The largest elements of every output, in words."""
    words = []
    for name, most in _largest(run):
        known = [labels[i] if i < len(labels) else f"[{i}]" for i, _ in most]
        values = (f"{each} {value:.4g}" for each, (_, value) in zip(known, most, strict=True))
        words.append(f"{name}: {', '.join(values)}")
    return "; ".join(words)


@dataclass(frozen=True, kw_only=True, eq=False)
class BundleReport:
    """What runs of a bundle showed."""

    name: str  # of the bundle
    clock_mhz: float  # of its board
    clock_reached: bool  # a bitstream reached it; otherwise it is planned
    simulated: bool  # the times are those of a simulation on this machine
    labels: Sequence[str]  # of the classes; empty: none
    seen: Sequence[Seen]  # what is in the pictures, of a network with a task; empty: none
    titles: Sequence[str]  # of the inputs, in their order
    measured: Measured  # the runs

    def outputs(self) -> Iterator[str]:
        """A line for each input: what is in it, or the largest elements of its outputs."""
        if self.seen:
            yield from (
                f"{printable(title)}: {seen.describe()}"
                for title, seen in zip(self.titles, self.seen, strict=True)
            )
            return
        for title, run in zip(self.titles, self.measured.runs, strict=True):
            yield f"{printable(title)}: {top_classes(run, self.labels)}"

    def figures(self) -> Iterator[str]:
        """Lines with cycles, latency and throughput."""
        found = self.summary()
        clock = f"{'' if self.clock_reached else 'a planned '}{self.clock_mhz:g} MHz"
        whose = " (of the simulation on this machine, not of a board)" if self.simulated else ""
        yield (
            f"{self.name}: {counted(found['inputs'], 'input')}; {found['cycles']:,} cycles on the "
            f"accelerator, {found['accelerator_ms']:.3f} ms at {clock}"
        )
        low, middle, high = (found["latency_ms"][part] for part in ("low", "median", "high"))
        yield f"latency{whose}: median {middle:.3f} ms, 10 % to 90 %: {low:.3f} to {high:.3f} ms"
        yield (
            f"throughput{whose}: {found['one_by_one_per_second']:.2f} inputs per second one by "
            f"one, {found['pipelined_per_second']:.2f} pipelined ({IN_FLIGHT} in flight)"
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row for each input."""
        done = self.measured
        return [
            {
                "input": title,
                "latency_ms": 1e3 * seconds,
                "cycles": run.cycles,
                "outputs": [
                    {"output": name, "top": [self._element(n, value) for n, value in most]}
                    for name, most in _largest(run)
                ],
                "found": [each.to_mapping() for each in self.seen[i].found] if self.seen else None,
            }
            for i, (title, run, seconds) in enumerate(
                zip(self.titles, done.runs, done.latencies, strict=True)
            )
        ]

    def summary(self) -> dict[str, Any]:
        """Figures of all inputs together."""
        done = self.measured
        cycles, count = done.runs[0].cycles, len(done.runs)
        low, middle, high = (1e3 * done.quantile(part) for part in (0.1, 0.5, 0.9))
        return {
            "inputs": count,
            "cycles": cycles,
            "accelerator_ms": cycles / self.clock_mhz / 1e3,
            "latency_ms": {"low": low, "median": middle, "high": high},
            "one_by_one_per_second": count / done.serial_seconds,
            "pipelined_per_second": count / done.pipelined_seconds,
        }

    def _element(self, index: int, value: float) -> dict[str, Any]:
        label = {"label": self.labels[index]} if index < len(self.labels) else {}
        return {"index": index, **label, "value": value}


BITSTREAMS: Final = "bitstreams"
"""Folder beside bundles; each bitstream has a folder in it that is named by `bitstream_key`."""
NOISE_INPUTS: Final = 16
MAX_INPUTS: Final = 256
"""All inputs of a run lie in memory at once."""
_LOOK_SECONDS: Final = 0.2

Say = Callable[[str], None]


def open_network(bundle: Bundle) -> CompiledNetwork:
    """The network of a bundle."""
    network = load(bundle.network)
    if network.hw.config_hash != bundle.config_hash:
        raise ProgramError(
            f"the network must be of configuration {bundle.config_hash:#010x}",
            field=str(bundle.network),
            value=f"{network.hw.config_hash:#010x}",
            remedy="make the bundle again with 'tilewright deploy'",
        )
    return network


def bitstream_key(digest: str) -> str:
    """The folder of a bitstream among others, by its SHA-256."""
    return digest[:16]


def find_bitstream(bundle: Bundle, given: Path | None) -> Path:
    """The bitstream that a bundle runs on, its files checked."""
    name = next((each for each in bundle.bitstream if each.endswith(".bit")), "")
    if given is None and not name:
        raise ConfigError(
            "a bundle without bitstream needs one",
            field="--bitstream",
            remedy="name the file, or give 'tilewright deploy' the manifest of a bitstream",
        )
    beside = bundle.folder.resolve().parent / BITSTREAMS
    path = given or beside / bitstream_key(bundle.bitstream[name]) / name
    for each, digest in bundle.bitstream.items():
        file = path.with_suffix(Path(each).suffix)
        try:
            found = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise ConfigError(
                f"the bitstream cannot be read ({error.strerror})",
                field=str(file),
                remedy="name it with --bitstream, its .hwh beside it",
            ) from error
        if found != digest:
            raise ConfigError(
                f"must be the file that the bundle was made for (SHA-256 {digest[:16]}...)",
                field=str(file),
                value=f"{found[:16]}...",
                remedy="copy the bitstream of the bundle's manifest",
            )
    return path


def open_device(bundle: Bundle, network: CompiledNetwork, bitstream: Path | None) -> PynqDevice:
    """The board that this runs on, with the bundle's bitstream loaded.

    Raises:
        ToolError: pynq cannot be imported.
        ConfigError: see `find_bitstream`.
        DeviceError: the bitstream has another configuration, or cannot be loaded.
    """
    return PynqDevice(
        network.hw,
        bitstream=find_bitstream(bundle, bitstream),
        coherent=bundle.board["coherent"],
        memory_limit=bundle.board["contiguous_bytes"],
    )


def runner_of(network: CompiledNetwork, device: Device) -> NetworkRunner:
    """The network on a device, its CPU part in NumPy."""
    return NetworkRunner(network, device, NumpyHost)


def read_inputs(bundle: Bundle, network: CompiledNetwork, path: Path | None) -> list[Inputs]:
    """At most `MAX_INPUTS` + 1 inputs from images or arrays; without a path: noise."""
    source = Calibration(
        path=path,
        random_samples=NOISE_INPUTS if path is None else None,
        mean=bundle.mean,
        std=bundle.std,
        fit=bundle.fit,
        limit=MAX_INPUTS + 1,  # one more shows that there are more
    )
    return list(source.batches(network.inputs))


def reader_of(bundle: Bundle, network: CompiledNetwork) -> PictureReader | None:
    """What makes inputs of pictures and reads the outputs; None: the bundle names no task."""
    if not bundle.task:
        return None
    scaling = Scaling(mean=bundle.mean, std=bundle.std, fit=bundle.fit)
    try:
        options = TaskOptions(task=Task(bundle.task), labels=bundle.labels)
    except ValueError as error:
        raise ProgramError(
            f"must name one of the tasks {', '.join(Task)}",
            field=bundle.name,
            value=bundle.task,
            remedy="make the bundle again with 'tilewright deploy'",
        ) from error
    return PictureReader(network, scaling, options)


def ready_drawing(bundle: Bundle, images: Path, folder: Path) -> None:
    """Take a folder for the pictures of a run before it begins."""
    if not bundle.task:
        raise ConfigError(
            "is for a bundle with a task",
            field="--draw",
            value=bundle.name,
            remedy="deploy it with --task, such as --task detect",
        )
    renew_folder(folder, [png_of(file.name) for file in image_files(images)[:MAX_INPUTS]])


@named
def open_bundle(folder: str | Path, *, bitstream: str | Path | None = None) -> PictureNetwork:
    """Open a bundle that looks at pictures on the board that this runs on; close it in the end.

    Args:
        folder: of the bundle, which was deployed with a task.
        bitstream: default: the one that was deployed.

    Returns:
        What `tilewright.open_network` returns, on this board.

    Raises:
        ProgramError: the bundle is damaged, or has no task.
        ToolError: pynq cannot be imported.
        ConfigError: the bitstream is missing, or another one.
        DeviceError: it has another configuration, or cannot be loaded.

    Example:
        >>> import tilewright as tw
        >>> try:
        ...     network = tw.open_bundle("no-such-folder")
        ... except tw.TilewrightError as error:
        ...     print(error.field)
        no-such-folder/manifest.json
    """
    bundle = read_bundle(Path(str(folder)))
    network = open_network(bundle)
    reader = reader_of(bundle, network)
    if reader is None:
        raise ProgramError(
            "must have a task",
            field=str(folder),
            remedy="deploy it with --task, such as --task detect",
        )
    stack = ExitStack()
    try:
        device = open_device(bundle, network, None if bitstream is None else Path(str(bitstream)))
        stack.enter_context(closing(device))
        runner = stack.enter_context(runner_of(network, device))
        return PictureNetwork(runner, reader, stack.close)
    except BaseException:
        stack.close()
        raise


def run_bundle(bundle: Bundle, network: CompiledNetwork, device: Device, path: Path | None,
               say: Say, *, simulated: bool = False, draw: Path | None = None,
               ) -> BundleReport:  # fmt: skip
    """Run a bundle on inputs; say outputs, latency and throughput.

    Args:
        bundle: with a task, its outputs are read as that.
        network: of the bundle.
        device: that it runs on.
        path: images or arrays; None: noise.
        say: told each line.
        simulated: the device is a simulation on this machine.
        draw: folder for pictures with what is in them; None: they are not drawn.
    """
    files = image_files(path)[:MAX_INPUTS] if path is not None else []
    reader = reader_of(bundle, network) if files else None
    pictures = [read_picture(file) for file in files] if reader else []
    framed = [reader.inputs_of(picture) for picture in pictures] if reader else []
    inputs = [each for each, _ in framed] or read_inputs(bundle, network, path)
    titles = [file.name for file in files]
    if len(inputs) > MAX_INPUTS or (path is not None and len(image_files(path)) > MAX_INPUTS):
        say(f"{path}: has more than {MAX_INPUTS} inputs; only the first {MAX_INPUTS} are run")
        del inputs[MAX_INPUTS:]
    if len(titles) != len(inputs):
        titles = [f"input {index}" for index in range(len(inputs))]
    measured = measure(lambda: runner_of(network, device), inputs)
    seen: list[Seen] = []
    if reader is not None:
        seen = [
            reader.read(run, framing)
            for run, (_, framing) in zip(measured.runs, framed, strict=True)
        ]
    for title, picture, each in zip(titles, pictures, seen, strict=False):
        if draw is not None:
            save(drawn(picture, each), draw / png_of(title))
    report = BundleReport(
        name=bundle.name,
        clock_mhz=bundle.board["clock_mhz"],
        clock_reached=bool(bundle.bitstream),
        simulated=simulated,
        labels=bundle.labels,
        seen=seen,
        titles=titles,
        measured=measured,
    )
    for line in (*(report.outputs() if path is not None else ()), *report.figures()):
        say(line)
    return report


def conditions(bundle: Bundle, path: Path | None, device: str) -> dict[str, Any]:
    """What the rows of a run's document hold under."""
    return {
        "bundle": bundle.name,
        "board": bundle.board["name"],
        "config_hash": f"{bundle.config_hash:08x}",
        "clock_mhz": bundle.board["clock_mhz"],
        "bitstream": dict(bundle.bitstream),
        "images": None if path is None else str(path),
        "device": device,
    }


def new_images(folder: Path) -> Iterator[Path]:
    """Images as they come into a folder, each once; ends never.

    A file counts when its size has stayed the same between two looks.
    """
    sizes: dict[Path, int] = {}
    told: set[Path] = set()
    while True:
        try:
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "no such folder")
            found = image_files(folder)
        except OSError as error:
            raise ConfigError(
                f"must be a folder that can be read ({error.strerror})",
                field="--watch",
                value=str(folder),
                remedy="make it, or check the path",
            ) from error
        for path in found:
            try:
                size = path.stat().st_size
            except OSError:  # who put it there took it away
                sizes.pop(path, None)
                continue
            if path not in told and sizes.get(path) == size:
                told.add(path)
                yield path
            sizes[path] = size
        time.sleep(_LOOK_SECONDS)


def watch(bundle: Bundle, network: CompiledNetwork, device: Device, folder: Path,
          say: Say) -> None:  # fmt: skip
    """Look at images as they come into a folder, until a signal ends it."""
    reader = reader_of(bundle, network)
    with runner_of(network, device) as runner:
        for path in new_images(folder):
            try:
                if reader is None:
                    (inputs,) = read_inputs(bundle, network, path)
                else:
                    inputs, framing = reader.inputs_of(read_picture(path))
                started = time.perf_counter()
                run = runner.run(inputs)
                told = (
                    top_classes(run, bundle.labels)
                    if reader is None
                    else reader.read(run, framing).describe()
                )
            except TilewrightError as error:  # one bad image ends nothing
                say(f"error: {error}")
                continue
            milliseconds = 1e3 * (time.perf_counter() - started)
            say(f"{path.name}: {told}; {milliseconds:.3f} ms")


def main(folder: Path, words: Sequence[str] | None = None) -> int:
    """The runner's command line."""
    parser = argparse.ArgumentParser(prog="run", description="Run this bundle on this board.")
    parser.add_argument("--images", type=Path, metavar="PATH",
                        help="folder of images, image, .npy or .npz; default: noise")  # fmt: skip
    parser.add_argument("--watch", type=Path, metavar="FOLDER",
                        help="look at images as they come into a folder")  # fmt: skip
    parser.add_argument("--bitstream", type=Path, metavar="FILE",
                        help="bitstream; default: the one that was deployed")  # fmt: skip
    parser.add_argument("--draw", type=Path, metavar="FOLDER",
                        help="write images with what is in them; needs a task")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="also write outputs and figures to this file")  # fmt: skip
    options = parser.parse_args(words)

    def say(text: str) -> None:
        print(printable(text), flush=True)  # noqa: T201  (output)

    if options.watch is not None and (options.images or options.json):
        parser.error("--watch goes without --images and --json")
    if options.draw is not None and options.images is None:
        parser.error("--draw needs --images")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the device is closed
    try:
        if options.json is not None:
            prepare_place(options.json)  # before anything runs for it
        bundle = read_bundle(folder)
        if options.draw is not None:
            ready_drawing(bundle, options.images, options.draw)
        network = open_network(bundle)
        NumpyHost(network.host)
        with closing(open_device(bundle, network, options.bitstream)) as device:
            if options.watch is not None:
                watch(bundle, network, device, options.watch, say)
            else:
                with fields_named({"calibration": "--images"}):
                    report = run_bundle(
                        bundle, network, device, options.images, say, draw=options.draw
                    )
                if options.json is not None:
                    held = conditions(bundle, options.images, "board")
                    command = shlex.join(["run", *(sys.argv[1:] if words is None else words)])
                    document = result_document(
                        command, report.rows(), held, summary=report.summary()
                    )
                    write_whole(options.json, to_json(document))
    except TilewrightError as error:
        print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)  # noqa: T201  (output)
        return 2
    except OSError as error:
        print(f"error: --json: {printable(str(error))}", file=sys.stderr)  # noqa: T201  (output)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
