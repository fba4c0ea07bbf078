# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415  (the package is optional)
"""TLS 1.3 between an agent and its clients, with a certificate that nobody has to trust.

The certificate signs itself, and no client checks who made it: `authentication` has both sides
include its digest in what they compute from the token (as in RFC 5929, ``tls-server-end-point``).
Somebody between them has another certificate, so that neither side accepts the other's proof.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError, DeviceError, ToolError
from tilewright.host.common.scratch import scratch_folder
from tilewright.host.runtime.agent.private_file import read_private

HANDSHAKE_RECORD: Final = b"\x16"
"""First byte of what a TLS client sends."""

_MAX_FILE_BYTES: Final = 1 << 16
_DAYS: Final = 3650
_OPENSSL_SECONDS: Final = 60.0
_CONFIG: Final = "[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = tilewright agent\n"
_MAKE: Final = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
    f"-days {_DAYS} -subj /CN=agent -keyout FILE -out certificate; cat certificate >> FILE"
)
_REMEDY: Final = f"make one with: tilewright agent init FOLDER, or: umask 077; {_MAKE}"


class TlsError(DeviceError):
    """The other side speaks no TLS 1.3; the connection cannot go on."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What an agent shows to its clients."""

    context: ssl.SSLContext  # of its connections
    digest: bytes  # SHA-256 of its certificate


def load_identity(path: Path) -> Identity:
    """The identity in a PEM file with a private key and its certificate."""
    data = read_private(path, what="a private key", most_bytes=_MAX_FILE_BYTES, remedy=_REMEDY)
    wrong = ConfigError(
        "must hold a private key without password and its certificate, in PEM",
        field=str(path),
        remedy=_REMEDY,
    )
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # nobody resumes; and a client hears nothing that it did not ask for
    try:
        text = data.decode("ascii")
        begin, end = text.index("-----BEGIN CERT"), text.index("-----END CERT")
        certificate = ssl.PEM_cert_to_DER_cert(text[begin:end] + "-----END CERTIFICATE-----\n")
        context.load_cert_chain(path, password="")  # an empty one: OpenSSL would ask the terminal
    except (OSError, ValueError) as error:
        raise wrong from error
    return Identity(context=context, digest=hashlib.sha256(certificate).digest())


def make_identity() -> Identity:
    """A new identity, whose key is in no file afterwards."""
    with scratch_folder() as folder:  # mode 0700
        return load_identity(_made(folder))


def make_identity_pem() -> bytes:
    """A new private key and its certificate, as `load_identity` reads them from a file."""
    with scratch_folder() as folder:
        return _made(folder).read_bytes()


def _made(folder: Path) -> Path:
    """A PEM file with a new key and its certificate."""
    try:
        return _made_by_package(folder)
    except ModuleNotFoundError:  # a board's system may have the program alone
        return _made_by_program(folder)


def _made_by_package(folder: Path) -> Path:
    """A PEM file with a new key and its certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tilewright agent")])
    now = datetime.now().astimezone()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = folder / "identity"
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )
    return path


def _made_by_program(folder: Path) -> Path:
    """As `_made_by_package`, without a package."""
    config, key, certificate = folder / "config", folder / "key", folder / "certificate"
    config.write_text(_CONFIG, encoding="ascii")
    try:
        subprocess.run(
            [
                "openssl", "req", "-x509", "-config", str(config), "-newkey", "ec",
                "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(_DAYS),
                "-keyout", str(key), "-out", str(certificate),
            ],
            check=True, capture_output=True, timeout=_OPENSSL_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(
            "a certificate is made by the package cryptography or the program openssl, "
            "and neither works here",
            field="agent",
            remedy="pip install 'tilewright[agent]', give --certificate FILE, or serve this "
            "machine with --plain",
        ) from error
    key.chmod(0o600)
    with key.open("ab") as file:
        file.write(certificate.read_bytes())
    return key


def accept(connection: socket.socket, identity: Identity) -> ssl.SSLSocket:
    """The agent's side of TLS; `handshake` comes next."""
    return identity.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


def connect(connection: socket.socket) -> ssl.SSLSocket:
    """The client's side of TLS; `handshake` comes next."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the token's proofs hold for one certificate alone
    return context.wrap_socket(connection, do_handshake_on_connect=False)


def handshake(connection: ssl.SSLSocket, *, seconds: float | None) -> None:
    """Agree on keys."""
    connection.settimeout(seconds)
    try:
        connection.do_handshake()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        raise ConnectionResetError("the other side closed the connection") from error
    except ssl.SSLError as error:
        reason = (error.reason or "no reason given").lower().replace("_", " ")
        raise TlsError(
            f"the other side must speak TLS 1.3 ({reason})",
            field="agent",
            remedy="check the address; give --plain to both sides or to neither",
        ) from error


def digest_of_peer(connection: ssl.SSLSocket) -> bytes:
    """SHA-256 of the certificate that the agent showed."""
    certificate = connection.getpeercert(binary_form=True)
    if not certificate:
        raise TlsError("the agent must show a certificate", field="agent")
    return hashlib.sha256(certificate).digest()


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
