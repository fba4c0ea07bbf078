# SPDX-License-Identifier: Apache-2.0
"""What a tuner takes, its row of the documents, its features and its threads."""

import inspect
import re

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from tilewright.testing.analytic import BASE, RULES, TASKS
from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import TUNERS, Offer, Tuner, TunerError, make_tuner
from tilewright.tuner.search.blas_threads import one_blas_thread
from tilewright.tuner.search.features import FeatureEncoder


@pytest.mark.parametrize("name", [name for name, entry in TUNERS.items() if not entry.source])
def test_the_entry_says_what_the_class_takes_and_its_constructor_has_it(name: str) -> None:
    kind = TUNERS.load(name)
    assert TUNERS[name].takes == kind.takes
    arguments = {
        argument
        for base in kind.__mro__
        if "__init__" in vars(base)
        for argument in inspect.signature(base.__init__).parameters
    }
    assert {str(offer) for offer in kind.takes} <= arguments
    assert arguments & set(Offer) == kind.takes, "what it could take, it declares"
    for changes in kind.ablations.values():
        assert set(changes) <= arguments
        make_tuner(name, ScheduleSpace(TASKS[0], BASE, RULES, "vta"), seed=0)


def test_a_class_that_takes_what_no_study_has_is_refused_where_it_is_written() -> None:
    with pytest.raises(TunerError, match="must be some of prior, pool, experience"):

        class Wishful(Tuner[object]):
            takes = frozenset({"optimum"})


# -- docs/explanation/tuners.md has a row for every tuner
def test_every_tuner_has_a_row(request):
    text = (request.config.rootpath / "docs" / "explanation" / "tuners.md").read_text(
        encoding="utf-8"
    )
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert set(TUNERS) <= named, set(TUNERS) - named


# -- Feature vectors of points


def test_different_points_have_different_vectors() -> None:
    space = full_space()
    rng = np.random.default_rng(0)
    indices = list({i for i in (space.sample(rng) for _ in range(60)) if i is not None})
    vectors = FeatureEncoder(space).encode(indices)
    assert len({tuple(v) for v in vectors.tolist()}) == len(indices)


def test_no_points_give_an_empty_matrix() -> None:
    encoder = FeatureEncoder(full_space())
    assert encoder.encode([]).shape == (0, encoder.width)


# -- Linear algebra of a search takes one thread, and leaves the process as it was
def threads() -> list[int]:
    """Of numpy's library; other packages bring their own, loaded when a test needs them."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [pool["num_threads"] for pool in pools if "numpy" in pool["filepath"]]


def test_the_threads_come_back_after_an_error() -> None:
    before = threads()
    try:
        with one_blas_thread():
            raise RuntimeError
    except RuntimeError:
        pass
    assert threads() == before
