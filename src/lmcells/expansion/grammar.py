"""Finding what the rules of `lmcells.expansion.grammar_rules` read: counted forms, joined forms and codes.

A rule is tried only near what it needs: a text is reduced to few characters and searched for all needs at once.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lmcells.expansion.grammar_rules import CODES, COUNTED, Rule

# A text is reduced to these characters: one digit, one space, no case.
_CHARACTERS = "\0abcdefghijklmnopqrstuvwxyz0 ./#(&+,-)×"
_PLAIN = bytes(
    max(0, _CHARACTERS.find("0" if each.isdigit() else " " if each.isspace() else each.lower()))
    for each in map(chr, range(256))
)
_N = len(_CHARACTERS)  # 39, so that the number of any three is below 2**16
_LOOK_BACK, _LOOK_AHEAD = 16, 32  # characters of a match on either side of where its need begins
_LATEST = 2  # characters from there to the latest start of a match
_CODE_REACH = 40  # characters before a short form that may belong to a code
_OPENING = 2_000  # characters of a note in which its patient is named


@dataclass(frozen=True, slots=True)
class Counted:
    """A form at `text[start:end]`, and its expansion."""

    start: int
    end: int
    long_form: str


class _Rules:
    """Rules, with a table of the three characters that their needs begin with."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._needs: dict[int, list[tuple[int, bytes]]] = {}  # by the number of these three
        for at, rule in enumerate(rules):
            for need in map(_plain, rule.needs):
                for third in need[2:3] or range(_N):
                    number = int(_triples(bytes([*need[:2], third]))[0])
                    self._needs.setdefault(number, []).append((at, need))
        self._rules = rules
        self._begins_need = np.zeros(_N**3, np.bool_)
        self._begins_need[list(self._needs)] = True

    def __call__(self, text: str) -> Iterator[Counted]:
        """Yield the rules' matches in a text, rule by rule."""
        plain = _plain(text) + b"\0"
        triples = _triples(plain)
        found: dict[int, list[int]] = {}
        for start in self._begins_need.take(triples).nonzero()[0].tolist():
            for rule, need in self._needs[int(triples[start])]:
                if plain.startswith(need, start):
                    found.setdefault(rule, []).append(start)
        for rule in sorted(found):
            yield from _matches(self._rules[rule], text, found[rule])


def _matches(rule: Rule, text: str, needed: list[int]) -> Iterator[Counted]:
    """Yield the rule's matches near these positions of its needs, in order."""
    done = 0
    for start in needed:
        for match in rule.pattern.finditer(text, max(done, start - _LOOK_BACK), start + _LOOK_AHEAD):
            if match.start() > start + _LATEST:
                break
            done = match.end()
            long_form = rule.read(match)
            if long_form is not None:
                yield Counted(match.start(rule.group), match.end(rule.group), long_form)


def _plain(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_PLAIN)


def _triples(plain: bytes) -> npt.NDArray[np.uint16]:
    """Return every three adjacent characters, as a number."""
    characters = np.frombuffer(plain, np.uint8).astype(np.uint16)
    return (characters[:-2] * _N + characters[1:-1]) * _N + characters[2:]


_FIND_COUNTED, _FIND_CODES = _Rules(COUNTED), _Rules(CODES)


def find_counted(text: str) -> list[Counted]:
    """Return the counted forms of a text, in order, without overlaps."""
    return _without_overlaps(_FIND_COUNTED(text))


def find_codes(text: str) -> list[Counted]:
    """Return the codes of a text: stages, vertebrae, cell-surface markers."""
    return _without_overlaps(_FIND_CODES(text))


