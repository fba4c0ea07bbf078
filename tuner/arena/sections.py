# SPDX-License-Identifier: Apache-2.0
"""The sections of the study's page, each from the study's JSON alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tilewright.tuner.arena.confirm import SEEDS
from tilewright.tuner.arena.markdown import (
    bullets,
    or_more,
    percent_interval,
    price,
    signed,
    table,
    times,
)
from tilewright.tuner.arena.published import PUBLISHED
from tilewright.tuner.arena.statistics import SIGNIFICANCE
from tilewright.tuner.arena.summary import BASELINE, REFERENCE, headline

Study = Mapping[str, Any]

COMPARED: Final = ("tilewright", "tilewright:no-prior", "dcoc")
"""Tuners whose tests against all others are listed, as far as they took part."""


def tasks_section(study: Study) -> str:
    """What was searched."""
    rows = _what(study, "task")
    hard = sum(row["hard"] for row in rows)
    text = table(
        ("layer", "points", "legal", "optimum", "within 1 %", "within 5 %", "random to 1 %", ""),
        (
            (
                row["layer"], f"{row['points']:,}", f"{100 * row['legal_share']:.0f} %",
                f"{row['optimum_cycles']:,}", f"{row['within_1pct']:,}",
                f"{row['within_5pct']:,}", f"{row['random_median_1pct']:,}",
                "hard" if row["hard"] else "easy",
            )
            for row in rows
        ),
    )  # fmt: skip
    return (
        "## Tasks\n\nEvery point of every task was enumerated, so the optimum is known. *Random to "
        "1 %* is the exact median of uniform random search over legal points. A task is hard when "
        "that is more than 32: an easy one proves nothing, because drawing at random solves it. "
        f"{hard} of {len(rows)} are hard; all headline figures are of these.\n\n{text}"
    )


def measurements_section(study: Study) -> str:
    """Measurements to the targets."""
    summary = study["summary"]
    grey = {r["tuner"] for r in _what(study, "run") if r["grey"]}
    runs = _counts(r["tuner"] for r in _headline(study))
    one, five = summary["trials_to_1pct"], summary["trials_to_5pct"]
    random, budget = one.get(BASELINE), study["conditions"]["budget"]
    left_out = ", ".join(f"`{tuner}`" for tuner in summary["incomplete"])
    note = f" Not run on all of them, and so left out: {left_out}." if left_out else ""
    parts = []
    for title, members in (
        ("Black-box: no prior", [t for t in one if t not in grey]),
        ("Grey-box: the closed-form prior was offered", [t for t in one if t in grey]),
    ):
        if not members:
            continue
        members.sort(key=lambda t: (one[t] is None, one[t] or 0, five[t] is None, five[t] or 0))
        rows = (
            (f"`{t}`", runs[t], or_more(one[t]), or_more(five[t]), times(random, one[t], budget))
            for t in members
        )
        text = table(("tuner", "runs", "to 1 %", "to 5 %", "random / this"), rows)
        parts.append(f"### {title}\n\n{text}")
    return (
        f"## Measurements to the target\n\nMedian over {summary['headline_tasks']} tasks and their "
        "seeds, by Kaplan and Meier's estimator: runs that end without the target are censored "
        f"there. *More*: over half of the runs need more than the budget.{note}\n\n"
        + "\n\n".join(parts)
    )


def regrets_section(study: Study) -> str:
    """Regret at fixed budgets."""
    regrets = study["summary"]["log_regret"]
    tuners = list(study["summary"]["trials_to_1pct"])
    last = list(regrets)[-1]
    tuners.sort(key=lambda t: regrets[last].get(t, {"value": 99.0})["value"])
    rows = (
        (f"`{tuner}`", *(percent_interval(regrets[budget].get(tuner)) for budget in regrets))
        for tuner in tuners
    )
    return (
        "## Regret\n\nInterquartile mean of ln(cycles / optimum) after so many measurements, in "
        "percent, with the 95 % interval of a bootstrap within tasks. Intervals that overlap are "
        "no ranking: see the tests.\n\n" + table(("tuner", *regrets), rows)
    )


def tests_section(study: Study) -> str:
    """Pairs of tuners."""
    tests = study["summary"]["tests"]
    parts = []
    for own in COMPARED:
        found = [_seen_from(own, name, test) for name, test in tests.items()]
        rows = [row for row in found if row is not None]
        if rows:
            header = (f"`{own}` against", "pairs", "fewer", "more", "p (Holm)", "verdict")
            parts.append(table(header, rows))
    if not parts:
        return ""
    ties = sum(test["verdict"] == "tie" for test in tests.values())
    return (
        "## Paired tests\n\nWilcoxon's signed-rank test (Pratt) on measurements to 1 %, paired by "
        "task and seed, which share the first points; runs without the target count as one more "
        f"than the smaller budget. Holm's correction over all {len(tests)} pairs of tuners, of "
        f"which {ties} are ties at {100 * SIGNIFICANCE:g} %. The inference is about seeds on these "
        "tasks, not about other networks.\n\n" + "\n\n".join(parts)
    )


def _seen_from(own: str, name: str, test: Mapping[str, Any]) -> tuple[str, ...] | None:
    """A row of the tests from one tuner's side."""
    first, second = name.split(" < ")
    if own not in (first, second):
        return None
    wins, losses, verdict = test["wins"], test["losses"], test["verdict"]
    if own == second:
        wins, losses = losses, wins
        verdict = {"better": "worse", "worse": "better", "tie": "tie"}[verdict]
    other = second if own == first else first
    return (f"`{other}`", str(test["pairs"]), str(wins), str(losses),
            f"{test['p_holm']:.2g}", verdict)  # fmt: skip


