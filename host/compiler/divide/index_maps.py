# SPDX-License-Identifier: Apache-2.0
"""Movement of data as index maps: where each element of a model's tensor lies, and the way there.

An `IndexMap` names the place of every element in tensors of a region, so that slices, pads,
broadcasts, permutations, joins and any other moves compose by indexing one array. `moved` turns
the map of a tensor, as a reader wants it to lie, into moves of whole channels and pixels:

- all channels of a group lie at the same pixels: channels are chosen, pixels are moved;
- all pixels of a group have the same channels: the same;
- several groups are joined, along channels or along pixels;
- channels that are pixels are exchanged with them first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.divide.relax_calls import Refusal

Places = npt.NDArray[np.int64]

MAX_ELEMENTS: Final = 1 << 24
"""Of a tensor whose elements are followed one by one."""
MAX_GROUPS: Final = 32
"""Parts that a move may be joined of: each is a layer."""
MAX_TURNED: Final = 1 << 13
"""Channels or pixels that are exchanged with the others: they become weights of as many rows."""

MAX_SHUFFLED: Final = 1024
"""Channels that a move may permute: it is a product with a matrix of as many rows and columns."""
_BLOCK: Final = 64
_MORE_RUNS: Final = 2
"""Parts that are better than to put the result in order behind them."""
_TURN_COST: Final = 4
"""Of an exchange, in moves."""


class Source(NamedTuple):
    """A tensor of a region, or constant elements; both in normal form, with a batch of 1."""

    name: str  # empty for constant elements
    channels: int
    pixels: int
    values: npt.NDArray[np.int8] | None = None  # (channels, pixels) of a constant

    @property
    def size(self) -> int:
        """Elements."""
        return self.channels * self.pixels


@dataclass(frozen=True, kw_only=True, eq=False)
class IndexMap:
    """A model's tensor by the places of its elements.

    Attributes:
        sources: tensors of one scale, whose elements are numbered one source after another.
        places: int64 of the model's shape.
    """

    sources: tuple[Source, ...]
    places: Places

    def with_places(self, places: Places) -> IndexMap:
        """Other elements of the same sources."""
        return IndexMap(sources=self.sources, places=places)

    @property
    def alone(self) -> Source | None:
        """The one source, if there is one."""
        return self.sources[0] if len(self.sources) == 1 else None


def joined(maps: Sequence[IndexMap], make: Callable[[list[Places]], Places]) -> IndexMap:
    """A tensor that is made of elements of others, which ``make`` arranges."""
    sources: list[Source] = []
    places = []
    for each in maps:
        numbers = np.empty(sum(source.size for source in each.sources), np.int64)
        start = 0
        for source in each.sources:
            named = [s.name and s.name == source.name for s in sources]
            index = named.index(True) if True in named else len(sources)
            if index == len(sources):
                sources.append(source)
            first = sum(s.size for s in sources[:index])
            numbers[start : start + source.size] = first + np.arange(source.size)
            start += source.size
        places.append(numbers[each.places])
    return IndexMap(sources=tuple(sources), places=make(places))


def fill(value: int) -> IndexMap:
    """One constant int8 element."""
    values = np.full((1, 1), value, np.int8)
    return IndexMap(sources=(Source("", 1, 1, values),), places=np.zeros((), np.int64))


# -- moves of whole channels and pixels ----------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """Some channels of some pixels of a tensor, each in any order; None: all as they are."""

    source: Source | Turned
    channels: tuple[int, ...] | None
    pixels: Places | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Turned:
    """A tensor whose channels and pixels are exchanged."""

    source: Source


@dataclass(frozen=True, kw_only=True, eq=False)
class Constant:
    """Elements that are known: int8 (channels, pixels)."""

    values: npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined:
    """Parts one after another along channels or pixels, of which each result is one, in any order.

    Attributes:
        order: of the parts' channels or pixels, one for each of the result; None: as they are.
    """

    parts: tuple[Move, ...]
    by_channels: bool
    order: Places | None


Move = Taken | Constant | Joined


def cost_of(move: Move) -> int:
    """About how many layers a move is; 0 for none."""
    if isinstance(move, Constant):
        return 0
    if isinstance(move, Joined):
        return sum(1 + cost_of(part) for part in move.parts) + (move.order is not None)
    turned = _TURN_COST if isinstance(move.source, Turned) else 0
    return turned + (move.channels is not None) + (move.pixels is not None)


def moved(sources: Sequence[Source], wanted: Places, *, turns: bool) -> Move:
    """How to make a tensor of elements of others.

    Args:
        sources: the others.
        wanted: (channels, pixels) place of each element, in normal form.
        turns: channels and pixels may be exchanged.

    Raises:
        Refusal: it takes more moves than `MAX_GROUPS`.
    """
    found = _Elements.of(sources, wanted).move()
    alone = sources[0] if len(sources) == 1 and sources[0].values is None else None
    small = alone is not None and max(alone.channels, alone.pixels) <= MAX_TURNED
    if turns and alone is not None and small and (found is None or cost_of(found) > _TURN_COST):
        channel, pixel = np.divmod(wanted, alone.pixels)
        flat = Source(alone.name, alone.pixels, alone.channels)
        places = pixel * alone.channels + channel
        other = _Elements.of([flat], places, Turned(source=alone)).move()
        if other is not None and (found is None or cost_of(other) < cost_of(found)):
            found = other
    if found is None and turns and len(sources) > 1:
        found = _source_by_source(sources, wanted)
    if found is None:
        raise Refusal("its data lie in an order that takes too many moves of channels and pixels")
    return found


def _source_by_source(sources: Sequence[Source], wanted: Places) -> Move | None:
    """Channels, or pixels, that are one source's: each source for itself, turned if need be."""
    firsts = np.cumsum([0, *(source.size for source in sources)])
    number = np.searchsorted(firsts, wanted, side="right") - 1
    by_channels = bool((number == number[:, :1]).all())
    if not by_channels and not (number == number[:1]).all():
        return None
    owners = number[:, 0] if by_channels else number[0]
    groups = [np.flatnonzero(owners == owner) for owner in dict.fromkeys(owners.tolist())]
    order = np.argsort(np.concatenate(groups), kind="stable")
    same = np.array_equal(order, np.arange(order.size))
    if by_channels and not (same and _are_blocks(groups)) and order.size > MAX_SHUFFLED:
        return None
    parts = []
    for group in groups:
        owner = int(owners[group[0]])
        own = (wanted[group] if by_channels else wanted[:, group]) - firsts[owner]
        parts.append(moved([sources[owner]], own, turns=True))
    return Joined(parts=tuple(parts), by_channels=by_channels, order=None if same else order)


