# SPDX-License-Identifier: Apache-2.0
"""PyTorch networks as ONNX models."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tilewright.host.common.errors import ToolError, WorkloadError, reason_of
from tilewright.host.common.extras import install_line
from tilewright.host.compiler.read.torch_archive import plain_archive

Array = npt.NDArray[Any]


def export_module(module: Any, example_inputs: Sequence[Array]) -> onnx.ModelProto:
    """An ONNX model of an ``nn.Module`` in inference mode, or of an ``ExportedProgram``."""
    torch = _torch()
    if isinstance(module, torch.export.ExportedProgram):
        return _exported(module, ())
    if not isinstance(module, torch.nn.Module):
        raise WorkloadError(
            "must be a path, an nn.Module or an ExportedProgram",
            field="network",
            value=type(module).__name__,
            remedy="give one of these; torch.export.export makes the last",
        )
    if not example_inputs:
        raise WorkloadError(
            "an nn.Module needs example inputs",
            field="options.example_inputs",
            remedy="give arrays in the shapes of the module's arguments",
        )
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            tensors = tuple(torch.from_numpy(np.asarray(a, order="C")) for a in example_inputs)
            return _exported(module, tensors)
    finally:
        module.train(was_training)


def export_file(path: Path, *, named: Path | None = None, trusted: bool = False) -> onnx.ModelProto:
    """An ONNX model of a ``.pt2`` file that ``torch.export.save`` wrote."""
    torch = _torch()
    source = path if trusted else plain_archive(path, named or path)
    try:
        with _quiet():
            program = torch.export.load(source)
    except Exception as error:  # PyTorch raises many kinds for damaged files
        raise WorkloadError(
            f"must be a file of torch.export.save ({reason_of(error, 120)})",
            field=str(named or path),
            remedy="write it again with torch.export.save and the PyTorch that is installed here",
        ) from error
    return _exported(program, ())


def _torch() -> Any:
    try:
        import onnxscript  # noqa: F401, PLC0415  (the exporter needs it)
        import torch  # noqa: PLC0415  (heavy, and only needed here)
        import torch.export  # noqa: PLC0415  (heavy)
    except ImportError as error:
        raise ToolError(
            "PyTorch networks need torch and onnxscript",
            remedy=install_line("network"),
        ) from error
    return torch


def _exported(source: Any, arguments: tuple[Any, ...]) -> onnx.ModelProto:
    import torch  # noqa: PLC0415  (heavy)

    def export(source: Any) -> onnx.ModelProto:
        program = torch.onnx.export(
            source, arguments, dynamo=True, external_data=False, verbose=False
        )
        assert program is not None  # it is, with dynamo
        return program.model_proto

    try:
        with _quiet():
            try:
                model = export(source)
            except torch.onnx.OnnxExporterError as error:
                if "scaled_dot_product_attention" not in str(error):
                    raise
                model = export(_with_plain_attention(source, arguments))
    except Exception as error:  # the exporter raises many kinds
        raise WorkloadError(
            f"PyTorch must be able to export it to ONNX ({reason_of(error)})",
            field="network",
            remedy="try torch.onnx.export(..., dynamo=True) on it",
        ) from error
    assert isinstance(model, onnx.ModelProto)
    return model


def _with_plain_attention(source: Any, arguments: tuple[Any, ...]) -> Any:
    """A program whose attention is products and softmax: the exporter's has four axes."""
    import torch  # noqa: PLC0415  (heavy)

    if not isinstance(source, torch.export.ExportedProgram):
        source = torch.export.export(source, arguments)
    operator = torch.ops.aten.scaled_dot_product_attention.default
    return source.run_decompositions({operator: _attention})


def _attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,  # noqa: ARG001  (of training)
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``torch.nn.functional.scaled_dot_product_attention``, as its documentation defines it."""
    import torch  # noqa: PLC0415  (heavy)

    if enable_gqa:
        k, v = (x.repeat_interleave(q.size(-3) // x.size(-3), -3) for x in (k, v))
    scores = q @ k.transpose(-2, -1) * (q.size(-1) ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1) @ v


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's report and advice."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
