# SPDX-License-Identifier: Apache-2.0
"""Price random mappings with ZigZag's cost model and print what moves as CSV.

    python -m venv zigzag && zigzag/bin/pip install zigzag-dse==3.9.1 six
    zigzag/bin/python bench/mapping/zigzag_runs.py > tests/unit/bench/mapping/zigzag-3.9.1.csv

The hardware: DRAM, one L2, one L1 per PE, each for all tensors; weights and inputs of one byte,
results of one, partial sums of four. Traffic and energy are priced by the byte, cycles with the
bandwidths below. Tiles divide evenly, since ZigZag's loops do. Its loops of a memory level are
those of ours that step below it: a PE tile in L1, inner steps in L2, outer steps in DRAM.
"""

from __future__ import annotations

import csv
import importlib.metadata
import random
import sys
from collections.abc import Iterator
from math import ceil, prod
from typing import Any

SEED = 16
MAPPINGS = 600
LOOPS = "KCYXRS"
"""Our names of the loops, in the order of `COLUMNS` in tuner/mapping/mapping.py."""

DIMS = {"K": "K", "C": "C", "Y": "OY", "X": "OX", "R": "FY", "S": "FX"}
ENERGY = {"mac": 1.0, "l1": 1.0, "l2": 6.0, "dram": 200.0}
"""Per multiply-accumulate, per byte read or written."""

NOC_BYTES, DRAM_BYTES = 64, 16
"""Bytes per cycle of L2 and DRAM, each direction of each."""

DIRECTIONS = {"read_down": "RD_OUT_TO_LOW", "write_up": "WR_IN_BY_LOW",
              "read_up": "RD_OUT_TO_HIGH", "write_down": "WR_IN_BY_HIGH"}  # fmt: skip
LEVELS = ("l1", "l2", "dram")
OPERANDS = ("W", "I", "O")

# kind, K, C, Y, X, R, S, stride
NESTS = (
    ("conv", 64, 64, 56, 56, 3, 3, 1),
    ("conv", 128, 64, 28, 28, 3, 3, 2),
    ("conv", 64, 3, 112, 112, 7, 7, 2),
    ("conv", 256, 64, 56, 56, 1, 1, 1),
    ("conv", 96, 16, 24, 24, 5, 5, 1),
    ("conv", 1000, 512, 1, 1, 1, 1, 1),
    ("depthwise", 1, 96, 56, 56, 3, 3, 1),
    ("depthwise", 1, 144, 28, 28, 3, 3, 2),
)


def divisors(number: int) -> list[int]:
    """All of them."""
    return [d for d in range(1, number + 1) if number % d == 0]


