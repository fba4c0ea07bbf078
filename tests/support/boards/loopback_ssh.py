# SPDX-License-Identifier: Apache-2.0
"""This machine as the board at the other end of ``ssh`` and ``scp``.

Where Debian's ``openssh-server`` is installed, `start_sshd` runs a server of its own on the
loopback address. Elsewhere `write_stand_ins` puts programs in the place of ssh and scp that run and
copy here.
"""

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" = {host} ] || {{ echo 'unknown host' >&2; exit 255; }}
exec sh -c "$3"
"""
_SCP = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
for last; do :; done
target="${{last#{host}:}}"
while [ $# -gt 1 ]; do
  if [ -n "$CUT" ]; then head -c 1000 "$1" > "$target"; else cp "$1" "$target"; fi
  shift
done
"""
_SSHD = """ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/pid
PasswordAuthentication no
StrictModes no
UsePAM no
Subsystem sftp internal-sftp
"""
_CLIENT = """Host {alias}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking accept-new
  LogLevel ERROR
"""
_START_SECONDS = 10


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_stand_ins(programs: Path, host: str) -> None:
    """Put programs ``ssh`` and ``scp`` into a folder to which ``host`` is this machine."""
    _write(programs / "ssh", _SSH.format(host=host))
    _write(programs / "scp", _SCP.format(host=host))
    _write(programs / "python3", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')


def start_sshd(folder: Path, programs: Path, alias: str) -> tuple[subprocess.Popen[str], str] | str:
    """An SSH server of this user with keys in ``folder``, and ``user@alias``; or why there is none.

    It has a session of its own; ``programs`` gets the ``ssh`` and ``scp`` that know it by alias.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    sshd = shutil.which("sshd", path=path)
    if sshd is None:
        return "no sshd is installed (Debian: apt install openssh-server)"
    folder.mkdir(mode=0o700)
    for key in ("host_key", "user_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(words, check=True)
    user, port = getpass.getuser(), free_port()
    values = {"folder": folder, "port": port, "user": user, "alias": alias}
    (folder / "sshd_config").write_text(_SSHD.format(**values))
    (folder / "config").write_text(_CLIENT.format(**values))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
            continue
        for name in ("ssh", "scp"):
            real = shlex.quote(shutil.which(name) or name)
            config = shlex.quote(str(folder / "config"))
            _write(programs / name, f'#!/bin/sh\nexec {real} -F {config} "$@"\n')
        return process, f"{user}@{alias}"
    process.kill()
    process.wait()
    last = (folder / "log").read_text().strip().splitlines()[-1:]
    return f"sshd did not start ({last[0] if last else 'it says nothing'})"


def _write(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)
