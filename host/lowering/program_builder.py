# SPDX-License-Identifier: Apache-2.0
"""`ProgramBuilder`: instructions in, a race-free stream with dependency tokens out.

Instructions name the resources that they read and write by hashable keys. Where an instruction
depends on one of another unit (read after write, write after read, write after write), the
builder adds a token: a push bit on the producer and a pop bit on the consumer.

**Why the counters match.** Tokens are anonymous: the k-th pop of unit B from unit A takes the
k-th push of A to B. The builder adds a token only for a producer that is later than everything
that B already knows of A, so along the stream both the producers and the consumers of A-to-B
tokens strictly increase, and the k-th pop is the consumer that was paired with the k-th push.
A unit executes in order and pushes when its effects are visible, so one token covers all earlier
instructions of the producer's unit.

**Why implied tokens can be dropped.** A producer that waited for other units passes that
knowledge on (a vector clock an instruction). A dependency that the consumer's clock covers,
directly or through another token that the same instruction pops, adds nothing: neither bit is
set. Tokens still only ever appear as (push, pop) pairs with increasing producers, so the argument
above is unchanged.

Every pop follows its push in the stream, so the stream can be executed sequentially and
in-order dispatch with finite queues cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.machine.isa import FORMATS, Field, Opcode, Unit, pack_fields
from tilewright.host.machine.program import Program, layout_regions

_UNITS: Final = len(Unit)


def field_shift(opcode: Opcode, name: str) -> int:
    """Bit position of a field in an instruction."""
    position = 0
    for field in FORMATS[opcode]:
        if field.name == name:
            return position
        position += field.bits
    raise ProgramError("unknown field", field=name, value=opcode.name)


_POP_SHIFT: Final = field_shift(Opcode.FINISH, "pop")
_PUSH_SHIFT: Final = field_shift(Opcode.FINISH, "push")


def _checked(field: Field) -> str:
    """An expression that is 0 exactly when a field's value fits."""
    if field.signed:
        return f"({field.name} + {1 << (field.bits - 1)} >> {field.bits})"
    return f"({field.name} >> {field.bits})"


def packer(opcode: Opcode) -> Callable[..., int]:
    """Compile a fast packer of an instruction from the ISA table."""
    layout = FORMATS[opcode]
    free = [f for f in layout if f.name not in ("opcode", "pop", "push")]
    terms, position = [str(int(opcode))], 0
    for field in layout:
        if field in free:
            value = f"({field.name} & {(1 << field.bits) - 1})" if field.signed else field.name
            terms.append(f"{value} << {position}")
        position += field.bits
    names = ", ".join(f"{f.name}=0" for f in free)
    bad = " | ".join(_checked(f) for f in free) or "0"
    given = ", ".join(f"{f.name!r}: {f.name}" for f in free)
    source = f"lambda *, {names}: ({' | '.join(terms)}) if not ({bad}) else refuse({{{given}}})"

    def refuse(values: dict[str, int]) -> int:
        return pack_fields(layout, {**values, "opcode": int(opcode)})

    compiled: Callable[..., int] = eval(source, {"__builtins__": {}, "refuse": refuse})
    return compiled


pack_load: Final = packer(Opcode.LOAD)
pack_gemm: Final = packer(Opcode.GEMM)
pack_vector: Final = packer(Opcode.VECTOR)
pack_store: Final = packer(Opcode.STORE)


class ProgramBuilder:
    """Collects instructions, tracks dependencies and inserts tokens (see the module)."""

    def __init__(self, hw: HwConfig) -> None:
        self.hw = hw
        self._words: list[int] = []
        self._finished = False
        # Stream index of each unit's instructions, and what each knew when it started.
        self._stream: list[list[int]] = [[] for _ in range(_UNITS)]
        self._clocks: list[list[tuple[int, ...]]] = [[] for _ in range(_UNITS)]
        self._known: list[list[int]] = [[-1] * _UNITS for _ in range(_UNITS)]
        # Key: writer's unit, writer's index, then the last reader's index of each unit.
        self._uses: dict[Hashable, list[int]] = {}
        # Of each unit, the last instruction that all later ones must follow.
        self._fence = [-1] * _UNITS

    def __len__(self) -> int:
        """Instructions so far, without FINISH."""
        return len(self._words)

    def emit_word(
        self, unit: int, word: int, reads: Iterable[Hashable], writes: Iterable[Hashable]
    ) -> None:
        """Append an instruction."""
        if self._finished:
            raise ProgramError("the program is finished", field="instruction")
        stream, known = self._stream[unit], self._known[unit]
        index = len(stream)
        needs = self._needs(unit, index, reads, writes)
        sources = [u for u in range(_UNITS) if u != unit and needs[u] > known[u]]
        if len(sources) > 1:
            sources = [u for u in sources if not self._implied(u, needs, sources)]
        pop = 0
        for source in sources:
            producer = needs[source]
            self._words[self._stream[source][producer]] |= 1 << (_PUSH_SHIFT + unit)
            pop |= 1 << source
            known[:] = map(max, known, self._clocks[source][producer])
        known[unit] = index
        self._clocks[unit].append(tuple(known))
        stream.append(len(self._words))
        self._words.append(word | pop << _POP_SHIFT)

    def fence(self) -> None:
        """Everything emitted so far happens before everything that follows.

        Between layers of one program: scratchpads are used anew and DRAM is read that was written.
        """
        self._fence = [len(stream) - 1 for stream in self._stream]
        self._uses.clear()

    def _needs(
        self, unit: int, index: int, reads: Iterable[Hashable], writes: Iterable[Hashable]
    ) -> list[int]:
        """Last instruction of each unit that this one must follow; records its own uses."""
        uses, needs = self._uses, list(self._fence)
        for key in reads:
            use = uses.get(key)
            if use is None:
                uses[key] = use = [unit, *[-1] * (_UNITS + 1)]
            needs[use[0]] = max(needs[use[0]], use[1])
            use[2 + unit] = index
        for key in writes:
            use = uses.get(key)
            if use is not None:
                needs = list(map(max, needs, use[2:]))
                needs[use[0]] = max(needs[use[0]], use[1])
            uses[key] = [unit, index, *[-1] * _UNITS]
        return needs

    def _implied(self, unit: int, needs: list[int], sources: list[int]) -> bool:
        return any(
            self._clocks[other][needs[other]][unit] >= needs[unit]
            for other in sources
            if other != unit
        )

    def finish(self, sizes: Mapping[str, int], constants: Mapping[str, bytes]) -> Program:
        """Append FINISH and lay the program out."""
        if self._finished:
            raise ProgramError("the program is finished", field="instruction")
        self._finished = True
        words = [*self._words, int(Opcode.FINISH)]
        instructions = b"".join([word.to_bytes(INSTRUCTION_BYTES, "little") for word in words])
        regions, total = layout_regions({**sizes, "insn": len(instructions)})
        return Program(
            config_hash=self.hw.config_hash,
            instructions=instructions,
            regions=regions,
            constants=dict(constants),
            memory_bytes=total,
        )
