# SPDX-License-Identifier: Apache-2.0
"""`BitstreamManifest`: what a bitstream is, as the build in Vivado wrote it down.

It lies beside the bitstream and has its name (``tilewright.bit``, ``tilewright.yaml``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import check_name
from tilewright.host.common.plain_values import is_number
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.hwconfig import HwConfig

FORMAT: Final = 1
REACHED: Final = "reached by"
"""How the source of a clock begins that a bitstream runs at."""
MARK: Final = "bitstream"
"""Key of the format's version: a mapping that has it is a manifest."""

_KEYS: Final = (
    MARK, "board", "part", "config_hash", "hw", "clock_mhz", "timing", "utilisation", "strategy",
    "preset", "vivado", "files",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BitstreamManifest:
    """A bitstream that met timing."""

    path: Path  # of the manifest
    board: str  # name of the board that it was built for
    part: str  # FPGA part
    hw: HwConfig  # configuration
    clock_mhz: float  # clock that the processing system gives it
    setup_slack_ns: float  # of the worst path at that clock
    limit_mhz: float  # clock at which that path would just pass
    utilisation: Mapping[str, float]  # what it takes of lut, ff, bram36 and dsp
    strategy: str  # directive of the implementation
    vivado: str  # version
    files: Mapping[str, str]  # SHA-256 of the files beside the manifest

    @property
    def source(self) -> str:
        """Where the clock comes from, for a board's sources."""
        return (
            f"{REACHED} {self.path.name} (Vivado {self.vivado}, {self.strategy}, configuration "
            f"{self.hw.name}, {self.hw.config_hash:#010x})"
        )

    def check_files(self) -> None:
        """Refuse files that are not those of the build."""
        for name, digest in self.files.items():
            path = self.path.parent / name
            if not path.is_file():
                raise ConfigError(
                    "the manifest's file must lie beside it",
                    field=str(path),
                    remedy="copy the bitstream, its .hwh and its manifest together",
                )
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if found != digest:
                raise ConfigError(
                    f"must be the file of the manifest (SHA-256 {digest})",
                    field=str(path),
                    value=found,
                    remedy="copy the bitstream, its .hwh and its manifest together",
                )


_BIT: Final = ".bit"
_MANIFEST: Final = ".yaml"


def bit_file(path: Path) -> Path:
    """The bitstream that a path names: itself, or the one beside its manifest."""
    return path.with_suffix(_BIT) if path.suffix == _MANIFEST else path


def read_bitstream_manifest(path: Path) -> BitstreamManifest:
    """Read a manifest, which is named itself or lies beside its bitstream."""
    path = path.with_suffix(_MANIFEST) if path.suffix == _BIT else path
    return bitstream_manifest(read_yaml_mapping(path, "a bitstream's manifest"), path)


def bitstream_manifest(data: Mapping[str, Any], path: Path) -> BitstreamManifest:
    """The manifest that a parsed file holds (see `read_bitstream_manifest`)."""
    if data.get(MARK) != FORMAT:
        raise ConfigError(
            f"must be a manifest of format {FORMAT}",
            field=f"{path}: {MARK}",
            value=data.get(MARK),
            remedy="build the bitstream with this version",
        )
    missing = [key for key in _KEYS if key not in data]
    if missing:
        raise ConfigError("a key is missing", field=str(path), remedy=f"add {', '.join(missing)}")
    hw = HwConfig.from_mapping(_mapping(data, "hw", path), origin=f"{path}: hw")
    if data["config_hash"] != hw.config_hash:
        raise ConfigError(
            f"must be the hash of the configuration in the file, {hw.config_hash:#010x}",
            field=f"{path}: config_hash",
            value=data["config_hash"],
            remedy="build the bitstream with this version of Tilewright",
        )
    timing = _mapping(data, "timing", path)
    slack = _number(timing, "setup_slack_ns", path)
    if slack < 0:
        raise ConfigError(
            "a bitstream must meet timing", field=f"{path}: setup_slack_ns", value=slack
        )
    used = _mapping(data, "utilisation", path)
    files = {str(k): str(v) for k, v in _mapping(data, "files", path).items()}
    for name in ("part", "strategy", "vivado"):
        check_name(str(data[name]), f"{path}: {name}")
    for name in files:
        check_name(name, f"{path}: files")
    return BitstreamManifest(
        path=path,
        board=str(data["board"]),
        part=str(data["part"]),
        hw=hw,
        clock_mhz=_number(data, "clock_mhz", path),
        setup_slack_ns=slack,
        limit_mhz=_number(timing, "limit_mhz", path),
        utilisation={name: _number(used, name, path) for name in ("lut", "ff", "bram36", "dsp")},
        strategy=str(data["strategy"]),
        vivado=str(data["vivado"]),
        files=files,
    )


def _mapping(data: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = data[key]
    if not isinstance(value, dict):
        raise ConfigError("must be a mapping", field=f"{path}: {key}", value=value)
    return value


def _number(data: Mapping[str, Any], key: str, path: Path) -> float:
    value = data.get(key)
    if not is_number(value) or not math.isfinite(value):
        raise ConfigError("must be a number", field=f"{path}: {key}", value=value)
    return value
