# SPDX-License-Identifier: Apache-2.0
"""Empty words, and files that commands write: refused before any work, never lost in silence."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.command_line import call, commands, refusal
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.whole_file import MARK
from tilewright.tuner.store.store import Store

SIM = ("sim", "C10", "--hw", "tiny-4x4", "--device", "twin")
TUNE = ("tune", "resnet18", "--layers", "C10", "--hw", "tiny-4x4", "--board", "zcu104")


def error_of(*words: str) -> str:
    return refusal(*words).removeprefix("error: ")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without permission to write, which the root of a test machine would have anyway."""
    folder, real = home / "locked", os.access
    folder.mkdir()

    def access(path: Any, mode: int, **options: Any) -> bool:
        return real(path, mode, **options) and not (mode & os.W_OK and Path(path) == folder)

    monkeypatch.setattr(os, "access", access)
    return folder


def model(path: Path) -> None:
    made = Model(fresh_rng())
    y = made.add("Conv", made.input(1, 4, 8, 8), made.weights(8, 4, 3, 3), pads=[1] * 4)
    made.nodes[0].name = "first_conv"
    onnx.save(made.proto(y), path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("",), "COMMAND: must not be empty; use one of "),
        (("compile", ""), "MODEL: must not be empty; give a value"),
        (("run", ""), "NETWORK: must not be empty"),
        (("deploy", ""), "NETWORK: must not be empty"),
        (("board", "run", ""), "BUNDLE: must not be empty"),
        (("board", "run", "--simulated", ""), "BUNDLE: must not be empty"),
        (("agent", "init", ""), "FOLDER: must not be empty"),
        (("agent", "--home", ""), "--home: must not be empty; give a value or leave the option"),
        (("report", ""), "STUDY: must not be empty; give a value or leave the argument out"),
        (("exhaust", "C2", ""), "LAYER: must not be empty"),
        (("compile", "--", ""), "MODEL: must not be empty"),
    ],
)
def test_no_argument_is_empty(home: Path, words: tuple[str, ...], told: str) -> None:
    """An empty path is the current folder: `agent init ""` advised to change its owner."""
    assert error_of(*words).startswith(told)
    assert not list(home.iterdir())


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_is_no_model(home: Path, name: str) -> None:
    """`Path.with_suffix` raised a ValueError for the name of the compiled file."""
    assert error_of("compile", name).startswith("MODEL: must be a file, no folder")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*SIM, "--trace", "f", "--json", "f"), "--json: must be another file than --trace"),
        ((*SIM, "--trace", "f", "--json", "./f"), "--json: must be another file than --trace"),
        (("run", "m.tw", "-o", "f", "--json", "f"), "--json: must be another file than --output"),
        (("run", "m.tw", "-o", "m.tw"), "--output: must be another file than NETWORK"),
        (("deploy", "m.tw", "-o", "f", "--json", "f"), "--json: must be another file than --out"),
        (("multicore", "vision", "--html", "f", "--trace", "f"), "--trace: must be another"),
        (("multicore", "vision", "--html", "f", "--json", "f"), "--json: must be another"),
        (
            ("map", "resnet18:C2", "--output", ".", "--json", "C2.yaml"),
            "--json: must be another file than --output (C2.yaml)",
        ),
        ((*TUNE, "--name", "s", "--json", "runs/s.html"), "--json: must be another file than the "),
        ((*TUNE, "--store", "m.tw", "--json", "m.tw"), "--json: must be another file than --store"),
        (
            ("bench", "tuners-page", "m.tw", "--output", "f", "--html", "m.tw"),
            "--html: must be another file than an argument",
        ),
        (("bench", "mapping", "--json", "f", "--html", "f"), "--html: must be another file than"),
        (("bench", "mapping", "--html", "f", "--json", "f"), "--json: must be another file than"),
        (("bench", "tables", "--output", "f", "--json", "f"), "--json: must be another file than"),
        (
            ("bench", "tables", "--output", "certified_tables.py"),
            "the module beside --output: must be another file than --output",
        ),
        (("bench", "tables", "--output", "/proc/x.npz"), "--output: cannot be written"),
        (
            ("bench", "tuners", "--folder", ".", "--json", "runs.jsonl"),
            "--json: must be another file than the runs in --folder",
        ),
        (
            ("bench", "tuners-page", "m.tw", "--output", "f"),
            "--output: must be another file than the folder beside it",
        ),
        ((*TUNE, "--store", "f", "--json", "f"), "--json: must be another file than the trial st"),
        (("map", "m.tw", "--fuse", "a+b", "--json", "m.tw"), "--json: must be another file than"),
        (("multicore", "vision", "--platform=m.tw", "--html", "m.tw"), "--html: must be another"),
        (("export", "s", "--csv", "f", "--plot", "f"), "--plot: must be another file than --csv"),
    ],
)
def test_no_file_is_written_twice(home: Path, words: tuple[str, ...], told: str) -> None:
    """Both were reported as written, and one was lost."""
    (home / "m.tw").write_text(f"# {MARK} (mine)")
    assert told in error_of(*words)
    assert (home / "m.tw").read_text() == f"# {MARK} (mine)"


