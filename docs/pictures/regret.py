# SPDX-License-Identifier: Apache-2.0
"""Regret of tuners against the number of measurements (`regret.json`).

tilewright bench tuners --track schedule --networks resnet18 --layers C4,C7,C10 --hard --seeds 30
    --budget 128 --tuners 'random coordinate genetic autotvm:plan=16 botorch
    tilewright:no-prior tilewright' --json build/bench/regret.json
python docs/pictures/regret.py build/bench/regret.json
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Final

from charts import Frame
from drawing import Drawing

DATA: Final = Path(__file__).with_suffix(".json")
BUDGET: Final = 128
FLOOR: Final = 0.1
"""Percent: the lowest line of the plot; curves end there."""
STYLES: Final = {
    "random": ("grey", "2 3"),
    "genetic": ("purple", ""),
    "coordinate": ("green", ""),
    "autotvm:plan=16": ("orange", "6 3"),
    "botorch": ("orange", ""),
    "tilewright:no-prior": ("blue", "6 3"),
    "tilewright": ("blue", ""),
}


def draw(theme: str) -> str:
    """The picture."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    art = Drawing(
        width=820, height=400, theme=theme,
        title="Median regret of seven tuners by number of measurements",
    )  # fmt: skip
    art.text(16, 30, "Distance to the proven optimum", size=16, bold=True)
    art.text(16, 50, f"ResNet-18 {', '.join(data['layers'])}, pynq-16x16, memory of a PYNQ-Z2; "
             f"median over {len(data['layers'])} layers x {data['seeds']} seeds",
             size=12, colour="soft")  # fmt: skip
    frame = Frame(
        x=70, y=76, width=560, height=264, left=8, right=BUDGET, bottom=FLOOR, top=100,
        logarithmic_x=True, logarithmic_y=True,
    )  # fmt: skip
    frame.horizontals(art, [(100, "100 %"), (10, "10 %"), (1, "1 %"), (FLOOR, "0.1 %")])
    frame.marks(art, [(v, str(v)) for v in (8, 16, 32, 64, 128)])
    art.text(350, 376, "measurements", size=12, colour="soft", anchor="middle")
    for place, (tuner, (colour, dashes)) in enumerate(STYLES.items()):
        curve = data["median_regret_percent"][tuner]
        end = next((n for n, v in enumerate(curve, 1) if v <= FLOOR), BUDGET)
        points = [frame.at(n, max(FLOOR, curve[n - 1])) for n in range(int(frame.left), end + 1)]
        art.line(points, colour=colour, width=2, dashes=dashes)
        y = 96 + 26 * place
        art.line([(646, y), (674, y)], colour=colour, width=2, dashes=dashes)
        art.text(682, y + 4, tuner, size=12)
    art.text(16, 392, "Lower is better; a line ends where the median is within 0.1 %. "
             "tilewright starts from a closed-form model: another track.",
             size=11, colour="soft")  # fmt: skip
    return art.svg()


def main() -> None:
    """Keep what the picture needs of a record of the bench."""
    study = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    runs = [r for r in study["rows"] if "curve" in r]
    curves: dict[str, list[list[float]]] = {}
    for run in runs:
        values, best = [], float("inf")
        events = dict(run["curve"])
        for trial in range(1, BUDGET + 1):
            best = min(best, events.get(trial, best))
            values.append(100 * (best / run["optimum"] - 1))
        curves.setdefault(run["tuner"], []).append(values)
    median = {
        tuner: [round(statistics.median(column), 3) for column in zip(*rows, strict=True)]
        for tuner, rows in curves.items()
    }
    document = {
        "layers": study["conditions"]["layers"],
        "seeds": study["conditions"]["seeds"],
        "twin": study["conditions"]["twin"],
        "median_regret_percent": median,
    }
    text = json.dumps(document, indent=1).replace(",\n   ", ", ").replace("[\n   ", "[")
    DATA.write_text(text.replace("Infinity", "1e9") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
