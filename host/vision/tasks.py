# SPDX-License-Identifier: Apache-2.0
"""What a network says of a picture: classes, boxes, areas or keypoints, in the picture's pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.printable import printable
from tilewright.host.vision.heads import (
    ANCHORS,
    Candidates,
    Form,
    candidates,
    head_of,
    sigmoid,
    softmax,
)
from tilewright.host.vision.names import Head, Task
from tilewright.host.vision.pictures import Framing, load_opencv

Array = npt.NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]

MOST_FOUND: Final = 300
_MOST_CANDIDATES: Final = 30_000
_TOP: Final = 5
_JOINT: Final = 3  # numbers of a keypoint: x, y, score
_HALF: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """How outputs become what is seen."""

    task: Task
    labels: Sequence[str] = ()  # of the classes; empty: their numbers
    head: Head = Head.AUTO  # of a detector
    score: float = 0.25  # the least of what is told
    overlap: float = 0.45  # intersection over union from which the lesser of two boxes is dropped
    anchors: Sequence[Sequence[float]] = ANCHORS


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """One thing that is in a picture, or one class that the picture may be of."""

    label: str
    number: int  # of the class
    score: float
    box: tuple[float, ...] = ()  # left, top, right, bottom in pixels; empty: the whole picture
    points: tuple[tuple[float, float, float], ...] = ()  # keypoints: x, y in pixels, score
    mask: Array | None = None  # (rows, columns) bool, of the picture from `corner` on
    corner: tuple[int, int] = (0, 0)  # x and y of the mask's first pixel

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, of a mask its number of pixels."""
        return {
            "label": self.label,
            "class": self.number,
            "score": round(self.score, 4),
            "box": [round(edge, 1) for edge in self.box],
            "keypoints": [[round(x, 1), round(y, 1), round(s, 4)] for x, y, s in self.points],
            "pixels": None if self.mask is None else int(self.mask.sum()),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What a network says of one picture."""

    task: Task
    found: tuple[Found, ...]  # the surest first; of areas the largest

    def describe(self) -> str:
        """One line, such as ``2 x dog (0.91, 0.84), 1 x cat (0.52)``."""
        if not self.found:
            return "nothing found"
        if self.task is Task.CLASSIFY:
            return ", ".join(f"{printable(f.label, limit=40)} {f.score:.2f}" for f in self.found)
        by_label: dict[str, list[float]] = {}
        for each in self.found:
            by_label.setdefault(printable(each.label, limit=40), []).append(each.score)
        areas = self.task is Task.SEGMENT and not any(each.box for each in self.found)
        if areas:
            return ", ".join(f"{label} {100 * sum(s):.1f} %" for label, s in by_label.items())
        return ", ".join(
            f"{len(scores)} x {label} ({', '.join(f'{s:.2f}' for s in scores[:4])}"
            f"{', ...' if len(scores) > 4 else ''})"
            for label, scores in by_label.items()
        )


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """Reads the outputs of one network for one task; made before the network runs."""

    options: TaskOptions
    shapes: Shapes  # of the outputs by name
    form: Form
    head: Head = Head.AUTO
    _names: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, options: TaskOptions, shapes: Shapes, rows: int, columns: int) -> Interpreter:
        """The reader of a network's outputs.

        Args:
            options: what is wanted.
            shapes: of the outputs by name, in the network's order.
            rows: of the input.
            columns: of the input.

        Raises:
            WorkloadError: the outputs are not those of such a network.
        """
        _require_share("--score", options.score)
        _require_share("--overlap", options.overlap)
        form = Form(
            rows=rows,
            columns=columns,
            shapes=shapes,
            anchors=options.anchors,
            classes=len(options.labels),
        )
        made = cls(options=options, shapes=shapes, form=form, _names=tuple(shapes))
        some = bool(shapes) and all(all(shape) for shape in shapes.values())
        made._require(some, "outputs that hold something")
        match options.task:
            case Task.CLASSIFY:
                made._require(len(shapes) == 1 and _is_vector(made._first), "one vector of classes")
            case Task.DETECT:
                return made._with_head(form)
            case Task.SEGMENT if len(shapes) == 2:
                masks = [shape for shape in shapes.values() if len(shape) == 4]
                names = [name for name, shape in shapes.items() if len(shape) == 3]
                made._require(
                    len(masks) == len(names) == 1, "one map of classes, or boxes and masks"
                )
                (name,) = names
                boxes = {name: shapes[name]}
                return made._with_head(replace(form, shapes=boxes, extras=masks[0][1]))
            case Task.SEGMENT:
                first = made._first
                is_map = len(shapes) == 1 and len(first) in {3, 4} and first[0] == 1
                whole = is_map and first[-2] * columns == first[-1] * rows
                made._require(whole, "one map (1, classes, rows, columns) of the whole input")
            case Task.KEYPOINTS:
                first = made._first
                if len(shapes) == 1 and len(first) == 3:
                    return made._with_head(replace(form, keypoints=True))
                is_map = len(shapes) == 1 and len(first) == 4 and first[0] == 1
                made._require(is_map, "one heat map a keypoint, or boxes with keypoints")
        return made

    @property
    def _first(self) -> tuple[int, ...]:
        return next(iter(self.shapes.values()))

    def _with_head(self, form: Form) -> Interpreter:
        head = head_of(form) if self.options.head is Head.AUTO else self.options.head
        candidates(head, form, [np.zeros(shape) for shape in form.shapes.values()])
        return replace(self, form=form, head=head)

    def _require(self, holds: bool, wanted: str) -> None:
        if not holds:
            raise WorkloadError(
                f"needs a network with {wanted}",
                field=f"--task {self.options.task}",
                value=", ".join(f"{name} {list(shape)}" for name, shape in self.shapes.items()),
                remedy="use the task that the network was trained for; docs/how-to/pictures.md "
                "lists the forms of outputs",
            )

    def read(self, outputs: Mapping[str, Array], framing: Framing) -> Seen:
        """What is in a picture.

        Args:
            outputs: of the network, real numbers by name.
            framing: where the picture lay in the input.
        """
        arrays = [np.asarray(outputs[name], np.float64) for name in self._names]
        if not all(np.isfinite(array).all() for array in arrays):
            raise WorkloadError(
                "the network's outputs must be finite numbers",
                field=", ".join(self._names),
                remedy="check the model, and mean and standard deviation of its input",
            )
        match self.options.task:
            case Task.CLASSIFY:
                found = self._classes(arrays[0].reshape(-1))
            case Task.KEYPOINTS if not self.form.keypoints:
                found = [self._joints(arrays[0][0], framing)]
            case Task.SEGMENT if not self.form.extras:
                found = list(self._areas(arrays[0], framing))
            case _:
                found = list(self._boxes(outputs, framing))
        return Seen(task=self.options.task, found=tuple(found))

    def _label(self, number: int) -> str:
        labels = self.options.labels
        return labels[number] if 0 <= number < len(labels) else str(number)

    def _classes(self, values: Array) -> list[Found]:
        is_shares = values.min() >= 0 and abs(values.sum() - 1) < 0.02
        shares = values if is_shares else softmax(values)
        order = np.argsort(-shares, kind="stable")[:_TOP]
        return [
            Found(label=self._label(int(i)), number=int(i), score=float(shares[i])) for i in order
        ]

    def _boxes(self, outputs: Mapping[str, Array], framing: Framing) -> Iterator[Found]:
        form = self.form
        arrays = [np.asarray(outputs[n], np.float64) for n in form.shapes]
        kept = suppressed(candidates(self.head, form, arrays), self.options)
        corners = framing.in_picture(kept.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        whole: list[tuple[Array | None, tuple[int, int]]] = [(None, (0, 0))] * len(corners)
        masks = self._masks(outputs, kept, framing) if form.extras else whole
        for box, score, number, extras, (mask, corner) in zip(
            corners, kept.scores, kept.classes, kept.extras, masks, strict=True
        ):
            points: tuple[tuple[float, float, float], ...] = ()
            if form.keypoints:
                joints = extras.reshape(-1, _JOINT)
                placed = framing.in_picture(joints[:, :2])
                points = tuple(
                    (float(x), float(y), float(s))
                    for (x, y), s in zip(placed, joints[:, 2], strict=True)
                )
            yield Found(
                label=self._label(int(number)),
                number=int(number),
                score=float(score),
                box=tuple(map(float, box)),
                points=points,
                mask=mask,
                corner=corner,
            )

    def _masks(
        self, outputs: Mapping[str, Array], kept: Candidates, framing: Framing
    ) -> Iterator[tuple[Array, tuple[int, int]]]:
        """The mask of each box, inside it: where a sum of the network's prototypes is above 0."""
        (name,) = (n for n in self._names if n not in self.form.shapes)
        prototypes = np.asarray(outputs[name], np.float64)[0]
        flat = prototypes.reshape(len(prototypes), -1)
        for box, weights in zip(kept.boxes, kept.extras, strict=True):
            values = (weights @ flat).reshape(prototypes.shape[1:])
            corners = framing.in_picture(box.reshape(2, 2))
            (left, top), (right, bottom) = np.rint(corners).astype(int).tolist()
            inside = range(left, max(left, right)), range(top, max(top, bottom))
            yield _over_picture(values, self.form, framing, inside) > 0, (left, top)

    def _areas(self, array: Array, framing: Framing) -> Iterator[Found]:
        """Areas of classes, the largest first."""
        maps = array.reshape(-1, *array.shape[-2:]) if array.shape[0] == 1 else array
        if len(maps) > 1:
            best = _over_picture(maps[0], self.form, framing)
            numbers = np.zeros(best.shape, np.int64)
            for number, each in enumerate(maps[1:], 1):  # one at a time: a photo is large
                placed = _over_picture(each, self.form, framing)
                numbers[placed > best] = number
                best = np.maximum(best, placed)
        else:
            placed = _over_picture(maps[0], self.form, framing, smooth=False)
            is_share = placed.min() >= 0 and placed.max() <= 1
            has_numbers = not is_share and np.array_equal(placed, np.rint(placed))
            shares = placed if is_share else sigmoid(placed)
            numbers = np.asarray(placed if has_numbers else shares > _HALF, np.int64)
        for number, count in sorted(
            zip(*np.unique(numbers, return_counts=True), strict=True), key=lambda pair: -pair[1]
        )[:MOST_FOUND]:
            yield Found(
                label=self._label(int(number)),
                number=int(number),
                score=float(count) / numbers.size,
                mask=numbers == number,
            )

    def _joints(self, maps: Array, framing: Framing) -> Found:
        """Keypoints at the peaks of heat maps (K, rows, columns), or (1, K, 3) as MoveNet has."""
        form = self.form
        if maps.shape[0] == 1 and maps.shape[2] == _JOINT:
            points = maps[0][:, [1, 0]] * (form.columns, form.rows)
            scores = maps[0][:, 2]
        else:
            points, scores = _peaks(maps)
            points = points * (form.columns / maps.shape[2], form.rows / maps.shape[1])
        placed = framing.in_picture(points)
        return Found(
            label=self._label(0) if self.options.labels else "keypoints",
            number=0,
            score=float(scores.mean()),
            points=tuple(
                (float(x), float(y), float(s)) for (x, y), s in zip(placed, scores, strict=True)
            ),
        )


def _peaks(maps: Array) -> tuple[Array, Array]:
    """The largest elements' centres (K, 2), a quarter towards the larger neighbour, and values."""
    count, rows, columns = maps.shape
    flat = maps.reshape(count, -1).argmax(1)
    points = np.empty((count, 2))
    for index, (y, x) in enumerate(zip(*np.unravel_index(flat, (rows, columns)), strict=True)):
        one = maps[index]
        shift_x = np.sign(one[y, min(x + 1, columns - 1)] - one[y, max(x - 1, 0)])
        shift_y = np.sign(one[min(y + 1, rows - 1), x] - one[max(y - 1, 0), x])
        points[index] = (x + 0.5 + 0.25 * shift_x, y + 0.5 + 0.25 * shift_y)
    return points, maps.reshape(count, -1).max(1)


def suppressed(found: Candidates, options: TaskOptions) -> Candidates:
    """The boxes that are told: sure enough, and of two of a class that overlap the surer one.

    Raises:
        ToolError: OpenCV is missing, whose non-maximum suppression this is.
    """
    order = np.argsort(-found.scores, kind="stable")[:_MOST_CANDIDATES]
    order = order[found.scores[order] >= options.score]
    order = order[(found.boxes[order, 2:] > found.boxes[order, :2]).all(1)]  # of some size
    if not found.settled and len(order):
        cv2 = load_opencv("suppressing boxes that overlap needs OpenCV")
        corners = found.boxes[order]
        # OpenCV moves classes apart by the largest coordinate: none may be below 0.
        placed = corners[:, :2] - corners[:, :2].min(0)
        sized = np.concatenate((placed, corners[:, 2:] - corners[:, :2]), 1)
        kept = cv2.dnn.NMSBoxesBatched(
            sized.tolist(), found.scores[order].tolist(), found.classes[order].tolist(),
            0.0, options.overlap,
        )  # fmt: skip
        order = order[np.asarray(kept, np.int64).reshape(-1)]
    order = order[:MOST_FOUND]
    return Candidates(
        boxes=found.boxes[order],
        scores=found.scores[order],
        classes=found.classes[order],
        extras=found.extras[order],
        settled=True,
    )


def _over_picture(
    values: Array,
    form: Form,
    framing: Framing,
    inside: tuple[range, range] | None = None,
    *,
    smooth: bool = True,
) -> Array:
    """A map (rows, columns) of the input, sampled at the middle of each pixel of the picture.

    Args:
        values: the map.
        form: of the input.
        framing: where its pixels lie in the picture.
        inside: columns and rows of the picture; None: all of them.
        smooth: between elements; otherwise the nearest one.
    """
    wide, high = inside or tuple(map(range, framing.size))
    across = (np.array(wide, np.float64) + 0.5 - framing.origin[0]) / framing.step[0]
    down = (np.array(high, np.float64) + 0.5 - framing.origin[1]) / framing.step[1]
    across, down = across * values.shape[1] / form.columns, down * values.shape[0] / form.rows
    if not smooth:
        x, y = (
            np.clip(np.floor(at), 0, size - 1).astype(np.int64)
            for at, size in ((across, values.shape[1]), (down, values.shape[0]))
        )
        return values[np.ix_(y, x)]
    for axis, at in ((1, across), (0, down)):
        size = values.shape[axis]
        place = np.clip(at - 0.5, 0, size - 1)
        low = np.minimum(np.floor(place).astype(np.int64), max(size - 2, 0))
        share = np.expand_dims(place - low, 1 - axis)
        high = np.minimum(low + 1, size - 1)
        values = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return values


def _is_vector(shape: Sequence[int]) -> bool:
    return len(shape) >= 2 and shape[0] == 1 and sum(size > 1 for size in shape) <= 1


def _require_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise WorkloadError(
            "must be from 0 to 1", field=name, value=value, remedy="leave it out for the usual one"
        )