def test_a_page_of_a_study_is_none_of_its_inputs(home: Path) -> None:
    """`--page m/fresh.md` wrote the runs to m/fresh.json, one of the documents."""
    (home / "m.md").write_text("mine")
    (home / "m.json").write_text(f"# {MARK} (mine)")
    line = error_of("bench", "study-page", "m.json", "--page", "m.md")
    assert line.startswith("the runs beside --page: must be another file than JSON (m.json)")
    assert (home / "m.json").read_text() == f"# {MARK} (mine)"


def test_no_command_replaces_a_file_that_its_line_names_besides(home: Path) -> None:
    """Configurations, studies, manifests and tables that an earlier run wrote have the mark."""
    rng = fresh_rng()
    offered = [
        (name.split(), parameter.opts[0])
        for name, command in commands()
        for parameter in command.params
        if any("--json" in each.opts for each in command.params)
        and parameter.param_type_name == "option"
        and not (parameter.is_flag or {"--json", "--help"} & set(parameter.opts))
    ]
    for place in rng.choice(len(offered), 25, replace=False):
        path, option = offered[place]
        (home / "m.yaml").write_text(f"# {MARK} (mine)")
        one, other = (option, "m.yaml"), (f"--json={home / 'm.yaml'}",)
        line = one + other if rng.random() < 0.5 else other + one
        done = call(*path, *line)
        assert done.exit_code == 2, (path, line, done.output)
        assert (home / "m.yaml").read_text() == f"# {MARK} (mine)"


def test_several_files_may_go_to_a_device(home: Path) -> None:
    done = call(*SIM, "--trace", "/dev/null", "--json", "/dev/null")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("more", [("--json", "s.html"), ("--json", "s.yaml"), ("--output", "x/y")])
def test_a_report_is_refused_before_it_is_told(home: Path, more: tuple[str, ...]) -> None:
    (home / "x").touch()
    with Store(home / "studies.sqlite") as store:
        store.open_study("s", {}, {})
    line = error_of("report", "s", "--runs", ".", *more)
    assert line.startswith(("--json: must be another", "--output: cannot be written"))


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("work was begun")


@pytest.mark.parametrize("option", ["--trace", "--waves"])
@pytest.mark.parametrize("there", [False, True])
def test_sim_finds_a_place_that_cannot_be_written_first(
    read_only: Path, monkeypatch: pytest.MonkeyPatch, option: str, there: bool
) -> None:
    """Also a file that may be written: its successor is made beside it."""
    monkeypatch.setattr("tilewright.sim.devices.open_simulated", refuse)
    words = ("sim", "C10", "--hw", "tiny-4x4", option)
    assert error_of(*words, ".").startswith(f"{option}: cannot be written (Is a directory)")
    if there:
        (read_only / "f").touch()
    assert error_of(*words, str(read_only / "f")).startswith(
        f"{option}: cannot be written (Permission denied)"
    )


@pytest.mark.parametrize("there", [False, True])
def test_other_commands_find_it_first_too(read_only: Path, there: bool) -> None:
    model(read_only / "m.onnx")
    if there:
        (read_only / "m.tw").touch()
    file = str(read_only / "m.tw")
    shutil.copy(read_only / "m.onnx", "n.tw")  # no compiled network, which is found out later
    told = "--output: cannot be written (Permission denied)"
    words = ("compile", str(read_only / "m.onnx"), "--random-calibration", "1")
    assert error_of(*words).startswith(told)
    assert error_of("run", "n.tw", "--random", "--output", file).startswith(told)
    assert error_of("export-table", "C10", "--output", f"{file}.csv.gz").startswith(told)


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [("net", ("--ray", "nowhere:1"), "no Ray cluster answers"), ("n" * 200, (), "at most 200 byt")],
)
def test_what_cannot_be_tuned_makes_no_store(
    home: Path, name: str, more: tuple[str, ...], told: str
) -> None:
    """Also where the study's name follows from that of the network."""
    layer = {"name": "a", "height": 1, "width": 1, "channels_in": 8, "channels_out": 8}
    layer |= {"kernel_h": 1, "kernel_w": 1}
    (home / "net.yaml").write_text(json.dumps({"name": name, "layers": [layer]}))
    words = ("tune", "net.yaml", "--hw", "tiny-4x4", "--fidelity", "twin", "--screen", "none")
    assert told in error_of(*words, "--budget", "1", "--store", "new/s.sqlite", *more)
    assert not (home / "new").exists()


def test_the_address_of_an_agent_is_named_as_the_field_of_its_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tilewright.cli.run import CommandOptions, open_board_device  # noqa: PLC0415  (loads little)

    path = "tilewright.host.runtime.agent.authentication.read_token"
    monkeypatch.setattr(path, lambda _: b"token")
    anything: Any = None
    with pytest.raises(Exception, match=r"^agent: must look like HOST:PORT"):
        open_board_device(
            anything, anything, CommandOptions("net", agent="nohost", token_file=Path("token"))
        )


def test_the_nearest_name_of_an_operator_is_suggested(home: Path) -> None:
    """Only kinds were compared."""
    model(home / "m.onnx")
    words = ("compile", "m.onnx", "--random-calibration", "1", "--explain")
    assert "did you mean first_conv? kinds: Conv" in error_of(*words, "first_cnv")
    assert "did you mean Conv? kinds: Conv" in error_of(*words, "Cnv")
