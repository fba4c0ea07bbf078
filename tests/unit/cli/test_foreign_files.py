# SPDX-License-Identifier: Apache-2.0
"""What no command made is neither replaced nor removed, whatever place a command is given."""

import inspect
import random
import shutil
from pathlib import Path

import pytest
from support.command_line import call, commands, refusal
from support.randomness import fresh_rng
from typer.main import get_command

from tilewright.cli.certify import certify, exhaust
from tilewright.cli.commands import app
from tilewright.cli.common.application import ORDER
from tilewright.cli.common.json_output import JsonTarget
from tilewright.cli.report import export_table
from tilewright.cli.run import run_command
from tilewright.cli.sim import sim
from tilewright.cli.tune import tune
from tilewright.host.common.places import RTL_DIR
from tilewright.host.common.whole_file import MARK

WRITTEN = {
    *("--json", "--output", "--html", "--trace", "--waves", "--optuna"),
    *("--annotated", "--runs", "--folder", "--home", "--cache", "--draw", "--csv", "--plot"),
}
"""Options that name what a command writes."""
READ = {
    *("--hw", "--rtl", "--labels", "--input", "--images", "--calibration"),
    *("--bitstream", "--bitstreams", "--key", "--token", "--recorded", "--schedule"),
    *("--secret", "--tls-key", "--certificate", "--token-file", "--maestro", "--zigzag"),
    *("--tflite", "--to", "--from", "--evaluate", "--fix", "--tables", "--page"),
}
WORDS = {
    "bitstream": [["bitstream", "tiny-4x4", "--dry-run", "--output", "TREE", "--board", board]
                  for board in ("pynq-z2", "ulx3s", "openxc7-z7020")],
    "map": [["map", "vta-resnet18:C10", "--method", "random", "--budget", "8", "--output", "TREE"]],
    "export-table": [["export-table", "C11", "--folder", "TREE", "--output", "FILE.csv.gz"]],
    "listings": [["tuners", "--json", "FILE"], ["configs", "--json", "FILE"],
                 ["boards", "--json", "FILE"], ["networks", "--json", "FILE"]],
    "sim": [["sim", "C10", "--hw", "no-such", "--waves", "FILE"],
            ["sim", "C10", "--hw", "tiny-4x4", "--trace", "FILE"]],
    "report": [["report", "--runs", "TREE", "--output", "FILE"]],
    "export": [["export", "s", "--runs", "TREE", "--optuna", "FILE"],
               ["export", "s", "--runs", "TREE", "--csv", "FILE"]],
    "agent": [["agent", "init", "--home", "TREE"]],
    "verify": [["verify", "mutate", "--output", "TREE", "--module", "no-such-module"]],
    "pages": [["bench", "tuners-page", "FILE", "--output", "FILE"]],
}  # fmt: skip


def plant(folder: Path, rng: random.Random) -> dict[Path, bytes]:
    """Files of a user's in the places that commands write to, and elsewhere."""
    names = ["notes.txt", "rtl/tw_core.sv", "rtl/mine/deep.v", "tilewright.v", "build.tcl",
             "build.sh", "settings.tcl", "work/x", "reports/y", "tilewright.bit", "rtl.v",
             "work-1/z", "run.json", "results.jsonl", "C10.yaml", "C10.timeloop.yaml",
             "C10.zigzag.yaml", "token", "trials.sqlite", "s.html", "s.yaml", "cache/t",
             "tilewright.yaml", "report.json", "journal/j.part"]  # fmt: skip
    chosen = rng.sample(names, rng.randint(1, len(names)))
    for name in chosen:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.choice([b"mine", b"{}", b"rows: [1]\n", rng.randbytes(9000)]))
    return contents(folder)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kept(before: dict[Path, bytes]) -> bool:
    return all(path.is_file() and path.read_bytes() == data for path, data in before.items())


@pytest.mark.parametrize("kind", WORDS)
def test_foreign_files_outlive_every_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(int(fresh_rng().integers(2**31)))
    for number, words in enumerate(WORDS[kind]):
        tree = tmp_path / str(number) / "tree"
        tree.mkdir(parents=True)
        for name in ("mine", "mine.csv.gz"):
            (tree.parent / name).write_bytes(b"precious")
        before = {**plant(tree, rng), **contents(tree.parent)}
        names = {"TREE": str(tree), "FILE": str(tree.parent / "mine"),
                 "FILE.csv.gz": str(tree.parent / "mine.csv.gz")}  # fmt: skip
        done = call(*(names.get(word, word) for word in words))
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        assert kept(before), (words, done.output)


