# SPDX-License-Identifier: Apache-2.0
"""A proof agrees with the enumeration of the whole space, and tells how far it came."""

import functools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.randomness import fresh_rng, sample
from support.search.drawn_layers import KINDS, drawn_space, legal_points

from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.exhaustive import prove as module
from tilewright.tuner.exhaustive.prove import Proof, Prover, beaten_by, least_bound
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

RULES, IDEAL = host_rules(), load_memory("ideal")
HW = load_hwconfig("tiny-4x4")
SPACE = ScheduleSpace(conv2d("x", 6, 8, 8, 3, 1, 1), HW, RULES, "full")


def cycles_in(space: ScheduleSpace, memory: MemoryModel) -> Sequence[int]:
    """Of every legal schedule, ascending: the reference, which knows no bound."""
    lowering = NativeLowering(space.hw, space.workload)
    return sorted(Twin(space.hw, memory).batch(lowering, legal_points(space)).cycles.tolist())


@functools.cache
def truth() -> Sequence[int]:
    return cycles_in(SPACE, IDEAL)


def prove(cycles: int, within: float, *spaces: ScheduleSpace, memory=IDEAL, **more) -> Proof:
    prover = Prover(memory, within=within, workers=more.pop("workers", 2))
    spaces = spaces or (SPACE,)
    floors = [RULES.bound(space.hw, space.workload, memory).cycles for space in spaces]
    return prover.prove(spaces, cycles, floors, **more)


def cycles_of(space: ScheduleSpace, memory: MemoryModel, proof: Proof) -> int:
    assert proof.schedule is not None
    points = encode_schedules([Schedule.from_mapping(proof.schedule)])
    lowering = NativeLowering(space.hw, space.workload)
    return int(Twin(space.hw, memory).batch(lowering, points).cycles[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", sample(2, 40))
def test_a_proof_holds_against_the_enumeration_of_drawn_layers(number, kind) -> None:
    rng = fresh_rng()
    space, memory = drawn_space(rng, kind, most=30_000)
    known = cycles_in(space, memory)
    given_cycles = known[int(rng.integers(0, len(known)))]
    within = float(rng.choice([0.0, 0.01, 0.1]))
    proof = prove(given_cycles, within, space, memory=memory)
    assert proof.bound <= known[0] <= proof.cycles <= given_cycles
    assert proof.proven
    assert proof.cycles <= (1 + within) * known[0]
    assert proof.excluded + proof.run == proof.points == space.raw_size
    if proof.cycles < given_cycles:
        assert cycles_of(space, memory, proof) == proof.cycles
    else:
        assert proof.schedule is None
    least = least_bound(space, memory)
    assert least is not None
    assert least <= known[0]


def test_without_tolerance_the_bound_is_the_optimum() -> None:
    proof = prove(truth()[-1], 0.0)
    assert (proof.cycles, proof.bound) == (truth()[0], truth()[0])


def test_bounds_exclude_most_of_a_larger_space() -> None:
    hw, memory = load_hwconfig("pynq-16x16"), load_memory("pynq-z2")
    space = ScheduleSpace(conv2d("x", 14, 64, 64, 3, 1, 1), hw, RULES, "full")
    proof = prove(2 * RULES.bound(hw, space.workload, memory).cycles, 0.01, space, memory=memory)
    assert proof.proven
    assert proof.run < 0.1 * space.raw_size


def test_what_is_found_does_not_depend_on_the_threads() -> None:
    one, many = (prove(truth()[len(truth()) // 2], 0.02, workers=n) for n in (1, 5))
    assert (one.cycles, one.bound, one.schedule, one.run) == (
        *(many.cycles, many.bound, many.schedule, many.run),
    )


def test_a_proof_without_time_tells_the_bound_of_the_layer() -> None:
    proof = prove(truth()[0], 0.0, seconds=0)
    assert not proof.proven
    assert proof.bound == RULES.bound(HW, SPACE.workload, IDEAL).cycles
    assert (proof.run, proof.cycles) == (0, truth()[0])


@pytest.mark.parametrize("looks", range(1, 12))
def test_a_proof_that_time_ends_tells_a_bound_that_holds(looks, monkeypatch) -> None:
    monkeypatch.setattr(module, "FIRST_ROUND", 16)
    monkeypatch.setattr(module, "CHUNK", 4)
    seen = []

    def late(course) -> bool:
        seen.append(course)
        return len(seen) > 2 * looks

    monkeypatch.setattr(module._Course, "late", property(late))
    proof = prove(truth()[20], 0.0, workers=1)
    assert proof.bound <= truth()[0] <= proof.cycles <= truth()[20]
    assert proof.proven == (proof.bound == proof.cycles)


def test_a_tolerance_that_the_layers_bound_meets_needs_no_look_at_schedules(monkeypatch) -> None:
    monkeypatch.setattr(Prover, "_sieve", None)
    proof = prove(truth()[0], 5.0)
    assert proof.proven
    assert (proof.run, proof.excluded) == (0, SPACE.raw_size)


def test_a_proof_over_configurations_holds_for_each() -> None:
    other = ScheduleSpace(SPACE.workload, load_hwconfig("edge-8x8"), RULES, "full")
    proof = prove(truth()[0], 0.0, SPACE, other)
    best = cycles_in(other, IDEAL)[0]
    assert (proof.cycles, proof.hw) == (best, f"{other.hw.config_hash:08x}")
    assert best < truth()[0]
    assert proof.bounds[f"{HW.config_hash:08x}"] <= truth()[0]
    assert proof.bounds[proof.hw] == best
    assert Proof.from_mapping(proof.to_mapping()) == proof


@given(st.integers(1, 10**12), st.floats(0, 10))
def test_what_refutes_a_tolerance_is_told_exactly(cycles, within) -> None:
    limit = beaten_by(cycles, within)
    assert cycles <= (1 + within) * (limit + 1)
    assert limit == 0 or cycles > (1 + within) * limit
