# SPDX-License-Identifier: Apache-2.0
"""`make rehearse`: from a configuration to tuned, calibrated and classifying boards, without one.

Every command is the one that a user with boards types, from a folder with copies of
``examples/digits`` and ``examples/boards``. Each step says what stands for the board's part.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from support.boards.loopback_ssh import free_port, start_sshd, write_stand_ins

from rehearsal.stage import RehearsalError, Stage, say

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
HW = "tiny-4x4"
BOARD = "pynq-z2"
BOARDS = ("desk-1", "desk-2")
MODEL_READ_LATENCY = 22
"""What the board file says; the simulated boards have that of ``hidden.yaml``."""
SIMULATED = "the board's runtime on the RTL in Verilator, behind a simulated pynq device"


def prepare(folder: Path) -> Stage:
    """A fresh folder with the inputs, and programs for those that this machine lacks."""
    programs = folder / "programs"
    programs.mkdir(parents=True)
    shutil.copytree(ROOT / "examples/digits", folder / "digits")
    for path in (ROOT / "examples/boards").glob("*.yaml"):
        shutil.copy(path, folder)
    python = shlex.quote(sys.executable)
    (programs / "vivado").write_text(f'#!/bin/sh\nexec {python} -m support.vivado "$@"\n')
    (programs / "vivado").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{TESTS}",
        "COLUMNS": "120",
    }
    os.environ["PATH"] = environment["PATH"]  # for what is looked up here
    return Stage(folder, environment, {"tilewright": [sys.executable, "-m", "tilewright.cli"]})


def read_json(stage: Stage, name: str) -> dict[str, Any]:
    """A document that a command wrote."""
    return dict(json.loads((stage.folder / name).read_text(encoding="utf-8")))


def build(stage: Stage) -> None:
    """A bitstream, and a network for it."""
    with stage.step(
        "Write what Vivado builds from",
        remedy="the message names the file of constraints/ or the board file to change",
    ):
        out = stage.run(f"tilewright bitstream {HW} --board {BOARD} --dry-run --output bitstream")
        stage.check("the configuration fits the board", f"{HW} fits {BOARD}" in out)
        stage.check("build.tcl is there", (stage.folder / "bitstream/build.tcl").is_file())
    with stage.step(
        "Build the bitstream",
        here="a model of Vivado checks every command of the scripts; its figures are made up",
        remedy="read bitstream/vivado.log; the model is tests/support/vivado",
    ):
        stage.run("sh -c 'cd bitstream && vivado -mode batch -source build.tcl'")
        manifest = yaml.safe_load((stage.folder / "bitstream/tilewright.yaml").read_text())
        stage.check(f"the manifest is of {HW}", manifest["hw"]["name"] == HW)
        names = {"tilewright.bit", "tilewright.hwh"}
        stage.check("it has digests of .bit and .hwh", names <= manifest["files"].keys())
    with stage.step("Compile a network", remedy="see docs/how-to/networks.md"):
        stage.run(
            f"tilewright compile digits/digits.onnx --hw {HW} --board {BOARD} "
            "--calibration digits/images --offload-all -o digits.tw"
        )
        stage.check("digits.tw is there", (stage.folder / "digits.tw").is_file())


def deploy(stage: Stage) -> None:
    """The network on the board at the other end of SSH."""
    found = start_sshd(stage.folder / "ssh", stage.folder / "programs", "board")
    if isinstance(found, str):
        host, here = "xilinx@board", f"copied on this machine, not by SSH: {found}"
        write_stand_ins(stage.folder / "programs", host)
    else:
        stage.keep("sshd", found[0])
        host, here = found[1], "over SSH to this machine"
    with stage.step(
        "Deploy the bundle", here=here, remedy="see that 'ssh HOST true' asks for no password"
    ):
        place = stage.folder / "board"
        stage.run(
            f"tilewright deploy digits.tw --bitstream bitstream/tilewright.yaml --host {host} "
            f"--to {place}"
        )
        stage.check("the bundle is installed", (place / "digits/manifest.json").is_file())
        stage.check("the bitstream too", len(list(place.glob("bitstreams/*/tilewright.bit"))) == 1)


def serve(stage: Stage) -> None:
    """Agents, each with a certificate and a token of its own."""
    entries = "".join(f"  - {{name: {name}, client: {name}/client}}\n" for name in BOARDS)
    (stage.folder / "pool.yaml").write_text(f"boards:\n{entries}")
    ports = {name: free_port() for name in BOARDS}
    with stage.step(
        "Make certificate and token of each board",
        remedy="a folder of an agent must be yours alone (chmod 700)",
    ):
        for name, port in ports.items():
            stage.run(f"tilewright agent init {name} --address 127.0.0.1:{port}")
            private = (stage.folder / name / "identity.pem").stat().st_mode & 0o777
            stage.check(f"only you may read the key of {name}", private == 0o600)
    with stage.step(
        "Start the agents",
        here=f"{SIMULATED}; its DRAM is that of hidden.yaml, and noisy",
        remedy="the last lines of log-*.txt have the reason; pynq and Verilator are needed",
    ):
        for number, (name, port) in enumerate(ports.items(), start=1):
            line = stage.start(
                f"tilewright agent --hw {HW} --device simulated-board --memory hidden.yaml "
                f"--noise-seed {number} --listen 127.0.0.1:{port} --home {name} --log json"
            )
            stage.check(f"{name} listens", line == f"{HW} at 127.0.0.1:{port}\n")
        stage.run("tilewright agent status --boards pool.yaml --json status.json")
        rows = read_json(stage, "status.json")["rows"]
        free = [row["answers"] and not row["leased"] for row in rows]
        stage.check("both boards answer over TLS and are free", free == [True, True])


def measure(stage: Stage) -> None:
    """The boards calibrate the memory model, and tuning measures on them."""
    hidden = yaml.safe_load((stage.folder / "hidden.yaml").read_text())
    with stage.step(
        "Calibrate the memory model",
        remedy="see docs/how-to/calibrate-a-board.md, 'Limits'",
    ):
        stage.run(
            f"tilewright board calibrate --boards pool.yaml --hw {HW} --network layers.yaml "
            "--output desk.yaml --json calibration.json"
        )
        found = read_json(stage, "calibration.json")
        before, after = found["held_out"]["before"], found["held_out"]["after"]
        stage.check(
            f"on layers held out the model's error fell from {before:.1%} to {after:.1%}",
            after < before / 4,
        )
        fitted, truth = found["memory"]["read_latency"], hidden["read_latency"]
        stage.check(
            f"the read latency, {MODEL_READ_LATENCY} in the model and {truth} in truth, "
            f"was found as {fitted}",
            abs(fitted - truth) < (truth - MODEL_READ_LATENCY) / 3,
        )
    with stage.step(
        "Tune on the boards", remedy="the same command goes on where it ended; see tune-on-boards"
    ):
        out = stage.run(
            f"tilewright tune layers.yaml --layers A,B --hw {HW} --board desk.yaml "
            "--fidelity board --boards pool.yaml --budget 16 --name desk --json tune.json"
        )
        trials = dict(re.findall(r"(desk-\d) (\d+) trials", out))
        stage.check("every trial ran, on both boards", sorted(trials) == sorted(BOARDS))
        twin = [abs(float(each)) for each in re.findall(r"on the twin \((.\d+\.\d+) %\)", out)]
        stage.check(
            "the calibrated twin is within 10 % of the boards", len(twin) == 2 and max(twin) < 10
        )


def use(stage: Stage) -> None:
    """The deployed network classifies images, and the study has its report."""
    with stage.step(
        "Classify images with the bundle",
        here=f"{SIMULATED}; on a board: python3 board/digits/run --images digits/images",
        remedy="read what is refused in docs/how-to/deploy.md",
    ):
        stage.run(
            "tilewright board run board/digits --images digits/images --simulated --json run.json"
        )
        found = read_json(stage, "run.json")
        right = [
            f"{row['outputs'][0]['top'][0]['index']}.png" == row["input"] for row in found["rows"]
        ]
        stage.check(f"{sum(right)} of {len(right)} images have the right class", all(right))
        stage.check("cycles were counted", found["summary"]["cycles"] > 0)
    with stage.step("Report", remedy="tilewright report --help"):
        stage.run("tilewright report desk --output desk.html")
        text = (stage.folder / "desk.html").read_text(encoding="utf-8")
        stage.check("the page tells both boards", all(name in text for name in BOARDS))
    with stage.step("End the agents", remedy="kill them by their number; their logs are log-*.txt"):
        codes = stage.stop("tilewright agent")
        stage.check("both ended with exit code 0", list(codes.values()) == [0, 0])


def main() -> int:
    """Run the rehearsal; the exit code."""
    parser = argparse.ArgumentParser(prog="make rehearse", description=(__doc__ or ""))
    parser.add_argument("--folder", type=Path, help="new folder; default: build/rehearsal, anew")
    given = parser.parse_args().folder
    folder = (given or ROOT / "build/rehearsal").resolve()
    if given is None:
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        say(f"error: --folder: must be a new folder, not {folder}; name another one")
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    say("Every command runs in the folder:")
    say(f"   $ cp -r examples/digits examples/boards/*.yaml {folder}; cd {folder}")
    try:
        with prepare(folder) as stage:
            for act in (build, deploy, serve, measure, use):
                act(stage)
    except RehearsalError as error:
        say(f"\nerror: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    say("\n  s  checks  step")
    for done in stage.done:
        say(f"{done.seconds:3.0f}  {len(done.checks):6d}  {done.title}")
    say(f"\nrehearsed in {time.monotonic() - begin:.0f} s; report: {folder / 'desk.html'}")
    for done in stage.done:
        if done.here:
            say(f"not on a board: {done.title}: {done.here}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
