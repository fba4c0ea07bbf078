# SPDX-License-Identifier: Apache-2.0
"""Masks of attention that are given at run time, in the form that the accelerator takes.

A mask says which tokens count, such as the input ``attention_mask`` of a BERT: 1 for a token, 0 for
padding. Models make numbers of it that are 0 or far below, and add them to scores; or a condition
replaces scores by such a number. Both become one addition of a *row*: a number for each token, the
same for all heads and queries. Constants that a condition joins to it, such as a causal mask, are
added apart. Rows are computed once for all layers.

Whether something is a mask follows from what it is made of: inputs of integers are taken to hold 0
and 1, as attention masks do. Float inputs are masks where the caller says so.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeGuard

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    integer,
    is_kind,
    only_user,
    shape_of,
)
from tilewright.host.network.operators import BY_ELEMENT, MOVES, having

MASKED: Final = -1000.0
"""Scores from here down are masks: e^-1000 is 0 in any format, whatever other scores are."""

_FILL: Final = np.float32(-10_000)
"""What is added to masked scores. Where all are masked, they stay what they are."""

_MOST_SOURCES: Final = 4
"""Of a mask: what they can hold together is tried."""

_MOST_OPERATORS: Final = 64
"""Between moves of what may be a mask, and conditions that it may join."""

_MOST_MOVES: Final = 16

_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "Add": operator.add,
    "And": lambda a, b: bool(a and b),
    "Div": lambda a, b: a / b if b else math.nan,
    "Identity": lambda a: a,
    "Max": lambda *numbers: max(numbers),
    "Min": lambda *numbers: min(numbers),
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Not": lambda a: not a,
    "Or": lambda a, b: bool(a or b),
    "Sub": operator.sub,
    "Where": lambda condition, a, b: a if condition else b,
}
"""Operators that are computed to know what a mask can hold."""

_REPEATS: Final = having(lambda each: each.moves in ("view", "repeat"))
"""Of equal rows they make equal rows, if the last axis stays."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedValue:
    """What an operator masks."""

    value: ir.Value  # the scores in front
    constants: tuple[Array, ...]  # that are added to them
    rows: tuple[ir.Value, ...]  # masks; all axes but the last have size 1


def masked_scores(node: ir.Node | None) -> tuple[ir.Value, ir.Value] | None:
    """The scores and the mask whose sum a softmax alone reads, as `RunTimeMasks` states it."""
    if not is_kind(node, "Add") or not is_kind(only_user(node.outputs[0]), "Softmax"):
        return None
    scores, mask, shape = node.inputs[0], node.inputs[1], shape_of(node.outputs[0])
    if scores is None or mask is None or not shape or shape_of(scores) != shape:
        return None
    if array_of(scores) is not None or array_of(mask) is not None:
        return None
    row = (*(1 for _ in shape[1:]), shape[-1])
    return (scores, mask) if shape_of(mask) == row and _is_mask(mask) else None