def is_code(text: str, start: int, end: int) -> bool:
    """Whether a possible short form is part of a code: "T3 NX", "CN VI", "C1-INH", "RS-13.", "7 Ps".

    Also for initials and titles ("a boy named T.S.", "XYZ, O.D."), and for ABC in place of a removed name.
    """
    contexts = _code_contexts(text[start:end])
    if not contexts:
        return False
    before = text[max(0, start - _CODE_REACH) : start]
    if text.startswith(".", start + 1):
        named = _INITIALS.search(text, 0, _OPENING)
        if named is not None and text.startswith(named[1], start):
            return True
    return any(context.search(before) or follows.match(text, end) for context, follows in contexts)


@lru_cache(maxsize=1 << 14)
def _code_contexts(written: str) -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    """Return the patterns before and after a code with this spelling."""
    return [(before, after) for shape, before, after in _CODE_SHAPES if shape.fullmatch(written)]


def _without_overlaps(found: Iterator[Counted]) -> list[Counted]:
    """Sort forms; of those that overlap, keep the longest."""
    kept: list[Counted] = []
    for each in sorted(found, key=lambda each: (each.start, -each.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


_INITIALS = re.compile(r"\b(?:named|called|initials)\s([A-Z]\.[A-Z])\b")
_NEVER = r"(?!)"
_STAGE = r"(?:[0-4OoIiXxl][a-d]?\d?|is)"
_CODE_SHAPES = [
    (re.compile(shape), re.compile(rf"(?:{before})$"), re.compile(after))
    for shape, before, after in (
        # A category beside another: "T3 NX", "pT3a N0 MO".
        (r"[pcyr]?T(?:[0-4il][a-d]?|is)", _NEVER, rf"[\s,;/]{{0,3}}[pcyr]?N\s?{_STAGE}\b"),
        (
            r"[pcyr]?[NM][0-4OoIil]",
            rf"[pcyr]?[TN]\s?{_STAGE}[\s,;/]{{0,3}}",
            rf"[\s,;/]{{0,3}}[pcyr]?M\s?{_STAGE}\b|\s?\((?i:distant|regional)\b",
        ),
        # Cranial nerves, levels of the neck, stages: "CN VI", "levels IA, IB".
        (
            r"[IVX]{1,4}[A-Ca-c]?",
            r"\b(?:CN|[Cc]ranial nerves?|[Ll]evels?|[Ll]eads?|FIGO(?: stage)?)\s"
            r"(?:[IVX]{1,4}[AB]?(?:,|\sand|-|/)\s?){0,4}",
            _NEVER,
        ),
        (r"RS", _NEVER, r"\s(?:complex|wave)"),
        # Marks and mnemonics: "As and Bs", "the 6 Ps".
        (
            r"[A-Z]s",
            r"\b[A-F]'?s(?:,|,?\sand|\sor|/)\s?|\b(?:[3-9]|three|four|five|six|seven)\s",
            r"(?:,|,?\sand|\sor|/)\s?[A-F]s\b",
        ),
        (r"[TB]", _NEVER, r"-?\s(?:or|and)\s[TB][ -]cell"),
        # A number of cassettes: "sectioned. RS-13."
        (r"[AERT]S", _NEVER, r"\s?-\s?\d{1,2}(?:\.?\s*(?:\n|$)|\.\s)"),
        # Proteins: C1-INH, G-6-PD, PD-L2.
        (r"[A-Z]{2,4}", r"(?<![A-Za-z])[A-Z]-?\d-", _NEVER),
        (r"[A-Z]{2}", _NEVER, r"-(?:[A-Z]\d|k[Bb])\b"),
        (r"(?!M)[A-Z]\.[A-Z]", r"\n[A-Z][\w.]*(?:\s[A-Z][\w.]*){0,3},\s", _NEVER),
        # Removed names: "works at ABC".
        (
            r"ABC",
            r"\b(?:at|by|named|RE:|Dear|Dr\.|Mr\.|Mrs\.|Ms\.)\s",
            r"\s(?:who|Hospital|Clinic|Medical|General|University|Laborator)|,?\s(?:is\s)?an?\s\d",
        ),
    )
]
