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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import mul

import numpy as np
import numpy.typing as npt

from lmcells.expansion.expansion import Candidate
from lmcells.expansion.inventory import Sense
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.look_alikes import is_part_of_word
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND, prose_words
from lmcells.notes.token_arrays import Hashes, TokenArrays, hash_words
from lmcells.notes.tokens import STOP_WORDS, is_in_capitals
from lmcells.pretrained import PretrainedModel

_SHAPE = re.compile(r"[A-Za-z]{3,8}")
_JOINED_BEFORE = re.compile(r"[^\s(\[,;:>/]$")
_JOINED_AFTER = re.compile(r"[^\s.,;:)\]?/]|\.\w")
_CUT_OFF_AFTER = re.compile(r"[ \t]*(?:\n|$)")
_SENTENCE_BEFORE = re.compile(r"[a-z][ ]$")
_PLURAL = re.compile(r"(?<![isu])s$")  # not "diagnosis" and "virus"
_NOISE = re.compile(r"[~^|{}•\\]")  # in scanned text, but not in typed text
_VOWELS = frozenset("aeiouy")
_INFLECTIONS = frozenset("s es ed d ing er ers or ly y ness al ally ish like able n en r".split())
_MOST_CANDIDATES = 64
_CACHE_SIZE = 20_000  # short forms whose candidates are cached
# log p(short form | long form), up to a constant, learnt from the pairs of the inventory: benchmarks/letter_weights.py
FEATURES = ("cut", "length_ratio", "same_ending", "consonants_kept")
WEIGHTS = (2.95, -0.02, 0.48, 1.13)
# No expansion below these: fit of the best candidate to the context, and its probability.
LEAST_FIT = {"cut": 10.0, "skeleton": 10.0, "initials": 12.0}
LEAST_PROBABILITY = 0.9
PRECISION = 0.8  # of such answers in training notes, checked by hand; an upper bound for probabilities


class LetterSenses:
    """Candidates of short forms by their letters, as senses for a ranker."""

    def __init__(self, model: PretrainedModel) -> None:
        self._model = model
        self._known: dict[str, list[tuple[Sense, str, float]]] = {}
        self._looked_up: dict[str, str | None] = {}
        self._initials: dict[str, dict[str, list[str]]] = {}  # by the first initial

    def find(
        self, text: str, tokens: TokenArrays, taken: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, short form) of the tokens that may be short forms and are not taken."""
        lengths = tokens.ends - tokens.starts
        unknown = np.flatnonzero((lengths > 2) & (lengths < 9) & ~tokens.is_stop_word)
        unknown = unknown[~_is_among(tokens.hashes[unknown], self._prose_hashes)]
        begun = {first for first, _ in taken}
        in_capitals = None
        for start, end in zip(tokens.starts[unknown].tolist(), tokens.ends[unknown].tolist(), strict=True):
            short_form = self._short_form(text[start:end]) if start not in begun else None
            if short_form is None or any(first < end and start < last for first, last in taken):
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
                yield start, end, short_form

    def _short_form(self, written: str) -> str | None:
        """Return a word in the case in which to look it up if it may be a short form, else None."""
        if written not in self._looked_up:
            if len(self._looked_up) > _CACHE_SIZE:
                self._looked_up.clear()
            lower = written.lower()
            is_word = (
                lower in NOT_SHORTHAND or (lower in NAMES and written[0].isupper()) or _is_inflected(lower)
            )
            short_form = written if written.isupper() else lower
            may_be = bool(_SHAPE.fullmatch(written)) and not is_word
            may_be = may_be and (written.isupper() or written[1:].islower())
            known = may_be and (self._candidates(short_form) or self._candidates(lower))
            self._looked_up[written] = short_form if known else None
        return self._looked_up[written]

    def senses(self, short_form: str) -> list[Sense]:
        """Return the candidates of a short form."""
        return [sense for sense, _, _ in self._candidates(short_form)]

    def decide(self, short_form: str, fits: Floats, *, temperature: float) -> tuple[Candidate, ...]:
        """Return the candidates, best first, or nothing if none is convincing; `fits` are a ranker's scores."""
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

    def _candidates(self, short_form: str) -> list[tuple[Sense, str, float]]:
        """Return (sense, kind of shortening, log p(short form | long form)) of each candidate."""
        if short_form not in self._known:
            if len(self._known) > _CACHE_SIZE:
                self._known.clear()
            found = self._phrases(short_form) if short_form.isupper() else self._words_shortened(short_form)
            found.sort(key=lambda candidate: -candidate[2])
            self._known[short_form] = found[:_MOST_CANDIDATES]
        return self._known[short_form]

    def _words_shortened(self, short_form: str) -> list[tuple[Sense, str, float]]:
        # All vowels of a short form are in the prefix that it shares with the word.
        shared = short_form[
            : max(1, *(at + 1 for at, letter in enumerate(short_form) if letter in _VOWELS), 1)
        ]
        words, found = self._words, []
        for word in words[
            bisect_left(words, shared) : bisect_left(words, shared + "{")
        ]:  # "{" comes after "z"
            how = shortened(word, short_form)
            if how is not None:
                score = sum(map(mul, WEIGHTS, features(word, short_form)))
                found.append((Sense(short_form, word, (word,)), how, score))
        return found

    def _phrases(self, short_form: str) -> list[tuple[Sense, str, float]]:
        return [
            (Sense(short_form, phrase, (phrase,)), "initials", 0.0)
            for phrase in self._of_initial(short_form[0].lower()).get(short_form.lower(), ())
        ]

    def _of_initial(self, letter: str) -> dict[str, list[str]]:
        """Return the store's phrases that begin with a letter, by their initials, with and without function words."""
        if letter not in self._initials:
            phrases: dict[str, list[str]] = defaultdict(list)
            for phrase in self._long_phrases.get(letter, ()):
                words = phrase.replace("-", " ").split()
                initials = "".join([word[0] for word in words])
                if len(initials) < 3 or not initials.isalpha():
                    continue
                phrases[initials].append(phrase)
                if not STOP_WORDS.isdisjoint(words):
                    phrases["".join([word[0] for word in words if word not in STOP_WORDS])].append(phrase)
            self._initials[letter] = phrases
        return self._initials[letter]

    @cached_property
    def _long_phrases(self) -> dict[str, list[str]]:
        """The phrases of the store that may have three words, by their first letter."""
        phrases: dict[str, list[str]] = defaultdict(list)
        store = self._model.phrase_store
        for phrase in store.phrases if store is not None else ():
            if phrase.count(" ") + phrase.count("-") > 1:
                phrases[phrase[0]].append(phrase)
        return phrases

    @cached_property
    def _prose_hashes(self) -> Hashes:
        return np.sort(hash_words(prose_words()))

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
    """Whether prose has an inflection of a word, which is therefore none that is shortened: "volts", "slurred"."""
    inflected = (f"{word}s", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing", word.removesuffix("s"))
    return any(each != word and each in prose_words() for each in inflected)


def _is_no_short_form(text: str, start: int, end: int) -> bool:
    """Whether a word is cut off by the end of a line, a part of the next word, or a name inside a sentence."""
    if is_part_of_word(text, start, end, of_any=True):
        return True
    if text[start:end].isupper() or text[end : end + 1] == ".":
        return False
    is_name = text[start].isupper() and _SENTENCE_BEFORE.search(text, max(0, start - 2), start)
    return bool(is_name or _CUT_OFF_AFTER.match(text, end))


def _is_among(hashes: Hashes, known: Hashes) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, hashes), known.size - 1)] == hashes
    return found
