# SPDX-License-Identifier: Apache-2.0
"""ONNX's own cases of each operator: what compiles runs, and gives what ONNX Runtime gives."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from support.networks.compiled_runs import assert_computes, beside_a_layer
from support.randomness import fresh_rng, sample, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.relax_partition import TAKEN_KINDS
from tilewright.host.compiler.pipeline import partition

CASES = 12
"""In a test."""

ROUNDED = {*TAKEN_KINDS, "Mul", "Div"} - {"Clip", "Relu", "Reshape", "Transpose"}
"""Kinds that become int8 beside a layer: `test_random_networks` and others hold those."""

DTYPES = {"bool", "float32", "float64", "int8", "int32", "int64", "uint8"}


@cache
def cases() -> list[tuple[str, onnx.ModelProto, dict[str, np.ndarray]]]:
    """Name, model and inputs of those that our models can hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415  (computes much)

        every = collect_testcases(None)
    found = []
    for case in every:
        arrays = case.data_sets[0][0]
        if fits(case.model, arrays):
            names = [value.name for value in case.model.graph.input]
            found.append((case.name, case.model, dict(zip(names, arrays, strict=True))))
    return found


def fits(model: onnx.ModelProto, arrays: list[Any]) -> bool:
    plain = all(
        isinstance(a, np.ndarray) and str(a.dtype) in DTYPES and a.size and np.isfinite(a).all()
        for a in arrays
    )
    kinds = {node.op_type for node in model.graph.node}
    versions = [entry.version for entry in model.opset_import if entry.domain == ""]
    standard = all(node.domain == "" for node in model.graph.node)
    return plain and standard and bool(versions) and versions[0] >= 13 and not kinds & ROUNDED


def runs(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> bool:
    """Whether ONNX Runtime computes a model at all, to finite numbers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        results = session.run(None, inputs)
    except Exception:  # it raises kinds of its own
        return False
    return all(isinstance(r, np.ndarray) and r.size and r.dtype != object for r in results)


@pytest.mark.parametrize("number", sample(1, 60))
def test_operators_of_onnx(number: int) -> None:
    rng = fresh_rng()
    known = cases()
    assert len(known) > 500
    computed = 0
    for index in rng.permutation(len(known)):
        name, model, inputs = known[index]
        if not runs(model, inputs):
            continue
        try:
            network = beside_a_layer(model, inputs)
            partition(network)
        except WorkloadError:
            continue  # refused when it is compiled, not when it runs
        try:
            assert_computes(network, model, inputs, 1e-3)
        except Exception as error:
            raise AssertionError(where(case=name)) from error
        computed += 1
        if computed == CASES:
            return
    raise AssertionError("no more cases")
