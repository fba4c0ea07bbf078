# SPDX-License-Identifier: Apache-2.0
"""Addresses of agents: ``HOST:PORT`` in and out, and which of them other machines reach."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from tilewright.host.common.errors import ConfigError


def split_address(address: str, *, field: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[HOST]:PORT`` for IPv6; the host is not looked up."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and _is_port(port)):
        raise ConfigError("must look like HOST:PORT", field=field, value=address)
    return host, int(port)


def resolve(address: str, *, field: str) -> tuple[socket.AddressFamily, Any]:
    """Family and socket address of ``HOST:PORT``; ``[HOST]:PORT`` for IPv6.

    Of a name for this machine (``localhost``) it is the address of IPv4 if there is one, whatever
    the system puts first: the agent listens at 127.0.0.1 unless told otherwise.
    """
    host, port = split_address(address, field=field)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError("no such host", field=field, value=address) from error
    chosen = found[0]
    if chosen[4][0] == "::1":
        chosen = next((each for each in found if each[0] == socket.AF_INET), chosen)
    return chosen[0], chosen[4]


def same_agent(one: str, other: str) -> bool:
    """Whether two addresses are of one agent, as far as their text and this machine tell.

    Names are compared as they are, but ``localhost`` is 127.0.0.1: nothing is looked up.
    """

    def plain(address: str) -> tuple[str, int]:
        host, port = split_address(address, field="agent")
        try:
            host = str(ipaddress.ip_address(host))
        except ValueError:
            host = host.lower().rstrip(".")
        return "127.0.0.1" if host in {"localhost", "::1"} else host, port

    return plain(one) == plain(other)


def check_plain(address: Any, *, field: str, value: str) -> None:
    """Refuse a socket address that other machines reach, for traffic without TLS."""
    if not ipaddress.ip_address(address[0]).is_loopback:
        raise ConfigError(
            "without TLS must be an address of this machine alone",
            field=field,
            value=value,
            remedy="leave out --plain, or use 127.0.0.1 with an SSH tunnel",
        )


def home_of(address: Any) -> str:
    """What one machine can come from at least: an address of IPv4, 2**64 of them of IPv6."""
    host = ipaddress.ip_address(address[0].partition("%")[0])
    mapped = host.ipv4_mapped if isinstance(host, ipaddress.IPv6Address) else None
    if isinstance(host, ipaddress.IPv6Address) and mapped is None:
        return str(ipaddress.ip_network((host, 64), strict=False))
    return str(mapped or host)


def name_of(address: Any) -> str:
    """``HOST:PORT`` of a socket address."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 2**16
