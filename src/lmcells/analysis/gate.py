"""Whether short sections with few topics get more weight, as the paper saw: rank correlations, in three ways.

- among the examples: their weight and the words that there were to read around them, or the length of the section;
  intervals by drawing notes, since the examples of one note are alike;
- among the sections of the examples: their mean weight and what they were like in training;
- among all sections of the model in one and the same empty context, where the texts cannot differ: their weight and
  what they were like in training.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.interpolation import cells, empty_window, n_words_read
from lmcells.analysis.names import require_sections, section_statistics
from lmcells.analysis.statistics import Numbers, RankCorrelations
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.intervals import Interval
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.reader import NoteReader
from lmcells.expansion.windows import Mention, SectionIds
from lmcells.notes.note import Note
from lmcells.notes.section_styles import section_finder
from lmcells.notes.token_arrays import find_tokens

# The short forms whose gate is looked at: those of a dataset, or those found in notes.


@dataclass(frozen=True, slots=True)
class Place:
    """A short form in its text, and what else is known of it."""

    mention: Mention
    note_id: str | None = None
    long_form: str | None = None  # of a dataset
    n_section_tokens: int | None = (
        None  # less stop words; None of a dataset, which has only a piece of the section
    )


def places_of_examples(examples: Iterable[Example]) -> Iterator[Place]:
    """The examples of a dataset."""
    for each in examples:
        mention = Mention(each.text, each.start, each.end, each.short_form, each.section)
        yield Place(mention, each.note_id, long_form=each.long_form)


def places_in_notes(
    notes: Iterable[Note],
    inventory: SenseInventory,
    *,
    sections: str = "auto",
    header_rules: Path | None = None,
) -> Iterator[Place]:
    """The short forms that are ranked in notes; what a note defines itself is not."""
    read = NoteReader(inventory)
    find_sections = section_finder(sections, header_rules=header_rules)
    for note in notes:
        covering = find_sections(note)
        starts = [section.start for section in covering]
        n_tokens: dict[int, int] = {}
        for each in read(note.text, covering):
            if each.mention is None:
                continue
            index = bisect_right(starts, each.start) - 1
            if index not in n_tokens:
                section = covering[index]
                n_tokens[index] = find_tokens(note.text[section.body_start : section.end]).starts.size
            yield Place(each.mention, note.id, n_section_tokens=n_tokens[index])


# How much a model leans on a section against the words: the weight of its gate, by example and by section.
#
# ranker = section_ranker(model, inventory)
# examples = list(weigh(ranker, places_of_examples(dataset)))   # or places_in_notes(notes, inventory)
# summary = summarise_gate(ranker, examples)
# summary.sections[0].section, summary.sections[0].mean         # the section with the most weight
# check_gate(examples, summary, weigh_alone(ranker))            # do short, topical sections get more, as the paper says?
# spread(examples, n=8)                                         # the paper's table: from the least weight to the most


_BATCH = 1024
_N_AROUND = 6  # words as written, on either side
_REACH = 80  # characters that hold them


@dataclass(frozen=True, slots=True)
class WeighedExample:
    """A short form in its context, and how much its section weighed."""

    short_form: str
    note_id: str | None
    long_form: str | None  # where a dataset says it
    section: str | None  # as it is written
    read_as: str | None  # the model's name for it; None is null metadata
    weight: float  # 0 to 1; the rest is the words'
    n_words: int  # that the model read around it
    n_section_tokens: int | None  # of the whole section, without stop words, where it is known
    before: str = field(repr=False)  # patient data: never in a log or a traceback
    after: str = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, under the names of the fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SectionAlone:
    """The weight of a section where there are no words, the same emptiness for all, and what the section is like."""

    section: str
    weight: float
    n_training_tokens: int
    topicality: float
    entropy: float


def weigh(ranker: PosteriorRanker, places: Iterable[Place]) -> Iterator[WeighedExample]:
    """Read each place as the ranker does, and ask the gate."""
    model = ranker.model
    require_sections(model)
    ids = SectionIds(model)
    stream = iter(places)
    while batch := list(islice(stream, _BATCH)):
        mentions = [place.mention for place in batch]
        windows = ranker.read(mentions)
        weights = ranker.posterior(windows, ranker.section_ids(mentions)).gate.tolist()
        n_words = n_words_read(model, windows).tolist()
        for place, weight, n in zip(batch, weights, n_words, strict=True):
            mention, id_ = place.mention, ids[place.mention.section]
            before, after = _around(mention)
            yield WeighedExample(
                short_form=mention.short_form,
                note_id=place.note_id,
                long_form=place.long_form,
                section=mention.section,
                read_as=model.sections[id_] if id_ >= 0 else None,
                weight=weight,
                n_words=n,
                n_section_tokens=place.n_section_tokens,
                before=before,
                after=after,
            )


def weigh_alone(ranker: PosteriorRanker) -> tuple[SectionAlone, ...]:
    """Every section of the model of which it has counts, in an empty context."""
    model = ranker.model
    require_sections(model)
    weights = cells(model, empty_window(ranker), np.arange(len(model.sections))).gate.tolist()
    statistics = section_statistics(model)
    rows = zip(
        model.sections,
        weights,
        statistics.n_tokens.tolist(),
        statistics.topicality.tolist(),
        statistics.entropy.tolist(),
        strict=True,
    )
    return tuple(SectionAlone(*row) for row in rows if row[2] > 0)


def spread(examples: Sequence[WeighedExample], *, n: int) -> list[WeighedExample]:
    """Up to n examples from the least weight to the most, in even steps of it; of another section each, if possible."""
    ordered = sorted(examples, key=lambda each: each.weight)
    if n < 2 or n >= len(ordered):
        return ordered[:n]
    least, *left, most = ordered
    chosen = [least, most]
    step = (most.weight - least.weight) / (n - 1)
    for number in range(1, n - 1):
        wanted, seen = least.weight + number * step, {each.read_as for each in chosen}
        best = min(left, key=lambda each: _misfit(each, wanted, near=step / 2, seen=seen))
        left.remove(best)
        chosen.append(best)
    return sorted(chosen, key=lambda each: each.weight)


def _misfit(
    example: WeighedExample, wanted: float, *, near: float, seen: Container[str | None]
) -> tuple[bool, float]:
    distance = abs(example.weight - wanted)
    return (distance > near or example.read_as in seen, distance)


def _around(mention: Mention) -> tuple[str, str]:
    """The few words as written on either side."""
    text, first, last = mention.text, max(0, mention.start - _REACH), mention.end + _REACH
    before, after = text[first : mention.start].split(), text[mention.end : last].split()
    if first and not text[first - 1].isspace():
        before = before[1:]  # the reach ends within a word
    if last < len(text) and not text[last].isspace():
        after = after[:-1]
    return " ".join(before[-_N_AROUND:]), " ".join(after[:_N_AROUND])


# The weights of a model's gate summed up: over all examples, and by section.


QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, slots=True)
class SectionGate:
    """The weights of one section, and what the section is like."""

    section: str
    n: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]  # at `QUANTILES`
    n_words: float  # read around a short form, on average
    n_section_tokens: float | None  # of its texts here, on average, where they are known
    n_training_tokens: int  # counted under it in training
    topicality: float | None  # see `SectionStatistics`
    entropy: float | None


@dataclass(frozen=True, slots=True)
class GateSummary:
    """The weights of all examples, and by section, those with the most weight first."""

    n: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]
    sections: tuple[SectionGate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, under the names of the fields."""
        return asdict(self)


