# SPDX-License-Identifier: Apache-2.0
"""One group of jobs on eight cores, as two mappers place it (`group.json`).

tilewright multicore vision --platform S4 --bandwidth 256 --method magma --json build/magma.json
tilewright multicore vision --platform S4 --bandwidth 256 --json build/tilewright.json
python docs/pictures/group.py build/magma.json build/tilewright.json
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any, Final

from drawing import Drawing

from tilewright.tuner.multicore.jobs import TASKS

DATA: Final = Path(__file__).with_suffix(".json")
COLOURS: Final = dict(
    zip(TASKS["vision"], ("blue", "orange", "green", "purple", "grey"), strict=True)
)
CORES: Final = (*["HB"] * 7, "LB")

_LEFT: Final = 70
_WIDE: Final = 720
_ROW: Final = 15
_STRIP: Final = 36
_PANEL: Final = len(CORES) * _ROW + _STRIP + 62


def draw(theme: str) -> str:
    """The picture."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    art = Drawing(
        width=820, height=92 + 2 * _PANEL + 24, theme=theme,
        title="When each job of a group runs on which core, and the bandwidth, for two mappers",
    )  # fmt: skip
    art.text(16, 30, "One group, two mappers", size=16, bold=True)
    art.text(16, 50, f"100 jobs of {data['task']} on {data['platform']}, "
             f"{data['bytes_per_cycle']:g} bytes per cycle; each after {data['budget']:,} samples",
             size=12, colour="soft")  # fmt: skip
    for place, (network, colour) in enumerate(COLOURS.items()):
        art.rect(_LEFT + 140 * place, 62, 11, 11, fill=colour, radius=2)
        art.text(_LEFT + 17 + 140 * place, 72, network, size=11, colour="soft")
    longest = max(job["end"] for group in data["groups"] for job in group["jobs"])
    for number, group in enumerate(data["groups"]):
        _panel(art, 104 + _PANEL * number, group, data["bytes_per_cycle"], longest)
    return art.svg()


def _panel(art: Drawing, top: float, group: dict[str, Any], limit: float, longest: float) -> None:
    jobs = group["jobs"]
    end = max(job["end"] for job in jobs)
    art.text(16, top, f"{group['method']}: {end:,.0f} cycles", bold=True)
    top += 10
    scale = _WIDE / longest
    for core, kind in enumerate(CORES):
        y = top + _ROW * core
        art.text(_LEFT - 10, y + 11, f"{core} {kind}", size=11, anchor="end")
        art.rect(_LEFT, y + 1, end * scale, _ROW - 3, radius=0)
    for job in jobs:
        y = top + _ROW * job["core"]
        width = max(0.4, (job["end"] - job["start"]) * scale - 0.4)
        art.rect(_LEFT + job["start"] * scale, y + 1, width, _ROW - 3,
                 fill=COLOURS[job["network"]], radius=0)  # fmt: skip
    base = top + len(CORES) * _ROW + 8 + _STRIP
    art.text(_LEFT - 10, base - _STRIP + 10, f"{limit:g} B", size=11, colour="soft", anchor="end")
    art.text(_LEFT - 10, base - 2, "per cycle", size=11, colour="soft", anchor="end")
    outline = [(_LEFT, base)]
    for (start, stop), moved in moved_over_time(jobs, limit):
        y = base - _STRIP * moved / limit
        outline += [(_LEFT + start * scale, y), (_LEFT + stop * scale, y)]
    art.area([*outline, (_LEFT + end * scale, base)], colour="purple", opacity=0.55)
    art.line([(_LEFT, base), (_LEFT + _WIDE, base)])
    art.line([(_LEFT, base - _STRIP), (_LEFT + _WIDE, base - _STRIP)], dashes="2 3")
    for share in range(5):
        x = _LEFT + _WIDE * share / 4
        art.line([(x, base), (x, base + 4)])
        words = f"{longest * share / 4 / 1e6:.2f} M" if share else "0 cycles"
        art.text(x, base + 17, words, size=11, colour="soft", anchor="middle")


def moved_over_time(
    jobs: list[dict[str, Any]], limit: float
) -> list[tuple[tuple[float, float], float]]:
    """Pieces of time, and the bytes per cycle that all cores move in each."""
    times = sorted({time for job in jobs for time in (job["start"], job["end"])})
    found = []
    for start, stop in itertools.pairwise(times):
        middle = (start + stop) / 2
        need = sum(job["need"] for job in jobs if job["start"] < middle < job["end"])
        found.append(((start, stop), min(need, limit)))
    return found


def main() -> None:
    """Keep what the picture needs of two documents."""
    documents = [json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:]]
    groups = []
    for document in documents:
        jobs = [
            {
                "network": row["job"].partition(".")[0],
                "core": row["core"],
                "start": round(row["start"]),
                "end": round(row["end"]),
                "need": float(f"{row['bytes'] / row['latency']:.4g}"),
            }
            for row in document["rows"]
        ]
        groups.append({"method": document["conditions"]["method"], "jobs": jobs})
    kept = {key: documents[0]["conditions"][key]
            for key in ("task", "platform", "bytes_per_cycle", "budget")}  # fmt: skip
    text = json.dumps({**kept, "groups": groups}, indent=0).replace(',\n"', ', "')
    DATA.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
