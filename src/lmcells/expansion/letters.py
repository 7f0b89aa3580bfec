"""Expanding short forms outside the inventory, by their letters: devel -> developed, mfr -> manufacturer.

A noisy channel: p(long form | short form, context) is proportional to p(short form | long form) p(long form | context).
The candidates are words of the model's vocabulary that may be shortened so, and phrases of its store with these
initials. The first factor is a log-linear model of how clinicians shorten words, the second how well a candidate fits
the masked span (`lmcells.expansion.ranking`).

A short form is a token of three to eight letters that does not occur in edited prose, and that is a truncated word
(abdo, devel) or its consonants (hlth, recvd); or one in capitals whose letters are initials (BSS).
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from operator import mul

import numpy as np

from lmcells.expansion.expansion import Candidate
from lmcells.expansion.finder import Found, overlaps
from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND, is_part_of_word, prose_words
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.expansion.windows import Mention
from lmcells.notes.tokens import (
    NUMBER,
    STOP_WORDS,
    Hashes,
    TokenArrays,
    find_tokens,
    hash_words,
    is_in_capitals,
    slots_of,
)
from lmcells.pretrained import PretrainedModel

_LONGEST = 8  # letters of a short form
_SHAPE = re.compile(rf"[A-Za-z]{{3,{_LONGEST}}}")
_JOINED_BEFORE = re.compile(r"[^\s(\[,;:>/]$")
_JOINED_AFTER = re.compile(r"[^\s.,;:)\]?/]|\.\w")
_CUT_OFF_AFTER = re.compile(r"[ \t]*(?:\n|$)")
_SENTENCE_BEFORE = re.compile(r"[a-z][ ]$")
_PLURAL = re.compile(r"(?<![isu])s$")  # not "diagnosis" and "virus"
_NOISE = re.compile(r"[~^|{}•\\]")  # in scanned text, but not in typed text
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_VOWELS = frozenset("aeiouy")
_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_INFLECTIONS = frozenset("s es ed d ing er ers or ly y ness al ally ish like able n en r".split())
_MOST_CANDIDATES = 64
_CACHE_SIZE = 20_000  # short forms whose candidates are cached
_SLOT_BITS = 18  # one ordinary word in twelve shares its slot and must be looked up by its letters
# log p(short form | long form), up to a constant, learnt from the pairs of the inventory: benchmarks/letter_weights.py
FEATURES = ("cut", "length_ratio", "same_ending", "consonants_kept")
WEIGHTS = (2.95, -0.02, 0.48, 1.13)
# No expansion below these: fit of the best candidate to the context, and its probability.
LEAST_FIT = {"cut": 10.0, "skeleton": 10.0, "initials": 12.0}
LEAST_PROBABILITY = 0.9
PRECISION = 0.8  # share of right answers in training notes, checked by hand; an upper bound for probabilities


class LetterSenses:
    """Finds short forms outside the inventory, and ranks the long forms that their letters suggest."""

    def __init__(self, model: PretrainedModel) -> None:
        self._model = model
        self._candidates = lru_cache(_CACHE_SIZE)(self._find_candidates)
        self._short_form = lru_cache(_CACHE_SIZE)(self._find_short_form)

    @cached_property
    def _ranker(self) -> MaskedSpanRanker:
        # A ranker only asks an inventory for the senses of a short form, which this provides.
        return MaskedSpanRanker(self._model, self)  # type: ignore[arg-type]

    def find(self, text: str, tokens: TokenArrays, taken: Sequence[Found]) -> Iterator[Found]:
        """Yield the tokens that may be short forms and are not taken."""
        unknown = np.flatnonzero(self._ordinary.take(slots_of(tokens.hashes, 1, _SLOT_BITS)) != tokens.hashes)
        in_capitals = None
        for start, end in zip(tokens.starts[unknown].tolist(), tokens.ends[unknown].tolist(), strict=True):
            if not 2 < end - start <= _LONGEST or overlaps(taken, start, end):
                continue
            short_form = self._short_form(text[start:end])
            if short_form is None:
                continue
            if _JOINED_BEFORE.search(text, max(0, start - 1), start) or _JOINED_AFTER.match(text, end):
                continue  # part of a longer expression, or misread by a scanner
            if _is_no_short_form(text, start, end):
                continue
            if in_capitals is None:
                if len(_NOISE.findall(text, 0, 4000)) > 3:
                    return
                in_capitals = is_in_capitals(text)
            if short_form.isupper() and in_capitals:
                short_form = short_form.lower()
            if self._candidates(short_form):
                yield Found(start, end, short_form)

    def _find_short_form(self, written: str) -> str | None:
        """Return a word in the case in which to look it up if it may be a short form, else None."""
        lower = written.lower()
        is_word = lower in NOT_SHORTHAND or lower in prose_words() or _is_inflected(lower)
        is_word = is_word or (lower in NAMES and written[0].isupper())
        short_form = written if written.isupper() else lower
        may_be = bool(_SHAPE.fullmatch(written)) and not is_word
        may_be = may_be and (written.isupper() or written[1:].islower())
        known = may_be and (self._candidates(short_form) or self._candidates(lower))
        return short_form if known else None

    def senses(self, short_form: str) -> tuple[Sense, ...]:
        """Return the candidates of a short form, for a ranker."""
        return tuple([sense for sense, _, _ in self._candidates(short_form)])

    def candidates(
        self, mentions: Sequence[Mention], *, temperature: float
    ) -> Iterator[tuple[Candidate, ...]]:
        """Yield the candidates of each mention, best first, or nothing if none is convincing."""
        scores = self._ranker.scores(mentions) if mentions else ()
        for mention, fits in zip(mentions, scores, strict=True):
            yield self._convincing(mention.short_form, fits, temperature=temperature)

    def _convincing(self, short_form: str, fits: Floats, *, temperature: float) -> tuple[Candidate, ...]:
        known = self._candidates(short_form)
        scores = fits / temperature + np.array([score for _, _, score in known])
        weights = np.exp(scores - scores.max())
        probabilities = weights / weights.sum()
        best = int(probabilities.argmax())
        if not short_form.endswith("s"):  # "morn" is "morning", not "mornings"
            singular = known[best][0].long_form.removesuffix("s")
            best = next((i for i, (sense, _, _) in enumerate(known) if sense.long_form == singular), best)
        stem = known[best][0].long_form[: max(5, len(short_form) + 1)]
        # Inflections of a word count as one answer: "neutrophil" and "neutrophils", not "hospital" and "hospitalized".
        is_alike = np.array([sense.long_form.startswith(stem) for sense, _, _ in known])
        alike = float(probabilities[is_alike].sum())
        if fits[best] < LEAST_FIT[known[best][1]] or alike < LEAST_PROBABILITY:
            return ()
        others = [i for i in np.argsort(-probabilities, kind="stable").tolist() if not is_alike[i]][:4]
        return (
            Candidate(known[best][0].long_form, min(alike, PRECISION)),
            *(Candidate(known[i][0].long_form, float(probabilities[i]) * PRECISION) for i in others),
        )

    def _find_candidates(self, short_form: str) -> list[tuple[Sense, str, float]]:
        """Return (sense, kind of shortening, log p(short form | long form)) of each candidate."""
        found = self._phrases(short_form) if short_form.isupper() else self._words_shortened(short_form)
        return sorted(found, key=lambda candidate: -candidate[2])[:_MOST_CANDIDATES]

    def _words_shortened(self, short_form: str) -> list[tuple[Sense, str, float]]:
        # All vowels of a short form are in the prefix that it shares with the word.
        shared = short_form.rstrip(_CONSONANTS) or short_form[0]
        # "{" comes after "z".
        first, end = (bisect_left(self._words, each) for each in (shared, shared + "{"))
        last, at = short_form[-1], len(short_form) - 1
        found = []
        for word in self._words[first:end]:
            # Most lack the last letter.
            how = shortened(word, short_form) if word.find(last, at) > 0 else None
            if how is not None:
                score = sum(map(mul, WEIGHTS, features(word, short_form)))
                found.append((Sense(short_form, word, (word,)), how, score))
        return found

    def _phrases(self, short_form: str) -> list[tuple[Sense, str, float]]:
        initials = short_form.lower()
        packed = np.frombuffer(initials.encode().ljust(_LONGEST, b"\0"), np.uint64)
        numbers = np.flatnonzero((self._initials == packed).any(axis=0)).tolist()
        return [
            (Sense(short_form, phrase, (phrase,)), "initials", 0.0)
            for phrase in [self._long_phrases[number] for number in numbers]
            if _has_initials(phrase, initials)
        ]

    @cached_property
    def _long_phrases(self) -> list[str]:
        """The phrases of the store that may have three words."""
        store = self._model.phrase_store
        phrases = store.phrases if store is not None else ()
        return [phrase for phrase in phrases if phrase.count(" ") + phrase.count("-") > 1]

    @cached_property
    def _initials(self) -> Hashes:
        """The first eight initials of each long phrase, of all words and without function words: (2, phrases)."""
        text = _NOT_ASCII.sub("z", "\n".join(self._long_phrases)).replace("-", " ")
        tokens = find_tokens(text, stop_words=True)
        characters = np.frombuffer(text.encode(), np.uint8)
        phrase_of = np.cumsum(characters == ord("\n"))
        initials = np.zeros((2, len(self._long_phrases), _LONGEST), np.uint8)
        for table, starts in zip(initials, (tokens.starts, tokens.starts[~tokens.is_stop_word]), strict=True):
            phrases = phrase_of[starts]
            nth = np.arange(starts.size) - np.searchsorted(phrases, phrases)  # word of its phrase
            kept = nth < _LONGEST
            table[phrases[kept], nth[kept]] = characters[starts[kept]]
        return initials.view(np.uint64)[..., 0]  # the eight bytes as one number

    @cached_property
    def _ordinary(self) -> Hashes:
        """Hashes of ordinary words and of numbers by slot; a collision keeps one of them."""
        slots = np.zeros(1 << _SLOT_BITS, np.uint64)
        hashes = hash_words([*prose_words(), *NOT_SHORTHAND, NUMBER])
        slots[slots_of(hashes, 1, _SLOT_BITS)] = hashes
        return slots

    @cached_property
    def _words(self) -> list[str]:
        """Words that may be long forms, in order."""
        return sorted(word for word in self._model.words if len(word) > 4 and word in prose_words())


def shortened(word: str, short_form: str) -> str | None:
    """Return how a word may have been shortened to a form: "cut", "skeleton" (its consonants), or None."""
    if len(_PLURAL.sub("", word)) < len(short_form) + 2:
        return None  # hardly shorter, so a typing error
    n_kept = 0
    while n_kept < len(short_form) and word[n_kept] == short_form[n_kept]:
        n_kept += 1
    if n_kept == len(short_form):
        return None if word[n_kept:] in _INFLECTIONS else "cut"
    rest = short_form[n_kept:]
    if n_kept == 0 or not _VOWELS.isdisjoint(rest):
        return None
    letters = iter(word[n_kept:])
    return "skeleton" if all(letter in letters for letter in rest) else None


def features(word: str, short_form: str) -> tuple[float, ...]:
    """Return the features of a shortening, in the order of `FEATURES`."""
    consonants = [sum(letter not in _VOWELS for letter in each) for each in (short_form, word)]
    return (
        float(word.startswith(short_form)),
        len(word) / len(short_form),
        float(word[-1] == short_form[-1]),
        consonants[0] / max(1, consonants[1]),
    )


def _is_inflected(word: str) -> bool:
    """Whether prose has an inflection of a word, which is therefore not shortened: "volts", "slurred"."""
    inflected = (f"{word}s", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing", word.removesuffix("s"))
    return any(each != word and each in prose_words() for each in inflected)


def _is_no_short_form(text: str, start: int, end: int) -> bool:
    """Whether a word is cut off by the end of a line, part of the next word, or a name inside a sentence."""
    if is_part_of_word(text, start, end, of_any=True):
        return True
    if text[start:end].isupper() or text[end : end + 1] == ".":
        return False
    is_name = text[start].isupper() and _SENTENCE_BEFORE.search(text, max(0, start - 2), start)
    return bool(is_name or _CUT_OFF_AFTER.match(text, end))


def _has_initials(phrase: str, initials: str) -> bool:
    """Whether the words of a phrase have these initials, with or without those of function words after the first."""
    words = phrase.replace("-", " ").split()
    every = "".join([word[0] for word in words])
    content = "".join([word[0] for word in words if word not in STOP_WORDS])
    return every == initials or (content == initials and every.isalpha() and every[0] == initials[0])