class RunTimeMasks:
    """Reads masks, and states the rows that they are.

    Args:
        editor: of a graph with known shapes.
        given: names of float inputs that are masks.
    """

    def __init__(self, editor: Editor, given: Collection[str] = ()) -> None:
        self._editor = editor
        self._given = given
        self._below: dict[ir.Value, ir.Value] = {}
        self._rows: dict[ir.Value, ir.Value | None] = {}
        self._fills: dict[tuple[ir.Value, bool], ir.Value] = {}
        self._shaped: dict[tuple[ir.Value, int], ir.Value] = {}

    def read(self, node: ir.Node | None, place: ir.Node) -> MaskedValue | None:
        """What an operator masks; None: it does something else."""
        if is_kind(node, "Where"):
            found = self._read_where(node, place)
        elif is_kind(node, "Add"):
            found = self._read_addition(node, place)
        else:
            return None
        last = (shape_of(node.outputs[0]) or (0,))[-1]
        if found is None or any((shape_of(row) or (0,))[-1] != last for row in found.rows):
            return None
        return found

    def added(self, scores: ir.Value, rows: Sequence[ir.Value], place: ir.Node) -> ir.Value:
        """Scores plus the sum of rows, in front of an operator."""
        stem, rank = f"{scores.name}_masked", len(shape_of(scores) or ())
        mask, *others = (self._of_rank(row, rank, place) for row in dict.fromkeys(rows))
        for other in others:
            mask = self._editor.before(place, "Add", [mask, other], stem=f"{stem}_row", like=mask)
        return self._editor.before(place, "Add", [scores, mask], stem=stem, like=scores)

    def _read_where(self, node: ir.Node, place: ir.Node) -> MaskedValue | None:
        """A condition that replaces scores by a number far below."""
        condition, shape = node.inputs[0], shape_of(node.outputs[0]) or ()
        for scores, other, keeps in (
            (node.inputs[1], node.inputs[2], True),
            (node.inputs[2], node.inputs[1], False),
        ):
            number = array_of(other)
            if condition is None or not _is_computed(scores, shape) or number is None:
                continue
            if number.size and number.max() <= MASKED:
                return self._by_condition(scores, (condition, keeps), shape, place)
        return None

    def _read_addition(self, node: ir.Node, place: ir.Node) -> MaskedValue | None:
        """A sum of scores and a mask."""
        shape = shape_of(node.outputs[0]) or ()
        for scores, mask in (node.inputs[:2], node.inputs[1::-1]):
            if mask is None or array_of(mask) is not None or not _is_computed(scores, shape):
                continue
            condition = _condition_of(mask)
            if condition is not None:
                found = self._by_condition(scores, condition, shape, place)
                if found is not None:
                    return found
            given = self._is_given(mask)
            row = self._row_of(mask, place) if given or _is_mask(mask) else None
            if row is not None:
                row = self._filled(self._far_below(row, place), False, place) if given else row
                return MaskedValue(value=scores, constants=(), rows=(row,))
        return None

    def _is_given(self, value: ir.Value | None) -> bool:
        """Whether a value is an input that is a mask, moved or repeated."""
        while value is not None and is_kind(node := value.producer(), *MOVES):
            value = node.inputs[0]
        return value is not None and value.is_graph_input() and value.name in self._given

    def _far_below(self, row: ir.Value, place: ir.Node) -> ir.Value:
        """Where a row masks."""
        if row not in self._below:
            stem = f"{row.name}_below"
            bound = self._editor.constant(f"{stem}_bound", np.asarray(MASKED / 2, np.float32))
            self._below[row] = self._editor.before(
                place, "Less", [row, bound], stem=stem, like=row, dtype=ir.DataType.BOOL
            )
        return self._below[row]

    def _by_condition(
        self,
        scores: ir.Value,
        condition: tuple[ir.Value, bool],
        shape: tuple[int, ...],
        place: ir.Node,
    ) -> MaskedValue | None:
        """Scores that stay where all parts of a condition hold."""
        constants, rows = [], []
        for part, keeps in _parts_of(*condition) or ():
            array = array_of(part)
            if array is not None:
                kept = array.astype(bool) == keeps
                if not np.broadcast_to(kept, shape).any(axis=-1).all():
                    return None  # a row without any place has no softmax
                if not kept.all():
                    constants.append(np.where(kept, 0, -np.inf).astype(np.float32))
                continue
            row = self._row_of(part, place)
            if row is None:
                return None
            rows.append(self._filled(row, keeps, place))
        if not rows:
            return None
        return MaskedValue(value=scores, constants=tuple(constants), rows=tuple(rows))

    # -- rows ----------------------------------------------------------------------------------

    def _row_of(self, value: ir.Value, place: ir.Node) -> ir.Value | None:
        """What all rows of a value are, with the size 1 on all axes but the last."""
        if value not in self._rows:
            self._rows[value] = self._stated_row(value, place)
        return self._rows[value]

    def _stated_row(self, value: ir.Value, place: ir.Node) -> ir.Value | None:
        shape, array, node = shape_of(value), array_of(value), value.producer()
        if shape is None or math.prod(shape[:-1]) == 1:
            return None if shape is None else value
        if array is not None:
            rows = array.reshape(-1, shape[-1])
            same = rows.size and (rows == rows[0]).all()
            return self._editor.constant(f"{value.name}_row", rows[0]) if same else None
        if is_kind(node, *BY_ELEMENT):
            return self._computed_row(value, node, place)
        if is_kind(node, *_REPEATS) and node.inputs[0] is not None:
            before = shape_of(node.inputs[0]) or (0,)
            if node.op_type == "Expand" or before[-1] == shape[-1]:
                return self._row_of(node.inputs[0], place)
        return None

    def _computed_row(self, value: ir.Value, node: ir.Node, place: ir.Node) -> ir.Value | None:
        """The row of what an operator computes element by element."""
        parts = [None if each is None else self._row_of(each, place) for each in node.inputs]
        sizes = [size for size in map(shape_of, parts) if size is not None]
        if len(sizes) < len(parts):
            return None
        row = self._editor.before(
            place, node.op_type, parts, dict(node.attributes), stem=f"{value.name}_row", like=value
        )
        row.shape = ir.Shape(np.broadcast_shapes(*sizes))
        return row

    def _filled(self, row: ir.Value, keeps: bool, place: ir.Node) -> ir.Value:
        """0 where a condition has a value, and a number far below elsewhere."""
        if (row, keeps) not in self._fills:
            stem = f"{row.name}_fill"
            numbers = [
                self._editor.constant(f"{stem}_{name}", np.asarray(number, np.float32))
                for name, number in (("kept", 0), ("masked", _FILL))
            ]
            inputs = [row, *(numbers if keeps else numbers[::-1])]
            self._fills[row, keeps] = self._editor.before(
                place, "Where", inputs, stem=stem, like=row, dtype=ir.DataType.FLOAT
            )
        return self._fills[row, keeps]

    def _of_rank(self, row: ir.Value, rank: int, place: ir.Node) -> ir.Value:
        shape = shape_of(row) or ()
        wanted = (*(1 for _ in range(rank - 1)), shape[-1])
        if shape == wanted:
            return row
        if (row, rank) not in self._shaped:
            sizes = self._editor.constant(f"{row.name}_sizes", np.array(wanted, np.int64))
            stem = f"{row.name}_shaped"
            shaped = self._editor.before(place, "Reshape", [row, sizes], stem=stem, like=row)
            shaped.shape = ir.Shape(wanted)
            self._shaped[row, rank] = shaped
        return self._shaped[row, rank]


