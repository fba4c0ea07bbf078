# SPDX-License-Identifier: Apache-2.0
"""Reads and quantises a model file in a process of its own, with limits of memory and time.

The native libraries behind it (ONNX, ONNX Runtime, PyTorch) can crash on a damaged or hostile file;
then a child dies, and the caller gets an error.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.children import python_command, python_environment
from tilewright.host.common.errors import (
    ToolError,
    WorkloadError,
    error_from_values,
    error_to_values,
)
from tilewright.host.common.library_loading import load_onnx_ir
from tilewright.host.common.scratch import scratch_folder
from tilewright.host.compiler.quantise.prepared import Prepared
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.float_model import is_torch_file
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

_REQUEST, _ARRAYS, _RESULT, _REPORT = "request.json", "arrays.npz", "qdq.onnx", "report.json"
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
        return _read_result(self._folder, self.path, code)


@contextmanager
def reading(
    path: Path, calibration: Calibration | None, options: ImportOptions
) -> Iterator[Reading]:
    """Begin to read and quantise an ONNX or ``.pt2`` file in a child process.

    The child ends with the context, whatever it has done by then.
    """
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
        _write_request(folder, request, calibration)
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


def _write_request(
    folder: Path, request: Mapping[str, Any], calibration: Calibration | None
) -> None:
    data = dict(request)
    if calibration is not None:
        data["calibration"] = {
            f.name: getattr(calibration, f.name)
            for f in fields(calibration)
            if f.name not in ("arrays", "path")
        }
        if calibration.path is not None:
            data["calibration_path"] = str(calibration.path.absolute())
        if calibration.arrays is not None:
            data["arrays"] = list(calibration.arrays)
            arrays = {f"a{i}": np.asarray(a) for i, a in enumerate(calibration.arrays.values())}
            np.savez(folder / _ARRAYS, **arrays)  # type: ignore[arg-type]  # no key is "file"
    (folder / _REQUEST).write_text(json.dumps(data))


def _read_result(folder: Path, path: Path, code: int) -> Prepared:
    report_file = folder / _REPORT
    if code or not report_file.is_file():
        raise _crash(folder, path, code)
    report = json.loads(report_file.read_text())
    if "error" in report:
        raise error_from_values(report["error"], "the process that reads the model")
    import onnx  # noqa: PLC0415  (not needed to begin)

    return Prepared(
        model=onnx.load(folder / _RESULT, load_external_data=False),
        was_quantised=report["was_quantised"],
        seconds=report["seconds"],
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
    _limit_memory(request["memory_bytes"])
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


def _limit_memory(limit: int) -> None:
    if not limit:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _serve(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    # What the reading of a file needs comes first: a damaged one is told of at once.
    import onnx  # noqa: PLC0415  (not needed to begin)

    from tilewright.host.compiler.read import model_file, own_operators  # noqa: PLC0415  (heavy)

    path, origin = Path(request["path"]), Path(request["named"])
    shapes = {name: tuple(shape) for name, shape in request["input_shapes"].items()}
    calibration = _calibration(request, folder)
    own = own_operators.OwnOperators(request["operators"])
    if is_torch_file(path):
        if zipfile.is_zipfile(path):
            (folder / _READ).touch()
        from tilewright.host.compiler.read.torch_export import export_file  # noqa: PLC0415  (heavy)

        exported = export_file(path, named=origin, trusted=request["trust_model"])
        model = model_file.normalised(exported, origin, shapes, own)
    else:
        model = model_file.read_model(path, shapes, own)
        (folder / _READ).touch()
    load_onnx_ir()
    from tilewright.host.compiler.quantise.prepare import prepare  # noqa: PLC0415  (heavy)

    options = QuantiseOptions(**request["options"])
    prepared = prepare(model, origin, calibration, options, own)
    onnx.save(prepared.model, folder / _RESULT)
    return {"was_quantised": prepared.was_quantised, "seconds": prepared.seconds}


def _calibration(request: Mapping[str, Any], folder: Path) -> Calibration | None:
    if "calibration" not in request:
        return None
    stated: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in request["calibration"].items()
    }
    if "calibration_path" in request:
        stated["path"] = Path(request["calibration_path"])
    if "arrays" in request:
        with np.load(folder / _ARRAYS) as loaded:
            stated["arrays"] = {n: loaded[f"a{i}"] for i, n in enumerate(request["arrays"])}
    return Calibration(**stated)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # all is written, and the libraries would take their time to leave
