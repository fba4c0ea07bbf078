# SPDX-License-Identifier: Apache-2.0
"""What is seen in pictures: classes, boxes that do not overlap, areas and keypoints."""

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.vision.drawing import colour_of, draw
from tilewright.host.vision.heads import Candidates
from tilewright.host.vision.labels import read_labels, stated_labels, stated_task
from tilewright.host.vision.names import Fit, Task
from tilewright.host.vision.pictures import frame
from tilewright.host.vision.tasks import Interpreter, Seen, TaskOptions, suppressed


def framing_of(wide: int, high: int, rows: int, columns: int, fit: Fit = Fit.LETTERBOX):
    return frame(Image.new("RGB", (wide, high)), rows, columns, fit)[1]


def kept_by_onnx(found: Candidates, overlap: float, score: float) -> set[int]:
    """ONNX Runtime's own non-maximum suppression, class by class."""
    node = onnx.helper.make_node("NonMaxSuppression", ["b", "s", "m", "o", "t"], ["kept"])
    kinds = onnx.TensorProto
    count, classes = len(found.boxes), int(found.classes.max()) + 1
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "nms",
        [value("b", kinds.FLOAT, (1, count, 4)), value("s", kinds.FLOAT, (1, classes, count)),
         value("m", kinds.INT64, (1,)), value("o", kinds.FLOAT, (1,)),
         value("t", kinds.FLOAT, (1,))],
        [value("kept", kinds.INT64, ("n", 3))],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString())
    scores = np.zeros((1, classes, count), np.float32)
    scores[0, found.classes, range(count)] = found.scores
    (kept,) = session.run(
        None,
        {"b": found.boxes[None].astype(np.float32), "s": scores, "m": np.array([count]),
         "o": np.array([overlap], np.float32), "t": np.array([score], np.float32)},
    )  # fmt: skip
    return set(kept[:, 2].tolist())


def test_overlapping_boxes_are_suppressed_as_onnx_runtime_does() -> None:
    rng = fresh_rng()
    for _ in range(25):
        count = int(rng.integers(1, 120))
        corner = rng.uniform(0, 80, (count, 2))
        boxes = np.concatenate((corner, corner + rng.uniform(10, 60, (count, 2))), 1)
        scores = rng.permutation(np.linspace(0.05, 0.99, count))
        found = Candidates(
            boxes=boxes, scores=scores, classes=rng.integers(0, 4, count),
            extras=np.arange(count)[:, None],
        )  # fmt: skip
        overlap, score = float(rng.uniform(0.2, 0.8)), float(rng.uniform(0.06, 0.6))
        kept = suppressed(found, TaskOptions(task=Task.DETECT, score=score, overlap=overlap))
        assert set(kept.extras[:, 0].astype(int)) == kept_by_onnx(found, overlap, score)
        assert (np.diff(kept.scores) <= 0).all()


@pytest.mark.parametrize("fit", [Fit.LETTERBOX, Fit.CROP, Fit.STRETCH])
def test_areas_are_those_of_the_picture(fit: Fit) -> None:
    """A disc is framed as a picture would be, given as scores, and compared with the disc."""
    down, across = np.mgrid[:90, :140]
    disc = (across - 70) ** 2 + (down - 45) ** 2 < 30**2
    framed, framing = frame(Image.fromarray(np.uint8(255 * disc)), 64, 64, fit)
    inside = np.asarray(framed, np.float64) / 255
    scores = np.stack((1 - inside, inside))[None]
    reader = Interpreter.of(TaskOptions(task=Task.SEGMENT), {"y": scores.shape}, 64, 64)
    areas = {each.number: each.mask for each in reader.read({"y": scores}, framing).found}
    assert (areas[1] != disc).mean() < 0.02
    numbers = (inside > 0.5).astype(np.int64)[None]
    by_number = Interpreter.of(TaskOptions(task=Task.SEGMENT), {"y": numbers.shape}, 64, 64)
    areas = {each.number: each.mask for each in by_number.read({"y": numbers}, framing).found}
    assert (areas[1] != disc).mean() < 0.03


