# SPDX-License-Identifier: Apache-2.0
"""Files that others meet first: citation, issue forms, workflow, container, change log."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from support.command_line import call

import tilewright

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_is_of_this_version_and_licence() -> None:
    cited = yaml.safe_load(read("CITATION.cff"))
    assert cited["version"] == tilewright.__version__
    assert cited["license"] == PROJECT["license"]
    assert re.search(rf"^## {re.escape(tilewright.__version__)}\b", read("CHANGELOG.md"), re.M)


def test_the_workflow_runs_the_two_commands_of_the_readme() -> None:
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))
    runs = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    section = read("README.md").split("## Two commands")[1].split("## ")[0]
    commands = re.findall(r"^\$ (make \w+)$", section, re.M)
    assert len(commands) == 2
    for command in commands:
        assert any(shlex.split(run)[:2] == command.split() for run in runs), command
    supported = {c.split()[-1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert set(matrix) <= supported


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
                         ids=lambda path: path.stem)  # fmt: skip
def test_an_issue_form_asks_for_what_there_is(form) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem == "config":
        assert set(content) == {"blank_issues_enabled"}
        return
    fields = [part for part in content["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields)
    text = form.read_text(encoding="utf-8")
    for words in re.findall(r"tilewright ((?:[a-z]+ )*)--json", text):
        assert call(*words.split(), "--help").exit_code == 0, words


def test_the_command_that_a_report_asks_for_gives_a_document() -> None:
    assert json.loads(call("doctor", "--json", "-").stdout)["rows"]


def test_the_container_installs_what_is_locked_and_what_exists() -> None:
    text = read("Dockerfile").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    steps = [line.split(None, 1) for line in lines]
    assert {step for step, _ in steps} <= {
        "FROM", "RUN", "ARG", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    version = re.search(r"FROM python:(3\.\d+)-", text)
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]
    pins = [pin for extra in PROJECT["optional-dependencies"].values() for pin in extra]
    assert set(re.findall(r"torch==[\d.]+", text)) <= set(pins)
    extras = re.search(r'"/src\[([\w,]+)\]"', text)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    assert json.loads(dict(steps)["ENTRYPOINT"]) == list(PROJECT["scripts"])
    named = re.search(r"You need Linux, git, (.*) and Python", read("README.md"))
    assert named is not None
    needed = set(re.split(r", | and ", named[1])) - {"git"}
    assert needed <= set(re.split(r"\s+", text))
