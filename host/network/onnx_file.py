# SPDX-License-Identifier: Apache-2.0
"""ONNX files as untrusted input: what every reader of one checks, and how it says what is wrong.

`host.compiler.read.model_file` reads the whole model with its weights.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # ships no types

from tilewright.host.common.errors import WorkloadError, reason_of
from tilewright.host.network.foreign_models import foreign_model

DEFAULT_DOMAINS: Final = ("", "ai.onnx")
"""Of the operators of standard ONNX."""

MAX_FILE_BYTES: Final = 2**31 - 1
"""Protobuf refuses larger messages."""

MAX_TENSOR_ELEMENTS: Final = 2**31
"""Of the largest tensor that a model may name."""


def parse_model(path: Path) -> Any:
    """The model (ModelProto) that a file holds, not checked further; external data stay outside."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise WorkloadError(
                "a model must be a regular file",
                field=str(path),
                remedy="name the .onnx file itself, not its folder",
            )
        if status.st_size > MAX_FILE_BYTES:
            raise WorkloadError(
                "an ONNX file must be smaller than 2 GiB",
                field=str(path),
                value=status.st_size,
                remedy="save the weights as external data",
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise WorkloadError(
            "a model must be a readable file",
            field=str(path),
            remedy=getattr(error, "strerror", None) or str(error),
        ) from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise foreign_model(path) or WorkloadError(
            "must be an ONNX model (the file is truncated or is not protobuf)",
            field=str(path),
            remedy="export or copy it again",
        ) from error
    return model


def require_nodes(model: Any, path: Path) -> None:
    """Refuse a model that says nothing: protobuf takes many a file for one."""
    if not model.graph.node or not model.opset_import:
        raise foreign_model(path) or WorkloadError(
            "must be an ONNX model with an operator set and at least one node",
            field=str(path),
            remedy="export or copy it again",
        )


def messages_of(message: Any) -> Iterator[Any]:
    """A message of protobuf and all that it holds, at whatever place its format has for one."""
    waiting = [message]
    while waiting:
        each = waiting.pop()
        yield each
        for field, value in each.ListFields():
            if field.message_type is not None:
                waiting.extend((value,) if isinstance(value, Message) else value)


def tensors_of(message: Any) -> Iterator[Any]:
    """Every TensorProto in a message: constants, attributes, parts of sparse ones, bodies, all."""
    return (each for each in messages_of(message) if isinstance(each, onnx.TensorProto))


def is_external(tensor: Any) -> bool:
    """Whether the data of a TensorProto are, or may be taken to be, in another file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL or bool(tensor.external_data)


def require_external_file(tensor: Any, path: Path) -> None:
    """Refuse external data that are no file in the model's directory."""
    location = next((e.value for e in tensor.external_data if e.key == "location"), "")
    target = Path(location)
    file = path.parent / target
    if (
        not location
        or target.is_absolute()
        or ".." in target.parts
        or not file.is_file()
        or not file.resolve().is_relative_to(path.parent.resolve())
    ):
        raise WorkloadError(
            "external data must be a file in the model's directory",
            field=f"{path}: {short(tensor.name)}",
            value=short(location),
            remedy="copy it beside the model, or save the model with its weights inside",
        )


def names_are_text(node: Any) -> bool:
    """Whether a node's names are UTF-8: protobuf hands out others as bytes."""
    texts = (node.op_type, node.domain, node.name, *node.input, *node.output)
    return not any(isinstance(text, bytes) for text in texts)


def malformed(path: Path, error: Exception) -> WorkloadError:
    """The error for a model whose defect only shows as a failure of some library."""
    detail = reason_of(error, 120)
    return WorkloadError(
        f"must be a well-formed ONNX model ({detail})",
        field=str(path),
        remedy="export it again and check it with onnx.checker",
    )


def batch_of_zero(path: Path, name: str) -> WorkloadError:
    """The error for an input that states to hold nothing; a batch that is left open is 1."""
    return WorkloadError(
        "must not have a batch of 0",
        field=f"{path}: {short(name)}",
        remedy="export it with a batch of 1, or with an open one",
    )


def short(text: str | bytes) -> str:
    """Printable text of bounded length, for messages.

    Protobuf hands out a string field that is not UTF-8 as bytes.
    """
    if isinstance(text, bytes):
        text = text[:60].decode(errors="replace")
    return "".join(c if c.isprintable() else "?" for c in text[:60])
