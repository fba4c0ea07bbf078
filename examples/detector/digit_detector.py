# SPDX-License-Identifier: Apache-2.0
"""A small detector with the head of YOLOv8, and its training on scenes of handwritten digits.

The head is decoded in the model, as Ultralytics exports it: (N, 4 + classes, cells), boxes as
centre, width and height in pixels of the input, scores as probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from networks.digits import load_digits
from networks.yolo import C2f, convolution
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

SIZE = 128
STRIDES = (8, 16)
BINS = 16
CLASSES = 10


class DigitDetector(nn.Module):
    """Two scales and a decoded head, (N, 3, 128, 128) in 0..1 -> (N, 14, 320)."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Sequential(
            convolution(3, 8, 3, 2),
            convolution(8, 16, 3, 2),
            C2f(16, 16, 1, True),
            convolution(16, 32, 3, 2),
            C2f(32, 32, 1, True),
        )
        self.late = nn.Sequential(convolution(32, 48, 3, 2), C2f(48, 48, 1, True))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.join = C2f(80, 32, 1, False)
        self.boxes = nn.ModuleList(self._branch(c, 32, 4 * BINS) for c in (32, 48))
        self.scores = nn.ModuleList(self._branch(c, 32, CLASSES) for c in (32, 48))
        for branch in self.scores:
            nn.init.constant_(branch[-1].bias, -4.0)  # most cells hold nothing
        self.register_buffer("bins", torch.arange(BINS).float().view(1, BINS, 1, 1))
        points, strides = _cells()
        self.register_buffer("points", points.T[None].contiguous())
        self.register_buffer("strides", strides[None, None])

    @staticmethod
    def _branch(channels: int, hidden: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(convolution(channels, hidden, 3), nn.Conv2d(hidden, outputs, 1))

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Bins (N, 64, cells) of the four sides, and class logits (N, classes, cells)."""
        early = self.early(x)
        late = self.late(early)
        scales = (self.join(torch.cat((self.up(late), early), 1)), late)
        boxes, scores = (
            torch.cat([branch(y).flatten(2) for branch, y in zip(branches, scales, strict=True)], 2)
            for branches in (self.boxes, self.scores)
        )
        return boxes, scores

    def sides(self, boxes: Tensor) -> Tensor:
        """Distances (N, 4, cells) from a cell's centre to the box, in strides."""
        spread = boxes.view(-1, 4, BINS, boxes.shape[-1]).transpose(1, 2).softmax(1)
        return (spread * self.bins).sum(1)

    def forward(self, x: Tensor) -> Tensor:
        """Boxes and scores of all cells."""
        boxes, scores = self.raw(x)
        before, after = self.sides(boxes).chunk(2, 1)
        first, last = self.points - before, self.points + after
        placed = torch.cat(((first + last) / 2, last - first), 1) * self.strides
        return torch.cat((placed, scores.sigmoid()), 1)


def _cells() -> tuple[Tensor, Tensor]:
    """Centres (cells, 2) in strides, and strides (cells,)."""
    points, strides = [], []
    for stride in STRIDES:
        side = torch.arange(SIZE // stride) + 0.5
        down, across = torch.meshgrid(side, side, indexing="ij")
        points.append(torch.stack((across, down), -1).view(-1, 2))
        strides.append(torch.full((side.numel() ** 2,), float(stride)))
    return torch.cat(points), torch.cat(strides)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """A picture and the digits in it."""

    pixels: np.ndarray  # (rows, columns, 3) uint8
    boxes: np.ndarray  # (digits, 4): left, top, right, bottom
    classes: np.ndarray  # (digits,)


def draw_scene(
    rng: np.random.Generator,
    images: np.ndarray,
    labels: np.ndarray,
    *,
    rows: int = SIZE,
    columns: int = SIZE,
    most: int = 6,
    sizes: tuple[int, int] = (14, 56),
) -> Scene:
    """Digits of random sizes and colours, apart from each other, on a shaded background."""
    across, down = np.meshgrid(np.linspace(0, 1, columns), np.linspace(0, 1, rows))
    corners = rng.uniform(40, 215, (4, 1, 1, 3))
    across, down = across[..., None], down[..., None]
    pixels = (corners[0] * (1 - across) + corners[1] * across) * (1 - down)
    pixels = pixels + (corners[2] * (1 - across) + corners[3] * across) * down
    pixels += rng.normal(0, rng.uniform(0, 8), pixels.shape)
    boxes: list[tuple[int, int, int, int]] = []
    classes: list[int] = []
    for _ in range(8 * most):
        if len(boxes) == most or (boxes and rng.random() < 0.08):
            break
        size = int(rng.integers(*sizes))
        left, top = int(rng.integers(0, columns - size)), int(rng.integers(0, rows - size))
        chosen = int(rng.integers(len(images)))
        large = Image.fromarray(np.uint8(images[chosen, 0] * 255)).resize((size, size), 2)
        ink = np.asarray(large, np.float32) / 255
        wide, high = np.flatnonzero(ink.max(0) > 0.3), np.flatnonzero(ink.max(1) > 0.3)
        box = (left + wide[0], top + high[0], left + wide[-1] + 1, top + high[-1] + 1)
        if any(_apart(box, each) < 0 for each in boxes):
            continue
        patch = pixels[top : top + size, left : left + size]
        colour = rng.uniform(0, 255, 3)
        while abs(colour.mean() - patch.mean()) < 60:
            colour = rng.uniform(0, 255, 3)
        patch += ink[..., None] * (colour - patch)
        boxes.append(box)
        classes.append(int(labels[chosen]))
    return Scene(
        pixels=np.uint8(np.clip(pixels, 0, 255)), boxes=np.array(boxes), classes=np.array(classes)
    )


def _apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Pixels between two boxes; below 0 if they overlap."""
    return max(one[0] - other[2], other[0] - one[2], one[1] - other[3], other[1] - one[3])


def _targets(scenes: list[Scene]) -> tuple[Tensor, Tensor]:
    """Boxes (N, cells, 4) in pixels, and classes (N, cells), -1 where a cell has none."""
    points, strides = _cells()
    centres = points * strides[:, None]
    boxes = torch.zeros(len(scenes), len(points), 4)
    classes = torch.full((len(scenes), len(points)), -1)
    for number, scene in enumerate(scenes):
        for box, label in zip(torch.from_numpy(scene.boxes).float(), scene.classes, strict=True):
            side = float((box[2:] - box[:2]).max())
            of_scale = strides == (STRIDES[0] if side < 32 else STRIDES[1])
            middle = (box[:2] + box[2:]) / 2
            near = (centres - middle).abs().amax(1) < 0.9 * strides
            chosen = of_scale & near
            boxes[number, chosen], classes[number, chosen] = box, int(label)
    return boxes, classes


def _loss(network: DigitDetector, x: Tensor, boxes: Tensor, classes: Tensor) -> Tensor:
    """Of overlap and bins where a cell has a digit, and of classes everywhere."""
    bins, scores = network.raw(x)
    has = classes >= 0
    wanted = functional.one_hot(classes.clamp(min=0), CLASSES).float() * has[..., None]
    of_classes = functional.binary_cross_entropy_with_logits(
        scores.transpose(1, 2), wanted, reduction="sum"
    )
    points, strides = network.points[0].T, network.strides[0, 0, :, None]
    known = boxes / strides
    sides = torch.cat((points - known[..., :2], known[..., 2:] - points), -1).clamp(0, BINS - 1.01)
    found = network.sides(bins).transpose(1, 2)
    least = torch.minimum(found, sides)
    inside = (least[..., :2] + least[..., 2:]).prod(-1)
    areas = [(s[..., :2] + s[..., 2:]).prod(-1) for s in (found, sides)]
    overlap = inside / (sum(areas) - inside + 1e-6)
    lower = sides.floor().long()
    logs = bins.view(len(x), 4, BINS, -1).permute(0, 3, 1, 2).log_softmax(-1)
    share = sides - lower
    of_bins = -(
        logs.gather(-1, lower[..., None])[..., 0] * (1 - share)
        + logs.gather(-1, lower[..., None] + 1)[..., 0] * share
    ).mean(-1)
    of_boxes = (5 * (1 - overlap) + of_bins)[has].sum()
    return (of_classes + of_boxes) / has.sum().clamp(min=1)


def train(steps: int = 2400, batch: int = 16, seed: int = 0) -> DigitDetector:
    """A trained detector; some minutes on one core."""
    digits = load_digits()
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    network = DigitDetector().train()
    optimiser = torch.optim.AdamW(network.parameters(), 4e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for step in range(steps):
        scenes = [draw_scene(rng, digits.train_images, digits.train_labels) for _ in range(batch)]
        x = torch.from_numpy(np.stack([s.pixels for s in scenes])).permute(0, 3, 1, 2) / 255
        loss = _loss(network, x, *_targets(scenes))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {float(loss.detach()):.3f}", flush=True)
    return network.eval()
