"""Finding the short forms of an inventory in a text.

A short form is a token of `lmcells.notes.tokens`, or begins with one. So all tokens of a text are looked up by hash at
once, and only the few that may be short forms are checked one by one:

- case: a short form is found as the inventory writes it, and in another case unless that is an English word: "pt" and
  "Htn" are PT and HTN, "or", "Pet" and "no" are words. Four characters and more may be in any case ("HBA1c"), the
  first or last of three may be small if they have one sense ("hCG", "LCx");
- in all-caps text, capitals carry no information: there "OR" and "IS" are words, but not in "TO THE OR";
- "PTs", "PT's", "DC'd", "p.o.", "P.O." and "C & S" are found; "CT" is found in "CT-guided" and not in "CTA"; "HER-2"
  is HER2, and "NSAIDS" is a plural if the inventory has a plural of the long form, unlike CPR in "CPRS";
- units after numbers ("24 hr", "8 PM"), Roman numerals ("stage IV"), letters in names ("hepatitis C"), names
  ("Dr. ABC"), parts of words ("co-worker") and list labels are not; see `look_alikes`.
"""

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache, reduce
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.expansion.expansion import Expansion
from lmcells.expansion.grammar import is_code
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.look_alikes import QUANTITY_FOLLOWS, SIDES, LookAlikes, Written
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND, UNIT_NAMES, UNITS, VALUES
from lmcells.notes.tokens import (
    NUMBER,
    STOP_WORDS,
    TokenArrays,
    find_tokens,
    hash_words,
    iterate_tokens,
    spell,
)

_INFLECTIONS = ("s", "'d", "'ed")
_TIMES = ("x1", "x2", "x3", "x4", "x5")  # "A&Ox3", "CABGx4": the short form comes before
_NAMES_WITH_X = frozenset({"cox", "cdx", "pax"})  # but COX2, CDX2 and PAX5 are names
_BEFORE_AMPERSAND = re.compile(r"(?<![^\W_])[^\W_]{1,3}[ ]*\Z")
_AFTER_AMPERSAND = re.compile(r"[ ]*[^\W_]{1,3}(?![^\W_])")
_MOST_BEFORE = 12  # characters that are read before an ampersand
_BETWEEN_AMPERSANDS = re.compile(r"[^&]{2,}")
_DOSING = re.compile(r"q[A-Z]+$")  # "qHS"
# "hCG" and "LCx"; not the stage "pNX", the lead "aVR", nor "HbS", "TdT" and "GHb", which mean something else.
_TWO_CAPITALS = re.compile(r"(?![pcy][TNM]|aV)(?:[a-z][A-Z]{2}|[A-Z]{2}[ac-z])$")
_NUMBERED = re.compile(r"([A-Za-z]{3,})(-?)(\d{1,2})")
_VOWELS = frozenset("aeiouy")
_CACHE_SIZE = 20_000
_MOST_PATTERNS = 2048  # three times the shipped inventory's
_START = attrgetter("start")
_SLOTS_EACH = 128  # less than 1 % of other words pass the filter and must be looked up


@lru_cache(maxsize=_MOST_PATTERNS)  # few are ever needed
def _pattern(form: str, *, exact: bool) -> re.Pattern[str]:
    """Match a form of several tokens, in any case unless `exact`."""
    return re.compile(
        r"\s+".join(map(re.escape, form.split())) + r"(?![^\W_])", 0 if exact else re.IGNORECASE
    )


class Found(NamedTuple):
    """A short form of the inventory, written at `text[start:end]`."""

    start: int
    end: int
    short_form: str


class _Entry(NamedTuple):
    """A short form that is a token or begins with one."""

    short_form: str
    plain: str  # without dots: what is compared
    lead: int = 0  # characters of the short form before its token


class _Fit(NamedTuple):
    """An entry that a token matches; the longest come first, then the closest in spelling."""

    rank: tuple[int, int]  # minus the length, and the distance from the inventory's spelling
    stem: str  # without an ending
    entry: _Entry
    may_be_unit: bool  # it may be the short form after a number
    needs_value: bool = False  # it is the short form only before one


_Longer = list[tuple[_Entry, str, str]]  # entries of several tokens, as written, and the first word of that
_Fits = tuple[list[_Fit], _Longer]  # that a token matches, and those that begin with it


