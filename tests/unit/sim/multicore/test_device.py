# SPDX-License-Identifier: Apache-2.0
"""Two cores on one memory port: results, shares of the bus, tenants that trespass."""

from dataclasses import replace

import numpy as np
import pytest
from support.programs.rtl import IDEAL, ROUGH
from support.programs.systems import hanging, reader, writer
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Memory
from tilewright.host.machine.registers import (
    PAGE,
    QUEUE_REGISTERS,
    SYSTEM_REGISTERS,
    ErrorCode,
    QueueStatus,
    window,
)
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.system_device import Submission, SystemDevice
from tilewright.host.runtime.system_driver import SystemDriver
from tilewright.sim.multicore.device import VerilatorSystem
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.twin.system_registers import scrub_cycles
from tilewright.sim.verilator.device import MEMORY_BASE, VerilatorDevice
from tilewright.sim.verilator.library import SimulationError, StopReason
from tilewright.testing.residue import dirt, peek

TINY = load_hwconfig("tiny-4x4")
PAIR = load_system("dual-tiny")
BOARD = load_board("pynq-z2").memory
QUEUE = {register.name: register.offset for register in QUEUE_REGISTERS}
WINDOW = next(r.offset for r in SYSTEM_REGISTERS if r.name == "WINDOW")


@pytest.fixture(scope="module")
def library():
    device = VerilatorSystem(PAIR, IDEAL)
    device.close()
    return device._library


@pytest.fixture
def open_system(library):
    opened = []

    def make(memory=IDEAL, **options):
        opened.append(VerilatorSystem(PAIR, memory, library=library, **options))
        return opened[-1]

    yield make
    for device in opened:
        device.close()


@pytest.fixture
def system(open_system):
    return open_system()


def random_submission(core, rng, **options):
    program, memory = random_program(TINY, rng)
    return Submission(core=core, program=program, memory=memory, **options)


def submission(core, program, **options):
    return Submission(core=core, program=program, memory=program.image(), **options)


def expected(given):
    return ReferenceDevice(TINY).run(given.program, given.memory).memory


def check_results(given, found, **facts):
    for each, result in zip(given, found.results, strict=True):
        assert result.error is None, where(**facts)
        assert np.array_equal(result.memory, expected(each)), where(**facts)


# -- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [IDEAL, ROUGH, BOARD], ids=lambda memory: memory.name)
def test_programs_that_run_at_the_same_time_give_their_results(open_system, memory):
    rng = fresh_rng()
    system = open_system(memory, initial_seed=int(rng.integers(1, 2**31)))
    assert isinstance(system, SystemDevice)
    given = [random_submission(core, rng) for core in (0, 1, 0, 1)]
    late = int(rng.integers(0, 500))
    check_results(given, system.run(given), memory=memory.name)
    check_results(given, system.run(given, start_after={1: late}), memory=memory.name, late=late)


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("name", ["ideal", "board", "narrow"])
def test_a_core_whose_port_is_idle_takes_the_cycles_that_it_takes_alone(open_system, core, name):
    narrow = replace(BOARD, name="narrow", shared_bytes_per_cycle=5.3, max_reads=2, max_writes=1)
    memory = {"ideal": IDEAL, "board": BOARD, "narrow": narrow}[name]
    system, alone = open_system(memory), VerilatorDevice(TINY, memory)
    given = random_submission(core, fresh_rng())
    found = system.run([given])
    counters = alone.run(given.program, given.memory).counters
    alone.close()
    assert found.counters[core] == counters
    assert found.counters[1 - core] is None
    assert found.results[0].cycles == counters.cycles
    for what in ("read_waited", "read_throttled", "write_waited", "write_throttled"):
        assert found.shares[core][what] == 0
    assert found.shares[core]["read_beats"] * TINY.axi_bytes == counters["bytes_read"]


