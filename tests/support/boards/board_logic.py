# SPDX-License-Identifier: Apache-2.0
"""The accelerator of a board as a process: the RTL, its registers on a socket, memory in a file.

``python -m support.boards.board_logic FOLDER`` serves one client, the stand-in for pynq in
``board_python``, which so needs neither this package nor Verilator.
"""

import socket
import sys
from pathlib import Path

import numpy as np

from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.pynq_simulation import ContiguousMemory, SimulatedLogic

_BYTES = 16 << 20


def main(folder: Path) -> None:
    hw = load_hwconfig("tiny-4x4")
    memory = ContiguousMemory(_BYTES, coherent=True)
    object.__setattr__(memory, "bytes", np.memmap(folder / "memory", np.uint8, "w+", shape=_BYTES))
    logic = SimulatedLogic(hw, load_memory("pynq-z2"), build_model(hw), memory)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        server.listen()
        print("ready", flush=True)  # noqa: T201  (the parent reads it)
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            for line in stream:
                match line.split():
                    case ["load"]:
                        logic.reset()
                        answer = 0
                    case ["read", offset]:
                        answer = logic.read(int(offset))
                    case ["write", offset, value]:
                        logic.write(int(offset), int(value))
                        answer = 0
                stream.write(f"{answer}\n")
                stream.flush()
    logic.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
