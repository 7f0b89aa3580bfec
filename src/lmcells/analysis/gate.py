"""How much a model relies on the section rather than the words: the weight of its gate, by example and by section."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.analysis import Row, rows_of
from lmcells.analysis.interpolation import cells, empty_window, n_words_read
from lmcells.analysis.names import require_sections, section_statistics
from lmcells.analysis.statistics import Floats, Question, rank_intervals
from lmcells.evaluation.dataset import Example
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.reader import NoteReader
from lmcells.expansion.windows import Mention
from lmcells.notes.note import Note
from lmcells.notes.section_styles import section_finder
from lmcells.notes.tokens import find_tokens

_BATCH = 1024
_N_AROUND = 6  # words shown on either side, as written
_REACH = 80  # characters that hold them


class Occurrence(NamedTuple):
    mention: Mention
    note_id: str | None = None
    long_form: str | None = None  # where a dataset says it
    n_section_tokens: int | None = None  # without stop words; a dataset has only a part of the section


def occurrences_of(examples: Iterable[Example]) -> Iterator[Occurrence]:
    return (Occurrence(each.mention, each.note_id, long_form=each.long_form) for each in examples)


def occurrences_in(
    notes: Iterable[Note],
    inventory: SenseInventory,
    *,
    sections: str = "auto",
    header_rules: Path | None = None,
) -> Iterator[Occurrence]:
    """The short forms of notes that the model ranks; abbreviations that a note defines are not ranked."""
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
            yield Occurrence(each.mention, note.id, n_section_tokens=n_tokens[index])


@dataclass(frozen=True, slots=True)
class WeighedExample:
    """A short form in its context, and how much its section weighed."""

    short_form: str
    note_id: str | None
    long_form: str | None  # where a dataset says it
    section: str | None  # as written
    read_as: str | None  # the model's name for it; None is null metadata
    weight: float  # 0 to 1; the rest is the words'
    n_words: int  # that the model read around it
    n_section_tokens: int | None  # of the whole section, without stop words, where known
    before: str = field(repr=False)  # patient data: never in a log or a traceback
    after: str = field(repr=False)


def weigh(ranker: PosteriorRanker, occurrences: Iterable[Occurrence]) -> Iterator[WeighedExample]:
    """Read each occurrence as the ranker does, and take the gate's weight."""
    model = ranker.model
    require_sections(model)
    stream = iter(occurrences)
    while batch := list(islice(stream, _BATCH)):
        mentions = [each.mention for each in batch]
        windows = ranker.read(mentions)
        sections = ranker.section_ids(mentions)
        weights = ranker.posterior(windows, sections).gate.tolist()
        n_words = n_words_read(model, windows).tolist()
        for each, id_, weight, n in zip(batch, sections.tolist(), weights, n_words, strict=True):
            mention, note_id, long_form, n_section_tokens = each
            named = mention.short_form, note_id, long_form, mention.section
            read_as = model.sections[id_] if id_ >= 0 else None
            yield WeighedExample(*named, read_as, weight, n, n_section_tokens, *_around(mention))


def _around(mention: Mention) -> tuple[str, str]:
    """A few words as written, on either side."""
    text, first, last = mention.text, max(0, mention.start - _REACH), mention.end + _REACH
    before, after = text[first : mention.start].split(), text[mention.end : last].split()
    if first and not text[first - 1].isspace():
        before = before[1:]  # cut within a word
    if last < len(text) and not text[last].isspace():
        after = after[:-1]
    return " ".join(before[-_N_AROUND:]), " ".join(after[:_N_AROUND])


def spread(examples: Sequence[WeighedExample], *, n: int) -> list[WeighedExample]:
    """Up to n examples from the least weight to the most, in even steps; of different sections if possible."""
    ordered = sorted(examples, key=lambda each: each.weight)
    if n < 2 or n >= len(ordered):
        return ordered[:n]
    least, *left, most = ordered
    chosen = [least, most]
    step = (most.weight - least.weight) / (n - 1)
    for number in range(1, n - 1):
        distances = [abs(each.weight - least.weight - number * step) for each in left]
        seen = {each.read_as for each in chosen}
        keys = [(d > step / 2 or each.read_as in seen, d) for d, each in zip(distances, left, strict=True)]
        chosen.append(left.pop(keys.index(min(keys))))
    return sorted(chosen, key=lambda each: each.weight)


def weigh_alone(ranker: PosteriorRanker) -> list[Row]:
    """The weight of every section that the model has counts of, in an empty context, and what the section is like."""
    model = ranker.model
    require_sections(model)
    weights = cells(model, empty_window(ranker), np.arange(len(model.sections))).gate
    known = section_statistics(model)
    of_training = {"n_training_tokens": known.n_tokens, "topicality": known.topicality}
    rows = rows_of(section=model.sections, weight=weights, **of_training, entropy=known.entropy)
    return [row for row in rows if row.n_training_tokens > 0]


QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def summarise_gate(ranker: PosteriorRanker, examples: Sequence[WeighedExample]) -> Row:
    """Summarise weights in all and by the section that the model read, those with the most weight first.

    Examples under null metadata are left out. `topicality` and `entropy` are those of `SectionStatistics`, None where
    the model has no counts of the section; lengths are means over the examples.
    """
    known = section_statistics(ranker.model)
    grouped: dict[str, list[WeighedExample]] = {}
    for each in examples:
        if each.read_as is not None:
            grouped.setdefault(each.read_as, []).append(each)
    sections = []
    for name, group in grouped.items():
        id_ = ranker.model.section_ids[name]
        n_tokens = int(known.n_tokens[id_])
        lengths = [each.n_section_tokens for each in group if each.n_section_tokens is not None]
        sections.append(
            Row(
                section=name,
                **_summary(group),
                n_words=float(np.mean([each.n_words for each in group])),
                n_section_tokens=float(np.mean(lengths)) if lengths else None,
                n_training_tokens=n_tokens,
                topicality=float(known.topicality[id_]) if n_tokens else None,
                entropy=float(known.entropy[id_]) if n_tokens else None,
            )
        )
    sections.sort(key=lambda each: -each.mean)
    return Row(**_summary([each for group in grouped.values() for each in group]), sections=sections)


def _summary(examples: Sequence[WeighedExample]) -> dict[str, Any]:
    weights = _column(examples, "weight")
    if not weights.size:
        return {"n": 0, "mean": 0.0, "deviation": 0.0, "quantiles": []}
    mean, deviation = float(weights.mean()), float(weights.std())
    quantiles = np.quantile(weights, QUANTILES).tolist()
    return {"n": weights.size, "mean": mean, "deviation": deviation, "quantiles": quantiles}


LEAST_EXAMPLES = 5  # that make the mean weight of a section worth looking at
EXAMPLES = "examples"
SECTIONS = f"sections with {LEAST_EXAMPLES} examples or more"
ALONE = "all sections of the model, empty context"
WORDS = "words read around the short form"
LENGTH = "length of the section's text"
TOKENS = "tokens in training"
ENTROPY = "entropy of its words"
TOPICALITY = "topicality of its words"

_WEIGHT = "weight"
_OF_TRAINING = {TOKENS: "n_training_tokens", ENTROPY: "entropy", TOPICALITY: "topicality"}
_EXPECTED = {WORDS: -1, LENGTH: -1, TOKENS: -1, ENTROPY: -1, TOPICALITY: 1}  # signs, as the paper says


def check_gate(examples: Sequence[WeighedExample], summary: Row, alone: Sequence[Row]) -> list[Row]:
    """Spearman's correlations with the weight: do short, topical sections get more, as the paper saw?

    `given` is held fixed unless it is None; `expected` is the sign that the paper says. Among examples, intervals
    resample notes, since the examples of one note are alike.
    """
    with_length = [each for each in examples if each.n_section_tokens is not None]
    sections = [each for each in summary.sections if each.n >= LEAST_EXAMPLES and each.topicality is not None]
    asked: list[tuple[str, Sequence[Any], dict[str, str]]] = [
        (EXAMPLES, examples, {_WEIGHT: "weight", WORDS: "n_words"}),
        (EXAMPLES, with_length, {_WEIGHT: "weight", LENGTH: "n_section_tokens"}),
        (SECTIONS, sections, {_WEIGHT: "mean", WORDS: "n_words", **_OF_TRAINING}),
        (ALONE, alone, {_WEIGHT: "weight", **_OF_TRAINING}),
    ]
    checks = []
    for among, rows, fields in asked:
        columns = {name: _column(rows, field) for name, field in fields.items()}
        questions: list[Question] = [(_WEIGHT, name, None) for name in fields if name != _WEIGHT]
        if TOPICALITY in fields:
            questions.append((_WEIGHT, TOPICALITY, TOKENS))  # small sections look more topical
        clusters = _note_numbers(rows) if among == EXAMPLES else None
        found = rank_intervals(columns, questions, random=np.random.default_rng(0), clusters=clusters)
        for (_, against, given), rho in found.items():
            sign = _EXPECTED[against]
            checks.append(Row(among=among, against=against, given=given, expected=sign, n=len(rows), rho=rho))
    return checks


def _column(rows: Sequence[Any], field: str) -> Floats:
    return np.array([getattr(row, field) for row in rows], np.float64)


def _note_numbers(examples: Sequence[WeighedExample]) -> npt.NDArray[np.int64]:
    """The note of each example as a number; an example whose note is unknown gets its own."""
    numbers: dict[str | int, int] = {}
    keys = (row if each.note_id is None else each.note_id for row, each in enumerate(examples))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
