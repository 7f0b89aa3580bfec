"""From the headers of foreign notes to the headers that a model knows.

A manual map decides first. Otherwise a header is mapped when it is the same up to case, punctuation and numbering
(*exact*), when the table of aliases gives both the same name (*alias*), or else to the *nearest* known header:

    distance = 1 - (cosine of character trigrams + overlap of words) / 2        0: the same, 1: nothing in common

and to none at all beyond a threshold.
"""

import csv
import io
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import FormatError, InputError
from lmcells.notes.sections import find_alias, header_key, load_aliases

How = Literal["no section", "manual", "exact", "alias", "nearest", "unmapped"]

# Measured on the 1,161 headers that the paper's authors mapped by hand: up to 0.7 they found a counterpart for 98 %
# (and the same one, of 286, for 44 %); from there to 0.8 for 77 %, beyond 0.8 for 24 %.
FARTHEST = 0.7

_NUMBERING = re.compile(r"^[\s\d.)(#-]+(?=[A-Za-z])")
_LITTLE_WORDS = frozenset("A AN AND AT BY FOR FROM IN OF ON OR THE TO WITH".split())


class MappedSection(NamedTuple):
    """Where a header went: one of the model's sections, or None; and how it was found."""

    section: str | None
    how: How


class _Shape(NamedTuple):
    """What the distance looks at."""

    trigrams: Mapping[str, int]
    norm: float
    words: frozenset[str]


class SectionMapper:
    """Maps headers one by one; `counts` says how many were mapped in which way.

    `known` are the model's sections, most frequent first: where an alias fits several, the first one is taken.
    """

    def __init__(self, known: Iterable[str], *, manual: Mapping[str, str | None] = {}) -> None:
        self.counts: Counter[How] = Counter()
        self._known = [header for header in known if header not in (NO_SECTION, OTHER)]
        self._table = load_aliases()
        self._exact: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._shapes = [_shape(_key(header)) for header in self._known]
        self._with_trigram: defaultdict[str, list[int]] = defaultdict(list)
        self._found: dict[str, MappedSection] = {}
        for index, header in enumerate(self._known):
            self._exact.setdefault(_key(header), header)
            if (alias := find_alias(self._table, header)) and alias.name:
                self._aliases.setdefault(alias.name, header)
            for trigram in self._shapes[index].trigrams:
                self._with_trigram[trigram].append(index)
        self._manual: dict[str, str | None] = {}
        for header, target in manual.items():
            self._manual[header_key(header)] = target
            self._manual.setdefault(
                _key(header), target
            )  # "2. FEN" speaks for FEN unless FEN is there itself

    def __call__(self, header: str | None) -> MappedSection:
        """Map one header."""
        if header is None or not header.strip():
            mapped = MappedSection(None, "no section")
        else:
            mapped = self._found.get(header) or self._map(header)
            self._found[header] = mapped
        self.counts[mapped.how] += 1
        return mapped

    def _map(self, header: str) -> MappedSection:
        for key in (header_key(header), _key(header)):
            if key in self._manual:
                target = self._manual[key]
                if not target:
                    return MappedSection(None, "manual")
                if _key(target) in self._exact:
                    return MappedSection(self._exact[_key(target)], "manual")
                header = target  # the map was made for another model: go on from what it says
                break
        if _key(header) in self._exact:
            return MappedSection(self._exact[_key(header)], "exact")
        alias = find_alias(self._table, header)
        if alias and alias.name in self._aliases:
            return MappedSection(self._aliases[alias.name], "alias")
        return self._nearest(_shape(_key(header)))

    def _nearest(self, shape: _Shape) -> MappedSection:
        products: Counter[int] = Counter()
        for trigram, count in shape.trigrams.items():
            for index in self._with_trigram.get(trigram, ()):
                products[index] += count * self._shapes[index].trigrams[trigram]
        best, smallest = None, 1.0
        for index, product in sorted(products.items()):
            other = self._shapes[index]
            words = shape.words | other.words
            cosine = product / (shape.norm * other.norm) if product else 0.0
            overlap = len(shape.words & other.words) / len(words) if words else 0.0
            if (distance := max(0.0, 1.0 - (cosine + overlap) / 2)) < smallest:
                best, smallest = index, distance
        if best is None or smallest > FARTHEST:
            return MappedSection(None, "unmapped")
        return MappedSection(self._known[best], "nearest")


def _key(header: str) -> str:
    return header_key(_NUMBERING.sub("", header))


def _shape(key: str) -> _Shape:
    padded = f" {key} "
    trigrams = Counter(padded[start : start + 3] for start in range(len(padded) - 2))
    words = frozenset(key.split())
    norm = math.sqrt(sum(n * n for n in trigrams.values()))
    return _Shape(trigrams, norm, words - _LITTLE_WORDS or words)


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
