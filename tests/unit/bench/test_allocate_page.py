# SPDX-License-Identifier: Apache-2.0
"""The page of `bench.allocate` from hand-made searches."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.browser import Browser, missing
from support.html_structure import assert_well_made
from support.seen_in_browser import assert_shown_well

from tilewright.bench.allocate import page as allocate_page

ALLOCATORS = ("dynatune", "sequential", "round-robin")


def a_case():
    """Two tasks: one improves all the time, the other only at first."""
    arms = [SimpleNamespace(name=f"C{n}", count=n, work=10**n) for n in (1, 2)]
    search = SimpleNamespace(table=SimpleNamespace(start=SimpleNamespace(cycles=1000)))
    times = np.arange(1.0, 61.0)
    falling = np.maximum.accumulate(1000 - 9 * times[::-1])[::-1]
    early = np.where(times < 5, 900.0, 800.0)
    return SimpleNamespace(
        arms=arms, searches=[search, search], futures=[(times, falling), (times, early)], slot=10.0
    )


def a_result():
    records = []
    for network in ("alexnet", "resnet18"):
        common = {"network": network, "price": "rtl", "seed": 0}
        records.append({**common, "what": "search", "seconds_per_trial": 0.01})
        records += [
            {
                **common, "what": "run", "allocator": name, "final_cycles": 80 + n, "trials": 50,
                "start_cycles": 100, "budget_seconds": 99.0, "warm_up_seconds": 1.0,
                "deciding_seconds": 2.0,
            }
            for n, name in enumerate(ALLOCATORS)
        ]  # fmt: skip
    curves = [
        {
            "network": network, "price": "rtl",
            "curves": {name: [1.0, 0.9, 0.8 + n / 100] for n, name in enumerate(ALLOCATORS)},
        }
        for network in ("alexnet", "resnet18")
    ]  # fmt: skip
    return {"rows": records, "curves": curves, "conditions": {"hw": "<pynq>", "late": 1.5}}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("a") / "figures.html"
    cases = {"alexnet": a_case(), "resnet18": a_case()}
    path.write_text(allocate_page.page(a_result(), cases), encoding="utf-8")
    return path


def test_the_page_is_one_small_file_with_its_figures_in_tables(page):
    text = page.read_text(encoding="utf-8")
    found = assert_well_made(text, limit=500_000)
    assert found.title == "Who gets the next slot of tuning time: alexnet, resnet18"
    for number, name in enumerate(ALLOCATORS):
        assert f'<th scope="row">{name}</th>' in text
        assert f'data-value="{0.8 + number / 100:g}" class="n">0.{80 + number}0</td>' in text
    assert "hw: &lt;pynq&gt;" in text
    assert "Walkers of parameter a" in text


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_is_shown_well(page):
    with Browser() as browser:
        assert_shown_well(browser, page)
