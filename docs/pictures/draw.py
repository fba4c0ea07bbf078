# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the documents from their data, or say which is stale.

    python docs/pictures/draw.py --write
    python docs/pictures/draw.py --check

Each module of this folder draws one picture, in a light and a dark theme. Both are kept beside it,
so that the documents can be read in a checkout too.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PICTURES: Final = (
    "accelerator", "loop", "stalls", "bound", "regret", "resources", "blockdesign", "multicore",
    "group",
)  # fmt: skip


def stale() -> dict[Path, str]:
    """Files that are not what the data gives now, with what they should hold."""
    wanted = {
        HERE / f"{name}-{theme}.svg": importlib.import_module(name).draw(theme)
        for name in PICTURES
        for theme in ("light", "dark")
    }
    return {
        path: text
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="draw what is stale")
    mode.add_argument("--check", action="store_true", help="fail when a picture is stale")
    options = parser.parse_args()
    found = stale()
    for path, text in found.items():
        if options.check:
            sys.stderr.write(f"error: docs/pictures/{path.name} is stale; run `make pictures`\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote docs/pictures/{path.name}\n")
    return int(options.check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
