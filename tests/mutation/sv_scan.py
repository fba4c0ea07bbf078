# SPDX-License-Identifier: Apache-2.0
"""A small scanner of the project's SystemVerilog: which tokens compute, and which are structure.

It knows the subset of the language that `rtl/` uses (one module a file, no interfaces, no
macros). Found are the right sides of assignments, conditions, and expressions at the ports of
instances. Left out are ports, parameters, types, declarations, loop headers, generate
conditions, part selects, casts, and what is assigned to ``unused`` signals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tilewright.host.common.errors import BuildError

_TOKEN: Final = re.compile(
    r"""
      (?P<skip>//[^\n]*|/\*.*?\*/|\(\*.*?\*\)|\s+)
    | (?P<string>"[^"\n]*")
    | (?P<number>\d+'s?[bdh][0-9a-fA-F_]+|'[01](?!\w)|\d+)
    | (?P<word>\$?[A-Za-z_]\w*(?:::\w+)*)
    | (?P<sign><<<|>>>|[=!]==|\+:|-:|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/|&^]=|\+\+|--|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN: Final = frozenset("([{")
_CLOSE: Final = frozenset(")]}")
_DECLARATIONS: Final = frozenset(
    ("typedef", "localparam", "parameter", "logic", "genvar", "int", "bit", "import")
)
_PASSED: Final = frozenset(("end", "else", "begin", "endmodule", ";"))
_ASSIGNS: Final = frozenset(("=", "<=", "+=", "-=", "*=", "|=", "&=", "^="))


@dataclass(frozen=True)
class Token:
    """A word, number, string or sign, with its place in the text (``line`` from 1)."""

    text: str
    kind: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Span:
    """Tokens ``start`` to ``end - 1``."""

    start: int
    end: int


@dataclass(kw_only=True)
class Code:
    """What a module computes, as spans of token numbers."""

    tokens: Sequence[Token]
    # right sides, conditions and expressions at ports; they do not overlap
    expressions: list[Span] = field(default_factory=list)
    # of ``if`` statements, also among the expressions
    conditions: list[Span] = field(default_factory=list)
    assignments: list[Span] = field(default_factory=list)  # procedural ones, with their semicolon
    # tokens inside expressions that are no values: part selects, cast widths
    structure: set[int] = field(default_factory=set)
    resets: set[int] = field(default_factory=set)  # tokens inside branches that a reset selects

    @property
    def lines(self) -> int:
        """Lines that hold any code."""
        return len({token.line for token in self.tokens})


def tokenize(text: str) -> list[Token]:
    """The tokens of a source text, without comments and attributes."""
    tokens = []
    line, position = 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise BuildError("the source must be SystemVerilog", field=f"line {line}")
        if match.lastgroup != "skip":
            tokens.append(Token(match[0], match.lastgroup, match.start(), match.end(), line))
        line += match[0].count("\n")
        position = match.end()
    return tokens


def scan(text: str) -> Code:
    """Find the code of one module; brackets or blocks that do not match are a `BuildError`."""
    return _Scanner(tokenize(text)).run()


class _Scanner:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._code = Code(tokens=tokens)

    def run(self) -> Code:
        position = 0
        try:
            while position < len(self._tokens):
                position = self._item(position)
        except IndexError as error:
            raise BuildError("blocks of the source must be complete", field="source") from error
        return self._code

    # -- module level -------------------------------------------------------------------------

    def _item(self, p: int) -> int:
        word = self._text(p)
        starts = {
            "if": lambda: self._group(p + 1),
            "for": lambda: self._group(p + 1),
            ":": lambda: p + 2,
            "assign": lambda: self._assignment(p + 1),
            "always_comb": lambda: self._statement(p + 1),
            "always_ff": lambda: self._statement(self._group(p + 2)),
            "function": lambda: self._function(p),
        }
        if word in starts:
            return starts[word]()
        if word in _PASSED:
            return p + 1
        end = self._semicolon(p)
        if word not in _DECLARATIONS and word != "module":
            self._instance(p + 1, end)
        return end + 1

    def _function(self, p: int) -> int:
        p = self._semicolon(p) + 1
        while self._text(p) != "endfunction":
            p = self._statement(p)
        return p + 1

    def _instance(self, p: int, end: int) -> None:
        """Expressions at the ports; a declaration with a named type has no round brackets."""
        if self._text(p) == "#":
            p = self._group(p + 1)
        p += 1
        if p >= end or self._text(p) != "(":
            return
        p += 1
        while p < end:
            if self._text(p) == "(":
                close = self._group(p) - 1
                if close - p > 2:
                    self._expression(p + 1, close)
                p = close
            p += 1

    # -- statements ---------------------------------------------------------------------------

    def _statement(self, p: int) -> int:
        word = self._text(p)
        starts = {
            "begin": lambda: self._block(p),
            "if": lambda: self._branch(p),
            "unique": lambda: self._statement(p + 1),
            "case": lambda: self._cases(p),
            "for": lambda: self._statement(self._group(p + 1)),
            ";": lambda: p + 1,
        }
        if word in starts:
            return starts[word]()
        end = self._semicolon(p)
        if word == "return":
            self._expression(p + 1, end)
        elif word not in _DECLARATIONS:
            self._assignment(p, procedural=True)
        return end + 1

    def _block(self, p: int) -> int:
        p += 3 if self._text(p + 1) == ":" else 1
        while self._text(p) != "end":
            p = self._statement(p)
        return p + 3 if self._text(p + 1) == ":" else p + 1

    def _branch(self, p: int) -> int:
        end = self._group(p + 1)
        condition = Span(p + 2, end - 1)
        self._expression(condition.start, condition.end)
        self._code.conditions.append(condition)
        after = self._statement(end)
        if any(t.text == "rst_i" for t in self._tokens[condition.start : condition.end]):
            self._code.resets.update(range(end, after))
        if self._text(after) == "else":
            return self._statement(after + 1)
        return after

    def _cases(self, p: int) -> int:
        p = self._group(p + 1)
        while self._text(p) != "endcase":
            depth = 0
            while depth or self._text(p) != ":":
                depth += (self._text(p) in _OPEN) - (self._text(p) in _CLOSE)
                p += 1
            p = self._statement(p + 1)
        return p + 1

    def _assignment(self, p: int, *, procedural: bool = False) -> int:
        """An assignment whose left side starts at ``p``; the place after its semicolon."""
        end = self._semicolon(p)
        target, depth = p, 0
        while target < end and (depth or self._text(target) not in _ASSIGNS):
            depth += (self._text(target) in _OPEN) - (self._text(target) in _CLOSE)
            target += 1
        if target < end and not self._text(p).startswith("unused"):
            self._expression(target + 1, end)
            if procedural:
                self._code.assignments.append(Span(p, end + 1))
        return end + 1

    # -- expressions --------------------------------------------------------------------------

    def _expression(self, start: int, end: int) -> None:
        self._code.expressions.append(Span(start, end))
        for p in range(start, end):
            word = self._text(p)
            if word == "[":
                close = self._group(p)
                if any(self._text(q) in (":", "+:", "-:") for q in range(p, close)):
                    self._code.structure.update(range(p, close))
            elif word == "(" and self._text(self._group(p)) == "'":
                self._code.structure.update(range(p, self._group(p)))
            elif self._tokens[p].kind == "number" and (
                self._text(p + 1) == "'" or (self._text(p - 1), self._text(p + 1)) == ("{", "{")
            ):
                self._code.structure.add(p)

    # -- tokens -------------------------------------------------------------------------------

    def _text(self, p: int) -> str:
        return self._tokens[p].text

    def _group(self, p: int) -> int:
        """The place after the bracket that closes the one at ``p``."""
        depth = 0
        while True:
            depth += (self._text(p) in _OPEN) - (self._text(p) in _CLOSE)
            p += 1
            if depth <= 0:
                return p

    def _semicolon(self, p: int) -> int:
        """The next semicolon outside of brackets."""
        while self._text(p) != ";":
            p = self._group(p) if self._text(p) in _OPEN else p + 1
        return p