def test_cores_start_together_or_as_late_as_asked(system):
    given = [submission(core, reader(TINY, 20)) for core in (0, 1)]
    assert [result.begin for result in system.run(given).results] == [0, 0]
    begins = [result.begin for result in system.run(given, start_after={0: 300}).results]
    assert begins[1] == 0
    assert 300 <= begins[0] < 330


def test_time_lost_to_the_other_core_is_counted(system):
    given = [submission(core, reader(TINY, 20)) for core in (0, 1)]
    alone = system.run(given[:1]).results[0].cycles
    both = system.run(given)
    assert both.makespan > 1.8 * alone
    assert all(share["read_waited"] + share["read_beats"] > 0 for share in both.shares)


def test_the_driver_of_one_core_runs_a_core_of_a_system(system):
    rng = fresh_rng()
    given = [random_submission(0, rng), random_submission(1, rng)]
    size = given[0].program.memory_bytes
    image = np.concatenate([each.memory for each in given])
    simulation, driver = system.simulation, SystemDriver(system.simulation, PAIR)
    simulation.attach(image, MEMORY_BASE)
    bases = (MEMORY_BASE, MEMORY_BASE + size)
    for core, base in enumerate(bases):
        driver.core(core).check_identity(TINY)
        driver.core(core).start(given[core].program, base, watchdog_cycles=100_000)
    for core in range(2):
        while not driver.core(core).ended():
            simulation.run(100)
        assert driver.core(core).finish().cycles > 0
    simulation.detach()
    for part, each in zip(np.split(image, [size]), given, strict=True):
        assert np.array_equal(part, expected(each))


def test_one_write_starts_what_several_windows_hold(system):
    simulation, driver = system.simulation, SystemDriver(system.simulation, PAIR)
    program = reader(TINY, 4)
    simulation.attach(program.image(), MEMORY_BASE)
    for core in range(2):  # a program that has ended: the registers keep what it needs
        driver.core(core).start(program, MEMORY_BASE, watchdog_cycles=0)
        assert simulation.run(10_000).reason is StopReason.INTERRUPT
        driver.core(core).finish()
    driver.start(0b11)
    simulation.run(300)
    cycles = [driver.core(core).cycles() for core in range(2)]
    assert min(cycles) > 250
    assert abs(cycles[0] - cycles[1]) < 100  # the second was read later
    simulation.reset()
    simulation.detach()


# -- shares of the port ------------------------------------------------------------------------


def turn(weight: int, limit: int, outstanding: int) -> int:
    """Bursts of a turn, as docs/explanation/multicore-hardware.md has it."""
    if limit >= 2 * outstanding:  # nobody waits at the arbiter
        return 1
    return weight if limit < outstanding else min(weight, outstanding)


@pytest.mark.parametrize("make", [reader, writer], ids=["reads", "writes"])
@pytest.mark.parametrize("regime", ["below", "equal", "all"])
@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (15, 1), (2, 15)], ids=str)
def test_bursts_are_shared_by_weight_as_far_as_the_limit_lets_them(system, make, regime, weights):
    """Two equal programs want every beat; the one with the longer turns ends first.

    With shares a and b of the bus it takes (a + b) / a of what it takes alone, and both together
    take twice that.
    """
    outstanding = TINY.read_outstanding if make is reader else TINY.write_outstanding
    limit = {"below": outstanding - 1, "equal": outstanding, "all": 2 * outstanding}[regime]
    system.set_limits(reads=limit, writes=limit)
    for core, weight in enumerate(weights):
        system.set_share(core, weight=weight)
    found = system.run([submission(core, make(TINY, 60)) for core in (0, 1)])
    first, second = (result.cycles for result in found.results)
    mine, other = (turn(weight, limit, outstanding) for weight in weights)
    share = max(mine, other) / (mine + other)
    assert min(first, second) / max(first, second) == pytest.approx(1 / share / 2, rel=0.06)
    assert (first <= second) == (mine >= other) or mine == other


