# SPDX-License-Identifier: Apache-2.0
"""A pool of boards: each wrong field is one error that names it."""

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.runtime.board_pool import load_board_pool

GOOD = """
boards:
  - name: desk
    agent: 127.0.0.1:7425
    token_file: token
    plain: true
  - {name: lab, agent: "[::1]:7426", token_file: /etc/token, wait_seconds: 5}
"""


def test_a_pool_names_boards_their_agents_and_tokens(tmp_path):
    path = tmp_path / "pool.yaml"
    path.write_text(GOOD)
    desk, lab = load_board_pool(path)
    assert (desk.name, desk.agent, desk.plain, desk.wait_seconds) == (
        "desk", "127.0.0.1:7425", True, 60.0,
    )  # fmt: skip
    assert desk.token_file == tmp_path / "token", "beside the pool's file"
    assert str(lab.token_file) == "/etc/token"
    assert (lab.plain, lab.wait_seconds) == (False, 5.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("boards:", "board:", r"pool.yaml: board: unknown key.*boards"),
        (GOOD, "boards: []", r"pool.yaml: boards: must be a list of at least one board"),
        (GOOD, "boards: [desk]", r"board 1: must be a mapping, not 'desk'"),
        ("name: desk", "nam: desk", r"board 1: nam: unknown key.*name"),
        ("name: desk", "name: 7", r"board 1: name: must be printable text, not 7"),
        ("name: desk", "name: lab", r"board 2: name: must be another one for each board"),
        ("[::1]:7426", "LOCALHOST:7425", r"board 2: agent: must be another one"),
        ("[::1]:7426", "127.0.0.1:7425", r"board 2: agent: must be another one"),
        ("127.0.0.1:7425", "127.0.0.1", r"board 1: agent: must look like HOST:PORT"),
        ("127.0.0.1:7425", "desk:99999", r"board 1: agent: must look like HOST:PORT"),
        ("token_file: token", "token_file:", r"board 1: token_file: must be printable text"),
        ("plain: true", "plain: 1", r"board 1: plain: must be true or false, not 1"),
        ("wait_seconds: 5", "wait_seconds: -1", r"board 2: wait_seconds: must be 0 to"),
        ("wait_seconds: 5", "wait_seconds: .nan", r"board 2: wait_seconds: must be 0 to"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, old, new, message):
    path = tmp_path / "pool.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        load_board_pool(path)
