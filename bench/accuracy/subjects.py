# SPDX-License-Identifier: Apache-2.0
"""Photographs with known places of words and of a face, for the detectors of `bench.accuracy`.

Text: scikit-image's ``page``, moved, scaled, darkened and inverted, each word at its known place;
photographs without text. Faces: scikit-image's ``astronaut``, likewise; photographs without people.
Calibration takes other photographs: ``text``, and faces of ``lfw_subset``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from PIL import Image

from tilewright.bench.accuracy.data import (
    PAGE,
    PHOTOGRAPHS,
    SEED,
    Answer,
    Array,
    Subject,
    angle_classifier,
    digits,
    faces,
    file_classifier,
    photographs,
    text_recogniser,
)
from tilewright.host.common.clone_parts import clone_part

clone_part("examples/networks", "networks")
_public = import_module("networks.public")

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""

VIEWS = 24
"""Of the page, and half as many of photographs without text."""
FACE_VIEWS = 150
"""Of the astronaut, and half as many of photographs without people."""
KNOWN_VIEWS = 12
"""For calibration, of each kind."""
WITHOUT_TEXT = tuple(name for name in PHOTOGRAPHS if name != "page")
CELL = 48
"""Side of the squares in which a photograph without text is judged."""
TEXT = 0.3
"""Probability from which a pixel is text, as in the package."""
ASTRONAUT_FACE: Box = (174, 70, 274, 198)
"""Of 512 x 512 pixels, by hand."""
OVERLAP = 0.5
"""Intersection over union from which a box is right."""


def text_detector() -> Subject:
    """Words of the page, and squares of photographs without text."""
    rng = np.random.default_rng(SEED)
    rows, columns = _public.DETECTOR_SIZE
    page = Image.fromarray(photographs.page())
    images, truths = [], []
    for view, scale, left, top in views(page, (columns, rows), (0.8, 1.2), VIEWS, rng):
        words = [
            (
                left + scale * w.left,
                top + scale * w.top,
                left + scale * w.right,
                top + scale * w.bottom,
            )
            for line in PAGE
            for w in line
        ]
        inside = [w for w in words if min(w) >= 0 and w[2] < columns and w[3] < rows]
        images.append(view)
        truths.append(inside)
    for view in scenes(WITHOUT_TEXT, (columns, rows), VIEWS // 2, rng):
        images.append(view)
        truths.append([])
    other = Image.fromarray(photographs.text())
    known = [view for view, *_ in views(other, (columns, rows), (0.6, 1.0), KNOWN_VIEWS, rng)]
    known += scenes(WITHOUT_TEXT, (columns, rows), KNOWN_VIEWS, rng)
    return Subject(
        name="text-detector",
        source="rapidocr-onnxruntime 1.4.4, ch_PP-OCRv4_det; scikit-image's page and photographs",
        load=_public.PUBLIC_NETWORKS["text-detector"].load,
        calibration=np.concatenate([_public.page_pixels(view) for view in known]),
        images=np.concatenate([_public.page_pixels(view) for view in images]),
        truths=truths,
        answer=lambda output: np.packbits(output[0, 0] > TEXT).tobytes(),
        credit=text_found,
        unit="words and squares",
    )


def text_found(answer: Answer, words: list[Box]) -> tuple[int, int]:
    """A point for each word whose middle third is text; without words, for each empty square."""
    assert isinstance(answer, bytes)
    rows, columns = _public.DETECTOR_SIZE
    mask = np.unpackbits(np.frombuffer(answer, np.uint8)).reshape(rows, columns).astype(bool)
    if not words:
        cells = mask.reshape(rows // CELL, CELL, columns // CELL, CELL).any(axis=(1, 3))
        return int((~cells).sum()), cells.size
    found = 0
    for left, top, right, bottom in words:
        width, height = (right - left) / 3, (bottom - top) / 3
        middle = mask[
            int(top + height) : int(bottom - height) + 1, int(left + width) : int(right - width) + 1
        ]
        found += bool(middle.mean() > 1 / 2)
    return found, len(words)


def body_detector() -> Subject:
    """The astronaut's face, and photographs without people."""
    rng = np.random.default_rng(SEED)
    side = _public.BODY_PIXELS
    size = (side, side)
    astronaut = Image.fromarray(photographs.astronaut())
    images, truths = [], []
    for view, scale, left, top in views(astronaut, size, (0.4, 0.8), FACE_VIEWS, rng):
        box = tuple(
            start + scale * edge
            for start, edge in zip((left, top, left, top), ASTRONAUT_FACE, strict=True)
        )
        if min(box) >= 0 and max(box) < side:
            images.append(view)
            truths.append(box)
    for view in scenes(WITHOUT_TEXT, size, FACE_VIEWS // 2, rng):
        images.append(view)
        truths.append(())
    faces = [Image.fromarray(np.uint8(np.rint(255 * face))) for face in photographs.lfw_subset()]
    scaled = [face.resize((8 * face.width, 8 * face.height)) for face in faces[:KNOWN_VIEWS]]
    known = [view for face in scaled for view, *_ in views(face, size, (1.0, 1.6), 1, rng)]
    known += scenes(WITHOUT_TEXT, size, KNOWN_VIEWS, rng)
    return Subject(
        name="body-detector",
        source="nudenet 3.4.2, 320n; scikit-image's astronaut and photographs",
        load=_public.PUBLIC_NETWORKS["body-detector"].load,
        calibration=np.concatenate([body_pixels(view) for view in known]),
        images=np.concatenate([body_pixels(view) for view in images]),
        truths=truths,
        answer=lambda output: " ".join(f"{edge:.1f}" for edge in _public.best_face(output)),
        credit=face_found,
        unit="images",
    )


def body_pixels(image: Image.Image) -> Array:
    """An image as the detector of bodies takes it."""
    return (np.asarray(image.convert("RGB"), np.float32) / 255).transpose(2, 0, 1)[None]


def face_found(answer: Answer, truth: Box | tuple[()]) -> tuple[int, int]:
    """A point for a face at its place, or for none where there is none."""
    found = [float(number) for number in str(answer).split()]
    if not found or not truth:
        return int(not found and not truth), 1
    x, y, width, height = found
    box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    shared = max(min(box[2], truth[2]) - max(box[0], truth[0]), 0) * max(
        min(box[3], truth[3]) - max(box[1], truth[1]), 0
    )
    whole = width * height + (truth[2] - truth[0]) * (truth[3] - truth[1]) - shared
    return int(shared / whole >= OVERLAP), 1


def views(
    picture: Image.Image,
    size: tuple[int, int],
    scales: tuple[float, float],
    count: int,
    rng: np.random.Generator,
) -> Iterator[tuple[Image.Image, float, int, int]]:
    """A picture on a ground of its mean: scaled, moved, of other contrast, half inverted."""
    colour = picture.convert("RGB")
    ground = tuple(int(level) for level in np.asarray(colour).mean(axis=(0, 1)))
    for number in range(count):
        scale = float(rng.uniform(*scales))
        extent = (round(scale * colour.width), round(scale * colour.height))
        left, top = (
            int(rng.integers(min(room, 0), max(room, 0), endpoint=True))
            for room in (size[0] - extent[0], size[1] - extent[1])
        )
        view = Image.new("RGB", size, ground)
        view.paste(colour.resize(extent, Image.Resampling.BILINEAR), (left, top))
        yield (
            altered(view, inverted=picture.mode == "L" and number % 2 == 1, rng=rng),
            scale,
            left,
            top,
        )


def scenes(
    names: tuple[str, ...], size: tuple[int, int], count: int, rng: np.random.Generator
) -> list[Image.Image]:
    """Parts of photographs."""
    found = []
    for number in range(count):
        picture = Image.fromarray(getattr(photographs, names[number % len(names)])()).convert("RGB")
        share = min(picture.width / size[0], picture.height / size[1]) * rng.uniform(0.5, 1.0)
        width, height = int(size[0] * share), int(size[1] * share)
        left = int(rng.integers(picture.width - width, endpoint=True))
        top = int(rng.integers(picture.height - height, endpoint=True))
        part = picture.crop((left, top, left + width, top + height)).resize(size)
        found.append(altered(part, inverted=False, rng=rng))
    return found


def altered(image: Image.Image, *, inverted: bool, rng: np.random.Generator) -> Image.Image:
    """An image of another contrast and brightness, or its negative."""
    pixels = np.asarray(image, np.float64)
    pixels = (pixels - 128) * rng.uniform(0.6, 1.1) + 128 + rng.uniform(-20, 20)
    pixels = np.clip(pixels, 0, 255)
    return Image.fromarray(np.uint8(np.rint(255 - pixels if inverted else pixels)))


SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "digits": digits,
    "angle-classifier": angle_classifier,
    "text-recogniser": text_recogniser,
    "text-detector": text_detector,
    "rnet": lambda: faces("rnet"),
    "onet": lambda: faces("onet"),
    "body-detector": body_detector,
    "file-classifier": file_classifier,
}
"""MTCNN's P-net is left out: on 12 x 12 pixels it costs less than a call, and stays on the CPU."""

OPTIONAL: Mapping[str, str] = {"body-detector": "nudenet", "file-classifier": "magika"}
"""Packages that the project's environment does not install, by the network in each."""


def installed() -> list[str]:
    """The networks whose packages this environment has."""
    return [name for name in SUBJECTS if name not in OPTIONAL or find_spec(OPTIONAL[name])]