def test_every_command_refuses_a_foreign_file_for_its_json(tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text('{"rows": [1]}', encoding="utf-8")
    for words, command in commands():
        if not any("--json" in each.opts for each in command.params):
            continue
        needed = [
            each for each in command.params if each.required and each.param_type_name == "argument"
        ]
        refusal(*words.split(), "--json", str(mine), *("x" for _ in needed))
        assert mine.read_text(encoding="utf-8") == '{"rows": [1]}', words


def test_every_option_with_a_place_is_known_to_these_tests():
    """A new output needs a line in WORDS, unless its writer is one that `write_whole` guards."""
    kinds = {"FILE", "FOLDER", "PAGE"}
    found = {
        option
        for _, command in commands()
        for each in command.params
        if each.metavar in kinds and each.param_type_name == "option"
        for option in each.opts
        if option.startswith("--")
    }
    assert found <= WRITTEN | READ, found - WRITTEN - READ


def test_a_second_run_replaces_what_the_first_one_made_and_nothing_else(tmp_path):
    folder = tmp_path / "f"
    words = ["bitstream", "tiny-4x4", "--dry-run", "--output", str(folder)]
    assert call(*words).exit_code == 0
    (folder / "rtl" / "tw_core.sv").write_text("cut", encoding="utf-8")
    (folder / "rtl" / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / "vivado.log").write_text("mine", encoding="utf-8")
    assert call(*words).exit_code == 0
    assert (folder / "rtl" / "tw_core.sv").read_text() == next(
        RTL_DIR.rglob("tw_core.sv")
    ).read_text()
    assert (folder / "rtl" / "notes.txt").read_text() == "mine"
    assert (folder / "vivado.log").read_text() == "mine"
    # A board with other files: what the first run made goes, and build.sh is free.
    open_words = ["bitstream", "tiny-4x4", "--dry-run", "--board", "ulx3s", "--output", str(folder)]
    (folder / "build.sh").write_text("mine", encoding="utf-8")
    refused = call(*open_words)
    assert refused.exit_code == 2
    assert "must be free" in refused.output
    assert (folder / "build.tcl").is_file()
    (folder / "build.sh").unlink()
    assert call(*open_words).exit_code == 0
    assert not (folder / "build.tcl").exists()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    folder, elsewhere = tmp_path / "f", tmp_path / "elsewhere"
    words = ["bitstream", "tiny-4x4", "--dry-run", "--output", str(folder)]
    assert call(*words).exit_code == 0
    shutil.copytree(folder / "rtl", elsewhere)
    shutil.rmtree(folder / "rtl")
    (folder / "rtl").symlink_to(elsewhere)
    before = contents(elsewhere)
    refusal(*words)
    assert contents(elsewhere) == before


@pytest.mark.parametrize("name", ["rtl", "mine.txt"])
def test_the_folder_of_a_clone_is_refused_in_one_line(name, tmp_path):
    (tmp_path / name).mkdir()
    done = refusal("bitstream", "tiny-4x4", "--dry-run", "--output", str(tmp_path))
    assert "--output: must be a new or empty folder" in done


# -- what commands do with a user's files and memories unless they are told otherwise -------------

MINE = f"<!-- {MARK} -->\nan earlier page"


@pytest.mark.parametrize("command", [certify, exhaust, export_table, run_command, sim, tune])
def test_the_memory_is_that_of_the_board_unless_another_is_asked_for(command):
    assert inspect.signature(command).parameters["memory"].default == "board"


@pytest.mark.parametrize(
    ("words", "replaced"),
    [
        (["tuners", "--json", "FILE"], True),
        (["certify", "no-such-network", "--json", "FILE"], False),
        (["report", "--runs", "FOLDER", "--output", "FILE"], False),
        (["compile", "FILE", "--hw", "no-such-hw", "--output", "FILE"], False),
        (["bench", "tuners-page", "none.json", "--output", "page.md", "--html", "FILE"], False),
    ],
)
def test_a_file_is_said_to_be_replaced_once_it_is_and_never_before(tmp_path, words, replaced):
    file = tmp_path / "mine.html"
    file.write_text(MINE, encoding="utf-8")
    names = {"FILE": str(file), "FOLDER": str(tmp_path)}
    done = call(*(names.get(word, word) for word in words))
    assert (done.exit_code == 0) == replaced, done.output
    assert (file.read_text(encoding="utf-8") == MINE) != replaced
    assert (f"{file}: replaced the file that was there" in done.stderr) == replaced


def test_the_json_file_of_a_run_that_goes_on_is_not_said_to_be_replaced(tmp_path, capsys):
    path = tmp_path / "rows.json"
    for replaces, reads in ((True, False), (True, True), (False, False)):
        target = JsonTarget(str(path), replaces=replaces)
        path.write_text(f'{{"generator": "{MARK}", "rows": []}}', encoding="utf-8")
        if reads:
            target.read()
        target.write([], {})
        target.write([], {})  # a benchmark keeps its rows after each step
        assert capsys.readouterr().err.count("replaced") == (replaces and not reads)


def test_a_device_holds_no_rows_of_an_earlier_run():
    """``/dev/full`` and ``/dev/zero`` can be read for ever."""
    assert JsonTarget("/dev/null").read() is None


def test_every_command_has_its_place_in_the_help_and_tune_comes_before_report():
    assert len(set(ORDER)) == len(ORDER)
    assert set(get_command(app).commands) == set(ORDER)
    assert ORDER.index("tune") < ORDER.index("report") < ORDER.index("export")
