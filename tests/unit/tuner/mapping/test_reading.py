# SPDX-License-Identifier: Apache-2.0
"""Mappings come back from the files of Timeloop and ZigZag, and what is no mapping is refused."""

import contextlib
import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.randomness import fresh_rng, where

from tilewright.cli.mapping.views import print_judged
from tilewright.host.common.errors import ConfigError
from tilewright.interface.layers import load_layer
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import best_mapping
from tilewright.tuner.mapping.exchange import timeloop_yaml, zigzag_yaml
from tilewright.tuner.mapping.find import judge
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind, nest_of
from tilewright.tuner.mapping.reading import read_mapping

FLEXIBLE = load_architecture("flexible-256")
NEST = LoopNest(name="fc", sizes=(10, 256, 1, 1, 1, 1))
MAPPING = Mapping(
    outer=Level(tile=(3, 256, 1, 1, 1, 1), order="CKYXRS", parallel="K"),
    inner=Level(tile=(3, 8, 1, 1, 1, 1), order="KCYXRS", parallel="C"),
    clusters=2,
    cluster_size=16,
)


def drawn(rng: np.random.Generator) -> tuple[LoopNest, Mapping]:
    """A mapping that both tools can say: whole tiles of tiles, and no idle cluster or PE."""
    sizes = [int(v) for v in rng.integers(1, [40, 40, 20, 20, 4, 4])]
    kind = NestKind.DEPTHWISE if rng.integers(2) else NestKind.CONV
    nest = LoopNest(name="drawn", kind=kind, sizes=tuple(sizes), stride_y=int(rng.integers(1, 3)))
    spread = [DIMENSIONS[d] for d in rng.integers(0, 6, 2)]
    tiles, units = [[], []], [1, 1]
    for d, size in zip(DIMENSIONS, sizes, strict=True):
        inner = int(rng.integers(1, size + 1))
        pes = int(rng.integers(1, math.ceil(size / inner) + 1)) if d == spread[1] else 1
        trips = int(rng.integers(1, math.ceil(size / (inner * pes)) + 1))
        outer = min(size, inner * pes * trips)
        if d == spread[1]:
            units[1] = pes
        if d == spread[0]:
            units[0] = int(rng.integers(1, math.ceil(size / (inner * pes * trips)) + 1))
        tiles[0].append(outer)
        tiles[1].append(inner)
    orders = ["".join(rng.permutation(list(DIMENSIONS))) for _ in range(2)]
    outer, inner = (
        Level(tile=tuple(tile), order=order, parallel=loop)
        for tile, order, loop in zip(tiles, orders, spread, strict=True)
    )
    return nest, Mapping(outer=outer, inner=inner, clusters=units[0], cluster_size=units[1])


def still_loops_first(nest: LoopNest, mapping: Mapping) -> Mapping:
    """The same mapping; a loop of one trip stands outermost, where ZigZag's files leave it out."""
    levels = []
    for extents, level, units in (
        (nest.sizes, mapping.outer, mapping.clusters),
        (mapping.outer.tile, mapping.inner, mapping.cluster_size),
    ):
        turning = []
        for d in level.order:
            at = DIMENSIONS.index(d)
            step = level.tile[at] * (units if d == level.parallel else 1)
            turning += [d] if math.ceil(extents[at] / step) > 1 else []
        order = "".join(d for d in DIMENSIONS if d not in turning) + "".join(turning)
        levels.append(Level(tile=level.tile, order=order, parallel=level.parallel))
    return Mapping(outer=levels[0], inner=levels[1],
                   clusters=mapping.clusters, cluster_size=mapping.cluster_size)  # fmt: skip


