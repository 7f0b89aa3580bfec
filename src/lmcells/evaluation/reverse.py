"""Reverse substitution: replace a long form by its short form, and keep the long form as the label.

    finder = LongFormFinder(inventory)
    parts = build_reverse_dataset(notes, finder=finder, find_sections=section_finder("auto"))

Finley et al. 2016; the paper draws at most 500 examples per sense, with 20 words on each side, inside the section.
"""

import heapq
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lmcells.errors import ConfigError
from lmcells.evaluation.dataset import Example, NoteSplit, rank_of
from lmcells.evaluation.long_form_finder import LongFormFinder, Target
from lmcells.expansion import SenseInventory
from lmcells.notes.note import Note
from lmcells.notes.section_styles import NoteSections

IN_HEADER = "in a section header"
TOO_LONG = "window too long to be prose"
GIVEN_AWAY = "another long form of the short form in the window"
NOT_DRAWN = "beyond the maximum of its sense"
SINGLE_SENSE = "short form with one sense"

_CHARACTERS_PER_WORD = 200  # text whose words are longer than this on average is no prose


@dataclass(slots=True)
class ReversePart:
    """The examples of one part of the split. `n_found` is the number of examples plus all that was dropped."""

    examples: list[Example] = field(default_factory=list)
    n_notes: int = 0
    n_found: int = 0  # a form that several short forms share counts once for each
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def senses(self) -> Counter[Target]:
        return Counter(Target(example.short_form, example.long_form) for example in self.examples)


def build_reverse_dataset(
    notes: Iterable[Note],
    *,
    finder: LongFormFinder,
    find_sections: NoteSections,
    max_per_sense: int = 500,
    window: int = 20,
    seed: int = 0,
    allow_candidates: bool = False,
    split: NoteSplit | None = None,
) -> dict[str, ReversePart]:
    """Draw examples from notes, with `window` words on each side; without a split, one part named "".

    `allow_candidates` keeps windows that also hold a long form of the same short form.

    Each example has a pseudo-random rank by its id, and the lowest ranks of a sense are drawn: a uniform sample that
    does not depend on the order of the notes, in memory that is bounded by what is kept.
    """
    for flag, value in (("max-per-sense", max_per_sense), ("window", window)):
        if value < 1:
            raise ConfigError(f"--{flag}: found {value}, allowed: 1 or more.")
    parts = {name: ReversePart() for name in (split.shares if split else ("",))}
    drawn: dict[str, defaultdict[Target, list[tuple[int, str, Example]]]]  # heaps, the highest rank first
    drawn = {name: defaultdict(list) for name in parts}
    n_beyond: Counter[tuple[str, Target]] = Counter()  # the maximum
    for note in notes:
        name = split.part_of(note.id) if split else ""
        if name is None:
            continue
        part = parts[name]
        part.n_notes += 1
        for target, outcome in _substitute(note, finder, find_sections, window, allow_candidates):
            part.n_found += 1
            if isinstance(outcome, str):
                part.dropped[outcome] += 1
                continue
            heap = drawn[name][target]
            heapq.heappush(heap, (-rank_of(outcome.id, seed=seed), outcome.id, outcome))
            if len(heap) > max_per_sense:
                heapq.heappop(heap)
                n_beyond[name, target] += 1
    for name, part in parts.items():
        n_senses = Counter(target.short_form for target in drawn[name])
        for target, heap in sorted(drawn[name].items()):  # an order that depends on nothing else
            if n_senses[target.short_form] < 2:
                part.dropped[SINGLE_SENSE] += len(heap) + n_beyond[name, target]
            else:
                part.examples += sorted((each for _, _, each in heap), key=lambda example: example.id)
                part.dropped[NOT_DRAWN] += n_beyond[name, target]
        part.dropped = +part.dropped
    return parts


def _substitute(
    note: Note, finder: LongFormFinder, find_sections: NoteSections, n_words: int, allow_candidates: bool
) -> Iterator[tuple[Target, Example | str]]:
    """Yield, for each long form and each short form of it, the example or the reason why there is none."""
    matches = finder.find(note.text)
    if not matches:
        return
    sections = find_sections(note)
    starts = [section.start for section in sections]
    for match in matches:
        section = sections[bisect_right(starts, match.start) - 1]
        bounds = section.body_start, section.end
        if match.start < section.body_start or match.end > section.end:
            yield from ((target, IN_HEADER) for target in match.targets)
            continue
        window = window_around(note.text, match.start, match.end, n_words=n_words, bounds=bounds)
        if window is None:
            yield from ((target, TOO_LONG) for target in match.targets)
            continue
        before, after = note.text[window[0] : match.start], note.text[match.end : window[1]]
        for target in match.targets:
            text = before + target.short_form + after
            if not allow_candidates and finder.holds_candidate(text, target.short_form):
                yield target, GIVEN_AWAY
                continue
            example = Example(
                id=f"{note.id}:{match.start}:{target.short_form}",
                text=text,
                start=len(before),
                end=len(before) + len(target.short_form),
                short_form=target.short_form,
                section=section.header,
                long_form=target.long_form,
                note_id=note.id,
            )
            yield target, example


def window_around(
    text: str, start: int, end: int, *, n_words: int, bounds: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the span of `n_words` words on each side of `text[start:end]`, within `bounds`.

    Words are separated by white space. What touches `text[start:end]`, such as a bracket, is not a word of its own.
    None where words are too long to be words.
    """
    words = re.compile(rf"\S*(?:\s+\S+){{0,{n_words}}}")  # re keeps it compiled; it matches any text
    farthest = (n_words + 1) * _CHARACTERS_PER_WORD
    before = text[max(bounds[0], start - farthest) : start][::-1]  # backward is forward on the mirrored text
    after = text[end : min(bounds[1], end + farthest)]
    to_left, to_right = (found.end() for side in (before, after) if (found := words.match(side)))
    return None if farthest in (to_left, to_right) else (start - to_left, end + to_right)


def used_inventory(inventory: SenseInventory, part: ReversePart) -> SenseInventory:
    """Return the senses that occur among the examples."""
    senses = part.senses
    return SenseInventory.from_senses(
        sense for sense in inventory if Target(sense.short_form, sense.long_form) in senses
    )
