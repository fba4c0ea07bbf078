# SPDX-License-Identifier: Apache-2.0
"""Calibration data: what a network's inputs look like, for the ranges of its activations."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.names import counted
from tilewright.host.common.zip_archives import require_regular
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.remedies import GIVE_ARRAYS
from tilewright.host.vision.names import Fit
from tilewright.host.vision.pictures import (
    IMAGE_SUFFIXES,
    InputSize,
    Scaling,
    image_files,
    is_image,
    read_picture,
)

Array = npt.NDArray[Any]

MAX_ARRAY_BYTES: Final = 2**31
"""Of an array of samples, which is held in memory as a whole."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """Where calibration data come from; exactly one of the first three is given.

    Attributes:
        path: a folder of images or an image, an ``.npy`` file, or an ``.npz`` file with one array
            an input.
        arrays: by input name (any name, if there is one); each a whole number of batches along the
            first axis.
        random_samples: so many batches of normally distributed noise. Ranges are then made up:
            good for timing, not for accuracy.
        mean, std: of an image's channels after scaling to 0..1; what is fed is (image-mean)/std.
        fit: how an image of other proportions becomes an input.
    """

    path: Path | None = None
    arrays: Mapping[str, Array] | None = None
    random_samples: int | None = None
    seed: int = 0  # of the noise
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    fit: str = Fit.CROP
    limit: int = 256  # most batches that are used of given data, and may be asked for at random

    def __post_init__(self) -> None:
        """Validate."""
        given = [self.path, self.arrays, self.random_samples]
        if sum(source is not None for source in given) != 1:
            raise WorkloadError(
                "must state exactly one of path, arrays and random_samples",
                field="calibration",
                remedy="give one of the three",
            )
        if self.random_samples is not None and self.random_samples < 1:
            raise WorkloadError(
                "must be positive",
                field="calibration[random_samples]",
                value=self.random_samples,
                remedy="8 batches are enough to measure cycles",
            )
        if self.limit < 1:
            raise WorkloadError(
                "must be positive",
                field="calibration[limit]",
                value=self.limit,
                remedy="leave it out for 256 batches",
            )
        if (self.random_samples or 0) > self.limit:
            raise WorkloadError(
                f"must be at most {self.limit}",
                field="calibration[random_samples]",
                value=self.random_samples,
                remedy="8 batches are enough to measure cycles",
            )
        Scaling(mean=self.mean, std=self.std)

    @property
    def origin(self) -> str:
        """Where the data come from, in words."""
        if self.path is not None:
            return str(self.path)
        if self.arrays is not None:
            return "arrays"
        return counted(self.random_samples or 0, "random input")

    def require_images(self) -> None:
        """Refuse a mean or deviation where the data are no images: nothing would be scaled."""
        if self.has_images:
            return
        for name, values, plain in (("mean", self.mean, 0.0), ("std", self.std, 1.0)):
            if any(value != plain for value in values):
                raise WorkloadError(
                    "scales images alone",
                    field=f"calibration.{name}",
                    value=self.origin,
                    remedy="leave it out; arrays are taken as they are",
                )

    @property
    def has_images(self) -> bool:
        """Whether the data are images, which are scaled to the input."""
        return self.path is not None and (self.path.is_dir() or is_image(self.path))

    def pictures(self) -> dict[str, Any]:
        """How images become inputs, as plain values; empty: the data are none."""
        if not self.has_images:
            return {}
        return {"mean": list(self.mean), "std": list(self.std), "fit": str(self.fit)}

    def batches(self, inputs: Sequence[Argument]) -> Iterator[dict[str, Array]]:
        """Inputs by name, in the shapes and types of the model.

        An int8 input with a scale takes real numbers, which are quantised here, or int8 arrays.
        """
        quantised = {argument.name: argument for argument in inputs if argument.is_quantised}
        for batch in self._real_batches(inputs):
            yield {
                name: quantised[name].quantise(array)
                if name in quantised and array.dtype.kind == "f"
                else array
                for name, array in batch.items()
            }

    def _real_batches(self, stated: Sequence[Argument]) -> Iterator[dict[str, Array]]:
        """Inputs before they are quantised."""
        inputs = [argument.real for argument in stated]
        if self.random_samples is not None:
            source = self._noise(inputs)
        elif self.has_images:
            source = self._images(inputs)
        else:
            arrays = dict(self.arrays or {}) if self.path is None else _load(self.path, stated)
            source = _split(*_fitting(arrays, stated))
        empty = True
        for _, batch in zip(range(self.limit), source, strict=False):
            empty = False
            yield batch
        if empty:
            raise WorkloadError(
                "must hold at least one batch",
                field="calibration",
                remedy=f"give more samples; images end in {', '.join(sorted(IMAGE_SUFFIXES))}",
            )

    def _noise(self, inputs: Sequence[Argument]) -> Iterator[dict[str, Array]]:
        rng = np.random.default_rng(self.seed)
        for argument in inputs:
            if not argument.dtype.startswith("float"):
                raise WorkloadError(
                    "random samples need inputs of float type",
                    field=f"calibration[{argument.name}]",
                    value=argument.dtype,
                    remedy=GIVE_ARRAYS,
                )
        for _ in range(self.random_samples or 0):
            yield {a.name: rng.normal(size=a.shape).astype(a.dtype) for a in inputs}

    def _images(self, inputs: Sequence[Argument]) -> Iterator[dict[str, Array]]:
        assert self.path is not None
        size = picture_size(inputs)
        (argument,) = inputs
        scaling = Scaling(mean=self.mean, std=self.std, fit=self.fit)
        batch: list[Array] = []
        for file in image_files(self.path):
            batch.append(scaling.sample(read_picture(file), size, argument.dtype)[0])
            if len(batch) == size.batch:
                yield {argument.name: np.stack(batch).astype(argument.dtype)}
                batch = []


def picture_size(inputs: Sequence[Argument]) -> InputSize:
    """The size of pictures that a network's one input takes; a network without is refused."""
    size = InputSize.of(inputs[0].shape) if len(inputs) == 1 else None
    if size is None:
        raise WorkloadError(
            "images fit a network with one input (N, 1 or 3, H, W) or (N, H, W, 1 or 3)",
            field="calibration",
            value=[argument.shape for argument in inputs],
            remedy="give an .npz file",
        )
    return size