def costs_section(study: Study) -> str:
    """Overhead, break-even and prices."""
    summary = study["summary"]
    overhead, even = summary["overhead_seconds_per_100"], summary["break_even_seconds"]
    others = [other for other in (BASELINE, REFERENCE) if other in overhead]
    rows = (
        (
            f"`{tuner}`",
            f"{seconds:.3f}",
            *("-" if tuner == other else price(even[tuner][other]) for other in others),
        )
        for tuner, seconds in sorted(overhead.items(), key=lambda item: item[1])
    )
    prices = study["conditions"]["prices"]
    return (
        "## What a search costs\n\nCore-seconds inside the tuner for 100 measurements (CPU time, "
        "measuring excluded, a prior's included), and the break-even price: the seconds a "
        "measurement must cost for the tuner to be cheaper to 1 % than another, in the mean. "
        "*Always*: cheaper even if measuring is free. *Never*: no price is high enough.\n\n"
        + table(("tuner", "core-s / 100", *(f"against `{o}`, s" for o in others)), rows)
        + "\n\nPrices of a measurement:\n\n"
        + bullets(
            f"*{name}*: {p['seconds_per_trial']:g} s a trial and {p['seconds_per_cycle']:.3g} s a "
            f"cycle; {p['source']}"
            for name, p in prices.items()
        )
    )


def networks_section(study: Study) -> str:
    """Whole networks against AutoTVM."""
    summary = study["summary"]
    gains = summary["throughput_gain_over_autotvm_pct"]
    if not gains:
        return ""
    parts = []
    for title, figures in (
        ("Throughput over AutoTVM at the end of the budget, %", gains),
        *(
            (f"Compile time saved against AutoTVM at the price of *{name}*, %", values)
            for name, values in summary["compile_time_reduction_by_price_pct"].items()
        ),
    ):
        networks = list(figures)
        tuners = list(dict.fromkeys(tuner for values in figures.values() for tuner in values))
        rows = (
            (f"`{tuner}`", *(signed(figures[n].get(tuner)) for n in networks)) for tuner in tuners
        )
        header = ("tuner", *(f"{n} ({summary['coverage'][n]:.0f} %)" for n in networks))
        parts.append(f"### {title}\n\n{table(header, rows)}")
    return (
        "## Whole networks\n\nSum of the layers' cycles times their counts, median over seeds. In "
        "brackets the share of the network's multiply-accumulates in the layers that were run: "
        "below 100 % a figure is of those layers and not of the network. Compile time runs until "
        "a layer is within 1 % of its optimum, or to the end of the budget.\n\n"
        + "\n\n".join(parts)
    )


def arms_section(study: Study) -> str:
    """Other arms and noise; empty when only one was run."""
    conditions = study["summary"]["conditions"]
    if len(conditions) < 2:
        return ""
    tuners = list(dict.fromkeys(t for c in conditions.values() for t in c["seeds"]))
    rows = []
    for tuner in tuners:
        row = [f"`{tuner}`"]
        for c in conditions.values():
            if tuner not in c["trials_to_1pct"]:
                row.append("-")
                continue
            invalid = c["invalid_share"][tuner]
            note = f", {100 * invalid:.0f} % invalid" if invalid else ""
            row.append(f"{or_more(c['trials_to_1pct'][tuner])}{note}")
        rows.append(row)
    header = ("tuner", *(f"{name} ({c['tasks']} tasks)" for name, c in conditions.items()))
    return (
        "## Arms and noise\n\nMedian measurements to 1 %. *As-published*: every point may be "
        "proposed, illegal ones are charged and answered with nothing. *Noise*: standard deviation "
        "of a measurement's logarithm, the same error for every tuner that measures a point; what "
        "counts is the true cycles of the point that looks best.\n\n" + table(header, rows)
    )


