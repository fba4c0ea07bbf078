# SPDX-License-Identifier: Apache-2.0
import re
from dataclasses import replace

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import estimate, fits
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import (
    SystemConfig,
    SystemCore,
    load_core,
    load_system,
)

TINY = load_hwconfig("tiny-4x4")
CORE = SystemCore(hw=TINY)
PAIR = SystemConfig(name="pair", cores=(CORE, CORE))
WIDE = SystemCore(hw=TINY.with_(axi_data_bits=128))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"cores": ()}, "cores"),
        ({"cores": (CORE,) * 9}, "cores"),
        ({"memory_ports": 0}, "memory_ports"),
        ({"memory_ports": 3}, "memory_ports"),
        ({"memory_ports": True}, "memory_ports"),
        ({"memory_ports": 2}, "memory_ports"),  # port 1 has no core
        ({"window": 15}, "window"),
        ({"port_reads": 0}, "port_reads"),
        ({"port_writes": 33}, "port_writes"),
        ({"queue_depth": 7}, "queue_depth"),
        ({"queue_depth": 8.0}, "queue_depth"),
        ({"cores": (CORE, replace(CORE, port=1))}, "cores[1].port"),
        ({"cores": (CORE, replace(CORE, weight=0))}, "cores[1].weight"),
        ({"cores": (CORE, replace(CORE, weight=16))}, "cores[1].weight"),
        ({"cores": (replace(CORE, read_budget=-1), CORE)}, "cores[0].read_budget"),
        ({"cores": (replace(CORE, write_budget=1025), CORE)}, "cores[0].write_budget"),
        ({"cores": (CORE, WIDE)}, "cores[1].axi_data_bits"),
    ],
)
def test_each_rule_refuses_its_field(changes, field):
    with pytest.raises(ConfigError) as error:
        replace(PAIR, **changes)
    assert error.value.field == field
    assert error.value.remedy


def test_the_area_is_that_of_the_cores_and_what_stands_around_them():
    area, alone = estimate(PAIR), estimate(TINY)
    assert (area.dsp, area.bram36) == (2 * alone.dsp, 2 * alone.bram36)
    assert area.lut > 2 * alone.lut
    assert area.ff > 2 * alone.ff


def test_what_does_not_fit_is_named():
    wide = load_hwconfig("zu-32x32")
    text = fits(SystemConfig(cores=(SystemCore(hw=wide),) * 2), load_board("pynq-z2")).text
    assert "DSP 1220 exceeds 220 by 1000" in text
    assert f"core 1: axi_data_bits {wide.axi_data_bits} exceeds the port's 64" in text


def test_the_hash_is_of_what_is_built_and_not_of_labels():
    same = replace(PAIR, name="other", cores=(replace(CORE, hw=TINY.with_(name="label")), CORE))
    assert same.config_hash == PAIR.config_hash
    for changes in (
        {"cores": (CORE,)},
        {"cores": (replace(CORE, weight=2), CORE)},
        {"cores": (replace(CORE, hw=TINY.with_(read_outstanding=3)), CORE)},
        {"window": 512},
        {"queue_depth": 4},
    ):
        assert replace(PAIR, **changes).config_hash != PAIR.config_hash, changes


def test_a_core_is_a_name_or_a_mapping_with_what_differs(tmp_path):
    path = tmp_path / "mixed.yaml"
    path.write_text(
        "cores:\n  - tiny-4x4\n  - {hw: tiny-4x4, weight: 3, read_outstanding: 8}\nwindow: 256\n"
    )
    system = load_system(path)
    assert (system.name, system.window) == ("mixed", 256)
    assert system.cores[0] == SystemCore(hw=TINY)
    assert system.cores[1].weight == 3
    assert system.cores[1].hw.parameters() == TINY.with_(read_outstanding=8).parameters()
    assert load_system(system) is system


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("cores: tiny-4x4\n", "cores: must be a list"),
        ("window: 100\n", "cores: must be a list"),
        ("cores: [tiny-4x4]\nwindow: 3\n", "window: must be an integer"),
        ("cores: [tiny-4x4]\ncore: 3\n", "core: unknown key"),
        ("cores: [{weight: 3}]\n", "cores[0]: must be the name"),
        ("cores: [{hw: tiny-4x4, block: 3}]\n", "cores[0]: block: unknown key"),
        ("cores: [{hw: tiny-4x4, block_in: 3}]\n", "cores[0]: block_in: must be"),
        ("cores: [tiny-4x4, tinny]\n", "cores[1]: hw: no configuration of that name"),
    ],
)
def test_a_wrong_file_names_what_is_wrong(tmp_path, text, named):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(f"wrong.yaml: {named}")):
        load_system(path)


def test_a_configuration_may_be_that_of_a_core():
    assert load_core("big-little:0") == load_system("big-little").cores[0].hw
    assert load_core("tiny-4x4") == load_hwconfig("tiny-4x4")
    with pytest.raises(ConfigError, match="core: big-little has cores 0 to 1"):
        load_core("big-little:2")
    with pytest.raises(ConfigError, match="no system"):
        load_core("big-litle:0")
