# SPDX-License-Identifier: Apache-2.0
"""Tilewright: hardware-in-the-loop co-design of an int8 GEMM accelerator and its schedules.

    import tilewright as tw

The names in `__all__` are the public interface: they keep their meaning from release to release.
Every deeper module (``tilewright.host``, ``tilewright.tuner``, ...) is private, though its name has
no underscore: import from it at your own risk. `tilewright.testing`, the contract suites for your
own tuners and allocators, and `tilewright.environments`, mapping search for learners of your own,
are public as well.

Names are imported when they are first used, so `import tilewright` itself takes milliseconds.
Sizes are in elements and bytes, times in cycles of the accelerator's clock, unless a docstring says
otherwise. Every error that you can cause is a `TilewrightError`, whose text says the rule, the
field, the value and the remedy. Where a remedy names an option of the command line (``--store``),
the argument of the same name (``store``) does the same here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# ONNX Runtime would keep a device's number and its events in the user's home, and send them.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from tilewright.host.common.errors import TilewrightError
    from tilewright.host.compiler.lower.own_call import OperatorCall
    from tilewright.host.compiler.read.own_operator import Operator
    from tilewright.host.compiler.tasks import load_network
    from tilewright.host.deploy.board_run import open_bundle
    from tilewright.host.machine.board import Board, load_board
    from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
    from tilewright.host.network.schedule import Schedule
    from tilewright.host.network.workload import Workload, conv2d, dense, depthwise, maxpool
    from tilewright.interface.figures import Comparison
    from tilewright.interface.layers import default_schedule, legal, lower
    from tilewright.interface.networks import compile, open_network, run
    from tilewright.interface.search import make_tuner, schedule_space
    from tilewright.interface.simulate import (
        SimulatedLayer,
        connect_device,
        open_device,
        simulate,
    )
    from tilewright.interface.study import Study, compare, load_study, tune
    from tilewright.tuner.allocate import Allocator
    from tilewright.tuner.exhaustive.table import read_table
    from tilewright.tuner.measure.energy import EnergyModel
    from tilewright.tuner.search.experience import Experience
    from tilewright.tuner.search.space import Knob, Space
    from tilewright.tuner.search.tuner import Result, Tuner
    from tilewright.tuner.study.goals import Goal

__version__ = "0.1.0"

__all__ = [
    "Allocator",
    "Board",
    "Comparison",
    "EnergyModel",
    "Experience",
    "Goal",
    "HwConfig",
    "Knob",
    "Operator",
    "OperatorCall",
    "Result",
    "Schedule",
    "SimulatedLayer",
    "Space",
    "Study",
    "TilewrightError",
    "Tuner",
    "Workload",
    "compare",
    "compile",
    "connect_device",
    "conv2d",
    "default_schedule",
    "dense",
    "depthwise",
    "legal",
    "load_board",
    "load_hwconfig",
    "load_network",
    "load_study",
    "lower",
    "make_tuner",
    "maxpool",
    "open_bundle",
    "open_device",
    "open_network",
    "read_table",
    "run",
    "schedule_space",
    "simulate",
    "tune",
]

_HOMES = {
    "Allocator": "tuner.allocate",
    "Board": "host.machine.board",
    "Comparison": "interface.figures",
    "EnergyModel": "tuner.measure.energy",
    "Experience": "tuner.search.experience",
    "Goal": "tuner.study.goals",
    "HwConfig": "host.machine.hwconfig",
    "Knob": "tuner.search.space",
    "Operator": "host.compiler.read.own_operator",
    "OperatorCall": "host.compiler.lower.own_call",
    "Result": "tuner.search.tuner",
    "Schedule": "host.network.schedule",
    "SimulatedLayer": "interface.simulate",
    "Space": "tuner.search.space",
    "Study": "interface.study",
    "TilewrightError": "host.common.errors",
    "Tuner": "tuner.search.tuner",
    "Workload": "host.network.workload",
    "compare": "interface.study",
    "compile": "interface.networks",
    "connect_device": "interface.simulate",
    "conv2d": "host.network.workload",
    "default_schedule": "interface.layers",
    "dense": "host.network.workload",
    "depthwise": "host.network.workload",
    "legal": "interface.layers",
    "load_board": "host.machine.board",
    "load_hwconfig": "host.machine.hwconfig",
    "load_network": "host.compiler.tasks",
    "load_study": "interface.study",
    "lower": "interface.layers",
    "make_tuner": "interface.search",
    "maxpool": "host.network.workload",
    "open_bundle": "host.deploy.board_run",
    "open_device": "interface.simulate",
    "open_network": "interface.networks",
    "read_table": "tuner.exhaustive.table",
    "run": "interface.networks",
    "schedule_space": "interface.search",
    "simulate": "interface.simulate",
    "tune": "interface.study",
}
"""The module of each public name; type checkers read the imports above, which a test compares."""


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  (only when a name is used)

        found: object = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
