# SPDX-License-Identifier: Apache-2.0
"""`tilewright sim`: one layer on one device."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import COMMON, app, blame, fail_wrong, open_console, say
from tilewright.cli.common.json_output import JsonOption, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.host.common.errors import errors_in, fields_named
from tilewright.host.common.names import counted
from tilewright.host.common.options import option
from tilewright.host.common.printable import printable
from tilewright.interface.options import LayerDevice, SimulateOptions
from tilewright.tuner.schedule.options import LayerOptions

if TYPE_CHECKING:
    from tilewright.host.machine.board import MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.machine.program import Program
    from tilewright.host.runtime.device import Counters, RunResult


_FIELDS: Final = {"max_cycles": "--max-cycles"}


@dataclass(frozen=True)
class CommandOptions(SimulateOptions, LayerOptions):
    """What a run of a layer is of, besides what Python says of it."""

    _: KW_ONLY
    seed: int = option(0, "Seed of the random operands.", low=0, metavar="SEED")
    waves: Path | None = option(
        None, "Write the waves of the run to this FST file.", metavar="FILE"
    )
    trace: Path | None = option(
        None,
        "Write a Chrome trace (JSON, for ui.perfetto.dev): when each instruction ran, and what "
        "each unit waited for.",
        metavar="FILE",
    )


@app.command(rich_help_panel=COMMON)
@from_fields(CommandOptions)
def sim(
    context: typer.Context,
    settings: CommandOptions,
    rtl: arguments.RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Run one layer, check its output bit by bit, and print cycles and counters."""
    import numpy as np

    from tilewright.host.lowering import default_schedule, lower, random_operands
    from tilewright.host.lowering.cycle_bound import bound
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.host.network.golden import conv2d_int8
    from tilewright.host.network.schedule import load_schedule
    from tilewright.sim.devices import open_simulated

    device, waves, trace = LayerDevice(settings.fidelity), settings.waves, settings.trace
    config = load_hwconfig(settings.hw)
    table = arguments.read_network(settings.network, config, settings.board)
    workload, file = table[str(settings.workload)], settings.schedule
    if device is LayerDevice.REFERENCE:
        _refuse_with_reference(context, rtl)
    _check_recording(device, waves, trace)
    arguments.require_places(
        {"--schedule": None if file is None else Path(str(file))},
        {"--waves": waves, "--trace": trace, "--json": json_path(json)},
    )
    timing = arguments.simulated_memory(context, str(settings.memory), settings.board)
    chosen = default_schedule(config, workload) if file is None else load_schedule(file)
    with nullcontext() if file is None else errors_in(str(file)):
        lowered = lower(config, workload, chosen)
    tensors = random_operands(config, workload, np.random.default_rng(settings.seed))
    image = lowered.image(tensors)
    if waves is not None:
        from tilewright.sim.executor.wave_run import run_with_waves

        with (
            fields_named(_FIELDS),
            arguments.replacing(waves),
            progress(f"building and recording {config.name} in Verilator", quiet=json is not None),
        ):
            result = run_with_waves(
                config, timing, lowered.program, image, waves, max_cycles=settings.max_cycles
            )
    else:
        with progress(f"building {config.name} in Verilator", quiet=json is not None):
            runner = open_simulated(device.value, config, timing)
        with (
            closing(runner),
            fields_named(_FIELDS),
            progress(f"{workload.name} on {device.value}", quiet=json is not None),
        ):
            result = runner.run(lowered.program, image, max_cycles=settings.max_cycles)
    expected = conv2d_int8(workload, tensors)
    actual = lowered.output(result.memory)
    wrong = int(np.count_nonzero(actual != expected)) if actual.shape == expected.shape else -1
    if device is LayerDevice.TIMING:  # it has no data
        wrong = 0
    bound_cycles = bound(config, workload, timing).cycles
    print_run(
        title=f"{workload.name} of {settings.network} on {config.name} ({config.config_hash:08x}), "
        f"memory {timing.name}, {device.value}" + (f", RTL {rtl}" if rtl else ""),
        schedule=str(chosen.to_mapping()),
        counters=result.counters,
        bound_cycles=bound_cycles,
        seconds=result.host_seconds,
    )
    if json is not None:
        conditions = {
            "network": settings.network,
            "hw": config.parameters(),
            "memory": timing.name,
            "device": device.value,
            "schedule": chosen.to_mapping(),
            "seed": settings.seed,
            "rtl": str(rtl or ""),
        }
        json.write([_row(workload.name, result, bound_cycles, wrong)], conditions)
    _tell_recording(waves, trace, config, timing, lowered.program, result.counters)
    if wrong:
        fail_wrong(
            f"{wrong} of {expected.size} elements of {workload.name} differ from the golden model",
            blame(rtl),
        )
    if device is not LayerDevice.TIMING:
        say(f"output: bit-exact, {expected.size:,} int8 elements")


