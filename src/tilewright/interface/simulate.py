# SPDX-License-Identifier: Apache-2.0
"""One layer on one device, in this process: `simulate`, and `open_device` for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.options import takes
from tilewright.host.common.summaries import Summarised
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import THE_BOARDS, Board, MemoryModel, load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.agent.authentication import read_token
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.device import Device
from tilewright.interface.layers import resolved
from tilewright.interface.options import SimulateOptions
from tilewright.interface.typed import typed
from tilewright.sim.devices import open_simulated
from tilewright.sim.verilator.rtl_variant import rtl_variant
from tilewright.sim.verilator.simulated import DEFAULT_MAX_CYCLES
from tilewright.tuner.measure.backends import backend_of
from tilewright.tuner.measure.measurement import Request, Status
from tilewright.tuner.measure.oracle import measure_once


class WrongOutputError(DeviceError):
    """A device computed something else than the golden model: a defect of Tilewright."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulatedLayer(Summarised):
    """What one layer took under one schedule.

    Attributes:
        workload: the layer.
        schedule: how it was lowered.
        hw: the configuration that ran it.
        memory: the DRAM behind it.
        fidelity: what counted: ``rtl``, ``dpi``, ``timing`` or ``twin``.
        cycles: from start to the last write response.
        bound_cycles: no schedule of the layer takes fewer on this configuration and memory.
        counters: names of the on-chip counters to what they counted (cycles, bytes, tiles).
        output_checked: the int8 output was compared with the golden model and is bit-exact. False
            on ``timing`` and ``twin``, which move no data.
        host_seconds: of this machine, for lowering, run and check.

    Example:
        >>> import tilewright as tw
        >>> measured = tw.simulate(tw.dense("fc", 4, 64, 16), hw="tiny-4x4", fidelity="twin")
        >>> measured.cycles > measured.bound_cycles, 0 < measured.of_bound < 1
        (True, True)
        >>> measured.counters["macs_tiles"]
        256
    """

    workload: Workload
    schedule: Schedule
    hw: HwConfig
    memory: MemoryModel
    fidelity: str
    cycles: int
    bound_cycles: int
    counters: Mapping[str, int]
    output_checked: bool
    host_seconds: float

    def _told(self) -> Mapping[str, object]:
        return {
            "workload": self.workload.name,
            "cycles": f"{self.cycles:,} cycles",
            "of_bound": f"{self.of_bound:.1%} of bound ({self.bound_cycles:,})",
            "configuration": self.hw.name,
            "memory": self.memory.name,
            "fidelity": self.fidelity,
            "output_checked": self.output_checked,
            "schedule": self.schedule,
        }

    @property
    def of_bound(self) -> float:
        """Bound over cycles: 1.0 is unbeatable."""
        return self.bound_cycles / self.cycles


@typed
@takes(SimulateOptions)
def simulate(options: SimulateOptions) -> SimulatedLayer:
    """Run one layer on seeded random operands, check its output, and count cycles.

    The first call on a configuration builds it with Verilator, which takes seconds to a minute.
    The build is kept on disk, and the simulated device stays open for the next call.

    Returns:
        What it took, whether its output was checked, and what the on-chip counters counted.

    Raises:
        ScheduleError: the schedule is not `legal` here, or none.
        WorkloadError: there is no such layer.
        ConfigError: no such configuration, memory or fidelity.
        DeviceTimeoutError: ``max_cycles`` went by.
        WrongOutputError: the output is not bit-exact: a defect of Tilewright.
        BuildError: Verilator or the compiler failed.
        ToolError: Verilator or the compiler is missing.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
        >>> measured = tw.simulate(layer, hw="tiny-4x4")
        >>> measured.cycles, measured.output_checked
        (30281, True)
        >>> twin = tw.simulate(layer, hw="tiny-4x4", fidelity="twin")
        >>> twin.counters == measured.counters
        True
    """
    config, layer, chosen = resolved(options.hw, options.workload, options.schedule)
    timing = load_memory(options.memory)
    request = Request(
        hw=config,
        workload=layer,
        schedule=chosen,
        memory=timing,
        max_cycles=options.max_cycles or DEFAULT_MAX_CYCLES,
    )
    with rtl_variant(options.rtl):
        backend_of(options.fidelity).prepare(config)
        measured = measure_once(options.fidelity, request)
    if measured.status is Status.MISMATCH or measured.cycles is None:
        raise WrongOutputError(
            measured.failure,
            field=f"{layer.name} on {config.name}",
            remedy="this is a defect of Tilewright: please report it with workload and schedule",
        )
    return SimulatedLayer(
        workload=layer,
        schedule=chosen,
        hw=config,
        memory=timing,
        fidelity=measured.fidelity,
        cycles=measured.cycles,
        bound_cycles=bound(config, layer, timing).cycles,
        counters=measured.counters,
        output_checked=measured.output_checked,
        host_seconds=measured.host_seconds,
    )


@typed
def open_device(
    hw: HwConfig | str | Path = "pynq-16x16",
    memory: MemoryModel | Board | str | Path = THE_BOARDS,
    *,
    fidelity: str = Fidelity.RTL,
) -> Device:
    """Open a simulated device, which runs any number of programs; close it in the end.

    Args:
        hw: configuration, or the name or YAML file of one.
        memory: DRAM timing; see `simulate`.
        fidelity: ``rtl``, ``dpi``, ``timing`` or ``twin`` (see `simulate`); ``reference``: a NumPy
            model of the instruction set, which counts no cycles; ``cxxrtl``: the RTL in a second
            simulator, slow.

    Returns:
        A device: ``run(program, memory, max_cycles=0)`` returns the uint8 memory image after the
        run and the counters; ``hw`` is its configuration; ``close()`` releases it.

    Raises:
        ConfigError: no such configuration, memory or fidelity.
        BuildError: the device cannot be built.
        ToolError: Verilator or the compiler is missing.

    Example:
        >>> from contextlib import closing
        >>> import tilewright as tw
        >>> layer = tw.dense("fc", rows=1, features_in=64, features_out=16)
        >>> program = tw.lower("tiny-4x4", layer).program
        >>> with closing(tw.open_device("tiny-4x4", "ideal")) as device:
        ...     result = device.run(program, program.image())
        >>> result.counters.cycles
        328
    """
    return open_simulated(fidelity, load_hwconfig(hw), load_memory(memory))


@typed
def connect_device(
    agent: str, token_file: str | Path, *, wait_seconds: float = 0.0, plain: bool = False
) -> Device:
    """Lease the board of an agent (`tilewright agent`); close the device in the end.

    Args:
        agent: its address, ``HOST:PORT``.
        token_file: file with the secret that the agent knows, too.
        wait_seconds: how long to wait while another client has the board.
        plain: do without TLS, as the agent does; only for an address of this machine.

    Returns:
        A device as `open_device` returns it; `run` takes it.

    Raises:
        ConfigError: no such address or file, or one of another machine without TLS.
        DeviceError: nobody listens there, the board is leased, or a side does not know the secret.

    Example:
        >>> import tilewright as tw
        >>> try:
        ...     device = tw.connect_device("127.0.0.1:7425", "no-such-file")
        ... except tw.TilewrightError as error:
        ...     print(error.field)
        no-such-file
    """
    token = read_token(Path(token_file))
    return RemoteDevice(agent, token, wait_seconds=wait_seconds, plain=plain)
