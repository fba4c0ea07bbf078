# SPDX-License-Identifier: Apache-2.0
"""Every study as a command: what each of them is told.

Frozen settings make the options; the study itself is loaded when its command runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tilewright.bench.framework.commands import (
    HARDWARE,
    SEARCH,
    SPEED,
    command,
)
from tilewright.bench.framework.settings import (
    board_option,
    count_option,
    hw_option,
    jobs_option,
    memory_option,
    option,
    quick_option,
    seed_option,
    workers_option,
)
from tilewright.cli.multicore_options import ModelName, SystemDeviceName
from tilewright.tuner.schedule.options import MODEL_HELP, SpaceName


@command("accuracy", HARDWARE, "tilewright.bench.accuracy.study:Accuracy")
@dataclass(frozen=True, kw_only=True)
class AccuracySettings:
    """Accuracy of trained networks on real images, float against int8."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        (), "Trained networks, separated by commas; default: all whose packages are here.",
        metavar="NETWORK,...", known="tilewright.bench.accuracy.subjects:SUBJECTS",
        quick=("digits", "angle-classifier", "rnet"),
    )  # fmt: skip
    forms: tuple[str, ...] = option(
        ("plain", "symmetric", "asymmetric"), "Forms of quantisation, separated by commas.",
        metavar="FORM,...", known="tilewright.bench.accuracy.study:FORMS",
    )  # fmt: skip
    hw: str = hw_option("pynq-16x16")
    board: str = board_option()
    fidelity: str = option(
        "rtl", "What runs the network.", metavar="rtl|dpi", quick="dpi",
        known=("rtl", "dpi"),
    )  # fmt: skip
    sample: int = count_option(4, "Images that also run on the device.")
    search: int = count_option(16, "Measurements per layer.", low=0)


