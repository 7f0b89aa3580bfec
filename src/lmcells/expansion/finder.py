"""Finding the short forms of an inventory in a text.

A short form is one token of `lmcells.notes.tokens`, or begins with one. So the tokens of a text are looked up by their
hash, all at once, and only the few that may be short forms are looked at one by one:

- case: what is written as in the inventory is found. Another case is found unless that is an English word: "pt" and
  "Htn" are PT and HTN, "or", "Pet" and "no" are words. Four characters and more may be in any case ("HBA1c");
- in all-caps text, capitals carry no information: there "OR" and "IS" are words, but not in "TO THE OR";
- "PTs", "PT's", "DC'd", "p.o.", "P.O." and "C & S" are found; "CT" is found in "CT-guided" and not in "CTA";
- units after numbers ("24 hr", "8 PM"), Roman numerals ("stage IV"), letters in names ("hepatitis C"), names
  ("Dr. ABC"), parts of words ("co-worker") and list labels are not; see `look_alikes`.
"""

import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.look_alikes import LookAlikes, Written
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND, UNIT_NAMES
from lmcells.notes.token_arrays import TokenArrays, find_tokens, hash_words
from lmcells.notes.tokens import NUMBER, STOP_WORDS, iterate_tokens, spell

_INFLECTIONS = ("s", "'d", "'ed")
_TIMES = ("x1", "x2", "x3", "x4", "x5")  # "A&Ox3", "CABGx4": what is counted is the short form
_NAMES_WITH_X = frozenset({"cox", "cdx", "pax"})  # COX2, CDX2 and PAX5 are names of their own
_SPACED_AMPERSAND = re.compile(
    r"(?<![^\W_])(?=([^\W_]{1,3}(?:[ ]+&[ ]*|&[ ]+)[^\W_]{1,3})(?![^\W_]))"  # overlapping: "UA & C & S"
)
_BETWEEN_AMPERSANDS = re.compile(r"[^&]{2,}")
_VOWELS = frozenset("aeiouy")
_MOST_KNOWN = 20_000
_SLOTS_EACH = 32  # so that about 3 % of the other words pass the table of slots and must be looked up


class Found(NamedTuple):
    """A short form of the inventory, written at `text[start:end]`."""

    start: int
    end: int
    short_form: str


class _Entry(NamedTuple):
    """A short form that a token may be, or begin."""

    short_form: str
    plain: str  # without dots: what is compared
    lead: int  # characters of the short form before its token
    pattern: re.Pattern[str] | None  # of a short form that is more than its token
    is_unit: bool  # whether a sense may stand after a number


class _Fit(NamedTuple):
    """A token that is written like an entry; the longest come first, then the closest."""

    rank: tuple[int, int]  # minus the length, and how far it is from the inventory's spelling
    stem: str  # without an ending
    entry: _Entry


