# SPDX-License-Identifier: Apache-2.0
"""Stands for pynq where there is numpy alone: its logic runs in `support.boards.board_logic`."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

import numpy as np

BASE = 0x1680_0000
_folder = Path(os.environ["TILEWRIGHT_BOARD_LOGIC"])
_connection = socket.socket(socket.AF_UNIX)
_connection.connect(str(_folder / "socket"))
_answers = _connection.makefile("r")
with (_folder / "memory").open("r+b") as _file:
    _memory = np.frombuffer(mmap.mmap(_file.fileno(), 0), np.uint8)
_start = _memory.ctypes.data


def _ask(*words: object) -> int:
    _connection.sendall((" ".join(map(str, words)) + "\n").encode())
    return int(_answers.readline())


class Overlay:
    def __init__(self, path: str, device: object = None) -> None:
        assert Path(path).read_bytes() == b"bits"
        assert Path(path).with_suffix(".hwh").is_file()
        self.device = device
        self.ip_dict = {
            "tilewright_0": {"phys_addr": 0x43C0_0000, "addr_range": 0x1_0000, "type": "tilewright"}
        }
        _ask("load")

    def is_loaded(self) -> bool:
        return True


class MMIO:
    def __init__(self, base: int, length: int, device: object = None) -> None:
        pass

    def read(self, offset: int) -> int:
        return _ask("read", offset)

    def write(self, offset: int, value: int) -> None:
        _ask("write", offset, value)


class _Buffer(np.ndarray):  # type: ignore[type-arg]  # as pynq has it
    @property
    def device_address(self) -> int:
        return BASE + self.ctypes.data - _start

    def flush(self) -> None:
        pass

    def invalidate(self) -> None:
        pass

    def freebuffer(self) -> None:
        pass


def allocate(shape: tuple[int], dtype: str, **_: object) -> _Buffer:
    assert shape[0] <= _memory.size
    return _memory[: shape[0]].view(_Buffer)
