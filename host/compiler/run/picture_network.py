# SPDX-License-Identifier: Apache-2.0
"""A network that looks at pictures: a picture goes in, what is in it comes out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pack.artefact import PICTURES, CompiledNetwork
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import picture_size
from tilewright.host.compiler.run.network_runner import NetworkRun, NetworkRunner
from tilewright.host.vision.drawing import draw, save
from tilewright.host.vision.names import Fit, Task
from tilewright.host.vision.pictures import (
    Framing,
    Scaling,
    pictures_of,
    read_picture,
)
from tilewright.host.vision.tasks import Interpreter, Seen, TaskOptions

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """A picture that was looked at."""

    title: str  # the name of its file, or the number of the frame
    picture: Image
    seen: Seen
    run: NetworkRun
    seconds: float  # from the picture to what is seen, on this machine

    def draw(self) -> Image:
        """A copy of the picture with what is in it."""
        return draw(self.picture, self.seen)

    def save(self, path: str | Path) -> None:
        """Write what `draw` gives as a PNG file."""
        save(self.draw(), Path(path))


class PictureReader:
    """Makes a network's input of a picture, and reads its outputs.

    Args:
        network: with one input that takes pictures, one at a time.
        scaling: how a picture becomes an input.
        options: what is looked for.

    Raises:
        WorkloadError: the network takes no pictures, or its outputs are not those of the task.
    """

    def __init__(self, network: CompiledNetwork, scaling: Scaling, options: TaskOptions) -> None:
        self._scaling: Final = scaling
        self._outputs: Final = {port.name: port for port in network.outputs}
        self._size: Final = picture_size(network.inputs)
        (self._port,) = network.inputs
        if self._size.batch != 1:
            raise WorkloadError(
                "must take one picture at a time",
                field=network.name,
                value=self._port.shape,
                remedy="compile the model with a batch of 1",
            )
        shapes = {name: port.shape for name, port in self._outputs.items()}
        self._interpreter: Final = Interpreter.of(
            options, shapes, self._size.rows, self._size.columns
        )

    def inputs_of(self, picture: Image) -> tuple[Mapping[str, Array], Framing]:
        """The network's input for a picture, and where its pixels came from."""
        port: Argument = self._port
        sample, framing = self._scaling.sample(picture, self._size, port.real.dtype)
        batch = sample[np.newaxis].astype(port.real.dtype)
        return {port.name: port.quantise(batch) if port.is_quantised else batch}, framing

    def read(self, run: NetworkRun, framing: Framing) -> Seen:
        """What a run's outputs say."""
        real = {
            name: port.dequantise(run.outputs[name]) if port.is_quantised else run.outputs[name]
            for name, port in self._outputs.items()
        }
        return self._interpreter.read(real, framing)


class PictureNetwork:
    """A network on an open device that looks at pictures; close it, or use it as a context.

    Args:
        runner: of the network on a device.
        reader: of the network.
        close: what `close` calls.
    """

    def __init__(
        self, runner: NetworkRunner, reader: PictureReader, close: Callable[[], None]
    ) -> None:
        self.close: Final = close
        self._runner: Final = runner
        self._reader: Final = reader

    def __enter__(self) -> PictureNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def see(self, picture: Image | str | Path, title: str = "") -> Frame:
        """Look at a picture, or at that of a file."""
        if isinstance(picture, str | Path):
            title = title or Path(picture).name
            picture = read_picture(Path(picture))
        started = time.perf_counter()
        inputs, framing = self._reader.inputs_of(picture)
        run = self._runner.run(inputs)
        seen = self._reader.read(run, framing)
        seconds = time.perf_counter() - started
        return Frame(title=title, picture=picture, seen=seen, run=run, seconds=seconds)

    def watch(self, source: str | Path | int) -> Iterator[Frame]:
        """Look at an image, those of a folder, the frames of a video, or of the camera ``source``.

        A folder's unreadable file ends the iteration with its error.
        """
        place = source if isinstance(source, int) else Path(source)
        for title, picture in pictures_of(place):
            yield self.see(picture, title)


def scaling_of(network: CompiledNetwork, task: str, fit: str = "") -> Scaling:
    """How pictures become a network's input: as its file states of its calibration.

    Args:
        network: whose file may state mean and standard deviation of its calibration images.
        task: a classifier takes the middle of a picture, others take it whole.
        fit: of `Fit`; empty: as in the calibration, if that was not the usual one, or by the task.
    """
    stated = network.conditions.get(PICTURES)
    stated = stated if isinstance(stated, Mapping) else {}
    recorded = stated.get("fit")
    usual = Fit.LETTERBOX if task in {Task.DETECT, Task.KEYPOINTS, Task.SEGMENT} else Fit.CROP
    if recorded in set(Fit) - {Fit.CROP}:
        usual = Fit(recorded)
    return Scaling(
        mean=_numbers(stated.get("mean"), 0.0),
        std=_numbers(stated.get("std"), 1.0),
        fit=Fit(fit) if fit else usual,
    )


def _numbers(stated: Any, default: float) -> tuple[float, ...]:
    """Numbers that a file states; anything else is the default."""
    if isinstance(stated, list) and stated and all(isinstance(v, int | float) for v in stated):
        with contextlib.suppress(OverflowError):
            return tuple(map(float, stated))
    return (default,)


def stated_task(network: CompiledNetwork) -> tuple[str, tuple[str, ...]]:
    """The task and the labels that the network's model stated; empty: none."""
    stated = network.conditions.get(PICTURES)
    if not isinstance(stated, Mapping):
        return "", ()
    labels, task = stated.get("labels"), stated.get("task")
    names = tuple(map(str, labels)) if isinstance(labels, list) else ()
    return (task if isinstance(task, str) and task in set(Task) else ""), names