def draw(nest: tuple[Any, ...], rng: random.Random) -> dict[str, Any]:
    """A mapping whose tiles, clusters and PEs divide evenly; at most 256 PEs."""
    sizes = dict(zip(LOOPS, nest[1:7], strict=True))
    wide, parallel, outer, inner = {}, {}, {}, {}
    parallel["outer"], parallel["inner"] = rng.choice(LOOPS), rng.choice(LOOPS)
    wide["outer"] = rng.choice([d for d in divisors(sizes[parallel["outer"]]) if d <= 16])
    for loop, size in sizes.items():
        units = wide["outer"] if loop == parallel["outer"] else 1
        outer[loop] = rng.choice(divisors(size // units))
    wide["inner"] = rng.choice([d for d in divisors(outer[parallel["inner"]]) if d <= 16])
    for loop, size in outer.items():
        units = wide["inner"] if loop == parallel["inner"] else 1
        inner[loop] = rng.choice(divisors(size // units))
    orders = {level: rng.sample(LOOPS, len(LOOPS)) for level in ("outer", "inner")}
    return {"outer": outer, "inner": inner, "wide": wide, "parallel": parallel, "orders": orders}


def columns_of(mapping: dict[str, Any]) -> list[int]:
    """A mapping as a row of our batches."""
    place = LOOPS.index
    return [
        *(mapping["outer"][d] for d in LOOPS),
        *(mapping["inner"][d] for d in LOOPS),
        *map(place, mapping["orders"]["outer"]),
        *map(place, mapping["orders"]["inner"]),
        place(mapping["parallel"]["outer"]),
        place(mapping["parallel"]["inner"]),
        mapping["wide"]["outer"],
        mapping["wide"]["inner"],
    ]


def accelerator(clusters: int, cluster_size: int, *, by_the_byte: bool) -> Any:
    """Three memories; ``by_the_byte``: accesses are bytes, else words of the bandwidth."""
    from zigzag.parser.accelerator_factory import AcceleratorFactory  # noqa: PLC0415  (an environment of its own)
    from zigzag.parser.accelerator_validator import AcceleratorValidator  # noqa: PLC0415  (an environment of its own)

    def memory(level: str, width: int, served: list[str]) -> dict[str, Any]:
        # L1 serves its tensors at the same time; L2 and DRAM one after the other.
        groups = [[op] for op in ("I1", "I2", "O")] if level == "l1" else [["I1", "I2", "O"]]
        ports = []
        for number, operands in enumerate(groups, 1):
            for kind, (near, far) in (("read", ("tl", "th")), ("write", ("fh", "fl"))):
                ways = [f"{op}, {near}" for op in operands]
                ways += [f"O, {far}"] if "O" in operands else []
                ports.append(
                    {
                        "name": f"{kind[0]}_port_{number}",
                        "type": kind,
                        "bandwidth_min": 8,
                        "bandwidth_max": 8 if by_the_byte else 8 * width,
                        "allocation": ways,
                    }
                )
        return {
            "size": 8 << 40,
            "r_cost": ENERGY[level],
            "w_cost": ENERGY[level],
            "area": 0,
            "latency": 1,
            "operands": ["I1", "I2", "O"],
            "ports": ports,
            "served_dimensions": served,
        }

    data = {
        "name": "three_levels",
        "memories": {
            "l1": memory("l1", 1 << 20, []),
            "l2": memory("l2", NOC_BYTES, ["D1", "D2"]),
            "dram": memory("dram", DRAM_BYTES, ["D1", "D2"]),
        },
        "operational_array": {
            "is_imc": False,
            "unit_energy": ENERGY["mac"],
            "unit_area": 1,
            "dimensions": ["D1", "D2"],
            "sizes": [clusters, cluster_size],
        },
    }
    validator = AcceleratorValidator(data)
    assert validator.validate(), "the accelerator is invalid"
    return AcceleratorFactory(validator.normalized_data).create()


def layer_of(nest: tuple[Any, ...]) -> Any:
    """A layer as ZigZag has it."""
    from zigzag.parser.workload_factory import LayerNodeFactory  # noqa: PLC0415  (an environment of its own)
    from zigzag.parser.workload_validator import WorkloadValidator  # noqa: PLC0415  (an environment of its own)

    kind, *sizes, stride = nest
    outputs = "O[k][c][oy][ox]" if kind == "depthwise" else "O[k][oy][ox]"
    data = {
        "id": 0,
        "name": "layer",
        "operator_type": "Conv",
        "equation": f"{outputs}+=W[k][c][fy][fx]*I[c][iy][ix]",
        "dimension_relations": [f"iy={stride}*oy+1*fy", f"ix={stride}*ox+1*fx"],
        "loop_dims": list(DIMS.values()),
        "loop_sizes": sizes,
        "operand_precision": {"W": 8, "I": 8, "O": 32, "O_final": 8},
        "operand_source": {"W": 0, "I": 0},
    }
    links = {"O": "O", "W": "I2", "I": "I1"}
    mapping = {"name": "default", "spatial_mapping": {}, "memory_operand_links": links}
    validator = WorkloadValidator([data])
    assert validator.validate(), "the workload is invalid"
    return LayerNodeFactory(validator.normalized_data[0], [mapping]).create()


def priced(nest: tuple[Any, ...], mapping: dict[str, Any]) -> dict[str, float]:
    """Bytes of each memory, tensor and direction; energy; cycles."""
    from zigzag.cost_model.cost_model import CostModelEvaluation  # noqa: PLC0415  (an environment of its own)
    from zigzag.datatypes import LayerDim, LayerOperand  # noqa: PLC0415  (an environment of its own)
    from zigzag.hardware.architecture.memory_port import DataDirection  # noqa: PLC0415  (an environment of its own)
    from zigzag.mapping.spatial_mapping_internal import SpatialMappingInternal  # noqa: PLC0415  (an environment of its own)
    from zigzag.mapping.temporal_mapping import (  # noqa: PLC0415  (an environment of its own)
        TemporalMapping,
        TemporalMappingType,
    )

    sizes = dict(zip(LOOPS, nest[1:7], strict=True))
    wide, parallel = mapping["wide"], mapping["parallel"]

    def units(level: str, loop: str) -> int:
        return wide[level] if parallel[level] == loop else 1

    within = [(d, mapping["inner"][d]) for d in LOOPS]
    steps = []
    for level, extent in (("inner", mapping["outer"]), ("outer", sizes)):
        order = reversed(mapping["orders"][level])  # ZigZag tells the innermost loop first
        steps.append([(d, extent[d] // mapping[level][d] // units(level, d)) for d in order])
    temporal = [[(LayerDim(DIMS[d]), n) for d, n in loops if n > 1] for loops in (within, *steps)]
    spread = [(d, units(level, d)) for level in ("inner", "outer") for d in parallel[level]]
    spatial = [[], [(LayerDim(DIMS[d]), n) for d, n in spread if n > 1], [], []]

    found: dict[str, float] = {}
    for by_the_byte in (True, False):
        layer = layer_of(nest)
        operands = [LayerOperand(name) for name in OPERANDS]
        unrolled = SpatialMappingInternal(
            {op: [list(x) for x in spatial] for op in operands}, layer
        )
        cost = CostModelEvaluation(
            accelerator=accelerator(wide["outer"], wide["inner"], by_the_byte=by_the_byte),
            layer=layer,
            spatial_mapping=unrolled,
            spatial_mapping_int=unrolled,
            temporal_mapping=TemporalMapping(
                {op: [list(x) for x in temporal] for op in operands},
                layer,
                TemporalMappingType.UNEVEN,
            ),
            access_same_data_considered_as_no_access=False,
        )
        if not by_the_byte:
            found["cycles"] = cost.latency_total2
            continue
        found["energy"] = cost.energy_total
        for op, name in zip(operands, OPERANDS, strict=True):
            for level, accesses in zip(LEVELS, cost.memory_word_access[op], strict=True):
                for way, direction in DIRECTIONS.items():
                    found[f"{level}_{name}_{way}"] = accesses.get(DataDirection[direction])
    return found


def rows() -> Iterator[dict[str, float | str]]:
    """Mappings with their figures."""
    rng = random.Random(SEED)
    for number in range(MAPPINGS):
        nest = NESTS[number % len(NESTS)]
        mapping = draw(nest, rng)
        assert prod(mapping["wide"].values()) <= 256
        named = {f"m{i}": value for i, value in enumerate(columns_of(mapping))}
        shape = dict(zip(("kind", *LOOPS, "stride"), nest, strict=True))
        yield {**shape, **named, **{k: ceil(v) for k, v in priced(nest, mapping).items()}}


def main() -> None:
    """Print the CSV; columns that are zero everywhere are left out."""
    version = importlib.metadata.version("zigzag-dse")
    found = list(rows())
    kept = [name for name in found[0] if any(row[name] for row in found)]
    print(f"# zigzag-dse {version}, seed {SEED}, bench/mapping/zigzag_runs.py")
    writer = csv.DictWriter(sys.stdout, kept, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)


if __name__ == "__main__":
    main()
