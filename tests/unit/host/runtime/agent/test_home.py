# SPDX-License-Identifier: Apache-2.0
"""Where an agent lives: its home, its address and its limits."""

import socket
import threading

import pytest
from support.boards.agents import SlowDevice

from tilewright.host.common.errors import ConfigError
from tilewright.host.runtime.agent.__main__ import main
from tilewright.host.runtime.agent.address import resolve
from tilewright.host.runtime.agent.authentication import client_file, read_client, read_token
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.home import make_home
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.options import AgentOptions
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.host.runtime.agent.serving import open_belongings
from tilewright.host.runtime.board_pool import load_board_pool

NAMES = ("client", "identity.pem", "token")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_makes_what_only_the_owner_may_read_and_tells_no_secret(tmp_path):
    home = make_home(tmp_path / "a" / "home", address="pynq:7425")
    assert sorted(path.name for path in home.made) == sorted(NAMES)
    assert home.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in home.made} == {0o600}
    token = read_token(home.folder / "token")
    assert read_client(home.folder / "client").agent == home.agent == "pynq:7425"
    assert read_token(home.folder / "client") == token, "it stands for a token file"
    text = "\n".join(home.lines())
    assert token.decode() not in text + repr(read_client(home.folder / "client"))
    assert "made" in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["other content", "readable"])
def test_what_cannot_be_used_is_refused_and_left_alone(tmp_path, name, change):
    make_home(tmp_path / "home", address="")
    path = tmp_path / "home" / name
    if change == "readable":
        path.chmod(0o644)
    else:
        path.write_bytes(b"something else\n")
    before = contents(tmp_path / "home")
    with pytest.raises(ConfigError):
        make_home(tmp_path / "home", address="")
    assert contents(tmp_path / "home") == before


def test_another_address_is_refused_and_left_alone(tmp_path):
    make_home(tmp_path / "home", address="pynq:7425")
    before = contents(tmp_path / "home")
    with pytest.raises(ConfigError, match=r"client: must have the agent's token and address"):
        make_home(tmp_path / "home", address="other:7425")
    (tmp_path / "home" / "token").unlink()
    with pytest.raises(ConfigError, match="the token file is gone"):
        make_home(tmp_path / "home", address="")
    del before["token"]
    assert contents(tmp_path / "home") == before
    with pytest.raises(ConfigError, match="must look like HOST:PORT"):
        make_home(tmp_path / "new", address="pynq")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    (tmp_path / "home").mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="only its owner may enter"):
        make_home(tmp_path / "home", address="")


def test_a_pool_names_the_clients_file_and_reaches_the_agent(tmp_path):
    make_home(tmp_path / "home", address="")
    own = open_belongings(tmp_path / "home", None, None, plain=False)
    assert str(own.token) not in repr(own)
    server = AgentServer(
        SlowDevice(), listen="127.0.0.1:0", token=own.token, identity=own.identity,
        journal=own.journal,
    )  # fmt: skip
    threading.Thread(target=server.serve, daemon=True).start()
    client = tmp_path / "desk"
    client.touch(mode=0o600)
    client.write_bytes(client_file(server.address, own.token))
    pool = tmp_path / "pool.yaml"
    pool.write_text("boards:\n  - {name: desk, client: desk}\n")
    (desk,) = load_board_pool(pool)
    assert (desk.agent, desk.token_file) == (server.address, client)
    device = desk.connect()
    assert isinstance(device, RemoteDevice)
    device.close()
    pool.write_text("boards:\n  - {name: desk, client: desk, agent: 'a:1'}\n")
    with pytest.raises(ConfigError, match=r"board 1: client: the client's file has address"):
        load_board_pool(pool)
    server.stop()


def test_an_agent_needs_a_token_or_a_home():
    with pytest.raises(ConfigError, match=r"--home and --token-file.*agent init"):
        open_belongings(None, None, None, plain=False)


# -- Names of this machine lead to where an agent listens
SIX = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 7425, 0, 0))
FOUR = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 7425))
FAR = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 7425, 0, 0))


@pytest.mark.parametrize(
    ("found", "chosen"),
    [([SIX, FOUR], FOUR), ([FOUR, SIX], FOUR), ([SIX], SIX), ([FAR, FOUR], FAR)],
)
def test_localhost_is_the_address_of_the_agent_whatever_comes_first(monkeypatch, found, chosen):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert resolve("name:7425", field="agent") == (chosen[0], chosen[4])


# -- Limits are numbers that every part of an agent can keep


@pytest.mark.parametrize("name", ["run_seconds", "lease_seconds"])
def test_the_longest_time_is_one_that_sockets_wait(name: str) -> None:
    """Ten billion seconds were taken, and then no session could begin."""
    with pytest.raises(ConfigError, match=name):
        Limits(**{name: 1e10})
    longest = getattr(Limits(**{name: 1e9}), name)
    with socket.socket() as connection:
        connection.settimeout(longest + 30)


@pytest.mark.parametrize(
    ("option", "value", "most"),
    [("max_seconds", 1e10, "1,073,741,824"), ("max_program_mib", 2**20, "1,048,576")],
)
def test_an_option_is_named_as_it_was_written_with_what_it_must_be_below(
    option: str, value: float, most: str
) -> None:
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(ConfigError, match=f"{flag}.*below {most}"):
        AgentOptions(**{option: value}).limits()
    assert AgentOptions().limits() == Limits()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--bitstream a.bit", "required: --hw"),
        ("--hw tiny-4x4", "give one of --bitstream and --bitstreams"),
        ("--hw tiny-4x4 --bitstream a.bit --bitstreams b", "give one of --bitstream"),
        ("--hw tiny-4x4 --bitstream a.bit --log xml", "invalid choice: 'xml'"),
    ],
)
def test_the_agent_of_a_board_refuses_what_it_cannot_serve(words: str, told: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
