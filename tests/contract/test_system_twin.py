# SPDX-License-Identifier: Apache-2.0
"""The twin of a system counts what the RTL of a system counts, and so does the fidelity `timing`.

Begins, cycles, all counters of the cores and of their arbiters, and the clock of the host are
compared, on random memories, programs, starts and shares of the ports. A fresh sample in every run;
TILEWRIGHT_SLOW_CASES=100 makes 4,000 cases.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
import pytest
from support.programs.rtl import IDEAL, any_memory
from support.programs.systems import MIXED, hanging, program_of, reader
from support.randomness import generator, sample, where

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import SystemConfig, SystemCore, load_system
from tilewright.host.runtime.system_device import Submission, SystemDevice
from tilewright.sim.multicore.device import SimulatedSystem, VerilatorSystem
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.twin.system_device import TwinSystem
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator.build import build_model

TINY = load_hwconfig("tiny-4x4")
PAIR = load_system("dual-tiny")
MAX_CYCLES = 20_000_000
RUNS = 4
"""Of a memory."""


def any_system(rng: np.random.Generator) -> SystemConfig:
    """Two to five cores of any parameters and shares on one to three ports."""
    cores, window = int(rng.integers(2, 6)), int(rng.integers(16, 3000))
    ports = int(rng.integers(1, min(3, cores) + 1))
    widths = [int(rng.choice([32, 64, 128])) for _ in range(ports)]
    entries = []
    for number in range(cores):
        port = number if number < ports else int(rng.integers(ports))
        hw = any_hwconfig(rng)
        while hw.axi_data_bits != widths[port]:
            hw = any_hwconfig(rng)
        budgets = (int(rng.integers(1, window)) if rng.random() < 0.3 else 0 for _ in range(2))
        share = dict(zip(("read_budget", "write_budget"), budgets, strict=True))
        entries.append(SystemCore(hw=hw, port=port, weight=int(rng.integers(1, 16)), **share))
    return SystemConfig(
        name="random",
        cores=tuple(entries),
        memory_ports=ports,
        window=window,
        queue_depth=int(rng.choice([2, 4, 8])),
    )


def set_shares(devices: Sequence[SimulatedSystem], rng: np.random.Generator) -> None:
    """Random weights, budgets, windows and limits, the same for each device."""
    budgets = [0, 0, 20, 200]
    for core in range(len(devices[0].system.cores)):
        weight, reads, writes = rng.integers(1, 16), rng.choice(budgets), rng.choice(budgets)
        for device in devices:
            device.set_share(
                core, weight=int(weight), read_budget=int(reads), write_budget=int(writes)
            )
    window, reads, writes = rng.integers(200, 2000), rng.integers(1, 20), rng.integers(1, 8)
    for device in devices:
        device.set_window(int(window))
        device.set_limits(reads=int(reads), writes=int(writes))


def any_run(
    system: SystemConfig, rng: np.random.Generator
) -> tuple[list[Submission], dict[int, int]]:
    """Programs for every core, some of them scrubbed before, and late starts."""
    cores = range(len(system.cores))
    numbers = [*cores, *rng.integers(0, len(cores), int(rng.integers(0, 5))).tolist()]
    given = []
    for number in numbers:
        instructions = int(rng.integers(3, 60))
        program, image = random_program(system.cores[number].hw, rng, instructions=instructions)
        scrub = bool(rng.random() < 0.2)
        given.append(Submission(core=number, program=program, memory=image, scrub=scrub))
    return given, {core: int(rng.integers(0, 1500)) for core in cores if rng.random() < 0.4}


def observed(
    device: SimulatedSystem, given: Sequence[Submission], late: dict[int, int]
) -> dict[str, object]:
    """All that a run tells, by what it is of."""
    found = device.run(given, start_after=late, max_cycles=MAX_CYCLES)
    facts: dict[str, object] = {"clock": device.simulation.total_cycles}
    for number, result in enumerate(found.results):
        facts[f"submission {number}"] = (result.begin, result.cycles, result.error)
    for core, (counters, share) in enumerate(zip(found.counters, found.shares, strict=True)):
        for name, value in {**(counters.values if counters else {}), **share}.items():
            facts[f"{name} of core {core}"] = value
    return facts


def check(devices: Sequence[SimulatedSystem], rng: np.random.Generator) -> None:
    """Each device tells of random runs what the first tells."""
    for number in range(RUNS):
        if number % 2:
            set_shares(devices, rng)
        given, late = any_run(devices[0].system, rng)
        wanted, *others = (observed(device, given, late) for device in devices)
        for device, found in zip(devices[1:], others, strict=True):
            wrong = {n: (wanted[n], found[n]) for n in wanted if wanted[n] != found[n]}
            facts = where(memory=device.memory, late=late, run=number, wrong=wrong)
            assert not wrong, f"{device.fidelity} differs: {facts}"


def check_random(
    system: SystemConfig, fidelities: Sequence[Fidelity], rng: np.random.Generator, memories: int
) -> None:
    """The twin and these fidelities on random memories."""
    libraries = {fidelity: build_model(system, fidelity=fidelity) for fidelity in fidelities}
    for number in range(memories):
        memory = any_memory(rng) if number else IDEAL
        with ExitStack() as opened:
            devices: list[SimulatedSystem] = [
                VerilatorSystem(system, memory, fidelity=fidelity, library=library)
                for fidelity, library in libraries.items()
            ]
            devices.append(TwinSystem(system, memory, outputs=False))
            for device in devices:
                opened.enter_context(closing(device))
            check(devices, rng)


def test_two_small_cores_on_any_memory() -> None:
    check_random(PAIR, [Fidelity.RTL], generator("system twin pair"), 3)


@pytest.mark.slow
@pytest.mark.parametrize("number", sample(0, 40))
@pytest.mark.parametrize("system", [PAIR, MIXED], ids=lambda system: system.name)
def test_all_fidelities_count_alike(system: SystemConfig, number: int) -> None:
    rng = generator(f"system twin {system.name} {number}")
    check_random(system, [Fidelity.RTL, Fidelity.TIMING], rng, 10)


@pytest.mark.slow
@pytest.mark.parametrize("number", sample(0, 20))
def test_cores_of_any_parameters_on_any_ports(number: int) -> None:
    rng = generator(f"system twin any {number}")
    check_random(any_system(rng), [Fidelity.TIMING], rng, 10)


# -- the device --------------------------------------------------------------------------------


@pytest.fixture
def twin():
    device = TwinSystem(PAIR, IDEAL)
    yield device
    device.close()


def test_memories_are_those_of_the_rtl(twin) -> None:
    given, late = any_run(PAIR, generator("system twin memories"))
    rtl = VerilatorSystem(PAIR, IDEAL)
    wanted = rtl.run(given, start_after=late)
    rtl.close()
    assert isinstance(twin, SystemDevice)
    found = twin.run(given, start_after=late)
    for one, other in zip(wanted.results, found.results, strict=True):
        assert np.array_equal(one.memory, other.memory), where(late=late)


def test_a_queue_is_fed_as_fast_as_by_a_host_of_the_rtl(twin) -> None:
    """Programs so short that the queue runs dry, and that another one overtakes."""
    rtl = VerilatorSystem(PAIR, IDEAL)
    programs = [reader(TINY, 1 + index % 3) for index in range(21)]
    given = [
        Submission(core=int(number % 4 == 3), program=program, memory=program.image())
        for number, program in enumerate(programs)
    ]
    assert observed(twin, given, {1: 700}) == observed(rtl, given, {1: 700})
    rtl.close()


def test_a_program_may_end_in_any_cycle_in_which_the_host_takes_another(twin) -> None:
    """The host's clock shows it: an interrupt that lasts, one that comes while it reads."""
    rtl = VerilatorSystem(PAIR, IDEAL)
    program = program_of(TINY)
    given = [Submission(core=c, program=program, memory=program.image()) for c in (0, 1)]
    for late in range(48):
        assert observed(twin, given, {1: late}) == observed(rtl, given, {1: late}), late
    rtl.close()


