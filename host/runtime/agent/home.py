# SPDX-License-Identifier: Apache-2.0
"""The folder of an agent: its token, its key and certificate, its journal, and a file for clients.

The client's file has the agent's address and the token. Copied to a client, it is what a pool of
boards names, and what stands for a token file everywhere.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.runtime.agent.address import split_address
from tilewright.host.runtime.agent.authentication import client_file, read_client, read_token
from tilewright.host.runtime.agent.options import DEFAULT_ADDRESS
from tilewright.host.runtime.agent.private_file import make_private_folder, write_private
from tilewright.host.runtime.agent.tls import load_identity, make_identity_pem

JOURNAL: Final = "journal"

_TOKEN_BYTES: Final = 32


def token_file(home: Path) -> Path:
    """Where a home has the token."""
    return home / "token"


def identity_file(home: Path) -> Path:
    """Where a home has the private key and the certificate."""
    return home / "identity.pem"


def file_for_clients(home: Path) -> Path:
    """Where a home has the file for clients."""
    return home / "client"


@dataclass(frozen=True, kw_only=True)
class Home:
    """What an agent's folder has."""

    folder: Path  # where it is
    agent: str  # address at which clients reach the agent
    certificate: str  # SHA-256 of the certificate, in hexadecimal
    made: tuple[Path, ...]  # files that were not there before

    def lines(self) -> list[str]:
        """What there is, and what comes next, for people; no secret."""
        files = [
            (token_file(self.folder), "shared secret"),
            (identity_file(self.folder), f"private key; certificate {self.certificate[:16]}..."),
            (file_for_clients(self.folder), f"for clients: token and address {self.agent}"),
        ]
        lines = [
            f"{'made' if path in self.made else 'kept'} {path}: {what}" for path, what in files
        ]
        lines.append(f"here: start the agent with --home {self.folder}")
        lines.append(
            f"on a client: copy {file_for_clients(self.folder)} there (scp -p), and name it in a "
            "pool (client: FILE) or as --token-file"
        )
        return lines


def make_home(folder: Path, *, address: str) -> Home:
    """Make what an agent's folder lacks; what is there is checked and stays as it is."""
    if address:
        split_address(address, field="address")
    make_private_folder(folder, what="an agent")
    token_path, identity_path = token_file(folder), identity_file(folder)
    client_path = file_for_clients(folder)
    made = []
    if not token_path.exists():
        if client_path.exists():
            raise ConfigError(
                "has a token already, but the token file is gone",
                field=str(client_path),
                remedy="copy its token into a file 'token', or remove it and run this again",
            )
        write_private(token_path, f"{secrets.token_hex(_TOKEN_BYTES)}\n".encode())
        made.append(token_path)
    token = read_token(token_path)
    if not identity_path.exists():
        write_private(identity_path, make_identity_pem())
        made.append(identity_path)
    identity = load_identity(identity_path)
    if not client_path.exists():
        write_private(client_path, client_file(address or DEFAULT_ADDRESS, token))
        made.append(client_path)
    client = read_client(client_path)
    if client.token != token or address not in ("", client.agent):
        raise ConfigError(
            "must have the agent's token and address",
            field=str(client_path),
            value=client.agent,
            remedy="remove it and run this again",
        )
    return Home(
        folder=folder, agent=client.agent, certificate=identity.digest.hex(), made=tuple(made)
    )
