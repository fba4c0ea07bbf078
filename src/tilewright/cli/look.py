# SPDX-License-Identifier: Apache-2.0
"""`tilewright run --task`: what a compiled network says of pictures, drawn onto them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from tilewright.cli.common import application
from tilewright.cli.common.json_output import JsonTarget
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.host.common.errors import TilewrightError, WorkloadError, fields_named
from tilewright.host.common.names import counted
from tilewright.host.common.options import option
from tilewright.host.common.printable import printable
from tilewright.interface.options import PICTURES_PANEL, LookOptions

if TYPE_CHECKING:
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.run.picture_network import Frame, PictureNetwork
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.runtime.device import Device

_PNG: Final = ".png"
_EXIT_INTERRUPTED: Final = 130


@dataclass(frozen=True, kw_only=True)
class LookCommandOptions(LookOptions):
    """Which pictures are looked at, and where they are drawn."""

    camera: int | None = option(
        None,
        "Look at the frames of this camera.",
        low=0,
        high=999,
        metavar="NUMBER",
        panel=PICTURES_PANEL,
    )
    frames: int = option(
        0,
        "Most pictures of a folder, a video or a camera; 0: all, a camera's until Ctrl-C.",
        low=0,
        metavar="N",
        panel=PICTURES_PANEL,
    )
    draw: Path | None = option(
        None,
        "Write the picture with what is in it to this .png file, or of several to this folder.",
        metavar="PATH",
        panel=PICTURES_PANEL,
    )

    @property
    def asked(self) -> bool:
        """Whether an option asks for pictures."""
        return bool(self.task or self.labels or self.draw) or self.camera is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class Pictures:
    """Where pictures come from, and where drawn ones go."""

    source: Path | int
    drawn: Path | None
    frames: int

    @classmethod
    def of(cls, data: Path | None, settings: LookCommandOptions) -> Pictures:
        """The pictures that options name; refused before anything is run for them."""
        if (data is None) == (settings.camera is None):
            raise UsageError(
                "give one of --input and --camera",
                field="--input, --camera",
                remedy="--input takes an image, a video or a folder of images",
            )
        source = settings.camera if data is None else data
        assert source is not None
        made = cls(source=source, drawn=settings.draw, frames=settings.frames)
        made._claim()
        return made

    @property
    def is_one(self) -> bool:
        """Whether it is one image."""
        from tilewright.host.vision.pictures import is_image

        return isinstance(self.source, Path) and self.source.is_file() and is_image(self.source)

    def _claim(self) -> None:
        from tilewright.host.common.whole_file import refuse_foreign, renew_folder
        from tilewright.host.vision.drawing import png_of
        from tilewright.host.vision.pictures import image_files

        if self.drawn is None:
            return
        if self.is_one:
            if self.drawn.suffix.lower() != _PNG:
                raise UsageError(
                    "must end in .png",
                    field="--draw",
                    value=str(self.drawn),
                    remedy="name a PNG file: one picture is drawn into it",
                )
            refuse_foreign(self.drawn)
            return
        if isinstance(self.source, Path) and self.drawn.resolve() == self.source.resolve():
            raise UsageError(
                "must be another folder than --input",
                field="--draw",
                value=str(self.drawn),
                remedy="name a folder of its own",
            )
        if isinstance(self.source, Path) and self.source.is_dir():
            files = image_files(self.source)[: self.frames or None]
            renew_folder(self.drawn, {png_of(file.name) for file in files})
        else:
            renew_folder(self.drawn, ())

    def place_of(self, frame: Frame) -> Path | None:
        """The file that a frame is drawn into."""
        from tilewright.host.common.whole_file import list_more
        from tilewright.host.vision.drawing import png_of

        if self.drawn is None or self.is_one:
            return self.drawn
        name = png_of(frame.title)
        if not (isinstance(self.source, Path) and self.source.is_dir()):
            list_more(self.drawn, name)
        return self.drawn / name


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """Where a network runs, and what is told of it."""

    compiled: CompiledNetwork
    target: Board
    memory: MemoryModel
    where: str  # in words
    is_board: bool
    checked: bool  # outputs are compared with the reference
    blame: str  # what to do about an output that is wrong
    conditions: dict[str, Any]  # of the rows
    json: JsonTarget | None

    @property
    def quiet(self) -> bool:
        """Whether standard output is a document's."""
        return self.json is not None


