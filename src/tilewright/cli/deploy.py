# SPDX-License-Identifier: Apache-2.0
"""`tilewright deploy`: a compiled network as a bundle, and on a board."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.application import BOARDS, app, say
from tilewright.cli.arguments import read_board, replacing, require_places, require_readable
from tilewright.cli.json_output import JsonOption, json_path
from tilewright.cli.network_data import MeanOption, StdOption, read_numbers


@app.command(rich_help_panel=BOARDS)
def deploy(
    network: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="File of 'tilewright compile'.")
    ],
    board: Annotated[
        str, typer.Option(metavar="BOARD", help="Board or YAML file; default: the network's own.")
    ] = "",
    bitstream: Annotated[
        Path | None,
        typer.Option(metavar="MANIFEST", help="Manifest of the bitstream that it runs on."),
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
    mean: MeanOption = "0",
    std: StdOption = "1",
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
    require_readable(network, "NETWORK")
    read = {"NETWORK": network, "--bitstream": bitstream, "--labels": labels}
    require_places(read, {"--output": output, "--json": json_path(json)})
    import hashlib

    from tilewright.host.common.whole_file import write_whole
    from tilewright.host.compiler.pack.artefact import load
    from tilewright.host.compiler.pack.target import target_board
    from tilewright.host.deploy.bundle_parts import make_bundle
    from tilewright.host.deploy.send import check_destination, send
    from tilewright.host.machine.bitstream import read_bitstream_manifest
    from tilewright.host.machine.board import board_with_bitstream

    check_destination(host, to)
    manifest = None if bitstream is None else read_bitstream_manifest(bitstream)
    target = read_board(board) if board else target_board(load(network))
    target = board_with_bitstream(target, bitstream)
    name, archive = make_bundle(
        network,
        target,
        bitstream=manifest,
        labels=labels,
        mean=read_numbers("--mean", mean),
        std=read_numbers("--std", std),
        folder=to,
    )
    path = output or Path(f"{name}-{target.name}.zip")
    require_places(read, {"--output": path, "--json": json_path(json)})
    with replacing(path):
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
