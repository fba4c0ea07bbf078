# SPDX-License-Identifier: Apache-2.0
"""How long a new configuration takes to build, in a build cache that starts empty.

The first row also compiles what all models share (Verilator's run time, the harness); the others
show what each further configuration costs. `general` rows are the libraries that serve every
configuration with one bus width.

    tilewright bench builds

From an ONNX file to the first cycle count: each network of `examples/networks` is exported, or an
ONNX file is taken as it is. `tilewright compile --random-calibration 1 --search 0` runs on a
terminal of its own, first once to warm the files' cache. Told, as median, least and most of the
runs: seconds until progress is shown, until the cycle count is, and until the command ends; and CPU
seconds of its processes.

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.bench.commands import BuildsSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable, table_of
from tilewright.host.common.children import python_command
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.tools.toolchain import find_compiler, find_verilator
from tilewright.sim.verilator.build import build_model

CONFIGS = ("tiny-4x4", "edge-8x8", "pynq-16x16", "zu-32x32")
"""The first one also pays for what is shared."""


def timed(hw: HwConfig, fidelity: Fidelity, jobs: int) -> float:
    """Wall seconds of a build."""
    begin = time.perf_counter()
    build_model(hw, fidelity=fidelity, checks=False, jobs=jobs)
    return time.perf_counter() - begin


def one_round(jobs: int) -> dict[tuple[str, str], float]:
    """(configuration, fidelity) -> seconds, in an empty cache."""
    seconds: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = folder
        for name in CONFIGS:
            seconds[name, "rtl"] = timed(load_hwconfig(name), Fidelity.RTL, jobs)
        for fidelity in (Fidelity.DPI, Fidelity.TIMING):
            hw = load_hwconfig("pynq-16x16")
            seconds[f"general, {hw.axi_data_bits} bits", fidelity.value] = timed(hw, fidelity, jobs)
        hw = load_hwconfig("pynq-16x16")
        seconds[hw.name, "rtl, cached"] = timed(hw, Fidelity.RTL, jobs)
    return seconds


class BuildTimes(Study):
    """Every build in each round; a row is the median of its rounds."""

    says = "{config:22} {fidelity:12} {seconds:7.2f} s ({lowest} to {highest})"

    def __init__(self, settings: BuildsSettings) -> None:
        super().__init__(settings)
        self._before = os.getloadavg()[0]

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        times = [one_round(self.settings.jobs) for _ in range(self.settings.rounds)]
        for config, fidelity in times[0]:
            seconds = sorted(each[config, fidelity] for each in times)
            yield {
                "config": config,
                "fidelity": fidelity,
                "seconds": round(statistics.median(seconds), 2),
                "lowest": round(seconds[0], 2),
                "highest": round(seconds[-1], 2),
            }

    def conditions(self) -> Row:
        return {
            "rtl": rtl_digest(),
            **self.of_settings("jobs", "rounds"),
            "load_before_after": [self._before, os.getloadavg()[0]],
            "verilator": find_verilator().version,
            "compiler": find_compiler().version,
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return {
            f"build_seconds_{row['config']}": row["seconds"]
            for row in rows
            if row["config"] in CONFIGS and row["fidelity"] == "rtl"
        }


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
