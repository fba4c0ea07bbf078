# SPDX-License-Identifier: Apache-2.0
"""What detectors give, in the forms that their exporters write, as boxes with scores.

Boxes are (left, top, right, bottom) in pixels of the network's input. C is the number of classes,
and a *cell* a position of a feature map: an input of 640 x 640 has 8,400 at strides 8, 16 and 32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.vision.names import Head

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Boxes before overlapping ones are suppressed."""

    boxes: Array  # (n, 4)
    scores: Array  # (n,)
    classes: Array  # (n,)
    extras: Array  # (n, m): coefficients of masks, or keypoints
    settled: bool = False  # the network suppresses overlapping ones itself


STRIDES: Final = (4, 8, 16, 32, 64, 128)
ANCHORS: Final = (
    (10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326),
)  # fmt: skip
"""Widths and heights in pixels of YOLOv5's anchors, stride by stride (trained on COCO)."""
_ANCHORS_OF_CELL: Final = 3
_LARGEST_SHARE: Final = 2.0
"""Above any sure box in shares of the input, and below any in pixels."""
_SURE: Final = 0.5
_ROUNDING: Final = 0.02
_MOST_CLASSES: Final = 1 << 20
_RANKED: Final = 300
_COUNTED: Final = 4  # outputs of TensorFlow Lite's post-processing