def test_a_hundred_mappings_come_back_as_they_were(tmp_path: Path) -> None:
    rng = fresh_rng()
    for _ in range(100):
        nest, mapping = drawn(rng)
        model = CostModel(nest, load_architecture("flexible-256"))
        ours = tmp_path / "ours.yaml"
        ours.write_text(yaml.safe_dump(mapping.as_dict()))
        theirs = tmp_path / "theirs.yaml"
        theirs.write_text(timeloop_yaml(nest, mapping))
        zigzag = tmp_path / "zigzag.yaml"
        zigzag.write_text(zigzag_yaml(nest, mapping))
        facts = where(nest=nest, mapping=mapping)
        for path, form, wanted in (
            (ours, "tilewright", mapping),
            (theirs, "timeloop", mapping),
            (zigzag, "zigzag", still_loops_first(nest, mapping)),
        ):
            found = read_mapping(path, model)
            assert (found.form, found.mapping) == (form, wanted), facts
            both = model.costs(np.array([mapping.row(), found.mapping.row()]))
            assert (both.values[0] == both.values[1]).all(), facts
            assert both.rules[0] == both.rules[1], facts


def test_zigzag_without_marks_takes_the_cheapest_way(tmp_path: Path) -> None:
    path = tmp_path / "theirs.yaml"
    text = zigzag_yaml(NEST, MAPPING)
    path.write_text("\n".join(line.partition("  # ")[0] for line in text.splitlines()))
    model = CostModel(NEST, FLEXIBLE)
    found = read_mapping(path, model)
    cost, own = model.cost(found.mapping), model.cost(MAPPING)
    assert cost["cycles"] * cost["energy"] <= own["cycles"] * own["energy"]
    assert (found.mapping.clusters, found.mapping.cluster_size) == (2, 16)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("L2\n  type: spatial\n  factors: K=2 C=1", "L2\n  type: spatial\n  factors: K=2 C=2",
         "must make the 256 iterations"),
        ("spatial\n  factors: K=2 C=1 Q=1", "spatial\n  factors: K=2 C=1 Q=2,1",
         "clusters share one loop"),
        ("- target: DRAM", "- target: Buffer", "Buffer temporal: K=2"),
        ("L2\n  type: temporal\n  factors: K=1", "L2\n  type: temporal\n  factors: K=2",
         "L2 temporal: K=2"),
        ("N=1\n  permutation: NRSPQKC", "N=2\n  permutation: NRSPQKC", "DRAM temporal: N=2"),
        ("K=3,1 C=8", "K=3 C=8", "must make the 10 iterations of fc"),
        ("K=3,1 C=8", "K=3,1 C=4", "must make the 256 iterations"),
        ("K=3,1 C=8", "K=x", "a factor must be"),
        ("NRSPQKC", "NRSPQKK", "once each"),
        ("- target: Cluster\n  type: bypass", "- target: L2\n  type: bypass",
         "L2 and L1 hold every tensor"),
    ],
)  # fmt: skip
def test_what_timeloop_says_and_the_model_cannot_is_named(
    old: str, new: str, told: str, tmp_path: Path
) -> None:
    text = timeloop_yaml(NEST, MAPPING)
    assert old in text
    path = tmp_path / "theirs.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        read_mapping(path, CostModel(NEST, FLEXIBLE))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    - K, 2", "    - K, 2\n    - C, 2", "clusters share one loop"),
        ("    D2:", "    D3:", "an array has the dimensions D1"),
        ("[C, 8]", "[B, 8]", "has the loops K C OY OX FY FX"),
        ("[C, 8]", "[C, '*']", "must be LOOP and FACTOR"),
        ("[C, 8]", "[C, 4]", "must make the 256 iterations of fc"),
        ("- name: default", "- name: other", "must have an entry of fc"),
        ("  - [K, 2]  # DRAM", "  - [K, 2]  # DRAM\n  - [C, 2]  # DRAM\n  - [K, 2]  # DRAM",
         "a loop turns once at a level"),
    ],
)  # fmt: skip
def test_what_zigzag_says_and_the_model_cannot_is_named(
    old: str, new: str, told: str, tmp_path: Path
) -> None:
    text = zigzag_yaml(NEST, MAPPING)
    assert old in text
    path = tmp_path / "theirs.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        read_mapping(path, CostModel(NEST, FLEXIBLE))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mapping: 7", "must have the keys outer, inner"),
        ("7", "must have the keys outer, inner"),
        ("- 7", "must have an entry of fc"),
        ("mapping: [7]", "must be a list of directives"),
        ("sizes: [1, 1, 1, 1, 1, 1]\nmapping: " + str(MAPPING.as_dict()), "must be that of fc"),
        ("a: [", "must be valid YAML"),
    ],
)
def test_what_is_no_mapping_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        read_mapping(path, CostModel(NEST, FLEXIBLE))


