"""Finding the long forms of an inventory in text: whole words, any case, any white space, longest first.

A note is not searched for all forms. The set of its words shows which forms are possible at all, usually a handful, and
only those are looked for: ten times faster than one alternation of all forms, whose branches are tried one by one at
every word.
"""

import re
from bisect import bisect
from collections import defaultdict
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
    """A form at `text[start:end]`, and the senses it stands for."""

    start: int
    end: int
    targets: tuple[Target, ...]


_Form = tuple[frozenset[bytes], str, re.Pattern[str], tuple[Target, ...]]


def lower_text(text: str) -> str:
    """Lower a text character by character, so that offsets do not change."""
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals become two letters
        lower = text.translate(LOWER)
    return lower if lower.isascii() else lower.replace("’", "'")


class LongFormFinder:
    """Finds the forms of an inventory that stand for one sense of each of their short forms.

    With `spelled_only`, only forms that contain the letters of the short form, in order. `dropped` lists the other
    forms.
    """

    def __init__(self, inventory: SenseInventory, *, spelled_only: bool = False) -> None:
        self.dropped: list[dict[str, str]] = []
        self._candidates: dict[str, re.Pattern[str]] = {}
        targets: defaultdict[str, list[Target]] = defaultdict(list)
        for short_form in inventory.short_forms:
            owners: dict[str, list[Sense]] = {}
            for sense in inventory.senses(short_form):
                for form in dict.fromkeys(map(_normal, sense.forms)):
                    owners.setdefault(form, []).append(sense)
            candidates = [form for form in owners if _WORD.search(form) and form != _normal(short_form)]
            if candidates:
                self._candidates[short_form] = re.compile(_any_of(candidates))
            for form, owned_by in owners.items():
                if not _WORD.search(form):
                    reason = "contains no word"
                elif form == _normal(short_form):
                    reason = "the short form itself"
                elif len(owned_by) > 1:
                    reason = "shared by two senses of the short form"
                elif spelled_only and not spells_in_order(form, short_form):
                    reason = "does not spell the short form"
                else:
                    targets[form].append(Target(short_form, owned_by[0].long_form))
                    continue
                self.dropped.append({"short_form": short_form, "form": form, "reason": reason})
        self.n_forms = len(targets)
        # A form is found by its words, then by its beginning up to white space, then by its pattern.
        self._by_longest_word: defaultdict[bytes, list[_Form]] = defaultdict(list)
        for form, shared_by in targets.items():
            words = frozenset(_words(form))
            longest = max(words, key=lambda word: (len(word), word))
            found_by = words, form.split(" ")[0], re.compile(_any_of([form]))
            self._by_longest_word[longest].append((*found_by, tuple(shared_by)))

    def find(self, text: str) -> list[Match]:
        """Return the matches in a text, in order; of two of one short form that overlap, the longer one."""
        lower = lower_text(text)
        words = _words(lower)
        found = []
        for word in words & self._by_longest_word.keys():
            for of_form, beginning, pattern, targets in self._by_longest_word[word]:
                start = lower.find(beginning) if of_form <= words else -1
                while start >= 0:
                    match = pattern.match(lower, start)
                    if match:
                        found.append(Match(start, match.end(), targets))
                    start = lower.find(beginning, match.end() if match else start + 1)
        taken: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # by each short form, in order
        kept = []
        for start, end, targets in sorted(found, key=lambda each: (each.start - each.end, each.start)):
            free = tuple(each for each in targets if _insert(taken[each.short_form], start, end))
            kept += [Match(start, end, free)] if free else []
        return sorted(kept)

    def holds_candidate(self, text: str, short_form: str) -> bool:
        """Whether any long form of the short form occurs in the text, whichever sense it is."""
        pattern = self._candidates.get(short_form)
        return pattern is not None and pattern.search(lower_text(text)) is not None


def _insert(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    """Insert a span among others in order, unless it overlaps one of them."""
    at = bisect(spans, (start, end))
    if (at and spans[at - 1][1] > start) or (at < len(spans) and end > spans[at][0]):
        return False
    spans.insert(at, (start, end))
    return True


def spells_in_order(form: str, short_form: str) -> bool:
    """Whether a form has the letters and digits of the short form, in order, starting with its first."""
    letters = [character for character in short_form.lower() if character.isalnum()]
    rest = (character for character in form.lower() if character.isalnum())
    return bool(letters) and form.lower()[:1] == letters[0] and all(letter in rest for letter in letters)


def _normal(form: str) -> str:
    return " ".join(lower_text(form).split())


def _words(lower: str) -> set[bytes]:
    """Return the runs of ASCII letters and digits: a text with a form has its runs too. b"" is in every text."""
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
