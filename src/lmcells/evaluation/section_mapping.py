"""From the headers of foreign notes to the headers that a model knows.

A manual map decides first. Otherwise a header is mapped when it is the same up to case, punctuation and numbering
(*exact*), when the table of aliases gives both one name (*alias*), or else to the *nearest* known header:

    distance = 1 - (cosine of character trigrams + overlap of words) / 2        0: the same, 1: nothing in common

and to none at all beyond a threshold. Every answer says how it was found and how far away.
"""

import csv
import io
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lmcells.errors import FormatError, InputError
from lmcells.notes.sections import AliasTable, find_alias, header_key, load_aliases

How = Literal["no section", "manual", "exact", "alias", "nearest", "unmapped"]

# Measured on the 1,161 headers that the paper's authors mapped by hand: up to 0.7 they found a counterpart for 98 %
# (and the same one, of 286, for 44 %); from there to 0.8 for 77 %, beyond 0.8 for 24 %.
DEFAULT_THRESHOLD = 0.7

_NUMBERING = re.compile(r"^[\s\d.)(#-]+(?=[A-Za-z])")
_LITTLE_WORDS = frozenset("A AN AND AT BY FOR FROM IN OF ON OR THE TO WITH".split())


@dataclass(frozen=True, slots=True)
class MappedSection:
    """Where a header went: `section` is one that the model knows, or None."""

    header: str | None
    section: str | None
    how: How
    distance: float = 0.0


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the distance looks at."""

    trigrams: Mapping[str, int]
    norm: float
    words: frozenset[str]

    @classmethod
    def of(cls, key: str) -> "_Shape":
        padded = f" {key} "
        trigrams = Counter(padded[place : place + 3] for place in range(len(padded) - 2))
        words = frozenset(key.split())
        return cls(trigrams, math.sqrt(sum(n * n for n in trigrams.values())), words - _LITTLE_WORDS or words)


@dataclass(slots=True)
class SectionMapper:
    """Maps headers one by one, and counts how each kind of answer came about.

    `known` are the model's headers, most frequent first: where an alias fits several, the first one is taken.
    """

    known: Sequence[str]
    manual: Mapping[str, str | None] = field(default_factory=dict)
    threshold: float = DEFAULT_THRESHOLD
    counts: Counter[How] = field(default_factory=Counter)
    _table: AliasTable = field(init=False, repr=False)
    _exact: dict[str, str] = field(init=False, default_factory=dict)
    _aliases: dict[str, str] = field(init=False, default_factory=dict)
    _manual: dict[str, str | None] = field(init=False, default_factory=dict)
    _shapes: list[_Shape] = field(init=False, default_factory=list)
    _with_trigram: defaultdict[str, list[int]] = field(init=False, default_factory=lambda: defaultdict(list))
    _found: dict[str, MappedSection] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise InputError(f"section threshold: found {self.threshold}, allowed: 0 to 1.")
        self._table = load_aliases()
        for index, header in enumerate(self.known):
            key = _key(header)
            self._exact.setdefault(key, header)
            alias = find_alias(self._table, header)
            if alias and alias.name:
                self._aliases.setdefault(alias.name, header)
            self._shapes.append(_Shape.of(key))
            for trigram in self._shapes[-1].trigrams:
                self._with_trigram[trigram].append(index)
        for header, target in self.manual.items():
            self._manual[header_key(header)] = target
            self._manual.setdefault(
                _key(header), target
            )  # "2. FEN" speaks for FEN unless FEN is there itself

    def __call__(self, header: str | None) -> MappedSection:
        """Map one header."""
        if header is None or not header.strip():
            mapped = MappedSection(header, None, "no section")
        else:
            mapped = self._found.get(header) or self._map(header)
            self._found[header] = mapped
        self.counts[mapped.how] += 1
        return mapped

    def _map(self, header: str) -> MappedSection:
        wanted = header
        key = next((key for key in (header_key(header), _key(header)) if key in self._manual), None)
        if key is not None:
            target = self._manual[key]
            if not target:
                return MappedSection(header, None, "manual")
            if _key(target) in self._exact:
                return MappedSection(header, self._exact[_key(target)], "manual")
            wanted = target  # the manual map was made for another model: go on from what it says
        if _key(wanted) in self._exact:
            return MappedSection(header, self._exact[_key(wanted)], "exact")
        alias = find_alias(self._table, wanted)
        if alias and alias.name in self._aliases:
            return MappedSection(header, self._aliases[alias.name], "alias")
        return self._nearest(header, _Shape.of(_key(wanted)))

    def _nearest(self, header: str, shape: _Shape) -> MappedSection:
        products: Counter[int] = Counter()
        for trigram, count in shape.trigrams.items():
            for index in self._with_trigram.get(trigram, ()):
                products[index] += count * self._shapes[index].trigrams[trigram]
        best, smallest = None, 1.0
        for index, product in sorted(products.items()):
            distance = _distance(shape, self._shapes[index], product)
            if distance < smallest:
                best, smallest = index, distance
        if best is None or smallest > self.threshold:
            return MappedSection(header, None, "unmapped", smallest)
        return MappedSection(header, self.known[best], "nearest", smallest)


def section_distance(one: str, other: str) -> float:
    """Return how far apart two headers are, 0 to 1."""
    first, second = _Shape.of(_key(one)), _Shape.of(_key(other))
    product = sum(count * second.trigrams.get(trigram, 0) for trigram, count in first.trigrams.items())
    return _distance(first, second, product)


def _distance(one: _Shape, other: _Shape, product: int) -> float:
    cosine = product / (one.norm * other.norm) if product else 0.0
    overlap = len(one.words & other.words) / len(one.words | other.words) if one.words or other.words else 0.0
    return max(0.0, 1.0 - (cosine + overlap) / 2)


def _key(header: str) -> str:
    return header_key(_NUMBERING.sub("", header))


def map_sections(headers: Iterable[str | None], mapper: SectionMapper) -> list[MappedSection]:
    """Map headers in order."""
    return [mapper(header) for header in headers]


def load_section_map(path: Path) -> dict[str, str | None]:
    """Read a manual map: CSV of two columns (foreign, known) under a header line, or a JSON object.

    An empty cell or null says that a header has no counterpart.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"section map {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"section map {path}: not UTF-8 text. Save it as UTF-8.") from error
    return _json_map(path, text) if path.suffix.lower() == ".json" else _csv_map(path, text)


def _json_map(path: Path, text: str) -> dict[str, str | None]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(target, str | None) for target in value.values()):
        raise FormatError(
            f'section map {path}: expected a JSON object, {{"foreign header": "known header"}}.'
        )
    return {header: target or None for header, target in value.items()}


def _csv_map(path: Path, text: str) -> dict[str, str | None]:
    section_map: dict[str, str | None] = {}
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            if rows.line_num == 1 or not row:
                continue
            if len(row) < 2:
                raise FormatError(
                    f"section map {path}, line {rows.line_num}: {len(row)} column. Needed: two, foreign and known "
                    "header."
                )
            section_map[row[0]] = row[1].strip() or None
    except csv.Error as error:
        raise FormatError(f"section map {path}, line {rows.line_num}: not CSV ({error}).") from error
    if not section_map:
        raise FormatError(f"section map {path} is empty. Give a header line and two columns.")
    return section_map