def _load(path: Path, stated: Sequence[Argument]) -> dict[str, Array]:
    """The arrays of a file, once what it says of them fits: a small one can hold gigabytes."""
    try:
        require_regular(path)
        with path.open("rb") as file:
            packed = zipfile.is_zipfile(file)
            file.seek(0)
            outlines = {} if packed else {"": _outline(file)}
        if packed:
            with zipfile.ZipFile(path) as members:
                for member in members.namelist():
                    with members.open(member) as stream:
                        outlines[member.removesuffix(".npy")] = _outline(stream)
        _fitting(outlines, stated)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        wanted = {argument.name for argument in stated}
        with loaded:
            only = len(loaded.files) == 1
            return {name: loaded[name] for name in loaded.files if only or name in wanted}
    except WorkloadError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds for damaged files
        why = "it is none" if re.search("pickle|magic", str(error)) else str(error)
        raise WorkloadError(
            f"must be an image, a folder of images, an .npy or an .npz file ({why})",
            field="calibration",
            value=str(path),
            remedy="check the path; numpy.save and numpy.savez write such files",
        ) from error


def _outline(file: IO[bytes]) -> Array:
    """An array of the shape and type in an .npy file's header, which takes no memory."""
    header = np.lib.format
    read = {(1, 0): header.read_array_header_1_0, (2, 0): header.read_array_header_2_0}
    shape, _, dtype = read[header.read_magic(file)](file)
    if dtype.hasobject:
        raise ValueError("pickle")
    return np.broadcast_to(np.empty((), dtype), shape)


def _fitting(
    given: Mapping[str, Array], stated: Sequence[Argument]
) -> tuple[dict[str, Array], list[Argument]]:
    """Arrays by input and the inputs that they are for; refused by shape, type and size."""
    arrays = dict(given)
    if len(stated) == len(arrays) == 1:
        arrays = {stated[0].name: next(iter(arrays.values()))}
    inputs = [
        argument if getattr(arrays.get(argument.name), "dtype", None) == np.int8 else argument.real
        for argument in stated
    ]
    for argument in inputs:
        field = f"calibration[{argument.name}]"
        array = arrays.get(argument.name)
        if array is None:
            raise WorkloadError(
                "must be given for every input",
                field=field,
                value=sorted(arrays)[:8],
                remedy="name the arrays of the .npz file after the inputs of the model",
            )
        batch = argument.shape[0] if argument.shape else 1
        fits = array.ndim == len(argument.shape) and array.shape[1:] == argument.shape[1:]
        if not fits or not array.size or (array.shape[:1] and array.shape[0] % batch):
            raise WorkloadError(
                f"must have the shape {argument.shape}, its first axis a multiple of that",
                field=field,
                value=array.shape,
                remedy="stack whole samples along the first axis",
            )
        if not np.can_cast(array.dtype, argument.dtype, "same_kind"):
            raise WorkloadError(
                f"must be convertible to {argument.dtype}",
                field=field,
                value=str(array.dtype),
                remedy=f"convert it with .astype('{argument.dtype}') where no value is lost",
            )
        if array.nbytes > MAX_ARRAY_BYTES:
            raise WorkloadError(
                f"must have at most {MAX_ARRAY_BYTES:,} bytes",
                field=field,
                value=array.shape,
                remedy="give fewer samples",
            )
    return arrays, inputs


def _split(arrays: Mapping[str, Array], inputs: Sequence[Argument]) -> Iterator[dict[str, Array]]:
    """Batches along the first axis."""
    counts = set()
    for argument in inputs:
        array, batch = arrays[argument.name], argument.shape[0] if argument.shape else 1
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WorkloadError(
                "must be finite numbers",
                field=f"calibration[{argument.name}]",
                remedy="remove NaN and infinity from the data",
            )
        counts.add(array.shape[0] // batch if array.shape else 1)
    if len(counts) != 1:
        raise WorkloadError(
            "all inputs must have as many samples",
            field="calibration",
            remedy="cut the arrays to the same number of samples",
        )
    for index in range(counts.pop()):
        yield {a.name: _batch(arrays[a.name], index, a).astype(a.dtype, order="C") for a in inputs}


def _batch(array: Array, index: int, argument: Argument) -> Array:
    """The batch of that number; numbers are in every batch."""
    size = argument.shape[0] if argument.shape else 0
    return array[index * size : (index + 1) * size] if argument.shape else array
