# SPDX-License-Identifier: Apache-2.0
"""Settings of a study put together from names."""

from tilewright.tuner.report.summary import share_lines
from tilewright.tuner.study.options import TuneOptions
from tilewright.tuner.study.prepare import prepare_settings


def test_layers_that_are_not_named_count_as_left_out() -> None:
    whole = prepare_settings(TuneOptions("resnet18"))
    some = prepare_settings(TuneOptions("resnet18", layers=["C10"]))
    macs = sum(task.macs * task.count for task in whole.tasks)
    assert [task.name for task in some.tasks] == ["C10"]
    (task,) = some.tasks
    assert some.cpu_macs == whole.cpu_macs + macs - task.macs * task.count
    text, warning = share_lines(some.to_mapping())
    layers = sum(task.count for task in whole.tasks) - task.count
    assert f"{layers} layers that --layers does not name" in text
    assert "the cycles are not those of the network" in warning
    assert not share_lines(whole.to_mapping())[1]