class ShortFormFinder:
    """Finds short forms in texts, in time linear in the text.

    find = ShortFormFinder(inventory)
    find("Pt s/p MI")   # [Found(0, 2, "PT"), Found(3, 6, "s/p"), Found(7, 9, "MI")]

    `exact` finds them only as they are spelt (and in the plural): for short forms that a text defines.
    """

    def __init__(self, inventory: SenseInventory | Iterable[str], *, exact: bool = False) -> None:
        self._exact = exact
        # By the hash of a token; with the ending of the token after the short form, or "".
        self._entries: dict[int, list[tuple[_Entry, str]]] = {}
        units = _with_units(inventory) if isinstance(inventory, SenseInventory) else frozenset()
        short_forms = inventory.short_forms if isinstance(inventory, SenseInventory) else inventory
        entries = [pair for each in short_forms for pair in self._entries_of(each, is_unit=each in units)]
        hashes = hash_words([word + ending for word, _, ending in entries])
        self._with_pattern = set()
        for hash_, (_, entry, ending) in zip(hashes.tolist(), entries, strict=True):
            self._entries.setdefault(hash_, []).append((entry, ending))
            if entry.pattern is not None:
                self._with_pattern.add(hash_)
        self._known_fits: dict[str, list[_Fit]] = {}  # of a token as written
        n_bits = max(10, (_SLOTS_EACH * len(self._entries)).bit_length())
        self._shift = np.uint64(64 - n_bits)
        self._slots = np.zeros(1 << n_bits, np.bool_)  # whether an entry's hash begins with these bits
        self._slots[np.array(list(self._entries), np.uint64) >> self._shift] = True

    def _entries_of(self, short_form: str, *, is_unit: bool) -> Iterator[tuple[str, _Entry, str]]:
        """Yield the words by which a short form may be found, each with its entry and an ending."""
        if short_form.isalpha() and short_form.isascii() and short_form not in STOP_WORDS:
            word, start, end = short_form.lower(), 0, len(short_form)  # the whole of it is a token
        else:
            tokens = list(iterate_tokens(short_form))
            if not tokens:
                return  # a stop word in lower case, or no word at all: cannot be found
            word, start, end = next((token for token in tokens if token.word != NUMBER), tokens[0])
        plain = short_form.replace(".", "")
        if short_form[:start] or short_form[end:].strip("."):
            parts = map(re.escape, short_form.split())
            pattern = re.compile(r"\s+".join(parts) + r"(?![^\W_])", 0 if self._exact else re.IGNORECASE)
            yield word, _Entry(short_form, plain, start, pattern, is_unit), ""
            return
        if word[1:2] == "/":  # in "27y/o" it is two tokens
            pattern = re.compile(re.escape(short_form) + r"(?![^\W_])", 0 if self._exact else re.IGNORECASE)
            yield word[0], _Entry(short_form, plain, 0, pattern, is_unit), ""
        entry = _Entry(short_form, plain, 0, None, is_unit)
        for ending in ("", *_INFLECTIONS, *_TIMES) if len(plain) > 1 else ("",):
            yield word, entry, ending

    def __call__(self, text: str, tokens: TokenArrays | None = None) -> list[Found]:
        """Return what is found, in order, without overlaps; `tokens` are the text's, where they are known."""
        tokens = find_tokens(text, stop_words=True) if tokens is None else tokens
        if "&" in text:
            tokens = _with_ampersands(text, tokens)
        # All short forms, and a few others.
        hits = np.flatnonzero(self._slots[tokens.hashes >> self._shift] & ~tokens.is_stop_word)
        if len(self._known_fits) > _MOST_KNOWN:
            self._known_fits.clear()
        look_alikes = LookAlikes(text)
        columns = (tokens.starts[hits].tolist(), tokens.ends[hits].tolist(), tokens.hashes[hits].tolist())
        found = [
            self._best(text, start, end, hash_, look_alikes)
            for start, end, hash_ in zip(*columns, strict=True)
            if hash_ in self._entries
        ]
        return without_overlaps(each for each in found if each is not None)

    def _best(self, text: str, start: int, end: int, hash_: int, look_alikes: LookAlikes) -> Found | None:
        """Return the longest short form that begins with the token, of several the closest to what is written."""
        written = text[start:end]
        fits = self._known_fits.get(written)
        if fits is None:
            fits = self._known_fits[written] = self._fits(written, self._entries[hash_])
        if hash_ in self._with_pattern:
            fits = sorted(
                [*self._pattern_fits(text, start, self._entries[hash_]), *fits], key=attrgetter("rank")
            )
        for fit in fits:
            first, last = start - fit.entry.lead, start - fit.entry.lead - fit.rank[0]
            written_as_unit = fit.entry.short_form == fit.stem and fit.stem.islower()
            may_be_unit = fit.entry.is_unit or written_as_unit
            if not look_alikes(Written(first, last, fit.stem), may_be_unit=may_be_unit):
                if "." in fit.stem and text[last : last + 1] == ".":
                    last += 1  # the last dot of "p.o." is its own
                return Found(first, last, fit.entry.short_form)
        return None

    def _fits(self, written: str, entries: list[tuple[_Entry, str]]) -> list[_Fit]:
        """Return the short forms of one token that a token may be, as written."""
        fits = []
        for entry, ending in entries:
            stem = written[: len(written) - len(ending)]
            if entry.pattern is not None or (ending and not _inflects(stem, written, ending)):
                continue
            misfit = self._misfit(stem, entry)
            if misfit is not None:
                length = len(stem) if ending in _TIMES else len(written)
                fits.append(_Fit((-length, misfit + bool(ending)), stem, entry))
        return sorted(fits, key=attrgetter("rank"))

    def _pattern_fits(self, text: str, start: int, entries: list[tuple[_Entry, str]]) -> list[_Fit]:
        """Return the short forms of several tokens that are written around a token."""
        fits = []
        for entry, _ in entries:
            first = start - entry.lead
            match = entry.pattern.match(text, first) if entry.pattern is not None and first >= 0 else None
            if match is None or (first > 0 and _continues(text[first - 1], text[first])):
                continue
            misfit = 0 if match[0].replace(".", "") == entry.plain else 2
            if not (self._exact and misfit):
                fits.append(_Fit((first - match.end(), misfit), match[0], entry))
        return fits

    def _misfit(self, stem: str, entry: _Entry) -> int | None:
        """Return how far what is written is from the inventory's spelling, None where it is not the short form."""
        plain = without_marks(stem)
        if plain == entry.plain:
            return 0
        lower = plain.lower()
        if self._exact or len(plain) == 1 or lower != entry.plain.lower().replace("’", "'"):
            return None
        capitalised = plain[0].isupper() and plain[1:].islower()
        is_ordinary = lower in NOT_SHORTHAND or (capitalised and lower in NAMES)
        if not plain.isupper() and "." not in stem and is_ordinary:
            return None
        is_mixed = not (plain.isupper() or plain.islower() or capitalised)
        if is_mixed and len(plain) < 4:
            return None
        return 2 if plain.isupper() == entry.plain.isupper() else 3  # "pt" is Pt before it is PT


