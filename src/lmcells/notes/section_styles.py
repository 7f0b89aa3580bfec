"""The ways to find the sections of a note, by name."""

from collections.abc import Callable
from pathlib import Path

from lmcells.errors import FormatError
from lmcells.notes.note import Note, Section
from lmcells.notes.paper_sections import find_paper_headers
from lmcells.notes.section_aliases import find_alias, load_aliases
from lmcells.notes.section_rules import SectionRules
from lmcells.notes.sections import Header, cover

HeaderFinder = Callable[[Note], list[Header]]  # in order; text before the first is under no header
NoteSections = Callable[[Note], tuple[Section, ...]]


def section_finder(style: str, *, header_rules: Path | None = None) -> NoteSections:
    """Return the function that finds a note's sections, which cover it exactly."""
    find_headers = header_finder(style, header_rules=header_rules)
    return lambda note: cover(len(note.text), find_headers(note))


def header_finder(style: str, *, header_rules: Path | None = None) -> HeaderFinder:
    """Return the function that finds a note's headers.

    `auto` takes the file's own sections where a note has them, and the rules otherwise; `none` finds none.
    """
    if style == "none":
        return lambda _: []
    if style == "paper":
        return lambda note: find_paper_headers(note.text)
    rules = SectionRules(header_rules)
    if style == "rules":
        return lambda note: rules.headers(note.text)
    aliases = load_aliases(header_rules)

    def named(header: str | None, name: str) -> str:
        alias = find_alias(aliases, header) if header else None
        return alias.name if alias and alias.name else name

    def given(note: Note) -> list[Header]:
        if note.sections is not None:
            return [
                (start, body_start, header, named(header, name))
                for header, name, start, body_start, _ in note.sections
            ]
        if style == "auto":
            return rules.headers(note.text)
        raise FormatError(
            f"--sections given: note {note.id} has no sections of its own, only text. "
            "Use --sections rules (or paper), or give documents with a list of sections."
        )

    return given
