# SPDX-License-Identifier: Apache-2.0
"""From an ONNX file to the first cycle count: what a user waits for.

Each network of `examples/networks` is exported, or an ONNX file is taken as it is. `tilewright
compile --random-calibration 1 --search 0` runs on a terminal of its own, first once to warm the
files' cache. Told, as median, least and most of the runs: seconds until progress is shown, until
the cycle count is, and until the command ends; and CPU seconds of its processes.

    tilewright bench first-count --networks resnet18,mobilenet-v2 --repeat 5
"""

from __future__ import annotations

import os
import platform
import pty
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable, table_of
from tilewright.host.common.children import python_command
from tilewright.host.common.clone_parts import clone_part

COUNT: Final = b"cycles on the twin"


def export(name: str, folder: Path) -> Path:
    """An ONNX file of a network of `examples/networks`; a path is taken as it is."""
    if name.endswith(".onnx"):
        return Path(name)
    import torch  # noqa: PLC0415  (not needed for files)

    examples = clone_part("examples/networks", "networks")
    shape, path = examples.NETWORKS[name].input_shape, folder / f"{name}.onnx"
    torch.onnx.export(
        examples.build(name), (torch.zeros(shape),), path, dynamo=True, external_data=False,
        verbose=False,
    )  # fmt: skip
    return path


def measure(model: Path, hw: str, folder: Path) -> dict[str, float]:
    """Seconds of one run."""
    words = [
        *python_command("-m", "tilewright.cli", "compile", str(model), "--hw", hw),
        *("--random-calibration", "1", "--search", "0", "--output", str(folder / "network.tw")),
    ]
    terminal, end = pty.openpty()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=end, stderr=end, env=os.environ | {"TERM": "xterm"}
    )
    os.close(end)
    told: dict[str, float] = {}
    text = b""
    while part := _read(terminal):
        text += part
        told.setdefault("progress", time.perf_counter() - started)
        if COUNT in text:
            told.setdefault("count", time.perf_counter() - started)
    os.close(terminal)
    code = command.wait()
    whole = time.perf_counter() - started
    if code or "count" not in told:
        raise subprocess.CalledProcessError(code, words, text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**told, "whole": whole, "cpu": cpu}


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says that the other end is closed
        return b""


class FirstCount(Study):
    """Networks one after another."""

    says = ""

    def cells(self) -> list[Cell]:
        return [{"network": name} for name in self.settings.networks]

    def measure(self, cell: Cell) -> list[Row]:
        given = self.settings
        with tempfile.TemporaryDirectory(prefix="tilewright-bench-") as name:
            model = export(cell["network"], Path(name))
            load = os.getloadavg()[0]
            runs = [measure(model, given.hw, Path(name)) for _ in range(1 + given.repeat)][1:]
        row: dict[str, Any] = {"load_before": round(load, 2)}
        for what in runs[0]:
            values = [each[what] for each in runs]
            row[f"{what}_seconds"] = round(statistics.median(values), 2)
            row[f"{what}_seconds_least"] = round(min(values), 2)
            row[f"{what}_seconds_most"] = round(max(values), 2)
        return [row]

    def conditions(self) -> Row:
        return {
            "hw": self.settings.hw,
            "runs": self.settings.repeat,
            "cpus": os.cpu_count(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        }

    def tables(self, document: Row) -> Iterator[FigureTable]:
        yield table_of(
            "From a file to its cycle count",
            document["rows"],
            {
                "network": "{network}",
                **{
                    f"{what}, s": f"{{{what}_seconds}} ({{{what}_seconds_least}} to "
                    f"{{{what}_seconds_most}})"
                    for what in ("progress", "count", "whole", "cpu")
                },
            },
        )
