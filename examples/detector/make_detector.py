# SPDX-License-Identifier: Apache-2.0
"""Makes `examples/detector/`: the trained digit detector and scenes that it had not seen.

cd examples && python -m detector.make_detector

Data: as `make_digits`; scenes for tests are made of digits that training never saw. Seed 0 trains,
seed 1 draws the scenes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from detector.digit_detector import SIZE, DigitDetector, Scene, draw_scene, train
from networks.digits import load_digits
from networks.make_digits import without_traces
from PIL import Image

FOLDER = Path(__file__).resolve().parent
SCENES = 6
JUDGED = 200


def write_model(path: Path, network: DigitDetector) -> None:
    """Export with the properties that Ultralytics writes: the task, and names of the classes."""
    program = torch.onnx.export(
        network.eval(),
        (torch.zeros(1, 3, SIZE, SIZE),),
        input_names=["images"],
        output_names=["output0"],
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    assert program is not None  # it is, with dynamo
    model = without_traces(program.model_proto)
    properties = {"task": "detect", "names": str({n: str(n) for n in range(10)})}
    onnx.helper.set_model_props(model, properties)
    onnx.save(model, path)


def scenes(count: int, rows: int, columns: int, most: int) -> list[Scene]:
    """Scenes of test digits."""
    digits = load_digits()
    rng = np.random.default_rng(1)
    return [
        draw_scene(
            rng, digits.test_images, digits.test_labels, rows=rows, columns=columns, most=most
        )
        for _ in range(count)
    ]


def found_share(network: DigitDetector, judged: list[Scene]) -> float:
    """The share of digits whose best cell has the right class and overlaps by half."""
    right = total = 0
    for scene in judged:
        x = torch.from_numpy(scene.pixels).permute(2, 0, 1)[None] / 255
        with torch.no_grad():
            found = network(x)[0].numpy()
        corners = np.concatenate((found[:2] - found[2:4] / 2, found[:2] + found[2:4] / 2)).T
        scores, classes = found[4:].max(0), found[4:].argmax(0)
        for box, label in zip(scene.boxes, scene.classes, strict=True):
            overlap = _overlaps(corners, box)
            best = np.argmax(np.where(overlap > 0.5, scores, 0))
            right += bool(overlap[best] > 0.5 and scores[best] > 0.25 and classes[best] == label)
            total += 1
    return right / total


def _overlaps(corners: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes (n, 4) with one."""
    low, high = np.maximum(corners[:, :2], box[:2]), np.minimum(corners[:, 2:], box[2:])
    inside = np.clip(high - low, 0, None).prod(1)
    sizes = (corners[:, 2:] - corners[:, :2]).prod(1), (box[2:] - box[:2]).prod()
    return inside / (sizes[0] + sizes[1] - inside)


def main() -> None:
    """Write everything and print how many digits are found."""
    (FOLDER / "images").mkdir(parents=True, exist_ok=True)
    network = train()
    write_model(FOLDER / "detector.onnx", network)
    for number, scene in enumerate(scenes(SCENES, 120, 192, 8)):
        Image.fromarray(scene.pixels).save(FOLDER / "images" / f"{number}.jpg", quality=90)
    share = found_share(network, scenes(JUDGED, SIZE, SIZE, 6))
    print(f"{100 * share:.1f} % of the digits in {JUDGED} scenes found")


if __name__ == "__main__":
    main()
