# SPDX-License-Identifier: Apache-2.0
"""The sections of the study's page: tables, and the sentences that the figures decide.

What the words and the columns mean stands in `docs/results/tuners-study.md`, written by hand.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tilewright.bench.arena.confirm import SEEDS
from tilewright.bench.arena.markdown import (
    bullets,
    median_interval,
    or_more,
    percent_interval,
    price,
    ratio_interval,
    signed,
    table,
)
from tilewright.bench.arena.prices import PRICES
from tilewright.bench.arena.published import PUBLISHED, Published
from tilewright.bench.arena.statistics import SIGNIFICANCE
from tilewright.bench.arena.summary import (
    BASELINE,
    COMPARED,
    COMPILE_PRICE,
    OWN,
    OWN_BLACK_BOX,
    REFERENCE,
    common,
    headline,
)
from tilewright.bench.arena.tasks import NETWORKS, parts_of
from tilewright.host.network.zoo import load_network

Study = Mapping[str, Any]

LEAST_COVERAGE: Final = 20
"""Percent of a network's multiply-accumulates that must have been run to speak of the network."""

AIM: Final = 2
"""Times fewer measurements to 1 % that it is to need than the best other black-box tuner."""

FITTED: Final[Mapping[str, str]] = {
    OWN: "two constants of its prior were chosen on the landscapes of ResNet-18's C2 to C11",
    OWN_BLACK_BOX: "its form was chosen on 22 of the tasks of the first study of 60",
}
"""What of our own tuners was chosen on layers that studies run on."""


def networks_covered_section(study: Study) -> str:
    """Which part of each network was searched."""
    conditions, tasks = study["conditions"], {row["task"]: row for row in _what(study, "task")}
    ran = {r["task"] for r in _headline(study)}
    rows = []
    for name in conditions["networks"]:
        network = load_network(name)
        parts = parts_of(conditions["track"], network)
        distinct = {part.task for part in parts}
        work = dict.fromkeys(distinct, 0)
        for part, workload in zip(parts, network.workloads, strict=True):
            work[part.task] += workload.macs * workload.count
        shares = [
            f"{100 * sum(work[t] for t in distinct & chosen) / network.macs:.0f} %"
            for chosen in (tasks.keys(), ran)
        ]
        known = [tasks[t] for t in distinct if t in tasks]
        hard = sum(row["hard"] for row in known)
        rows.append((name, len(distinct), len(known), hard, *shares))
    header = ("network", "tasks", "enumerated", "hard", "MACs enumerated", "MACs in the headline")
    distinct_hard = sum(row["hard"] for row in tasks.values())
    absent = [name for name in NETWORKS if name not in conditions["networks"]]
    note = f" Networks of the arena that this study lacks: {', '.join(absent)}." if absent else ""
    return (
        f"## Networks\n\n{len(tasks)} distinct tasks were enumerated, {distinct_hard} of them are "
        f"hard.{note}\n\n{table(header, rows)}"
    )


def tasks_section(study: Study) -> str:
    """What was searched."""
    rows = _what(study, "task")
    hard = [row for row in rows if row["hard"]]
    easy = len(rows) - len(hard)
    shown = sorted(hard or rows, key=lambda row: -row["random_median_1pct"])
    names = _homes(study)
    text = table(
        ("layer", "points", "legal", "optimum", "within 1 %", "within 5 %", "random to 1 %"),
        (
            (
                names.get(row["task"], row["layer"]), f"{row['points']:,}",
                f"{100 * row['legal_share']:.0f} %", f"{row['optimum_cycles']:,}",
                f"{row['within_1pct']:,}", f"{row['within_5pct']:,}",
                f"{row['random_median_1pct']:,}",
            )
            for row in shown
        ),
    )  # fmt: skip
    note = f" The {easy} easy ones are not listed." if easy and hard else ""
    sifted = sum(not row.get("whole", True) for row in rows)
    truth = "Every point of every task was enumerated"
    if sifted:
        truth = (
            f"Every point of {len(rows) - sifted} tasks was enumerated. Of the other {sifted} "
            "every point within 5 % of the optimum is known, and the others are proven slower"
        )
    return (
        f"## Tasks\n\n{truth}. {len(hard)} of {len(rows)} tasks are hard; all headline figures are "
        f"of these.{note}\n\n{text}"
    )