def selections_section(study: Study) -> str:
    """Confidence sampling; empty when it was not compared."""
    rows = _what(study, "selection")
    if not rows:
        return ""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["selection"], []).append(row)
    text = table(
        ("selection", "sets", "best", "median", "worst"),
        (
            (
                name, len(own),
                *(
                    f"{statistics.median(pick(row['ratios']) for row in own):.3f}"
                    for pick in (min, statistics.median, max)
                ),
            )
            for name, own in groups.items()
        ),
    )  # fmt: skip
    return (
        "## Confidence sampling on identical candidates\n\nDCOC after 32 measurements; what its "
        "agents visit next is given to every selection, each takes eight. Cycles over the optimum, "
        f"medians over tasks and seeds.\n\n{text}"
    )


def confirmations_section(study: Study) -> str:
    """What the RTL says."""
    rows = _what(study, "confirmation")
    if not rows:
        return (
            "## On the RTL\n\nNot confirmed in this run: `--confirm` measures the winners of five "
            "seeds, and every optimum, on the full RTL."
        )
    equal = sum(row["equal"] for row in rows)
    winners = {
        (r["task"], r["flat"])
        for r in _what(study, "run")
        if r["arm"] == "masked" and not r["noise"] and r["seed"] < SEEDS
    }
    left = max(0, len(winners) - len(rows))
    note = f" {left} of the winners were not run." if left else ""
    wrong = [f"{r['layer']} on {r['hw']}: {r['failure']}" for r in rows if not r["equal"]]
    return (
        f"## On the RTL\n\n{equal} of {len(rows)} distinct points (of the winners of the first "
        f"{SEEDS} seeds of every tuner, and of the optima) took exactly the table's cycles on the "
        f"full RTL, with a bit-exact output.{note}\n\n" + bullets(wrong)
    ).rstrip()


def published_section(study: Study) -> str:
    """The published figures beside ours."""
    summary = study["summary"]
    rows = (
        (p.system, p.claim, p.conditions, _ours(summary, p.ours) if p.ours else "-")
        for p in PUBLISHED
    )
    return (
        "## Beside the published figures\n\nOther hardware, other spaces, other measurements: "
        "context, not a contest. Ours are of `dcoc`, a re-implementation from slides and abstract, "
        "with `autotvm` as the reference, both on the tasks above.\n\n"
        + table(("system", "published", "its conditions", "ours"), rows)
    )


def _ours(summary: Mapping[str, Any], key: str) -> str:
    if key == "trials_to_1pct":
        pairs = [
            f"`{t}` {or_more(summary[key][t])}" for t in ("dcoc", REFERENCE) if t in summary[key]
        ]
        return ", ".join(pairs) + " measurements a task to 1 %" if pairs else "-"
    sign = -1 if key == "compile_time_reduction_pct" else 1  # published as a change, not a saving
    values = {n: sign * tuners["dcoc"] for n, tuners in summary[key].items() if "dcoc" in tuners}
    return ", ".join(f"{n} {signed(value)} %" for n, value in values.items()) or "-"


def rules_section(study: Study) -> str:
    """What holds for every run."""
    return (
        "## Rules\n\n"
        + bullets(
            (
                "A measurement is one distinct point sent to the table; the first points count.",
                ("Legality comes from the table for everybody and costs nobody anything; what the "
                 "lowering would take to judge a point is not in a tuner's core-seconds."),
                ("AutoTVM and CHAMELEON plan 64 measurements at a time, as published: so many of "
                "their first ones are random, which weighs heavily on small budgets."),
                "A run ends at the exact optimum: nothing can improve after it.",
                "Tuners of small budgets are censored there: "
                + (", ".join(
                    f"`{t}` at {b}" for t, b in study["conditions"]["small_budgets"].items()
                ) or "none") + ".",
                "Before the first legal measurement the worst legal point is the incumbent.",
                "Hyper-parameters are those of each tuner's own page; none was fitted here.",
            )
        )
    )  # fmt: skip


def _headline(study: Study) -> list[Mapping[str, Any]]:
    """The runs behind the headline: as `summary.summarise` chooses them."""
    track = study["conditions"]["track"]
    own = [
        dict(r)
        for r in _what(study, "run")
        if r["arm"] == "masked" and not r["noise"] and r["track"] == track
    ]
    return list(headline(own)[0])


def _what(study: Study, what: str) -> list[Mapping[str, Any]]:
    return [r for r in study["records"] if r["what"] == what]


def _counts(values: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts
