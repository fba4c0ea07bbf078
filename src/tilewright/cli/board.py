# SPDX-License-Identifier: Apache-2.0
"""`tilewright board`: what is done with boards besides serving them."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import BOARDS, WORDS, Group, app, open_console, say
from tilewright.cli.common.json_output import JsonOption, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.host.common.errors import fields_named
from tilewright.host.common.printable import printable
from tilewright.host.vision.names import Task
from tilewright.interface.options import ImageOptions
from tilewright.tuner.schedule.options import MODEL_HELP
from tilewright.tuner.study.options import split_layers

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.runtime.pynq_device import PynqDevice
    from tilewright.tuner.calibrate.board_calibration import Calibration


@app.command(rich_help_panel=BOARDS)
@from_fields(ImageOptions)
def deploy(
    network: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="File of 'tilewright compile'.")
    ],
    *,
    board: Annotated[
        str, typer.Option(metavar="BOARD", help="Board or YAML file; default: the network's own.")
    ] = "",
    bitstream: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Bitstream that it runs on, or its manifest."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="USER@BOARD", help="Copy it there by ssh, without password.")
    ] = "",
    to: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder of bundles on the board.")
    ] = "/home/xilinx/tilewright",
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text file with the name of a class in each line."),
    ] = None,
    task: Annotated[
        Task | None,
        typer.Option(
            help="What the network is for: outputs are told as that; default: what its model "
            "states of itself."
        ),
    ] = None,
    settings: ImageOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Bundle; default: NAME-BOARD.zip.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Make a bundle that a board runs with its own Python, numpy and pynq, and copy it there."""
    arguments.require_readable(network, "NETWORK")
    read = {"NETWORK": network, "--bitstream": bitstream, "--labels": labels}
    arguments.require_places(read, {"--output": output, "--json": json_path(json)})
    import hashlib

    from tilewright.host.common.whole_file import write_whole
    from tilewright.host.compiler.pack.artefact import load
    from tilewright.host.compiler.pack.target import target_board
    from tilewright.host.compiler.run.picture_network import stated_task
    from tilewright.host.deploy.bundle_parts import make_bundle
    from tilewright.host.deploy.send import check_destination, send
    from tilewright.host.machine.bitstream import read_bitstream_manifest
    from tilewright.host.machine.board import board_with_bitstream
    from tilewright.host.vision.labels import read_labels
    from tilewright.interface.networks import scaling_between

    check_destination(host, to)
    manifest = None if bitstream is None else read_bitstream_manifest(bitstream)
    compiled = load(network)
    target = arguments.read_board(board) if board else target_board(compiled)
    target = board_with_bitstream(target, bitstream)
    stated, stated_labels = stated_task(compiled)
    chosen = str(task or stated)
    name, archive = make_bundle(
        network,
        target,
        bitstream=manifest,
        labels=stated_labels if labels is None else read_labels(labels),
        task=chosen,
        scaling=scaling_between(compiled, settings, chosen),
        folder=to,
    )
    path = output or Path(f"{name}-{target.name}.zip")
    arguments.require_places(read, {"--output": path, "--json": json_path(json)})
    with arguments.replacing(path):
        write_whole(path, archive)
    digest = hashlib.sha256(archive).hexdigest()
    say(f"{path}: {len(archive):,} bytes, SHA-256 {digest}")
    place = ""
    if host:
        place = send(archive, name, host, to, manifest)
        say(f"{host}:{place}: installed; there, as root (sudo -i): python3 {place}/run")
    if json is not None:
        json.write(
            [{"bundle": str(path), "bytes": len(archive), "sha256": digest, "installed": place}],
            {"network": name, "board": target.name, "host": host},
        )


board_app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Run bundles on a board; calibrate boards."
)
app.add_typer(board_app, name="board", rich_help_panel=BOARDS)


@board_app.callback()
def boards() -> None:
    """Run bundles on a board; calibrate boards."""


