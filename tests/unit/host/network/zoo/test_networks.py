# SPDX-License-Identifier: Apache-2.0
"""The built-in tables against torch definitions, written here on their own and traced."""

from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch import nn

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.workload import Kind, conv2d
from tilewright.host.network.zoo import NetworkTable, collect, load_network, network_names

# -- independent definitions ----------------------------------------------------------------------


class Add(nn.Module):
    """Residual add as a module, so that the tracer sees it."""

    def forward(self, main, shortcut):
        return main + shortcut


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.add, self.relu = Add(), nn.ReLU()

    def forward(self, x):
        return self.relu(self.add(self.main(x), self.shortcut(x)))


def resnet(*blocks):
    widths = (64, 64, 128, 256, 512)
    stages = [
        BasicBlock(before if i == 0 else width, width, 2 if i == 0 and width > 64 else 1)
        for (before, width), n in zip(pairwise(widths), blocks, strict=True)
        for i in range(n)
    ]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 1000),
    )


def classifier(features):
    return [
        nn.Flatten(),
        nn.Linear(features, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    ]


def alexnet():
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        *classifier(9216),
    )


def vgg(layout):
    modules, channels = [], 3
    for item in layout.split():
        if item == "M":
            modules.append(nn.MaxPool2d(2))
        else:
            modules += [nn.Conv2d(channels, int(item), 3, padding=1), nn.ReLU()]
            channels = int(item)
    return nn.Sequential(*modules, *classifier(25088))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden, body = inputs * expand, []
        if expand > 1:
            body += [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        body += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.body = nn.Sequential(*body)
        self.add = Add() if stride == 1 and inputs == outputs else None

    def forward(self, x):
        y = self.body(x)
        return y if self.add is None else self.add(y, x)


def mobilenet_v2():
    modules, channels = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for t, c, n, s in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(n):
            modules.append(InvertedResidual(channels, c, s if i == 0 else 1, t))
            channels = c
    return nn.Sequential(
        *modules,
        nn.Conv2d(320, 1280, 1, bias=False),
        nn.BatchNorm2d(1280),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1280, 1000),
    )


class Fire(nn.Module):
    def __init__(self, inputs, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, squeeze, 1), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(squeeze, expand, 1), nn.ReLU())
        self.three = nn.Sequential(nn.Conv2d(squeeze, expand, 3, padding=1), nn.ReLU())

    def forward(self, x):
        x = self.squeeze(x)
        return torch.cat([self.one(x), self.three(x)], 1)


