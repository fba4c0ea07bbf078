# SPDX-License-Identifier: Apache-2.0
"""Names of this machine lead to where an agent listens."""

import socket

import pytest

from tilewright.host.runtime.agent.address import resolve

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
