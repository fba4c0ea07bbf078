# SPDX-License-Identifier: Apache-2.0
"""Looks at a folder, a video or a camera with a network, and prints frames per second.

On a board, as root, with a bundle that was deployed with a task:

    python3 picture_loop.py /home/xilinx/tilewright/detector 0

On any machine, with a file of `tilewright compile`, on the RTL's control with data in C++:

    python picture_loop.py detector.tw photos/ --draw seen
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", type=Path, help="folder of a bundle, or a .tw file")
    parser.add_argument("source", help="image, folder, video, or number of a camera")
    parser.add_argument("--draw", type=Path, help="folder for pictures with what is in them")
    parser.add_argument("--frames", type=int, default=0, help="0: all of them")
    options = parser.parse_args()
    if (options.network / "lib").is_dir():
        sys.path.insert(0, str(options.network / "lib"))  # what the bundle carries
    import tilewright as tw  # noqa: PLC0415  (from `lib`)

    source = int(options.source) if options.source.isdigit() else options.source
    opened = (
        tw.open_bundle(options.network)
        if options.network.is_dir()
        else tw.open_network(options.network, device="dpi")
    )
    with opened as network:
        started = time.perf_counter()
        for done, frame in enumerate(network.watch(source), 1):
            rate = done / (time.perf_counter() - started)
            print(f"{frame.title}: {frame.seen.describe()}; {rate:.1f} frames per second")
            if options.draw is not None:
                frame.save(options.draw / f"{frame.title}.png")
            if done == options.frames:
                return


if __name__ == "__main__":
    main()
