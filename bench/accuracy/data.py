# SPDX-License-Identifier: Apache-2.0
"""Real images with known answers for classifiers and readers of `bench.accuracy`.

Text: words of a photographed page of print (scikit-image's ``page``), located and read by hand;
faces: scikit-image's ``lfw_subset``; what is no face: the rest of that set and parts of photographs
without people; digits: scikit-learn's.
Calibration images are never test images.

Files of known kinds for the classifier of files of `bench.accuracy`.

They are those of this interpreter's library and of the packages beside `tilewright`: what their
names end with tells their kind. Which files that are depends on the environment, so the figures
are of one environment.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image
from skimage import data

from tilewright.host.common.clone_parts import clone_part
from tilewright.host.compiler.read.torch_export import export_module

clone_part("examples/networks", "networks")
_public = import_module("networks.public")

ENDINGS: Mapping[str, str] = {
    ".c": "c", ".cmake": "cmake", ".cpp": "cpp", ".css": "css", ".csv": "csv", ".cu": "cpp",
    ".gif": "gif", ".html": "html", ".ini": "ini", ".ipynb": "ipynb", ".java": "java",
    ".js": "javascript", ".json": "json", ".md": "markdown", ".npy": "npy", ".npz": "npz",
    ".onnx": "onnx", ".pdf": "pdf", ".png": "png", ".py": "python", ".pyc": "pythonbytecode",
    ".rs": "rust", ".rst": "rst", ".sh": "shell", ".so": "elf", ".svg": "svg", ".toml": "toml",
    ".ttf": "ttf", ".wav": "wav", ".xml": "xml", ".yaml": "yaml", ".zip": "zip",
}  # fmt: skip
"""The kind of a file by what its name ends with."""
OF_A_KIND = 60
"""Most files of a kind."""
FIRST = 12
"""Of these first files of a kind every `KNOWN`-th is for calibration."""
KNOWN = 4
SMALLEST = 200
"""Bytes of a file that tells anything."""


def file_classifier() -> Subject:
    """Files of the environment by kind, those of least digest of their names first."""
    files, kinds = files_by_kind(), _public.file_kinds()
    known = {path: file_ends(path) for paths in files.values() for path in paths[:FIRST:KNOWN]}
    taken = {ends.tobytes() for ends in known.values()}
    images, truths = [], []
    for kind, paths in files.items():
        for path in paths:
            ends = file_ends(path)
            if ends.tobytes() not in taken:  # files are copied often
                taken.add(ends.tobytes())
                images.append(ends)
                truths.append(kinds.index(kind))
    return Subject(
        name="file-classifier",
        source="magika 1.0.2, standard_v3_3; files of this environment",
        load=_public.PUBLIC_NETWORKS["file-classifier"].load,
        calibration=np.concatenate(list(known.values())),
        images=np.concatenate(images),
        truths=truths,
        answer=most_likely,
        credit=exact,
        unit="files",
    )


def files_by_kind() -> dict[str, list[Path]]:
    """Files of the interpreter's library and of the installed packages."""
    found: dict[str, dict[str, Path]] = {}
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}:
        for path in Path(folder).rglob("*"):
            kind = ENDINGS.get(path.suffix)
            if kind is not None and path.is_file() and path.stat().st_size >= SMALLEST:
                name = path.relative_to(folder).as_posix()
                found.setdefault(kind, {})[hashlib.sha256(name.encode()).hexdigest()] = path
    return {
        kind: [path for _, path in sorted(paths.items())[:OF_A_KIND]]
        for kind, paths in sorted(found.items())
    }


def file_ends(path: Path) -> Array:
    """A file as the classifier takes it, of which only the ends are read."""
    block = _public.FILE_BLOCK
    with path.open("rb") as file:
        first = file.read(block)
        if path.stat().st_size > 2 * block:
            file.seek(-block, os.SEEK_END)
        taken: Array = _public.file_bytes(first + file.read())
    return taken


clone_part("examples/networks", "networks")
_digits = import_module("networks.digits")

photographs: Any = data
"""Functions without types."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word on a page: its text and its box in pixels, ends excluded."""

    text: str
    left: int
    top: int
    right: int
    bottom: int


