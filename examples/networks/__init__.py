# SPDX-License-Identifier: Apache-2.0
"""Compact PyTorch definitions of well-known networks, with random seeded weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from networks.alexnet import AlexNet
from networks.digits import DigitsClassifier
from networks.keyword import KeywordSpotter
from networks.mobilenet import MobileNetV2
from networks.network import Network
from networks.resnet import resnet18, resnet34
from networks.squeezenet import SqueezeNet
from networks.transformer import Encoder
from networks.vgg import VGG
from networks.zoo import ZOO

NETWORKS: dict[str, Network] = {
    "alexnet": Network(build=AlexNet, input_shape=(1, 3, 224, 224)),
    "digits": Network(build=DigitsClassifier, input_shape=(1, 1, 8, 8)),
    "keyword": Network(build=KeywordSpotter, input_shape=(1, 1, 49, 10)),
    "mobilenet-v2": Network(build=MobileNetV2, input_shape=(1, 3, 224, 224)),
    "resnet18": Network(build=resnet18, input_shape=(1, 3, 224, 224)),
    "resnet34": Network(build=resnet34, input_shape=(1, 3, 224, 224)),
    "squeezenet": Network(build=SqueezeNet, input_shape=(1, 3, 224, 224)),
    "transformer": Network(build=Encoder, input_shape=(1, 128, 128)),
    "vgg16": Network(build=VGG, input_shape=(1, 3, 224, 224)),
}


def build(name: str, seed: int = 0) -> nn.Module:
    """A network in inference mode, `with_random_weights`."""
    return with_random_weights((NETWORKS | ZOO)[name].build, seed)


def with_random_weights(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """What a function makes, in inference mode.

    Weights are random, but activations keep the size of their inputs (He initialisation), and
    batch normalisation has statistics as after training.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = make()
        for module in network.modules():
            if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.normal_(module.bias, std=0.05)
            elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.0)
                nn.init.normal_(module.bias, std=0.1)
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.8, 1.2)
    return network.eval()
