# SPDX-License-Identifier: Apache-2.0
"""Cycles of ResNet-18's layers against their bound (`bound.json`).

tilewright bench roofline --quick --json build/roofline.json
python docs/pictures/bound.py build/roofline.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from charts import Frame
from drawing import Drawing

DATA: Final = Path(__file__).with_suffix(".json")
MEMORY: Final = "pynq-z2"
KEPT: Final = ("layer", "memory", "hw", "network", "count", "cycles", "bound", "confirmed_on_rtl")


def draw(theme: str) -> str:
    """The picture."""
    rows = sorted(
        json.loads(DATA.read_text(encoding="utf-8")), key=lambda row: int(row["layer"][1:])
    )
    art = Drawing(
        width=820, height=360, theme=theme,
        title="Cycles of each layer of ResNet-18 on the RTL, beside the bound of the layer",
    )  # fmt: skip
    art.text(16, 30, "How near the RTL comes to the bound", size=16, bold=True)
    art.text(16, 50, "ResNet-18, pynq-16x16, memory of a PYNQ-Z2; full RTL, bit-exact",
             size=12, colour="soft")  # fmt: skip
    frame = Frame(x=76, y=92, width=724, height=212, left=0, right=len(rows), top=750_000)
    frame.horizontals(art, [(v, f"{v // 1000}k") for v in range(0, 750_001, 150_000)])
    for place, row in enumerate(rows):
        for offset, key, colour in ((0.16, "bound", "grey"), (0.5, "cycles", "blue")):
            x, y = frame.at(place + offset, row[key])
            art.rect(x, y, 0.32 * frame.width / len(rows), frame.y + frame.height - y,
                     fill=colour, radius=1)  # fmt: skip
        x, y = frame.at(place + 0.5, max(row["cycles"], row["bound"]))
        art.text(x, y - 6, f"{100 * row['bound'] / row['cycles']:.1f} %", size=11, anchor="middle")
        art.text(x, frame.y + frame.height + 18, row["layer"], size=12, anchor="middle")
    for place, (colour, words) in enumerate((("grey", "bound"), ("blue", "measured cycles"))):
        art.rect(76 + 110 * place, 66, 11, 11, fill=colour, radius=2)
        art.text(93 + 110 * place, 76, words, size=11, colour="soft")
    art.text(16, 346, "Percent: bound / cycles. A bound is the larger of the layer's "
             "MAC cycles and its compulsory bytes over the bus.",
             size=11, colour="soft")  # fmt: skip
    return art.svg()


def main() -> None:
    """Keep what the picture needs of a record of the bench."""
    records = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["rows"]
    rows = [{key: r[key] for key in KEPT} for r in records if r["memory"] == MEMORY]
    lines = ",\n".join(json.dumps(row) for row in rows)
    DATA.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
