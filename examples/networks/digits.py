# SPDX-License-Identifier: Apache-2.0
"""A classifier of LeNet's size for the 8x8 digits of scikit-learn, and its training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class DigitsClassifier(nn.Module):
    """Two convolutions and two dense layers, (N, 1, 8, 8) in 0..1 -> (N, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Class logits."""
        return self.layers(x)


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits:
    """The data: images (N, 1, 8, 8) float32 in 0..1 and labels, divided for training and test."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits(seed: int = 0, test_share: float = 0.25) -> Digits:
    """The digits in a random order."""
    from sklearn import datasets  # noqa: PLC0415  (slow to load)

    data = datasets.load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(seed).permutation(len(images))
    cut = round(len(images) * (1 - test_share))
    train, test = order[:cut], order[cut:]
    return Digits(
        train_images=images[train],
        train_labels=data.target[train],
        test_images=images[test],
        test_labels=data.target[test],
    )


def train(digits: Digits, epochs: int = 8, seed: int = 0) -> DigitsClassifier:
    """A trained classifier; a few seconds on one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # layers this small only wait for each other
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return _trained(DigitsClassifier(), digits, epochs).eval()
    finally:
        torch.set_num_threads(threads)


def _trained(network: DigitsClassifier, digits: Digits, epochs: int) -> DigitsClassifier:
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    images, labels = map(torch.from_numpy, (digits.train_images, digits.train_labels))
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(64):
            loss = functional.cross_entropy(network(images[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


def accuracy(network: nn.Module, digits: Digits) -> float:
    """The share of test images that a network classifies right."""
    with torch.no_grad():
        found = network(torch.from_numpy(digits.test_images)).argmax(1).numpy()
    return float((found == digits.test_labels).mean())
