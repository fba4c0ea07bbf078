# SPDX-License-Identifier: Apache-2.0
"""Seeded faults in the RTL: where they can be, and the mutated texts (see `sv_scan`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from mutation.sv_scan import Code, Span, scan

_BOUNDARY: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_REVERSED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_ARITHMETIC: Final = {"+": "-", "-": "+", "<<": ">>", ">>": "<<", ">>>": ">>", "*": "+"}
_LOGIC: Final = {"&&": "||", "||": "&&"}
_BITWISE: Final = {"&": "|", "|": "&", "^": "&"}
_STOPS: Final = {
    "&&": frozenset(("&&", "||", "?", ":", ",")),
    "||": frozenset(("||", "?", ":", ",")),
    "?": frozenset(("?", ":", ",")),
}
"""What ends an operand of each operator."""
_OPEN: Final = frozenset("([{")
_CLOSE: Final = frozenset(")]}")
_SIZED: Final = re.compile(r"(\d+)'(s?)([bdh])([0-9a-fA-F_]+)$")
_BASES: Final = {"b": 2, "d": 10, "h": 16}

OPERATORS: Final = {
    "arithmetic": "+ and - exchanged, shift turned round, * replaced by +",
    "boundary": "off by one in a comparison: < and <=, > and >= exchanged",
    "comparison": "comparison reversed: == and !=, < and >=, > and <=",
    "logic": "&& and || exchanged",
    "bitwise": "& and | exchanged, ^ replaced by & (reductions too)",
    "constant": "constant plus or minus 1, a single bit or '0 flipped",
    "reset": "value flipped that a reset assigns",
    "condition": "one operand of && or || dropped",
    "negation": "condition of an if or a choice negated, or a ! or ~ dropped",
    "assignment": "assignment removed",
}
"""Kinds of faults."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One fault: replace ``text[start:end]`` of a file by ``replacement`` of as many line ends."""

    file: str
    operator: str  # key of `OPERATORS`
    start: int
    end: int
    replacement: str
    line: int  # of the change, from 1
    original: str  # the lines of the change, stripped, without the fault
    mutated: str  # and with it
    ident: str  # short name that survives changes elsewhere in the file

    def apply(self, text: str) -> str:
        """The file's text with the fault."""
        return text[: self.start] + self.replacement + text[self.end :]


@dataclass(frozen=True)
class _Edit:
    operator: str
    start: int
    end: int
    replacement: str


def find_mutations(file: str, text: str) -> list[Mutation]:
    """Every fault that the operators can make in a file, distinct, in order of position."""
    found: dict[tuple[int, str], Mutation] = {}
    for edit in _edits(text, scan(text)):
        mutation = _describe(file, text, edit)
        # Two ways to the same text are one fault; the first operator names it.
        first = text.count("\n", 0, text.rfind("\n", 0, edit.start) + 1)
        found.setdefault((first, "".join(mutation.mutated.split())), mutation)
    seen: dict[str, int] = {}
    ordered = sorted(found.values(), key=lambda m: (m.start, m.end, m.replacement))
    return [replace(mutation, ident=_ident(mutation, seen)) for mutation in ordered]


def sample(
    sources: Mapping[str, str], rng: np.random.Generator, *, only: Collection[str] = ()
) -> Iterator[Mutation]:
    """An endless draw without repetition, ``only`` from some files, until no fault is left.

    The file is drawn in proportion to its lines of code, the operator and the place uniformly.
    """
    pools: dict[str, dict[str, list[Mutation]]] = {}
    for file, text in sorted(sources.items()):
        if only and file not in only:
            continue
        pool: dict[str, list[Mutation]] = {}
        for mutation in find_mutations(file, text):
            pool.setdefault(mutation.operator, []).append(mutation)
        if pool:
            pools[file] = pool
    weights = {file: scan(sources[file]).lines for file in pools}
    while pools:
        names = sorted(pools)
        shares = np.array([weights[name] for name in names], dtype=np.float64)
        file = names[int(rng.choice(len(names), p=shares / shares.sum()))]
        operators = sorted(pools[file])
        operator = operators[int(rng.integers(len(operators)))]
        places = pools[file][operator]
        yield places.pop(int(rng.integers(len(places))))
        if not places:
            del pools[file][operator]
        if not pools[file]:
            del pools[file]


def _describe(file: str, text: str, edit: _Edit) -> Mutation:
    first = text.rfind("\n", 0, edit.start) + 1
    last = text.find("\n", edit.end)
    last = len(text) if last < 0 else last
    changed = text[first : edit.start] + edit.replacement + text[edit.end : last]
    return Mutation(
        file=file,
        operator=edit.operator,
        start=edit.start,
        end=edit.end,
        replacement=edit.replacement,
        line=text.count("\n", 0, edit.start) + 1,
        original=_squeeze(text[first:last]),
        mutated=_squeeze(changed),
        ident="",
    )