JUNK = ("null", "true", "1", "x", "L3", "[]", "2.5", ".nan", "9" * 30, "'" + "9" * 5000 + "'", "K")


def test_a_file_with_anything_in_it_is_read_or_refused(tmp_path: Path) -> None:
    rng, path, model = fresh_rng(), tmp_path / "edited.yaml", CostModel(NEST, FLEXIBLE)
    ours = yaml.safe_dump({"layer": "fc", "mapping": MAPPING.as_dict()})
    for base in (ours, timeloop_yaml(NEST, MAPPING), zigzag_yaml(NEST, MAPPING)):
        words = list(re.finditer(r"[A-Za-z0-9]+", base))
        for _ in range(150):
            word, junk = words[rng.integers(len(words))], JUNK[rng.integers(len(JUNK))]
            path.write_text(base[: word.start()] + junk + base[word.end() :])
            with contextlib.suppress(ConfigError):
                read_mapping(path, model)


@pytest.mark.parametrize("key", ["null", "true", "1", "2.5"])
def test_keys_of_any_kind_are_refused(key: str, tmp_path: Path) -> None:
    path, text = tmp_path / "edited.yaml", yaml.safe_dump(MAPPING.as_dict())
    for name in ("clusters", "order", "K"):
        path.write_text(text.replace(f"{name}:", f"{key}:", 1))
        with pytest.raises(ConfigError, match="must have the keys"):
            read_mapping(path, CostModel(NEST, FLEXIBLE))


@pytest.mark.parametrize(("old", "new"), [("# L1", "# L3"), (", 8]", f", '{'9' * 5000}']")])
def test_zigzag_with_unknown_marks_or_endless_factors(old: str, new: str, tmp_path: Path) -> None:
    path, text = tmp_path / "edited.yaml", zigzag_yaml(NEST, MAPPING)
    assert old in text
    path.write_text(text.replace(old, new))
    with contextlib.suppress(ConfigError):
        read_mapping(path, CostModel(NEST, FLEXIBLE))


def test_marks_of_another_entry_do_not_count(tmp_path: Path) -> None:
    marked = zigzag_yaml(NEST, MAPPING)
    plain = re.sub(r" *# L?\w+$", "", marked, flags=re.MULTILINE).replace("default", "fc")
    path, model = tmp_path / "two.yaml", CostModel(NEST, FLEXIBLE)
    path.write_text(plain)
    alone = read_mapping(path, model).mapping
    wrong = re.sub(r"# (L1|L2)$", "# DRAM", marked, flags=re.MULTILINE)
    path.write_text(wrong + plain)
    assert read_mapping(path, model).mapping == alone


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"gap": 1.0}, {"gap": 0.5}])
def test_a_judged_mapping_is_never_better_than_the_best(limits: dict[str, float]) -> None:
    for name in ("C2", "C8"):
        nest = nest_of(load_layer(f"resnet18:{name}"))
        mapping = best_mapping(nest, FLEXIBLE).mapping
        found = judge(nest, FLEXIBLE, mapping, Objective.EDP, **limits)
        assert found.best is not None
        assert found.bound <= found.best.value <= found.value
        assert found.best.cost == found.cost


def test_what_is_not_proven_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    nest = nest_of(load_layer("resnet18:C8"))
    mapping = best_mapping(nest, FLEXIBLE).mapping
    found = judge(nest, FLEXIBLE, mapping, Objective.EDP, gap=1.0)
    assert found.bound == 0
    print_judged(found, FLEXIBLE, "edp")
    assert "nothing is proven" in capsys.readouterr().out
