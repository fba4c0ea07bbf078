# SPDX-License-Identifier: Apache-2.0
"""Pictures as a network's input, and where each of its pixels came from."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ToolError, WorkloadError
from tilewright.host.common.extras import install_line
from tilewright.host.vision.names import Fit

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]

IMAGE_SUFFIXES: Final = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".webp"})
VIDEO_SUFFIXES: Final = frozenset({".avi", ".mkv", ".mov", ".mp4", ".webm"})
MAX_IMAGE_PIXELS: Final = 2**26
_MOST_CAMERAS: Final = 1000
_BAR: Final = 114
"""Grey of the bars of a letterbox, as detectors are trained with (YOLOv5, Ultralytics, 2020)."""


@dataclass(frozen=True, kw_only=True)
class Framing:
    """Where an input's pixels lie in the picture: at ``origin + step * pixel``, each (x, y)."""

    origin: tuple[float, float]
    step: tuple[float, float]
    size: tuple[int, int]  # of the picture: columns, rows

    def in_picture(self, points: Array) -> Array:
        """Points (..., 2) of the input, (x, y), as points of the picture, inside its edges."""
        placed = np.asarray(self.origin) + np.asarray(self.step) * np.asarray(points, np.float64)
        inside: Array = np.clip(placed, 0, self.size)
        return inside


@dataclass(frozen=True, kw_only=True)
class InputSize:
    """An input that takes pictures."""

    batch: int
    channels: int
    rows: int
    columns: int
    last: bool  # channels are the last axis, as TensorFlow Lite has them

    @classmethod
    def of(cls, shape: Sequence[int]) -> InputSize | None:
        """The size of an input; None: it takes no pictures."""
        if len(shape) != 4:
            return None
        for last, (channels, rows, columns) in enumerate(
            (shape[1:], (shape[3], shape[1], shape[2]))
        ):
            if channels in {1, 3}:
                return cls(
                    batch=shape[0], channels=channels, rows=rows, columns=columns, last=bool(last)
                )
        return None


def read_picture(file: Path) -> Image:
    """A picture from a file, upright.

    Raises:
        ToolError: Pillow is missing.
        WorkloadError: the file cannot be read, or is too large.
    """
    try:
        from PIL import Image, ImageOps  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise ToolError("reading images needs Pillow", remedy=install_line("network")) from error
    try:
        if not file.is_file():
            raise ValueError("it is no file")
        with Image.open(file) as image:
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise ValueError(f"more than {MAX_IMAGE_PIXELS} pixels")
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
                return Image.fromarray(np.uint8(np.asarray(upright, np.float64) / 257 + 0.5))
            return upright.convert("L" if upright.mode in {"1", "L"} else "RGB")
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise WorkloadError(
            f"must be an image that can be read ({error})",
            field=str(file),
            remedy="convert it to PNG, or take it out of the folder",
        ) from error


