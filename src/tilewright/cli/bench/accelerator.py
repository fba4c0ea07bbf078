# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the accelerator: cycles against bounds, mechanisms, whole networks, accuracy."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.arguments import (
    BoardOption,
    HwOption,
    MemoryOption,
    QuickOption,
    SeedOption,
    WorkersOption,
    one_of,
)
from tilewright.cli.bench.application import (
    HARDWARE,
    bench_app,
    finish,
    keeper,
    known_rows,
    names,
    numbers,
)
from tilewright.cli.json_output import JsonOption

SearchOption = Annotated[
    int, typer.Option("--search", metavar="N", min=0, help="Measurements per layer.")
]
DataFidelityOption = Annotated[
    str,
    typer.Option(
        "--fidelity",
        metavar="rtl|dpi",
        help="What runs the network; default: rtl, with --quick dpi.",
    ),
]


@bench_app.command(rich_help_panel=HARDWARE)
def roofline(
    quick: QuickOption = False,
    hw: Annotated[
        str, typer.Option("--hw", metavar="HW,...", help="Configurations, separated by commas.")
    ] = "edge-8x8,pynq-16x16,zu-32x32",
    axi: Annotated[
        str, typer.Option(metavar="BITS,...", help="Bus widths in bits, separated by commas.")
    ] = "64,128,256",
    memory: Annotated[
        str, typer.Option("--memory", metavar="MEMORY,...", help="Memories, separated by commas.")
    ] = "ideal,pynq-z2",
    networks: Annotated[
        str, typer.Option(metavar="NETWORK,...", help="Networks, separated by commas.")
    ] = "vta-resnet18,resnet18,vgg16,mobilenet_v2",
    search_cycles: Annotated[
        int,
        typer.Option(
            metavar="CYCLES", min=1, help="Twin cycles after which the search of a layer ends."
        ),
    ] = 1_000_000_000,
    confirm_cycles: Annotated[
        int,
        typer.Option(
            metavar="CYCLES",
            min=0,
            help="Most cycles of a layer that is confirmed on the full RTL.",
        ),
    ] = 3_000_000,
    seed: SeedOption = 0,
    workers: WorkersOption = 2,
    json: JsonOption = None,
) -> None:
    """Cycles of every layer's best schedule against its bound.

    The file of --json is written after each case; the same command goes on with it.
    """
    from tilewright.bench.roofline import cases, run

    if quick:
        work = cases(["pynq-16x16"], [64], ["ideal", "pynq-z2"], ["vta-resnet18"])
    else:
        work = cases(
            names(hw, "--hw"),
            [int(bits) for bits in numbers(axi, "--axi")],
            names(memory, "--memory"),
            names(networks, "--networks"),
        )
    result = run(
        work,
        search_cycles=search_cycles,
        confirm_cycles=confirm_cycles,
        seed=seed,
        workers=workers,
        known=known_rows(json),
        keep=keeper(json),
    )
    finish(result, json)


@bench_app.command(rich_help_panel=HARDWARE)
def ablation(
    hw: HwOption = "pynq-16x16",
    memory: MemoryOption = "pynq-z2",
    search_cycles: Annotated[
        int,
        typer.Option(
            metavar="CYCLES", min=1, help="Twin cycles after which the search of a layer ends."
        ),
    ] = 400_000_000,
    seed: SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """What each mechanism of the accelerator is worth: cycles with one of them taken away."""
    from tilewright.bench.ablation import run

    finish(run(hw=hw, memory=memory, search_cycles=search_cycles, seed=seed), json)


@bench_app.command(rich_help_panel=HARDWARE)
def networks(
    quick: QuickOption = False,
    names_: Annotated[
        str,
        typer.Option(
            "--networks",
            metavar="NETWORK,...",
            help="Networks of examples/networks, separated by commas; default: all.",
        ),
    ] = "",
    zoo: Annotated[
        bool,
        typer.Option(
            "--zoo",
            help="Other architectures: where each operator runs, and the latency from end to end.",
        ),
    ] = False,
    hw: Annotated[
        str,
        typer.Option(
            "--hw",
            metavar="HW",
            help="Named configuration or YAML file; default: pynq-16x16, of --zoo pynq-16x16-rows.",
        ),
    ] = "",
    board: BoardOption = "pynq-z2",
    fidelity: DataFidelityOption = "",
    search: SearchOption = 16,
    keep_rounding: Annotated[
        bool, typer.Option("--keep-rounding", help="Keep every quantisation of the models.")
    ] = False,
    int8_ends: Annotated[
        bool,
        typer.Option("--int8-ends", help="With --zoo: networks take and give int8."),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Whole networks from PyTorch to bit-exact int8 on the RTL (a clone only).

    With --zoo: cycles are the twin's unless --fidelity names the RTL, and the file of --json is
    written after each network; the same command goes on with it.
    """
    if zoo:
        from tilewright.bench import zoo as bench
        from tilewright.bench.zoo_members import MEMBERS

        finish(
            bench.run(
                names(names_, "--networks", MEMBERS) or list(bench.QUICK if quick else MEMBERS),
                hw=hw or "pynq-16x16-rows",
                board=board,
                fidelity=one_of(fidelity or "twin", ("twin", "rtl", "dpi"), "--fidelity"),
                search=search,
                int8_ends=int8_ends,
                known=known_rows(json),
                keep=keeper(json),
            ),
            json,
        )
        return
    from tilewright.bench.networks import NETWORKS, QUICK, run

    chosen = names(names_, "--networks", NETWORKS) or (QUICK if quick else sorted(NETWORKS))
    result = run(
        chosen,
        hw=hw or "pynq-16x16",
        board=board,
        fidelity=one_of(fidelity or ("dpi" if quick else "rtl"), ("rtl", "dpi"), "--fidelity"),
        search=search,
        keep_rounding=keep_rounding,
    )
    finish(result, json)


@bench_app.command(rich_help_panel=HARDWARE)
def accuracy(
    quick: QuickOption = False,
    names_: Annotated[
        str,
        typer.Option(
            "--networks",
            metavar="NETWORK,...",
            help="Trained networks, separated by commas; default: all whose packages are here.",
        ),
    ] = "",
    forms: Annotated[
        str, typer.Option(metavar="FORM,...", help="Forms of quantisation, separated by commas.")
    ] = "plain,symmetric,asymmetric",
    hw: HwOption = "pynq-16x16",
    board: BoardOption = "pynq-z2",
    fidelity: DataFidelityOption = "",
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Images that also run on the device.")
    ] = 4,
    search: SearchOption = 16,
    json: JsonOption = None,
) -> None:
    """Accuracy of trained networks on real images, float against int8 (a clone only)."""
    from tilewright.bench import accuracy as bench
    from tilewright.bench.accuracy_subjects import SUBJECTS, installed

    options = bench.Options(
        networks=names(names_, "--networks", SUBJECTS) or (bench.QUICK if quick else installed()),
        forms=names(forms, "--forms", bench.FORMS),
        hw=hw,
        board=board,
        fidelity=one_of(fidelity or ("dpi" if quick else "rtl"), ("rtl", "dpi"), "--fidelity"),
        sample=sample,
        search=search,
        quick=quick,
    )
    finish(bench.run(options), json)