def squeezenet(version):
    def pool():
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    if version == "1.0":
        features = [
            nn.Conv2d(3, 96, 7, 2), nn.ReLU(), pool(),
            Fire(96, 16, 64), Fire(128, 16, 64), Fire(128, 32, 128), pool(),
            Fire(256, 32, 128), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), pool(),
            Fire(512, 64, 256),
        ]  # fmt: skip
    else:
        features = [
            nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(),
            Fire(64, 16, 64), Fire(128, 16, 64), pool(),
            Fire(128, 32, 128), Fire(256, 32, 128), pool(),
            Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        ]  # fmt: skip
    return nn.Sequential(*features, nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


DEFINITIONS = {
    "alexnet": alexnet,
    "vgg11": lambda: vgg("64 M 128 M 256 256 M 512 512 M 512 512 M"),
    "vgg13": lambda: vgg("64 64 M 128 128 M 256 256 M 512 512 M 512 512 M"),
    "vgg16": lambda: vgg("64 64 M 128 128 M 256 256 256 M 512 512 512 M 512 512 512 M"),
    "vgg19": lambda: vgg("64 64 M 128 128 M 256 256 256 256 M 512 512 512 512 M 512 512 512 512 M"),
    "resnet18": lambda: resnet(2, 2, 2, 2),
    "resnet34": lambda: resnet(3, 4, 6, 3),
    "mobilenet_v2": mobilenet_v2,
    "squeezenet1_0": lambda: squeezenet("1.0"),
    "squeezenet1_1": lambda: squeezenet("1.1"),
}

PUBLISHED = {
    # parameters, giga multiply-accumulates on one 224 x 224 image: torchvision's weight tables
    "alexnet": (61100840, 0.71),
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


def trace(model):
    """Run on a meta tensor; one record a convolution or dense layer, with what follows it."""
    records, owner, keep = [], {}, []

    def on_layer(module, inputs, output):
        (x,) = inputs
        if isinstance(module, nn.Conv2d):
            record = {
                "in": tuple(x.shape), "out": tuple(output.shape), "kernel": module.kernel_size,
                "stride": module.stride, "pad": module.padding, "groups": module.groups,
            }  # fmt: skip
        else:
            record = {
                "in": (*x.shape, 1, 1), "out": (*output.shape, 1, 1), "kernel": (1, 1),
                "stride": (1, 1), "pad": (0, 0), "groups": 1,
            }  # fmt: skip
        record |= {"relu": False, "residual": False, "weights": module.weight.numel()}
        records.append(record)
        owner[id(output)] = record
        keep.append(output)

    def on_follower(module, inputs, output):
        record = owner.get(id(inputs[0]))
        if record is None:
            return
        if isinstance(module, nn.ReLU | nn.ReLU6):
            record["relu"] = True
        elif isinstance(module, Add):
            record["residual"] = True
        owner[id(output)] = record
        keep.append(output)

    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(on_layer)
        elif isinstance(module, nn.ReLU | nn.ReLU6 | nn.BatchNorm2d | Add):
            module.register_forward_hook(on_follower)
    model.eval()(torch.empty(1, 3, 224, 224))
    return records


@pytest.fixture(scope="module")
def traced():
    with torch.device("meta"):
        models = {name: build() for name, build in DEFINITIONS.items()}
        return {name: (model, trace(model)) for name, model in models.items()}


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


class Encoder(nn.Module):
    """The base encoder of arXiv 1706.03762; `products` collects (rows, reduction, columns)."""

    def __init__(self):
        super().__init__()
        block = lambda: nn.ModuleDict(  # noqa: E731  (as in the paper's listing)
            {n: nn.Linear(512, 512) for n in "qkvo"}
            | {"inner": nn.Linear(512, 2048), "outer": nn.Linear(2048, 512)}
        )
        self.blocks = nn.ModuleList(block() for _ in range(6))
        self.products = Counter()

    def linear(self, layer, x, relu=False):
        self.products[(*x.shape[-2:], layer.out_features, relu)] += 1
        return torch.relu(layer(x)) if relu else layer(x)

    def matmul(self, a, b):
        for _ in range(a.shape[0]):  # one product a head
            self.products[(*a.shape[-2:], b.shape[-1], False)] += 1
        return a @ b

    def forward(self, x):
        heads = lambda t: t.unflatten(-1, (8, 64)).transpose(0, 1)  # noqa: E731  (as in the paper's listing)
        for b in self.blocks:
            q, k, v = (heads(self.linear(b[n], x)) for n in "qkv")
            weights = (self.matmul(q, k.transpose(1, 2)) / 8).softmax(-1)
            mixed = self.matmul(weights, v).transpose(0, 1).flatten(1)
            x = nn.functional.layer_norm(x + self.linear(b["o"], mixed), (512,))
            inner = self.linear(b["inner"], x, relu=True)
            x = nn.functional.layer_norm(x + self.linear(b["outer"], inner), (512,))
        return x


def test_transformer_encoder_equals_the_traced_definition():
    with torch.device("meta"):
        encoder = Encoder()
        assert encoder(torch.empty(128, 512)).shape == (128, 512)
    table = load_network("Transformer-encoder")
    found = Counter()
    for w in table.workloads:
        assert (w.width, w.kernel_h, w.kernel_w, w.residual) == (1, 1, 1, False)
        found[(w.height, w.channels_in, w.channels_out, w.relu)] += w.count
    assert found == encoder.products
    weights = sum(p.numel() for n, p in encoder.named_parameters() if n.endswith("weight"))
    assert weights == 6 * (4 * 512 * 512 + 2 * 512 * 2048)


def test_every_network_but_the_benchmark_has_a_definition():
    of_products = {"bert_base", "bert_tiny", "gpt2", "dlrm", "ncf", "wide_and_deep"}
    defined = {*DEFINITIONS, *of_products, "vta-resnet18", "transformer_encoder"}
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


def test_names_are_found_whatever_their_case_and_punctuation():
    assert load_network("ResNet-18") == load_network("resnet18")
    assert load_network("VGG_16").name == "vgg16"
    assert load_network("squeezenet").name == "squeezenet1_1"


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(WorkloadError) as caught:
        load_network("resnet19")
    assert caught.value.value == "resnet19"
    assert all(name in caught.value.remedy for name in network_names())


def test_unknown_layer_lists_the_known_ones():
    with pytest.raises(WorkloadError, match="use one of C1, C2"):
        load_network("resnet18")["C99"]


def test_collect_adds_counts_of_equal_work_and_keeps_the_first_name():
    a, b = conv2d("a", 8, 4, 4, 3, 1, 1, count=2), conv2d("b", 8, 4, 4, 3, 1, 1)
    merged = collect([a, conv2d("c", 8, 4, 4, 3, 1, 1, residual=True), b])
    assert [(w.name, w.count) for w in merged] == [("a", 3), ("c", 1)]


def test_table_refuses_equal_workloads_equal_names_and_emptiness():
    a = conv2d("a", 8, 4, 4, 3, 1, 1)
    with pytest.raises(WorkloadError, match="differ in key"):
        NetworkTable(name="t", workloads=(a, a.renamed("b")))
    with pytest.raises(WorkloadError, match="differ in name"):
        NetworkTable(name="t", workloads=(a, conv2d("a", 9, 4, 4, 3, 1, 1)))
    with pytest.raises(WorkloadError, match="at least one workload"):
        NetworkTable(name="t", workloads=())
