# SPDX-License-Identifier: Apache-2.0
"""Copies a bundle to a board with the system's ssh and scp; a part of a copy never replaces one.

The archive arrives under another name, is held to its SHA-256, is unpacked beside, and then takes
its place in one rename of a link.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError, DeviceError, ToolError
from tilewright.host.deploy.board_run import BITSTREAMS, bitstream_key
from tilewright.host.machine.bitstream import BitstreamManifest

_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*|[A-Za-z0-9_][\w.-]*@\[[0-9a-fA-F:]+\]")
_FOLDER: Final = re.compile(r"/[A-Za-z0-9_./-]*")
_OPTIONS: Final = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=20")
_SECONDS: Final = 600

_INSTALL: Final = """\
set -eu
cd {folder}
trap 'rm -rf {part} {fresh}' EXIT
[ ! -e {name} ] || [ -L {name} ] || {{ echo '{name} is no bundle: move it away' >&2; exit 1; }}
echo '{digest}  {part}' | sha256sum -c --status || {{ echo 'the copy is damaged' >&2; exit 1; }}
rm -rf {fresh}
mkdir {fresh}
python3 -m zipfile -e {part} {fresh}
rm -rf {place}.old
if [ -e {place} ]; then mv {place} {place}.old; fi
mv {fresh} {place}
rm -rf {place}.old
ln -sfn {place} .{name}.link
mv -T .{name}.link {name}
"""

_INSTALL_BITSTREAM: Final = """\
set -eu
cd {folder}/{bitstreams}
{checks}
rm -rf {key}
mv {part} {key}
"""


def check_destination(host: str, folder: str) -> None:
    """Refuse what a shell on the board might read as something else."""
    given = [("--host", host, _HOST)] if host else []
    for field, value, pattern in (*given, ("--to", folder, _FOLDER)):
        if not pattern.fullmatch(value) or "/.." in value:
            raise ConfigError(
                "must be plain letters, digits and . _ - @ /",
                field=field,
                value=value,
                remedy="give --host user@board, --to an absolute folder",
            )


def send(
    archive: bytes,
    name: str,
    host: str,
    folder: str,
    bitstream: BitstreamManifest | None = None,
) -> str:
    """Install a bundle on a board, and its bitstream beside it."""
    check_destination(host, folder)
    _ssh(host, f"mkdir -p {folder}/{BITSTREAMS}")
    if bitstream is not None:
        _send_bitstream(bitstream, host, folder)
    digest = hashlib.sha256(archive).hexdigest()
    part, place = f".{name}-{digest[:16]}.zip.part", f"{name}-{digest[:16]}"
    with tempfile.TemporaryDirectory() as local:
        path = Path(local) / "bundle.zip"
        path.write_bytes(archive)
        _copy([path], host, f"{folder}/{part}")
    _ssh(
        host,
        _INSTALL.format(
            folder=folder, part=part, place=place, name=name, digest=digest, fresh=f".{place}.new"
        ),
    )
    return f"{folder}/{name}"


def _send_bitstream(bitstream: BitstreamManifest, host: str, folder: str) -> None:
    digests = [digest for name, digest in bitstream.files.items() if name.endswith(".bit")]
    if not digests:
        raise ConfigError(
            "names no .bit file", field=str(bitstream.path), remedy="build the bitstream again"
        )
    key = bitstream_key(digests[0])
    part = f".{key}.part"
    _ssh(host, f"rm -rf {folder}/{BITSTREAMS}/{part}; mkdir {folder}/{BITSTREAMS}/{part}")
    files = [bitstream.path.parent / name for name in bitstream.files]
    _copy(files, host, f"{folder}/{BITSTREAMS}/{part}/")
    checks = "\n".join(
        f"echo {shlex.quote(f'{digest}  {part}/{name}')} | sha256sum -c --status"
        for name, digest in bitstream.files.items()
    )
    _ssh(
        host,
        _INSTALL_BITSTREAM.format(
            folder=folder, bitstreams=BITSTREAMS, checks=checks, key=key, part=part
        ),
    )


def _ssh(host: str, script: str) -> None:
    _call(["ssh", *_OPTIONS, "--", host, script], host)


def _copy(files: Sequence[Path], host: str, target: str) -> None:
    _call(["scp", "-q", *_OPTIONS, "--", *map(str, files), f"{host}:{target}"], host)


def _call(words: Sequence[str], host: str) -> None:
    if shutil.which(words[0]) is None:
        raise ToolError(
            f"needs the program {words[0]}", field="--host", remedy="install openssh-client"
        )
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"{words[0]} must end within {_SECONDS} seconds", field=host, remedy="check the network"
        ) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise DeviceError(
            f"{words[0]} failed ({lines[-1][:160] if lines else f'exit code {done.returncode}'})",
            field=host,
            remedy=f"see that 'ssh -o BatchMode=yes {host} true' works; what was there before is "
            "unchanged",
        )
