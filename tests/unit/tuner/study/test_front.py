# SPDX-License-Identifier: Apache-2.0
"""A study of a front keeps what a study of one number ends."""

import pytest
from support.command_line import refusal, rows

from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.workload import conv2d, depthwise
from tilewright.interface.study import tune
from tilewright.tuner.report.pareto import dominated_share, pareto
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.results import load_result

NETWORK = NetworkTable(
    name="two", workloads=(conv2d("A", 14, 32, 32, 3, 1, 1), depthwise("B", 14, 32, 3, 1))
)


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    found = {}
    for objective in ("latency", "front"):
        tune(
            NETWORK, objective=objective, fidelity="twin", configs=6, budget=120, runs=folder,
            name=objective,
        )  # fmt: skip
        with Store(folder / "studies.sqlite") as store:
            found[objective] = load_result(store, objective)
    return folder, found


def test_its_archive_reaches_smaller_configurations_and_dominates_more(studies) -> None:
    _, found = studies
    archives = {name: pareto(result) for name, result in found.items()}
    smallest = {name: min(point.area for point in archive) for name, archive in archives.items()}
    assert smallest["front"] < smallest["latency"]
    assert len({point.config_hash for point in archives["front"]}) > 1
    shares = {name: dominated_share(result, archives[name]) for name, result in found.items()}
    assert shares["front"] > shares["latency"]
    assert found["front"].summary.count <= 120


def test_its_hypervolume_is_in_the_document_of_the_report(studies) -> None:
    folder, found = studies
    assert rows("report", "front", "--runs", str(folder))
    assert dominated_share(found["front"], pareto(found["front"])) == pytest.approx(
        dominated_share(found["front"], list(reversed(pareto(found["front"]))))
    )


def test_layers_on_configurations_of_their_own_have_no_front() -> None:
    line = refusal("tune", "vta-resnet18", "--objective", "front", "--mode", "per-layer")
    assert "--objective" in line
    assert "each on one configuration" in line
