# SPDX-License-Identifier: Apache-2.0
"""Heads of detectors: boxes that are encoded as their publications say are found again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.vision.heads import ANCHORS, Form, candidates, head_of
from tilewright.host.vision.names import Head

CLASSES = 7


@dataclass(frozen=True, eq=False)
class Known:
    """Things in an input: boxes (n, 4) as corners, classes (n,) and scores (n,)."""

    rows: int
    columns: int
    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray

    @property
    def centred(self) -> np.ndarray:
        sizes = self.boxes[:, 2:] - self.boxes[:, :2]
        return np.concatenate((self.boxes[:, :2] + sizes / 2, sizes), 1)

    @property
    def shares(self) -> np.ndarray:
        return self.boxes / np.tile((self.columns, self.rows), 2)

    def one_hot(self, least: float = 0.001) -> np.ndarray:
        found = np.full((len(self.boxes), CLASSES), least)
        found[np.arange(len(self.boxes)), self.classes] = self.scores
        return found


def drawn(rng: np.random.Generator) -> Known:
    rows, columns = (int(32 * n) for n in rng.integers(3, 8, 2))
    count = int(rng.integers(1, 6))
    middle = rng.uniform(0.3, 0.7, (count, 2)) * (columns, rows)
    half = rng.uniform(10, 24, (count, 2))
    return Known(
        rows, columns, np.concatenate((middle - half, middle + half), 1),
        rng.integers(0, CLASSES, count), rng.uniform(0.4, 0.95, count),
    )  # fmt: skip


def cells(known: Known, stride: int) -> tuple[int, int]:
    return known.rows // stride, known.columns // stride


def spread(known: Known, boxes_of_cell: int, fields: int, rng: np.random.Generator) -> tuple:
    """An empty head of strides 8, 16 and 32, and a place in it for each thing, all different."""
    total = boxes_of_cell * sum(int(np.prod(cells(known, s))) for s in (8, 16, 32))
    return np.zeros((total, fields)), rng.permutation(total)[: len(known.boxes)]


def logit(share: np.ndarray) -> np.ndarray:
    return np.log(share / (1 - share))


def yolov5(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found, at = spread(known, 3, 5 + CLASSES, rng)
    found[at] = np.concatenate((known.centred, np.full((len(at), 1), 0.99), known.one_hot()), 1)
    return {"out": found[None]}


def yolov5_raw(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Each thing in a cell and anchor that can state it: b = (2 s(t) - 0.5 + cell) stride."""
    maps = [np.full((3, *cells(known, s), 5 + CLASSES), -12.0) for s in (8, 16, 32)]
    for centred, scores in zip(known.centred, known.one_hot(), strict=True):
        ratios = [
            (max(np.max(centred[2:] / a), np.max(a / centred[2:])), level, number)
            for level, anchors in enumerate(np.reshape(ANCHORS, (3, 3, 2)))
            for number, a in enumerate(anchors)
        ]
        for _, level, number in sorted(ratios):
            stride = 8 << level
            x, y = (centred[:2] / stride).astype(int)
            cell = maps[level][number, y, x]
            if cell[4] > 0:
                continue
            anchor = np.reshape(ANCHORS, (3, 3, 2))[level, number]
            place = (centred[:2] / stride - (x, y) + 0.5) / 2
            size = np.sqrt(centred[2:] / anchor) / 2
            cell[:] = [*logit(place), *logit(size), 9.0, *logit(scores)]
            break
    if rng.random() < 0.5:  # channels in front, as in a graph cut before the reshape
        maps = [m.transpose(0, 3, 1, 2).reshape(-1, *m.shape[1:3]) for m in maps]
    return {f"p{n}": m[None] for n, m in enumerate(maps)}


