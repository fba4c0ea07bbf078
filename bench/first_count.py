# SPDX-License-Identifier: Apache-2.0
"""From an ONNX file to the first cycle count: what a user waits for.

Each network of `examples/networks` is exported, or an ONNX file is taken as it is. `tilewright
compile --random-calibration 1 --search 0` runs on a terminal of its own, first once to warm the
files' cache. Told, as median, least and most of the runs: seconds until progress is shown, until
the cycle count is, and until the command ends; and CPU seconds of its processes.

    python -m tilewright.bench.first_count resnet18 mobilenet-v2 --repeat 5
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.children import python_command
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.whole_file import MARK, write_whole

COUNT: Final = b"cycles on the twin"
NETWORKS: Final = ("resnet18", "mobilenet-v2")


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
    """Seconds of one run.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
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


def run(names: Sequence[str], *, hw: str, repeat: int) -> dict[str, Any]:
    """Measure networks one after another.

    Args:
        names: of `examples/networks`, or ONNX files.
        hw: configuration.
        repeat: runs of each, besides the first one, which does not count.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="tilewright-bench-") as name:
        folder = Path(name)
        for network in names:
            model = export(network, folder)
            load = os.getloadavg()[0]
            runs = [measure(model, hw, folder) for _ in range(1 + repeat)][1:]
            row: dict[str, Any] = {"network": network, "load_before": round(load, 2)}
            for what in runs[0]:
                values = [each[what] for each in runs]
                row[f"{what}_seconds"] = round(statistics.median(values), 2)
                row[f"{what}_seconds_least"] = round(min(values), 2)
                row[f"{what}_seconds_most"] = round(max(values), 2)
            rows.append(row)
    return {
        "rows": rows,
        "conditions": {
            "hw": hw,
            "runs": repeat,
            "cpus": os.cpu_count(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
    }


def main(words: Sequence[str] | None = None) -> int:
    """Print a table of the networks."""
    parser = argparse.ArgumentParser(description="Time from an ONNX file to its cycle count.")
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="names or ONNX files")
    parser.add_argument("--hw", default="pynq-16x16", help="configuration")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each network")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args(words)
    document = run(options.networks, hw=options.hw, repeat=max(1, options.repeat))
    write = sys.stdout.write
    write("| network | progress, s | count, s | whole, s | CPU s |\n|---|--:|--:|--:|--:|\n")
    for row in document["rows"]:
        cells = (
            f"{row[f'{what}_seconds']} ({row[f'{what}_seconds_least']} to "
            f"{row[f'{what}_seconds_most']})"
            for what in ("progress", "count", "whole", "cpu")
        )
        write(f"| {row['network']} | {' | '.join(cells)} |\n")
    if options.json is not None:
        write_whole(options.json, json.dumps({"generator": MARK, **document}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