def measurements_section(study: Study) -> str:
    """Measurements to the targets."""
    left_out = ", ".join(f"`{tuner}`" for tuner in study["summary"]["incomplete"])
    note = f" Not run on all of them, and so left out here: {left_out}." if left_out else ""
    if limits := study["conditions"]["small_budgets"]:
        found = ", ".join(f"`{tuner}` at {budget}" for tuner, budget in limits.items())
        note += f" Censored at a small budget: {found}."
    return (
        "## Measurements to the target\n\n"
        + _measurements(study, study["summary"], _headline(study), note, level=3)
        + _aim(study)
        + _fitted(study)
    )


def _aim(study: Study) -> str:
    """The default tuner against the best baseline; empty when one of them has no median.

    The words follow from the interval: no more is said than it allows.
    """
    figures = study["summary"]
    one, found = figures["trials_to_1pct"], figures["ratio_to_1pct"]
    grey = {r["tuner"] for r in _what(study, "run") if r["grey"]}
    needs = {t: n for t, n in one.items() if n is not None}
    own = [t for t in (OWN_BLACK_BOX, OWN) if t in needs]
    others = [t for t in needs if t not in grey and t not in own]
    if not own or not others:
        return ""
    best = min(others, key=needs.__getitem__)
    lines = [
        f"`{tuner}` against it: {claim(found[tuner][best])}"
        + (", with a prior that the baselines lack." if tuner in grey else ".")
        for tuner in own
        if best in found[tuner]
    ]
    return (
        f"\n\nThe aim is {AIM:g} times fewer measurements to 1 % than the best baseline, here "
        f"`{best}` with {needs[best]:.0f}. " + " ".join(lines)
    )


def claim(ratio: Mapping[str, Any]) -> str:
    """What an interval allows to be said of a tuner and its aim.

    Args:
        ratio: of `summary.ratios`: how many times fewer measurements, with its interval.
    """
    figure = f"{ratio_interval(ratio)} times fewer"
    if ratio["verdict"] == "untold":
        return f"{figure}, on {ratio['tasks']} tasks, too few to say"
    if ratio["verdict"] == "tie":
        return f"a tie, {figure}; the aim is " + ("missed" if ratio["high"] < AIM else "not shown")
    if ratio["verdict"] == "worse":
        return f"behind, {figure}: the aim is missed"
    if ratio["low"] >= AIM:
        return f"{figure}: met"
    return f"{figure}: " + ("missed" if ratio["high"] < AIM else "neither shown nor missed")


def _fitted(study: Study) -> str:
    """What was chosen on layers of studies, beside the figures that it may flatter."""
    ran = study["summary"]["trials_to_1pct"]
    found = [f"`{tuner}`: {what}" for tuner, what in FITTED.items() if tuner in ran]
    if not found:
        return ""
    return (
        f"\n\nChosen on layers of this study: {'; '.join(found)}. On other layers its figures "
        "may be worse."
    )


def _measurements(
    study: Study,
    figures: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    note: str,
    *,
    level: int,
) -> str:
    one, five = figures["trials_to_1pct"], figures["trials_to_5pct"]
    grey = {r["tuner"] for r in _what(study, "run") if r["grey"]}
    counts = _counts(r["tuner"] for r in runs)
    seeds = {t: _seeds_a_task(r for r in runs if r["tuner"] == t) for t in one}
    budgets = {t: sorted({r["budget"] for r in runs if r["tuner"] == t}) for t in one}
    where = "" if level == 3 else ", every tuner"
    parts = []
    for title, members in (
        (f"Black-box{where}: no prior", [t for t in one if t not in grey]),
        (
            f"Grey-box{where}: the closed-form prior was offered",
            [t for t in one if t in grey],
        ),
    ):
        if not members:
            continue
        members.sort(key=lambda t: (one[t] is None, one[t] or 0, five[t] is None, five[t] or 0))
        rows = (
            (
                f"`{t}`",
                counts[t],
                seeds[t],
                " to ".join(str(each) for each in dict.fromkeys((budgets[t][0], budgets[t][-1]))),
                *(
                    median_interval(value, figures[f"interval_to_{target}"][t], budgets[t][0])
                    for target, value in (("1pct", one[t]), ("5pct", five[t]))
                ),
                *(
                    ratio_interval(figures[f"ratio_to_{target}"].get(t, {}).get(BASELINE))
                    for target in ("1pct", "5pct")
                ),
            )
            for t in members
        )
        header = (
            "tuner", "runs", "seeds", "budget", "to 1 %", "to 5 %", "random / this, 1 %",
            "random / this, 5 %",
        )  # fmt: skip
        parts.append(f"{'#' * level} {title}\n\n{table(header, rows)}")
    return f"Medians over {figures['headline_tasks']} tasks.{note}\n\n" + "\n\n".join(parts)