def look(site: Site, device: Device, settings: Any, pictures: Pictures) -> None:
    """Look at pictures one by one, print and draw what is in them, and frames per second."""
    from tilewright.host.compiler.run.picture_network import PictureNetwork, PictureReader
    from tilewright.host.compiler.run.runtime import differing_elements, open_network
    from tilewright.interface.networks import look_options, scaling_between
    from tilewright.sim.devices import REFERENCE, open_simulated

    compiled, trusted = site.compiled, settings.trusted
    looks = look_options(compiled, settings)
    reader = PictureReader(compiled, scaling_between(compiled, settings, looks.task), looks)
    rows: list[dict[str, Any]] = []
    wrong = 0
    failure: Exception | None = None
    stopped = False
    with ExitStack() as stack:
        runner = stack.enter_context(open_network(compiled, device, trusted=trusted))
        network = PictureNetwork(runner, reader, runner.close)
        reference = None
        if site.checked:
            known = stack.enter_context(
                closing(open_simulated(REFERENCE, compiled.hw, site.memory))
            )
            reference = stack.enter_context(open_network(compiled, known, trusted=trusted))
        started = time.perf_counter()
        try:
            for frame in _frames(network, pictures, site.where, quiet=site.quiet):
                _tell(frame)
                if reference is not None:
                    expected = reference.run(reader.inputs_of(frame.picture)[0])
                    wrong += any(differing_elements(frame.run, expected).values())
                place = pictures.place_of(frame)
                if place is not None:
                    frame.save(place)
                rows.append(_row(frame, place))
        except KeyboardInterrupt:
            if not rows:
                raise
            application.say("interrupted: what was seen so far is kept", err=True)
            stopped = not isinstance(pictures.source, int)  # that is how a camera ends
        except (OSError, TilewrightError) as error:
            if not rows:
                raise
            failure = error
        seconds = time.perf_counter() - started
    _tell_rates(site, rows, seconds, wrong, pictures.drawn, str(looks.task))
    if failure is not None:
        raise failure
    if stopped:
        raise typer.Exit(_EXIT_INTERRUPTED)


def _tell(frame: Frame) -> None:
    application.open_console().say(
        f"{printable(frame.title, limit=80)}: {frame.seen.describe()}; "
        f"{frame.run.cycles:,} cycles, {1e3 * frame.seconds:.1f} ms on this machine"
    )


def _tell_rates(
    site: Site,
    rows: list[dict[str, Any]],
    seconds: float,
    wrong: int,
    drawn: Path | None,
    task: str,
) -> None:
    """Frames per second here and on the board, and whether outputs were right."""
    from tilewright.host.compiler.pack.latency import latency

    console, target = application.open_console(), site.target
    cycles = max(row["cycles"] for row in rows)
    spent, rate = latency(site.compiled, target, cycles), len(rows) / seconds
    console.say(f"{counted(len(rows), 'picture')}: {rate:.3g} frames per second on {site.where}")
    predicted = None if site.is_board or not cycles else 1 / spent.total
    if predicted is not None:
        console.say(
            f"predicted on {target.name}, one after another: {predicted:.3g} frames per second "
            f"({1e3 * spent.total:.2f} ms: {cycles:,} cycles at "
            f"{target.clock_text(site.compiled.hw.config_hash)}; CPU and crossings at the rates "
            "of the board file, without reading and drawing)"
        )
    if drawn is not None:
        console.say(f"drawn: {printable(str(drawn))}")
    if site.json is not None:
        summary = {
            "pictures": len(rows),
            "frames_per_second": rate,
            "board_frames_per_second": predicted,
            "wrong_pictures": wrong if site.checked else None,
        }
        site.json.write(rows, {**site.conditions, "task": task}, summary=summary)
    if wrong:
        text = f"the outputs of {counted(wrong, 'picture')} differ from the reference"
        application.fail_wrong(text, site.blame)
    if site.checked:
        console.say(f"outputs: bit-exact to the reference in {counted(len(rows), 'picture')}")


def _frames(
    network: PictureNetwork, pictures: Pictures, where: str, *, quiet: bool
) -> Iterator[Frame]:
    """Frames as they are looked at; an image of a folder that cannot be read ends nothing."""
    from tilewright.host.vision.pictures import image_files

    source, failed = pictures.source, None
    files = image_files(source) if isinstance(source, Path) and source.is_dir() else []
    looked: Iterator[Frame] = network.watch(source)
    with fields_named({"pictures": "--input", "camera": "--camera"}):
        for number in itertools.count(1):
            if pictures.frames and number > pictures.frames:
                break
            with progress(f"picture {number} on {where}", quiet=quiet):
                try:
                    if not files:
                        frame = next(looked, None)
                    elif number <= len(files):
                        frame = network.see(files[number - 1])
                    else:
                        frame = None
                except WorkloadError as error:
                    if not files:
                        raise
                    application.say(f"error: {printable(str(error))}", err=True)
                    failed = error
                    continue
            if frame is None:
                break
            yield frame
    if failed is not None:
        raise failed


def _row(frame: Frame, place: Path | None) -> dict[str, Any]:
    return {
        "picture": frame.title,
        "found": [each.to_mapping() for each in frame.seen.found],
        "cycles": frame.run.cycles,
        "seconds": frame.seconds,
        "drawn": None if place is None else str(place),
    }