def _tell_recording(
    waves: Path | None,
    trace: Path | None,
    config: HwConfig,
    timing: MemoryModel,
    program: Program,
    counters: Counters,
) -> None:
    """Write the trace, and say where waves and trace are."""
    if waves is not None:
        name = printable(str(waves))
        say(f"waves: {name} (view with: surfer {name}  or  gtkwave {name})")
    if trace is not None:
        from tilewright.sim.twin.agreement import require_agreement
        from tilewright.sim.twin.device import Twin
        from tilewright.sim.twin.trace import write_trace

        require_agreement(config, timing)
        with arguments.replacing(trace):
            count = write_trace(trace, Twin(config, timing), program, counters)
        say(
            f"trace: {printable(str(trace))}, {counted(count, 'instruction')} "
            "(view with ui.perfetto.dev)"
        )


def _row(layer: str, result: RunResult, bound_cycles: int, wrong: int) -> dict[str, Any]:
    return {
        "layer": layer,
        "cycles": result.counters.cycles,
        "bound_cycles": bound_cycles,
        "wrong_elements": wrong,
        "seconds": result.host_seconds,
        "counters": dict(result.counters.values),
    }


def _refuse_with_reference(context: typer.Context, rtl: Path | None) -> None:
    """Refuse options that the reference has no use for."""
    if rtl is not None:
        raise UsageError(
            "the reference runs no RTL",
            field="--rtl",
            value=rtl,
            remedy="leave --rtl out, or choose another --device",
        )
    arguments.refuse_given(
        context, ("memory", "board"), "needs a device with time, not the reference"
    )


def _check_recording(device: LayerDevice, waves: Path | None, trace: Path | None) -> None:
    """Refuse a recording that the device cannot make."""
    if waves is not None and device is not LayerDevice.RTL:
        raise UsageError(
            "waves need the RTL in Verilator", field="--waves", remedy="leave out --device"
        )
    if trace is not None and device is LayerDevice.REFERENCE:
        raise UsageError(
            "a trace needs a device with time",
            field="--trace",
            remedy="leave out --device reference",
        )


def print_run(
    *, title: str, schedule: str, counters: Counters, bound_cycles: int, seconds: float
) -> None:
    """Print what a run took, unit by unit."""
    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.machine.registers import UNIT_COUNTER_STATES, UNIT_NAMES

    console = open_console()
    console.say(title)
    console.say(f"schedule {schedule}")
    cycles = counters.cycles
    if cycles:
        console.say(
            f"{cycles:,} cycles; bound {bound_cycles:,}; {100 * bound_cycles / cycles:.1f} % of "
            f"the bound; simulated in {seconds:.2f} s ({cycles / max(seconds, 1e-9) / 1e6:.2f} "
            "M cycles/s)"
        )
        units = plain_table("cycles", *UNIT_NAMES)
        for state, _ in UNIT_COUNTER_STATES:
            cells = []
            for unit in UNIT_NAMES:
                count = counters.values.get(f"{unit}_{state}")
                share = "" if count is None else f"{count:,} {100 * count / cycles:5.1f} %"
                cells.append(share)
            units.add_row(state.replace("token_", "waits for "), *cells)
        print_table(units, console)
    else:
        console.say("cycles: the reference does not model time")
    unit_states = {f"{u}_{s}" for u in UNIT_NAMES for s, _ in UNIT_COUNTER_STATES}
    shown = {k: v for k, v in counters.values.items() if k not in unit_states and (cycles or v)}
    console.say(", ".join(f"{k} {v:,}" for k, v in shown.items()))