PAGE_WORDS = """
Region-based 5 12 144 34 | segmentation 149 13 294 35

Let 4 48 26 61 | us 31 52 49 62 | first 54 49 83 63 | determine 89 50 160 63 |
markers 166 50 224 64 | of 229 51 246 64 | the 250 51 276 64 | coins 282 51 318 64 |
and 323 50 350 64 | the 355 49 378 62

background. 4 65 84 82 | These 87 67 129 81 | markers 132 68 189 82 | are 191 71 216 82 |
pixels 219 69 261 85 | that 262 69 294 82 | we 296 71 318 82 | can 319 70 344 81 |
label 347 66 378 80

unambiguously 4 84 104 101 | as 109 88 127 99 | either 132 86 175 100 | object 180 87 225 103 |
or 230 90 248 100 | background. 253 86 337 103 | Here, 343 85 378 98

the 4 99 27 112 | markers 30 102 85 115 | are 87 106 111 116 | found 114 103 155 117 |
at 158 105 175 118 | the 178 104 204 118 | two 206 105 235 119 | extreme 237 106 297 119 |
parts 300 104 336 120 | of 338 102 354 115 | the 355 101 378 114

histogram 5 115 69 133 | of 71 120 87 133 | grey 88 123 120 137 | values: 122 122 172 136

>>> 17 169 38 178 | markers 40 172 88 183 | = 91 176 101 182 | np.zeros_like(coins) 104 176 242 190
"""
"""A paragraph for each line of the page, from top to bottom: text, left, top, right, bottom of each
word. The line that the edge cuts is left out."""


def _word(entry: str) -> Word:
    text, *box = entry.split()
    left, top, right, bottom = map(int, box)
    return Word(text=text, left=left, top=top, right=right, bottom=bottom)


PAGE = tuple(
    tuple(_word(entry) for entry in line.split("|")) for line in PAGE_WORDS.strip().split("\n\n")
)
"""The words of each line."""

CALIBRATION_LINES = frozenset({0, 2})
PHRASE_WORDS = 4
"""Longest run of words that is cut out."""
MARGINS = (0, 1, 2)
"""Pixels around a phrase."""
SHIFTS = (-1, 0, 1)
"""Pixels to the right by which the angle classifier's test phrases are moved."""
CALIBRATION_FACES = 20
"""Of each kind of ``lfw_subset``; the others are test images."""
PHOTOGRAPHS = (
    "brick", "chelsea", "coffee", "grass", "gravel", "hubble_deep_field", "page", "rocket",
)  # fmt: skip
"""Of scikit-image, without people."""
CROPS_PER_PHOTOGRAPH = 40
CROP_PIXELS = (24, 128)
"""Smallest and largest side of a crop."""
SEED = 0
"""Of the places of the crops."""
CALIBRATION_DIGITS = 256


def digits() -> Subject:
    """A small classifier, trained here on scikit-learn's digits."""
    data = _digits.load_digits()
    return Subject(
        name="digits",
        source="trained here in seconds; scikit-learn's _digits.load_digits",
        load=lambda: export_module(_digits.train(data), [data.train_images[:1]]),
        calibration=data.train_images[:CALIBRATION_DIGITS],
        images=data.test_images,
        truths=[int(label) for label in data.test_labels],
        answer=most_likely,
        credit=exact,
        unit="images",
    )


def angle_classifier() -> Subject:
    """Phrases of the page, upright (0) and upside down (1)."""
    known: list[Array] = []
    images: list[Array] = []
    truths: list[Answer] = []
    for line, _, phrase in phrases():
        if line in CALIBRATION_LINES:
            known.extend(
                _public.text_line(image, _public.ANGLE_COLUMNS) for image in both_ways(phrase)
            )
    for line, _, phrase in phrases(SHIFTS):
        if line not in CALIBRATION_LINES:
            images.extend(
                _public.text_line(image, _public.ANGLE_COLUMNS) for image in both_ways(phrase)
            )
            truths.extend((0, 1))
    return Subject(
        name="angle-classifier",
        source="rapidocr-onnxruntime 1.4.4, ch_ppocr_mobile_v2.0_cls; scikit-image's page",
        load=_public.PUBLIC_NETWORKS["angle-classifier"].load,
        calibration=np.concatenate(known),
        images=np.concatenate(images),
        truths=truths,
        answer=most_likely,
        credit=exact,
        unit="images",
    )


def text_recogniser() -> Subject:
    """Phrases of the page that fit the input, and their characters; spaces do not count."""
    characters = _public.recogniser_characters()
    known: list[Array] = []
    images: list[Array] = []
    truths: list[Answer] = []
    for line, text, phrase in phrases():
        if phrase.width * _public.TEXT_ROWS > _public.RECOGNISER_COLUMNS * phrase.height:
            continue
        pixels = _public.text_line(phrase, _public.RECOGNISER_COLUMNS)
        if line in CALIBRATION_LINES:
            known.append(pixels)
        else:
            images.append(pixels)
            truths.append(text)
    return Subject(
        name="text-recogniser",
        source="rapidocr-onnxruntime 1.4.4, ch_PP-OCRv4_rec; scikit-image's page",
        load=_public.PUBLIC_NETWORKS["text-recogniser"].load,
        calibration=np.concatenate(known),
        images=np.concatenate(images),
        truths=truths,
        answer=lambda result: _public.read_text(result, characters),
        credit=spelling,
        unit="characters",
    )


