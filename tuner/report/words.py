# SPDX-License-Identifier: Apache-2.0
"""What the short words of a report mean: layers, schedules, columns, states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tilewright.host.common.names import counted

LOOP_ORDERS: Final[Mapping[str, str]] = {
    "output": "a tile of the output stays on chip while inputs and weights stream past it",
    "weight": "weights stay on chip while the tiles of the image pass by",
    "input": "a tile of the input stays on chip while the weights pass by",
}

FUSIONS: Final[Mapping[str, str]] = {
    "tile": "results are requantised and stored once per tile",
    "block": "results are requantised and stored per block of output channels, while the next "
    "block is still computed",
}

WORDS: Final[Mapping[str, str]] = {
    "default": "cycles of the untuned schedule on the configuration that the study began with",
    "best": "fewest cycles of a valid measurement",
    "bound": "cycles that no schedule on this configuration can undercut: the larger of the MAC "
    "cycles and the time of the compulsory DRAM traffic",
    "of bound": "bound / best: 100 % cannot be improved",
    "speed-up": "default / best",
    "count": "how often the network has this layer",
    "measurement": "one distinct (configuration, layer, schedule) that was simulated; repeats of "
    "earlier studies are counted as well",
    "valid/trials": "measurements of the search that gave a correct result, of all",
    "confirmed": "valid of all measurements that were repeated on the slower, checked fidelity",
    "energy": "of a model that weighs the on-chip counters; good for comparing networks of one "
    "study, not for milliwatts",
    "area": "mean share of the board's LUTs, flip-flops, block RAMs and DSPs",
    "rtl": "fidelity: the RTL that goes into the FPGA, simulated, its output checked bit by bit",
    "dpi": "fidelity: the RTL's control with arithmetic and memories in C++, output checked",
    "timing": "fidelity: the RTL's control alone; cycles without data",
    "twin": "fidelity: a C++ program that counts the same cycles as the RTL",
}
"""Words of the page in the order of the glossary; headings of tables are explained by them."""


def schedule_words(schedule: Mapping[str, Any]) -> str:
    """A schedule in words, one choice per line."""
    rows, columns = schedule["h_threading"], schedule["oc_threading"]
    threads = f"threads {rows}x{columns}: "
    if rows * columns == 1:
        threads += "one thread; loads wait for the arithmetic"
    else:
        threads += (
            f"{rows} over output rows x {columns} over output channels; while one computes, "
            "another loads"
        )
    loop_order, fusion = str(schedule["loop_order"]), str(schedule["fusion"])
    tile = (
        f"output tile: b {counted(schedule['tile_b'], 'block')} of the batch, "
        f"h {counted(schedule['tile_h'], 'row')}, w {counted(schedule['tile_w'], 'column')}, "
        f"co {counted(schedule['tile_co'], 'block')} of output channels"
    )
    return "\n".join(
        (
            tile,
            f"ci {counted(schedule['tile_ci'], 'block')} of input channels loaded at a time",
            threads,
            f"loop order {loop_order}: {LOOP_ORDERS.get(loop_order, 'of the loops over tiles')}",
            f"fusion {fusion}: {FUSIONS.get(fusion, 'of the end of a layer behind its sums')}",
        )
    )


def layer_words(task: Mapping[str, Any]) -> str:
    """A layer in words."""
    kind = str(task["kind"])
    text = f"{task['name']}: {'convolution' if kind == 'conv2d' else kind}"
    if "kernel_h" in task:
        text += f" {task['kernel_h']}x{task['kernel_w']}, stride {task['stride_h']}"
    if "channels_in" in task:
        text += f", {task['channels_in']} to {task['channels_out']} channels"
    if "height" in task:
        text += f", input of {task['height']}x{task['width']}"
    if task.get("residual"):
        text += "; adds the shortcut of its residual block"
        text += " (the r of its name)" if str(task["name"]).endswith("r") else ""
    if task.get("relu"):
        text += "; ReLU"
    if task.get("weight_bits") == 4:
        text += "; weights of 4 bits"
    return text
