# SPDX-License-Identifier: Apache-2.0
"""Files of a folder on the accelerator, and beside LiteRT where it is installed."""

import numpy as np
import pytest
from support.documents.json_members import COMMANDS
from support.networks.litert_outputs import INSTALLED
from support.networks.tflite_members import drawn
from support.randomness import fresh_rng

from tilewright.bench.commands import NetworksSettings
from tilewright.bench.framework.study import run_study
from tilewright.bench.networks import tflite_files
from tilewright.bench.networks.tflite_files import TfliteFiles, largest_gap, largest_steps
from tilewright.host.common.errors import ConfigError
from tilewright.host.compiler.read.tflite.file import parse_tflite
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig


def settings(folder) -> NetworksSettings:
    return NetworksSettings(tflite=str(folder), quick=True, search=0, fidelity="twin")


def test_a_folder_without_quantised_files_is_refused(tmp_path) -> None:
    (tmp_path / "float.tflite").write_bytes(drawn("relu-float32", fresh_rng()).file)
    with pytest.raises(ConfigError, match="--tflite: must be a folder with quantised"):
        TfliteFiles(settings(tmp_path))


def test_each_quantised_file_has_a_row_and_a_line_of_the_tables(tmp_path) -> None:
    (tmp_path / "small.tflite").write_bytes(drawn("network", fresh_rng()).file)
    study = TfliteFiles(settings(tmp_path))
    result = run_study(study)
    (row,) = result.rows
    keys = {key.removesuffix("?") for key in COMMANDS["bench networks --tflite"]["rows"]}
    assert set(row) <= keys
    assert ("largest_steps_operator" in row) == INSTALLED
    assert (row["inputs"], row["macs"] > 0) == (2, True)
    assert (row["mac_share"] > 0) == (row["regions"] > 0)  # it may not be worth a call
    for table in study.tables(result.document):
        assert {len(line) for line in table.rows} == {len(table.header)}


def test_an_operator_that_gives_other_numbers_is_told() -> None:
    """The tensors of a network with one operator's result moved by three steps."""
    member = drawn("max-pool-int8", fresh_rng())
    source = parse_tflite(member.file, None)
    hw, board = load_hwconfig("pynq-16x16-rows"), load_board("pynq-z2")
    result = source.outputs[0]
    shape, data = source.tensors[result].shape, member.inputs[0]
    zeros = {source.inputs[0]: np.full_like(data, 7), result: np.full(shape, 7, np.int8)}
    low, high = parse_bounds(source)
    zeros[result] = np.clip(zeros[result], low, high).astype(np.int8)
    assert [steps for _, steps, _ in largest_steps(source, [zeros], hw, board)] == [0]
    zeros[result] = zeros[result] - np.int8(3)
    ((kind, steps, equal),) = largest_steps(source, [zeros], hw, board)
    assert (kind, steps, equal) == ("MAX_POOL_2D", 3, 0.0)
    assert largest_gap([np.int8([-128])], [np.int8([127])]) == 255


def parse_bounds(source) -> tuple[int, int]:
    """Steps that the activation inside the pool leaves."""
    stated = source.tensors[source.outputs[0]].quantisation
    fused = source.operations[0].options["FusedActivationFunction"]
    low, high = {0: (-1e9, 1e9), 1: (0, 1e9), 2: (-1, 1), 3: (0, 6)}[fused]
    scale, zero = float(stated.scale[0]), int(stated.zero_point[0])
    steps = [np.clip(round(end / scale) + zero, -128, 127) for end in (low, high)]
    return int(steps[0]), int(steps[1])


def test_data_that_stand_beside_a_network_are_added(tmp_path) -> None:
    path = tmp_path / "small.tflite"
    member = drawn("network", fresh_rng())
    path.write_bytes(member.file)
    shape = member.inputs[0].shape
    np.save(path.with_suffix(".npy"), np.zeros((3, *shape[1:]), np.float32))
    (row,) = run_study(TfliteFiles(settings(tmp_path))).rows
    assert row["inputs"] == 2 + 3
    assert tflite_files.INPUTS > 2
