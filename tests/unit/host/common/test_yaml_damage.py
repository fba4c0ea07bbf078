# SPDX-License-Identifier: Apache-2.0
"""Every reader of YAML refuses odd tags and huge numbers in one line, or reads them."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.randomness import fresh_rng

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.bitstream import read_bitstream_manifest
from tilewright.host.machine.board import load_board, load_memory, load_vivado_target
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import load_system
from tilewright.host.network.layer_table import load_layer_table
from tilewright.host.runtime.board_pool import load_board_pool
from tilewright.sim.synth.design import load_design
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.exchange import timeloop_yaml, zigzag_yaml
from tilewright.tuner.mapping.fixed import read_fixed
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import LoopNest
from tilewright.tuner.mapping.reading import read_mapping
from tilewright.tuner.multicore.platform import load_platform

ODD = (
    *('!!int ""', '!!float ""', "!!bool x", "!!map [1]", "!!seq {a: 1}", "!!timestamp x"),
    *("!!binary x", "!!set {a}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!null x", "!!str [1]"),
    *("2024-01-01", "1" + "0" * 400, "-1e999", ".inf", ".nan", '"\\e[2J"', '"\\0"', "{[1]: 2}"),
    *("[" * 3000, "1:99:99", "0x", "!!python/name:os.system", "!<x> y", "? [a]", "9" * 5000, "''"),
    *("0o9", "1_0_", "[]", "{}", "null", "-1", "'../../x'", "true", "1e400"),
)
NEST = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1))
LEVEL = Level(tile=(4, 8, 1, 1, 1, 1), order="CKYXRS", parallel="K")
MAPPING = Mapping(outer=LEVEL, inner=LEVEL, clusters=4, cluster_size=1)


def read_ours(path: Path) -> object:
    return read_mapping(path, CostModel(NEST, load_architecture("flexible-256")))


def read_timeloop(path: Path) -> object:
    return read_ours(path)


def read_zigzag(path: Path) -> object:
    return read_ours(path)


def read_part(path: Path) -> object:
    return read_fixed([str(path)])


READERS: dict[Callable[[Path], object], str] = {
    load_hwconfig: "configs/tiny-4x4.yaml",
    load_board: "boards/pynq-z2.yaml",
    load_vivado_target: "boards/pynq-z2.yaml",
    load_memory: "memory/ideal.yaml",
    load_system: "systems/dual-8x8.yaml",
    load_design: "systems/dual-8x8.yaml",
    load_architecture: "",
    load_platform: "",
    load_layer_table: "",
    load_board_pool: "",
    read_bitstream_manifest: "",
    read_ours: "",
    read_timeloop: "",
    read_zigzag: "",
    read_part: "",
}
PLAIN = {
    read_ours: yaml.safe_dump({"sizes": [64, 256, 1, 1, 1, 1], "mapping": MAPPING.as_dict()}),
    read_timeloop: timeloop_yaml(NEST, MAPPING),
    read_zigzag: zigzag_yaml(NEST, MAPPING),
    read_part: yaml.safe_dump(MAPPING.as_dict()),
    load_layer_table: "name: n\nlayers:\n  - kind: dense\n    rows: 1\n    features_in: 4\n",
    load_board_pool: "boards:\n  - address: a\n    token: t\n",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("no", "on", "Off", "y", "yes", "1:30", "12:30:45", "0o17")),
        *((word, word.lower() == "true") for word in ("true", "TRUE", "false")),
        *(("17", 17), ("-3", -3), ("1_000", 1000), ("0x1F", 31), ("0", 0), ("1e3", 1000.0)),
        *(("007", None), ("010", None), ("-01", None), ("0_8", None)),
    ],
)
def test_numbers_and_truth_values_are_those_of_yaml_1_2(text: str, value, tmp_path) -> None:
    """None: refused, since one reader takes 010 for 8 and the next for 10."""
    path = tmp_path / "a.yaml"
    path.write_text(f"a: {text}\nb: [{text}]\n", encoding="utf-8")
    if value is None:
        with pytest.raises(TilewrightError, match=f"{text} begins with 0"):
            read_yaml_mapping(path, "a file")
        return
    found = read_yaml_mapping(path, "a file")
    assert found == {"a": value, "b": [value]}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_odd_values_are_read_or_refused(read, tmp_path) -> None:
    rng = fresh_rng()
    origin = READERS[read]
    text = (
        (CONSTRAINTS_DIR / origin).read_text(encoding="utf-8")
        if origin
        else PLAIN.get(read, "name: n\ncount: 1\nlevels: [1]\n")
    )
    lines = [line for line in text.splitlines() if ":" in line and not line.startswith("#")]
    path = tmp_path / "odd.yaml"
    cases = [*((odd, -1) for odd in ODD), *((odd, int(rng.integers(len(lines)))) for odd in ODD)]
    for odd, place in (cases[i] for i in rng.permutation(len(cases))[: len(cases) // 6]):
        changed = list(lines)
        if place < 0:
            changed = [f"name: {odd}"]
        else:
            changed[place] = f"{changed[place].partition(':')[0]}: {odd}"
        path.write_text("\n".join(changed) + "\n", encoding="utf-8")
        with contextlib.suppress(TilewrightError):
            read(path)
