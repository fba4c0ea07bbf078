# SPDX-License-Identifier: Apache-2.0
"""What learns beats random search at equal budgets; libraries of others learn from what is told."""

import subprocess
import sys
import warnings
from operator import le, lt

import numpy as np
import pytest
from support.randomness import often
from support.search.grid import Grid

from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import Result, make_tuner
from tilewright.tuner.search.black_box import REPEATS, BlackBoxTuner, repair
from tilewright.tuner.search.space import Index

SAMPLERS = ("optuna-tpe", "optuna-cmaes", "optuna-nsga2")
SMALL = {"plan": 16, "population": 64, "warm_up": 16}
LIBRARIES = {"autotvm": "xgboost", "metaschedule": "tvm", "nevergrad-de": "nevergrad",
             **dict.fromkeys(SAMPLERS, "optuna")}  # fmt: skip


def bowl(point) -> float:
    return 10.0 + float(sum((p - 11) ** 2 for p in point))


def cube(side: int):
    return lambda: Grid(side, side, side)


SLOWEST = [
    pytest.param("dcoc", {}, full_space, schedule_cost, [8] * 6, 3, 4, lt, id="dcoc"),
    pytest.param(
        "autotvm", {"plan": 16}, full_space, schedule_cost, [8] * 10, 4, 5, lt, id="autotvm"
    ),
    pytest.param("metaschedule", SMALL, cube(60), bowl, [16] * 4, 2, 3, lt, id="metaschedule"),
]


