# SPDX-License-Identifier: Apache-2.0
"""Runs a bundle in a loop, on a folder of images or a camera, and prints frames per second.

On a board, as root: python3 classify_loop.py /home/xilinx/tilewright/digits --images FOLDER

The camera (``--camera 0``) needs OpenCV (``cv2``), which PYNQ's images have.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np


def frames_of_camera(number: int, shape: tuple[int, ...], mean: Any, std: Any) -> Iterator[Any]:
    """Frames of a camera, each (1, 3, height, width) as the network takes them."""
    cv2: Any = importlib.import_module("cv2")  # optional

    camera = cv2.VideoCapture(number)
    while True:
        seen, frame = camera.read()
        if not seen:
            return
        size = (shape[3], shape[2])
        pixels = cv2.cvtColor(cv2.resize(frame, size), cv2.COLOR_BGR2RGB) / np.float32(255)
        yield ((pixels - mean) / std).transpose(2, 0, 1)[np.newaxis].astype(np.float32)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    parser.add_argument("--images", type=Path, help="folder of images, .npy or .npz")
    parser.add_argument("--camera", type=int, help="number of a camera")
    parser.add_argument("--bitstream", type=Path)
    parser.add_argument("--frames", type=int, default=100, help="0: until Ctrl-C")
    parser.add_argument("--reference", action="store_true", help="without a board, in NumPy")
    options = parser.parse_args()
    if (options.bundle / "lib").is_dir() and not options.reference:
        sys.path.insert(0, str(options.bundle / "lib"))  # what the bundle carries
    from tilewright.host.deploy import board_run  # noqa: PLC0415  (from `lib`)
    from tilewright.host.deploy.board_run import top_classes  # noqa: PLC0415  (from `lib`)
    from tilewright.host.deploy.bundle import read_bundle  # noqa: PLC0415  (from `lib`)

    bundle = read_bundle(options.bundle)
    network = board_run.open_network(bundle)
    if options.reference:
        from tilewright.sim.reference.device import ReferenceDevice  # noqa: PLC0415  (no board has it)

        device: Any = ReferenceDevice(network.hw)
    else:
        device = board_run.open_device(bundle, network, options.bitstream)
    (port,) = network.inputs
    with closing(device), board_run.runner_of(network, device) as runner:
        if options.camera is not None:
            mean, std = (np.asarray(v, np.float32) for v in (bundle.mean, bundle.std))
            source = frames_of_camera(options.camera, port.shape, mean, std)
        else:
            read = board_run.read_inputs(bundle, network, options.images)
            source = (read[i % len(read)][port.name] for i in range(options.frames or 1 << 62))
        started = time.perf_counter()
        for done, frame in enumerate(source, 1):
            run = runner.run({port.name: frame})
            rate = done / (time.perf_counter() - started)
            print(f"{rate:.1f} frames per second; {top_classes(run, bundle.labels)}")
            if done == options.frames:
                return


if __name__ == "__main__":
    main()
