# SPDX-License-Identifier: Apache-2.0
"""The files of a bundle: network, labels, the runner's modules, its service and its notebook.

The modules of this package that a bundle carries: what `board_run` imports, and no more.

A test runs a bundle and compares what was imported with this list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import tilewright
from tilewright.host.common.errors import ConfigError
from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.pack.limits import check_limits
from tilewright.host.compiler.run.numpy_host import NumpyHost
from tilewright.host.compiler.run.picture_network import PictureReader
from tilewright.host.deploy.bundle import LABELS, NETWORK
from tilewright.host.deploy.bundle_archive import pack_bundle
from tilewright.host.machine.bitstream import BitstreamManifest
from tilewright.host.machine.board import Board
from tilewright.host.vision.names import Task
from tilewright.host.vision.pictures import Scaling
from tilewright.host.vision.tasks import TaskOptions

MODULES: Final = (
    "tilewright",
    "tilewright.host",
    "tilewright.host.common",
    "tilewright.host.common.calls",
    "tilewright.host.common.errors",
    "tilewright.host.common.extras",
    "tilewright.host.common.names",
    "tilewright.host.common.places",
    "tilewright.host.common.plain_values",
    "tilewright.host.common.printable",
    "tilewright.host.common.result_document",
    "tilewright.host.common.str_enum",
    "tilewright.host.common.summaries",
    "tilewright.host.common.whole_file",
    "tilewright.host.common.yaml_files",
    "tilewright.host.common.zip_archives",
    "tilewright.host.compiler",
    "tilewright.host.compiler.lower",
    "tilewright.host.compiler.lower.executable",
    "tilewright.host.compiler.lower.qgraph",
    "tilewright.host.compiler.lower.region_program",
    "tilewright.host.compiler.pack",
    "tilewright.host.compiler.pack.artefact",
    "tilewright.host.compiler.pack.artefact_rules",
    "tilewright.host.compiler.read",
    "tilewright.host.compiler.read.argument",
    "tilewright.host.compiler.read.calibration",
    "tilewright.host.compiler.read.remedies",
    "tilewright.host.compiler.run",
    "tilewright.host.compiler.run.host_arguments",
    "tilewright.host.compiler.run.network_runner",
    "tilewright.host.compiler.run.numpy_host",
    "tilewright.host.compiler.run.numpy_operators",
    "tilewright.host.compiler.run.picture_network",
    "tilewright.host.deploy",
    "tilewright.host.deploy.board_run",
    "tilewright.host.deploy.bundle",
    "tilewright.host.deploy.measure",
    "tilewright.host.machine",
    "tilewright.host.machine.hwconfig",
    "tilewright.host.machine.isa",
    "tilewright.host.machine.program",
    "tilewright.host.machine.registers",
    "tilewright.host.machine.status",
    "tilewright.host.network",
    "tilewright.host.network.layout",
    "tilewright.host.network.requant",
    "tilewright.host.network.schedule",
    "tilewright.host.network.workload",
    "tilewright.host.runtime",
    "tilewright.host.runtime.contiguous_buffers",
    "tilewright.host.runtime.device",
    "tilewright.host.runtime.driver",
    "tilewright.host.runtime.polled_device",
    "tilewright.host.runtime.pynq_device",
    "tilewright.host.vision",
    "tilewright.host.vision.drawing",
    "tilewright.host.vision.heads",
    "tilewright.host.vision.names",
    "tilewright.host.vision.pictures",
    "tilewright.host.vision.tasks",
)


DEFAULT_FOLDER: Final = "/home/xilinx/tilewright"
"""Where bundles lie on a board: below the home of the user of PYNQ's images."""

_PACKAGE: Final = Path(tilewright.__file__).resolve().parent

_RUN: Final = '''\
# SPDX-License-Identifier: Apache-2.0
"""Runs this bundle on this board: python3 run --help."""
import sys

sys.path.pop(0)  # the folder of this file: no other file in it is imported
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "lib"))
sys.dont_write_bytecode = True
if sys.version_info < (3, 10):
    sys.exit("error: this needs Python 3.10; use the board's own (sudo -i)")
try:
    import numpy  # noqa: F401  (whether it is there)
except ImportError as error:
    sys.exit(f"error: this needs numpy ({error}); use the board's own Python (sudo -i)")
from tilewright.host.deploy.board_run import main

sys.exit(main(FOLDER))
'''

