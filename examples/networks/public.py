# SPDX-License-Identifier: Apache-2.0
"""Trained networks that ship inside Python packages, as ONNX models of fixed shape.

Nothing is downloaded: the files lie in ``rapidocr-onnxruntime`` (text, Apache-2.0) and
``facenet-pytorch`` (faces, MIT), which the project's environment has, and in ``magika`` (kinds of
files, Apache-2.0, wheels for some platforms only) and ``nudenet`` (bodies, AGPL-3.0), which it has
not. They ask for others that are not needed here: ``pip install --no-deps magika==1.0.2
nudenet==3.4.2``.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

import tilewright as tw

VERSIONS: Mapping[str, str] = {
    "rapidocr_onnxruntime": "rapidocr-onnxruntime==1.4.4",
    "facenet_pytorch": "facenet-pytorch==2.6.0",
    "magika": "magika==1.0.2",
    "nudenet": "nudenet==3.4.2",
}
"""What to install, by package."""

TEXT_ROWS = 48
"""Height of a line of text, as classifier and recogniser take it."""
ANGLE_COLUMNS = 192
RECOGNISER_COLUMNS = 320
DETECTOR_SIZE = (192, 384)
"""Rows and columns of a page, as the detector takes it here."""
BODY_PIXELS = 320
"""Side of an image, as the detector of bodies takes it."""
FILE_ENDS = 1024
"""Bytes of a file's beginning and end that magika looks at."""
FILE_BLOCK = 4096
"""Bytes of either end whose blanks magika leaves out first."""


@dataclass(frozen=True, kw_only=True)
class PublicNetwork:
    """A trained network of a package, with one input."""

    # raises `tw.TilewrightError` if the package is not installed
    load: Callable[[], onnx.ModelProto]
    package: str
    input_name: str
    input_shape: tuple[int, ...]
    input_type: str = "float32"


def package_file(package: str, name: str) -> Path:
    """A file of an installed package, which is not imported; `TilewrightError` if there is none."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        if (path := Path(folder) / name).is_file():
            return path
    raise tw.TilewrightError(
        f"needs {name} of the package {VERSIONS[package]}",
        remedy=f"pip install --no-deps {VERSIONS[package]}",
    )


# -- text: PP-OCR (Du et al., PP-OCR: A Practical Ultra Lightweight OCR System, 2020) -----------


def _text_model(file: str, columns: int, rows: int = TEXT_ROWS) -> onnx.ModelProto:
    return _of_shape("rapidocr_onnxruntime", f"models/{file}", (1, 3, rows, columns))


def _of_shape(package: str, file: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model with one input, which is given a shape."""
    model = onnx.load(package_file(package, file))
    (given,) = model.graph.input
    for axis, size in zip(given.type.tensor_type.shape.dim, shape, strict=True):
        axis.dim_value = size
    return model


def angle_classifier() -> onnx.ModelProto:
    """Which way up is a line? ``x`` (1, 3, 48, 192) -> probabilities (1, 2) of 0 and 180 degrees.

    MobileNet-v3 in small: depthwise convolutions, hard-swish, squeeze-and-excite.
    """
    return _text_model("ch_ppocr_mobile_v2.0_cls_infer.onnx", ANGLE_COLUMNS)


def text_recogniser() -> onnx.ModelProto:
    """What does a line say? ``x`` (1, 3, 48, 320) -> probabilities (1, 40, characters).

    Convolutions, then two Transformer layers. `read_text` turns the result into text.
    """
    return _text_model("ch_PP-OCRv4_rec_infer.onnx", RECOGNISER_COLUMNS)


def text_detector() -> onnx.ModelProto:
    """Where is text? ``x`` (1, 3, 192, 384) -> probability of each pixel (1, 1, 192, 384).

    MobileNet-v3 in small with a feature pyramid, and two transposed convolutions.
    """
    rows, columns = DETECTOR_SIZE
    return _text_model("ch_PP-OCRv4_det_infer.onnx", columns, rows)


def page_pixels(image: Image.Image) -> np.ndarray:
    """An image as `text_detector` takes it, float32 (1, 3, rows, columns)."""
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    pixels = (np.asarray(image.convert("RGB"), np.float32) / 255 - mean) / deviation
    return pixels.astype(np.float32).transpose(2, 0, 1)[None]