def faces(stage: str) -> Subject:
    """A stage of MTCNN on faces (1), as they are and mirrored, and on other things (0)."""
    size = _public.FACE_STAGES[stage].size
    pictures = [Image.fromarray(np.uint8(np.rint(255 * a))) for a in photographs.lfw_subset()]
    half = len(pictures) // 2
    people, others = pictures[:half], pictures[half:]
    mirrored = [face.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for face in people]
    known = [*people[:CALIBRATION_FACES], *others[:CALIBRATION_FACES]]
    right = [*people[CALIBRATION_FACES:], *mirrored[CALIBRATION_FACES:]]
    wrong = [*others[CALIBRATION_FACES:], *scraps()]
    return Subject(
        name=stage,
        source=f"facenet-pytorch 2.6.0, MTCNN's {stage}; scikit-image's lfw_subset and photographs",
        load=_public.PUBLIC_NETWORKS[stage].load,
        calibration=np.concatenate([_public.face_crop(picture, size) for picture in known]),
        images=np.concatenate([_public.face_crop(picture, size) for picture in (*right, *wrong)]),
        truths=[1] * len(right) + [0] * len(wrong),
        answer=most_likely,
        credit=exact,
        unit="images",
    )


def scraps() -> Iterator[Image.Image]:
    """Square parts of photographs without people, at random places and sizes."""
    rng = np.random.default_rng(SEED)
    for name in PHOTOGRAPHS:
        picture = Image.fromarray(getattr(photographs, name)())
        for _ in range(CROPS_PER_PHOTOGRAPH):
            side = int(rng.integers(*CROP_PIXELS, endpoint=True))
            left = int(rng.integers(picture.width - side, endpoint=True))
            top = int(rng.integers(picture.height - side, endpoint=True))
            yield picture.crop((left, top, left + side, top + side))


def phrases(shifts: Sequence[int] = (0,)) -> Iterator[tuple[int, str, Image.Image]]:
    """Runs of 1 to `PHRASE_WORDS` words of the page: number of the line, text, image."""
    page = Image.fromarray(photographs.page())
    for shift, margin in product(shifts, MARGINS):
        for number, line in enumerate(PAGE):
            for count in range(1, PHRASE_WORDS + 1):
                for first in range(len(line) - count + 1):
                    words = line[first : first + count]
                    box = (
                        max(min(word.left for word in words) - margin + shift, 0),
                        max(min(word.top for word in words) - margin, 0),
                        min(max(word.right for word in words) + margin + shift, page.width),
                        min(max(word.bottom for word in words) + margin, page.height),
                    )
                    yield number, " ".join(word.text for word in words), page.crop(box)


def both_ways(phrase: Image.Image) -> tuple[Image.Image, Image.Image]:
    """An image upright and upside down."""
    return phrase, phrase.transpose(Image.Transpose.ROTATE_180)


def spelling(answer: Answer, truth: Answer) -> tuple[int, int]:
    """A point for each character of the truth, less one for each insertion, deletion or change."""
    found, right = (str(text).replace(" ", "") for text in (answer, truth))
    return max(len(right) - edits(found, right), 0), len(right)


def edits(first: str, second: str) -> int:
    """The least number of insertions, deletions and changes that turn one text into another."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


Array = np.ndarray[Any, Any]
Answer = int | str | bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A trained network and images to judge it by."""

    name: str  # label
    source: str  # where network and images come from
    load: Callable[[], onnx.ModelProto]  # makes the float model
    calibration: Array  # inputs of any type, the first axis counts them
    images: Array  # test inputs, likewise M of them
    truths: Sequence[Any]  # the M right answers
    answer: Callable[[Array], Answer]  # a network's answer, from its first output for one image
    # right and all points of an answer, given the truth
    credit: Callable[[Answer, Any], tuple[int, int]]
    unit: str = "images"  # what a point is


def most_likely(result: Array) -> int:
    """The class of the largest value."""
    return int(result.argmax())


def exact(answer: Answer, truth: Answer) -> tuple[int, int]:
    """One point for the right answer."""
    return int(answer == truth), 1
