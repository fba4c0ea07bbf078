# SPDX-License-Identifier: Apache-2.0
"""Pictures as inputs, and points of inputs as points of pictures."""

import os

import numpy as np
import pytest
from PIL import Image
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.vision.names import Fit
from tilewright.host.vision.pictures import (
    IMAGE_SUFFIXES,
    InputSize,
    frame,
    pictures_of,
    read_picture,
)


@pytest.mark.parametrize("fit", list(Fit))
def test_what_lies_in_the_input_is_found_in_the_picture(fit: Fit) -> None:
    """A white box is looked for among the framed pixels, whatever the proportions."""
    rng = fresh_rng()
    for _ in range(40):
        wide, high = (int(n) for n in rng.integers(40, 400, 2))
        rows, columns = (int(n) for n in rng.integers(64, 256, 2))
        box = np.array([wide * 0.35, high * 0.35, wide * 0.65, high * 0.65]).round()
        pixels = np.zeros((high, wide, 3), np.uint8)
        pixels[int(box[1]) : int(box[3]), int(box[0]) : int(box[2])] = 255
        framed, framing = frame(Image.fromarray(pixels), rows, columns, fit)
        assert framed.size == (columns, rows)
        bright = np.asarray(framed)[..., 0] > 180
        down, across = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
        corners = [[across[0], down[0]], [across[-1] + 1, down[-1] + 1]]
        found = framing.in_picture(np.array(corners)).reshape(-1)
        seen = framing.in_picture(np.array([[0, 0], [columns, rows]])).reshape(-1)
        wanted = np.clip(box, np.tile(seen[:2], 2), np.tile(seen[2:], 2))  # a crop cuts off
        step = np.tile(framing.step, 2)
        assert (np.abs(found - wanted) <= 1.5 * np.maximum(step, 1)).all(), (fit, wide, high)


def test_other_inputs_take_no_pictures() -> None:
    for shape in ((1, 10), (1, 4, 8, 8), (3, 8, 8), (1, 1, 2, 3, 4)):
        assert InputSize.of(shape) is None


def test_16_bits_are_scaled_to_8(tmp_path) -> None:
    levels = np.array([[0, 20000, 65535]], np.uint16)
    Image.fromarray(levels).save(tmp_path / "deep.png")
    assert np.asarray(read_picture(tmp_path / "deep.png")).tolist() == [[0, 78, 255]]


def test_a_pipe_and_no_camera_are_refused(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(WorkloadError, match="it is no file"):
        next(pictures_of(tmp_path / "pipe.png"))
    for number in (-5, 10**11):
        with pytest.raises(WorkloadError, match="number of a camera"):
            next(pictures_of(number))


def test_what_is_no_picture_is_refused(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(WorkloadError, match="image, a video or a folder") as refused:
        next(pictures_of(tmp_path / "empty"))
    assert all(suffix in str(refused.value) for suffix in IMAGE_SUFFIXES)
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n cut off")
    with pytest.raises(WorkloadError, match="must be an image that can be read"):
        next(pictures_of(tmp_path / "cut.png"))
    (tmp_path / "cut.mp4").write_bytes(b"no video")
    with pytest.raises(WorkloadError, match="gives no frame"):
        next(pictures_of(tmp_path / "cut.mp4"))


def test_frames_of_a_video_come_in_order(tmp_path) -> None:
    cv2 = pytest.importorskip("cv2")
    writer = cv2.VideoWriter(str(tmp_path / "v.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 5, (32, 24))
    for level in (20, 120, 220):
        writer.write(np.full((24, 32, 3), (level, 0, 0), np.uint8))  # blue first
    writer.release()
    found = list(pictures_of(tmp_path / "v.avi"))
    assert [title for title, _ in found] == ["frame 0", "frame 1", "frame 2"]
    blues = [np.asarray(picture)[12, 16, 2] for _, picture in found]
    assert np.abs(np.subtract(blues, (20, 120, 220))).max() < 12