def frame(picture: Image, rows: int, columns: int, fit: Fit) -> tuple[Image, Framing]:
    """A picture in the size of an input, and where its pixels came from."""
    wide, high = picture.size
    if fit is Fit.STRETCH:
        step = wide / columns, high / rows
        scaled = picture.resize((columns, rows))
        return scaled, Framing(origin=(0.0, 0.0), step=step, size=picture.size)
    choose = max if fit is Fit.CROP else min
    scale = choose(rows / high, columns / wide)
    across, down = max(round(wide * scale), 1), max(round(high * scale), 1)
    if fit is Fit.CROP:
        across, down = max(across, columns), max(down, rows)
    step = wide / across, high / down
    left, top = int((columns - across) / 2), int((rows - down) / 2)
    origin = -left * step[0], -top * step[1]
    framing = Framing(origin=origin, step=step, size=picture.size)
    if fit is Fit.CROP:
        # only the middle is scaled: the whole of a narrow image would be enormous
        box = (*origin, origin[0] + columns * step[0], origin[1] + rows * step[1])
        return picture.resize((columns, rows), box=box), framing
    from PIL import Image  # noqa: PLC0415  (optional)

    framed = Image.new(picture.mode, (columns, rows), (_BAR,) * len(picture.getbands()))
    framed.paste(picture.resize((across, down)), (left, top))
    return framed, framing


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How pictures become samples: (picture in 0..1 - mean) / std, by channel, framed."""

    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    fit: str = Fit.CROP

    def __post_init__(self) -> None:
        """Validate."""
        for name, values, rule in (
            ("mean", self.mean, "must be finite"),
            ("std", self.std, "must be finite and above 0"),
        ):
            if not np.isfinite(values).all() or (name == "std" and not min(values) > 0):
                raise WorkloadError(
                    rule,
                    field=f"calibration.{name}",
                    value=tuple(values),
                    remedy="give one number per channel, such as that of the training images",
                )

    def sample(self, picture: Image, size: InputSize, dtype: str) -> tuple[Array, Framing]:
        """A picture as one sample of an input; uint8 takes the bytes as they are.

        Raises:
            WorkloadError: mean or standard deviation are of other channels.
        """
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        for name, values in (("mean", mean), ("std", std)):
            if values.size not in (1, size.channels):
                raise WorkloadError(
                    f"must have one value or {size.channels}",
                    field=f"calibration.{name}",
                    value=values.tolist(),
                    remedy="give one number per channel, or one for all",
                )
        plain = picture.convert("RGB" if size.channels == 3 else "L")
        framed, framing = frame(plain, size.rows, size.columns, Fit(self.fit))
        pixels = np.asarray(framed).reshape(size.rows, size.columns, size.channels)
        if dtype != "uint8":
            pixels = (pixels.astype(np.float32) / 255 - mean) / std
        return pixels if size.last else pixels.transpose(2, 0, 1), framing


def image_files(path: Path) -> list[Path]:
    """The images that a path names: itself, or those in a folder, sorted by name."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if is_image(file)]


def is_image(path: Path) -> bool:
    """Whether a file's name is that of an image."""
    return path.suffix.lower() in IMAGE_SUFFIXES


def has_pictures(path: Path) -> bool:
    """Whether a path is an image, a video or a folder."""
    return is_image(path) or path.suffix.lower() in VIDEO_SUFFIXES or path.is_dir()


def pictures_of(source: Path | int) -> Iterator[tuple[str, Image]]:
    """Pictures with their titles: an image, those of a folder, of a video, or of a camera.

    Args:
        source: a file or folder, or the number of a camera.

    Raises:
        WorkloadError: there is no picture, or one cannot be read.
        ToolError: OpenCV is missing, for a video or a camera.
    """
    if isinstance(source, int) and not 0 <= source < _MOST_CAMERAS:
        raise WorkloadError(
            f"must be the number of a camera, below {_MOST_CAMERAS}",
            field="camera",
            value=source,
            remedy="the first camera is 0",
        )
    if isinstance(source, int) or source.suffix.lower() in VIDEO_SUFFIXES:
        yield from _captured(source)
        return
    files = image_files(source)
    if not files:
        raise WorkloadError(
            "must be an image, a video or a folder of images",
            field="pictures",
            value=str(source),
            remedy=f"images end in {', '.join(sorted(IMAGE_SUFFIXES))}, "
            f"videos in {', '.join(sorted(VIDEO_SUFFIXES))}",
        )
    for file in files:
        yield file.name, read_picture(file)


def _captured(source: Path | int) -> Iterator[tuple[str, Image]]:
    """Frames of a camera or a video."""
    from PIL import Image  # noqa: PLC0415  (optional)

    cv2 = load_opencv("cameras and videos need OpenCV")
    capture = cv2.VideoCapture(source if isinstance(source, int) else str(source))
    try:
        number = 0
        while capture.isOpened():
            seen, pixels = capture.read()
            if not seen:
                break
            yield f"frame {number}", Image.fromarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))
            number += 1
        if not number:
            raise WorkloadError(
                "gives no frame",
                field="camera" if isinstance(source, int) else str(source),
                value=source if isinstance(source, int) else None,
                remedy="check the number and who else has the camera open"
                if isinstance(source, int)
                else "check it with a player, or convert it to MP4",
            )
    finally:
        capture.release()


def load_opencv(need: str) -> Any:
    """The module ``cv2``; a `ToolError` says what needs it where it is missing."""
    os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")  # errors are told by who calls it
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise ToolError(need, remedy=install_line("vision")) from error