def _is_computed(value: ir.Value | None, shape: tuple[int, ...]) -> TypeGuard[ir.Value]:
    """Whether something is no constant, and of a shape that is not empty."""
    computed = value is not None and array_of(value) is None
    return computed and bool(shape) and shape_of(value) == shape


# -- conditions ------------------------------------------------------------------------------------


def _condition_of(mask: ir.Value) -> tuple[ir.Value, bool] | None:
    """The condition, and its value, under which a mask is 0; elsewhere it is far below."""
    node = mask.producer()
    while is_kind(node, "Expand", "Identity") and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if not is_kind(node, "Where") or node.inputs[0] is None:
        return None
    numbers = [array_of(value) for value in node.inputs[1:]]
    for (kept, masked), keeps in ((numbers, True), (numbers[::-1], False)):
        if kept is None or masked is None or not kept.size or not masked.size:
            continue
        if not kept.any() and masked.max() <= MASKED:
            return node.inputs[0], keeps
    return None


def _parts_of(condition: ir.Value, keeps: bool) -> list[tuple[ir.Value, bool]] | None:
    """Conditions that have these values together exactly where a condition has its value."""
    found: list[tuple[ir.Value, bool]] = []
    waiting = [(condition, keeps)]
    for _ in range(_MOST_OPERATORS):
        if not waiting:
            return found
        part, wanted = waiting.pop()
        node = part.producer()
        inputs = [] if node is None else [each for each in node.inputs if each is not None]
        if array_of(part) is None and is_kind(node, "And" if wanted else "Or"):
            waiting += [(each, wanted) for each in inputs]
        elif array_of(part) is None and is_kind(node, "Expand", "Identity", "Not"):
            waiting.append((inputs[0], wanted != (node.op_type == "Not")))
        else:
            found.append((part, wanted))
    return None