def summarise_gate(ranker: PosteriorRanker, examples: Sequence[WeighedExample]) -> GateSummary:
    """Sum weights up by the section that the model read; an example under null metadata has no weight to speak of."""
    statistics = section_statistics(ranker.model)
    grouped: dict[str, list[WeighedExample]] = {}
    for each in examples:
        if each.read_as is not None:
            grouped.setdefault(each.read_as, []).append(each)
    sections = []
    for name, group in grouped.items():
        id_ = ranker.model.section_ids[name]
        weights = np.array([each.weight for each in group])
        lengths = [each.n_section_tokens for each in group if each.n_section_tokens is not None]
        n_training_tokens = int(statistics.n_tokens[id_])
        sections.append(
            SectionGate(
                section=name,
                n=len(group),
                mean=float(weights.mean()),
                deviation=float(weights.std()),
                quantiles=_quantiles(weights),
                n_words=float(np.mean([each.n_words for each in group])),
                n_section_tokens=float(np.mean(lengths)) if lengths else None,
                n_training_tokens=n_training_tokens,
                topicality=float(statistics.topicality[id_]) if n_training_tokens else None,
                entropy=float(statistics.entropy[id_]) if n_training_tokens else None,
            )
        )
    read = [each for group in grouped.values() for each in group]
    weights = np.array([each.weight for each in read])
    sections.sort(key=lambda each: -each.mean)
    return GateSummary(
        n=len(read),
        mean=float(weights.mean()) if read else 0.0,
        deviation=float(weights.std()) if read else 0.0,
        quantiles=_quantiles(weights) if read else (),
        sections=tuple(sections),
    )


