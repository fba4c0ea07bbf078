# SPDX-License-Identifier: Apache-2.0
"""Messages of other libraries lose their places in C++ sources, and nothing else."""

from __future__ import annotations

import pytest

from tilewright.host.common.foreign_errors import reason_of

MODEL = "onnxruntime::Model::Model(onnx::ModelProto&&, const IOnnxRuntimeOpSchemaRegistryList*)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ValueError"),
        ("two\n  lines", "two lines"),
        ("no model.cc:3 here", "no model.cc:3 here"),
        (
            f"[ONNXRuntimeError] : 1 : FAIL : /src/core/model.cc:256 {MODEL} Unsupported (13)",
            "Unsupported (13)",
        ),
        (
            f"[ONNXRuntimeError] : 6 : FAIL : Reshape: /src/helper.h:45 {MODEL} a == b was false",
            "Reshape: a == b was false",
        ),
        (
            "/src/a.h:4 T& f::operator()(int (*)(int)) const a; /src/b.cc:5 g::h() b",
            "a; b",
        ),
        ("/src/a.h:4 without parameters", "/src/a.h:4 without parameters"),
        ("/src/a.h:4 f()", "/src/a.h:4 f()"),
    ],
)
def test_the_reason_is_what_is_left(text: str, reason: str) -> None:
    assert reason_of(ValueError(text)) == reason


def test_a_reason_has_a_longest_length() -> None:
    assert reason_of(ValueError("x" * 300), limit=7) == "x" * 7