def test_masks_of_boxes_are_sums_of_prototypes_inside_the_box() -> None:
    framing = framing_of(128, 96, 96, 128)
    prototypes = np.zeros((1, 2, 24, 32))
    prototypes[0, 0, :, :16], prototypes[0, 0, :, 16:] = 1, -1
    prototypes[0, 1, :12], prototypes[0, 1, 12:] = 1, -1
    cells = 12 * 16 + 6 * 8 + 3 * 4
    boxes = np.zeros((1, 4 + 3 + 2, cells))
    boxes[0, :, 5] = [64, 48, 80, 60, 0.1, 0.9, 0.1, 1, 0]  # left half
    reader = Interpreter.of(
        TaskOptions(task=Task.SEGMENT), {"b": boxes.shape, "p": prototypes.shape}, 96, 128
    )
    (found,) = reader.read({"b": boxes, "p": prototypes}, framing).found
    wanted = np.zeros((60, 80), bool)
    wanted[:, :40] = True
    assert (found.number, found.corner) == (1, (24, 18))
    assert found.mask is not None
    assert (found.mask != wanted).sum() < 150
    drawn = np.asarray(draw(Image.new("RGB", (128, 96)), Seen(task=Task.SEGMENT, found=(found,))))
    assert drawn[40, 40].any()
    assert not drawn[40, 90].any()


def test_keypoints_are_at_peaks_of_maps_and_behind_boxes() -> None:
    rng = fresh_rng()
    framing = framing_of(320, 200, 96, 128)
    wanted = rng.uniform(0.3, 0.7, (17, 2)) * (320, 200)
    inside = (wanted - framing.origin) / framing.step
    down, across = np.mgrid[:48, :64]
    maps = np.stack([
        np.exp(-((across + 0.5 - x / 2) ** 2 + (down + 0.5 - y / 2) ** 2) / 8) for x, y in inside
    ])[None]  # fmt: skip
    reader = Interpreter.of(TaskOptions(task=Task.KEYPOINTS), {"y": maps.shape}, 96, 128)
    (found,) = reader.read({"y": maps}, framing).found
    assert np.abs(np.array(found.points)[:, :2] - wanted).max() < 2.6
    moved = np.concatenate((inside[:, ::-1] / (96, 128), np.full((17, 1), 0.9)), 1)[None, None]
    reader = Interpreter.of(TaskOptions(task=Task.KEYPOINTS), {"y": moved.shape}, 96, 128)
    (found,) = reader.read({"y": moved}, framing).found
    np.testing.assert_allclose(np.array(found.points)[:, :2], wanted, atol=1e-6)
    cells = 12 * 16 + 6 * 8 + 3 * 4
    poses = np.zeros((1, 5 + 51, cells))
    joints = np.concatenate((inside, np.full((17, 1), 0.7)), 1).reshape(-1)
    poses[0, :, 9] = [64, 48, 60, 50, 0.8, *joints]
    reader = Interpreter.of(TaskOptions(task=Task.KEYPOINTS), {"y": poses.shape}, 96, 128)
    (found,) = reader.read({"y": poses}, framing).found
    np.testing.assert_allclose(np.array(found.points)[:, :2], wanted, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 9), (1, 9, 1, 1)])
def test_classes_are_shares_whatever_leaves_the_network(shape) -> None:
    logits = fresh_rng().normal(size=9)
    shares = np.exp(logits) / np.exp(logits).sum()
    for values in (logits, shares):
        reader = Interpreter.of(TaskOptions(task=Task.CLASSIFY), {"y": shape}, 8, 8)
        seen = reader.read({"y": values.reshape(shape)}, framing_of(9, 9, 8, 8))
        order = np.argsort(-shares)[:5]
        assert [each.number for each in seen.found] == order.tolist()
        np.testing.assert_allclose([each.score for each in seen.found], shares[order], rtol=1e-9)