def test_a_program_that_never_ends_is_refused_at_once_and_the_next_one_runs(twin) -> None:
    stuck, good = (
        Submission(core=core, program=program, memory=program.image())
        for core, program in enumerate([hanging(TINY), reader(TINY, 2)])
    )
    with pytest.raises(DeviceError, match=r"core 0.*no unit can go on"):
        twin.run([stuck, good])
    assert twin.run([good]).results[0].cycles > 0


def test_a_limit_of_cycles_holds(twin) -> None:
    program = reader(TINY, 100)
    given = [Submission(core=0, program=program, memory=program.image())]
    with pytest.raises(DeviceTimeoutError, match="1000 cycles"):
        twin.run(given, max_cycles=1000)
    rtl = VerilatorSystem(PAIR, IDEAL)
    fresh = rtl.run(given)
    rtl.close()
    assert twin.run(given).counters == fresh.counters


def test_what_the_twin_does_not_cover_is_refused_with_a_remedy(twin) -> None:
    with pytest.raises(ConfigError, match="random stalls"):
        TwinSystem(PAIR, replace(IDEAL, stall_percent=5))
    shared_page, share_of_core_0, no_core = 0x0F8, 0x20C, 0x3000
    for address in (shared_page, share_of_core_0, 0x200 + 2 * 0x40, 0x100 + 2 * 0x10, no_core):
        with pytest.raises(DeviceError, match="no such register"):
            twin.simulation.read(address)
        with pytest.raises(DeviceError, match="no such register"):
            twin.simulation.write(address, 1)
    program = reader(TINY, 1, offset=1 << 20)
    given = [Submission(core=0, program=program, memory=program.image())]
    with pytest.raises(DeviceError, match=r"ends with an error.*fidelity rtl"):
        twin.run(given)