def without_marks(written: str) -> str:
    """Return a short form as it is compared: "p.o." is "po", "C & S" is "C&S"."""
    return written.replace(".", "").replace(" ", "")


def without_overlaps(found: Iterable[Found]) -> list[Found]:
    """Put short forms in order; of two that overlap the longer stays."""
    kept: list[Found] = []
    for each in sorted(found):
        if kept and each.start < kept[-1].end:
            if each.end - each.start <= kept[-1].end - kept[-1].start:
                continue
            kept.pop()
        kept.append(each)
    return kept


def _continues(before: str, character: str) -> bool:
    """Whether a word that has begun goes on; after a number, "27y/o", another begins."""
    return before.isalpha() and character.isalnum() if not character.isdigit() else before.isalnum()


def _with_units(inventory: SenseInventory) -> frozenset[str]:
    """Return the short forms that have a unit among their senses."""
    return frozenset(
        sense.short_form
        for sense in inventory
        for form in sense.forms
        if (form.lower().replace("-", " ").split() or [""])[0].rstrip("s") in UNIT_NAMES
    )


def _with_ampersands(text: str, tokens: TokenArrays) -> TokenArrays:
    """Add the parts of tokens such as PT&OT, and "C & S" as one token, in order."""
    parts = [
        (match.start(1), match.end(1), match[1].replace(" ", ""))
        for match in _SPACED_AMPERSAND.finditer(text)
    ]
    at = np.array([match.start() for match in re.finditer("&", text)])
    owners = np.unique(np.searchsorted(tokens.starts, at, "right") - 1)
    for start, end in zip(tokens.starts[owners[owners >= 0]], tokens.ends[owners[owners >= 0]], strict=True):
        if "&" in text[start:end]:
            parts += [
                (part.start(), part.end(), part[0]) for part in _BETWEEN_AMPERSANDS.finditer(text, start, end)
            ]
    if not parts:
        return tokens
    starts, ends, words = zip(*parts, strict=True)
    all_starts = np.concatenate([tokens.starts, np.array(starts, np.int64)])
    order = np.argsort(all_starts, kind="stable")
    return TokenArrays(
        all_starts[order],
        np.concatenate([tokens.ends, np.array(ends, np.int64)])[order],
        np.concatenate([tokens.hashes, hash_words(map(spell, words))])[order],
        np.concatenate([tokens.is_stop_word, np.zeros(len(parts), np.bool_)])[order],
    )


def _inflects(stem: str, written: str, inflection: str) -> bool:
    """Whether an ending is an inflection: in "PTs" and "pts", not in "CTS" and "gas"."""
    if "." in stem or "." in written:
        return False
    if inflection in _TIMES:
        return written[:-1].lower() not in _NAMES_WITH_X
    if inflection != "s":
        return True
    return written[-1] == "s" and (stem[-1].isupper() or stem[-1].isdigit() or _VOWELS.isdisjoint(stem))
