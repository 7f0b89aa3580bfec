"""How much a model leans on a section against the words: the weight of its gate, by example and by section.

ranker = section_ranker(model, inventory)
examples = list(weigh(ranker, places_of_examples(dataset)))   # or places_in_notes(notes, inventory)
summary = summarise_gate(ranker, examples)
summary.sections[0].section, summary.sections[0].mean         # the section with the most weight
check_gate(examples, summary, weigh_alone(ranker))            # do short, topical sections get more, as the paper says?
spread(examples, n=8)                                         # the paper's table: from the least weight to the most
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from lmcells.analysis.gate.places import Place
from lmcells.analysis.gate.window import cells, empty_window, n_words_read
from lmcells.analysis.names import require_sections
from lmcells.analysis.sections.statistics import section_statistics
from lmcells.expansion.context import Mention
from lmcells.expansion.posterior_ranking import PosteriorRanker
from lmcells.expansion.section_ids import SectionIds

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
