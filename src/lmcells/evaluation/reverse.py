"""Reverse substitution: where a long form is written out, put its short form, and keep the long form as the label.

    finder = LongFormFinder(inventory)
    parts = build_reverse_dataset(notes, finder=finder, find_sections=section_finder("auto"), settings=...)

Finley et al. 2016; the paper draws at most 500 examples a sense, with 20 words on each side, inside the section.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from lmcells.errors import ConfigError
from lmcells.evaluation.dataset import Example, NoteSplit, Sample
from lmcells.evaluation.long_form_finder import LongFormFinder, Match, Target
from lmcells.expansion import SenseInventory
from lmcells.notes.note import Note, Section
from lmcells.notes.section_styles import NoteSections

# The words around a place in a text, never beyond a section.


_CHARACTERS_PER_WORD = 200  # where words are longer than this on average, it is no prose


@cache
def _words(n_words: int) -> re.Pattern[str]:
    return re.compile(rf"\S*(?:\s+\S+){{0,{n_words}}}")


def window_around(
    text: str, start: int, end: int, *, n_words: int, bounds: tuple[int, int]
) -> tuple[int, int] | None:
    """Return where the window begins and ends: `n_words` words on each side of `text[start:end]`, within `bounds`.

    A word is what stands between white space, so the window is cut where words are. What is glued to the place
    itself, such as a bracket, is no word of its own. None where words are too long to be words.
    """
    first, last = bounds
    farthest = (n_words + 1) * _CHARACTERS_PER_WORD
    before = text[max(first, start - farthest) : start][::-1]  # backward is forward on the mirrored text
    after = text[end : min(last, end + farthest)]
    to_left, to_right = _reach(before, n_words), _reach(after, n_words)
    if farthest in (to_left, to_right):
        return None
    return start - to_left, end + to_right


def _reach(away: str, n_words: int) -> int:
    found = _words(n_words).match(away)
    assert found is not None  # the empty string matches
    return found.end()


# Reverse substitution: where a long form is written out, put its short form, and keep the long form as the label.
#
#     finder = LongFormFinder(inventory)
#     parts = build_reverse_dataset(notes, finder=finder, find_sections=section_finder("auto"), settings=...)
#
# Finley et al. 2016; the paper draws at most 500 examples a sense, with 20 words on each side, inside the section.


IN_HEADER = "in a section header"
TOO_LONG = "window too long to be prose"
GIVEN_AWAY = "another long form of the short form in the window"
NOT_DRAWN = "beyond the maximum of its sense"
SINGLE_SENSE = "short form with one sense"


@dataclass(frozen=True, kw_only=True)
class ReverseSettings:
    """Everything that decides what is drawn, apart from notes and inventory."""

    max_per_sense: int = 500
    window: int = 20  # words on each side
    seed: int = 0
    allow_candidates: bool = False  # keep windows in which a long form of the same short form stands as well

    def __post_init__(self) -> None:
        if self.max_per_sense < 1:
            raise ConfigError(f"--max-per-sense: found {self.max_per_sense}, allowed: 1 or more.")
        if self.window < 1:
            raise ConfigError(f"--window: found {self.window}, allowed: 1 or more.")


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


@dataclass(slots=True)
class _Drawing:
    """What has been drawn so far for one part."""

    settings: ReverseSettings
    part: ReversePart = field(default_factory=ReversePart)
    samples: dict[Target, Sample[Example]] = field(default_factory=dict)

    def offer(self, target: Target, example: Example) -> None:
        if target not in self.samples:
            self.samples[target] = Sample(self.settings.max_per_sense, self.settings.seed)
        self.samples[target].offer(example.id, example)

    def finish(self) -> ReversePart:
        """Drop what a short form with one sense has, and put the rest into an order that depends on nothing else."""
        long_forms: defaultdict[str, set[str]] = defaultdict(set)
        for target in self.samples:
            long_forms[target.short_form].add(target.long_form)
        for target, sample in sorted(self.samples.items()):
            if len(long_forms[target.short_form]) < 2:
                self.part.dropped[SINGLE_SENSE] += sample.n_offered
                continue
            self.part.examples += sorted(sample, key=lambda example: example.id)
            self.part.dropped[NOT_DRAWN] += sample.n_offered - len(sample)
        self.part.dropped = +self.part.dropped
        return self.part


def build_reverse_dataset(
    notes: Iterable[Note],
    *,
    finder: LongFormFinder,
    find_sections: NoteSections,
    settings: ReverseSettings,
    split: NoteSplit | None = None,
    on_note: Callable[[Note], None] | None = None,
) -> dict[str, ReversePart]:
    """Draw examples from notes; one part named "" without a split. Memory is bounded by what is kept."""
    drawings = {name: _Drawing(settings) for name in (split.shares if split else ("",))}
    for note in notes:
        if on_note is not None:
            on_note(note)
        name = split.part_of(note.id) if split else ""
        if name is None:
            continue
        drawing = drawings[name]
        drawing.part.n_notes += 1
        for target, outcome in _substitute(
            note, finder=finder, find_sections=find_sections, settings=settings
        ):
            drawing.part.n_found += 1
            if isinstance(outcome, Example):
                drawing.offer(target, outcome)
            else:
                drawing.part.dropped[outcome] += 1
    return {name: drawing.finish() for name, drawing in drawings.items()}


def _substitute(
    note: Note, *, finder: LongFormFinder, find_sections: NoteSections, settings: ReverseSettings
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
        window = window_around(note.text, match.start, match.end, n_words=settings.window, bounds=bounds)
        if window is None:
            yield from ((target, TOO_LONG) for target in match.targets)
            continue
        for target in match.targets:
            example = _example(note, match, target, section=section, window=window)
            given_away = not settings.allow_candidates and finder.holds_candidate(
                example.text, target.short_form
            )
            yield target, GIVEN_AWAY if given_away else example


def _example(
    note: Note, match: Match, target: Target, *, section: Section, window: tuple[int, int]
) -> Example:
    before, after = note.text[window[0] : match.start], note.text[match.end : window[1]]
    return Example(
        id=f"{note.id}:{match.start}:{target.short_form}",
        text=before + target.short_form + after,
        start=len(before),
        end=len(before) + len(target.short_form),
        short_form=target.short_form,
        section=section.header,
        long_form=target.long_form,
        note_id=note.id,
    )


def used_inventory(inventory: SenseInventory, part: ReversePart) -> SenseInventory:
    """Return the senses that occur among the examples."""
    senses = part.senses
    return SenseInventory.from_senses(
        sense for sense in inventory if Target(sense.short_form, sense.long_form) in senses
    )
