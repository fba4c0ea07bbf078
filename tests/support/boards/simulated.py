# SPDX-License-Identifier: Apache-2.0
"""Boards without a board: the twin's cycles of a hidden memory, the reference's results."""

import hashlib
import json
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from support.boards.agents import TINY, TOKEN, serving
from support.randomness import often

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.runtime.board_pool import BoardAddress
from tilewright.host.runtime.scrub import scrub_program
from tilewright.sim.twin.device import TwinDevice
from tilewright.sim.verilator.noisy_memory import NoisyMemory
from tilewright.testing.device_contract import ERRORS, DeviceContract
from tilewright.tuner.measure.board_oracle import BoardOracle

KIND = "pynq-z2"
HIDDEN = replace(load_memory(KIND), read_latency=37, write_latency=30, shared_bytes_per_cycle=6.0)
"""What the simulated boards' DRAM is in truth."""


class HiddenBoard:
    """A device whose memory timing is drawn anew for each run, or always the same."""

    def __init__(self, hw=TINY, *, memory=HIDDEN, seed=None) -> None:
        self._twins: dict[object, TwinDevice] = {}
        self._noise = None if seed is None else NoisyMemory(memory, seed)
        self._memory = memory
        self.hw = hw
        self.runs = 0
        self.lies = False
        self.broken = False
        self.started = threading.Event()
        self.hold: threading.Event | None = None

    def run(self, program, memory, *, max_cycles=0):
        timing = self._memory if self._noise is None else self._noise.draw()
        if timing not in self._twins:
            self._twins[timing] = TwinDevice(self.hw, timing)
        result = self._twins[timing].run(program, memory, max_cycles=max_cycles)
        if program == scrub_program(self.hw):
            return result
        self.runs += 1
        self.started.set()
        self.about_to_run()
        if self.hold is not None:
            assert self.hold.wait(20)
        if self.broken:
            raise DeviceError("the accelerator does not answer", field="device")
        if self.lies:
            changed = np.flatnonzero(result.memory != memory)
            result.memory[changed] ^= 1
        return result

    def about_to_run(self) -> None:
        """Called before each run of a client's program."""

    def close(self) -> None:
        """Nothing to release."""


def write_token(folder):
    """The tests' token in a file."""
    path = folder / "token"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(TOKEN)
    return path


def write_pool(folder, **addresses):
    """A pool of agents without TLS by their names."""
    write_token(folder)
    lines = [
        f"  - {{name: {name}, agent: '{address}', token_file: token, plain: true}}"
        for name, address in addresses.items()
    ]
    path = folder / "pool.yaml"
    path.write_text("\n".join(["boards:", *lines, ""]))
    return path


def write_layer(folder):
    """A network of one small layer."""
    path = folder / "layer.yaml"
    layer = "name: L, height: 6, width: 6, channels_in: 8, channels_out: 8"
    layer += ", kernel_h: 3, kernel_w: 3, pad_top: 1, pad_bottom: 1, pad_left: 1, pad_right: 1"
    path.write_text(f"layers:\n  - {{{layer}}}\n")
    return path


def write_bitstream(folder, hw, *, clock_mhz=100.0) -> dict:
    """A file that stands for a bitstream, and its manifest; returns the manifest."""
    content = f"bitstream of {hw.name}".encode()
    (folder / f"{hw.name}.bit").write_bytes(content)
    manifest = {
        "bitstream": 1,
        "board": KIND,
        "part": load_board(KIND).part,
        "config_hash": hw.config_hash,
        "hw": {"name": hw.name, **hw.parameters()},
        "clock_mhz": clock_mhz,
        "timing": {"setup_slack_ns": 0.1, "limit_mhz": clock_mhz + 1},
        "utilisation": {"lut": 1, "ff": 1, "bram36": 1, "dsp": 1},
        "strategy": "s",
        "preset": "p",
        "vivado": "v",
        "files": {f"{hw.name}.bit": hashlib.sha256(content).hexdigest()},
    }
    (folder / f"{hw.name}.yaml").write_text(json.dumps(manifest))
    return manifest


@contextmanager
def pool_of(folder, *, kind=KIND, digest="d1", journal=None, **devices):
    """Agents of devices by name; their addresses as a pool has them."""
    token = write_token(folder)
    with ExitStack() as stack:
        yield [
            BoardAddress(
                name=name,
                agent=stack.enter_context(
                    serving(device, board=kind, digest=digest, journal=journal)
                ),
                token_file=token,
                plain=True,
                wait_seconds=20,
            )
            for name, device in devices.items()
        ]


@contextmanager
def oracle_of(folder, *, configs=(TINY,), journal=None, **devices):
    """An oracle on boards, and what it told."""
    told: list[str] = []
    with pool_of(folder, journal=journal, **devices) as pool:
        oracle = BoardOracle(pool, board=KIND, configs=configs, tell=told.append)
        try:
            yield oracle, told
        finally:
            oracle.close()


class FewErrorsContract(DeviceContract):
    """Of a device that only hands on what another, which is held to all errors, says."""

    @pytest.mark.parametrize("case", often("errors of a device", sorted(ERRORS), 8))
    def test_reports_an_illegal_instruction_and_stays_usable(self, tiny, case: str) -> None:
        super().test_reports_an_illegal_instruction_and_stays_usable(tiny, case)