def test_a_share_that_no_register_holds_is_refused(system):
    for wrong in ({"weight": 0}, {"weight": 16}, {"read_budget": 65536}, {"write_budget": -1}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            system.set_share(0, **wrong)
    for cycles in (0, 65536):
        with pytest.raises(ConfigError, match="window"):
            system.set_window(cycles)
    for limits in ({"reads": 0, "writes": 1}, {"reads": 1, "writes": 33}):
        with pytest.raises(ConfigError, match="must be"):
            system.set_limits(**limits)


def test_a_window_of_zero_cycles_leaves_the_budgets_as_they_are(system):
    program = reader(TINY, 40)
    system.set_window(256)
    system.set_share(0, read_budget=40)
    budgeted = system.run([submission(0, program)]).results[0].cycles
    system.simulation.write(WINDOW, 0)
    assert system.simulation.read(WINDOW) == 256
    again = system.run([submission(0, program)]).results[0].cycles
    assert again == pytest.approx(budgeted, rel=0.02)  # the windows begin in other cycles


@pytest.mark.parametrize("direction", ["read", "write"])
def test_a_budget_caps_the_bandwidth_and_no_more(system, direction):
    budget, cycles = 40, 256
    program, window_cycles = {"read": reader, "write": writer}[direction](TINY, 40), cycles
    system.set_window(window_cycles)
    free = system.run([submission(0, program)])
    system.set_share(0, **{f"{direction}_budget": budget})
    found = system.run([submission(0, program)])
    beats, taken = found.shares[0][f"{direction}_beats"], found.results[0].cycles
    windows = taken / window_cycles
    assert beats <= budget * (windows + 2) + 15
    assert beats >= 0.9 * budget * (windows - 2)
    assert taken > 2 * free.results[0].cycles
    assert found.shares[0][f"{direction}_throttled"] > taken / 2
    assert free.shares[0][f"{direction}_throttled"] == 0


def test_a_budget_of_one_core_leaves_the_bus_to_the_other(system):
    given = [submission(core, reader(TINY, 40)) for core in (0, 1)]
    alone = system.run(given[1:]).results[0].cycles
    system.set_window(1024)
    system.set_share(0, read_budget=64)
    assert system.run(given).results[1].cycles < 1.15 * alone


def test_no_core_starves(system):
    """Whatever the weight of the other: a burst waits for at most 15 of it, and each moves."""
    system.set_limits(reads=1, writes=1)
    system.set_share(0, weight=15)
    system.set_share(1, weight=1)
    found = system.run([submission(0, reader(TINY, 90)), submission(1, reader(TINY, 4))])
    light = found.results[1]
    bursts = found.counters[1]["read_bursts"]
    assert light.end < found.results[0].end
    burst_cycles = 16 + IDEAL.read_latency + 3
    assert light.cycles < (bursts + 2) * (15 + 1) * burst_cycles


# -- tenants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [reader, writer], ids=["load", "store"])
@pytest.mark.parametrize("offset", ["behind", "far"])
def test_a_tenant_that_leaves_its_memory_harms_itself_alone(system, make, offset):
    """Its descriptor ends with an error; the other core and its own next program do not notice."""
    rng = fresh_rng()
    victim, after = random_submission(1, rng), random_submission(0, rng)
    size = make(TINY, 2).memory_bytes
    hostile = make(TINY, 2, {"behind": size - 8, "far": size + victim.memory.size - 4096}[offset])
    given = [submission(0, hostile), victim, after]
    found = system.run(given)
    error = found.results[0].error
    assert isinstance(error, DeviceStatusError)
    assert (error.code, error.instruction) == (ErrorCode.DRAM_RANGE, 0)
    for each, result in zip(given[1:], found.results[1:], strict=True):
        assert result.error is None
        assert np.array_equal(result.memory, expected(each))


@pytest.mark.parametrize(
    ("base", "size", "insn_base"),
    [(MEMORY_BASE, 4096, 0), (2**40 - 4096, 8192, 0), (MEMORY_BASE, 8192, 8192)],
    ids=["program too long", "memory beyond the end", "program behind its memory"],
)
def test_a_descriptor_that_cannot_be_is_refused_before_anything_is_read(
    system, base, size, insn_base
):
    driver, simulation = SystemDriver(system.simulation, PAIR), system.simulation
    simulation.attach(reader(TINY, 200).image(), MEMORY_BASE)
    values = {"MEM_BASE": base, "MEM_SIZE": size, "INSN_BASE": insn_base}
    for name, value in values.items():
        simulation.write(window(0) + QUEUE[f"DESC_{name}_LO"], value & 0xFFFF_FFFF)
        simulation.write(window(0) + QUEUE[f"DESC_{name}_HI"], value >> 32)
    for name, value in {"DESC_INSN_COUNT": 201, "DESC_TAG": 7, "QUEUE_PUSH": 0}.items():
        simulation.write(window(0) + QUEUE[name], value)
    driver.enable_queues(0b01)
    simulation.run(1000)
    (ended,) = driver.completions(0)
    simulation.detach()
    assert ended.error.code is ErrorCode.SETTINGS
    assert ended.tag == 7
    assert driver.share_counters(0)["read_beats"] == 0


def test_a_tenant_that_hangs_is_ended_by_its_watchdog(system):
    after = submission(0, reader(TINY, 2))
    given = [submission(0, hanging(TINY), watchdog_cycles=500), after]
    found = system.run(given)
    assert found.results[0].error.code is ErrorCode.WATCHDOG
    assert found.results[1].error is None


@pytest.mark.parametrize("memory", list(scratchpads(TINY)))
def test_a_scrub_leaves_nothing_of_the_tenant_before(system, memory):
    dirty, spy = dirt(TINY), peek(TINY, memory)
    skip = TINY.out_tile_bytes if memory is Memory.UOP else 0

    def seen(scrub):
        found = system.run([submission(1, dirty), submission(1, spy, scrub=scrub)])
        assert [result.error for result in found.results] == [None, None]
        return int(np.count_nonzero(spy.read(found.results[1].memory, "result")[skip:]))

    assert seen(False) > 0
    assert seen(True) == 0


def test_a_scrub_takes_no_bandwidth(system):
    plain, scrubbed = (
        system.run([submission(0, reader(TINY, 2), scrub=scrub)]) for scrub in (False, True)
    )
    assert scrubbed.shares == plain.shares
    assert scrubbed.counters == plain.counters


# -- queues ------------------------------------------------------------------------------------


def test_a_queue_runs_more_than_it_holds_in_order(system):
    given = [submission(0, reader(TINY, 1 + index % 3)) for index in range(19)]
    found = system.run(given)
    begins = [result.begin for result in found.results]
    assert begins == sorted(begins)
    for before, after in zip(found.results, found.results[1:], strict=False):
        assert after.begin >= before.end


def test_a_descriptor_too_many_is_dropped_and_said_so(system):
    driver, simulation = SystemDriver(system.simulation, PAIR), system.simulation
    program = reader(TINY, 1)
    for tag in range(9):
        driver.push(1, program, MEMORY_BASE, tag=tag, watchdog_cycles=0)
    status = simulation.read(window(1) + QUEUE["QUEUE_STATUS"])
    assert driver.waiting(1) == PAIR.queue_depth
    assert status & QueueStatus.DROPPED
    simulation.attach(program.image(), MEMORY_BASE)
    driver.enable_queues(0b10)
    simulation.run(8000)
    assert [each.tag for each in driver.completions(1)] == list(range(8))
    simulation.reset()
    simulation.detach()


def test_a_soft_reset_of_the_window_ends_the_descriptor_that_runs(system):
    driver, simulation = SystemDriver(system.simulation, PAIR), system.simulation
    program = hanging(TINY)
    simulation.attach(program.image(), MEMORY_BASE)
    for tag in range(2):
        driver.push(0, program, MEMORY_BASE, tag=tag, watchdog_cycles=300 * tag)
    driver.enable_queues(0b01)
    simulation.run(1000)
    assert list(driver.completions(0)) == []
    driver.core(0).request_reset()
    simulation.run(1000)
    first, second = driver.completions(0)
    simulation.detach()
    assert "soft reset" in str(first.error)
    assert second.error.code is ErrorCode.WATCHDOG


def test_an_error_of_the_window_is_read_before_the_queue_begins(system):
    driver, simulation = SystemDriver(system.simulation, PAIR), system.simulation
    other = driver.core(0)
    bad, good = reader(TINY, 1, offset=1 << 30), reader(TINY, 1)
    simulation.attach(bad.image(), MEMORY_BASE)
    other.start(bad, MEMORY_BASE, watchdog_cycles=0)
    simulation.run(1000)
    simulation.attach(good.image(), MEMORY_BASE)
    for core in range(2):
        driver.push(core, good, MEMORY_BASE, tag=core, watchdog_cycles=0)
    driver.enable_queues(0b11)
    assert any(driver.waiting(1) == 0 for _ in range(1000)), "the other goes on"
    assert [driver.held(core) for core in range(2)] == [True, False]
    assert [len(list(driver.completions(core))) for core in range(2)] == [0, 1]
    with pytest.raises(DeviceStatusError) as error:
        other.finish()
    assert (error.value.code, error.value.instruction) == (ErrorCode.DRAM_RANGE, 0)
    other.request_reset()
    assert any(driver.waiting(0) == 0 for _ in range(1000))
    (ended,) = driver.completions(0)
    assert (ended.tag, ended.error) == (0, None)
    assert not driver.held(0)
    simulation.detach()


def test_a_soft_reset_ends_a_descriptor_that_has_begun_whenever_it_comes(system):
    """Also in the cycle in which its scrub has ended and its program is about to start."""
    driver, simulation = SystemDriver(system.simulation, PAIR), system.simulation
    program = hanging(TINY)
    simulation.attach(program.image(), MEMORY_BASE)
    ends = scrub_cycles(TINY)
    for late in range(ends - 24, ends + 24):
        driver.push(0, program, MEMORY_BASE, tag=late, watchdog_cycles=0, scrub=True)
        driver.enable_queues(0b01)
        simulation.run(late)
        driver.core(0).request_reset()
        simulation.run(200)
        ended = list(driver.completions(0))
        assert [each.tag for each in ended] == [late], f"a reset {late} cycles after the start"
        assert "soft reset" in str(ended[0].error)
        driver.enable_queues(0)
    simulation.detach()


# -- refusals ----------------------------------------------------------------------------------


def test_a_library_of_another_system_is_refused(library):
    other = replace(PAIR, name="other", window=512)
    with pytest.raises(DeviceError, match="CONFIG_HASH"):
        VerilatorSystem(other, IDEAL, library=library)


def test_bad_arguments_are_refused_by_name(system):
    given = submission(0, reader(TINY, 1))
    with pytest.raises(ConfigError, match="submissions"):
        system.run([])
    with pytest.raises(ConfigError, match="cores 0 to 1"):
        system.run([replace(given, core=2)])
    with pytest.raises(ConfigError, match="start_after"):
        system.run([given], start_after={0: -1})
    with pytest.raises(ProgramError, match="memory"):
        system.run([replace(given, memory=given.memory[:-1])])
    with pytest.raises(ProgramError, match="configuration"):
        system.run([submission(0, reader(TINY.with_(mac_pipeline=2), 1))])


def test_a_run_that_takes_too_long_leaves_the_system_usable(system):
    given = submission(0, hanging(TINY), watchdog_cycles=0)
    with pytest.raises(DeviceTimeoutError, match="2000 cycles"):
        system.run([given], max_cycles=2000)
    check_results([good := submission(1, reader(TINY, 1))], system.run([good]))


def test_a_page_that_is_not_there_is_an_error(system):
    with pytest.raises(SimulationError, match="response 3"):
        system.simulation.read(3 * PAGE)
    with pytest.raises(SimulationError, match="response 3"):
        system.simulation.write(3 * PAGE, 1)
