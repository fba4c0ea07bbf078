# SPDX-License-Identifier: Apache-2.0
"""The job analysis table: what it refuses, and its file."""

import numpy as np
import pytest

from tilewright.host.common.errors import WorkloadError
from tilewright.tuner.multicore.job_table import JobTable

INF = float("inf")


def test_reads_the_recorded_form(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(
        "row,lat_core0,lat_core1,reqbw_core0,reqbw_core1\na,10,inf,2,1\nb,30,20,0.5,4\n"
    )
    table = JobTable.from_csv(path)
    assert table.names == ("a", "b")
    assert table.latency.tolist() == [[10, INF], [30, 20]]
    assert table.bandwidth.tolist() == [[2, 1], [0.5, 4]]
    assert table.bytes.tolist() == [[20, INF], [15, 80]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns must be row, lat_core0"),
        ("row,lat_core0,reqbw_core1\n", "columns must be row"),
        ("row,lat_core0,reqbw_core0\na,1\n", r":2: must be a name and 2 numbers, not 'a,1'"),
        ("row,lat_core0,reqbw_core0\na,1,x\n", r":2: must be a name and 2 numbers"),
        ("row,lat_core0,reqbw_core0\n\na,1,x\n", r":3: must be a name and 2 numbers"),
        ("row,lat_core0,reqbw_core0\na,1,inf\n", r"jobs.csv: bandwidth\[0, 0\]: must be a number"),
        ("row,lat_core0,reqbw_core0\na,1,1\nb,1,1\na,2,1\n", r"must differ in name, not 'a'"),
        ("row,lat_core0,reqbw_core0\n", r"latency: must have the shape \[jobs, cores\]"),
    ],
)
def test_refuses_a_file_that_is_no_table(tmp_path, text, message):
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message):
        JobTable.from_csv(path)


def test_reads_the_files_of_spreadsheets(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("\ufeffrow,lat_core0,reqbw_core0\r\na,10,2\r\n\r\nb,30,4\r\n\r\n", newline="")
    assert JobTable.from_csv(path).names == ("a", "b")


def test_refuses_a_file_that_is_missing(tmp_path):
    with pytest.raises(WorkloadError, match="must be a readable CSV file"):
        JobTable.from_csv(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("latency", "bandwidth", "message"),
    [
        ([[1, 0]], [[1, 1]], r"latency\[0, 1\]: must be a number from 1e-100 .* or inf, not 0.0"),
        ([[1, float("nan")]], [[1, 1]], r"latency\[0, 1\]: must be a number from .*, not nan"),
        ([[1, 1e101]], [[1, 1]], r"latency\[0, 1\]: must be a number from .*, not 1e\+101"),
        ([[1, -INF]], [[1, 1]], r"latency\[0, 1\]: must be a number from .*, not -inf"),
        ([[1, 1]], [[1, INF]], r"bandwidth\[0, 1\]: must be a number from .* to 1e\+100, not inf"),
        ([[1, 1]], [[1, -1]], r"bandwidth\[0, 1\]: must be a number from"),
        ([[1, 1], [INF, INF]], [[1, 1]] * 2, r"latency\[1\]: at least one core must be able"),
        ([[1, 1]], [[1]], r"bandwidth: must have the shape of the latency, \(1, 2\), not \(1, 1\)"),
        ([1, 1], [1, 1], r"latency: must have the shape \[jobs, cores\]"),
        ([], [], r"latency: must have the shape \[jobs, cores\]"),
        ([["a"]], [[1]], "latency: must be numbers"),
    ],
)
def test_refuses_values_that_no_job_has(latency, bandwidth, message):
    with pytest.raises(WorkloadError, match=message):
        JobTable(latency, bandwidth)


def test_refuses_another_number_of_names():
    with pytest.raises(WorkloadError, match="names: must be 1 names, not 2"):
        JobTable([[1]], [[1]], names=("a", "b"))


def test_is_a_copy_that_cannot_be_written():
    latency = np.ones((1, 1))
    table = JobTable(latency, [[1]])
    latency[0, 0] = 5
    assert table.latency[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        table.latency[0, 0] = 2
