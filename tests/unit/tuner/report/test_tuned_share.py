# SPDX-License-Identifier: Apache-2.0
"""What a study leaves out is said, and loudly if it is much."""

from tilewright.host.network.workload import dense
from tilewright.tuner.report.summary import share_lines

FC = dense("fc", 1, 30, 5)
CONV3D = "1 x Conv: its operand has 5 axes; 3 or 4 are offloaded (576 MACs)"


def lines(macs: int, *operators: str) -> tuple[str, str]:
    return share_lines(
        {"tasks": [FC.to_mapping()], "cpu_operators": list(operators), "cpu_macs": macs}
    )


def test_a_small_share_is_a_warning_with_figures() -> None:
    text, warning = lines(850, CONV3D)
    assert "1 layer of 1 shape, 150 MACs" in text
    assert CONV3D in text
    assert "only 15.0 % of the network's MACs are tuned, 85.0 % are left out" in warning


def test_a_large_share_is_none() -> None:
    text, warning = lines(10, "1 x MaxPool: pooling is not tuned")
    assert "MaxPool" in text
    assert not warning


def test_studies_from_before_the_count_have_no_warning() -> None:
    text, warning = share_lines({"tasks": [FC.to_mapping()], "cpu_operators": []})
    assert "not tuned" not in text
    assert not warning