def regrets_section(study: Study) -> str:
    """Regret at fixed budgets."""
    return "## Regret\n\n" + _regrets(study["summary"]) + _longest(study["summary"])


def _longest(figures: Mapping[str, Any]) -> str:
    """What more measurements bring, where some runs have more; empty if none has."""
    longest = figures["longest"]
    if longest is None:
        return ""
    return (
        f"\n\nThe runs of {longest['budget']:,} measurements alone ({longest['tasks']} of the "
        f"tasks, {longest['seeds']} seeds):\n\n" + _regrets({**figures, **longest})
    )


def _regrets(figures: Mapping[str, Any]) -> str:
    regrets = figures["log_regret"]

    def later_first(tuner: str) -> list[float]:
        """Regret after the most measurements first; a budget that the tuner lacks is the worst."""
        return [
            regrets[budget][tuner]["value"] if tuner in regrets[budget] else math.inf
            for budget in reversed(regrets)
        ]

    tuners = sorted(set().union(*regrets.values()), key=later_first)
    return table(
        ("tuner", *regrets),
        (
            (f"`{tuner}`", *(percent_interval(regrets[budget].get(tuner)) for budget in regrets))
            for tuner in tuners
        ),
    )


def tests_section(study: Study) -> str:
    """Pairs of tuners."""
    tests = study["summary"]["tests"]
    text = _tests(study["summary"], level=3)
    if not text:
        return ""
    ties = sum(test["verdict"] == "tie" for test in tests.values())
    ties_of_tasks = sum(test["tasks"]["verdict"] == "tie" for test in tests.values())
    return (
        f"## Paired tests\n\nOf {len(tests)} pairs of tuners {ties} are ties by runs and "
        f"{ties_of_tasks} by task medians, at {100 * SIGNIFICANCE:g} % after Holm's correction."
        f"\n\n{text}"
    )