@command(
    "allocate", SEARCH, "tilewright.bench.allocate.study:Allocation", page=True,
    more="Each network and seed is kept when it is there; the same command goes on with the file "
    "of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class AllocateSettings:
    """Who gets the next slot of tuning time: every allocator on the same searches."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        ("alexnet", "transformer_encoder", "squeezenet", "resnet18", "mobilenet_v2", "vgg16",
         "vgg11", "vgg13", "vgg19", "resnet34", "bert_tiny", "gpt2", "dlrm", "ncf", "wide_and_deep",
         "googlenet"),
        "Networks, separated by commas; default: all.", metavar="NETWORK,...",
        quick=("alexnet", "transformer_encoder"),
    )  # fmt: skip
    seeds: int = count_option(30, "Seeds per network.", quick=3)
    prices: tuple[str, ...] = option(
        ("rtl", "twin", "board"), "Prices of a trial, separated by commas; default: all.",
        metavar="PRICE,...", quick=("rtl",), known="tilewright.bench.allocate.trials:PRICES",
    )  # fmt: skip
    hw: str = hw_option("pynq-16x16")
    memory: str = memory_option("ideal")
    space: SpaceName = option(SpaceName.FULL, "full: any tile sizes; vta: VTA's divisor tiles.")
    regime: str = option(
        "study", "How searches are run.", metavar="study|paper",
        known="tilewright.bench.allocate.case:REGIMES",
    )  # fmt: skip
    tuner: str = option(
        "", "Search tuner of every task; default: the regime's.", metavar="TUNER",
        known="tilewright.tuner.search:TUNERS",
    )  # fmt: skip
    trials: int | None = count_option(
        None, "Trials per task in the sequential baseline; default: the regime's."
    )
    slots: int | None = count_option(None, "Slots in a task's equal share; default: the regime's.")
    ablate: bool = option(False, "Run variants of DynaTune instead of all allocators.")
    cache: Path | None = option(
        None, "Folder of the trials; default: in the build cache.", metavar="FOLDER"
    )


@command(
    "waiting", SEARCH, "tilewright.bench.allocate.waiting:WaitingStudy",
    more="Each network is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class WaitingSettings:
    """What waiting for batches costs on simulated boards whose trials take unequal times."""

    quick: bool = quick_option()
    networks: int = count_option(9, "Networks, in the study's order.", quick=1)
    seeds: int = count_option(3, "Seeds of each search.", quick=1)
    boards: int = count_option(8, "Boards side by side, and trials of a batch.", quick=4)
    budget: int = count_option(128, "Measurements of a search; 4 a layer at least.", quick=32)
    workers: int = workers_option()


FIRST_POINTS: Final = 8
"""Random points that every search measures first."""


@command(
    "objectives", SEARCH, "tilewright.bench.arena.front_study:FrontStudy",
    more="Each layer is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class ObjectivesSettings:
    """Searches for the Pareto front of cycles, energy and area, against enumerated fronts."""

    quick: bool = quick_option()
    networks: int = count_option(6, "Networks, in the study's order.", quick=1)
    layers: int = count_option(2, "Layers of each network.", quick=1)
    seeds: int = count_option(5, "Seeds of each search.", quick=1)
    budget: int = count_option(64, "Measurements of a search.", quick=16, low=FIRST_POINTS)
    workers: int = workers_option()


@command(
    "certificates", SEARCH, "tilewright.bench.arena.certificates:Certificates",
    more="Each layer is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class CertificatesSettings:
    """What `tune --within` is worth: layers that nothing was chosen on, until they are proven."""

    quick: bool = quick_option()
    layers: int = count_option(16, "Layers to draw.", quick=2)
    within: float = option(1.0, "Tolerance in percent.", metavar="PERCENT", low=0)
    budget: int = count_option(240, "Measurements of a study at most.", quick=24)
    proof_seconds: float = option(60.0, "Seconds of a proof.", metavar="SECONDS", low=0)
    seed: int = seed_option()
    workers: int = workers_option()


@command(
    "intervals", SEARCH, "tilewright.bench.framework.coverage:Intervals",
    more="Each share is kept; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class IntervalsSettings:
    """How often the intervals of the studies hold the truth, by simulation."""

    quick: bool = quick_option()
    samples: int = count_option(4000, "Simulated samples of each share.", quick=400)
    seed: int = seed_option()


@command("default-tuner", SEARCH, "tilewright.bench.arena.default_tuner:study")
@dataclass(frozen=True, kw_only=True)
class DefaultTunerSettings:
    """What each part of the default tuner is worth, against the certified optimum."""

    network: str = option(
        "", "Run studies of this network in shared mode; default: single layers.",
        metavar="NETWORK",
    )  # fmt: skip
    board: str = board_option()
    hw: str = hw_option("pynq-16x16")
    memory: str = memory_option("ideal")
    space: SpaceName = option(SpaceName.VTA, "full: any tile sizes; vta: VTA's divisor tiles.")
    seeds: int = count_option(10, "Runs per variant of the tuner.")
    budget: int = count_option(128, "Measurements per run.")
    ranked: int = count_option(
        1000, "Schedules that the prior ranks first, measured in space full.", low=0
    )
    long: int = count_option(200, "Measurements of the long search in space full.", low=0)


@command(
    "tables", SEARCH, "tilewright.bench.arena.release:Tables",
    more="A module that reads the file is written beside it. What was enumerated is kept: the same "
    "command goes on where it was stopped.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class TablesSettings:
    """Write tables of whole search spaces with their certified optima, as one file."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        (), "Networks of the known layers, separated by commas; default: all.",
        metavar="NETWORK,...", quick=("transformer_encoder",), of="network",
    )  # fmt: skip
    fresh: int = count_option(12, "Hard layers that nothing was chosen on.", low=0, quick=1)
    seed: int = seed_option()
    workers: int = workers_option()
    output: Path = option(
        Path("build/study/certified-tables.npz"), "File of the tables.", metavar="FILE"
    )
    folder: Path = option(Path("runs/arena"), "Folder of what was enumerated.", metavar="FOLDER")


