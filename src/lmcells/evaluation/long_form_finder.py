"""Finding the long forms of an inventory in text: whole words, any case, any white space, longest first.

A note is not searched for all forms. The set of its words tells which forms can be there at all, usually a handful, and
only those are looked for: ten times faster than one alternation of all forms, whose branches are tried one by one at
every word.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from lmcells.expansion import Sense, SenseInventory
from lmcells.notes.tokens import LOWER

_WORD = re.compile(r"\w")
_BLANK_REST = bytes(code if re.match(rb"\w", bytes([code])) else ord(" ") for code in range(256))


class Target(NamedTuple):
    """A short form, and the sense of it that a form stands for."""

    short_form: str
    long_form: str


class Match(NamedTuple):
    """A form at `text[start:end]`, and all that it may be shortened to."""

    start: int
    end: int
    targets: tuple[Target, ...]


class DroppedForm(NamedTuple):
    """A form that is not substituted, and why."""

    short_form: str
    form: str
    reason: str


class _Form(NamedTuple):
    """How one form is found: by its words, then by its beginning, then by its pattern."""

    words: frozenset[bytes]
    beginning: str  # up to the first white space
    pattern: re.Pattern[str]
    targets: tuple[Target, ...]

    def find_in(self, lower: str) -> Iterator[Match]:
        start = lower.find(self.beginning)
        while start >= 0:
            found = self.pattern.match(lower, start)
            if found:
                yield Match(start, found.end(), self.targets)
            start = lower.find(self.beginning, found.end() if found else start + 1)


def lower_text(text: str) -> str:
    """Lower a text character by character, so that offsets stay what they are."""
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals become two letters
        lower = text.translate(LOWER)
    return lower if lower.isascii() else lower.replace("’", "'")


class LongFormFinder:
    """Finds the forms of an inventory that stand for one sense of each of their short forms.

    With `spelled_only`, only forms that hold the letters of the short form, in order. `dropped` lists the other forms.
    """

    def __init__(self, inventory: SenseInventory, *, spelled_only: bool = False) -> None:
        self.dropped: list[DroppedForm] = []
        self._spelled_only = spelled_only
        self._by_word: defaultdict[bytes, list[_Form]] = defaultdict(list)  # by the longest of a form's words
        self._candidates: dict[str, re.Pattern[str]] = {}
        targets: defaultdict[str, list[Target]] = defaultdict(list)
        for short_form in inventory.short_forms:
            for form, target in self._usable(short_form, inventory.senses(short_form)):
                targets[form].append(target)
        self.n_forms = len(targets)
        for form, shared_by in targets.items():
            words = frozenset(_words(form))
            pattern = re.compile(_any_of([form]))
            longest = max(words, key=lambda word: (len(word), word))
            self._by_word[longest].append(_Form(words, form.split(" ")[0], pattern, tuple(shared_by)))

    def _usable(self, short_form: str, senses: tuple[Sense, ...]) -> Iterator[tuple[str, Target]]:
        """Yield the forms of a short form that say which sense is meant; remember the others."""
        owners: dict[str, list[Sense]] = {}
        for sense in senses:
            for form in dict.fromkeys(map(_normal, sense.forms)):
                owners.setdefault(form, []).append(sense)
        candidates = [form for form in owners if _WORD.search(form) and form != _normal(short_form)]
        if candidates:
            self._candidates[short_form] = re.compile(_any_of(candidates))
        for form, owned_by in owners.items():
            reason = self._reason_to_drop(form, short_form, len(owned_by))
            if reason:
                self.dropped.append(DroppedForm(short_form, form, reason))
            else:
                yield form, Target(short_form, owned_by[0].long_form)

    def _reason_to_drop(self, form: str, short_form: str, n_owners: int) -> str | None:
        if not _WORD.search(form):
            return "holds no word"
        if form == _normal(short_form):
            return "the short form itself"
        if n_owners > 1:
            return "shared by two senses of the short form"
        if self._spelled_only and not spells_in_order(form, short_form):
            return "does not spell the short form"
        return None

    def find(self, text: str) -> list[Match]:
        """Return the matches in a text, in order; of two that overlap, the longer one."""
        lower = lower_text(text)
        words = _words(lower)
        found = (
            match
            for word in words & self._by_word.keys()
            for form in self._by_word[word]
            if form.words <= words
            for match in form.find_in(lower)
        )
        kept: list[Match] = []
        group: list[Match] = []  # matches that overlap, directly or through others
        end = 0
        for match in sorted(found):
            if match.start >= end:
                kept += _longest_first(group)
                group = []
            group.append(match)
            end = max(end, match.end)
        return kept + _longest_first(group)

    def holds_candidate(self, text: str, short_form: str) -> bool:
        """Whether any long form of the short form occurs in the text, whichever sense it is."""
        pattern = self._candidates.get(short_form)
        return pattern is not None and pattern.search(lower_text(text)) is not None


def spells_in_order(form: str, short_form: str) -> bool:
    """Whether a form has the letters and digits of the short form, in order, starting with its first."""
    letters = [character for character in short_form.lower() if character.isalnum()]
    rest = (character for character in form.lower() if character.isalnum())
    return bool(letters) and form.lower()[:1] == letters[0] and all(letter in rest for letter in letters)


def _longest_first(overlapping: list[Match]) -> list[Match]:
    """Keep the longest match, then the longest of those that do not overlap it, and so on."""
    taken: list[Match] = []
    for match in sorted(overlapping, key=lambda match: (match.start - match.end, match.start)):
        if all(match.end <= other.start or other.end <= match.start for other in taken):
            taken.append(match)
    return sorted(taken)


def _normal(form: str) -> str:
    return " ".join(lower_text(form).split())


def _words(lower: str) -> set[bytes]:
    """Return the runs of ASCII letters and digits: where a form occurs, its runs do too. b"" is in every text."""
    return {b"", *lower.encode(errors="surrogatepass").translate(_BLANK_REST).split()}


def _any_of(forms: list[str]) -> str:
    r"""Return one expression for several forms, with no letter or digit right before or after them.

    Forms with the same edges share them: `(?<!\w)(?:physical\s+therapy|physiotherapy)(?!\w)`.
    """
    by_edges: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for form in forms:
        edges = r"(?<!\w)" if _WORD.match(form) else "", r"(?!\w)" if _WORD.match(form[-1]) else ""
        by_edges[edges].append(r"\s+".join(map(re.escape, form.split(" "))))
    return "|".join(f"{before}(?:{'|'.join(group)}){after}" for (before, after), group in by_edges.items())