@pytest.mark.parametrize(
    ("task", "shapes"),
    [
        (Task.CLASSIFY, {"y": (1, 4, 8, 8)}),
        (Task.CLASSIFY, {"y": (1, 10), "z": (1, 10)}),
        (Task.DETECT, {"y": (1, 10)}),
        (Task.SEGMENT, {"y": (1, 14, 84)}),
        (Task.SEGMENT, {"y": (1, 10)}),
        (Task.SEGMENT, {"y": (1, 10), "z": (1, 2, 8, 8)}),
        (Task.CLASSIFY, {"y": (1, 0)}),
        (Task.SEGMENT, {"y": (1, 2, 8, 8), "z": (1, 2, 8, 8)}),
        (Task.KEYPOINTS, {"y": (1, 10)}),
        (Task.KEYPOINTS, {"y": (1, 83, 50)}),
    ],
)
def test_outputs_of_another_task_are_refused_before_anything_runs(task, shapes) -> None:
    with pytest.raises(WorkloadError, match="y \\["):
        Interpreter.of(TaskOptions(task=task), shapes, 64, 64)


def test_outputs_that_are_no_numbers_are_refused() -> None:
    for task, shape in ((Task.DETECT, (1, 300, 6)), (Task.CLASSIFY, (1, 10))):
        outputs = np.full(shape, np.nan)
        reader = Interpreter.of(TaskOptions(task=task), {"y": shape}, 64, 64)
        with pytest.raises(WorkloadError, match="finite numbers"):
            reader.read({"y": outputs}, framing_of(64, 64, 64, 64))


def test_boxes_without_size_are_not_told_and_nothing_is_said_so() -> None:
    outputs = np.zeros((1, 300, 6))
    outputs[0, 0] = [40, 40, 20, 20, 0.9, 1]
    outputs[0, 1] = [1, 1, 9, 9, 0.9, 1e30]
    reader = Interpreter.of(TaskOptions(task=Task.DETECT), {"y": outputs.shape}, 64, 64)
    seen = reader.read({"y": outputs}, framing_of(64, 64, 64, 64))
    assert seen.found == ()
    assert seen.describe() == "nothing found"
    draw(Image.new("RGB", (64, 64)), seen)


def test_a_drawn_picture_has_its_box_and_keeps_the_picture() -> None:
    outputs = np.zeros((1, 300, 6))
    outputs[0, 0] = [10, 20, 50, 60, 0.9, 1]
    reader = Interpreter.of(TaskOptions(task=Task.DETECT), {"y": outputs.shape}, 64, 64)
    picture = Image.new("RGB", (64, 64), "white")
    drawn = np.asarray(draw(picture, reader.read({"y": outputs}, framing_of(64, 64, 64, 64))))
    assert tuple(drawn[40, 10]) == tuple(drawn[60, 30]) == colour_of(1)
    assert (drawn[25:55, 20:45] == 255).all()
    assert (np.asarray(picture) == 255).all()


def test_labels_come_from_lines_or_from_what_a_model_states(tmp_path) -> None:
    (tmp_path / "names").write_text("cat\ndog\n")
    assert read_labels(tmp_path / "names") == ("cat", "dog")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="text file in UTF-8"):
        read_labels(tmp_path / "bytes")
    assert stated_labels({"names": "{0: 'cat', 2: 'dog'}"}) == ("cat", "1", "dog")
    assert stated_labels({"names": "['cat', 'dog']"}) == ("cat", "dog")
    (tmp_path / "odd").write_bytes("\ufeffcat\x0c\u2028b\r\ndog\n".encode())
    assert read_labels(tmp_path / "odd") == ("cat\x0c\u2028b", "dog")
    hostile = ("{[]: 1}", f"[0x{'f' * 20000}]", "__import__('os').system('true')", "{",
               "[" * 5000, "7", "'cat'", "{10**9: 'x'}",
               "{999999999: 'x'}", "{-1: 'x'}")  # fmt: skip
    for text in hostile:
        assert stated_labels({"names": text}) == ()
    assert [stated_task({"task": t}) for t in ("detect", "pose", "segment", "classify", "obb")] == [
        "detect", "keypoints", "segment", "classify", "",
    ]  # fmt: skip
