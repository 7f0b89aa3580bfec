"""Reverse substitution: replace a long form with its short form, and keep the long form as the label.

Finley et al. 2016; the paper draws at most 500 examples per sense, with 20 words on each side, inside the section.
"""

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lmcells.errors import ConfigError
from lmcells.evaluation.dataset import Example, NoteSplit, rank_of
from lmcells.evaluation.long_form_finder import LongFormFinder, Match, Target
from lmcells.expansion import Sense, SenseInventory
from lmcells.notes.note import Note, Section
from lmcells.notes.section_styles import NoteSections, header_finder, section_finder
from lmcells.notes.sections import cover, upper_name
from lmcells.notes.tokens import Array, find_tokens, iterate_tokens

IN_HEADER = "in a section header"
TOO_LONG = "window too long to be prose"
GIVEN_AWAY = "another long form of the short form in the window"
NOT_DRAWN = "beyond the maximum of its sense"
REPEATED = "repeats another example of its sense"
SINGLE_SENSE = "short form with one sense"
RARE_SENSE = "short form with a long form that is found too rarely"

Words = tuple[Array, Array]  # where each begins and ends

_CHARACTERS_PER_WORD = 200  # text whose words are longer than this on average is not prose


@dataclass(slots=True)
class ReversePart:
    """The examples of one part of the split. `n_found` is the number of examples plus all that was dropped."""

    examples: list[Example] = field(default_factory=list)
    n_notes: int = 0
    note_ids: list[str] = field(default_factory=list)  # of a split: all its notes, with examples or without
    n_found: int = 0  # a form that several short forms share counts once for each
    dropped: Counter[str] = field(default_factory=Counter)
    too_rare: dict[Target, int] = field(default_factory=dict)  # long forms found too rarely, and how often
    inventory: SenseInventory = field(default_factory=SenseInventory)  # the candidates

    @property
    def senses(self) -> Counter[Target]:
        return Counter(Target(example.short_form, example.long_form) for example in self.examples)


def build_reverse_dataset(
    notes: Iterable[Note],
    inventory: SenseInventory,
    *,
    finder: LongFormFinder,
    find_sections: NoteSections,
    max_per_sense: int = 500,
    min_found: int = 0,
    window: int = 20,
    seed: int = 0,
    allow_candidates: bool = False,
    drop_repeated: bool = False,
    split: NoteSplit | None = None,
) -> dict[str, ReversePart]:
    """Draw examples from notes, with `window` words on each side; without a split, one part named "".

    `min_found` keeps only short forms each of whose long forms is found at least so often in all notes, whatever the
    split; all their long forms are candidates, those without an example too. Otherwise a short form needs examples of
    two senses, and the candidates are the senses that have one. `allow_candidates` keeps windows that also hold a long
    form of the same short form. `drop_repeated` drops examples with the words of another one of their sense.

    Each example has a pseudo-random rank by its id, and the lowest ranks of a sense are drawn: a uniform sample that
    does not depend on the order of the notes, in memory that is bounded by what is kept.
    """
    if min(max_per_sense, window) < 1:
        found = f"--max-per-sense is {max_per_sense}, --window is {window}"
        raise ConfigError(f"{found}; allowed: 1 or more for both.")
    parts = {name: ReversePart() for name in (split.shares if split else ("",))}
    drawn: dict[str, defaultdict[Target, list[tuple[int, str, Example]]]]  # heaps, the highest rank first
    drawn = {name: defaultdict(list) for name in parts}
    n_beyond: Counter[tuple[str, Target]] = Counter()  # the maximum
    n_found: Counter[Target] = Counter()  # in all notes
    for note in notes:
        name = split.part_of(note.id) if split else ""
        matches = finder.find(note.text) if min_found or name is not None else []
        n_found.update(target for match in matches for target in match.targets)
        if name is None:
            continue
        part = parts[name]
        part.n_notes += 1
        part.note_ids += [note.id] if split else []
        for target, outcome in _substitute(note, matches, find_sections, n_words=window):
            part.n_found += 1
            if isinstance(outcome, str):
                part.dropped[outcome] += 1
                continue
            if not allow_candidates and finder.holds_candidate(outcome.text, target.short_form):
                part.dropped[GIVEN_AWAY] += 1
                continue
            heap = drawn[name][target]
            heapq.heappush(heap, (-rank_of(outcome.id, seed=seed), outcome.id, outcome))
            if len(heap) > max_per_sense:
                heapq.heappop(heap)
                n_beyond[name, target] += 1
    for name, part in parts.items():
        candidates = [each for each in inventory if min_found or _target(each) in drawn[name]]
        n_senses = Counter(each.short_form for each in candidates)
        targets = map(_target, candidates)
        part.too_rare = {target: n_found[target] for target in targets if n_found[target] < min_found}
        with_examples = {short_form for short_form, _ in drawn[name]}
        kept = {short_form for short_form, n in n_senses.items() if n > 1} & with_examples
        kept -= {target.short_form for target in part.too_rare}
        part.inventory = SenseInventory.from_senses(each for each in candidates if each.short_form in kept)
        for target, heap in sorted(drawn[name].items()):  # an order that depends on nothing else
            if target.short_form in kept:
                examples = sorted((each for _, _, each in heap), key=lambda example: example.id)
                part.examples += _without_repeats(examples) if drop_repeated else examples
            why = NOT_DRAWN if target.short_form in kept else RARE_SENSE if min_found else SINGLE_SENSE
            part.dropped[why] += n_beyond[name, target] + len(heap) * (target.short_form not in kept)
        part.dropped[REPEATED] = part.n_found - len(part.examples) - part.dropped.total()
        part.dropped = +part.dropped
    return parts