@pytest.mark.parametrize(
    ("name", "options", "space", "cost", "batches", "wins", "seeds", "beats"),
    [
        ("coordinate", {}, cube(200), bowl, [8] * 15, 8, 10, lt),
        ("genetic", {}, full_space, schedule_cost, [8] * 20, 8, 10, le),
        ("nevergrad-de", {}, cube(60), bowl, [8] * 20, 5, 6, lt),
        *((name, {}, cube(60), bowl, [8] * 15, 3, 4, lt) for name in SAMPLERS),
        *often("slowest libraries", SLOWEST, 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_beats_random_search(name, options, space, cost, batches, wins, seeds, beats):
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])

    def best(seed: int, name: str, **options) -> float:
        tuner = make_tuner(name, space(), seed=seed, **options)
        drive(tuner, cost, batches=batches)
        return tuner.best.value

    assert sum(beats(best(s, name, **options), best(s, "random")) for s in range(seeds)) >= wins


REPLAY = """
import sys
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import make_tuner
tuner = make_tuner(sys.argv[1], full_space(), seed=5, plan=int(sys.argv[2]))
print(drive(tuner, schedule_cost, batches=[8] * 5))
"""


@pytest.mark.slow  # with the options of the contract every run asks it
@pytest.mark.parametrize(
    ("name", "plan", "needs"),
    [
        ("autotvm", 8, ["xgboost"]),
        *((name, 16, ["xgboost", "torch", "sklearn"]) for name in ("chameleon", "chameleon-code")),
    ],
)
def test_equal_seeds_plan_the_same_in_another_process(name, plan, needs):
    for package in needs:
        pytest.importorskip(package)
    words = [sys.executable, "-c", REPLAY, name, str(plan)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    tuner = make_tuner(name, full_space(), seed=5, plan=plan)
    assert done.stdout.strip() == str(drive(tuner, schedule_cost, batches=[8] * 5))


@pytest.mark.parametrize("ordered", [True, False])
def test_differential_evolution_proposes_all_of_a_knob(ordered):
    pytest.importorskip("nevergrad")
    tuner = make_tuner("nevergrad-de", Grid(5, 5, ordered=ordered), seed=1)
    assert len(drive(tuner, bowl, batches=[5] * 6)) == 25


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-nsga2"])
def test_learns_an_unordered_knob(name):
    pytest.importorskip("optuna")
    tuner = make_tuner(name, Grid(20, 60, ordered=False), seed=1)
    log = drive(tuner, lambda p: float(p[0] != 7) + 0.01 * p[1], batches=[8] * 15)
    assert np.mean([p[0] == 7 for p, _ in log[60:]]) > 0.15  # 1/20 by chance


def test_optuna_logs_and_warns_nothing_and_leaves_the_log_level_alone(capfd):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in SAMPLERS:
            drive(make_tuner(name, Grid(9, 9), seed=0), bowl, batches=[8] * 6)
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")


# -- the Gaussian process finds a smooth optimum in few trials; its merit is stable
@pytest.fixture
def gaussian():
    pytest.importorskip("botorch")
    from tilewright.tuner.search.libraries import botorch_tuner  # noqa: PLC0415  (an extra)

    return botorch_tuner


def test_finds_a_smooth_optimum_far_sooner_than_random_search(gaussian):
    for seed in range(3):
        tuner = make_tuner("botorch", Grid(30, 30, 30), seed=seed)
        drive(tuner, bowl, batches=[gaussian.WARM_UP] + [4] * 8)  # 42 of 27,000 points
        assert tuner.best.value <= 20  # random search reaches 52 to 64 in as many


def test_what_is_under_way_is_taken_into_account(gaussian):
    tuner = make_tuner("botorch", Grid(40, 40), seed=0)
    drive(tuner, bowl, batches=[gaussian.WARM_UP])
    waiting = tuner.ask(6)
    tuner.tell([Result(index=waiting[0].index, value=bowl(waiting[0].index))])
    assert {c.index for c in tuner.ask(6)}.isdisjoint(c.index for c in waiting)


def test_a_batch_spreads_over_what_is_not_alike(gaussian):
    torch = pytest.importorskip("torch")
    # Two twins with the best mean, and one candidate that is nearly as good.
    mean = torch.tensor([0.0, 0.0, 0.1]).double()
    covariance = torch.tensor([[1.0, 0.999, 0.0], [0.999, 1.0, 0.0], [0.0, 0.0, 1.0]]).double()
    belief = gaussian.Belief([(0,), (1,), (2,)], mean, covariance, 0.0)
    assert [belief.choose() for _ in range(4)] == [(0,), (2,), (1,), None]


@pytest.mark.parametrize("z", [3.0, 0.5, -0.5, -0.999, -1.001, -2.0])
def test_log_expected_improvement_is_that_of_many_draws(gaussian, z):
    torch = pytest.importorskip("torch")
    draws = np.random.default_rng(0).normal(size=4_000_000)
    expected = np.log(2.0 * np.maximum(0.0, z + draws).mean())
    found = gaussian.log_expected_improvement(
        torch.tensor([7.0 - 2.0 * z]).double(), torch.tensor([2.0]).double(), 7.0
    )
    assert float(found) == pytest.approx(expected, abs=0.01)


def test_log_expected_improvement_rises_where_the_improvement_underflows(gaussian):
    torch = pytest.importorskip("torch")
    z = torch.linspace(-2e4, 5, 5000).double()
    found = gaussian.log_expected_improvement(-z, torch.ones_like(z), 0.0)
    assert torch.isfinite(found).all()
    assert (found.diff() > 0).all()


# -- adapters: a library sees the cost of the repaired point, and what was not its idea
class Script(BlackBoxTuner[object, int]):
    """A library that asks for a list of points, then for the last one for ever."""

    def __init__(self, space, asks, **options) -> None:
        super().__init__(space, seed=0, **options)
        self.asks, self.asked_for = list(asks), 0
        self.told: list[tuple[int, float | None]] = []
        self.added: list[tuple[Index, float | None]] = []

    def _library_ask(self) -> tuple[int, Index]:
        number, self.asked_for = self.asked_for, self.asked_for + 1
        return number, self.asks[min(number, len(self.asks) - 1)]

    def _library_tell(self, token: int, value: float | None) -> None:
        self.told.append((token, value))

    def _library_add(self, index: Index, value: float | None) -> None:
        self.added.append((index, value))


def samples(count: int) -> list[Index]:
    space, rng = full_space(), np.random.default_rng(4)
    return list(dict.fromkeys(space.sample(rng) for _ in range(4 * count)))[:count]


def test_a_library_that_repeats_itself_is_told_of_random_points():
    (point,) = samples(1)
    tuner = Script(full_space(), [point])
    log = drive(tuner, schedule_cost, batches=[1, 1])
    assert tuner.told == [(n, log[0][1]) for n in range(REPEATS + 1)]
    assert tuner.added == [log[1]]


def test_repair_keeps_valid_points_and_shrinks_the_others():
    space, rng = full_space(), np.random.default_rng(5)
    for _ in range(100):
        index = tuple(int(rng.integers(len(knob))) for knob in space.knobs)
        repaired = repair(space, index)
        assert repaired is not None
        assert space.valid(repaired)
        assert (repaired == index) == space.valid(index)
        for knob, (before, after) in enumerate(zip(index, repaired, strict=True)):
            assert after <= before if space.knobs[knob].ordered else after == before


def test_repair_gives_up_where_nothing_is_valid():
    class Nowhere(type(full_space())):
        def _refusal(self, index: Index) -> str:
            return "never"

    space = Nowhere(full_space().workload, full_space().hw, full_space()._rules, "full")
    assert repair(space, tuple(len(knob) - 1 for knob in space.knobs)) is None
