# SPDX-License-Identifier: Apache-2.0
"""Finds users' operators: by the entry points of installed packages, and by class.

The name of an entry point in the group ``tilewright.operators`` is that of the operator's nodes,
``domain.op_type``. So nothing is imported before a model has such a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tilewright.host.common.errors import TilewrightError, WorkloadError, reason_of
from tilewright.host.common.plugins import COMMAND_LINE, Registry
from tilewright.host.compiler.read.own_operator import Float64, Operator
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS

if TYPE_CHECKING:
    import onnx

    from tilewright.host.compiler.lower.own_call import OperatorCall
    from tilewright.host.compiler.lower.qgraph import QOperator

OPERATORS: Final[Registry[Operator]] = Registry(
    "operator",
    base=Operator,
    group="tilewright.operators",
    package="tilewright",
    builtin={},
    error=WorkloadError,
)
"""Operators of installed packages."""

_DOMAIN: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_TAKEN: Final = (*DEFAULT_DOMAINS, "ai.onnx.ml", "com.microsoft", "tilewright")
"""Domains whose operators are not a user's."""

_OPSET: Final = 17
"""Of a meaning until it is in a model, whose operator set it takes."""

Key = tuple[str, str]
"""Domain and type of nodes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnOperator:
    """A user's operator that is known to have its parts."""

    name: str  # of the entry point, or ``package.module:Class``
    source: str  # distribution with version, or `COMMAND_LINE`
    operator: Operator  # the user's object
    function: onnx.FunctionProto  # its meaning
    pointwise: bool  # it has a `Operator.value`
    lowered: bool  # it has a `Operator.lower`

    @property
    def key(self) -> Key:
        """Of its nodes."""
        return self.function.domain, self.function.name

    @property
    def label(self) -> str:
        """``domain.op_type``."""
        return ".".join(self.key)

    def described(self) -> str:
        """What it is and who brings it, as a network records it."""
        return f"{self.label} ({self.name if self.source == COMMAND_LINE else self.source})"

    def attributes_of(self, node: onnx.NodeProto) -> dict[str, Any]:
        """The attributes of one of its nodes, with the defaults of its meaning; text as ``str``."""
        from onnx import helper  # noqa: PLC0415  (not needed without such operators)

        stated = (*self.function.attribute_proto, *node.attribute)
        values = {each.name: helper.get_attribute_value(each) for each in stated}
        return {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in values.items()
        }

    def layer_of(self, call: OperatorCall) -> QOperator | None:
        """`Operator.lower`."""
        with OPERATORS.running(type(self.operator), self.name):
            try:
                return self.operator.lower(call)
            except TilewrightError as error:
                raise self.wrong(f"lower: {error.field} {error.rule}") from error

    def values(self, x: Float64, attributes: Mapping[str, Any]) -> Float64:
        """`Operator.value`, checked."""
        with OPERATORS.running(type(self.operator), self.name):
            found = np.asarray(self.operator.value(x.copy(), **attributes))
        if found.shape != x.shape or found.dtype.kind not in "fiu":
            raise self.wrong(
                f"value must give {x.size} real numbers, shape {x.shape}, not "
                f"{found.dtype} of shape {found.shape}"
            )
        return found.astype(np.float64)

    def wrong(self, rule: str) -> WorkloadError:
        """The error for a part that is not as it must be."""
        return _wrong(self.name, type(self.operator), rule)


class OwnOperators:
    """The operators that a model may have besides those of ONNX."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._known: dict[Key, OwnOperator | None] = {}
        for name in named:
            found = load_operator(name)
            other = self._known.setdefault(found.key, found)
            if other is not found and other is not None:
                raise found.wrong(f"{other.name} is the operator {found.label}, too")

    def find(self, domain: str, kind: str) -> OwnOperator | None:
        """The operator of nodes of this kind, or ``None``."""
        key = (domain, kind)
        if domain in _TAKEN:
            return None
        if key not in self._known:
            name = ".".join(key)
            self._known[key] = load_operator(name) if name in set(OPERATORS) else None
        return self._known[key]


def operator_names(operators: Iterable[str | type[Operator]]) -> tuple[str, ...]:
    """Names of operators that are given by name or as classes."""
    names = []
    for each in operators:
        if isinstance(each, str):
            names.append(each)
            continue
        OPERATORS.accept(each)
        if each.__module__ == "__main__" or "<locals>" in each.__qualname__:
            raise WorkloadError(
                "must be a class at the top of a module that can be imported",
                field=f"operator {each.__qualname__}",
                remedy="put it into a file of its own: models are read in another process",
            )
        names.append(f"{each.__module__}:{each.__qualname__}")
    return tuple(names)


def load_operator(name: str) -> OwnOperator:
    """An operator by the name of its entry point, or as ``package.module:Class``."""
    kind = OPERATORS.load(name)
    source = OPERATORS.find(name).source
    if not isinstance(kind.domain, str) or not _DOMAIN.fullmatch(kind.domain):
        raise _wrong(name, kind, "must state its domain, such as com.example")
    if kind.domain in _TAKEN:
        raise _wrong(name, kind, f"its domain {kind.domain} is taken; use one of your own")
    if not isinstance(kind.meaning, str) or not kind.meaning.strip():
        raise _wrong(name, kind, "must state its meaning, a function in ONNX's text form")
    with OPERATORS.running(kind, name):
        operator = kind()
    found = OwnOperator(
        name=name,
        source=source,
        operator=operator,
        function=_function(name, kind),
        pointwise=kind.value is not Operator.value,
        lowered=kind.lower is not Operator.lower,
    )
    if found.pointwise and found.lowered:
        raise _wrong(name, kind, "must have a value or a lowering, not both")
    if len(found.function.output) != 1:
        raise _wrong(name, kind, "its meaning must have one result")
    if found.pointwise and len(found.function.input) != 1:
        raise _wrong(name, kind, "its meaning must have one input, because it has a value")
    if source != COMMAND_LINE and name != found.label:
        raise _wrong(name, kind, f"its entry point must be called {found.label}, as its nodes are")
    return found


def _function(name: str, kind: type[Operator]) -> onnx.FunctionProto:
    from onnx import parser  # noqa: PLC0415  (not needed without such operators)

    header = f'<domain: "{kind.domain}", opset_import: ["" : {_OPSET}]>\n'
    try:
        return parser.parse_function(header + kind.meaning)
    except parser.ParseError as error:
        detail = reason_of(error)
        raise _wrong(name, kind, f"its meaning is no function in ONNX's text form: {detail}") from (
            error
        )


def _wrong(name: str, kind: type[Operator], rule: str) -> WorkloadError:
    return WorkloadError(
        f"{rule} ({kind.__module__}:{kind.__qualname__})",
        field=f"operator {name}",
        remedy="mend the class",
    )
