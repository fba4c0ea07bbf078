# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody had in mind: how many does the accelerator run whole?

Architectures are drawn by a seed over the families of timm (Wightman, PyTorch Image Models, 2019).
The package is not in the project's environment, and of torchvision, which it asks for, networks
need nothing: where that is missing, empty modules stand for it. Each has random weights, is
compiled in a process of its own with limits of time and memory, and is not run: cycles are the
twin's. What is refused, crashes or takes too long is a row with an error.

    tilewright bench networks --unseen --json unseen.json
"""

from __future__ import annotations

import importlib
import importlib.util
import resource
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tilewright.bench.commands import NETWORK_CONDITIONS, NetworksSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study, limited
from tilewright.bench.framework.tables import FigureTable, table_of
from tilewright.bench.networks.networks import compiled_row
from tilewright.host.common.clone_parts import clone_part
from tilewright.host.common.errors import ToolError
from tilewright.host.common.names import counted
from tilewright.host.compiler.quantise.agreement import Agreement
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

if TYPE_CHECKING:
    from torch import nn


SAMPLES: Final = 2
"""Random inputs that an architecture is quantised with, and compared on."""

SECONDS: Final = 900.0
MEMORY_BYTES: Final = 16 << 30
"""Of address space."""

LITTLE: Final = 0.1
"""Of the latency: crossings and the CPU take little up to it."""


def measure(name: str, given: NetworksSettings) -> Row:
    """One architecture."""
    import numpy as np  # noqa: PLC0415  (of a child alone)

    network, shape = build(name, given.seed), input_shape(name)
    compilation, row = compiled_row(
        network,
        given,
        Calibration(random_samples=SAMPLES, seed=given.seed),
        ImportOptions(
            name=name,
            example_inputs=[np.zeros(shape, np.float32)],
            quantise=QuantiseOptions(int8_ends=True),
        ),
    )
    agreement = Agreement.from_mapping(compilation.imported.accuracy.agreement)
    return {
        "pixels": shape[-1],
        "parameters": parameters(network),
        **row,
        "sqnr_db": agreement.worst_db,
        "compile_seconds": compilation.seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def left_behind(row: Row) -> dict[str, int]:
    """Operators of a row that stay on the CPU: count by kind, most frequent first."""
    kinds: Counter[str] = Counter()
    for each in row["cpu_kinds"]:
        kinds[each["kind"]] += each["count"]
    return dict(kinds.most_common())


class Unseen(Study):
    """Architectures of timm, one after another."""

    resumes = True

    def __init__(self, settings: NetworksSettings) -> None:
        super().__init__(settings.chosen(search=0))

    def cells(self) -> list[Cell]:
        load_timm()
        chosen = drawn(families(), self.settings.count, self.settings.seed, fits)
        return [{"network": name, "family": family} for family, name in chosen]

    def measure(self, cell: Cell) -> list[Row]:
        started = time.perf_counter()
        row = limited(
            measure, cell["network"], self.settings, seconds=SECONDS, memory_bytes=MEMORY_BYTES
        )
        return [{**row, "seconds": time.perf_counter() - started}]

    def conditions(self) -> Row:
        return {
            **self.of_settings(*NETWORK_CONDITIONS),
            "seed": self.settings.seed,
            "packages": VERSION,
            "weights": "random",
            "calibration": f"{counted(SAMPLES, 'random input')}, default quantisation",
            "int8_ends": True,
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        compiled = [row for row in rows if "error" not in row]
        apart = [row for row in compiled if row["regions"] != 1]
        shares = [row["cpu_and_crossings_share"] for row in compiled]
        kinds = Counter(kind for row in apart for kind in left_behind(row))
        return {
            "networks": len(rows),
            "compiled": len(compiled),
            "one_region": len(compiled) - len(apart),
            "little_cpu": sum(share <= LITTLE for share in shares),
            "median_cpu_and_crossings_share": statistics.median(shares) if shares else None,
            "left_on_cpu": dict(kinds.most_common()),
            "failures": {row["network"]: row["error"] for row in rows if "error" in row},
        }

    def line(self, row: Row) -> str:
        if "error" in row:
            return f"{row['network']}: {row['error']}"
        return (
            f"{row['network']}: {counted(row['regions'], 'region')}, "
            f"{100 * row['mac_share']:.1f} % of the MACs, {row['milliseconds']:.2f} ms, crossings "
            f"and CPU {100 * row['cpu_and_crossings_share']:.1f} %, {row['sqnr_db']:.0f} dB, "
            f"{row['seconds']:.0f} s, {row['peak_mib']:.0f} MiB; CPU: "
            f"{_listed(left_behind(row)) or 'nothing'}"
        )

    def tables(self, document: Row) -> Iterator[FigureTable]:
        rows, summary = document["rows"], document["summary"]
        compiled = [row for row in rows if "error" not in row]
        yield _of_all(summary)
        yield table_of(
            "Each",
            compiled,
            {
                "architecture": "{network}",
                "family": "{family}",
                "M parameters": lambda row: f"{row['parameters'] / 1e6:.1f}",
                "M MACs": lambda row: f"{row['macs'] / 1e6:,.0f}",
                "regions": "{regions}",
                "operators on the accelerator": "{accelerated} of {operators}",
                "MACs on the accelerator": "{mac_share:.1 %}",
                "cycles": "{cycles:,}",
                "ms, end to end": "{milliseconds:.2f}",
                "crossings": lambda row: _share_of_time(row, "crossings"),
                "CPU": lambda row: _share_of_time(row, "cpu"),
                "SQNR dB": "{sqnr_db:.0f}",
                "compile s": "{compile_seconds:.0f}",
                "peak MiB": "{peak_mib:,.0f}",
            },
        )
        yield table_of(
            "Not one region",
            (row for row in compiled if row["regions"] != 1),
            {
                "architecture": "{network}",
                "regions": "{regions}",
                "operators on the CPU": lambda row: _listed(left_behind(row)),
            },
        )
        if summary["failures"]:
            yield table_of(
                "Not compiled",
                summary["failures"].items(),
                {
                    "architecture": lambda of: of[0],
                    "why": lambda of: f"`{of[1].replace('|', '/').replace('`', '')}`",
                },
            )


def _share_of_time(row: Row, part: str) -> str:
    return f"{100 * row[f'{part}_milliseconds'] / row['milliseconds']:.1f} %"


def _listed(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _of_all(summary: Row) -> FigureTable:
    """The summary, as shares of what was drawn."""
    share, drawn_ones = summary["median_cpu_and_crossings_share"], summary["networks"]
    figures: dict[str, Any] = {
        "are compiled": summary["compiled"],
        "are one region": summary["one_region"],
        f"spend at most {100 * LITTLE:.0f} % in crossings and on the CPU": summary["little_cpu"],
    }
    return FigureTable(
        title="All",
        header=("architectures", "figure"),
        rows=[
            *((name, f"{count} of {drawn_ones}") for name, count in figures.items()),
            ("median share of crossings and CPU", "-" if share is None else f"{100 * share:.1f} %"),
        ],
    )


VERSION: Final = "timm==1.0.31"

MOST_PARAMETERS: Final = 32_000_000
MOST_PIXELS: Final = 256
"""Of a side of the input."""

IN_THE_ZOO: Final = {
    "convnext_tiny": "convnext-t",
    "densenet121": "densenet121",
    "efficientnet_b0": "efficientnet-b0",
    "mobilenetv2_100": "mobilenet-v2",
    "mobilenetv3_small_100": "mobilenet-v3-small",
    "resnet18": "resnet18",
    "swin_tiny_patch4_window7_224": "swin-t",
    "vit_tiny_patch16_224": "vit-tiny",
}
"""What timm calls networks that the compiler was made with, and what the zoo does."""

_TORCHVISION: Final = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
)


def drawn(
    families: Mapping[str, Sequence[str]],
    count: int,
    seed: int,
    fits: Callable[[str], bool] = lambda _: True,
) -> list[tuple[str, str]]:
    """Families and architectures: one of each family before any has a second."""
    rng = np.random.default_rng(seed)
    names = sorted(families)
    fitting = {f: filter(fits, list(rng.permutation(sorted(families[f])))) for f in names}
    order = [names[place] for place in rng.permutation(len(names))]

    def turns() -> Iterator[tuple[str, str]]:
        """Every architecture that fits, family after family, until all are through."""
        waiting = order
        while waiting:
            left = []
            for family in waiting:
                if (name := next(fitting[family], None)) is not None:
                    left.append(family)
                    yield family, str(name)
            waiting = left

    return list(islice(turns(), count))


def families() -> dict[str, list[str]]:
    """The architectures of each of timm's modules, without those that the zoo has."""
    timm = load_timm()
    return {
        family: sorted(set(timm.list_models(module=family)) - set(IN_THE_ZOO))
        for family in timm.list_modules()
    }


