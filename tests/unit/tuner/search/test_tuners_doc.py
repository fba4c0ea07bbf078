# SPDX-License-Identifier: Apache-2.0
"""docs/explanation/tuners.md has a row for every tuner."""

import re

from tilewright.tuner.search import TUNERS


def test_every_tuner_has_a_row(request):
    text = (request.config.rootpath / "docs" / "explanation" / "tuners.md").read_text(
        encoding="utf-8"
    )
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert set(TUNERS) <= named, set(TUNERS) - named
