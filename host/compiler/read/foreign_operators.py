# SPDX-License-Identifier: Apache-2.0
"""Operators that are not of ONNX, written out in those of ONNX, at reading.

ONNX Runtime writes its own where it optimises a model (`runtime_operators`), and QONNX has
quantisers (`qonnx`). What neither takes is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tilewright.host.compiler.read.float_model import QONNX_KINDS

if TYPE_CHECKING:
    import onnx

    from tilewright.host.compiler.read.own_operators import OwnOperators

_QONNX: Final = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
_RUNTIME: Final = "com.microsoft"


def is_foreign(domain: str, kind: str) -> bool:
    """Whether an operator is ONNX Runtime's, or a quantiser of QONNX."""
    return domain == _RUNTIME or (domain in _QONNX and kind in QONNX_KINDS)


def expanded(
    model: onnx.ModelProto,
    path: Path,
    own: OwnOperators,
    with_shapes: Callable[[onnx.ModelProto], onnx.ModelProto],
) -> onnx.ModelProto:
    """A model with such operators written out; those that a user brings stay."""

    def foreign(domain: str, kind: str) -> bool:
        return is_foreign(domain, kind) and own.find(domain, kind) is None

    used = {n.domain for n in model.graph.node if foreign(n.domain, n.op_type)}
    if not used:
        return model
    for domain in sorted(used - {entry.domain for entry in model.opset_import}):
        model.opset_import.add(domain=domain, version=1)  # which some exporters leave out
    import onnx_ir as ir  # noqa: PLC0415  (heavy, and only needed for such models)

    from tilewright.host.compiler.read.edit import Editor  # noqa: PLC0415  (heavy, too)
    from tilewright.host.compiler.read.qonnx import expand_quantisers  # noqa: PLC0415  (heavy, too)
    from tilewright.host.compiler.read.runtime_operators import expand_fused  # noqa: PLC0415  (heavy, too)

    found = True
    while found:  # shapes behind an operator follow once it is written out
        found = False
        current = ir.from_proto(with_shapes(model))
        editor = Editor(current.graph)
        for node in list(current.graph):
            if not foreign(node.domain, node.op_type):
                continue
            if node.domain == _RUNTIME:
                found |= expand_fused(editor, node, current.opset_imports.get("", 0))
            elif node.inputs[0] is not None and node.inputs[0].shape is not None:
                expand_quantisers(editor, node, path)
                found = True
        if found:
            editor.drop_unused()
            model = ir.to_proto(current)
    return model
