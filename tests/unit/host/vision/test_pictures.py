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
    Scaling,
    frame,
    image_files,
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


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_sample_is_scaled_by_channel_on_the_axis_of_the_input(channels: int, last: bool) -> None:
    shape = (1, 8, 6, channels) if last else (1, channels, 8, 6)
    size = InputSize.of(shape)
    assert size == InputSize(batch=1, channels=channels, rows=8, columns=6, last=last)
    mean, std = (0.25,) * channels, tuple(0.5 + n for n in range(channels))
    sample, _ = Scaling(mean=mean, std=std).sample(
        Image.new("RGB", (6, 8), "white"), size, "float32"
    )
    assert sample.shape == shape[1:]
    by_channel = sample.reshape(-1, channels) if last else sample.reshape(channels, -1).T
    np.testing.assert_allclose(by_channel, np.tile(0.75 / np.array(std), (48, 1)), rtol=1e-6)


def test_other_inputs_take_no_pictures() -> None:
    for shape in ((1, 10), (1, 4, 8, 8), (3, 8, 8), (1, 1, 2, 3, 4)):
        assert InputSize.of(shape) is None


def test_mean_and_deviation_of_other_channels_are_refused() -> None:
    size = InputSize.of((1, 3, 4, 4))
    for wrong in (Scaling(mean=(0.1, 0.2)), Scaling(std=(1.0, 2.0, 3.0, 4.0))):
        with pytest.raises(WorkloadError, match="one value or 3"):
            wrong.sample(Image.new("RGB", (4, 4)), size, "float32")


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


def test_pictures_of_a_folder_come_by_name_and_others_are_left(tmp_path) -> None:
    for name in ("b.png", "a.jpg", "c.BMP"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    assert [title for title, _ in pictures_of(tmp_path)] == ["a.jpg", "b.png", "c.BMP"]
    assert [file.name for file in image_files(tmp_path / "a.jpg")] == ["a.jpg"]


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
