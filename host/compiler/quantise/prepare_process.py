# SPDX-License-Identifier: Apache-2.0
"""Reads and quantises a model file in a process of its own, with limits of memory and time.

The native libraries behind it (ONNX, ONNX Runtime, PyTorch) can crash on a damaged or hostile file;
then a child dies, and the caller gets an error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.children import limit_memory, python_command, python_environment
from tilewright.host.common.errors import (
    ToolError,
    WorkloadError,
    error_from_values,
    error_to_values,
)
from tilewright.host.common.library_loading import load_onnx_ir
from tilewright.host.common.scratch import scratch_folder
from tilewright.host.common.zip_archives import require_regular
from tilewright.host.compiler.quantise.prepared import Accuracy, Prepared
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.float_model import is_tflite_file, is_torch_file
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

_REQUEST, _RESULT, _REPORT = "request.json", "qdq.onnx", "report.json"
_ARRAYS, _CHECKED, _EXPECTED = "arrays.npz", "checked.npz", "expected.npz"
_READ: Final = "read"
"""File that says that the model could be read, so that more than the child is worth its start."""

_LOOK_SECONDS: Final = 0.01


class Reading:
    """A child process that reads and quantises a model file (`reading`).

    Attributes:
        path: of the model.
        calibration: see `prepare.prepare`.
        options: of the import.
    """

    def __init__(
        self,
        path: Path,
        calibration: Calibration | None,
        options: ImportOptions,
        *,
        folder: Path,
        child: subprocess.Popen[bytes],
    ) -> None:
        self.path, self.calibration, self.options = path, calibration, options
        self._folder, self._child = folder, child

    def finish(self, meanwhile: Callable[[], None] = lambda: None) -> Prepared:
        """Wait for the child."""
        seconds = self.options.limits.seconds
        try:
            _await_reading(self._child, self._folder, seconds)
            if (self._folder / _READ).exists():
                meanwhile()
            code = self._child.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise WorkloadError(
                f"must be readable in {seconds:g} s",
                field=str(self.path),
                remedy="raise options.limits.seconds, or use fewer calibration data",
            ) from error
        origin = "" if self.calibration is None else self.calibration.origin
        return _read_result(self._folder, self.path, code, origin)


@contextmanager
def reading(
    path: Path,
    calibration: Calibration | None,
    options: ImportOptions,
    check: Calibration | None = None,
) -> Iterator[Reading]:
    """Begin to read and quantise an ONNX, ``.pt2`` or ``.tflite`` file in a child process.

    The child ends with the context, whatever it has done by then.
    """
    try:
        require_regular(path)
    except OSError as error:
        raise WorkloadError(
            "a model must be a readable file", field=str(path), remedy=str(error.strerror)
        ) from error
    with scratch_folder() as folder:
        request = {
            "path": str(path.absolute()),
            "named": str(path),
            "input_shapes": dict(options.input_shapes),
            "options": asdict(options.quantise),
            "memory_bytes": options.limits.memory_bytes,
            "trust_model": options.trust_model,
            "operators": list(options.operators),
        }
        request["calibration"] = _stated(calibration, folder / _ARRAYS)
        request["check"] = _stated(check, folder / _CHECKED)
        (folder / _REQUEST).write_text(json.dumps(request))
        with (folder / "messages").open("wb+") as messages:
            child = subprocess.Popen(
                python_command("-m", __name__, str(folder)),
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                env=python_environment(),
            )
        try:
            yield Reading(path, calibration, options, folder=folder, child=child)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


def _await_reading(child: subprocess.Popen[bytes], folder: Path, seconds: float) -> None:
    """Wait until the child has read the model, or has ended."""
    end = time.monotonic() + seconds
    while not (folder / _READ).exists():
        try:
            child.wait(_LOOK_SECONDS)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise


def _stated(data: Calibration | None, arrays: Path) -> dict[str, Any] | None:
    """Data as plain values; arrays are written to a file."""
    if data is None:
        return None
    stated: dict[str, Any] = {
        f.name: getattr(data, f.name) for f in fields(data) if f.name not in ("arrays", "path")
    }
    if data.path is not None:
        stated["path"] = str(data.path.absolute())
    if data.arrays is not None:
        stated["arrays"] = list(data.arrays)
        _write_arrays(arrays, data.arrays.values())
    return stated


def _write_arrays(file: Path, arrays: Iterable[Any]) -> None:
    """Arrays by number: names of a model's tensors may be any text."""
    numbered = {f"a{index}": np.asarray(array) for index, array in enumerate(arrays)}
    np.savez(file, **numbered)  # type: ignore[arg-type]  # no key is "file"


