"""The short forms whose gate is looked at: those of a dataset, or those found in notes."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmcells.evaluation.dataset import Example
from lmcells.expansion.context import Mention
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.note_reader import NoteReader
from lmcells.notes.bulk_tokens import find_tokens
from lmcells.notes.note import Note
from lmcells.notes.section_styles import section_finder


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