_SERVICE: Final = """\
# Looks at images as they come into {folder}/inbox; read it with: journalctl -fu tilewright-{name}
# Install: sudo cp {folder}/{name}/tilewright-{name}.service /etc/systemd/system/
#          sudo mkdir -p {folder}/inbox; sudo systemctl enable --now tilewright-{name}
[Unit]
Description=Tilewright: {name}

[Service]
# A login shell has pynq's environment.
ExecStart=/bin/bash -lc 'exec python3 {folder}/{name}/run --watch {folder}/inbox'
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""

_CELLS: Final = (
    (
        "from pathlib import Path\n"
        "import sys\n"
        "\n"
        "folder = Path.cwd()  # of this notebook: the bundle's\n"
        'sys.path.insert(0, str(folder / "lib"))\n'
        "from tilewright.host.deploy import board_run\n"
        "from tilewright.host.deploy.bundle import read_bundle\n"
        "\n"
        "bundle = read_bundle(folder)  # checks every file\n"
        "network = board_run.open_network(bundle)\n"
        "network.inputs, network.outputs"
    ),
    (
        "device = board_run.open_device(bundle, network, None)  # or the path of a bitstream\n"
        "images = None  # a folder of images, an image, .npy or .npz; None: noise\n"
        "report = board_run.run_bundle(bundle, network, device, images, print)"
    ),
    "device.close()",
)


def make_bundle(
    path: Path,
    board: Board,
    *,
    bitstream: BitstreamManifest | None = None,
    labels: Sequence[str] = (),
    task: str = "",
    scaling: Scaling | None = None,
    folder: str = DEFAULT_FOLDER,
) -> tuple[str, bytes]:
    """The name of a bundle and its archive."""
    network = load(path)
    NumpyHost(network.host)
    check_limits(network, board)
    if bitstream is not None:
        _check_bitstream(bitstream, network.hw.config_hash, board)
    name = _plain(path.stem)
    files = {
        NETWORK: path.read_bytes(),
        "run": _RUN.encode(),
        f"tilewright-{name}.service": _SERVICE.format(name=name, folder=folder).encode(),
        f"{name}.ipynb": json.dumps(_notebook(name), indent=1).encode(),
        "LICENSE.txt": b"Tilewright is under the Apache License, Version 2.0: "
        b"https://www.apache.org/licenses/LICENSE-2.0\n",
        **{f"lib/{place}": (_PACKAGE.parent / place).read_bytes() for place in map(_file, MODULES)},
    }
    if labels:
        files[LABELS] = "".join(f"{label}\n" for label in labels).encode()
    scaling = scaling or Scaling()
    if task:
        PictureReader(network, scaling, TaskOptions(task=Task(task), labels=labels))
    facts = {
        "name": name,
        "version": tilewright.__version__,
        "config_hash": network.hw.config_hash,
        "board": {
            "name": board.name,
            "clock_mhz": board.clock_mhz,
            "coherent": board.coherent,
            "contiguous_bytes": board.cpu.contiguous_bytes,
        },
        "bitstream": {} if bitstream is None else dict(bitstream.files),
        "mean": list(scaling.mean),
        "std": list(scaling.std),
        "fit": str(scaling.fit),
        "task": task,
    }
    return name, pack_bundle(facts, files)


def _file(module: str) -> str:
    """The file of a module, below the folder of the package's parent."""
    path = module.replace(".", "/")
    inside = path.partition("/")[2]
    if (_PACKAGE / inside).is_dir():
        return f"{path}/__init__.py"
    return f"{path}.py"


def _plain(stem: str) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in stem)
    return name.lstrip("-.")[:64] or "network"


def _check_bitstream(bitstream: BitstreamManifest, config_hash: int, board: Board) -> None:
    if bitstream.hw.config_hash != config_hash:
        raise ConfigError(
            f"must be of the network's configuration ({config_hash:#010x})",
            field=str(bitstream.path),
            value=f"{bitstream.hw.config_hash:#010x}",
            remedy=f"compile the network with --hw of {bitstream.hw.name}, or build its bitstream",
        )
    if bitstream.board != board.name:
        raise ConfigError(
            f"must be built for {board.name}",
            field=str(bitstream.path),
            value=bitstream.board,
            remedy="give --board of the bitstream, or build it for this board",
        )
    bitstream.check_files()


def _notebook(name: str) -> dict[str, Any]:
    text = f"# {name}\n\nRun as root, as PYNQ's Jupyter does, in the folder of the bundle."
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": text}
    ]
    for number, source in enumerate(_CELLS):
        cells.append(
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell{number}",
                "metadata": {},
                "outputs": [],
                "source": source,
            }
        )
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
