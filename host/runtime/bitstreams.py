# SPDX-License-Identifier: Apache-2.0
"""A folder of bitstreams, and a device that loads whichever of them is asked for.

Beside ``NAME.bit`` lies ``NAME.manifest.json``: an object with ``hwconfig`` (name and parameters),
``config_hash`` (eight hexadecimal digits), ``clock_mhz``, ``bitstream`` (the file's name) and
``sha256`` of it. More keys may follow.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes, Device, RunResult

SUFFIX: Final = ".manifest.json"
_MOST_BYTES: Final = 1 << 20
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Bitstream:
    """A bitstream and what it is for.

    Attributes:
        hw: the configuration in it.
        clock_mhz: clock that it reached.
        file: the bitstream.
        sha256: of the file, in hexadecimal.
    """

    hw: HwConfig
    clock_mhz: float
    file: Path
    sha256: str

    @property
    def config_hash(self) -> str:
        """Of the configuration, as the store writes it."""
        return f"{self.hw.config_hash:08x}"

    def check_file(self) -> None:
        """Refuse a file that is not the one that the manifest is about.

        Raises:
            ConfigError: it cannot be read, or has another SHA-256.
        """
        digest = file_digest(self.file)
        if digest != self.sha256:
            raise ConfigError(
                "the bitstream must have the SHA-256 of its manifest",
                field=str(self.file),
                value=digest,
                remedy="copy bitstream and manifest of one build",
            )


def file_digest(path: Path) -> str:
    """SHA-256 of a bitstream, in hexadecimal.

    Raises:
        ConfigError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise ConfigError(
            f"the bitstream cannot be read ({error.strerror})", field=str(path)
        ) from error
    return digest.hexdigest()


def read_bitstreams(folder: Path) -> dict[str, Bitstream]:
    """The bitstreams of a folder by configuration hash; their files are not read.

    Raises:
        ConfigError: there is none, a manifest cannot be used, or two are of one configuration.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except OSError as error:
        raise ConfigError(
            f"must be a folder of bitstreams ({error.strerror})", field=str(folder)
        ) from error
    found: dict[str, Bitstream] = {}
    for path in paths:
        bitstream = _read_manifest(path)
        if bitstream.config_hash in found:
            raise ConfigError(
                "two bitstreams of one configuration",
                field=str(path),
                value=bitstream.config_hash,
                remedy="keep the manifest of one of them",
            )
        found[bitstream.config_hash] = bitstream
    if not found:
        raise ConfigError(
            f"holds no manifest (*{SUFFIX})", field=str(folder), remedy="tilewright bitstream"
        )
    return found


def _read_manifest(path: Path) -> Bitstream:
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError("a manifest must be readable JSON", field=str(path)) from error
    values = data if isinstance(data, dict) else {}
    hwconfig, clock, name = (values.get(key) for key in ("hwconfig", "clock_mhz", "bitstream"))
    if not isinstance(hwconfig, dict):
        raise ConfigError("must be a mapping of parameters", field=f"{path}: hwconfig")
    hw = HwConfig.from_mapping(hwconfig, origin=f"{path}: hwconfig")
    if values.get("config_hash") != f"{hw.config_hash:08x}":
        raise ConfigError(
            f"must be {hw.config_hash:08x}, the hash of hwconfig",
            field=f"{path}: config_hash",
            value=values.get("config_hash"),
            remedy="build the bitstream with this release",
        )
    if isinstance(clock, bool) or not isinstance(clock, int | float) or not 1 <= clock <= 2000:
        raise ConfigError("must be from 1 to 2000 MHz", field=f"{path}: clock_mhz", value=clock)
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ConfigError(
            "must be the name of a file beside it", field=f"{path}: bitstream", value=name
        )
    digest = values.get("sha256")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ConfigError("must be 64 hexadecimal digits", field=f"{path}: sha256", value=digest)
    return Bitstream(hw=hw, clock_mhz=float(clock), file=path.parent / name, sha256=digest)


class ReconfigurableDevice:
    """A `Device` that holds one of several bitstreams at a time.

    Args:
        bitstreams: by configuration hash (`read_bitstreams`).
        start: configuration hash of the one to begin with.
        open_device: loads a bitstream and opens its accelerator.

    Raises:
        ConfigError: a file is not the one of its manifest.
        Exception: what ``open_device`` raises.
    """

    def __init__(
        self,
        bitstreams: Mapping[str, Bitstream],
        start: str,
        open_device: Callable[[Bitstream], Device],
    ) -> None:
        for bitstream in bitstreams.values():
            bitstream.check_file()
        self._bitstreams: Final = dict(bitstreams)
        self._open: Final = open_device
        self._device: Device | None = None
        self.configure(start)

    @property
    def hw(self) -> HwConfig:
        """The configuration that is loaded."""
        return self._loaded().hw

    @property
    def bitstreams(self) -> dict[str, str]:
        """Configuration hashes to the SHA-256 of what can be loaded."""
        return {key: bitstream.sha256 for key, bitstream in self._bitstreams.items()}

    def configure(self, config_hash: str) -> float:
        """Load the bitstream of a configuration; the seconds that it took.

        Raises:
            ConfigError: there is none.
            Exception: what ``open_device`` raised; then the device holds nothing.
        """
        if config_hash not in self._bitstreams:
            raise ConfigError(
                "the agent has no bitstream of that configuration",
                field="configuration",
                value=config_hash,
                remedy="copy it, with its manifest, into the agent's folder and start it again",
            )
        started = time.monotonic()
        self.close()
        self._device = self._open(self._bitstreams[config_hash])
        return time.monotonic() - started

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """See `Device.run`."""
        return self._loaded().run(program, memory, max_cycles=max_cycles)

    def give_up(self) -> None:
        """End the run that is under way, where the device can."""
        end: Any = getattr(self._device, "give_up", None)
        if end is not None:
            end()

    def close(self) -> None:
        """Release the device. Idempotent."""
        device, self._device = self._device, None
        if device is not None:
            device.close()

    def _loaded(self) -> Device:
        if self._device is None:
            raise DeviceError(
                "no bitstream is loaded",
                field="device",
                remedy="the one before could not be: the agent's log has the reason",
            )
        return self._device
