"""The three ways to find the sections of a note, by name."""

from collections.abc import Callable
from pathlib import Path

from lmcells.errors import FormatError
from lmcells.notes.note import Note, Section
from lmcells.notes.paper_sections import find_paper_sections
from lmcells.notes.section_aliases import find_alias, load_aliases
from lmcells.notes.section_rules import SectionRules

NoteSections = Callable[[Note], tuple[Section, ...]]


def section_finder(style: str, *, header_rules: Path | None = None) -> NoteSections:
    """Return the function that finds a note's sections.

    `auto` takes the file's own sections where a note has them, and the rules otherwise.
    """
    if style == "paper":
        return lambda note: find_paper_sections(note.text)
    rules = SectionRules(header_rules)
    if style == "rules":
        return lambda note: rules(note.text)

    aliases = load_aliases(header_rules)

    def named(section: Section) -> Section:
        alias = find_alias(aliases, section.header) if section.header else None
        return section._replace(name=alias.name) if alias and alias.name else section

    def given(note: Note) -> tuple[Section, ...]:
        if note.sections is not None:
            return tuple(map(named, note.sections))
        if style == "auto":
            return rules(note.text)
        raise FormatError(
            f"--sections given: note {note.id} has no sections of its own, only text. "
            "Use --sections rules (or paper), or give documents with a list of sections."
        )

    return given