class _Elements:
    """Elements (channels, pixels) by source, channel and pixel."""

    def __init__(
        self,
        sources: Sequence[Source],
        source: Places,
        channel: Places,
        pixel: Places,
        turned: Turned | None,
    ) -> None:
        self.sources, self.turned = sources, turned
        self.source, self.channel, self.pixel = source, channel, pixel

    @staticmethod
    def of(sources: Sequence[Source], wanted: Places, turned: Turned | None = None) -> _Elements:
        firsts = np.cumsum([0, *(source.size for source in sources)])
        source = np.searchsorted(firsts, wanted, side="right") - 1
        widths = np.array([each.pixels for each in sources])
        channel, pixel = np.divmod(wanted - firsts[source], widths[source])
        return _Elements(sources, source, channel, pixel, turned)

    def part(self, channels: Places | slice, pixels: Places | slice) -> _Elements:
        source, channel, pixel = (
            each[channels][:, pixels] for each in (self.source, self.channel, self.pixel)
        )
        return _Elements(self.sources, source, channel, pixel, self.turned)

    def move(self, depth: int = 2) -> Move | None:
        """The cheapest move that is found; None: there is none."""
        if self.is_constant().all():
            return self.constant()
        whole = self.taken()
        if whole is not None:
            return whole
        ways = [self.joined(True, depth), self.joined(False, depth)] if depth else []
        found = [way for way in ways if way is not None]
        return min(found, key=cost_of) if found else None

    def is_constant(self) -> npt.NDArray[np.bool_]:
        known = np.array([source.values is not None for source in self.sources])
        return known[self.source]

    def constant(self) -> Constant:
        values = np.empty(self.source.shape, np.int8)
        for index, source in enumerate(self.sources):
            if source.values is not None:
                mine = self.source == index
                values[mine] = source.values[self.channel[mine], self.pixel[mine]]
        return Constant(values=values)

    def taken(self) -> Taken | None:
        """The same pixels of the same source for all channels, the same channels for all pixels."""
        channels, pixels = self.channel[:, 0], self.pixel[0]
        same = (
            (self.source == self.source[0, 0]).all()
            and (self.channel == channels[:, None]).all()
            and (self.pixel == pixels).all()
        )
        if not same:
            return None
        source = self.sources[int(self.source[0, 0])]
        if source.values is not None or not _are_few(channels):
            return None
        all_channels = np.array_equal(channels, np.arange(source.channels))
        all_pixels = np.array_equal(pixels, np.arange(source.pixels))
        return Taken(
            source=self.turned or source,
            channels=None if all_channels else tuple(channels.tolist()),
            pixels=None if all_pixels else pixels.astype(np.int64),
        )

    def joined(self, by_channels: bool, depth: int) -> Joined | None:
        """Groups of channels, or of pixels, that are moved alike."""
        groups = self._groups(by_channels)
        if not 2 <= len(groups) <= MAX_GROUPS:
            return None
        parts: list[Move] = []
        for chosen in groups:
            part = (
                self.part(chosen, slice(None)) if by_channels else self.part(slice(None), chosen)
            ).move(depth - 1)
            if part is None:
                return None
            parts.append(part)
        order = np.argsort(np.concatenate(groups), kind="stable")
        same = np.array_equal(order, np.arange(order.size))
        if by_channels and not (same and _are_blocks(groups)) and order.size > MAX_SHUFFLED:
            return None
        return Joined(parts=tuple(parts), by_channels=by_channels, order=None if same else order)

    def _groups(self, by_channels: bool) -> list[Places]:
        """Channels, or pixels, that are moved alike: in runs, if those are hardly more than keys.

        Of channels that are one source's the pixels are alike, of pixels the channels; where that
        fails to name a move, which sources they have.
        """
        source, across, along = (
            (self.source, self.channel, self.pixel)
            if by_channels
            else (self.source.T, self.pixel.T, self.channel.T)
        )
        constant = self.is_constant() if by_channels else self.is_constant().T
        known = np.asarray(constant.all(axis=1))
        mixed = ((source != source[:, :1]) | (across != across[:, :1])).any(axis=1) & ~known
        sources = np.where(constant, -1, source)
        alike = _follows(known) & (known[1:] | (mixed[1:] & mixed[:-1] & _follows(sources)))
        single = ~(known | mixed)
        alike |= single[1:] & single[:-1] & _follows(source[:, :1]) & _follows(along)
        firsts = [0, *(np.flatnonzero(~alike) + 1).tolist()]
        found: dict[Hashable, list[Places]] = {}
        for first, end in zip(firsts, [*firsts[1:], len(source)], strict=True):
            key: Hashable = "constant"
            if single[first]:
                key = int(source[first, 0]), along[first].tobytes()
            elif not known[first]:
                key = sources[first].tobytes()
            found.setdefault(key, []).append(np.arange(first, end))
            if len(found) > MAX_GROUPS:
                return []
        if len(firsts) <= len(found) + _MORE_RUNS:
            return sorted((run for runs in found.values() for run in runs), key=lambda r: int(r[0]))
        return [np.concatenate(runs) for runs in found.values()]


def _follows(rows: Places | npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether each row but the first is the one before it."""
    same = rows[1:] == rows[:-1]
    return np.asarray(same.all(axis=1) if same.ndim > 1 else same)


def _are_few(channels: Places) -> bool:
    """Whether channels follow each other, or may be permuted."""
    return channels.size <= MAX_SHUFFLED or bool((np.diff(channels) == 1).all())


def _are_blocks(groups: Sequence[Places]) -> bool:
    """Whether parts but the last are whole blocks of channels on any array."""
    return all(group.size % _BLOCK == 0 for group in groups[:-1])


def size_is_followed(shape: Sequence[int]) -> bool:
    """Whether a tensor is small enough that its elements are followed one by one."""
    return prod(shape) <= MAX_ELEMENTS
