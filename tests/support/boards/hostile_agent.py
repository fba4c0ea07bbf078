# SPDX-License-Identifier: Apache-2.0
"""An agent as a process, for clients that misbehave: short deadlines, small limits, a journal."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.boards.agents import TOKEN
from support.boards.hostile import Impatient

from tilewright.host.runtime.agent import authentication, channel, server
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.serving import Belongings, serve_device
from tilewright.host.runtime.agent.tls import make_identity

channel._PIECE_SECONDS = 0.3
channel._FAREWELL_SECONDS = 0.1
authentication._REFUSAL_PAUSE = 0.0
server.HANDSHAKE_SECONDS = 2.0
Impatient.seconds = 0.01
serve_device(
    Impatient(),
    listen="127.0.0.1:0",
    belongings=Belongings(
        token=TOKEN, identity=make_identity(), journal=Journal(Path(sys.argv[1]) / "journal")
    ),
    limits=Limits(connections=16, lease_seconds=0.5, memory_bytes=1 << 20, program_bytes=1 << 20),
    log="json",
)
