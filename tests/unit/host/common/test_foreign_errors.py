# SPDX-License-Identifier: Apache-2.0
"""Messages of other libraries lose their places in C++ sources, and nothing else."""

import pytest

from tilewright.host.common.errors import reason_of

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
        ("what: /src/a.h:4 T& f::operator()(int (*)(int)) const a", "what: a"),
        ("http://a/b.h:80 (see c) rest", "http://a/b.h:80 (see c) rest"),
        ("/src/a.h:4 without parameters", "/src/a.h:4 without parameters"),
        ("/src/a.h:4 f()", "/src/a.h:4 f()"),
    ],
)
def test_the_reason_is_what_is_left(text: str, reason: str) -> None:
    assert reason_of(ValueError(text)) == reason


@pytest.mark.parametrize(
    "piece", ["/", "/x.cc:1 f() ", "/a.h:1 (", "[ONNXRuntimeError] : 1 : A : "]
)
def test_a_text_that_a_file_chose_takes_no_time(piece: str) -> None:
    assert len(reason_of(ValueError(piece * 100_000))) <= 160


def test_a_reason_has_a_longest_length() -> None:
    assert reason_of(ValueError("x" * 300), limit=7) == "x" * 7
