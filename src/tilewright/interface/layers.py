# SPDX-License-Identifier: Apache-2.0
"""One layer without a device: `legal`, `lower` and `default_schedule`, by names or by objects."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tilewright.host import lowering
from tilewright.host.compiler.tasks import load_network
from tilewright.host.lowering import Legality, LoweredLayer
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.schedule import Schedule, load_schedule
from tilewright.host.network.workload import Workload
from tilewright.interface.typed import typed

DEFAULT_NETWORK: Final = "vta-resnet18"
"""Whose layer a name without a network means, as in `tilewright sim`."""


@typed
def legal(
    hw: HwConfig | str | Path, workload: Workload | str, schedule: Schedule | str | Path | None
) -> Legality:
    """Whether `lower` accepts a schedule, and the reason if it does not.

    Exact: the answer comes from the plan that `lower` emits. Costs tens of microseconds.

    Args:
        hw: the configuration to lower for, or the name or YAML file of one.
        workload: what to compute: a layer, or the name of one (see `simulate`).
        schedule: how: a `Schedule` or the YAML file of one; None: the `default_schedule`.

    Returns:
        A verdict: ``ok``, and if not, the ``rule`` that is broken and a ``detail`` with figures.

    Raises:
        TilewrightError: there is no such configuration, layer or file.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.conv2d("example", 56, 64, 64, kernel=3, pad=1, stride=1)
        >>> large = tw.Schedule(tile_h=56, tile_w=56, tile_ci=16, tile_co=16)
        >>> verdict = tw.legal("tiny-4x4", layer, large)
        >>> verdict.ok, verdict.detail != ""
        (False, True)
    """
    return lowering.legal(*resolved(hw, workload, schedule))


@typed
def lower(
    hw: HwConfig | str | Path,
    workload: Workload | str,
    schedule: Schedule | str | Path | None = None,
    *,
    clip: tuple[int, int] | None = None,
) -> LoweredLayer:
    """Lower a layer with a schedule.

    Args:
        hw: see `legal`.
        workload: see `legal`.
        schedule: see `legal`.
        clip: int8 bounds of the output; by default the layer's.

    Returns:
        ``program``, ready to run; ``image(tensors)``, the memory before the run;
        ``output(memory)``, the int8 NCHW tensor after it; ``macs_tiles``, ``bytes_read`` and
        ``bytes_written``.

    Raises:
        ScheduleError: the schedule is not legal; the text is that of `legal`.
        ProgramError: a clip that is not int8 or not in order.
        TilewrightError: there is no such configuration, layer or file.

    Example:
        >>> import tilewright as tw
        >>> lowered = tw.lower("tiny-4x4", tw.dense("fc", 1, features_in=64, features_out=16))
        >>> lowered.macs_tiles, lowered.bytes_written
        (64, 16)
    """
    return lowering.lower(*resolved(hw, workload, schedule), clip=clip)


@typed
def default_schedule(hw: HwConfig | str | Path, workload: Workload | str) -> Schedule:
    """The largest square-ish tile that fits, single-buffered, output-stationary, as VTA does.

    Args:
        hw: see `legal`.
        workload: see `legal`.

    Raises:
        ScheduleError: no such schedule is legal; the text says what the smallest one lacks.
        TilewrightError: there is no such configuration or layer.

    Example:
        >>> import tilewright as tw
        >>> layer = tw.conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
        >>> schedule = tw.default_schedule("tiny-4x4", layer)
        >>> tw.legal("tiny-4x4", layer, schedule).ok
        True
    """
    return resolved(hw, workload, None)[2]


def resolved(
    hw: HwConfig | str | Path, workload: Workload | str, schedule: Schedule | str | Path | None
) -> tuple[HwConfig, Workload, Schedule]:
    """What names and paths stand for; one that stands for nothing is a `TilewrightError`."""
    config = load_hwconfig(hw)
    layer = load_layer(workload, config)
    if schedule is None:
        return config, layer, lowering.default_schedule(config, layer)
    return config, layer, load_schedule(schedule)


def load_layer(workload: Workload | str, hw: HwConfig | str = "pynq-16x16") -> Workload:
    """A layer by name: ``C8``, or ``NETWORK:LAYER`` for one of another network or of a file.

    A layer's name may hold colons, as those of ONNX files do: the network ends before the first
    colon, or where the name of a file that is there ends. A model's layers are those for ``hw``.

    Raises:
        WorkloadError: there is none.
    """
    if isinstance(workload, Workload):
        return workload
    ends = [at for at, sign in enumerate(workload) if sign == ":"]
    if not ends:
        return load_network(DEFAULT_NETWORK)[workload]
    end = next((at for at in ends if Path(workload[:at]).is_file()), ends[0])
    return load_network(workload[:end], hw=hw)[workload[end + 1 :]]
