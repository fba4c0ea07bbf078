# SPDX-License-Identifier: Apache-2.0
"""`make rehearse` goes through, and leaves nothing behind when a step fails or is interrupted."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.command import environment
from rehearsal.stage import RehearsalError, Stage

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))

import board_guides  # noqa: E402  (a file of the documents)

SERVER = "import os, time; print(os.getpid(), flush=True); os.fork(); time.sleep(600)"
"""Serves nothing, in two processes."""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER

SCRIPT = f"""
import signal, sys
from pathlib import Path
from rehearsal.stage import Stage
signal.signal(signal.SIGINT, signal.default_int_handler)
with Stage(Path.cwd(), {{}}, {{"serve": [sys.executable, "-c", {SERVER!r}]}}) as stage:
    with stage.step("wait for ever", remedy="interrupt it"):
        stage.start("serve")
        stage.run("sleep 600")
"""


def group(leader: int) -> list[str]:
    """What runs in a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = path.read_text().rpartition(")")[2].split()[:3]
            if int(of) == leader and state != "Z":
                found.append(path.parent.name)
    return found


def shown(line: str) -> str:
    """A line of a guide's output, as a pattern of what the rehearsal says.

    Names of boards and folders differ, and numbers, but not those that a network computes.
    """
    pattern = re.escape(line)
    if re.match(r"\d\.png: ", line):
        return pattern
    for name in ("xilinx@pynq:/home/xilinx/tilewright", "/home/xilinx/tilewright", "pynq:7425"):
        pattern = pattern.replace(re.escape(name), r"\S*")
    pattern = pattern.replace(r"\.\.\.", ".*").replace("desk/", r"desk-1/")
    pattern = re.sub(r"\\\((?:\\\+|\\-)(?=\d)", r"\\([+-]", pattern)  # boards differ by noise
    return re.sub(r"\d[\d.,:]*\d|\d", r"\\d[\\d.,:]*", pattern)


def outputs_of(guide: str) -> list[str]:
    """Lines that the guide shows as output of commands."""
    blocks = re.findall(r"^```console\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if not line.startswith(("$ ", "# "))]


@pytest.mark.slow
def test_the_rehearsal_goes_through(tmp_path):
    pytest.importorskip("pynq")
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal", "--folder", tmp_path / "r"],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=1800,
        env=environment(PYTHONPATH=os.pathsep.join([str(TESTS), str(ROOT / "src")])),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert re.search(r"^rehearsed in \d+ s; report: .*desk\.html$", done.stdout, re.M)
    assert not done.stderr
    said = [line.removeprefix("   | ").strip() for line in done.stdout.splitlines()]
    expected = outputs_of(board_guides.guide())
    assert len(expected) > 12
    gone = [each for each in expected if not any(re.fullmatch(shown(each), one) for one in said)]
    assert not gone, "docs/how-to/first-run.md shows what no command says"
    assert not [log.read_text() for log in tmp_path.glob("r/log-*") if "failure" in log.read_text()]


def test_a_step_that_fails_is_named_with_its_remedy_and_what_was_started_ends(tmp_path):
    programs = {"serve": [sys.executable, "-c", STUBBORN]}
    with Stage(tmp_path, dict(os.environ), programs) as stage:
        with stage.step("begin", remedy="-"):
            leader = int(stage.start("serve"))
            assert group(leader)
            stage.check("all is well", True)
        with (
            pytest.raises(RehearsalError, match=r"^step 2 \(try\) failed: exit code 3; do better$"),
            stage.step("try", remedy="do better"),
        ):
            stage.run("sh -c 'exit 3'")
    assert [done.checks for done in stage.done] == [("all is well",)]
    assert group(leader) == []


def test_what_does_not_hold_or_breaks_is_the_failure_of_its_step(tmp_path):
    stage = Stage(tmp_path, {}, {"end": [sys.executable, "-c", "exit('no device')"]})
    with (
        pytest.raises(RehearsalError, match=r"step 1 \(a\) failed: not so: it works"),
        stage.step("a", remedy="-"),
    ):
        stage.check("it works", False)
    with (
        pytest.raises(RehearsalError, match=r"step 1 \(b\) failed: KeyError: 'rows'"),
        stage.step("b", remedy="-"),
    ):
        _ = {}["rows"]
    with (
        pytest.raises(RehearsalError, match=r"step 1 \(c\) failed: no device"),
        stage.step("c", remedy="-"),
    ):
        stage.start("end")


def test_an_interrupt_ends_what_was_started(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env=environment(PYTHONPATH=str(TESTS)), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        leader = int(next(line for line in lines if line.startswith("   | ")).split()[1])
        assert next(lines) == "   $ sleep 600\n"
        process.send_signal(signal.SIGINT)
        assert "step 1 (wait for ever) was interrupted" in "".join(lines)
        assert process.wait(60) != 0
    finally:
        process.kill()
        process.communicate()
    assert group(leader) == []
