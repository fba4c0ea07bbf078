# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.command_line import call

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.host.network.layer_table import load_layer_table
from tilewright.host.network.layout import behind_a_layer, chains, folds
from tilewright.host.network.workload import (
    MAX_REDUCTION,
    Kind,
    Workload,
    conv2d,
)

SMALL = st.integers(1, 4)


@st.composite
def workloads(draw):
    kind = draw(st.sampled_from(Kind))
    channels = draw(st.integers(1, 8))
    plain, padded = not kind.weighs, kind.weighs or kind is Kind.MAXPOOL
    names = ("kernel_h", "kernel_w", "stride_h", "stride_w")
    windows = kind.alone and not kind.pairs
    values = {name: draw(SMALL) if windows else 1 for name in names}
    values |= {name: 1 if plain else draw(SMALL) for name in ("dilation_h", "dilation_w")}
    values |= {
        f"pad_{side}": draw(st.integers(0, 3)) if padded else 0
        for side in ("top", "bottom", "left", "right")
    }
    try:
        return Workload(
            name=draw(st.text(max_size=5)),
            kind=kind,
            n=draw(SMALL),
            height=draw(st.integers(1, 16)),
            width=draw(st.integers(1, 16)),
            channels_in=channels,
            channels_out=draw(st.integers(1, 8)) if kind is Kind.CONV2D else channels,
            relu=draw(st.booleans()),
            residual=not plain and draw(st.booleans()),
            weight_bits=draw(st.sampled_from([8, 4])) if kind is Kind.CONV2D else 8,
            count=draw(SMALL),
            **values,
        )
    except WorkloadError as error:
        assume("kernel must fit" not in error.rule)
        raise


@settings(deadline=None)
@given(workloads())
def test_output_shape_is_the_one_that_torch_computes(w):
    x = torch.nn.functional.pad(
        torch.zeros(w.input_shape, device="meta"),
        (w.pad_left, w.pad_right, w.pad_top, w.pad_bottom),
    )
    if not w.kind.weighs:  # a product has a window of one pixel
        y = torch.nn.functional.max_pool2d(
            x.double(), (w.kernel_h, w.kernel_w), (w.stride_h, w.stride_w)
        )
        assert w.output_shape == tuple(y.shape)
        assert (w.macs, w.reduction, prod(w.weight_shape)) == (0, 0, 0)
        return
    groups = w.channels_in if w.kind is Kind.DEPTHWISE else 1
    y = torch.nn.functional.conv2d(
        x, torch.zeros(w.weight_shape, device="meta"), None, (w.stride_h, w.stride_w), 0,
        (w.dilation_h, w.dilation_w), groups,
    )  # fmt: skip
    assert w.output_shape == tuple(y.shape)
    assert w.macs == y.numel() * w.reduction


@settings(deadline=None)
@given(workloads())
def test_mapping_round_trip_keeps_everything(w):
    again = Workload.from_mapping(w.to_mapping())
    assert again == w
    assert again.count == w.count
    assert again.key == w.key
    assert all(type(v) in (int, str, bool) for v in w.to_mapping().values())


@settings(deadline=None)
@given(workloads(), workloads())
def test_keys_are_equal_exactly_when_the_computation_is(a, b):
    same = a.renamed("x", count=1) == b.renamed("x", count=1)
    assert (a.key == b.key) == same
    assert a.renamed("other", count=9).key == a.key


def base(**changes):
    return Workload(**{"name": "w", "height": 8, "width": 8, "channels_in": 4, "channels_out": 4}
                    | changes)  # fmt: skip


POSITIVE = ("n", "height", "width", "channels_in", "channels_out", "kernel_h", "kernel_w",
            "stride_h", "stride_w", "dilation_h", "dilation_w", "count")  # fmt: skip


PADS = ("pad_top", "pad_bottom", "pad_left", "pad_right")
POOL, ROWS = {"kind": Kind.MAXPOOL}, {"kind": Kind.ROWS}
REFUSED = [
    *(({field: value}, field, "at least 1")
      for field in POSITIVE for value in (0, -1, 1.0, True, "1", None)),
    *(({field: value}, field, "at least 0") for field in PADS for value in (-1, 0.0, False)),
    *(({"weight_bits": bits}, "weight_bits", "must be 8, or 4 for a conv2d")
      for bits in (0, 3, 5, 16, "8")),
    ({"kind": Kind.DEPTHWISE, "weight_bits": 4}, "weight_bits", "must be 8, or 4 for a conv2d"),
    ({"kernel_h": 9}, "", "kernel must fit"),
    ({"kernel_w": 5, "dilation_w": 2}, "", "kernel must fit"),
    ({"kind": Kind.DEPTHWISE, "channels_out": 5}, "", "as many output as input channels"),
    (POOL | {"channels_out": 5}, "channels_out", "as many output as input channels"),
    (POOL | {"dilation_h": 2}, "dilation_h", "must be 1 for a maxpool workload"),
    (POOL | {"dilation_w": 3}, "dilation_w", "must be 1 for a maxpool workload"),
    (POOL | {"residual": True}, "residual", "must be False for a maxpool workload"),
    *((ROWS | {field: value}, field, "") for field, value in
      (("kernel_h", 2), ("stride_w", 2), ("pad_top", 1), ("dilation_h", 2), ("channels_out", 5))),
    ({"channels_in": MAX_REDUCTION + 1}, "", "overflow int32"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "rule"), REFUSED)
