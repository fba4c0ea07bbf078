# SPDX-License-Identifier: Apache-2.0
"""A network as a YAML file of layers: for a user who has shapes and no model.

::

    layers:
      - {name: first, height: 32, width: 32, channels_in: 3, channels_out: 16, kernel_h: 3, kernel_w: 3}
      - {name: head, height: 1, width: 1, channels_in: 16, channels_out: 10, count: 2}

The keys of a layer are the fields of `Workload`.
"""  # noqa: E501  (a layer is a line)

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.host.common.errors import WorkloadError, errors_in
from tilewright.host.common.plain_values import refuse_unknown
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.network.layout import behind_a_layer
from tilewright.host.network.network_table import NetworkTable, collect, merged_names
from tilewright.host.network.workload import Workload


def load_layer_table(path: Path) -> NetworkTable:
    """The network of a YAML file; layers that compute the same thing are merged."""
    data = read_yaml_mapping(path, "a layer table")
    refuse_unknown(data, ("name", "layers"), where=str(path), error=WorkloadError)
    layers = data.get("layers")
    if not isinstance(layers, list) or not layers:
        raise WorkloadError(
            "must be a list of layers",
            field=f"{path}: layers",
            remedy="write 'layers:' and below it one mapping of fields per layer",
        )
    workloads = [_layer(path, number, layer) for number, layer in enumerate(layers, start=1)]
    workloads = [behind_a_layer(each) if each.chained else each for each in workloads]
    with errors_in(str(path)):
        return NetworkTable(
            name=str(data.get("name", path.stem)),
            workloads=collect(workloads),
            same=merged_names(workloads),
        )


def _layer(path: Path, number: int, layer: Any) -> Workload:
    place = f"{path}: layer {number}"
    if not isinstance(layer, Mapping):
        raise WorkloadError(
            "must be a mapping of a layer's fields",
            field=place,
            value=layer,
            remedy="write each layer as 'field: value' pairs",
        )
    values = {"name": f"L{number}", **layer}
    if not isinstance(values["name"], str):
        raise WorkloadError(
            "must be text", field=f"{place}: name", value=values["name"], remedy="quote the name"
        )
    with errors_in(place):
        return Workload.from_mapping(values)