def _ident(mutation: Mutation, seen: dict[str, int]) -> str:
    key = "\0".join((mutation.file, mutation.original, mutation.mutated))
    number = seen[key] = seen.get(key, 0) + 1
    digest = hashlib.sha256(f"{key}\0{number}".encode()).hexdigest()
    return f"{mutation.file.removesuffix('.sv')}-{digest[:8]}"


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _edits(text: str, code: Code) -> Iterator[_Edit]:
    finder = _Finder(text, code)
    for span in code.assignments:
        yield finder.cut("assignment", span.start, span.end, ";")
    for span in code.conditions:
        yield finder.negate(span.start, span.end)
    for span in code.expressions:
        for index in range(span.start, span.end):
            if index not in code.structure:
                yield from finder.at(index, span)


class _Finder:
    """Makes the edits at one token of an expression."""

    def __init__(self, text: str, code: Code) -> None:
        self._source = text
        self._code = code
        self._tokens = code.tokens

    def at(self, index: int, span: Span) -> Iterator[_Edit]:
        token = self._tokens[index]
        if token.kind == "number":
            operator = "constant"
            if index in self._code.resets and span.end - span.start == 1:
                operator = "reset"
            for changed in _near(token.text):
                yield _Edit(operator, token.start, token.end, changed)
        elif token.kind == "sign":
            yield from self._sign(index, span)

    def _sign(self, index: int, span: Span) -> Iterator[_Edit]:
        token = self._tokens[index]
        word = token.text
        tables = [("bitwise", _BITWISE)]
        if not self._is_unary(index):
            tables += [
                ("arithmetic", _ARITHMETIC),
                ("boundary", _BOUNDARY),
                ("comparison", _REVERSED),
                ("logic", _LOGIC),
            ]
        elif word in ("!", "~"):
            yield _Edit("negation", token.start, token.end, "")
        for operator, table in tables:
            if word in table:
                yield _Edit(operator, token.start, token.end, table[word])
        if word in _LOGIC:
            yield self.cut("condition", index, self._right(index, span))
            yield self.cut("condition", self._left(index, span), index + 1)
        if word == "?":
            yield self.negate(self._left(index, span), index)

    def cut(self, operator: str, start: int, end: int, left_over: str = "") -> _Edit:
        """Remove tokens; line ends stay, so that later lines keep their numbers."""
        first, last = self._tokens[start], self._tokens[end - 1]
        lines = "\n" * (last.line - first.line)
        return _Edit(operator, first.start, last.end, left_over + lines)

    def negate(self, start: int, end: int) -> _Edit:
        first, last = self._tokens[start].start, self._tokens[end - 1].end
        return _Edit("negation", first, last, f"!({self._source[first:last]})")

    def _is_unary(self, index: int) -> bool:
        before = self._tokens[index - 1]
        return (before.kind == "sign" and before.text not in _CLOSE) or before.text == "return"

    def _right(self, index: int, span: Span) -> int:
        """The place after the right operand."""
        stops = _STOPS[self._tokens[index].text]
        depth, p = 0, index + 1
        while p < span.end:
            word = self._tokens[p].text
            depth += (word in _OPEN) - (word in _CLOSE)
            if depth < 0 or (depth == 0 and word in stops):
                break
            p += 1
        return p

    def _left(self, index: int, span: Span) -> int:
        """The first token of the left operand."""
        stops = _STOPS[self._tokens[index].text]
        depth, p = 0, index
        while p > span.start:
            word = self._tokens[p - 1].text
            depth += (word in _CLOSE) - (word in _OPEN)
            if depth < 0 or (depth == 0 and word in stops):
                break
            p -= 1
        return p


def _near(number: str) -> Iterator[str]:
    """The number plus and minus 1, as far as it fits its width."""
    if number[0] == "'":
        yield "'1" if number == "'0" else "'0"
        return
    match = _SIZED.match(number)
    if match is None:
        value, limit, form = int(number), 2**32, "{}"
    else:
        base = _BASES[match[3]]
        value, limit = int(match[4].replace("_", ""), base), 1 << int(match[1])
        style = {2: "b", 10: "d", 16: "x"}[base]
        form = f"{match[1]}'{match[2]}{match[3]}{{:{style}}}"
    for near in (value + 1, value - 1):
        if 0 <= near < limit:
            yield form.format(near)
