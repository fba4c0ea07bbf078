# SPDX-License-Identifier: Apache-2.0
"""No name from a file steers the terminal: commands speak through `say`, an error or a console."""

import ast
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright import bench, cli
from tilewright.cli.commands import app
from tilewright.cli.common.application import say

EVIL = "evil\x1b]0;owned\x07\x1b[2J\r\u202e"

SPEAKER = Path("application.py")
"""The one module that may print."""


@pytest.mark.parametrize("package", [cli, bench])
def test_no_command_prints_past_the_sanitiser(package):
    root = Path(package.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path.relative_to(root) == SPEAKER and package is cli:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="typer"), attr="echo" | "secho"):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.Call(func=ast.Name(id="print")) if package is cli:
                    found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_what_is_said_keeps_its_lines_and_no_control_characters(capsys):
    say(f"a\n{EVIL}")
    said = capsys.readouterr().out
    assert said.count("\n") == 2
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name: "a\\e[2J"\n', ["synth", "FILE"]),
        ('"k\\e[2J": 1\n', ["sim", "C10", "--hw", "FILE"]),
        ('layers: [{kind: "\\e[2J"}]\n', ["map", "FILE"]),
        ('layers: [{name: "\\e[2J", "\\u202e": 1}]\n', ["sim", "L1", "--network", "FILE"]),
        ("name: !!\x1b[2J x\n", ["boards", "--json", "FILE"]),
    ],
)
def test_errors_about_a_file_hold_no_control_characters(tmp_path, text, words):
    path = tmp_path / f"{EVIL.replace('/', '')}.yaml"
    path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, [str(path) if word == "FILE" else word for word in words])
    assert done.exit_code == 2, done.output
    assert "\x1b" not in done.output
    assert all(line.isprintable() for line in done.output.split("\n"))
