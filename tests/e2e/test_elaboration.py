# SPDX-License-Identifier: Apache-2.0
"""The RTL refuses exactly the parameter values that `HwConfig` refuses, with the same texts."""

import itertools
import re
import subprocess
from functools import cache

import pytest
from support.programs.drawing import broken_rules, holds
from support.randomness import generator, often, sample, where

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine import hwconfig
from tilewright.sim.tools.toolchain import find_verilator
from tilewright.sim.verify.randconfig import any_hwconfig, any_value
from tilewright.sim.verilator.build import LINT_WAIVERS, TOP, read_manifest

RTL_NAMES = {p.name: p.rtl_name for p in hwconfig.PARAMETERS}


def elaborate(values):
    """Verilator's exit code and the texts with which the top refuses."""
    verilator = find_verilator()
    done = subprocess.run(
        [
            str(verilator.path), "--lint-only", "-Wall", str(LINT_WAIVERS),
            *(f"-G{RTL_NAMES[name]}={value}" for name, value in values.items()),
            "--top-module", TOP, *map(str, read_manifest()),
        ],
        capture_output=True, text=True, check=False, env=verilator.full_environment(),
    )  # fmt: skip
    return done.returncode, set(re.findall(rf"(?:: |^){TOP}: (.*)$", done.stderr, re.MULTILINE))


def text(rule, values):
    """What the RTL must say when a rule is broken."""
    name = RTL_NAMES[rule.field]
    return f"{name} ({rule.field}): {rule.text}, not {values[rule.field]}; {rule.remedy}"


def assert_agreement(values):
    """The top refuses for the same reasons as `HwConfig`, or neither refuses."""
    broken = [rule for rule in hwconfig.RULES if not holds(rule, values)]
    code, said = elaborate(values)
    assert said == {text(rule, values) for rule in broken}, where(values=values)
    assert (code != 0) == bool(broken), where(values=values)
    if broken:
        with pytest.raises(ConfigError, match=re.escape(broken[0].text)):
            hwconfig.HwConfig(**values)
    else:
        hwconfig.HwConfig(**values)


@cache
def candidates(parameter):
    """Values of a parameter in, at and beyond its range, powers of two and others."""
    low, high = parameter.low, parameter.high
    near = {0, low // 2, low - 1, low, low + 1, 3 * low, high - 1, high, high + 1, 2 * high}
    powers = {2**i for i in range(high.bit_length())}
    return sorted(v for v in near | powers if v >= 0)


@cache
def ways_to_break(name):
    """Assignments that break the fewest rules among those that break ``name``.

    All combinations of values of the parameters in the rule's expression are tried, the others
    wide open, so that "cannot fail alone" is a finding and no opinion.
    """
    rule = next(rule for rule in hwconfig.RULES if rule.name == name)
    used = [p for p in hwconfig.PARAMETERS if re.search(rf"\b{p.name}\b", rule.expression)]
    roomy = hwconfig.load_hwconfig("pynq-16x16").parameters() | {
        p.name: p.high for p in hwconfig.PARAMETERS if p.name.endswith("_bytes")
    }
    small = roomy | {"block_in": 4, "block_out": 4, "vector_lanes": 4}
    wide = roomy | {"batch": 8, "block_in": 4, "block_out": 64, "vector_lanes": 8}
    fewest, found = len(hwconfig.RULES) + 1, []
    for base in (small, wide):  # the wide one elaborates slowly: only where it is needed
        for chosen in itertools.product(*(candidates(p) for p in used)):
            values = base | dict(zip((p.name for p in used), chosen, strict=True))
            if holds(rule, values):
                continue
            count = len(broken_rules(values))
            if count < fewest:
                fewest, found = count, []
            if count == fewest:
                found.append(values)
        if fewest == 1:
            break
    return fewest, found


ALL_RULES = [rule.name for rule in hwconfig.RULES]


CHOSEN = set(generator("rules").choice(ALL_RULES, 4, replace=False))
"""Rules of the fast run, others in every run: an elaboration takes 0.3 to 1 s."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in CHOSEN else pytest.mark.slow) for n in ALL_RULES],
)
def test_an_illegal_value_fails_elaboration_with_the_text_of_the_rule(name):
    _, ways = ways_to_break(name)
    rng = generator(name)
    assert_agreement(ways[rng.integers(len(ways))])


def test_only_rules_that_follow_from_others_cannot_fail_alone():
    dependent = {name for name in ALL_RULES if ways_to_break(name)[0] > 1}
    assert dependent == {
        "inp_bytes_two_tiles", "out_bytes_two_tiles", "res_bytes_two_tiles", "read_fifo_burst",
        "vector_lanes_range", "mac_lut_columns_range",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("parameter", hwconfig.PARAMETERS, ids=lambda p: p.name)
def test_values_that_no_hardware_can_have_are_refused(parameter):
    values = hwconfig.load_hwconfig("tiny-4x4").parameters()
    values[parameter.name] = 0 if parameter.low else 2
    assert_agreement(values)


def any_values(rng):
    """Parameter values of which each is illegal with a chance of one in ten."""
    values = any_hwconfig(rng).parameters()
    for parameter in hwconfig.PARAMETERS:
        if rng.random() < 0.1:
            values[parameter.name] = int(rng.choice(candidates(parameter)))
    return values


@pytest.mark.parametrize("number", sample(2, 60))
def test_random_values_are_refused_for_the_same_reasons(number):
    assert_agreement(any_values(generator(f"values {number}")))


@pytest.mark.parametrize("name", often("elaborated", hwconfig.named_configs(), 2))
def test_named_configurations_elaborate(name):
    assert_agreement(hwconfig.load_hwconfig(name).parameters())


@pytest.mark.parametrize("number", sample(0, 30))
def test_random_legal_configurations_of_any_size_elaborate(number):
    rng = generator(f"legal {number}")
    while True:
        values = {p.name: any_value(rng, p) for p in hwconfig.PARAMETERS}
        if not broken_rules(values):
            break
    assert_agreement(values)