@board_app.command("run")
def run_bundle(
    context: typer.Context,
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Bundle of 'tilewright deploy', or its folder.")
    ],
    images: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Folder of images, image, .npy or .npz; default: noise."),
    ] = None,
    bitstream: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Bitstream or its manifest; default: the one that was deployed."
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Run on a simulated board: its runtime on the RTL."),
    ] = False,
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write images with what is in them here; of a bundle with a task.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Run a bundle on the board of this machine: outputs, latency, throughput."""
    if simulated:
        arguments.refuse_given(context, ("bitstream",), "is for a board, not --simulated")
    arguments.require_readable(bundle, "BUNDLE")
    if images is not None:
        arguments.require_readable(images, "--images")
    elif draw is not None:
        raise UsageError("needs pictures", field="--draw", remedy="add --images")
    import tempfile
    from contextlib import closing

    from tilewright.host.compiler.run.numpy_host import NumpyHost
    from tilewright.host.deploy import board_run
    from tilewright.host.deploy.bundle import read_bundle
    from tilewright.host.deploy.bundle_archive import unpack_bundle
    from tilewright.host.machine.bitstream import bit_file

    console = open_console()
    with tempfile.TemporaryDirectory() as folder:
        found = read_bundle(bundle) if bundle.is_dir() else unpack_bundle(bundle, Path(folder))
        if draw is not None and images is not None:
            board_run.ready_drawing(found, images, draw)
        network = board_run.open_network(found)
        NumpyHost(network.host)
        if simulated:
            device = _simulated(network.hw, found.board["name"])
        else:
            named = None if bitstream is None else bit_file(bitstream)
            device = board_run.open_device(found, network, named)
        with closing(device), fields_named({"calibration": "--images"}):
            report = board_run.run_bundle(
                found, network, device, images, console.say, simulated=simulated, draw=draw
            )
    if json is not None:
        json.write(
            report.rows(),
            board_run.conditions(found, images, "simulated-board" if simulated else "board"),
            summary=report.summary(),
        )


def _simulated(hw: HwConfig, board: str) -> PynqDevice:
    from tilewright.host.machine.board import load_memory
    from tilewright.sim.verilator.build import build_model
    from tilewright.sim.verilator.pynq_simulation import SimulatedBoard

    return SimulatedBoard(hw, load_memory(board), build_model(hw))


@board_app.command()
def calibrate(
    context: typer.Context,
    pool: Annotated[
        Path,
        typer.Option("--boards", metavar="POOL", help="Boards: a file that lists their agents."),
    ],
    hw: Annotated[
        str, typer.Option("--hw", metavar="HW", help="Configuration that the boards hold.")
    ],
    board: arguments.BoardOption = "pynq-z2",
    network: Annotated[
        str,
        typer.Option(
            "--network",
            metavar="MODEL",
            help=MODEL_HELP,
        ),
    ] = "resnet18",
    layers: Annotated[
        str,
        typer.Option(
            metavar="LAYER,...",
            help="Only these layers, separated by commas; every other is held out.",
        ),
    ] = "",
    schedules: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Schedules of each layer: the untuned one, random ones."
        ),
    ] = 6,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File; default: BOARD-calibrated.yaml."
        ),
    ] = None,
    seed: arguments.SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """Fit a board's memory model to what its boards count, and write the board as a file.

    Each board runs every schedule until its median is known. Latencies and bandwidths are fitted
    to the counters of every other layer; the layers between say what the fit is worth.
    """
    from tilewright.host.common.print_table import print_table
    from tilewright.host.common.whole_file import write_whole
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.host.runtime.board_pool import load_board_pool
    from tilewright.tuner.calibrate.board_calibration import board_yaml
    from tilewright.tuner.calibrate.board_calibration import calibrate as fit_board
    from tilewright.tuner.schedule.rules import host_rules

    target = arguments.read_board(board)
    path = output or Path(f"{target.name}-calibrated.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(
            "must end in .yaml",
            field="--output",
            value=str(path),
            remedy="name a file such as my-board.yaml",
        )
    arguments.require_places(
        {"--boards": pool, "--network": Path(network), "--board": Path(board), "--hw": Path(hw)},
        {"--output": path, "--json": json_path(json)},
    )
    addresses = load_board_pool(pool)
    table = arguments.read_network(network, load_hwconfig(hw), target)
    with fields_named({"layers": "--layers"}):
        workloads = table.select(split_layers(layers))
    console = open_console()

    def say(text: str) -> None:
        console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    words = context.find_root().meta[WORDS]
    with fields_named({"layers": "--layers"}):
        found = fit_board(
            addresses,
            target,
            load_hwconfig(hw),
            workloads,
            rules=host_rules(),
            command=shlex.join(["tilewright", *words]),
            schedules=schedules,
            seed=seed,
            tell=say,
        )
    print_table(_layers(found), console)
    before, after = target.memory, found.fit.memory
    for name, half in found.fit.errors.items():
        say(
            f"{name}: {getattr(before, name):.4g} in the model, {getattr(after, name):.4g} fitted, "
            f"+- {half:.2g} (95 %)"
        )
    say(
        f"mean error of cycles on layers held out: {found.held_before:.2%} before, "
        f"{found.held_after:.2%} after"
    )
    with arguments.replacing(path):
        write_whole(path, board_yaml(found.board))
    say(f"{path}: use it as --board")
    if json is not None:
        json.write(
            [asdict(row) for row in found.layers],
            {"board": target.name, "hw": hw, "schedules": schedules, "seed": seed},
            memory=asdict(found.fit.memory),
            errors=dict(found.fit.errors),
            held_out={"before": found.held_before, "after": found.held_after},
        )


def _layers(found: Calibration) -> Table:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table

    headings = ("board's cycles", "model before", "after", "worst before", "after")
    table = plain_table("layer", "board", "layer is", *headings, left=3)
    for row in found.layers:
        table.add_row(
            Text(printable(row.layer)),
            Text(printable(row.board)),
            "held out" if row.held_out else "fitted",
            f"{row.cycles:,}",
            f"{row.before:+.2%}",
            f"{row.after:+.2%}",
            f"{row.worst_before:.2%}",
            f"{row.worst_after:.2%}",
        )
    return table
