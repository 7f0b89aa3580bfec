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
from functools import cache
from pathlib import Path

from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import FormatError, InputError
from lmcells.notes.sections import find_alias, header_key, load_aliases

# One of the model's sections, or None; and how it was found: no section, manual, exact, alias, nearest, unmapped.
Mapped = tuple[str | None, str]

# Measured on the 1,161 headers that the paper's authors mapped by hand: up to 0.7 they found a counterpart for 98 %
# (and the same one, of 286, for 44 %); from there to 0.8 for 77 %, beyond 0.8 for 24 %.
FARTHEST = 0.7

_NUMBERING = re.compile(r"^[\s\d.)(#-]+(?=[A-Za-z])")
_LITTLE_WORDS = frozenset("A AN AND AT BY FOR FROM IN OF ON OR THE TO WITH".split())


class SectionMapper:
    """Maps headers one by one; `counts` says how many were mapped in which way.

    `known` are the model's sections, most frequent first: where an alias fits several, the first one is taken.
    """

    def __init__(self, known: Iterable[str], *, manual: Mapping[str, str | None] = {}) -> None:
        self.counts: Counter[str] = Counter()
        self._table = load_aliases()
        self._exact: dict[str, str] = {}  # key -> known header
        self._aliases: dict[str, str] = {}
        self._with_trigram: defaultdict[str, list[str]] = defaultdict(list)  # -> keys
        for header in known:
            if header in (NO_SECTION, OTHER):
                continue
            if (alias := find_alias(self._table, header)) and alias.name:
                self._aliases.setdefault(alias.name, header)
            if (key := _key(header)) not in self._exact:
                self._exact[key] = header
                for trigram in _shape(key)[0]:
                    self._with_trigram[trigram].append(key)
        # "2. FEN" speaks for FEN unless FEN is there itself.
        self._manual = {_key(header): target for header, target in reversed([*manual.items()])}
        self._manual |= {header_key(header): target for header, target in manual.items()}
        self._found: dict[str, Mapped] = {}

    def __call__(self, header: str | None) -> Mapped:
        """Map one header."""
        header = (header or "").strip()
        if header not in self._found:
            self._found[header] = self._map(header) if header else (None, "no section")
        self.counts[self._found[header][1]] += 1
        return self._found[header]

    def _map(self, header: str) -> Mapped:
        for key in (header_key(header), _key(header)):
            if key in self._manual:
                target = self._manual[key]
                if not target:
                    return None, "manual"
                if _key(target) in self._exact:
                    return self._exact[_key(target)], "manual"
                header = target  # the map was made for another model: go on from what it says
                break
        if _key(header) in self._exact:
            return self._exact[_key(header)], "exact"
        alias = find_alias(self._table, header)
        if alias and alias.name in self._aliases:
            return self._aliases[alias.name], "alias"
        key = _key(header)
        trigrams, norm, words = _shape(key)
        products: Counter[str] = Counter()
        for trigram, n in trigrams.items():
            for rival in self._with_trigram.get(trigram, ()):
                products[rival] += n * _shape(rival)[0][trigram]

        def distance(rival: str) -> float:
            _, its_norm, its_words = _shape(rival)
            both = words | its_words
            overlap = len(words & its_words) / len(both) if both else 0.0
            return max(0.0, 1.0 - (products[rival] / (norm * its_norm) + overlap) / 2)

        # Of equally near headers the most frequent, which is the first.
        nearest = min((each for each in self._exact if each in products), key=distance, default=None)
        if nearest is None or distance(nearest) > FARTHEST:
            return None, "unmapped"
        return self._exact[nearest], "nearest"


def _key(header: str) -> str:
    return header_key(_NUMBERING.sub("", header))


@cache
def _shape(key: str) -> tuple[Counter[str], float, frozenset[str]]:
    """What the distance looks at: character trigrams, the length of their vector, words."""
    padded, words = f" {key} ", frozenset(key.split())
    trigrams = Counter(padded[start : start + 3] for start in range(len(padded) - 2))
    return trigrams, math.sqrt(sum(n * n for n in trigrams.values())), words - _LITTLE_WORDS or words


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
    if path.suffix.lower() == ".json":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or not all(isinstance(each, str | None) for each in value.values()):
            raise FormatError(
                f'section map {path}: expected a JSON object, {{"foreign header": "known header"}}.'
            )
        return {header: target or None for header, target in value.items()}
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