# -- what a value can be ---------------------------------------------------------------------------


def _is_mask(value: ir.Value) -> bool:
    """Whether all elements of a value are 0 or far below, whatever the inputs are."""
    found = _possible(value)
    return found is not None and all(number == 0 or number <= MASKED for number in found)


def _possible(value: ir.Value, moves: int = 0) -> frozenset[float] | None:
    """What elements of a value can be, that was moved so often; None: anything."""
    sources = _sources_of(value)
    choices = [None] if sources is None else [_held(source, moves) for source in sources]
    if sources is None or None in choices:
        return None
    found: set[float] = set()
    for numbers in product(*(choice or () for choice in choices)):
        number = _evaluated(value, dict(zip(sources, numbers, strict=True)))
        if number is None or math.isnan(number):
            return None
        found.add(float(number))
    return frozenset(found)


def _sources_of(value: ir.Value) -> list[ir.Value] | None:
    """What a value is computed of, element by element; None: of too much."""
    sources: list[ir.Value] = []
    seen, waiting = {value}, [value]
    while waiting:
        each = waiting.pop()
        node = each.producer()
        if array_of(each) is not None:
            continue
        if not is_kind(node, *_FUNCTIONS, "Cast"):
            sources.append(each)
            continue
        read = {one for one in node.inputs if one is not None} - seen
        seen |= read
        waiting += read
        if len(seen) > _MOST_OPERATORS or len(sources) > _MOST_SOURCES:
            return None
    return sources if len(sources) <= _MOST_SOURCES else None


def _held(source: ir.Value, moves: int) -> frozenset[float] | None:
    """What a source of values can hold, that was moved so often; None: anything."""
    node, dtype = source.producer(), source.dtype
    if is_kind(node, *MOVES) and node.inputs[0] is not None:
        return _possible(node.inputs[0], moves + 1) if moves < _MOST_MOVES else None
    if dtype is None:
        return None
    is_condition = dtype == ir.DataType.BOOL
    is_input = source.is_graph_input() and dtype.numpy().kind in "iu"
    return frozenset((0.0, 1.0)) if is_condition or is_input else None


def _evaluated(value: ir.Value, known: dict[ir.Value, float]) -> float | None:
    """An element of a value; None: its sources do not say."""
    if value in known:
        return known[value]
    array, node = array_of(value), value.producer()
    if array is not None:
        same = array.size and (array == array.reshape(-1)[0]).all()
        return float(array.reshape(-1)[0]) if same else None
    numbers = []
    for each in () if node is None else node.inputs:
        number = None if each is None else _evaluated(each, known)
        if number is None:
            return None
        numbers.append(number)
    if node is None or not numbers:
        return None
    if node.op_type == "Cast":
        known[value] = _cast(numbers[0], ir.DataType(integer(node, "to", 0)))
    else:
        known[value] = _FUNCTIONS[node.op_type](*numbers)
    return known[value]


def _cast(number: float, dtype: ir.DataType) -> float:
    if dtype == ir.DataType.BOOL:
        return float(number != 0)
    if dtype.numpy().kind in "iu":
        return float(int(number)) if math.isfinite(number) else math.nan
    return number
