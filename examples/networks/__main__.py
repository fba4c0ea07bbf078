# SPDX-License-Identifier: Apache-2.0
"""Import networks, divide them between accelerator and CPU, and print what runs where.

cd examples && python -m networks [NAME ...]
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter

import numpy as np

from networks import NETWORKS, build
from tilewright.host.compiler.pipeline import ImportedNetwork, import_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.run.relax_host import HostProgram


def imported(name: str, samples: int = 2) -> ImportedNetwork:
    """A network of this folder, quantised with noise for data."""
    shape = NETWORKS[name].input_shape
    data = np.random.default_rng(0).normal(size=(samples, *shape[1:])).astype(np.float32)
    return import_network(
        build(name),
        calibration=Calibration(arrays={"x": data}),
        options=ImportOptions(name=name),
    )


def report(name: str) -> None:
    """Print one network."""
    network = imported(name)
    started = time.perf_counter()
    parts = partition(network)
    divided = time.perf_counter()
    HostProgram(module=parts.host)
    seconds = {
        **network.seconds,
        "partition": divided - started,
        "compile CPU part": time.perf_counter() - divided,
    }
    print(f"{name}: {len(parts.regions)} regions")
    print("  " + ", ".join(f"{stage} {value:.2f} s" for stage, value in seconds.items()))
    print(f"  at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB so far")
    counts = Counter((p.place, p.kind, p.reason) for p in parts.placements)
    for (place, kind, reason), count in sorted(counts.items()):
        print(f"  {place:12}{count:4} x {kind:20}{reason}")


def main() -> None:
    """Report on the networks that are named, or on all."""
    for name in sys.argv[1:] or NETWORKS:
        report(name)


if __name__ == "__main__":
    main()
