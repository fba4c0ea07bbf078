# SPDX-License-Identifier: Apache-2.0
"""Tables of Transformers and recommenders against torch definitions, whose products are counted."""

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tilewright.host.network.zoo import load_network

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "examples"))

from networks.transformer import Encoder

PRODUCTS_BY_NAME = {"__matmul__", "matmul", "bmm"}


class Counting(TorchFunctionMode):
    """Counts products as (rows, reduction, columns), one for each pair of matrices."""

    def __init__(self):
        self.products = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is nn.functional.linear:
            rows = args[0].numel() // args[0].shape[-1]
            self.products[(rows, *args[1].shape[::-1])] += 1
        elif func.__name__ in PRODUCTS_BY_NAME:
            left, right = args[0], args[1]
            pairs = left.numel() // (left.shape[-2] * left.shape[-1])
            self.products[(*left.shape[-2:], right.shape[-1])] += pairs
        return result


class Block(nn.Module):
    """A Transformer's layer; dropout and masks leave products alone."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = (
            nn.Linear(*shape) for shape in ((width, width), (width, inner), (inner, width))
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in self.qkv)
        scores = (q @ k.transpose(-1, -2)).softmax(-1)
        x = self.norms[0](x + self.out((scores @ v).transpose(-2, -3).flatten(-2)))
        return self.norms[1](x + self.down(nn.functional.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.words = nn.Embedding(30522, width)
        self.positions, self.kinds = nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, heads, 4 * width) for _ in range(layers)))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens):
        x = self.norm(self.words(tokens) + self.positions.weight[: tokens.shape[-1]])
        return self.pooler(self.blocks(x)[0]).tanh()


class FusedBlock(Block):
    """GPT-2 has one product for query, key and value."""

    def __init__(self, width, heads, inner):
        super().__init__(width, heads, inner)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        x = x + self.out(((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(-2, -3).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.Sequential(*(FusedBlock(768, 12, 3072) for _ in range(12)))
        self.norm = nn.LayerNorm(768)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions.weight[: tokens.shape[-1]]
        return nn.functional.linear(self.norm(self.blocks(x)), self.words.weight)


def perceptron(*widths):
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.bottom = perceptron(13, 512, 256, 128)
        self.tables = nn.ModuleList(nn.Embedding(100, 128) for _ in range(26))
        self.top = perceptron(351 + 128, 1024, 1024, 512, 256)
        self.score = nn.Linear(256, 1)

    def forward(self, numbers, kinds):
        dense = self.bottom(numbers)
        looked_up = [table(kinds[:, i]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *looked_up], 1)
        rows, columns = torch.tril_indices(27, 27, -1)
        pairs = (vectors @ vectors.transpose(1, 2))[:, rows, columns]
        return self.score(self.top(torch.cat([dense, pairs], 1))).sigmoid()


class NeuMf(nn.Module):
    def __init__(self):
        super().__init__()
        self.factors = nn.ModuleList(nn.Embedding(10, 64) for _ in range(2))
        self.vectors = nn.ModuleList(nn.Embedding(10, 128) for _ in range(2))
        self.mlp = perceptron(256, 256, 128, 64)
        self.score = nn.Linear(128, 1)

    def forward(self, ids):
        product = self.factors[0](ids[:, 0]) * self.factors[1](ids[:, 1])
        both = torch.cat([table(ids[:, i]) for i, table in enumerate(self.vectors)], 1)
        return self.score(torch.cat([product, self.mlp(both)], 1)).sigmoid()


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep, self.score = perceptron(1200, 1024, 512, 256), nn.Linear(256, 1)

    def forward(self, embedded):
        return self.score(self.deep(embedded))


def tokens():
    return torch.empty(128, dtype=torch.long)


def ids(count):
    return torch.empty(1, count, dtype=torch.long)


DEFINITIONS = {
    "transformer_encoder": (
        lambda: Encoder(layers=6, width=512, heads=8, hidden=2048),
        lambda: (torch.empty(1, 128, 512),),
    ),
    "bert_base": (lambda: Bert(12, 768, 12), lambda: (tokens(),)),
    "bert_tiny": (lambda: Bert(2, 128, 2), lambda: (tokens(),)),
    "gpt2": (Gpt2, lambda: (tokens(),)),
    "dlrm": (Dlrm, lambda: (torch.empty(1, 13), ids(26))),
    "ncf": (NeuMf, lambda: (ids(2),)),
    "wide_and_deep": (WideAndDeep, lambda: (torch.empty(1, 1200),)),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_products_equal_those_of_the_definition(name):
    build, inputs = DEFINITIONS[name]
    with torch.device("meta"):
        model, given = build(), inputs()
        with Counting() as counting:
            model(*given)
    found = Counter()
    for w in load_network(name).workloads:
        assert (w.width, w.kernel_h, w.kernel_w, w.residual) == (1, 1, 1, False)
        found[(w.height, w.channels_in, w.channels_out)] += w.count
    assert found == counting.products


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("bert_base", 109_482_240), ("bert_tiny", 4_385_920), ("gpt2", 124_439_808)],
)
def test_definitions_have_the_published_size(name, parameters):
    with torch.device("meta"):
        assert sum(p.numel() for p in DEFINITIONS[name][0]().parameters()) == parameters


def test_the_encoder_has_relu_where_the_paper_has_it():
    assert [w.name for w in load_network("transformer_encoder").workloads if w.relu] == ["inner"]
