# SPDX-License-Identifier: Apache-2.0
"""`tilewright agent`: a home made by `init`, and agents that `status` asks."""

import json

import pytest
from support.boards.agents import serving
from support.boards.simulated import write_pool, write_token
from support.command_line import call, refusal

pytestmark = pytest.mark.usefixtures("told_members")


def test_init_makes_a_home_and_says_what_comes_next(tmp_path):
    home = str(tmp_path / "home")
    done = call("agent", "init", home, "--address", "pynq:7425")
    assert done.exit_code == 0, done.output
    assert f"made {home}/token" in done.stdout
    assert "pynq:7425" in done.stdout
    assert f"--home {home}" in done.stdout
    assert (tmp_path / "home" / "token").read_text().strip() not in done.output
    again = call("agent", "init", home)
    assert again.exit_code == 0
    assert "made" not in again.stdout
    other = refusal("agent", "init", home, "--address", "other:1")
    assert "client: must have the agent's token and address" in other


def test_status_asks_every_agent_and_one_that_is_gone_is_an_exit_code(tmp_path):
    token = str(write_token(tmp_path))
    with serving(board="pynq-z2") as one, serving() as other:
        done = call("agent", "status", one, other, "--token-file", token, "--plain")
        assert done.exit_code == 0, done.output
        assert done.stdout.count("free") == 2
        assert "pynq-z2" in done.stdout
        pool = str(write_pool(tmp_path, desk=one, lab=other))
    with serving(listen=one):
        done = call("agent", "status", "--boards", pool, "--json", "-")
        assert done.exit_code == 1
        assert "lab: no answer" in done.stderr
        desk, lab = json.loads(done.stdout)["rows"]
    assert (desk["agent"], desk["answers"], desk["leased"], desk["trials"]) == (
        "desk", True, False, 0,
    )  # fmt: skip
    assert (lab["agent"], lab["answers"]) == ("lab", False)


def test_wrong_arguments_are_one_line(tmp_path):
    for words, message in (
        (("agent", "status"), "give agents, or --boards alone"),
        (("agent", "status", "--boards", "p", "--plain"), "--plain: goes without --boards"),
        (("agent", "status", "a:1"), "--token-file: must be given with HOST:PORT"),
        (("agent", "serv"), "no such command"),
        (("agent", "init", str(tmp_path / "h"), "--address", "x"), "--address: must look like"),
        (("agent", "--device", "reference"), "give one of --home and --token-file"),
    ):
        assert message in refusal(*words)