def recogniser_characters() -> tuple[str, ...]:
    """The characters of `text_recogniser` by class; class 0 stands for none."""
    path = package_file("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")
    properties = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    return ("", *properties["character"].splitlines(), " ")


def read_text(probabilities: np.ndarray, characters: tuple[str, ...]) -> str:
    """The text of a line by best path: repeated classes count once, class 0 separates.

    Args:
        probabilities: (1, steps, characters).
        characters: by class, the first empty.
    """
    best = probabilities[0].argmax(axis=1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return "".join(characters[index] for index in best[changed])


def text_line(image: Image.Image, columns: int) -> np.ndarray:
    """An image of a line, float32 (1, 3, 48, columns) in -1..1, filled with 0 on the right."""
    width = min(columns, -(-TEXT_ROWS * image.width // image.height))
    pixels = image.convert("RGB").resize((width, TEXT_ROWS), Image.Resampling.BILINEAR)
    line = np.zeros((1, 3, TEXT_ROWS, columns), np.float32)
    line[0, :, :, :width] = np.asarray(pixels, np.float32).transpose(2, 0, 1) / 127.5 - 1
    return line


# -- faces: MTCNN (Zhang et al., Joint Face Detection and Alignment, 2016, figure 2) ------------


@dataclass(frozen=True, kw_only=True)
class FaceStage:
    """One of the three networks of MTCNN."""

    size: int  # rows and columns of its input
    # channels, kernel, and the window of the pooling behind it (0: none)
    convolutions: tuple[tuple[int, int, int], ...]
    dense: int  # width; 0: none
    heads: tuple[int, ...]  # width of each output: no face and face, box, landmarks


FACE_STAGES: Mapping[str, FaceStage] = {
    "pnet": FaceStage(
        size=12, convolutions=((10, 3, 2), (16, 3, 0), (32, 3, 0)), dense=0, heads=(2, 4)
    ),
    "rnet": FaceStage(
        size=24, convolutions=((28, 3, 3), (48, 3, 3), (64, 2, 0)), dense=128, heads=(2, 4)
    ),
    "onet": FaceStage(
        size=48,
        convolutions=((32, 3, 3), (64, 3, 3), (64, 3, 2), (128, 2, 0)),
        dense=256,
        heads=(2, 4, 10),
    ),
}


class FaceNetwork(nn.Module):
    """A stage of MTCNN, (N, 3, S, S) -> probabilities (N, 2) of no face and face, and boxes (N, 4).

    Parameters are named as in the package's files.
    """

    def __init__(self, stage: FaceStage) -> None:
        super().__init__()
        self.stage = stage
        channels_in, size = 3, stage.size
        for number, (channels, kernel, pool) in enumerate(stage.convolutions, 1):
            self.add_module(f"conv{number}", nn.Conv2d(channels_in, channels, kernel))
            self.add_module(f"prelu{number}", nn.PReLU(channels))
            size -= kernel - 1
            size = -(-(size - pool) // 2) + 1 if pool else size
            channels_in = channels
        number = len(stage.convolutions) + 1
        if stage.dense:
            self.add_module(f"dense{number}", nn.Linear(channels_in * size * size, stage.dense))
            self.add_module(f"prelu{number}", nn.PReLU(stage.dense))
            number += 1
        for index, width in enumerate(stage.heads, 1):
            head = (
                nn.Linear(stage.dense, width) if stage.dense else nn.Conv2d(channels_in, width, 1)
            )
            kind = "dense" if stage.dense else "conv"
            self.add_module(f"{kind}{number}_{index}", head)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Probabilities, boxes and, of the last stage, landmarks (N, 10)."""
        number = 0
        for number, (_, _, pool) in enumerate(self.stage.convolutions, 1):
            x = self.get_submodule(f"prelu{number}")(self.get_submodule(f"conv{number}")(x))
            if pool:
                x = functional.max_pool2d(x, pool, 2, ceil_mode=True)
        kind = "conv"
        number += 1
        if self.stage.dense:
            x = x.permute(0, 3, 2, 1).flatten(1)  # the order in which the weights were trained
            x = self.get_submodule(f"prelu{number}")(self.get_submodule(f"dense{number}")(x))
            kind = "dense"
            number += 1
        heads = [
            self.get_submodule(f"{kind}{number}_{index}")(x).flatten(1)
            for index, _ in enumerate(self.stage.heads, 1)
        ]
        return (heads[0].softmax(1), *heads[1:])


def face_network(name: str) -> onnx.ModelProto:
    """A stage of MTCNN (``pnet``, ``rnet``, ``onet``) with its trained weights, input ``x``."""
    stage = FACE_STAGES[name]
    network = FaceNetwork(stage)
    path = package_file("facenet_pytorch", f"data/{name}.pt")
    network.load_state_dict(torch.load(path, weights_only=True))
    example = torch.zeros((1, 3, stage.size, stage.size))
    program = torch.onnx.export(
        network.eval(), (example,), dynamo=True, external_data=False, verbose=False
    )
    assert program is not None  # it is, with dynamo
    return program.model_proto


def face_crop(image: Image.Image, size: int) -> np.ndarray:
    """A part of an image as MTCNN takes it, float32 (1, 3, size, size) in -1..1."""
    pixels = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return ((np.asarray(pixels, np.float32) - 127.5) / 128).transpose(2, 0, 1)[None]


# -- bodies: NudeNet (YOLOv8n), and kinds of files: magika (Fratantonio et al., 2024) -------------


def body_detector() -> onnx.ModelProto:
    """``images`` (1, 3, 320, 320) in 0..1 -> boxes and scores of 18 classes, (1, 22, 2100)."""
    return _of_shape("nudenet", "320n.onnx", (1, 3, BODY_PIXELS, BODY_PIXELS))


def best_face(output: np.ndarray, threshold: float = 0.2) -> tuple[float, ...]:
    """Centre, width and height of the best face of `body_detector`; nothing below a score."""
    scores = output[0][[4 + 1, 4 + 12]].max(axis=0)  # FACE_FEMALE, FACE_MALE
    best = scores.argmax()
    return tuple(map(float, output[0][:4, best])) if scores[best] >= threshold else ()


def file_classifier() -> onnx.ModelProto:
    """``bytes`` int32 (1, 2048) -> probabilities (1, 214) of `file_kinds`."""
    return _of_shape("magika", f"{_FILE_MODEL}/model.onnx", (1, 2 * FILE_ENDS))


_FILE_MODEL = "models/standard_v3_3"


def file_kinds() -> tuple[str, ...]:
    """The classes of `file_classifier`."""
    text = package_file("magika", f"{_FILE_MODEL}/config.min.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["target_labels_space"])


def file_bytes(content: bytes) -> np.ndarray:
    """A file as `file_classifier` takes it, int32 (1, 2048): its ends without blanks; 256 fills."""
    blank = 256
    first = content[:FILE_BLOCK].lstrip()[:FILE_ENDS]
    last = content[-FILE_BLOCK:].rstrip()[-FILE_ENDS:]
    taken = np.full((1, 2 * FILE_ENDS), blank, np.int32)
    taken[0, : len(first)] = list(first)
    taken[0, 2 * FILE_ENDS - len(last) :] = list(last)
    return taken


def _face(name: str) -> PublicNetwork:
    size = FACE_STAGES[name].size
    return PublicNetwork(
        load=lambda: face_network(name),
        package="facenet_pytorch",
        input_name="x",
        input_shape=(1, 3, size, size),
    )


PUBLIC_NETWORKS: Mapping[str, PublicNetwork] = {
    "angle-classifier": PublicNetwork(
        load=angle_classifier,
        package="rapidocr_onnxruntime",
        input_name="x",
        input_shape=(1, 3, TEXT_ROWS, ANGLE_COLUMNS),
    ),
    "text-recogniser": PublicNetwork(
        load=text_recogniser,
        package="rapidocr_onnxruntime",
        input_name="x",
        input_shape=(1, 3, TEXT_ROWS, RECOGNISER_COLUMNS),
    ),
    "text-detector": PublicNetwork(
        load=text_detector,
        package="rapidocr_onnxruntime",
        input_name="x",
        input_shape=(1, 3, *DETECTOR_SIZE),
    ),
    **{name: _face(name) for name in FACE_STAGES},
    "body-detector": PublicNetwork(
        load=body_detector,
        package="nudenet",
        input_name="images",
        input_shape=(1, 3, BODY_PIXELS, BODY_PIXELS),
    ),
    "file-classifier": PublicNetwork(
        load=file_classifier,
        package="magika",
        input_name="bytes",
        input_shape=(1, 2 * FILE_ENDS),
        input_type="int32",
    ),
}
