# SPDX-License-Identifier: Apache-2.0
"""Gap to the bound of mappers of groups against the number of samples (`multicore.json`).

tilewright bench multicore --json build/bench/multicore.json
python docs/pictures/multicore.py build/bench/multicore.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from charts import Frame
from drawing import Drawing

from tilewright.bench.multicore.page import courses

DATA: Final = Path(__file__).with_suffix(".json")
FLOOR: Final = 0.1
"""Per cent: the lowest line; smaller gaps are drawn there."""
KINDS: Final = {
    "Cores of one kind: S1, S3": ("S1", "S3"),
    "Cores of two kinds: S2, S4": ("S2", "S4"),
    "Big and little: S5, S6": ("S5", "S6"),
}
STYLES: Final = {
    "random": ("grey", "2 3"),
    "genetic": ("purple", ""),
    "de": ("green", "6 3"),
    "pso": ("purple", "2 3"),
    "tbpsa": ("green", ""),
    "magma": ("orange", ""),
    "magma-tuned": ("orange", "6 3"),
    "tilewright": ("blue", ""),
}


def draw(theme: str) -> str:
    """The picture."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    art = Drawing(
        width=820, height=420, theme=theme,
        title="Gap to a lower bound of the makespan by number of samples, for eight methods",
    )  # fmt: skip
    art.text(16, 30, "Distance to a lower bound of the makespan", size=16, bold=True)
    art.text(16, 50, f"{data['instances']} groups of 100 jobs; geometric means over tasks, "
             "bandwidths and seeds", size=12, colour="soft")  # fmt: skip
    for place, (kind, curves) in enumerate(data["gap_pct"].items()):
        frame = Frame(
            x=62 + 254 * place, y=90, width=220, height=236, left=1, right=data["budget"],
            bottom=FLOOR, top=1_000, logarithmic_x=True, logarithmic_y=True,
        )  # fmt: skip
        art.text(frame.x, 78, kind, size=12, bold=True)
        ticks = [(1000, "1000 %"), (100, "100 %"), (10, "10 %"), (1, "1 %"), (FLOOR, "0.1 %")]
        if not place:
            frame.horizontals(art, ticks)
        for at, _ in ticks if place else ():
            x, y = frame.at(frame.left, at)
            art.line([(x, y), (x + frame.width, y)], colour="faint")
        frame.marks(art, [(at, f"{at:,}") for at in (1, 100, data["budget"])])
        for method, (colour, dashes) in STYLES.items():
            points = [frame.at(at, max(FLOOR, gap)) for at, gap in curves.get(method, [])]
            if points:
                thick = 2.6 if method in ("tilewright", "magma") else 1.4
                art.line(points, colour=colour, width=thick, dashes=dashes)
    art.text(410, 364, "samples", size=12, colour="soft", anchor="middle")
    for place, (method, (colour, dashes)) in enumerate(STYLES.items()):
        x, y = 62 + 190 * (place % 4), 386 + 20 * (place // 4)
        art.line([(x, y - 4), (x + 26, y - 4)], colour=colour, width=2, dashes=dashes)
        art.text(x + 33, y, method, size=12)
    return art.svg()


def main() -> None:
    """Keep what the picture needs of a record of the bench."""
    study = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    document = {
        "instances": sum(
            row["what"] == "bound" and row["platform"] in names
            for row in study["rows"]
            for names in KINDS.values()
        ),
        "budget": study["conditions"]["budget"],
        "gap_pct": {
            kind: {
                method: [[at, float(f"{gap:.4g}")] for at, gap in curve]
                for method, curve in courses(study["rows"], platforms).items()
                if method in STYLES
            }
            for kind, platforms in KINDS.items()
        },
    }
    DATA.write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
