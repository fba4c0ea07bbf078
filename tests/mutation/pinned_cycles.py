# SPDX-License-Identifier: Apache-2.0
"""Record the cycles that `timing` and `patience` pin; run it when timing changes on purpose."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation.models import CONFIGS, PINNED, TINY, Model
from mutation.regression import data, measure_patience, measure_pinned

from tilewright.host.common.errors import TilewrightError
from tilewright.sim.verilator.build import build_model


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the pinned programs and show what moved; --write records it."""
    parser = argparse.ArgumentParser(prog="pinned_cycles.py", description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="record the counters")
    options = parser.parse_args(arguments)
    known = json.loads(PINNED.read_text(encoding="utf-8")) if PINNED.is_file() else {}
    pinned: dict[str, dict[str, int]] = {}
    try:
        for hw in CONFIGS.values():
            model = Model(hw=hw, library=build_model(hw), seed=1)
            data(model)  # wrong results have no timing worth recording
            pinned.update(measure_pinned(model))
            if hw is TINY:
                pinned.update(measure_patience(model))
    except (AssertionError, TilewrightError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    changed = [label for label in pinned if pinned[label] != known.get(label)]
    for label in changed:
        name = next(iter(pinned[label]))  # the cycles, or the watchdog limit
        before = known.get(label, {}).get(name, "new")
        sys.stdout.write(f"{label}: {before} -> {pinned[label][name]} cycles\n")
    sys.stdout.write(f"{len(changed)} of {len(pinned)} runs differ\n")
    if options.write:
        rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in pinned.items()]
        PINNED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        return 0
    return int(bool(changed) or known.keys() != pinned.keys())


if __name__ == "__main__":
    sys.exit(main())
