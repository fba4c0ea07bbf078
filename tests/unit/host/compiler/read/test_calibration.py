# SPDX-License-Identifier: Apache-2.0
"""Calibration data from arrays, files, images and noise."""

import resource
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.vision import pictures

X = Argument(name="x", shape=(2, 3), dtype="float32")
TOKENS = Argument(name="tokens", shape=(2, 4), dtype="int64")
IMAGE = Argument(name="image", shape=(1, 3, 4, 6), dtype="float32")


def test_files_hold_arrays(tmp_path) -> None:
    one, many = tmp_path / "x.npy", tmp_path / "both.npz"
    np.save(one, np.ones((2, 3)))
    np.savez(many, x=np.ones((4, 3)), tokens=np.ones((4, 4), np.int64))
    assert len(list(Calibration(path=one).batches([X]))) == 1
    assert len(list(Calibration(path=many).batches([X, TOKENS]))) == 2
    assert len(list(Calibration(path=many, limit=1).batches([X, TOKENS]))) == 1


def test_noise_is_reproducible_and_only_for_floats() -> None:
    first, again = (list(Calibration(random_samples=3, seed=5).batches([X])) for _ in range(2))
    assert len(first) == 3
    np.testing.assert_array_equal(first[2]["x"], again[2]["x"])
    with pytest.raises(WorkloadError, match="random samples need inputs of float type"):
        list(Calibration(random_samples=1).batches([TOKENS]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": np.zeros((2, 3))}, "must be given for every input"),
        ({"x": np.zeros((3, 3)), "tokens": np.zeros((2, 4), int)}, "its first axis a multiple"),
        ({"x": np.zeros((2, 4)), "tokens": np.zeros((2, 4), int)}, r"must have the shape \(2, 3\)"),
        ({"x": np.zeros((2, 3)), "tokens": np.zeros((2, 4))}, "must be convertible to int64"),
        ({"x": np.full((2, 3), np.nan), "tokens": np.zeros((2, 4), int)}, "finite"),
        ({"x": np.zeros((4, 3)), "tokens": np.zeros((2, 4), int)}, "as many samples"),
        ({"x": np.zeros((0, 3)), "tokens": np.zeros((0, 4), int)}, "its first axis a multiple"),
    ],
)
def test_data_that_do_not_fit_are_refused(data, message) -> None:
    with pytest.raises(WorkloadError, match=message):
        list(Calibration(arrays=data).batches([X, TOKENS]))


def test_damaged_files_are_refused(tmp_path, monkeypatch) -> None:
    def refused(name: str, rule: str, port: Argument = X) -> None:
        with pytest.raises(WorkloadError, match=rule):
            list(Calibration(path=tmp_path / name).batches([port]))

    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 nothing")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    for name in ("x.npz", "missing.npy", "objects.npy"):
        refused(name, "must be an image, a folder")
    (tmp_path / "text.md").write_text("no array", encoding="utf-8")
    refused("text.md", r"an \.npz file \(it is none\)")
    folder = tmp_path / "images"
    folder.mkdir()
    refused("images", "must hold at least one batch", IMAGE)
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    monkeypatch.setattr(pictures, "MAX_IMAGE_PIXELS", 63)
    refused("images", r"a.png: must be an image .*more than 63 pixels", IMAGE)
    (folder / "a.png").write_bytes(b"\x89PNG broken")
    refused("images", r"a.png: must be an image", IMAGE)


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((1, 4, 1 << 14, 1 << 14), np.float32, "must have the shape"),
        ((X.shape[0], *X.shape[1:]), np.complex64, "must be convertible"),
        ((X.shape[0] << 30, *X.shape[1:]), np.float32, "must have at most"),
    ],
)
def test_a_small_file_of_gigabytes_is_refused_unread(tmp_path, monkeypatch, shape, kind, message):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as file, file.open("x.npy", "w") as member:
        header = {"shape": shape, "fortran_order": False, "descr": np.dtype(kind).str}
        np.lib.format.write_array_header_1_0(member, header)
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(WorkloadError, match=message):
        list(Calibration(path=tmp_path / "bomb.npz").batches([X]))


def test_images_need_one_input_of_images(tmp_path) -> None:
    with pytest.raises(WorkloadError, match="images fit a network with one input"):
        list(Calibration(path=tmp_path).batches([X]))


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"random_samples": 0},
        {"random_samples": 257},
        {"random_samples": 1, "arrays": {}},
        {"random_samples": 1, "limit": 0},
        {"random_samples": 1, "std": (0.0,)},
    ],
)
def test_senseless_settings_are_refused(stated) -> None:
    with pytest.raises(WorkloadError, match="calibration"):
        Calibration(**stated)


@pytest.mark.parametrize("number", range(8))
def test_scaling_the_middle_alone_gives_the_middle_of_the_whole_scaled(tmp_path, number) -> None:
    rng = fresh_rng()
    height, width, rows, columns = (int(n) for n in rng.integers(3, 60, 4))
    pixels = rng.integers(96, 160, (height, width, 3), np.uint8)  # no pass of the filter clips
    Image.fromarray(pixels).save(tmp_path / "image.png")
    scale = max(rows / height, columns / width)
    size = (max(round(width * scale), columns), max(round(height * scale), rows))
    whole = np.asarray(Image.fromarray(pixels).resize(size), np.float32) / 255
    top, left = (size[1] - rows) // 2, (size[0] - columns) // 2
    expected = whole[top : top + rows, left : left + columns].transpose(2, 0, 1)
    argument = Argument(name="x", shape=(1, 3, rows, columns), dtype="float32")
    (batch,) = Calibration(path=tmp_path / "image.png").batches([argument])
    # Two passes that round, in either order.
    np.testing.assert_allclose(batch["x"][0], expected, atol=2.5 / 255)


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000)])
def test_a_narrow_image_takes_little_memory(tmp_path, size) -> None:
    """Scaled as a whole it would have a billion pixels: 9.6 GB."""
    Image.new("L", size, 128).save(tmp_path / "narrow.png")
    argument = Argument(name="x", shape=(1, 3, 224, 224), dtype="float32")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limits[1]))
    try:
        (batch,) = Calibration(path=tmp_path / "narrow.png").batches([argument])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    np.testing.assert_allclose(batch["x"], 128 / 255, atol=1 / 255)
