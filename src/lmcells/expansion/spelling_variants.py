"""Which ways to write out a short form are one long form: case, hyphens, number, accents, British or American, slips.

The rules of `inventory_review.py` that connect by words are taken as they are; of those that connect by letters only
what changes no meaning: "hypertension" and "hypotension" stay two, "creatine" and "creatinine" as well.
"""

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import combinations

from lmcells.expansion.inventory_review import GENERIC, content_stems, within_edits
from lmcells.expansion.sense_lookup import form_key

_SHORTEST_SLIP = 6  # letters: of shorter words too many are one letter apart, "optic" and "otic"
# Both numbers of a Greek or Latin word, and both spellings, become one, which need not be a word.
_ALIKE = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=...)sis$", "se"),  # thrombosis, thromboses
        (r"(?<=..[bcdegl])i$", "us"),  # emboli, embolus; not multi
        (r"(?<=...)um$", "a"),  # medium, media
        (r"(?<=..[lr])ion$", "ia"),  # ganglion, criteria
        (r"woman$", "women"),
        (r"o?oe|ae", "e"),  # gastrooesophageal, haemoglobin
        (r"our(?!t)", "or"),  # tumour, behavioural
        (r"([iy])s(?=(?:e|ed|er|ing|ation)$)", r"\1z"),  # randomised, analyse
        (r"sulph", "sulf"),
        (r"leuco", "leuko"),
        (r"ll(?=(?:ed|ing)$)", "l"),  # labelled
        (r"tre$", "ter"),
        (r"(?<=m)me$", ""),  # programme
        (r"gue$", "g"),  # analogue
    )
)


def group_variants(
    long_forms: Iterable[str], *, known: Callable[[str], Hashable] = lambda _: None
) -> list[list[str]]:
    """Group ways to write out one short form, in order of their first; `known` names the sense of those that have one.

    What is connected by several steps is one group: so none of it could be merged further.
    """
    connected = _Connected()
    by_rest: dict[Hashable, list[tuple[str, str]]] = {}
    given = list(dict.fromkeys(long_forms))
    for long_form in given:
        bare = _bare(long_form)
        words = tuple(map(_alike, form_key(bare)))
        for key in (_letters(bare), *_contents(words), ("known", known(long_form))):
            if key[1]:
                connected.join(long_form, key)
        for at, word in enumerate(words):
            if len(word) >= _SHORTEST_SLIP and word.isalpha():
                rest = (at, *words[:at], *words[at + 1 :])
                by_rest.setdefault(rest, []).append((word, long_form))
    for alike_but_one in by_rest.values():
        for (word, first), (other, second) in combinations(alike_but_one, 2):
            if is_slip(word, other):
                connected.join(first, second)
    groups: dict[Hashable, list[str]] = {}
    for long_form in given:
        groups.setdefault(connected.root(long_form), []).append(long_form)
    return list(groups.values())


def is_slip(word: str, other: str) -> bool:
    """Whether one has a letter more than the other, or a letter in another place; a letter replaced may be a word."""
    if len(word) != len(other):
        return within_edits(word, other, 1)
    return sorted(word) == sorted(other) and within_edits(word, other, 2)


def _bare(long_form: str) -> str:
    """The long form without case, accents and ligatures."""
    decomposed = unicodedata.normalize("NFKD", long_form.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def _alike(word: str) -> str:
    for pattern, replacement in _ALIKE:
        word = pattern.sub(replacement, word)
    return word


def _letters(bare: str) -> tuple[str, Hashable]:
    """What "trans-rectal", "trans rectal" and "transrectals" have in common."""
    return "letters", tuple(map(_alike, form_key("".join(filter(str.isalnum, bare)))))


def _contents(words: tuple[str, ...]) -> Iterator[tuple[str, Hashable]]:
    """Yield the words that carry the meaning, with and without those that add nothing to it."""
    # The content of "influenza A virus" is that of B, but for the letter. An s alone is what is left of 's.
    letters = frozenset(word for word in words if len(word) == 1 and word not in "as")
    stems = content_stems(" ".join(words)) | letters
    yield "words", stems
    yield "specific words", stems - _GENERIC_STEMS or stems


_GENERIC_STEMS = content_stems(" ".join(map(_alike, GENERIC)))


class _Connected:
    """Things that are connected, directly or by others."""

    def __init__(self) -> None:
        self._towards: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """Return the one thing that stands for all that it is connected with."""
        path = []
        while (towards := self._towards.setdefault(thing, thing)) != thing:
            path.append(thing)
            thing = towards
        self._towards.update(dict.fromkeys(path, thing))
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        self._towards[self.root(other)] = self.root(one)
