# SPDX-License-Identifier: Apache-2.0
"""Makes `examples/digits/`: the trained digits classifier and ten images that it had not seen.

cd examples && python -m networks.make_digits

Data: scikit-learn's `load_digits` (UCI "Optical Recognition of Handwritten Digits", CC BY 4.0).
Seed 0 divides the data and trains; the images are, of each digit, the first test image that the
network gets right.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from PIL import Image

from networks.digits import Digits, DigitsClassifier, accuracy, load_digits, train

FOLDER = Path(__file__).resolve().parents[1] / "digits"


def write_model(path: Path, network: DigitsClassifier, digits: Digits) -> None:
    """Export without traces of this machine."""
    example = torch.from_numpy(digits.test_images[:1])
    program = torch.onnx.export(
        network.eval(), (example,), dynamo=True, external_data=False, verbose=False
    )
    assert program is not None  # it is, with dynamo
    onnx.save(without_traces(program.model_proto), path)


def without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without what its exporter tells of this machine, in place."""
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in model.graph.value_info:
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    return model


def write_images(folder: Path, network: DigitsClassifier, digits: Digits) -> None:
    """One test image a digit, 8x8 grey, as `0.png` to `9.png`."""
    with torch.no_grad():
        found = network(torch.from_numpy(digits.test_images)).argmax(1).numpy()
    for digit in range(10):
        first = int(np.flatnonzero((digits.test_labels == digit) & (found == digit))[0])
        pixels = np.rint(digits.test_images[first, 0] * 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{digit}.png", optimize=True)


def main() -> None:
    """Write everything and print the accuracy."""
    (FOLDER / "images").mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    network = train(digits)
    write_model(FOLDER / "digits.onnx", network, digits)
    write_images(FOLDER / "images", network, digits)
    print(f"{100 * accuracy(network, digits):.2f} % of {len(digits.test_labels)} test images right")


if __name__ == "__main__":
    main()