def yolox(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """(x / stride - column, y / stride - row, log of size / stride)."""
    found, at = spread(known, 1, 5 + CLASSES, rng)
    grid = [
        (x, y, s) for s in (8, 16, 32) for y in range(cells(known, s)[0])
        for x in range(cells(known, s)[1])
    ]  # fmt: skip
    for place, centred, scores in zip(at, known.centred, known.one_hot(), strict=True):
        x, y, stride = grid[place]
        offset = centred[:2] / stride - (x, y)
        found[place] = [*offset, *np.log(centred[2:] / stride), 0.99, *scores]
    return {"out": found[None]}


def yolov8(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found, at = spread(known, 1, 4 + CLASSES, rng)
    found[at] = np.concatenate((known.centred, known.one_hot()), 1)
    return {"output0": found.T[None]}


def yolov8_shares(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """As TensorFlow Lite's exports have it."""
    found, at = spread(known, 1, 4 + CLASSES, rng)
    scale = np.tile((known.columns, known.rows), 2)
    found[at] = np.concatenate((known.centred / scale, known.one_hot()), 1)
    return {"output0": found.T[None]}


def yolov8_raw(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Sides in strides as the mean of 16 bins: shares of the two next to it."""
    maps = [np.full((64 + CLASSES, *cells(known, s)), -30.0) for s in (8, 16, 32)]
    for box, scores in zip(known.boxes, known.one_hot(), strict=True):
        for level in (0, 1, 2):
            stride = 8 << level
            x, y = (((box[:2] + box[2:]) / 2) / stride).astype(int)
            centre = np.array((x, y)) + 0.5
            sides = np.concatenate((centre - box[:2] / stride, box[2:] / stride - centre))
            cell = maps[level][:, y, x]
            if cell[64:].max() > -20 or (sides < 0).any() or (sides > 14).any():
                continue
            bins = np.full((4, 16), -30.0)
            low = sides.astype(int)
            bins[range(4), low] = np.log(np.maximum(1 - (sides - low), 1e-9))
            bins[range(4), low + 1] = np.log(np.maximum(sides - low, 1e-9))
            cell[:] = [*bins.reshape(-1), *logit(scores)]
            break
    if rng.random() < 0.5:
        return {f"m{n}": m[None] for n, m in enumerate(reversed(maps))}
    parts = [(m[:64], m[64:]) for m in maps]
    return {f"m{n}_{k}": p[None] for n, both in enumerate(parts) for k, p in enumerate(both)}


def end2end(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = np.zeros((1, 300, 6))
    rows = np.column_stack((known.boxes, known.scores, known.classes))
    found[0, : len(rows)] = rows[np.argsort(-known.scores)]
    return {"output0": found}


def pair(scale: str) -> Callable[[Known, np.random.Generator], dict[str, np.ndarray]]:
    def encoded(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
        boxes, at = spread(known, 1, 4, rng)
        boxes, at = (boxes, at) if scale == "cells" else (boxes[:-1], at[at < len(boxes) - 1])
        if len(at) < len(known.boxes):
            at = np.arange(len(known.boxes))
        boxes[at] = known.boxes if scale == "cells" else known.shares
        width = CLASSES if scale == "cells" else 1 + CLASSES
        scores = np.zeros((len(boxes), width))
        scores[at, -CLASSES:] = known.one_hot()
        both = {"boxes": boxes[None], "scores": scores[None]}
        return dict(reversed(both.items())) if rng.random() < 0.5 else both

    return encoded


def tflite(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    count = len(known.boxes)
    boxes, classes, scores = np.zeros((1, 25, 4)), np.zeros((1, 25)), np.zeros((1, 25))
    boxes[0, :count] = known.shares[:, [1, 0, 3, 2]]
    classes[0, :count], scores[0, :count] = known.classes, known.scores
    return {"a": boxes, "b": classes, "c": scores, "d": np.array([float(count)])}


def detr(known: Known, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Softmax over the classes and nothing, boxes by centre and size in 0..1."""
    boxes, logits = np.zeros((1, 100, 4)), np.zeros((1, 100, CLASSES + 1))
    logits[..., -1] = 20
    at = rng.permutation(100)[: len(known.boxes)]
    boxes[0, at] = known.centred / np.tile((known.columns, known.rows), 2)
    shares = np.full((len(at), CLASSES + 1), 1e-4)
    shares[np.arange(len(at)), known.classes] = known.scores
    shares[:, -1] = 1 - shares[:, :-1].sum(1)
    logits[0, at] = np.log(shares)
    return {"pred_logits": logits, "pred_boxes": boxes}


ENCODERS: Mapping[tuple[Head, str], Callable[..., dict[str, np.ndarray]]] = {
    (Head.YOLOV5, "pixels"): yolov5,
    (Head.YOLOV5_RAW, "maps"): yolov5_raw,
    (Head.YOLOX, "offsets"): yolox,
    (Head.YOLOV8, "pixels"): yolov8,
    (Head.YOLOV8, "shares"): yolov8_shares,
    (Head.YOLOV8_RAW, "maps"): yolov8_raw,
    (Head.END2END, "pixels"): end2end,
    (Head.YOLO_NAS, "pixels"): pair("cells"),
    (Head.SSD, "shares"): pair("shares"),
    (Head.TFLITE, "shares"): tflite,
    (Head.DETR, "shares"): detr,
}


@pytest.mark.parametrize("kind", ENCODERS, ids=" ".join)
def test_encoded_boxes_are_found_again(kind: tuple[Head, str]) -> None:
    rng = fresh_rng()
    for _ in range(12):
        known = drawn(rng)
        outputs = ENCODERS[kind](known, rng)
        shapes = {name: array.shape for name, array in outputs.items()}
        form = Form(rows=known.rows, columns=known.columns, shapes=shapes, classes=CLASSES)
        head = head_of(form)
        assert head == kind[0]
        found = candidates(head, form, list(outputs.values()))
        sure = np.flatnonzero(found.scores > 0.3)
        assert len(sure) == len(known.boxes)
        by_box = sure[np.lexsort(found.boxes[sure].T)]
        wanted = np.lexsort(known.boxes.T)
        np.testing.assert_allclose(found.boxes[by_box], known.boxes[wanted], atol=0.01)
        assert (found.classes[by_box] == known.classes[wanted]).all()
        np.testing.assert_allclose(found.scores[by_box], known.scores[wanted], rtol=0.011)


def form_of(classes: int = 0, **shapes: tuple[int, ...]) -> Form:
    return Form(rows=320, columns=320, shapes=shapes, classes=classes)


def test_heads_of_like_shapes_are_told_by_the_classes_or_refused() -> None:
    raw = {f"p{s}": (1, 255, 320 // s, 320 // s) for s in (8, 16, 32)}
    assert head_of(form_of(80, **raw)) == Head.YOLOV5_RAW
    assert head_of(form_of(191, **raw)) == Head.YOLOV8_RAW
    pair = {"boxes": (1, 2100, 4), "scores": (1, 2100, 21)}
    assert head_of(form_of(21, **pair)) == Head.YOLO_NAS
    assert head_of(form_of(20, **pair)) == Head.SSD
    for shapes in (raw, pair):
        for classes in (0, 7):
            with pytest.raises(WorkloadError, match=r"may be of .* or of .*--labels"):
                head_of(form_of(classes, **shapes))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 9.0])
def test_scores_that_are_none_are_refused(wrong: float) -> None:
    outputs = np.zeros((1, 300, 6))
    outputs[0, 0] = [1, 2, 30, 40, wrong, 1]
    with pytest.raises(WorkloadError, match=r"finite numbers|in 0\.\.1"):
        candidates(Head.END2END, form_of(y=outputs.shape), [outputs])


def test_every_head_is_encoded_here() -> None:
    assert {head for head, _ in ENCODERS} == set(Head) - {Head.AUTO}


def test_outputs_of_no_detector_are_refused_with_their_shapes() -> None:
    form = Form(rows=64, columns=64, shapes={"logits": (1, 1000)})
    with pytest.raises(
        WorkloadError, match=r"are of no known detector head, not 'logits \[1, 1000\]'"
    ):
        head_of(form)
    for head in set(Head) - {Head.AUTO}:
        with pytest.raises(WorkloadError, match=f"shapes of the head {head}"):
            candidates(head, form, [np.zeros((1, 1000))])
