# SPDX-License-Identifier: Apache-2.0
"""A folder of bitstreams, and a device that loads whichever of them is asked for.

The folder holds what `tilewright bitstream` builds, flat or a folder each: a bitstream, its
``.hwh`` file and its manifest (`host.machine.bitstream`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.bitstream import MARK, BitstreamManifest, bitstream_manifest
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes, Device, RunResult

SUFFIX: Final = ".bit"
_CHUNK: Final = 1 << 20


def file_digest(path: Path) -> str:
    """SHA-256 of a bitstream, in hexadecimal."""
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


def read_bitstreams(folder: Path) -> dict[str, BitstreamManifest]:
    """The manifests of a folder and its folders by configuration hash; bitstreams are not read."""
    if not folder.is_dir():
        raise ConfigError("must be a folder of bitstreams", field=str(folder))
    found: dict[str, BitstreamManifest] = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*/*.yaml")]):
        data = read_yaml_mapping(path, "a bitstream's manifest")
        if MARK not in data:
            continue
        manifest = bitstream_manifest(data, path)
        bit_file(manifest)
        key = f"{manifest.hw.config_hash:08x}"
        if key in found:
            raise ConfigError(
                "two bitstreams of one configuration",
                field=str(path),
                value=key,
                remedy="keep one of them",
            )
        found[key] = manifest
    if not found:
        raise ConfigError(
            "holds no manifest of a bitstream",
            field=str(folder),
            remedy="build one there with `tilewright bitstream`",
        )
    return found


def bit_file(manifest: BitstreamManifest) -> tuple[Path, str]:
    """The bitstream of a manifest, and its SHA-256."""
    names = [name for name in manifest.files if name.endswith(SUFFIX) and Path(name).name == name]
    if len(names) != 1:
        raise ConfigError(
            f"must name one {SUFFIX} file beside it",
            field=f"{manifest.path}: files",
            value=", ".join(manifest.files),
        )
    return manifest.path.parent / names[0], manifest.files[names[0]]


class ReconfigurableDevice:
    """A `Device` that holds one of several bitstreams at a time."""

    def __init__(
        self,
        bitstreams: Mapping[str, BitstreamManifest],
        start: str,
        open_device: Callable[[BitstreamManifest], Device],
    ) -> None:
        for bitstream in bitstreams.values():
            bitstream.check_files()
        self._bitstreams: Final = dict(bitstreams)
        self._open: Final = open_device
        self._device: Device | None = None
        self._loaded_last = start
        self.configure(start)

    @property
    def hw(self) -> HwConfig:
        """The configuration that is loaded, or was last: it has an answer while one is loaded."""
        return self._bitstreams[self._loaded_last].hw

    @property
    def bitstreams(self) -> dict[str, str]:
        """Configuration hashes to the SHA-256 of what can be loaded."""
        return {key: bit_file(manifest)[1] for key, manifest in self._bitstreams.items()}

    def configure(self, config_hash: str) -> float:
        """Load the bitstream of a configuration; the seconds that it took."""
        if config_hash not in self._bitstreams:
            raise ConfigError(
                "the agent has no bitstream of that configuration",
                field="configuration",
                value=config_hash,
                remedy="copy it, with its manifest, into the agent's folder and start it again",
            )
        started = time.monotonic()
        before = "" if self._device is None else self._loaded_last
        self.close()
        try:
            self._device = self._open(self._bitstreams[config_hash])
        except Exception:
            if before:
                with suppress(Exception):  # the first reason is the one to tell
                    self._device = self._open(self._bitstreams[before])
            raise
        self._loaded_last = config_hash
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