def test_what_is_no_workload_is_refused_by_its_field(changes, field, rule):
    with pytest.raises(WorkloadError, match=rule or None) as caught:
        base(**changes)
    assert not field or caught.value.field == f"w.{field}"


def test_what_has_8_bits_is_written_down_as_it_was_before_there_were_4():
    assert "weight_bits" not in base().to_mapping()
    assert base(weight_bits=4).to_mapping()["weight_bits"] == 4
    assert base().key == "d03fcb2e2762887e"


@pytest.mark.parametrize(
    "change", [{"color": 3}, {"kind": "conv3d"}, {"height": "8"}, {"height": None}, {"width": ...}]
)
def test_bad_mappings_are_refused(change):
    data = {k: v for k, v in (base().to_mapping() | change).items() if v is not ...}
    with pytest.raises(WorkloadError, match="width" if "width" in change else None):
        Workload.from_mapping(data)


# -- A table of layers in YAML is a network, wherever one is named --------------------------------

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "plugin" / "tilewright_example"
ONE = "{name: a, height: 4, width: 4, channels_in: 8, channels_out: 8}"


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("name: x\n", "layers: must be a list of layers"),
        ("layers: []\n", "must be a list of layers"),
        ("layers: [3]\n", "layer 1: must be a mapping"),
        (f"layers: [{ONE}]\nlayer: 1\n", "layer: unknown key; did you mean layers"),
        (
            f"layers: [{ONE.replace('width', 'widht')}]\n",
            "widht: unknown key .*; did you mean width",
        ),
        (f"layers: [{ONE.replace('width: 4, ', '')}]\n", "layer 1: width: must be stated"),
        (f"layers: [{ONE.replace('width: 4', 'width: 0')}]\n", r"layer 1: a\.width: must be an"),
        (f"layers: [{ONE.replace('name: a', 'name: 7')}]\n", "layer 1: name: must be text"),
        (f"layers: [{ONE}, {ONE.replace('8}', '9}')}]\n", "must differ in name"),
    ],
)
def test_what_is_wrong_is_told_with_its_layer(write, text, wrong) -> None:
    path = write(text)
    with pytest.raises(WorkloadError, match=wrong) as caught:
        load_layer_table(path)
    assert caught.value.field.startswith(f"{path}: ") or caught.value.field == str(path)


def test_a_layer_of_a_table_runs_on_the_memory_of_a_boards_file(write) -> None:
    path, board = write(f"layers: [{ONE}]\n"), EXAMPLE / "zybo-z7-10.yaml"
    assert load_memory(board) == load_board(board).memory
    words = ["sim", "a", "--network", str(path), "--hw", "tiny-4x4", "--memory", str(board)]
    done = call(*words, "--device", "twin")
    assert done.exit_code == 0, done.output
    assert "bit-exact" in done.output


def test_a_layer_behind_another_is_itself_where_no_block_is_filled_better(tmp_path):
    """Otherwise equal layers of a table would be searched twice."""
    few, many = (conv2d("a", 8, channels, 8, kernel=3, pad=1) for channels in (8, 64))
    assert behind_a_layer(few).chained
    assert behind_a_layer(many) == many
    path = tmp_path / "t.yaml"
    layers = [replace(each, chained=chained) for each in (few, many) for chained in (False, True)]
    named = [each.renamed(f"L{n}").to_mapping() for n, each in enumerate(layers)]
    path.write_text(json.dumps({"layers": named}))
    table = load_layer_table(path)
    assert [(each.name, each.chained) for each in table.workloads] == [
        ("L0", False), ("L1", True), ("L2", False)
    ]  # fmt: skip
    assert table.same == {"L3": "L2"}


@pytest.mark.parametrize("name", named_configs())
def test_kernel_columns_of_a_layer_behind_another_are_folded_by_nobody_but_the_host(name):
    hw, layer = load_hwconfig(name), conv2d("a", 8, 3, 8, kernel=3, pad=1)
    assert folds(hw, behind_a_layer(layer)) == (folds(hw, layer) and not chains(hw))
