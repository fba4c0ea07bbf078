# SPDX-License-Identifier: Apache-2.0
"""Trials to store, and where to store them."""

from pathlib import Path

from support.postgres import new_database
from support.search.analytic_oracle import counters_of

from tilewright.host.machine.board import MemoryModel
from tilewright.host.network.schedule import Schedule
from tilewright.testing.analytic import BASE, MEMORY, SMALL
from tilewright.tuner.measure.measurement import Measurement, Request, Status
from tilewright.tuner.store.store import Store

SETTINGS = {"budget": 10, "seed": 0, "tasks": [SMALL.to_mapping()]}
DIALECTS = ("sqlite", "postgresql")


def new_location(dialect: str, folder: Path) -> Path | str:
    """Where a new store may be."""
    return folder / "runs" / "s.sqlite" if dialect == "sqlite" else new_database()


def request(tile_h: int = 1, *, memory: MemoryModel = MEMORY, max_cycles: int = 1000) -> Request:
    schedule = Schedule(tile_h=tile_h, tile_w=1, tile_ci=1, tile_co=1)
    return Request(hw=BASE, workload=SMALL, schedule=schedule, memory=memory, max_cycles=max_cycles)


def measured(cycles: int = 500) -> Measurement:
    return Measurement(
        status=Status.OK,
        fidelity="test",
        cycles=cycles,
        counters=counters_of(cycles),
        limit_cycles=1000,
        host_seconds=0.25,
        output_checked=True,
    )


def add(
    store: Store, study: int, sequence: int, request: Request, answer: Measurement, owner: str = ""
) -> None:
    store.add_trial(
        study,
        sequence=sequence,
        task="S",
        origin="random",
        request=request,
        measurement=answer,
        oracle="oracle-1",
        owner=owner,
    )