def _quantiles(weights: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(np.quantile(weights, QUANTILES).tolist())


# Whether short sections with few topics get more weight, as the paper saw: rank correlations, in three ways.
#
# - among the examples: their weight and the words that there were to read around them, or the length of the section;
#   intervals by drawing notes, since the examples of one note are alike;
# - among the sections of the examples: their mean weight and what they were like in training;
# - among all sections of the model in one and the same empty context, where the texts cannot differ: their weight and
#   what they were like in training.


LEAST_EXAMPLES = 5  # of a section whose mean weight is to say something
EXAMPLES = "examples"
SECTIONS = f"sections with {LEAST_EXAMPLES} examples or more"
ALONE = "all sections of the model, empty context"
WORDS = "words read around the short form"
LENGTH = "length of the section's text"
TOKENS = "tokens in training"
ENTROPY = "entropy of its words"
TOPICALITY = "topicality of its words"

_WEIGHT = "weight"
_EXPECTED = {WORDS: -1, LENGTH: -1, TOKENS: -1, ENTROPY: -1, TOPICALITY: 1}  # signs, by the paper's sentence


@dataclass(frozen=True, slots=True)
class Check:
    """Spearman's correlation of the weight with something else; `given`: at equal values of that one."""

    among: str
    against: str
    given: str | None
    expected: int  # the sign, as the paper says
    n: int
    rho: Interval

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def check_gate(
    examples: Sequence[WeighedExample], summary: GateSummary, alone: Sequence[SectionAlone], *, seed: int = 0
) -> tuple[Check, ...]:
    """Compare what there is to compare; what says nothing (too few, or all alike) is left out."""
    long = [each for each in examples if each.n_section_tokens is not None]
    sections = [each for each in summary.sections if each.n >= LEAST_EXAMPLES and each.topicality is not None]
    return (
        *_checks(
            EXAMPLES,
            {_WEIGHT: _column(examples, "weight"), WORDS: _column(examples, "n_words")},
            clusters=_notes(examples),
            seed=seed,
        ),
        *_checks(
            EXAMPLES,
            {_WEIGHT: _column(long, "weight"), LENGTH: _column(long, "n_section_tokens")},
            clusters=_notes(long),
            seed=seed,
        ),
        *_checks(
            SECTIONS,
            {
                _WEIGHT: _column(sections, "mean"),
                WORDS: _column(sections, "n_words"),
                **_of_training(sections),
            },
            seed=seed,
        ),
        *_checks(ALONE, {_WEIGHT: _column(alone, "weight"), **_of_training(alone)}, seed=seed),
    )


def _of_training(sections: Sequence[Any]) -> dict[str, Numbers]:
    """What sections were like in training."""
    names = {TOKENS: "n_training_tokens", ENTROPY: "entropy", TOPICALITY: "topicality"}
    return {name: _column(sections, field) for name, field in names.items()}


def _checks(
    among: str,
    columns: Mapping[str, Numbers],
    *,
    seed: int,
    clusters: npt.NDArray[np.integer] | None = None,
) -> list[Check]:
    """The weight against each other column, and the topicality once more at equal size, which it goes with."""
    found = RankCorrelations.of(columns, random=np.random.default_rng(seed), clusters=clusters)
    asked: list[tuple[str, str | None]] = [(name, None) for name in columns if name != _WEIGHT]
    if TOPICALITY in columns:
        asked.append((TOPICALITY, TOKENS))
    checks = []
    for against, given in asked:
        rho = found.interval(_WEIGHT, against, given=given)
        if rho is not None:
            checks.append(Check(among, against, given, _EXPECTED[against], found.n, rho))
    return checks


def _column(rows: Sequence[Any], field: str) -> npt.NDArray[np.float64]:
    return np.array([getattr(row, field) for row in rows], np.float64)


def _notes(examples: Sequence[WeighedExample]) -> npt.NDArray[np.int64]:
    """The note of each example, numbered; one whose note is not known stands alone."""
    numbers: dict[str | int, int] = {}
    keys: list[str | int] = [
        row if each.note_id is None else each.note_id for row, each in enumerate(examples)
    ]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
