# SPDX-License-Identifier: Apache-2.0
"""Draws what was seen onto the picture."""

from __future__ import annotations

import colorsys
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tilewright.host.common.printable import printable
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.vision.names import Task
from tilewright.host.vision.tasks import Found, Seen

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

Colour = tuple[int, int, int]

_GOLDEN: Final = 0.618033988749895
"""Turns of the colour circle from a class to the next, which keeps neighbours apart."""
_OPACITY: Final = 0.45
_SURE: Final = 0.3  # from which a keypoint is drawn

BONES: Final = (
    (0, 1), (0, 2), (1, 3), (2, 4), (5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12),
    (11, 12), (11, 13), (13, 15), (12, 14), (14, 16),
)  # fmt: skip
"""Pairs of COCO's 17 keypoints of a person that are joined (Lin et al., 2014)."""
_JOINTS: Final = 17


def draw(picture: Image, seen: Seen) -> Image:
    """A copy of a picture with boxes, areas, keypoints and labels."""
    from PIL import ImageDraw as Drawing  # noqa: PLC0415  (optional)
    from PIL import ImageFont  # noqa: PLC0415  (optional)

    drawn = _with_masks(picture.convert("RGB"), seen)
    pen = Drawing.Draw(drawn)
    unit = max(round(max(drawn.size) / 320), 1)
    font = ImageFont.load_default(max(10 * unit // 2 + 5, 11))
    for each in reversed(seen.found):
        colour = colour_of(each.number)
        if each.box:
            pen.rectangle(each.box, outline=colour, width=unit)
        _draw_points(pen, each, unit)
    lines = 0
    for each in seen.found:
        text = f"{printable(each.label, limit=40)} {each.score:.2f}"
        if each.box:
            _write(pen, (each.box[0], each.box[1]), text, colour_of(each.number), font, unit)
        elif seen.task is not Task.KEYPOINTS:
            height = pen.textbbox((0, 0), text, font=font)[3] + 2 * unit
            _write(pen, (0, (lines + 1) * height), text, colour_of(each.number), font, unit)
            lines += 1
    return drawn


def png_of(title: str) -> str:
    """The name of the file that a picture is drawn into, among others of a folder."""
    plain = re.sub(r"[\x00-\x1f\x7f%/]", lambda found: f"%{ord(found[0]):02X}", title)
    return f"{plain}.png"


def save(picture: Image, path: Path) -> None:
    """Write a picture as a PNG that a later run may replace, whole or not at all."""
    from PIL.PngImagePlugin import PngInfo  # noqa: PLC0415  (optional)

    told = PngInfo()
    told.add_text("Software", MARK)
    content = io.BytesIO()
    picture.save(content, "PNG", pnginfo=told)
    write_whole(path, content.getvalue())


def colour_of(number: int) -> Colour:
    """The colour of a class."""
    red, green, blue = colorsys.hsv_to_rgb((number * _GOLDEN) % 1, 0.85, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)


def _with_masks(picture: Image, seen: Seen) -> Image:
    masks = [each for each in seen.found if each.mask is not None]
    if not masks:
        return picture
    from PIL import Image as Images  # noqa: PLC0415  (optional)

    pixels = np.asarray(picture, np.float32).copy()
    for each in masks:
        inside = each.mask
        if inside is not None and (each.box or each.number):  # an area 0 is background
            colour = np.array(colour_of(each.number), np.float32)
            (x, y), (rows, columns) = each.corner, inside.shape
            part = pixels[y : y + rows, x : x + columns]
            part[inside] += _OPACITY * (colour - part[inside])
    return Images.fromarray(pixels.round().astype(np.uint8))


def _draw_points(pen: ImageDraw, each: Found, unit: int) -> None:
    colour, points = colour_of(each.number), each.points
    if len(points) == _JOINTS:
        for first, last in BONES:
            (x, y, sure), (to_x, to_y, to_sure) = points[first], points[last]
            if min(sure, to_sure) >= _SURE:
                pen.line((x, y, to_x, to_y), fill=colour, width=unit)
    size = 1.5 * unit
    for x, y, sure in points:
        if sure >= _SURE:
            pen.ellipse((x - size, y - size, x + size, y + size), fill=colour, outline="white")


def _write(
    pen: ImageDraw, place: Sequence[float], text: str, colour: Colour, font: Any, unit: int
) -> None:
    """A label above a place, or below it at the upper edge of the picture."""
    _, _, right, bottom = pen.textbbox((0, 0), text, font=font)
    wide, high = right + 2 * unit, bottom + unit
    x, y = place[0], place[1] - high if place[1] >= high else place[1]
    x = max(min(x, pen.im.size[0] - wide), 0)
    pen.rectangle((x, y, x + wide, y + high), fill=colour)
    dark = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] < 140
    pen.text((x + unit, y), text, fill="white" if dark else "black", font=font)