def _read_result(folder: Path, path: Path, code: int, origin: str) -> Prepared:
    report_file = folder / _REPORT
    if code or not report_file.is_file():
        raise _crash(folder, path, code)
    report = json.loads(report_file.read_text())
    if "error" in report:
        raise error_from_values(report["error"], "the process that reads the model")
    import onnx  # noqa: PLC0415  (not needed to begin)

    accuracy = report["accuracy"]
    if accuracy["agreement"]:
        accuracy["agreement"]["origin"] = origin  # as the caller names it
    if accuracy["expected"]:
        with np.load(folder / _EXPECTED) as arrays:
            numbers = iter(range(len(arrays.files)))
            accuracy["expected"] = [
                {name: arrays[f"a{next(numbers)}"] for name in names}
                for names in accuracy["expected"]
            ]
    return Prepared(
        model=onnx.load(folder / _RESULT, load_external_data=False),
        was_quantised=report["was_quantised"],
        seconds=report["seconds"],
        accuracy=Accuracy(**accuracy),
    )


def _crash(folder: Path, path: Path, code: int) -> WorkloadError:
    lines = (folder / "messages").read_text(errors="replace").strip().splitlines()
    if code < 0:
        what = f"killed by {signal.Signals(-code).name}"
    else:
        what = lines[-1][:120] if lines else f"exit code {code}"
    return WorkloadError(
        f"must be a model that can be read without a crash ({what})",
        field=str(path),
        remedy="check it with onnx.checker; if it is large, raise options.limits.memory_bytes",
    )


# -- in the child --------------------------------------------------------------------------------


def main(folder: Path) -> None:
    """Serve the request in a folder."""
    request = json.loads((folder / _REQUEST).read_text())
    limit_memory(request["memory_bytes"])
    try:
        report = _serve(request, folder)
    except (ToolError, WorkloadError) as error:
        report = {"error": error_to_values(error)}
    except MemoryError:
        too_large = WorkloadError(
            "must fit into the memory",
            field=request["named"],
            remedy="raise options.limits.memory_bytes",
        )
        report = {"error": error_to_values(too_large)}
    (folder / _REPORT).write_text(json.dumps(report))


def _serve(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    # What the reading of a file needs comes first: a damaged one is told of at once.
    import onnx  # noqa: PLC0415  (not needed to begin)

    from tilewright.host.compiler.read import model_file, own_operators  # noqa: PLC0415  (heavy)

    path, origin = Path(request["path"]), Path(request["named"])
    shapes = {name: tuple(shape) for name, shape in request["input_shapes"].items()}
    calibration = _calibration(request["calibration"], folder / _ARRAYS)
    check = _calibration(request["check"], folder / _CHECKED)
    own = own_operators.OwnOperators(request["operators"])
    if is_torch_file(path):
        if zipfile.is_zipfile(path):
            (folder / _READ).touch()
        from tilewright.host.compiler.read.torch_export import export_file  # noqa: PLC0415  (heavy)

        exported = export_file(path, named=origin, trusted=request["trust_model"])
        model = model_file.normalised(exported, origin, shapes, own)
    elif is_tflite_file(path):
        from tilewright.host.compiler.read.tflite.model import read_tflite  # noqa: PLC0415  (not needed for others)

        model = model_file.normalised(read_tflite(path, shapes, origin), origin, {}, own)
        (folder / _READ).touch()
    else:
        model = model_file.read_model(path, shapes, own)
        (folder / _READ).touch()
    load_onnx_ir()
    from tilewright.host.compiler.quantise.prepare import prepare  # noqa: PLC0415  (heavy)

    options = QuantiseOptions(**request["options"])
    prepared = prepare(model, origin, calibration, options, own, check)
    onnx.save(prepared.model, folder / _RESULT)
    expected = prepared.accuracy.expected
    _write_arrays(folder / _EXPECTED, (array for batch in expected for array in batch.values()))
    accuracy = vars(prepared.accuracy) | {"expected": [list(batch) for batch in expected]}
    return {
        "was_quantised": prepared.was_quantised,
        "seconds": prepared.seconds,
        "accuracy": accuracy,
    }


def _calibration(request: Mapping[str, Any] | None, arrays: Path) -> Calibration | None:
    if request is None:
        return None
    stated: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in request.items()
    }
    if "path" in stated:
        stated["path"] = Path(stated["path"])
    if "arrays" in stated:
        with np.load(arrays) as loaded:
            stated["arrays"] = {n: loaded[f"a{i}"] for i, n in enumerate(stated["arrays"])}
    return Calibration(**stated)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # all is written, and the libraries would take their time to leave
