# SPDX-License-Identifier: Apache-2.0
"""Run SCALE-Sim on random GEMMs and print its compute cycles as CSV.

    python -m venv scalesim && scalesim/bin/pip install scalesim==3.0.0 "numpy<2" "pandas<3"
    scalesim/bin/python bench/mapping/scalesim_runs.py > tests/unit/tuner/mapping/scalesim-3.0.0.csv

Bandwidth is ``CALC``: as much as the array asks for, so that nothing stalls.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import io
import os
import random
import sys
import tempfile
from pathlib import Path

SHAPES = ((8, 8), (16, 16), (4, 12), (15, 5))
FLOWS = ("os", "ws", "is")
GEMMS = 10
SEED = 16

CONFIG = """
[general]
run_name = run
[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {columns}
IfmapSramSzkB: 512
FilterSramSzkB: 512
OfmapSramSzkB: 512
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: {flow}
ReadRequestBuffer: 512
WriteRequestBuffer: 512
[layout]
IfmapCustomLayout: False
FilterCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


def cycles_of(rows: int, columns: int, flow: str, gemms: list[tuple[int, int, int]]) -> list[int]:
    """Compute cycles of GEMMs, each M, N, K."""
    from scalesim.scale_sim import scalesim  # noqa: PLC0415  (an environment of its own)

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("run.cfg").write_text(CONFIG.format(rows=rows, columns=columns, flow=flow))
        lines = [f"g{i}, {m}, {n}, {k}," for i, (m, n, k) in enumerate(gemms)]
        Path("gemms.csv").write_text("\n".join(["Layer, M, N, K,", *lines, ""]))
        Path("layout.csv").write_text("Layer\n")
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            simulator = scalesim(
                save_disk_space=True,
                verbose=False,
                config="run.cfg",
                topology="gemms.csv",
                layout="layout.csv",
                input_type_gemm=True,
            )
            simulator.run_scale(top_path=os.curdir)
        report = next(Path().rglob("COMPUTE_REPORT.csv")).read_text().splitlines()
    names = [name.strip() for name in report[0].split(",")]
    at = names.index("Total Cycles")
    return [int(float(line.split(",")[at])) for line in report[1:] if line.strip()]


def main() -> None:
    """Print the CSV."""
    rng = random.Random(SEED)
    version = importlib.metadata.version("scalesim")
    print(f"# scalesim {version}, seed {SEED}, bench/mapping/scalesim_runs.py")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("flow", "rows", "columns", "m", "n", "k", "cycles"))
    for rows, columns in SHAPES:
        for flow in FLOWS:
            gemms = [
                (rng.randint(1, 90), rng.randint(1, 90), rng.randint(1, 90)) for _ in range(GEMMS)
            ]
            for gemm, cycles in zip(gemms, cycles_of(rows, columns, flow, gemms), strict=True):
                writer.writerow((flow, rows, columns, *gemm, cycles))


if __name__ == "__main__":
    main()