@dataclass(frozen=True, kw_only=True)
class Form:
    """What is known of a network's ends before it runs."""

    rows: int  # of the input, as `columns`
    columns: int
    shapes: Mapping[str, tuple[int, ...]]  # of the outputs by name, in order
    extras: int = 0  # numbers behind the classes of each box: coefficients of masks
    keypoints: bool = False  # numbers behind the first class are keypoints
    anchors: Sequence[Sequence[float]] = ANCHORS
    classes: int = 0  # that the labels tell of; 0: not known

    def grids(self) -> Iterator[tuple[int, ...]]:
        """Strides that a network may have together."""
        whole = [s for s in STRIDES if not self.rows % s and not self.columns % s]
        for count in range(len(whole), 0, -1):
            for chosen in combinations(whole, count):
                if all(b == 2 * a for a, b in pairwise(chosen)):
                    yield chosen

    def strides_of(self, cells: float, least: int = 1) -> tuple[int, ...] | None:
        """The strides, at least so many, whose cells are so many."""
        for strides in self.grids():
            count = sum(self.rows // s * (self.columns // s) for s in strides)
            if len(strides) >= least and count == cells:
                return strides
        return None


def head_of(form: Form) -> Head:
    """The form of a detector's outputs by their shapes.

    Raises:
        WorkloadError: it has none of the known forms.
    """
    shapes = list(form.shapes.values())
    fitting = list(dict.fromkeys(head for head, fits in _TOLD if fits(form, shapes)))
    for alike in _ALIKE:
        both = [head for head in fitting if head in alike]
        if fitting and fitting[0] in alike and len(both) > 1:
            told = [head for head in both if _classes_of(head, form) == form.classes]
            if len(told) != 1:
                raise _unknown(
                    form, f"may be of {' or of '.join(both)}", "or the names of --labels"
                )
            return told[0]
    if fitting:
        return fitting[0]
    raise _unknown(form, "are of no known detector head", "or export the model without what comes "
                   "behind its head")  # fmt: skip


def _unknown(form: Form, rule: str, remedy: str) -> WorkloadError:
    return WorkloadError(
        f"the outputs {rule}",
        field="task",
        value=", ".join(f"{name} {list(shape)}" for name, shape in form.shapes.items()),
        remedy=f"name it with --head, {remedy}; docs/how-to/pictures.md lists the forms",
    )


def candidates(head: Head, form: Form, outputs: Sequence[Array]) -> Candidates:
    """Boxes of a network's outputs, real numbers in the order of `Form.shapes`."""
    if not _FITS[head](form, list(form.shapes.values())):
        raise WorkloadError(
            f"the outputs do not have the shapes of the head {head}",
            field="--head",
            value=", ".join(f"{name} {list(shape)}" for name, shape in form.shapes.items()),
            remedy="use auto, or a head of docs/how-to/pictures.md",
        )
    found = _DECODERS[head](form, [np.asarray(array, np.float64) for array in outputs])
    for name, numbers in (("boxes", found.boxes), ("scores", found.scores)):
        if not np.isfinite(numbers).all():
            raise WorkloadError(
                f"the {name} must be finite numbers",
                field=f"outputs, read as {head}",
                remedy="check the model and its input; another head is named with --head",
            )
    if len(found.scores) and not (found.scores.min() >= -_ROUNDING
                                  and found.scores.max() <= 1 + _ROUNDING):  # fmt: skip
        raise WorkloadError(
            "the scores must lie in 0..1",
            field=f"outputs, read as {head}",
            value=f"{found.scores.min():.3g} to {found.scores.max():.3g}",
            remedy="name another head with --head, such as detr for logits",
        )
    return found


# -- one or more arrays with a row for each box ----------------------------------------------------


def _scored(boxes: Array, scores: Array, extras: Array | None = None) -> Candidates:
    """Boxes with the best of their classes; scores (n, C)."""
    classes = scores.argmax(1) if scores.shape[1] else np.zeros(len(boxes), np.int64)
    best = scores[np.arange(len(boxes)), classes] if scores.shape[1] else np.zeros(len(boxes))
    none = np.zeros((len(boxes), 0))
    return Candidates(
        boxes=boxes, scores=best, classes=classes, extras=none if extras is None else extras
    )


def _corners(centred: Array) -> Array:
    """Corners of boxes (n, 4) that are given by centre, width and height."""
    half = centred[:, 2:] / 2
    return np.concatenate((centred[:, :2] - half, centred[:, :2] + half), 1)


def _in_pixels(form: Form, boxes: Array, scores: Array) -> tuple[Array, bool]:
    """Boxes (n, 4), which TensorFlow Lite's exports have as shares of the input; whether they were.

    The surest ones tell: nobody looks at the others, which may have any size.
    """
    best = scores.max(1) if scores.shape[1] else np.zeros(len(boxes))
    sure = boxes[best >= _SURE * best.max()] if len(best) else boxes
    are_shares = bool(sure.size) and np.abs(sure).max() <= _LARGEST_SHARE
    return (boxes * np.array([form.columns, form.rows] * 2) if are_shares else boxes), are_shares


def _yolov5(form: Form, outputs: Sequence[Array]) -> Candidates:
    found = outputs[0][0]
    scores = found[:, 4:5] * found[:, 5:]
    return _scored(_corners(_in_pixels(form, found[:, :4], scores)[0]), scores)


def _yolox(form: Form, outputs: Sequence[Array]) -> Candidates:
    found = outputs[0][0]
    strides = form.strides_of(len(found))
    assert strides is not None  # `_FITS` has seen to it
    points, steps = _cells(form, strides)
    middles = (found[:, :2] + points - 0.5) * steps
    sizes = np.exp(np.minimum(found[:, 2:4], 20)) * steps
    return _scored(_corners(np.concatenate((middles, sizes), 1)), found[:, 4:5] * found[:, 5:])


def _yolov8(form: Form, outputs: Sequence[Array]) -> Candidates:
    found = outputs[0][0].T
    end = 5 if form.keypoints else found.shape[1] - form.extras
    scores, extras = found[:, 4:end], found[:, end:]
    boxes, are_shares = _in_pixels(form, found[:, :4], scores)
    if form.keypoints and are_shares:
        extras = extras * np.tile((form.columns, form.rows, 1), extras.shape[1] // 3)
    return _scored(_corners(boxes), scores, extras)


def _end2end(_: Form, outputs: Sequence[Array]) -> Candidates:
    found = outputs[0][0]
    found = found[(found[:, 5] >= 0) & (found[:, 5] <= _MOST_CLASSES)]  # rows that hold something
    return Candidates(
        boxes=found[:, :4],
        scores=found[:, 4],
        classes=found[:, 5].astype(np.int64),
        extras=found[:, 6:],
        settled=True,
    )


def _pair(form: Form, outputs: Sequence[Array]) -> Sequence[Array]:
    """Boxes, then what is said of their classes."""
    return outputs if _boxes_first(form) else outputs[::-1]


def _boxes_first(form: Form) -> bool | None:
    """Which of two outputs holds boxes: by its last axis, or, if both have 4, by its name."""
    widths = [shape[-1] for shape in form.shapes.values()]
    by_name = ["box" in name.lower() for name in form.shapes]
    told = [width == 4 for width in widths] if widths[0] != widths[1] else by_name
    return told[0] if told[0] != told[1] else None


def _yolo_nas(form: Form, outputs: Sequence[Array]) -> Candidates:
    boxes, scores = _pair(form, outputs)
    return _scored(boxes[0], scores[0])


def _ssd(form: Form, outputs: Sequence[Array]) -> Candidates:
    boxes, scores = _pair(form, outputs)
    scale = np.array([form.columns, form.rows] * 2)
    return _scored(boxes[0] * scale, scores[0][:, 1:])


def _detr(form: Form, outputs: Sequence[Array]) -> Candidates:
    boxes, logits = _pair(form, outputs)
    scale = np.array([form.columns, form.rows] * 2)
    found = _scored(_corners(boxes[0]) * scale, softmax(logits[0])[:, :-1])
    return Candidates(
        boxes=found.boxes, scores=found.scores, classes=found.classes, extras=found.extras,
        settled=True,
    )  # fmt: skip


def _tflite(form: Form, outputs: Sequence[Array]) -> Candidates:
    boxes, classes, scores, count = (array[0] for array in outputs)
    number = int(np.clip(count.reshape(-1)[0], 0, len(scores)))
    scale = np.array([form.columns, form.rows] * 2)
    return Candidates(
        boxes=boxes[:number, [1, 0, 3, 2]] * scale,
        scores=scores[:number],
        classes=classes[:number].astype(np.int64),
        extras=np.zeros((number, 0)),
        settled=True,
    )


# -- feature maps, one for each stride -------------------------------------------------------------


def _cells(form: Form, strides: Sequence[int]) -> tuple[Array, Array]:
    """Centres (cells, 2) in strides, and strides (cells, 1)."""
    points, steps = [], []
    for stride in strides:
        down, across = np.mgrid[: form.rows // stride, : form.columns // stride] + 0.5
        points.append(np.stack((across, down), -1).reshape(-1, 2))
        steps.append(np.full((across.size, 1), float(stride)))
    return np.concatenate(points), np.concatenate(steps)


def _maps(form: Form, shape: Sequence[int]) -> int | None:
    """The stride of a feature map (..., h, w)."""
    for stride in STRIDES:
        if tuple(shape[-2:]) == (form.rows / stride, form.columns / stride):
            return stride
    return None


def _yolov5_raw(form: Form, outputs: Sequence[Array]) -> Candidates:
    found = []
    finest_first = sorted(outputs, key=lambda array: -array.shape[2])
    for array, anchors in zip(finest_first, form.anchors, strict=True):
        values = array[0]
        if array.ndim == 4:  # (3 * (5 + C), h, w)
            values = values.reshape(_ANCHORS_OF_CELL, -1, *values.shape[1:]).transpose(0, 2, 3, 1)
        stride = form.rows // values.shape[1]
        values = sigmoid(values)
        down, across = np.mgrid[: values.shape[1], : values.shape[2]]
        middles = (2 * values[..., :2] - 0.5 + np.stack((across, down), -1)) * stride
        sizes = (2 * values[..., 2:4]) ** 2 * np.reshape(anchors, (_ANCHORS_OF_CELL, 1, 1, 2))
        boxes = _corners(np.concatenate((middles, sizes), -1).reshape(-1, 4))
        scores = (values[..., 4:5] * values[..., 5:]).reshape(len(boxes), -1)
        found.append((boxes, scores))
    boxes, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _scored(boxes, scores)


def _yolov8_raw(form: Form, outputs: Sequence[Array]) -> Candidates:
    found = []
    for bins, scores in _by_stride(outputs):
        spread = softmax(bins.reshape(4, -1, bins.shape[1] * bins.shape[2]).transpose(2, 0, 1))
        sides = spread @ np.arange(spread.shape[-1])
        stride = form.rows // bins.shape[1]
        points, _ = _cells(form, (stride,))
        corners = np.concatenate((points - sides[:, :2], points + sides[:, 2:]), 1) * stride
        found.append((corners, sigmoid(scores.reshape(len(scores), -1).T)))
    boxes, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _scored(boxes, scores)


_BINS: Final = 64  # four sides of 16 bins (Ultralytics, 2023)


def _by_stride(outputs: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Bins and class scores (channels, h, w) of each stride, the finest first."""
    by_map: dict[int, list[Array]] = {}
    for array in outputs:
        by_map.setdefault(prod(array.shape[2:]), []).append(array[0])
    parts = []
    for _, maps in sorted(by_map.items(), reverse=True):
        joined = np.concatenate(sorted(maps, key=lambda each: len(each) != _BINS))
        parts.append((joined[:_BINS], joined[_BINS:]))
    return parts


def sigmoid(values: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    halved: Array = 0.5 * (1 + np.tanh(0.5 * values))
    return halved


def softmax(values: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(values - values.max(-1, keepdims=True))
    shares: Array = powers / powers.sum(-1, keepdims=True)
    return shares


# -- which shapes are whose ------------------------------------------------------------------------

_Shapes = Sequence[tuple[int, ...]]


def _rows_of_boxes(shapes: _Shapes, least: int) -> bool:
    """One (1, n, m) with a row for each box."""
    return len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][0] == 1 and shapes[0][2] >= least


def _is_yolov5(_: Form, shapes: _Shapes) -> bool:
    return _rows_of_boxes(shapes, 6)


def _has_boxes_of_cells(form: Form, shapes: _Shapes, boxes_of_cell: int) -> bool:
    """One (1, n, 5 + C) with so many boxes for each cell of two strides or more."""
    if not _rows_of_boxes(shapes, 6) or shapes[0][1] < shapes[0][2]:
        return False
    return form.strides_of(shapes[0][1] / boxes_of_cell, least=2) is not None


def _is_tall(form: Form, shapes: _Shapes) -> bool:
    """YOLOv8 with fewer rows than cells, of two strides or more."""
    if not _is_yolov8(form, shapes) or shapes[0][1] > shapes[0][2]:
        return False
    return form.strides_of(shapes[0][2], least=2) is not None


def _is_ranked(form: Form, shapes: _Shapes) -> bool:
    """The 300 best boxes: what exporters keep by default."""
    return _is_end2end(form, shapes) and shapes[0][1] == _RANKED


def _is_yolox(form: Form, shapes: _Shapes) -> bool:
    return _rows_of_boxes(shapes, 6) and form.strides_of(shapes[0][1]) is not None


def _is_yolov8(form: Form, shapes: _Shapes) -> bool:
    if not shapes or len(shapes[0]) != 3 or shapes[0][0] != 1:
        return False
    _, rows, cells = shapes[0]
    least = 5 + (3 if form.keypoints else form.extras)
    whole = not form.keypoints or (rows - 5) % 3 == 0
    return rows >= least and whole and form.strides_of(cells) is not None


def _is_end2end(form: Form, shapes: _Shapes) -> bool:
    if not shapes or len(shapes[0]) != 3 or shapes[0][0] != 1:
        return False
    behind = shapes[0][2] - 6
    return behind == form.extras if not form.keypoints else behind > 0 and behind % 3 == 0


def _is_pair(form: Form, shapes: _Shapes) -> bool:
    """Boxes (1, n, 4) and one row of scores for each."""
    if len(shapes) != 2 or any(len(shape) != 3 or shape[0] != 1 for shape in shapes):
        return False
    widths = [shape[2] for shape in shapes]
    return (
        shapes[0][1] == shapes[1][1] and 4 in widths and max(widths) > 1 and min(widths) > 0
        and _boxes_first(form) is not None
    )  # fmt: skip


def _is_yolo_nas(form: Form, shapes: _Shapes) -> bool:
    return _is_pair(form, shapes) and form.strides_of(shapes[0][1], least=2) is not None


def _is_detr(form: Form, shapes: _Shapes) -> bool:
    return _is_pair(form, shapes)


def _is_named_detr(form: Form, shapes: _Shapes) -> bool:
    return _is_pair(form, shapes) and any("logits" in name.lower() for name in form.shapes)


def _is_tflite(_: Form, shapes: _Shapes) -> bool:
    if len(shapes) != _COUNTED or len(shapes[0]) != 3 or shapes[0][2] != 4:
        return False
    lines = (1, shapes[0][1])
    return tuple(shapes[1]) == lines and tuple(shapes[2]) == lines and prod(shapes[3]) == 1


def _is_yolov5_raw(form: Form, shapes: _Shapes) -> bool:
    if len(shapes) != len(form.anchors):
        return False
    for shape in shapes:
        if len(shape) == 4 and (shape[1] % _ANCHORS_OF_CELL or shape[1] < 6 * _ANCHORS_OF_CELL):
            return False
        if len(shape) == 5 and (shape[1] != _ANCHORS_OF_CELL or shape[4] < 6):
            return False
        at = shape[2:4]
        if len(shape) not in {4, 5} or _maps(form, at) is None:
            return False
    return len({shape[1] if len(shape) == 4 else shape[4] for shape in shapes}) == 1


def _is_yolov8_raw(form: Form, shapes: _Shapes) -> bool:
    if not shapes or any(len(s) != 4 or s[0] != 1 or _maps(form, s) is None for s in shapes):
        return False
    channels: dict[int | None, list[int]] = {}
    for shape in shapes:
        channels.setdefault(_maps(form, shape), []).append(shape[1])
    joined = {tuple(sorted(parts)) for parts in channels.values()}
    if len(joined) != 1:
        return False
    (parts,) = joined
    return (len(parts) == 1 and parts[0] > _BINS) or (len(parts) == 2 and _BINS in parts)


_FITS: Final[Mapping[Head, Callable[[Form, _Shapes], bool]]] = {
    Head.TFLITE: _is_tflite,
    Head.DETR: _is_detr,
    Head.YOLO_NAS: _is_yolo_nas,
    Head.SSD: _is_pair,
    Head.YOLOV8_RAW: _is_yolov8_raw,
    Head.YOLOV5_RAW: _is_yolov5_raw,
    Head.YOLOV8: _is_yolov8,
    Head.YOLOV5: _is_yolov5,
    Head.YOLOX: _is_yolox,
    Head.END2END: _is_end2end,
}
"""The shapes that a head needs."""

_TOLD: Final[Sequence[tuple[Head, Callable[[Form, _Shapes], bool]]]] = (
    (Head.TFLITE, _is_tflite),
    (Head.DETR, _is_named_detr),
    (Head.YOLO_NAS, _is_yolo_nas),
    (Head.SSD, _is_pair),
    (Head.YOLOV8_RAW, _is_yolov8_raw),
    (Head.YOLOV5_RAW, _is_yolov5_raw),
    (Head.END2END, _is_ranked),
    (Head.YOLOV8, _is_tall),
    (Head.YOLOV5, partial(_has_boxes_of_cells, boxes_of_cell=_ANCHORS_OF_CELL)),
    (Head.YOLOX, partial(_has_boxes_of_cells, boxes_of_cell=1)),
    (Head.END2END, _is_end2end),
)
"""Heads by their shapes alone, in the order in which one is looked for."""

_ALIKE: Final = (
    frozenset({Head.YOLOV8_RAW, Head.YOLOV5_RAW}),
    frozenset({Head.YOLO_NAS, Head.SSD}),
)
"""Heads whose shapes may be the same: the number of classes tells which one it is."""


def _classes_of(head: Head, form: Form) -> int:
    """How many classes outputs of a head have, of those in `_ALIKE`."""
    shapes = list(form.shapes.values())
    if head is Head.YOLOV5_RAW:
        first = shapes[0]
        return (first[1] // _ANCHORS_OF_CELL if len(first) == 4 else first[4]) - 5
    if head is Head.YOLOV8_RAW:
        maps = len({shape[2:] for shape in shapes})
        return sum(shape[1] for shape in shapes) // maps - _BINS
    scores = shapes[1 if _boxes_first(form) else 0]
    return scores[2] - (head is Head.SSD)


_DECODERS: Final[Mapping[Head, Callable[[Form, Sequence[Array]], Candidates]]] = {
    Head.YOLOV5: _yolov5,
    Head.YOLOV5_RAW: _yolov5_raw,
    Head.YOLOX: _yolox,
    Head.YOLOV8: _yolov8,
    Head.YOLOV8_RAW: _yolov8_raw,
    Head.END2END: _end2end,
    Head.YOLO_NAS: _yolo_nas,
    Head.SSD: _ssd,
    Head.TFLITE: _tflite,
    Head.DETR: _detr,
}
