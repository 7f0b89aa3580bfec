"""Learn when text in capitals is a word rather than a short form: `ORDINARY_WEIGHTS` of `calibration`.

python benchmarks/ordinary_reading.py      # prints the weights and how well they do on held-out words: two minutes

No labels are needed: in mixed-case training notes, a lower-case word ("age") is that word, and a long form ("advanced
glycation end product") could have been written as its short form. Both are capitalised in place, alone and with all of
the text, and scored as the expander scores them. Examples are weighted by how often they occur: words in capitals alone
are as rare as function words that no inventory has ("AND"), and short forms are as frequent as they are in the notes.
A fifth of the notes, chosen by a hash, is held out.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha1
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from scipy.optimize import minimize

from lmcells import Expander
from lmcells.expansion.calibration import OrdinaryReadings
from lmcells.expansion.inventory import Sense
from lmcells.expansion.look_alikes import LookAlikes, Written
from lmcells.expansion.ordinary_words import WITH_ORDINARY_READING
from lmcells.expansion.windows import Mention
from lmcells.notes.sections import upper_name
from lmcells.notes.tokens import STOP_WORDS, is_in_capitals, iterate_tokens
from locations import text_folder

Floats = npt.NDArray[np.float64]
NOTES = {  # how many documents of each file are read
    "train/mtsamples": 1460,
    "train/aci_bench": 126,
    "train/medec_ms": 932,
    "train/vaers": 8000,
    "train/e3c_english": 1500,
    "train/primock57": 42,
    "train/clinical_trials_criteria": 300,
}
LONGEST = 1200  # characters of a section that are read
EACH = 2  # words and long forms of a section
SHRINK = 1e-6


class Passage(NamedTuple):
    """A section in mixed case."""

    text: str
    section: str | None
    is_held_out: bool


class Example(NamedTuple):
    """A word or a short form in capitals, and for how many of its kind it stands."""

    mention: Mention
    is_short_form: bool
    is_alone: bool
    weight: float
    is_held_out: bool


def read_passages() -> Iterator[Passage]:
    """Draw notes, and the beginning of each section of theirs."""
    for name, n in NOTES.items():
        rows = pq.read_table(text_folder() / f"{name}.parquet").to_pylist()
        for row in random.Random(0).sample(rows, min(n, len(rows))):
            is_held_out = sha1(row["id"].encode()).digest()[0] % 5 == 0
            for each in row["sections"]:
                text = each["text"][:LONGEST]
                if text and not is_in_capitals(text):
                    yield Passage(text, upper_name(each["header"]) if each["header"] else None, is_held_out)


class Counts:
    """How often writers use capitals alone: for emphasis, and for short forms that are words too."""

    def __init__(self, short_forms: frozenset[str]) -> None:
        self._short_forms = short_forms
        self._n_function_words = self._n_emphasised = 0
        self._in_capitals: Counter[str] = Counter()
        self._long_forms: Counter[str] = Counter()

    def add(self, text: str, word: str, start: int, end: int) -> None:
        """Count a token; function words that no inventory has ("AND") tell what emphasis is."""
        is_function_word = len(word) > 1 and word in STOP_WORDS and word not in self._short_forms
        self._n_function_words += is_function_word
        written = Written(start, end, text[start:end])
        if not written.stem.isupper() or LookAlikes(text).is_shouted(written):
            return
        self._n_emphasised += is_function_word
        self._in_capitals[word] += word in self._short_forms

    def add_long_form(self, short_form: str) -> None:
        """Count a long form of a short form."""
        self._long_forms[short_form] += 1

    @property
    def emphasis(self) -> float:
        """How often a word is in capitals alone."""
        return self._n_emphasised / self._n_function_words

    def shortening(self, short_form: str) -> float:
        """How many times a short form is written for each of its long forms that is written out."""
        return (self._in_capitals[short_form] + 0.5) / (self._long_forms[short_form] + 1)


def draw_examples(expander: Expander) -> tuple[list[Example], Counts]:
    """Put words and long forms of training notes in capitals."""
    rng = random.Random(0)
    known = WITH_ORDINARY_READING.intersection(expander.model.word_ids)
    names = {name.lower(): name for name in expander.inventory.short_forms if name.lower() in known}
    long_forms: dict[str, list[tuple[list[str], Sense]]] = {}
    for sense in expander.inventory:
        for form in sense.forms if sense.short_form in names.values() else ():
            words = [token.word for token in iterate_tokens(form, stop_words=True)]
            if words and len(form) > len(sense.short_form) + 2:
                long_forms.setdefault(words[0], []).append((words, sense))
    counts, examples = Counts(frozenset(names)), []
    for text, section, is_held_out in read_passages():
        tokens = list(iterate_tokens(text, stop_words=True))
        ordinary, spelt_out = [], []
        for at, (word, start, end) in enumerate(tokens):
            counts.add(text, word, start, end)
            if word in names and text[start:end].islower():
                ordinary.append((start, end, names[word]))
            for words, sense in long_forms.get(word, ()):
                if [token.word for token in tokens[at : at + len(words)]] == words:
                    spelt_out.append((start, tokens[at + len(words) - 1].end, sense.short_form))
                    counts.add_long_form(sense.short_form.lower())
        for places, is_short_form in ((ordinary, False), (spelt_out, True)):
            for start, end, name in rng.sample(places, min(EACH, len(places))):
                before, after = text[:start], text[end:]
                for is_alone in (True, False):
                    given = (before, after) if is_alone else (before.upper(), after.upper())
                    mention = _mention(*given, name, section)
                    written = Written(mention.start, mention.end, name.upper())
                    if not LookAlikes(mention.text)(written):
                        weight = len(places) / min(EACH, len(places))
                        examples.append(Example(mention, is_short_form, is_alone, weight, is_held_out))
    return examples, counts


def _mention(before: str, after: str, short_form: str, section: str | None) -> Mention:
    text = before + short_form.upper() + after
    return Mention(text, len(before), len(before) + len(short_form), short_form, section)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    expander = Expander.from_pretrained()
    examples, counts = draw_examples(expander)
    mentions = [each.mention for each in examples]
    lexicon, calibration = expander.lexicon(), expander.calibration
    readings = OrdinaryReadings(expander.model)
    fits = readings.ranker.scores(mentions)
    features = np.array(
        [
            (fit / calibration.temperature, *readings.features(mention), 1.0)
            for mention, (fit,) in zip(mentions, fits, strict=True)
        ]
    )
    senses, none = np.zeros(len(examples)), np.zeros(len(examples))
    for row, own in enumerate(lexicon.ranker.scores(mentions)):
        in_capitals = replace(mentions[row], text=mentions[row].text.upper())
        prior, none_prior = lexicon.prior_of(in_capitals)
        senses[row] = np.logaddexp.reduce(own / calibration.temperature + np.array(prior))
        none[row] = (calibration.none_score or 0.0) / calibration.temperature + none_prior
    is_short_form, is_alone, is_held_out = (
        np.array([getattr(each, name) for each in examples])
        for name in ("is_short_form", "is_alone", "is_held_out")
    )
    shortening = np.array([counts.shortening(each.short_form.lower()) for each in mentions])
    rate = np.where(is_short_form, shortening, np.where(is_alone, counts.emphasis, 1.0))
    weight = rate * np.array([each.weight for each in examples])

    def loss(weights: Floats) -> float:
        log_odds = senses - np.logaddexp(none, features @ weights)
        losses = np.logaddexp(0, np.where(is_short_form, -log_odds, log_odds)) * weight
        return float(losses[~is_held_out].sum() / weight[~is_held_out].sum() + SHRINK * (weights**2).mean())

    weights = minimize(loss, np.zeros(features.shape[1]), method="L-BFGS-B").x.round(2)
    print(f"{len(examples):,} examples; {counts.emphasis:.5f} of words are in capitals alone")
    print(f"weights: {tuple(weights.tolist())}")
    ordinary = features @ weights
    for kind, alone in (("in capitals alone", is_alone), ("in all-caps text", ~is_alone)):
        for name, wanted in (("words", ~is_short_form), ("short forms", is_short_form)):
            chosen = is_held_out & alone & wanted
            before, after = (
                np.average(senses[chosen] > other[chosen], weights=weight[chosen])
                for other in (none, np.logaddexp(none, ordinary))
            )
            print(
                f"  {name} {kind}: {chosen.sum():,} held out, expanded {before:.3f} without, {after:.3f} with"
            )


if __name__ == "__main__":
    main()
