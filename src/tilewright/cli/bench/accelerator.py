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

SearchOption = Annotated[int, typer.Option("--search", min=0, help="Measurements per layer.")]
DataFidelityOption = Annotated[
    str, typer.Option("--fidelity", help="rtl or dpi; default: rtl, with --quick dpi.")
]


@bench_app.command(rich_help_panel=HARDWARE)
def roofline(
    quick: QuickOption = False,
    hw: Annotated[
        str, typer.Option("--hw", help="Configurations, comma-separated.")
    ] = "edge-8x8,pynq-16x16,zu-32x32",
    axi: Annotated[str, typer.Option(help="Bus widths in bits, comma-separated.")] = "64,128,256",
    memory: Annotated[
        str, typer.Option("--memory", help="Memories, comma-separated.")
    ] = "ideal,pynq-z2",
    networks: Annotated[
        str, typer.Option(help="Networks, comma-separated.")
    ] = "vta-resnet18,resnet18,vgg16,mobilenet_v2",
    search_cycles: Annotated[
        int, typer.Option(min=1, help="Twin cycles after which the search of a layer ends.")
    ] = 1_000_000_000,
    confirm_cycles: Annotated[
        int, typer.Option(min=0, help="Most cycles of a layer that is confirmed on the full RTL.")
    ] = 3_000_000,
    seed: SeedOption = 0,
    workers: WorkersOption = 2,
    json: JsonOption = None,
) -> None:
    """Cycles of every layer's best schedule against its bound; goes on with the file of --json."""
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
        int, typer.Option(min=1, help="Twin cycles after which the search of a layer ends.")
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
            "--networks", help="Networks of examples/networks, comma-separated; default: all."
        ),
    ] = "",
    hw: HwOption = "pynq-16x16",
    board: BoardOption = "pynq-z2",
    fidelity: DataFidelityOption = "",
    search: SearchOption = 16,
    keep_rounding: Annotated[
        bool, typer.Option("--keep-rounding", help="Keep every quantisation of the models.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Whole networks from PyTorch to bit-exact int8 on the RTL (a clone only)."""
    from tilewright.bench.networks import NETWORKS, QUICK, run

    chosen = names(names_, "--networks", NETWORKS) or (QUICK if quick else sorted(NETWORKS))
    result = run(
        chosen,
        hw=hw,
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
        str, typer.Option("--networks", help="Trained networks, comma-separated; default: all.")
    ] = "",
    forms: Annotated[
        str, typer.Option(help="Forms of quantisation, comma-separated.")
    ] = "plain,symmetric,asymmetric",
    hw: HwOption = "pynq-16x16",
    board: BoardOption = "pynq-z2",
    fidelity: DataFidelityOption = "",
    sample: Annotated[int, typer.Option(min=1, help="Images that also run on the device.")] = 4,
    search: SearchOption = 16,
    json: JsonOption = None,
) -> None:
    """Accuracy of trained networks on real images, float against int8 (a clone only)."""
    from tilewright.bench import accuracy as bench
    from tilewright.bench.accuracy_data import SUBJECTS

    options = bench.Options(
        networks=names(names_, "--networks", SUBJECTS)
        or (bench.QUICK if quick else list(SUBJECTS)),
        forms=names(forms, "--forms", bench.FORMS),
        hw=hw,
        board=board,
        fidelity=one_of(fidelity or ("dpi" if quick else "rtl"), ("rtl", "dpi"), "--fidelity"),
        sample=sample,
        search=search,
        quick=quick,
    )
    finish(bench.run(options), json)
