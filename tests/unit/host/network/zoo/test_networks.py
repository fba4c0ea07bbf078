# SPDX-License-Identifier: Apache-2.0
"""The built-in tables against the torch definitions of `examples/networks`, traced."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.workload import Kind, conv2d
from tilewright.host.network.zoo import NetworkTable, load_network, network_names

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "examples"))

from networks.alexnet import AlexNet
from networks.mobilenet import MobileNetV2
from networks.resnet import resnet18, resnet34
from networks.squeezenet import Fire, SqueezeNet
from networks.vgg import VGG


def squeezenet1_0():
    """The first version has wider layers before, and pools later."""
    model = SqueezeNet()
    pools = [nn.MaxPool2d(3, 2, ceil_mode=True) for _ in range(3)]
    model.features = nn.Sequential(
        nn.Conv2d(3, 96, 7, 2), nn.ReLU(), pools[0],
        Fire(96, 16, 64), Fire(128, 16, 64), Fire(128, 32, 128), pools[1],
        Fire(256, 32, 128), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), pools[2],
        Fire(512, 64, 256),
    )  # fmt: skip
    return model


def vgg(*depths):
    widths = (64, 128, 256, 512, 512)
    return VGG(stages=tuple((width,) * n for width, n in zip(widths, depths, strict=True)))


def _normalised(channels_in, channels_out, kernel, stride=1):
    convolution = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU())


class Inception(nn.Module):
    """Four branches side by side."""

    def __init__(self, size, one, three_reduced, three, five_reduced, five, pooled):
        super().__init__()
        self.branches = nn.ModuleList(
            [
                _normalised(size, one, 1),
                nn.Sequential(
                    _normalised(size, three_reduced, 1), _normalised(three_reduced, three, 3)
                ),
                nn.Sequential(
                    _normalised(size, five_reduced, 1), _normalised(five_reduced, five, 3)
                ),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), _normalised(size, pooled, 1)),
            ]
        )

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def googlenet():
    def pool():
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        _normalised(3, 64, 7, 2), pool(), _normalised(64, 64, 1), _normalised(64, 192, 3), pool(),
        Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), pool(),
        Inception(480, 192, 96, 208, 16, 48, 64), Inception(512, 160, 112, 224, 24, 64, 64),
        Inception(512, 128, 128, 256, 24, 64, 64), Inception(512, 112, 144, 288, 32, 64, 64),
        Inception(528, 256, 160, 320, 32, 128, 128), pool(),
        Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000),
    )  # fmt: skip


DEFINITIONS = {
    "googlenet": googlenet,
    "alexnet": AlexNet,
    "vgg11": lambda: vgg(1, 1, 2, 2, 2),
    "vgg13": lambda: vgg(2, 2, 2, 2, 2),
    "vgg16": VGG,
    "vgg19": lambda: vgg(2, 2, 4, 4, 4),
    "resnet18": resnet18,
    "resnet34": resnet34,
    "mobilenet_v2": MobileNetV2,
    "squeezenet1_0": squeezenet1_0,
    "squeezenet1_1": SqueezeNet,
}

PUBLISHED = {
    # parameters, giga multiply-accumulates on one 224 x 224 image: torchvision's weight tables
    "alexnet": (61100840, 0.71),
    "googlenet": (6624904, 1.50),
    "vgg11": (132863336, 7.61),
    "vgg13": (133047848, 11.31),
    "vgg16": (138357544, 15.47),
    "vgg19": (143667240, 19.63),
    "resnet18": (11689512, 1.81),
    "resnet34": (21797672, 3.66),
    "mobilenet_v2": (3504872, 0.30),
    "squeezenet1_0": (1248424, 0.82),
    "squeezenet1_1": (1235496, 0.35),
}


class Tracing(TorchFunctionMode):
    """One record a convolution or dense layer, with the ReLU and the addition that follow it."""

    def __init__(self):
        self.records, self._owner, self._read, self._keep = [], {}, set(), []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.__name__
        record = None
        if name in ("conv2d", "linear"):
            record = self._layer(name, result, *args)
            self.records.append(record)
            self._read.add(id(args[0]))
        elif name in ("relu", "relu6", "hardtanh", "batch_norm"):
            record = self._owner.get(id(args[0]))
            if record is not None and name != "batch_norm":
                record["relu"] = True
        elif name in ("add", "__add__"):  # to the sum of what no layer has read yet
            record = next(self._owner[id(x)] for x in args if id(x) not in self._read)
            record["residual"] = True
        if record is not None:
            self._owner[id(result)] = record
            self._keep.append(result)
        return result

    @staticmethod
    def _layer(name, result, x, weight, bias=None, stride=(1, 1), pad=(0, 0), *more):
        ends, kernel = ((), weight.shape[2:]) if name == "conv2d" else ((1, 1), (1, 1))
        return {
            "in": (*x.shape, *ends), "out": (*result.shape, *ends), "kernel": tuple(kernel),
            "stride": stride, "pad": pad, "groups": more[1] if more else 1, "relu": False,
            "residual": False, "weights": weight.numel(),
        }  # fmt: skip


@pytest.fixture(scope="module")
def traced():
    found = {}
    with torch.device("meta"):
        for name, build in DEFINITIONS.items():
            model = build().eval()
            with Tracing() as tracing:
                model(torch.empty(1, 3, 224, 224))
            found[name] = model, tracing.records
    return found


def signature_of_record(record):
    return (
        record["in"], record["out"], record["kernel"], record["stride"], record["pad"],
        record["groups"] > 1, record["relu"], record["residual"],
    )  # fmt: skip


def signature_of_workload(w):
    assert (w.pad_top, w.pad_left) == (w.pad_bottom, w.pad_right)
    assert (w.dilation_h, w.dilation_w) == (1, 1)
    return (
        w.input_shape, w.output_shape, (w.kernel_h, w.kernel_w), (w.stride_h, w.stride_w),
        (w.pad_top, w.pad_left), w.kind is Kind.DEPTHWISE, w.relu, w.residual,
    )  # fmt: skip


@pytest.mark.parametrize("name", DEFINITIONS)
def test_table_equals_the_traced_definition(name, traced):
    _, records = traced[name]
    table = load_network(name)
    expected = Counter(map(signature_of_record, records))
    assert {signature_of_workload(w): w.count for w in table.workloads} == expected
    assert table.layers == len(records)
    assert table.weight_elements == sum(r["weights"] for r in records)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition_and_table_have_the_published_size(name, traced):
    model, _ = traced[name]
    parameters, giga_macs = PUBLISHED[name]
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert load_network(name).macs / 1e9 == pytest.approx(giga_macs, abs=0.005)


def test_every_network_but_the_benchmark_has_a_definition():
    of_products = {
        "transformer_encoder", "bert_base", "bert_tiny", "gpt2", "dlrm", "ncf", "wide_and_deep",
    }  # fmt: skip
    defined = {*DEFINITIONS, *of_products, "vta-resnet18"}
    assert set(network_names()) == defined


def test_vta_layers_have_the_shapes_and_counts_of_resnet18():
    def shapes(table, names):
        counts = Counter()
        for w in table.workloads:
            if w.name.rstrip("r") in names:
                counts[(w.input_shape, w.weight_shape, w.stride_h, w.pad_top)] += w.count
        return counts

    names = {f"C{i}" for i in range(1, 12)}
    assert shapes(load_network("vta-resnet18"), names) == shapes(load_network("resnet18"), names)


def test_vta_layers_take_the_cycles_that_the_design_states_at_256_macs_a_cycle():
    table = load_network("vta-resnet18")
    assert {table[n].macs / 256 for n in ("C4", "C7", "C10")} == {25_088}
    assert table["C11"].macs / 256 == 451_584
    assert sum(w.count * w.macs for w in table.workloads if w.name != "C1") / 256 == 6_623_232
    assert [w.count for w in table.workloads[1:]] == [4, 1, 1, 3, 1, 1, 3, 1, 1, 3]


def test_table_refuses_equal_workloads_equal_names_and_emptiness():
    a = conv2d("a", 8, 4, 4, 3, 1, 1)
    with pytest.raises(WorkloadError, match="differ in key"):
        NetworkTable(name="t", workloads=(a, a.renamed("b")))
    with pytest.raises(WorkloadError, match="differ in name"):
        NetworkTable(name="t", workloads=(a, conv2d("a", 9, 4, 4, 3, 1, 1)))
    with pytest.raises(WorkloadError, match="at least one workload"):
        NetworkTable(name="t", workloads=())