def _target(sense: Sense) -> Target:
    return Target(sense.short_form, sense.long_form)


def _without_repeats(examples: Iterable[Example]) -> Iterable[Example]:
    """Keep the first of the examples that have the same words before and after the short form."""
    first: dict[tuple[tuple[str, ...], ...], Example] = {}
    for each in examples:
        sides = each.text[: each.start], each.text[each.end :]
        words = tuple(tuple(token.word for token in iterate_tokens(side)) for side in sides)
        first.setdefault(words, each)
    return first.values()


def _substitute(
    note: Note, matches: list[Match], find_sections: NoteSections, *, n_words: int
) -> Iterator[tuple[Target, Example | str]]:
    """Yield, for each long form and each short form of it, the example or the reason why there is none."""
    if not matches:
        return
    sections, words = find_sections(note), readable_words(note.text)
    starts = [section.start for section in sections]
    for match in matches:
        section = sections[bisect_right(starts, match.start) - 1]
        if match.start < section.body_start or match.end > section.end:
            yield from ((target, IN_HEADER) for target in match.targets)
            continue
        bounds = section.body_start, section.end
        window = window_around(note.text, words, match.start, match.end, n_words=n_words, bounds=bounds)
        if window is None:
            yield from ((target, TOO_LONG) for target in match.targets)
            continue
        before, after = note.text[window[0] : match.start], note.text[match.end : window[1]]
        for target in match.targets:
            short_form, long_form = target
            id_, text = f"{note.id}:{match.start}:{short_form}", before + short_form + after
            place = len(before), len(before) + len(short_form)
            yield target, Example(id_, text, *place, short_form, section.header, long_form, note.id)


def readable_words(text: str) -> Words:
    """Offsets of the words that a model reads: without stop words, and without words that repeat the one before."""
    tokens = find_tokens(text)
    is_new = np.append(True, tokens.hashes[1:] != tokens.hashes[:-1])[: tokens.hashes.size]
    return tokens.starts[is_new], tokens.ends[is_new]


def window_around(
    text: str, words: Words, start: int, end: int, *, n_words: int, bounds: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the span of `n_words` of the `words` on each side of `text[start:end]`, within `bounds`.

    The span ends at white space. None if there are too few words for the text to be prose.
    """
    starts, ends = words
    first_inside, left_end = np.searchsorted(starts, bounds[0]), np.searchsorted(ends, start, "right")
    right_begin, last_inside = np.searchsorted(starts, end), np.searchsorted(ends, bounds[1], "right")
    begin = int(starts[left_end - n_words]) if left_end - first_inside > n_words else bounds[0]
    stop = int(ends[right_begin + n_words - 1]) if last_inside - right_begin > n_words else bounds[1]
    if max(start - begin, stop - end) > (n_words + 1) * _CHARACTERS_PER_WORD:
        return None
    while begin > bounds[0] and not text[begin - 1].isspace():
        begin -= 1
    while stop < bounds[1] and not text[stop].isspace():
        stop += 1
    before, after = text[begin:start], text[end:stop]
    return start - len(before.lstrip()), end + len(after.rstrip())


def frequent_sections(
    notes: Iterable[Note], *, style: str, min_count: int, header_rules: Path | None = None
) -> NoteSections:
    """Return the function that finds sections as in a corpus of these notes.

    With the paper's sections, a header seen fewer than `min_count` times is part of the body text before it.
    """
    if style != "paper" or min_count < 2:
        return section_finder(style, header_rules=header_rules)
    find_headers = header_finder(style)
    counts = Counter(upper_name(header) for note in notes for _, _, header, _ in find_headers(note) if header)

    def find_sections(note: Note) -> tuple[Section, ...]:
        headers = [each for each in find_headers(note) if counts[upper_name(each[2] or "")] >= min_count]
        return cover(len(note.text), headers)

    return find_sections
