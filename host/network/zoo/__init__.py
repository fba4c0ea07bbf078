# SPDX-License-Identifier: Apache-2.0
"""Built-in layer tables: one module for each family of networks, one registry.

The tables of image networks describe inference on one 224 x 224 RGB image (`n` = 1), classifier
included, in the variant that torchvision ships; Transformers take one sequence of 128 tokens,
recommenders one request. Each module names the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tilewright.host.common.errors import WorkloadError
from tilewright.host.common.names import choices
from tilewright.host.network.layout import behind_a_layer
from tilewright.host.network.network_table import NetworkTable, collect
from tilewright.host.network.zoo import convolutional, recommendation, transformer, vta

__all__ = ["NetworkTable", "collect", "load_network", "network_names"]

_BUILDERS: Final[Mapping[str, Callable[[], NetworkTable]]] = {
    "alexnet": convolutional.alexnet,
    "bert_base": transformer.bert_base,
    "bert_tiny": transformer.bert_tiny,
    "dlrm": recommendation.dlrm,
    "googlenet": convolutional.googlenet,
    "gpt2": transformer.gpt2,
    "mobilenet_v2": convolutional.mobilenet_v2,
    "ncf": recommendation.ncf,
    "resnet18": convolutional.resnet18,
    "resnet34": convolutional.resnet34,
    "squeezenet1_0": convolutional.squeezenet1_0,
    "squeezenet1_1": convolutional.squeezenet1_1,
    "transformer_encoder": transformer.transformer_encoder,
    "vgg11": convolutional.vgg11,
    "vgg13": convolutional.vgg13,
    "vgg16": convolutional.vgg16,
    "vgg19": convolutional.vgg19,
    "vta-resnet18": vta.vta_resnet18,
    "wide_and_deep": recommendation.wide_and_deep,
}

_ALIASES: Final[Mapping[str, str]] = {
    "bert": "bert_base",
    "neumf": "ncf",
    "squeezenet": "squeezenet1_1",
    "transformer": "transformer_encoder",
}


def _plain(name: str) -> str:
    """A name without case and punctuation: ``ResNet-18`` and ``resnet18`` are the same."""
    return "".join(c for c in name.lower() if c.isalnum())


def _chained(table: NetworkTable) -> NetworkTable:
    """A table of layers of which only the first one has its input from the host."""
    first, *rest = table.workloads
    return replace(table, workloads=(first, *map(behind_a_layer, rest)))


def network_names() -> tuple[str, ...]:
    """Names of the built-in networks."""
    return tuple(_BUILDERS)


def load_network(name: str) -> NetworkTable:
    """The layer table of a built-in network; case and punctuation of the name do not matter.

    Raises:
        WorkloadError: no network of that name.
    """
    wanted = _plain(name)
    for known in (*_BUILDERS, *_ALIASES):
        if _plain(known) == wanted:
            return _chained(_BUILDERS[_ALIASES.get(known, known)]())
    raise WorkloadError(
        "no built-in network of that name",
        field="network",
        value=name,
        remedy=f"{choices(name, network_names())}, or the path of an ONNX or YAML file",
    )