@command(
    "tuners", SEARCH, "tilewright.bench.arena.study:Tuners", page=True,
    more="Runs are kept: the same command goes on where it was stopped.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class TunersSettings:
    """Every tuner on equal terms, replayed against exhaustive tables of the exact twin."""

    quick: bool = quick_option()
    tables: Path | None = option(
        None, "File of 'tilewright bench tables' to take the tasks from, instead of enumerating "
        "those that the options of networks and layers name.", metavar="FILE",
    )  # fmt: skip
    sets: tuple[str, ...] = option(
        ("fresh",), "Of --tables: fresh, known or both.", metavar="SET,...",
        known="tilewright.bench.arena.release:SETS", only_with="tables",
    )  # fmt: skip
    track: str = option(
        "per-layer", "per-layer: each layer chooses a configuration; schedule: fixed hardware.",
        metavar="per-layer|schedule", quick="schedule",
        known="tilewright.bench.arena.tasks:TRACKS", not_with="tables",
    )  # fmt: skip
    networks: tuple[str, ...] = option(
        (), "Networks, separated by commas; default: all.", metavar="NETWORK,...",
        quick=("resnet18",), not_with="tables",
    )  # fmt: skip
    layers: tuple[str, ...] = option(
        (), "Only these layers, separated by commas; default: all, quick: C7 and C10.",
        metavar="LAYER,...", quick=("C7", "C10"), not_with="tables",
    )  # fmt: skip
    without: tuple[str, ...] = option(
        (), "Leave these layers out, separated by commas.", metavar="LAYER,...",
        not_with="tables",
    )  # fmt: skip
    hard: bool = option(False, "Leave out tasks that random search solves quickly.")
    work_limit: float = option(
        float("inf"), "Leave out layers with more points times multiply-accumulates than this.",
        metavar="N", not_with="tables",
    )  # fmt: skip
    per_network: int | None = count_option(
        None, "Draw this many layers per network.", not_with="tables"
    )
    draw: int | None = count_option(None, "Draw this many of the tasks.")
    tuners: tuple[str, ...] = option(
        (), "Tuners, separated by spaces, each with its options, as in "
        "'random tilewright:no-prior optuna-tpe:name=value'; default: all.",
        metavar="'TUNER ...'", separator=None,
    )  # fmt: skip
    seeds: int = count_option(30, "Runs per tuner and task.", quick=5)
    budget: int = count_option(1000, "Measurements per run.", quick=128)
    arms: tuple[str, ...] = option(
        ("masked",),
        "masked (legal points only) or as-published (illegal ones are charged), or both.",
        metavar="ARM,...", known="tilewright.bench.arena.replay:ARMS",
    )  # fmt: skip
    noise: tuple[float, ...] = option(
        (0.0,), "Noise of a measurement in percent, separated by commas.", metavar="PERCENT,..."
    )
    minutes: float = option(
        float("inf"), "Minutes after which no run starts; 0: collect the runs that are there.",
        metavar="MINUTES", low=0,
    )  # fmt: skip
    confirm: bool = option(False, "Run the winners of five seeds on the full RTL.")
    selections: int = count_option(
        0, "Compare confidence sampling with other selections on identical candidates.",
        metavar="SEEDS", low=0,
    )  # fmt: skip
    note: str = option("", "Note for the reader, which goes into the page.", metavar="TEXT")
    workers: int = workers_option()
    folder: Path = option(Path("runs/arena"), "Folder of tables and runs.", metavar="FOLDER")


SEARCH_CYCLES = "Twin cycles after which the search of a layer ends."


@command(
    "roofline", HARDWARE, "tilewright.bench.hardware.roofline:Roofline",
    more="Each layer is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class RooflineSettings:
    """Cycles of every layer's best schedule against its bound."""

    quick: bool = quick_option()
    hw: tuple[str, ...] = option(
        ("edge-8x8", "pynq-16x16", "zu-32x32"), "Configurations, separated by commas.",
        metavar="HW,...", quick=("pynq-16x16",),
    )  # fmt: skip
    axi: tuple[int, ...] = option(
        (64, 128, 256), "Bus widths in bits, separated by commas.", metavar="BITS,...", quick=(64,)
    )
    memory: tuple[str, ...] = option(
        ("ideal", "pynq-z2"), "Memories, separated by commas.", metavar="MEMORY,..."
    )
    networks: tuple[str, ...] = option(
        ("vta-resnet18", "resnet18", "vgg16", "mobilenet_v2"), "Networks, separated by commas.",
        metavar="NETWORK,...", quick=("vta-resnet18",),
    )  # fmt: skip
    search_cycles: int = count_option(1_000_000_000, SEARCH_CYCLES, metavar="CYCLES")
    confirm_cycles: int = count_option(
        3_000_000, "Most cycles of a layer that is confirmed on the full RTL.", metavar="CYCLES",
        low=0,
    )  # fmt: skip
    seed: int = seed_option()
    workers: int = workers_option()


@command("ablation", HARDWARE, "tilewright.bench.hardware.ablation:Ablation")
@dataclass(frozen=True, kw_only=True)
class AblationSettings:
    """What each mechanism of the accelerator is worth: cycles with one of them taken away."""

    hw: str = hw_option("pynq-16x16")
    memory: str = memory_option("pynq-z2")
    search_cycles: int = count_option(400_000_000, SEARCH_CYCLES, metavar="CYCLES")
    seed: int = seed_option()


@command("decode", HARDWARE, "tilewright.bench.hardware.roofline:Decode")
@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """Tokens per second of a GPT that writes, with weights of 8 and of 4 bits."""

    hw: str = hw_option("pynq-16x16")
    board: str = board_option()
    width: int = count_option(768, "Channels, a multiple of 64.")
    context: int = count_option(256, "Tokens that attention looks at.")
    blocks: int = count_option(12, "Of the network.")
    words: int = count_option(50257, "Of the vocabulary; 0: no scores of words.", low=0)
    search_cycles: int = count_option(20_000_000, SEARCH_CYCLES, metavar="CYCLES")
    seed: int = seed_option()


@command("mapping-models", SEARCH, "tilewright.bench.mapping.models:Models")
@dataclass(frozen=True, kw_only=True)
class ModelsSettings:
    """The cost model of mappings against MAESTRO, ZigZag, and the RTL over whole spaces."""

    maestro: Path | None = option(
        None, "Rows of MAESTRO: dataflows.csv and mapspace.csv.", metavar="FOLDER"
    )
    zigzag: Path | None = option(
        None, "Rows that bench/mapping/zigzag_runs.py printed.", metavar="FILE"
    )
    network: str = option("vta-resnet18", MODEL_HELP, metavar="MODEL")
    layers: tuple[str, ...] = option(
        (), "Layers; default: all that are not folded.", metavar="LAYER,..."
    )
    hw: str = hw_option("pynq-16x16")
    memory: str = memory_option("ideal")
    space: SpaceName = option(SpaceName.VTA, "full: any tile sizes; vta: VTA's divisor tiles.")


@command(
    "mapping", SEARCH, "tilewright.bench.mapping.study:Mapping", page=True,
    more="Each run is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class MappingSettings:
    """Every mapper at equal budgets of samples, against the certified optimum of each layer."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        (
            "mobilenet_v2", "vgg16", "resnet18", "alexnet", "squeezenet1_1", "googlenet",
            "transformer_encoder", "bert_base", "gpt2", "dlrm", "ncf", "wide_and_deep",
        ),
        "Networks, separated by commas.", metavar="NETWORK,...",
    )  # fmt: skip
    objectives: tuple[str, ...] = option(
        ("latency", "edp"),
        "latency, energy, edp or area, separated by commas; default: latency and edp, quick: edp.",
        metavar="OBJECTIVE,...", quick=("edp",), known="tilewright.tuner.mapping.cost:Objective",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), "Mappers, separated by commas, each with its options, as in marl:agents=3; "
        "default: all.",
        metavar="MAPPER,...",
    )  # fmt: skip
    hardware: str = option("flexible-256", "Described accelerator.", metavar="NAME|FILE")
    per_network: int = count_option(1, "Layers per network; 0: all.", low=0)
    budget: int = count_option(20_000, "Samples per run.", quick=2000)
    converge: int = count_option(
        60_000, "Most samples of the single agent, which ends when a budget of samples improved "
        "nothing; 0: it has the budget of the others.", low=0, quick=0,
    )  # fmt: skip
    seeds: int = count_option(3, "Runs per mapper and task.", quick=2)
    jobs: int = jobs_option()


PLATFORMS: Final = ("S1", "S2", "S3", "S4", "S5", "S6")
_DEVICE: Final = "rtl (bit-exact), or the same cycles without data."


def _search_option() -> int:
    text = "Measurements on the twin per layer."
    found: int = count_option(16, text, low=0, quick=0)
    return found


@command(
    "multicore", SEARCH, "tilewright.bench.multicore.study:Multicore", page=True,
    more="Each run is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class MulticoreSettings:
    """Every mapper of groups at equal budgets of samples, against a bound of each instance."""

    quick: bool = quick_option()
    tasks: tuple[str, ...] = option(
        (), "Tasks and CSV files of job tables, separated by commas; default: every task.",
        metavar="TASK|TABLE,...", of="task",
    )  # fmt: skip
    platforms: tuple[str, ...] = option(
        PLATFORMS, "Of the tasks; default: S1 to S6, quick: S2 and S4.", metavar="PLATFORM,...",
        quick=("S2", "S4"), of="platform",
    )  # fmt: skip
    bandwidths: tuple[float, ...] = option(
        (), "Separated by commas, of tables in bytes per cycle; default: each platform's.",
        metavar="GB/S,...", of="bandwidth",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), "Group mappers; default: all, quick: those that are fast.", metavar="METHOD,...",
        of="group mapper",
    )  # fmt: skip
    size: int = count_option(100, "Jobs of a group.", of="size")
    bw_model: ModelName = option(
        ModelName.TRAFFIC, "A job's bandwidth: its DRAM traffic, or the paper's."
    )
    budget: int = count_option(10_000, "Samples per run.", quick=2000)
    seeds: int = count_option(10, "Groups per case, one run per mapper.", quick=2)
    recorded: Path | None = option(
        None, "Recorded makespans of another allocator, which ours is compared with.",
        metavar="FOLDER",
    )  # fmt: skip
    jobs: int = jobs_option()


@command(
    "multicore-rtl", SEARCH, "tilewright.bench.multicore.truth:Truth",
    more="Small layers of real networks run on all cores of a system at the same time. Without "
    "data each job is checked on the reference.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class TruthSettings:
    """Makespans that models predict, against the RTL of several cores, bit-exact."""

    quick: bool = quick_option()
    systems: tuple[str, ...] = option(
        ("dual-tiny", "dual-8x8", "big-little"), "Hardware; default: three, quick: dual-tiny.",
        metavar="SYSTEM,...", quick=("dual-tiny",), of="system",
    )  # fmt: skip
    tasks: tuple[str, ...] = option(
        ("vision", "recommendation", "mix"), "Default: three, quick: recommendation.",
        metavar="TASK,...", quick=("recommendation",), of="task",
    )  # fmt: skip
    bandwidths: tuple[float, ...] = option(
        (8.0, 2.0, 1.0), "Bytes per cycle of a port's DRAM in each direction.",
        metavar="BYTES,...", quick=(2.0,), of="read_bytes_per_cycle",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        ("random", "fcfs-greedy", "heft-greedy", "herald", "ai-mt", "magma", "tilewright"),
        "Group mappers.", metavar="METHOD,...", of="group mapper",
    )  # fmt: skip
    size: int = count_option(8, "Jobs of a group.", of="size")
    seeds: int = count_option(2, "Groups per system, task and bandwidth.", quick=1)
    budget: int = count_option(2000, "Samples of a mapper.")
    device: SystemDeviceName = option(SystemDeviceName.RTL, _DEVICE)


@command("multicore-networks", SEARCH, "tilewright.bench.multicore.networks:SideBySide")
@dataclass(frozen=True, kw_only=True)
class SideBySideSettings:
    """A stream of images and a small network on two cores, against turns on one core."""

    quick: bool = quick_option()
    system: str = option(
        "big-little", "Two cores.", metavar="SYSTEM", quick="dual-tiny", of="system"
    )
    one: str = option(
        "pynq-16x32", "One core of the same area.", metavar="HW", quick="edge-8x8", of="hw"
    )
    stream: str = option(
        "resnet18", "Of examples/networks, on the first core.", metavar="NETWORK",
        quick="keyword",
    )  # fmt: skip
    small: tuple[str, ...] = option(
        ("keyword", "transformer"), "For the second core.", metavar="NETWORK,...",
        quick=("digits",),
    )  # fmt: skip
    frames: int = count_option(2, "Frames of the stream.")
    device: SystemDeviceName = option(SystemDeviceName.RTL, _DEVICE)
    board: str = option(
        "pynq-z2", "Board or YAML file: clock and memory.", metavar="BOARD", of="board"
    )
    search: int = _search_option()


@command("multicore-pipeline", SEARCH, "tilewright.bench.multicore.networks:Pipelines")
@dataclass(frozen=True, kw_only=True)
class PipelineSettings:
    """One network in stages on several cores, against one core of about the same area."""

    quick: bool = quick_option()
    network: str = option(
        "resnet18", "Of examples/networks.", metavar="NETWORK", quick="digits", of="network"
    )
    device: SystemDeviceName = option(SystemDeviceName.RTL, _DEVICE)
    search: int = _search_option()


NETWORK_CONDITIONS: Final = ("hw", "board", "fidelity", "search")
"""What the rows of every study here hold under."""


@command(
    "networks", HARDWARE, "tilewright.bench.networks:study",
    more="With --zoo: cycles are the twin's unless --fidelity names the RTL, each network is kept "
    "when it is there, and the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class NetworksSettings:
    """Whole networks from PyTorch to bit-exact int8 on the RTL."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        (), "Networks of examples/networks, separated by commas; default: all.",
        metavar="NETWORK,...",
    )  # fmt: skip
    zoo: bool = option(
        False,
        "Other architectures: where each operator runs, and the latency from end to end.",
    )
    tflite: str = option(
        "", "Quantised .tflite files of this folder: cycles, and agreement with LiteRT.",
        metavar="FOLDER",
    )  # fmt: skip
    unseen: bool = option(
        False, "Architectures of timm, drawn by --seed: how far the accelerator takes each."
    )
    count: int = count_option(40, "With --unseen: architectures.", quick=2)
    seed: int = option(
        1131, "With --unseen: seed of the draw and of the weights.", metavar="SEED", low=0
    )
    hw: str = option(
        "",
        "Named configuration or YAML file; default: pynq-16x16, of --zoo, --tflite and --unseen "
        "pynq-16x16-rows.",
        metavar="HW",
    )  # fmt: skip
    board: str = board_option()
    fidelity: str = option(
        "", "What runs the network; default: rtl, with --quick or --tflite dpi, of --zoo twin.",
        metavar="twin|rtl|dpi", known=("twin", "rtl", "dpi"),
    )  # fmt: skip
    search: int | None = count_option(
        None, "Measurements per layer; default: 16, of --unseen 0.", low=0
    )
    keep_rounding: bool = option(False, "Keep every quantisation of the models.")
    int8_ends: bool = option(False, "With --zoo: networks take and give int8, as with --unseen.")

    def chosen(
        self, *, hw: str = "pynq-16x16-rows", fidelity: str = "twin", search: int = 16
    ) -> NetworksSettings:
        """These, with the defaults of a study where nothing was given."""
        return replace(
            self,
            hw=self.hw or hw,
            fidelity=self.fidelity or fidelity,
            search=search if self.search is None else self.search,
        )


ARRAYS: Final = {"8": "edge-8x8", "16": "pynq-16x16", "32": "zu-32x32"}
"""Configurations of `simspeed` by the side of their array."""

_POSTGRES: Final = "An empty database to use."


@command("simspeed", SPEED, "tilewright.bench.speed.simspeed:SimulationSpeed")
@dataclass(frozen=True, kw_only=True)
class SimspeedSettings:
    """Cycles per second of every fidelity, side by side in one run."""

    quick: bool = quick_option()
    rounds: int = count_option(7, "Runs of each simulation.", quick=3)
    arrays: tuple[str, ...] = option(
        ("8", "16", "32"), "Sides of the MAC arrays, separated by commas.", metavar="SIDE,...",
        quick=("16",), known=tuple(ARRAYS),
    )  # fmt: skip


@command("lowering", SPEED, "tilewright.bench.speed.lowering:LoweringSpeed")
@dataclass(frozen=True, kw_only=True)
class LoweringSettings:
    """Programs per second of lowering, in Python and in C++."""

    quick: bool = quick_option()
    hw: str = hw_option("pynq-16x16")
    sample: int = count_option(0, "Points per layer; 0: all.", low=0, quick=200)
    seconds: float = option(
        5.0, "Seconds of lowering in Python per layer.", metavar="SECONDS", low=0, quick=1.0
    )
    repeat: int = count_option(3, "Runs of which the best counts.")
    seed: int = seed_option()


@command("builds", SPEED, "tilewright.bench.speed.waits:BuildTimes")
@dataclass(frozen=True, kw_only=True)
class BuildsSettings:
    """Seconds that a new configuration takes to build, from an empty cache."""

    quick: bool = quick_option()
    rounds: int = count_option(3, "Builds of each model.", quick=1)
    jobs: int = count_option(2, "Compilers at a time.")


@command("execution", SPEED, "tilewright.bench.speed.execution:Execution")
@dataclass(frozen=True, kw_only=True)
class ExecutionSettings:
    """What a trial costs besides its simulation (PostgreSQL without a URL: from the tests)."""

    quick: bool = quick_option()
    hw: str = hw_option("pynq-16x16")
    ray: bool = option(True, "Time Ray, too.")
    postgres: str = option("", _POSTGRES, metavar="URL")


@command("store", SPEED, "tilewright.bench.speed.store:StoreSpeed")
@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Commits per second of the trial store, and the report of a study of many trials."""

    trials: tuple[int, ...] = option(
        (1000, 50_000), "Sizes of the store, separated by commas.", metavar="N,..."
    )
    commits: int = count_option(2000, "Commits that are timed.")
    repeats: int = count_option(3, "Runs of which the median counts.")
    postgres: str = option("", _POSTGRES, metavar="URL")
    folder: Path | None = option(
        None, "Folder of the SQLite files; default: that of temporary files.", metavar="FOLDER"
    )


@command("agent", SPEED, "tilewright.bench.speed.agent:AgentSpeed")
@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """What TLS costs between an agent and its client, on loopback."""

    mib: int = count_option(64, "Memory of a run, in MiB.", metavar="MIB")
    repeats: int = count_option(7, "Samples of each figure, of which the median counts.")


@command("first-count", SPEED, "tilewright.bench.speed.waits:FirstCount")
@dataclass(frozen=True, kw_only=True)
class FirstCountSettings:
    """Seconds from an ONNX file to its first cycle count."""

    networks: tuple[str, ...] = option(
        ("resnet18", "mobilenet-v2"), "Of examples/networks, or ONNX files.",
        metavar="NETWORK,...",
    )  # fmt: skip
    hw: str = hw_option("pynq-16x16")
    repeat: int = count_option(5, "Runs of each network.")