def fits(name: str) -> bool:
    """Whether an architecture is within `MOST_PARAMETERS` and `MOST_PIXELS`."""
    import torch  # noqa: PLC0415  (heavy)

    if max(input_shape(name)[2:]) > MOST_PIXELS:
        return False
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        network = load_timm().create_model(name, pretrained=False)
    return parameters(network) <= MOST_PARAMETERS


def parameters(network: nn.Module) -> int:
    """How many numbers a network has learnt."""
    return sum(each.numel() for each in network.parameters())


def input_shape(name: str) -> tuple[int, ...]:
    """Of one image."""
    return (1, *load_timm().get_pretrained_cfg(name).input_size)


def build(name: str, seed: int) -> nn.Module:
    """An architecture with random weights."""
    import torch  # noqa: PLC0415  (heavy)

    timm = load_timm()
    examples = clone_part("examples/networks", "networks")
    with warnings.catch_warnings(action="ignore"), torch.random.fork_rng(), torch.no_grad():
        network: nn.Module = examples.with_random_weights(
            lambda: timm.create_model(name, pretrained=False), seed
        )
        torch.manual_seed(seed)
        for each in network.parameters():
            if 0 < float(each.min()) == float(each.max()) < 0.1:
                each.uniform_(0.1, 1)
    return network


@lru_cache(maxsize=1)
def load_timm() -> Any:
    """The package, or a `ToolError` where it is not installed."""
    if importlib.util.find_spec("timm") is None:
        raise ToolError(
            "needs the package timm",
            field="--unseen",
            remedy=f"pip install --no-deps {VERSION}",
        )
    if importlib.util.find_spec("torchvision") is None:
        for name in _TORCHVISION:
            _stand_in(name)
    return importlib.import_module("timm")


class _Empty(ModuleType):
    """A module that has every name, as a class without members."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {mode: mode for mode in _MODES})
        setattr(self, name, made)
        return made


_MODES: Final = ("NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS")
"""Members of an enumeration that timm reads while it is imported."""


def _stand_in(name: str) -> None:
    """Put an empty module where imports find it."""
    module = _Empty(name)
    module.__path__ = []
    module.__spec__ = importlib.util.spec_from_loader(name, None)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
