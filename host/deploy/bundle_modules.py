# SPDX-License-Identifier: Apache-2.0
"""The modules of this package that a bundle carries: what `board_run` imports, and no more.

A test runs a bundle and compares what was imported with this list.
"""

from __future__ import annotations

from typing import Final

MODULES: Final = (
    "tilewright",
    "tilewright.host",
    "tilewright.host.common",
    "tilewright.host.common.errors",
    "tilewright.host.common.extras",
    "tilewright.host.common.names",
    "tilewright.host.common.places",
    "tilewright.host.common.plain_values",
    "tilewright.host.common.printable",
    "tilewright.host.common.record_keys",
    "tilewright.host.common.result_document",
    "tilewright.host.common.str_enum",
    "tilewright.host.common.whole_file",
    "tilewright.host.common.yaml_files",
    "tilewright.host.common.zip_archives",
    "tilewright.host.compiler",
    "tilewright.host.compiler.lower",
    "tilewright.host.compiler.lower.executable",
    "tilewright.host.compiler.lower.qgraph",
    "tilewright.host.compiler.lower.region_program",
    "tilewright.host.compiler.pack",
    "tilewright.host.compiler.pack.artefact",
    "tilewright.host.compiler.pack.artefact_rules",
    "tilewright.host.compiler.read",
    "tilewright.host.compiler.read.argument",
    "tilewright.host.compiler.read.calibration",
    "tilewright.host.compiler.run",
    "tilewright.host.compiler.run.host_arguments",
    "tilewright.host.compiler.run.host_times",
    "tilewright.host.compiler.run.network_runner",
    "tilewright.host.compiler.run.numpy_host",
    "tilewright.host.deploy",
    "tilewright.host.deploy.board_run",
    "tilewright.host.deploy.bundle",
    "tilewright.host.deploy.bundle_report",
    "tilewright.host.deploy.measure",
    "tilewright.host.machine",
    "tilewright.host.machine.hwconfig",
    "tilewright.host.machine.isa",
    "tilewright.host.machine.program",
    "tilewright.host.machine.registers",
    "tilewright.host.machine.status",
    "tilewright.host.network",
    "tilewright.host.network.layout",
    "tilewright.host.network.requant",
    "tilewright.host.network.schedule",
    "tilewright.host.network.workload",
    "tilewright.host.runtime",
    "tilewright.host.runtime.contiguous_buffers",
    "tilewright.host.runtime.device",
    "tilewright.host.runtime.driver",
    "tilewright.host.runtime.pynq_device",
)