def _tests(figures: Mapping[str, Any], *, level: int) -> str:
    """Every tuner against each of `COMPARED`; empty when none of these took part."""
    tests, tuners = figures["tests"], list(figures["trials_to_1pct"])
    where = "" if level == 3 else ", every tuner"
    parts = []
    for own in COMPARED:
        if own not in tuners or len(tuners) < 2:
            continue
        ratios = [figures[f"ratio_to_{target}"].get(own, {}) for target in ("1pct", "5pct")]
        rows = (
            (
                f"`{other}`",
                *(_ratio_verdict(ratio.get(other)) for ratio in ratios),
                *_verdicts(own, other, tests),
            )
            for other in tuners
            if other != own
        )
        header = ("against", "ratio, 1 %", "ratio, 5 %", "runs", "task medians")
        parts.append(f"{'#' * level} `{own}`{where}\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def _ratio_verdict(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return "-"
    known = ratio["verdict"] in ("better", "worse")
    return ratio_interval(ratio) + ("" if known else f", {ratio['verdict']}")


def _verdicts(own: str, other: str, tests: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Both tests of a pair, from one tuner's side."""
    if (test := tests.get(f"{own} < {other}")) is not None:
        return _verdict(test), _verdict(test["tasks"])
    if (test := tests.get(f"{other} < {own}")) is not None:
        return _verdict(test, turned=True), _verdict(test["tasks"], turned=True)
    return "-", "-"


def _verdict(test: Mapping[str, Any], *, turned: bool = False) -> str:
    wins, losses, verdict = test["wins"], test["losses"], test["verdict"]
    if turned:
        wins, losses = losses, wins
        verdict = {"better": "worse", "worse": "better", "tie": "tie"}[verdict]
    return f"{wins}, {losses}; {test['p_holm']:.2g}; {verdict}"


def costs_section(study: Study) -> str:
    """Overhead, break-even and prices."""
    prices = study["conditions"]["prices"]
    return (
        "## What a search costs\n\n"
        + _costs(study["summary"])
        + "\n\nPrices of a measurement:\n\n"
        + bullets(
            f"*{name}*: {p['seconds_per_trial']:g} s per trial and "
            f"{p['seconds_per_cycle']:.3g} s per cycle; {p['source']}"
            for name, p in prices.items()
        )
    )


def _costs(figures: Mapping[str, Any]) -> str:
    overhead, even = figures["overhead_seconds_per_100"], figures["break_even_seconds"]
    others = [other for other in (BASELINE, REFERENCE) if other in overhead]
    rows = (
        (
            f"`{tuner}`",
            f"{seconds:.3f}",
            *("-" if other not in even[tuner] else price(even[tuner][other]) for other in others),
        )
        for tuner, seconds in sorted(overhead.items(), key=lambda item: item[1])
    )
    return table(("tuner", "core-s / 100", *(f"against `{o}`, s" for o in others)), rows)


def networks_section(study: Study) -> str:
    """Whole networks against AutoTVM."""
    summary = study["summary"]
    if not summary["throughput_gain_over_autotvm_pct"]:
        return ""
    full = summary["full"]
    at_full = f" for the tuners that have {full['network_budget']} measurements" if full else ""
    parts = [
        *_network_tables(summary, summary["coverage"], (COMPILE_PRICE,) if full else PRICES),
        *(_network_tables(full, summary["coverage"], PRICES) if full else ()),
    ]
    return (
        f"## Whole networks\n\nAll are compared after {summary['network_budget']} measurements per "
        f"layer{' and again' if full else ''}{at_full}.\n\n" + "\n\n".join(parts)
    )


def _network_tables(
    figures: Mapping[str, Any], coverage: Mapping[str, float], prices: Iterable[str]
) -> Iterator[str]:
    """A table of throughput, and one of compile time a price."""
    after = f"after {figures['network_budget']} measurements, %"
    by_price = figures["compile_time_reduction_by_price_pct"]
    for title, values in (
        (f"Throughput over AutoTVM {after}", figures["throughput_gain_over_autotvm_pct"]),
        *(
            (f"Compile time saved against AutoTVM at the price of *{name}* {after}", by_price[name])
            for name in prices
        ),
    ):
        tuners = list(dict.fromkeys(tuner for own in values.values() for tuner in own))
        rows = (
            (f"{n} ({coverage[n]:.0f} %)", *(signed(values[n].get(t)) for t in tuners))
            for n in values
            if coverage[n] >= LEAST_COVERAGE
        )
        yield f"### {title}\n\n{table(('network', *(f'`{t}`' for t in tuners)), rows)}"


def common_section(study: Study) -> str:
    """Every tuner on the tasks that all were run on; empty when the headline holds them all."""
    figures = study["summary"]["common"]
    if figures is None:
        return ""
    runs = common(_exact(study))
    names = _homes(study)
    layers = ", ".join(names.get(task, task) for task in dict.fromkeys(r["task"] for r in runs))
    parts = [
        "## Every tuner, on the tasks that all were run on\n\nTuners that take long were run on "
        f"{figures['headline_tasks']} hard tasks ({layers}), drawn beforehand by their shapes. "
        + _measurements(study, figures, runs, "", level=4),
        "### Regret of every tuner\n\n" + _regrets(figures),
    ]
    if text := _tests(figures, level=4):
        parts.append(f"### Paired tests of every tuner\n\n{text}")
    if text := _network_against_reference(figures):
        parts.append(text)
    return "\n\n".join(parts)


def _network_against_reference(figures: Mapping[str, Any]) -> str:
    """The network of which most was run, against AutoTVM, one row a tuner."""
    gains = figures["throughput_gain_over_autotvm_pct"]
    if not gains:
        return ""
    network = max(gains, key=lambda name: figures["coverage"][name])
    by_price = figures["compile_time_reduction_by_price_pct"]
    quartiles = figures["throughput_quartiles_pct"]
    overhead, even = figures["overhead_seconds_per_100"], figures["break_even_seconds"]
    rows = (
        (
            f"`{tuner}`",
            _with_quartiles(gains[network].get(tuner), quartiles[network].get(tuner)),
            *(signed(by_price[name].get(network, {}).get(tuner)) for name in by_price),
            f"{overhead[tuner]:.3f}",
            price(even[tuner][REFERENCE]) if REFERENCE in even[tuner] else "-",
        )
        for tuner in sorted(overhead, key=lambda t: -gains[network].get(t, -math.inf))
    )
    header = (
        "tuner",
        "throughput, %",
        *(f"compile time saved, *{name}*, %" for name in by_price),
        "core-s / 100",
        "break-even, s",
    )
    return (
        f"### Every tuner against AutoTVM on {network}\n\nOf these layers, "
        f"{figures['coverage'][network]:.0f} % of the network's multiply-accumulates, after "
        f"{figures['network_budget']} measurements.\n\n{table(header, rows)}"
    )


def _with_quartiles(value: float | None, quartiles: Sequence[float] | None) -> str:
    if value is None or quartiles is None:
        return "-"
    return f"{signed(value)} ({signed(quartiles[0])} to {signed(quartiles[1])})"


def arms_section(study: Study) -> str:
    """Other arms and noise; empty when only one was run."""
    found = study["summary"]["arms"]
    if not found["tuners"]:
        return ""
    rows = []
    for tuner, figures in found["tuners"].items():
        row = [f"`{tuner}`", figures["tasks"], figures["runs"]]
        for name in found["conditions"]:
            if name not in figures:
                row.append("-")
                continue
            invalid = figures[name]["invalid_share"]
            note = f", {100 * invalid:.0f} % invalid" if invalid else ""
            row.append(f"{or_more(figures[name]['trials_to_1pct'])}{note}")
        rows.append(row)
    return "## Arms and noise\n\n" + table(("tuner", "tasks", "runs", *found["conditions"]), rows)


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
    return f"## Confidence sampling on identical candidates\n\n{text}"


def confirmations_section(study: Study) -> str:
    """What the RTL says."""
    rows = _what(study, "confirmation")
    if not rows:
        return "## On the RTL\n\nNot confirmed in this run."
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
        (p.system, p.claim, p.conditions, _ours(summary, p) if p.ours else "-") for p in PUBLISHED
    )
    return (
        "## Beside the published figures\n\n"
        + table(("system", "published", "its conditions", "ours"), rows)
        + _readings(study)
    )


def _readings(study: Study) -> str:
    """DCOC at the published budget; empty when nothing was run that far."""
    summary = study["summary"]
    rows = (
        (
            name,
            f"{found['tasks']} of {found['of']}",
            f"{summary['coverage'][name]:.0f} %",
            len(found["per_task"]),
            _spread(found["per_task"]),
            f"{_spread(found['per_network'])}; {found['each']} each",
        )
        for name, found in summary["readings"].items()
    )
    if not summary["readings"]:
        return ""
    header = (
        "network", "layers run", "of its MACs", "seeds",
        "1,000 per layer, %", "1,000 per network, %",
    )  # fmt: skip
    return f"\n\n### DCOC at 1,000 measurements, both readings\n\n{table(header, rows)}"


def _spread(values: Sequence[float]) -> str:
    """A median with the least and the largest value."""
    middle = signed(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({signed(min(values))} to {signed(max(values))})"


def _ours(summary: Mapping[str, Any], published: Published) -> str:
    """Our nearest figure, of the headline, or of the tasks that the tuner was run on."""
    tuner, key, figures = published.tuner, published.ours, summary
    if tuner not in summary["trials_to_1pct"] and summary["common"] is not None:
        figures = summary["common"]
    if key == "trials_to_1pct":
        pairs = [
            f"`{t}` {or_more(figures[key][t])}" for t in (tuner, REFERENCE) if t in figures[key]
        ]
        return ", ".join(pairs) + " measurements per task to 1 %" if pairs else "-"
    sign = -1 if key == "compile_time_reduction_pct" else 1  # published as a change, not a saving
    values = {n: sign * tuners[tuner] for n, tuners in figures[key].items() if tuner in tuners}
    found = ", ".join(f"{n} {signed(value)} %" for n, value in values.items())
    return f"`{tuner}`: {found}" if found else "-"


def _homes(study: Study) -> dict[str, str]:
    """The first network and layer of each task."""
    conditions, homes = study["conditions"], dict[str, str]()
    for name in conditions["networks"]:
        for part in parts_of(conditions["track"], load_network(name)):
            homes.setdefault(part.task, f"{name} {part.layer}")
    return homes


def _headline(study: Study) -> list[Mapping[str, Any]]:
    """The runs behind the headline: as `summary.summarise` chooses them."""
    return list(headline(_exact(study))[0])


def _exact(study: Study) -> list[dict[str, Any]]:
    """Runs of the masked arm without noise."""
    track = study["conditions"]["track"]
    return [
        dict(r)
        for r in _what(study, "run")
        if r["arm"] == "masked" and not r["noise"] and r["track"] == track
    ]


def _what(study: Study, what: str) -> list[Mapping[str, Any]]:
    return [r for r in study["records"] if r["what"] == what]


def _seeds_a_task(runs: Iterable[Mapping[str, Any]]) -> str:
    """How many seeds a tuner has on each task, the fewest and the most."""
    counts = _counts(r["task"] for r in runs).values()
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _counts(values: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts
