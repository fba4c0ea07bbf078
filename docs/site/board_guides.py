# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: a from-zero guide for each kind of board, `how-to/first-run-BOARD.md`.

The text is one, `board_guide.txt` beside this file. Figures come from the board's file. Written
here is only what no file of the project knows: what to plug where.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

TEMPLATE: Final = Path(__file__).with_name("board_guide.txt")
SMALL: Final = "tiny-4x4"


@dataclass(frozen=True, kw_only=True)
class Guide:
    """What is different from board to board.

    Attributes:
        title: the board's name.
        large: the largest configuration that fits.
        cables: beside the SD card.
        address: of the board, for SSH.
        start: Markdown: image, switches, cables, and how one sees that it works.
        compiled: what compiling the digits network tells; ``...``: nobody did.
    """

    title: str
    large: str
    cables: str
    address: str
    start: str
    compiled: str = "... cycles on the twin"


_PYNQ_NETWORK: Final = (
    "Connect Ethernet to your router: the board is `pynq`. On a cable straight to your computer "
    "it is 192.168.2.99; give your computer 192.168.2.1."
)

GUIDES: Final = {
    "pynq-z2": Guide(
        title="PYNQ-Z2",
        large="pynq-16x16",
        cables="a micro-USB cable, an Ethernet cable",
        address="pynq",
        start=(
            "1. Write the PYNQ image for PYNQ-Z2, version 3.0 or 3.1 (pynq.io, *Boards*), to the "
            "SD card, with balenaEtcher or `dd`.\n"
            "2. Put the card into the slot at the underside. Boot jumper: `SD`.\n"
            "3. Power jumper: `USB`, and the micro-USB cable to `PROG UART`. If the board resets "
            "under load, take `REG` and a supply of 12 V.\n"
            f"4. {_PYNQ_NETWORK}\n"
            "5. Switch on. The red LED shows power. After about a minute the blue LEDs blink: "
            "Linux is there."
        ),
        compiled=(
            "25,446 cycles on the twin, memory pynq-z2: 0.25 ms at 100 MHz; "
            "95.2 % of the sum of bounds"
        ),
    ),
    "zcu104": Guide(
        title="ZCU104",
        large="zu-32x32",
        cables="its 12 V supply, an Ethernet cable",
        address="pynq",
        start=(
            "1. Write the PYNQ image for ZCU104, version 3.0 or 3.1 (pynq.io, *Boards*), to the "
            "SD card, with balenaEtcher or `dd`.\n"
            "2. Put the card into its slot. Boot switches SW6: 1 on, 2, 3 and 4 off.\n"
            "3. Connect the supply of 12 V. The USB cable to the JTAG-UART port is for a console "
            "alone.\n"
            f"4. {_PYNQ_NETWORK}\n"
            "5. Switch on, and wait for a minute."
        ),
    ),
    "ultra96-v2": Guide(
        title="Ultra96-V2",
        large="pynq-16x32",
        cables="a supply of 12 V for 96Boards, a micro-USB cable",
        address="192.168.3.1",
        start=(
            "1. Write Avnet's PYNQ 3.0 image for Ultra96-V2 (github.com/Avnet/Ultra96-PYNQ, "
            "*Releases*) to the SD card. One for V1 does not start.\n"
            "2. Put the card into its slot, and the boot-mode switch to SD.\n"
            "3. The board has no Ethernet. Connect the micro-USB port to your computer, which sees "
            "a network: the board is 192.168.3.1 in it. Or set Wi-Fi up in its Jupyter. Avnet's "
            "guide on the same page decides where this one differs.\n"
            "4. Connect the supply, press the power button, and wait for a minute."
        ),
    ),
}


def guide(board: str) -> str:
    """The guide of a board, as Markdown."""
    # heavy: only when the site is built
    from tilewright.host.machine.area import fits  # noqa: PLC0415  (slow to import)
    from tilewright.host.machine.board import load_board, load_vivado_target  # noqa: PLC0415  (slow to import)
    from tilewright.host.machine.hwconfig import load_hwconfig  # noqa: PLC0415  (slow to import)

    own, plan, target = GUIDES[board], load_board(board), load_vivado_target(board)
    small = fits(load_hwconfig(SMALL), plan).text
    protocol = "AXI3" if target.processor == "zynq7000" else "AXI4"
    values = {
        "title": own.title,
        "board": board,
        "large": own.large,
        "cables": own.cables,
        "start": own.start,
        "part": plan.part,
        "clock": f"{plan.clock_mhz:g}",
        "processor": plan.cpu.name,
        "port": f"{plan.axi_data_bits}-bit {protocol}",
        "registers": f"{target.registers_base:#x}",
        "contiguous": f"{int(plan.cpu.contiguous_bytes) >> 20}",
        "fits": small.partition(": ")[2],
        "compiled": own.compiled,
        "address": own.address,
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the guides to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (also imported without MkDocs)

    for board in GUIDES:
        files.append(File.generated(config, f"how-to/first-run-{board}.md", content=guide(board)))
    return files
