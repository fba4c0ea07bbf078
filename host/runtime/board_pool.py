# SPDX-License-Identifier: Apache-2.0
"""The boards that a study measures on, from a file that lists their agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.plain_values import is_number, refuse_unknown
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.runtime.agent.address import same_agent, split_address
from tilewright.host.runtime.agent.authentication import read_client, read_token
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.limits import MAX_WAIT_SECONDS

DEFAULT_WAIT_SECONDS: Final = 60.0
"""How long a study waits for a board that another client has."""

_KEYS: Final = ("name", "client", "agent", "token_file", "plain", "wait_seconds")
_NAME_CHARACTERS: Final = 60


@dataclass(frozen=True, kw_only=True)
class BoardAddress:
    """How to reach one board."""

    name: str  # label in messages and reports
    agent: str  # ``HOST:PORT`` of its agent
    token_file: Path  # the secret that it shares with its clients, or its file for clients
    plain: bool = False  # its agent does without TLS; for agents of this machine alone
    wait_seconds: float = DEFAULT_WAIT_SECONDS  # how long to wait while another client has it

    def connect(self) -> RemoteDevice:
        """Lease the board."""
        return RemoteDevice(
            self.agent,
            read_token(self.token_file),
            wait_seconds=self.wait_seconds,
            plain=self.plain,
        )


def load_board_pool(path: Path) -> tuple[BoardAddress, ...]:
    """Read a pool: a YAML file whose ``boards`` lists agents.

    Each entry has ``name`` and either ``client`` (the file that ``agent init`` wrote for clients)
    or ``agent`` (HOST:PORT) and ``token_file``; and may have ``plain`` and ``wait_seconds``. Files
    are relative to the pool's.
    """
    data = read_yaml_mapping(path, "a pool of boards")
    refuse_unknown(data, ["boards"], where=str(path))
    entries = data.get("boards")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(
            "must be a list of at least one board",
            field=f"{path}: boards",
            remedy="give each name and client, or name, agent and token_file",
        )
    found: list[BoardAddress] = []
    for number, entry in enumerate(entries, start=1):
        board = _entry(entry, f"{path}: board {number}", path.parent)
        for other in found:
            for what, same in (
                ("name", board.name == other.name),
                ("agent", same_agent(board.agent, other.agent)),
            ):
                if same:
                    raise ConfigError(
                        "must be another one for each board",
                        field=f"{path}: board {number}: {what}",
                        value=getattr(board, what),
                    )
        found.append(board)
    return tuple(found)


def _entry(entry: Any, origin: str, folder: Path) -> BoardAddress:
    if not isinstance(entry, Mapping):
        raise ConfigError(
            "must be a mapping", field=origin, value=entry, remedy="give name and client"
        )
    refuse_unknown(entry, _KEYS, where=origin)
    texts = {}
    has_client = "client" in entry
    for key in ("name", "client") if has_client else ("name", "agent", "token_file"):
        value = entry.get(key)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise ConfigError("must be printable text", field=f"{origin}: {key}", value=value)
        texts[key] = value
    if len(texts["name"]) > _NAME_CHARACTERS:
        raise ConfigError(
            f"must have at most {_NAME_CHARACTERS} characters", field=f"{origin}: name"
        )
    if has_client:
        if "agent" in entry or "token_file" in entry:
            raise ConfigError(
                "the client's file has address and token",
                field=f"{origin}: client",
                remedy="leave out agent and token_file, or client",
            )
        texts["token_file"] = texts["client"]
        texts["agent"] = read_client(folder / texts["client"]).agent
    split_address(texts["agent"], field=f"{origin}: agent")
    plain, wait = entry.get("plain", False), entry.get("wait_seconds", DEFAULT_WAIT_SECONDS)
    if not isinstance(plain, bool):
        raise ConfigError("must be true or false", field=f"{origin}: plain", value=plain)
    if not is_number(wait, 0, MAX_WAIT_SECONDS):
        raise ConfigError(
            f"must be 0 to {MAX_WAIT_SECONDS:.0f} seconds",
            field=f"{origin}: wait_seconds",
            value=wait,
        )
    return BoardAddress(
        name=texts["name"],
        agent=texts["agent"],
        token_file=folder / texts["token_file"],
        plain=plain,
        wait_seconds=float(wait),
    )