class _Index:
    """Short forms by the hash of a token: those of this token, with an ending or "", and those of several tokens."""

    def __init__(self, short_forms: Iterable[str]) -> None:
        known = dict.fromkeys(short_forms)
        keys = [key for each in known for key in _keys_of(each, known)]
        longer = [(word, (entry, form)) for word, entry, _, form in keys if form is not None]
        whole = [(word, entry, endings) for word, entry, endings, form in keys if form is None]
        self.longer: dict[int, list[tuple[_Entry, str]]] = {}
        first_words = hash_words(word for word, _ in longer)
        for hash_, (_, each) in zip(first_words.tolist(), longer, strict=True):
            self.longer.setdefault(hash_, []).append(each)
        # Tens of thousands of keys, a short form with an ending each: arrays cost the garbage collector nothing.
        hashes = hash_words(word + ending for word, _, endings in whole for ending in endings)
        self._whole = [(entry, endings) for _, entry, endings in whole]
        self._first_keys = np.cumsum([0, *(len(endings) for _, endings in self._whole)])
        self._keys = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._keys]
        n_bits = max(10, (_SLOTS_EACH * len(hashes)).bit_length())
        self._shift = np.uint64(64 - n_bits)
        self._slots = np.zeros(1 << n_bits, np.bool_)  # whether a short form's hash begins with these bits
        self._slots[hashes >> self._shift] = self._slots[first_words >> self._shift] = True

    def whole(self, hash_: int) -> Iterator[tuple[_Entry, str]]:
        """Yield the short forms that are a token with this hash, each with the token's ending or ""."""
        first = last = int(self._hashes.searchsorted(np.uint64(hash_)))
        while last < len(self._hashes) and self._hashes[last] == hash_:
            last += 1
        for key in self._keys[first:last].tolist():
            at = int(self._first_keys.searchsorted(key, "right")) - 1
            entry, endings = self._whole[at]
            yield entry, endings[key - self._first_keys[at]]

    def may_hold(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Return True for the hashes of short forms, and of a few other words."""
        found: npt.NDArray[np.bool_] = self._slots[hashes >> self._shift]
        return found


def _keys_of(
    short_form: str, known: Container[str]
) -> Iterator[tuple[str, _Entry, tuple[str, ...], str | None]]:
    """Yield the words that a short form is indexed by, with its entry, endings, and how it is written if longer."""
    if short_form.isalpha() and short_form.isascii() and short_form not in STOP_WORDS:
        word, start, end = short_form.lower(), 0, len(short_form)  # it is a single token
    else:
        tokens = list(iterate_tokens(short_form))
        if not tokens:
            return  # a stop word in lower case, or not a word: cannot be found
        word, start, end = next((token for token in tokens if token.word != NUMBER), tokens[0])
    plain = short_form.replace(".", "")
    if numbered := _NUMBERED.fullmatch(short_form):
        letters, hyphen, number = numbered.groups()
        other = letters + number if hyphen else f"{letters}-{number}"
        if other not in known:
            key, form = (other.lower(), None) if hyphen else (letters.lower(), other)
            yield key, _Entry(short_form, other), ("",), form
    if short_form[:start] or short_form[end:].strip("."):
        yield word, _Entry(short_form, plain, start), ("",), short_form
        return
    entry = _Entry(short_form, plain)
    if word[1:2] == "/":  # two tokens in "27y/o"
        yield word[0], entry, ("",), short_form
    yield word, entry, ("", *_INFLECTIONS, *_TIMES) if len(plain) > 1 else ("",), None


class ShortFormFinder:
    """Finds short forms in texts, in linear time.

    find = ShortFormFinder(inventory)
    find("Pt s/p MI")   # [Found(0, 2, "PT"), Found(3, 6, "s/p"), Found(7, 9, "MI")]

    `exact` finds only their exact spelling (and plurals), for short forms that a text defines.
    """

    def __init__(self, inventory: SenseInventory | Iterable[str], *, exact: bool = False) -> None:
        self._exact = exact
        if not isinstance(inventory, SenseInventory):
            inventory = SenseInventory(dict.fromkeys(inventory, ()))
        self._indices = [_Index(inventory.short_forms)]
        self._set_inventory(inventory)

    def over(self, inventory: SenseInventory) -> Self:
        """Return a finder for another inventory; of one that extends this one, only what is new is indexed."""
        finder = copy(self)
        before, after = self._inventory.by_short_form.keys(), inventory.by_short_form.keys()
        new = list(islice(after, len(before), None))  # a layer adds its short forms at the end
        if not before <= after or not before.isdisjoint(new):
            finder._indices = [_Index(after)]
        elif new:
            finder._indices = [*self._indices, _Index(new)]
        finder._set_inventory(inventory)
        return finder

    def _set_inventory(self, inventory: SenseInventory) -> None:
        self._inventory = inventory
        self._are_units: dict[str, bool] = {}
        self._known_fits: dict[str, _Fits] = {}  # by the token as written

    def __call__(self, text: str, tokens: TokenArrays | None = None) -> list[Found]:
        """Return the short forms in order, without overlaps; `tokens` are the text's, if known."""
        tokens = find_tokens(text, stop_words=True) if tokens is None else tokens
        if "&" in text:
            tokens = _with_ampersands(text, tokens)
        may_be = reduce(np.logical_or, [index.may_hold(tokens.hashes) for index in self._indices])
        hits = np.flatnonzero(may_be & ~tokens.is_stop_word)
        if len(self._known_fits) > _CACHE_SIZE:
            self._known_fits.clear()
        look_alikes = LookAlikes(text, self._inventory)
        columns = (tokens.starts[hits].tolist(), tokens.ends[hits].tolist(), tokens.hashes[hits].tolist())
        found = []
        for start, end, hash_ in zip(*columns, strict=True):
            fits = self._known_fits.get(written := text[start:end])
            if fits is None:
                fits = self._known_fits[written] = self._fits(written, hash_)
            if any(fits) and (best := self._best(text, start, fits, look_alikes)) is not None:
                found.append(best)
        return without_overlaps(found)

    def _best(self, text: str, start: int, known: _Fits, look_alikes: LookAlikes) -> Found | None:
        """Return the longest short form that begins with the token; of several, the closest in spelling."""
        fits, longer = known
        if longer and (found := list(self._longer_fits(text, start, longer))):
            fits = sorted([*found, *fits], key=attrgetter("rank"))
        for (length, _), stem, entry, may_be_unit, needs_value in fits:
            first = start - entry.lead
            last = first - length
            if needs_value and not _has_value(text, first, last):
                continue
            if not (look_alikes(Written(first, last, stem, may_be_unit)) or is_code(text, first, last)):
                if "." in stem and text[last : last + 1] == ".":
                    last += 1  # the last dot of "p.o." belongs to it
                return Found(first, last, entry.short_form)
        return None

    def _fits(self, written: str, hash_: int) -> _Fits:
        """Return the short forms that a token matches as written, and those of several tokens that begin with it."""
        fits = []
        for entry, ending in chain.from_iterable(index.whole(hash_) for index in self._indices):
            stem = written[: len(written) - len(ending)]
            far = 1 if ending else 0
            if ending and not _inflects(stem, written, ending):
                if not self._is_capital_plural(written, ending, entry):
                    continue
                far = 4  # "MEDS" is closer to Meds than to MED
            misfit = self._misfit(stem, entry)
            if misfit is not None:
                length = len(stem) if ending in _TIMES else len(written)
                fits.append(self._fit(-length, misfit + far, stem, entry))
            elif not self._exact and written in VALUES and entry.plain == written.upper():
                fits.append(_Fit((-len(written), 3), written, entry, may_be_unit=True, needs_value=True))
        longer = [
            (entry, form, form.split(None, 1)[0].lower())
            for index in self._indices
            for entry, form in index.longer.get(hash_, ())
        ]
        return sorted(fits, key=attrgetter("rank")), longer

    def _fit(self, minus_length: int, misfit: int, stem: str, entry: _Entry) -> _Fit:
        written_as_unit = entry.short_form == stem and stem.islower()
        return _Fit((minus_length, misfit), stem, entry, written_as_unit or self._is_unit(entry.short_form))

    def _longer_fits(self, text: str, start: int, longer: _Longer) -> Iterator[_Fit]:
        """Yield the short forms of several tokens that match around a token."""
        for entry, form, opening in longer:
            first = start - entry.lead
            if first < 0 or text[first : first + len(opening)].lower() != opening:
                continue  # most of them: no pattern is compiled
            match = _pattern(form, exact=self._exact).match(text, first)
            if match is None or (first > 0 and _continues(text[first - 1], text[first])):
                continue
            misfit = 0 if match[0].replace(".", "") == entry.plain else 2
            if not (self._exact and misfit):
                yield self._fit(first - match.end(), misfit, match[0], entry)

    def _is_capital_plural(self, written: str, ending: str, entry: _Entry) -> bool:
        """ "NSAIDS", if the inventory knows a plural of the first sense; not "CPRS" and "LOSS"."""
        if ending != "s" or len(written) < 4 or not written.isupper() or written.lower() in NOT_SHORTHAND:
            return False
        sense = next(iter(self._inventory.senses(entry.short_form)), None)
        return sense is not None and f"{sense.long_form}s" in sense.forms

    def _is_unit(self, short_form: str) -> bool:
        """Whether a sense of a short form may follow a number."""
        if short_form not in self._are_units:
            self._are_units[short_form] = any(
                (form.lower().replace("-", " ").split() or [""])[0].rstrip("s") in UNIT_NAMES
                for sense in self._inventory.senses(short_form)
                for form in sense.forms
            )
        return self._are_units[short_form]

    def _misfit(self, stem: str, entry: _Entry) -> int | None:
        """Return the distance from the inventory's spelling, None if it is not the short form."""
        plain = without_marks(stem)
        if plain == entry.plain:
            return 0
        lower = plain.lower()
        if (
            self._exact
            or (len(plain) == 1 and plain not in SIDES)
            or lower != entry.plain.lower().replace("’", "'")
        ):
            return None
        capitalised = plain[0].isupper() and plain[1:].islower()
        is_ordinary = lower in NOT_SHORTHAND or (capitalised and lower in NAMES)
        if not plain.isupper() and "." not in stem and is_ordinary:
            return None
        is_mixed = not (plain.isupper() or plain.islower() or capitalised)
        if is_mixed and len(plain) < 4 and not _DOSING.match(plain):
            has_one_sense = len(self._inventory.by_short_form[entry.short_form]) == 1
            if not (has_one_sense and _TWO_CAPITALS.match(plain)):
                return None
        return 2 if plain.isupper() == entry.plain.isupper() else 3  # "pt" is closer to Pt than to PT


def without_marks(written: str) -> str:
    """Return a short form without dots and spaces: "p.o." is "po", "C & S" is "C&S"."""
    return written.replace(".", "").replace(" ", "")


def overlaps(found: Sequence[Found] | Sequence[Expansion], start: int, end: int) -> bool:
    """Whether `text[start:end]` overlaps one of the short forms, which are in order and apart from each other."""
    n_before = bisect_left(found, end, key=_START)
    return n_before > 0 and found[n_before - 1].end > start


def without_overlaps(found: Iterable[Found]) -> list[Found]:
    """Sort short forms; of two that overlap, keep the longer."""
    kept: list[Found] = []
    for each in sorted(found):
        if kept and each.start < kept[-1].end:
            if each.end - each.start <= kept[-1].end - kept[-1].start:
                continue
            kept.pop()
        kept.append(each)
    return kept


def _has_value(text: str, start: int, end: int) -> bool:
    """Whether a number follows; after a number, a unit needs decimals: "ca 8.9 mg 2.1", not "25 mg 2 tabs"."""
    value = QUANTITY_FOLLOWS.match(text, end)
    if value is None or value["decimals"] or text[start:end] not in UNITS:
        return value is not None
    return not text[max(0, start - 2) : start].strip().isdigit()


def _continues(before: str, character: str) -> bool:
    """Whether a character continues the word before it; after a number, as in "27y/o", a new word begins."""
    return before.isalpha() and character.isalnum() if not character.isdigit() else before.isalnum()


def _with_ampersands(text: str, tokens: TokenArrays) -> TokenArrays:
    """Add the parts of tokens such as PT&OT, and "C & S" as one token, in order."""
    parts = []
    at = [match.start() for match in re.finditer("&", text)]
    for ampersand in at:  # "UA & C & S" has two
        before = _BEFORE_AMPERSAND.search(text, max(0, ampersand - _MOST_BEFORE), ampersand)
        after = _AFTER_AMPERSAND.match(text, ampersand + 1)
        if before and after and (before[0][-1] == " " or after[0][0] == " "):
            written = text[before.start() : after.end()]
            parts.append((before.start(), after.end(), written.replace(" ", "")))
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
