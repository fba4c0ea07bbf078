# SPDX-License-Identifier: Apache-2.0
"""Compile networks, dividing them between accelerator and CPU, and print what runs where.

cd examples && python -m networks [NAME ...]
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter

import numpy as np

import tilewright as tw
from networks import NETWORKS, build


def report(name: str, samples: int = 2) -> None:
    """Compile one network of this folder, quantised with noise for data, and print its parts."""
    shape = NETWORKS[name].input_shape
    noise = np.random.default_rng(0).normal(size=(samples, *shape[1:])).astype(np.float32)
    started = time.perf_counter()
    network = tw.compile(
        build(name), board="zcu104", calibration=noise, offload_all=True, search=0, name=name
    )
    print(f"{name}: {len(network.regions)} regions, {time.perf_counter() - started:.1f} s")
    print(f"  at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB so far")
    counts = Counter((p.where, p.kind, p.reason) for p in network.placements)
    for (where, kind, reason), count in sorted(counts.items()):
        print(f"  {where:12}{count:4} x {kind:20}{reason}")


def main() -> None:
    """Report on the networks that are named, or on all."""
    names = sys.argv[1:] or list(NETWORKS)
    if unknown := [name for name in names if name not in NETWORKS]:
        sys.exit(f"{unknown[0]}: no network of this folder; use one of {', '.join(NETWORKS)}")
    for name in names:
        report(name)


if __name__ == "__main__":
    main()
