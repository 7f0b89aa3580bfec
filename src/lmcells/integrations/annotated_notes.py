"""Notes with what was found in them: a file of annotations joined with the notes it was made from, for the exports."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmcells.errors import FormatError, InputError
from lmcells.expansion.expansion import Expansion
from lmcells.integrations.annotation_rows import read_annotations
from lmcells.integrations.note_files import NoteFiles
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.replacement import mend

_LINE_END = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note and its expansions, in the order of the text."""

    note: Note
    expansions: tuple[Expansion, ...]

    @property
    def id(self) -> str:
        """The id of the note, as it stands in the annotations."""
        return mend(self.note.id)

    @property
    def text(self) -> str:
        r"""The text with lines that end in "\n" alone, character for character as long: "\r\n" is " \n".

        Tools turn "\r\n" into "\n" where they read a file, and all offsets after it are wrong. Ours hold in both.
        """
        return _LINE_END.sub(lambda end: " \n" if len(end[0]) > 1 else "\n", self.note.text)


def read_annotated(
    annotations: Path, notes: NoteFiles, *, report: ReadReport | None = None
) -> Iterator[AnnotatedNote]:
    """Yield every note with its expansions; annotations of a note that is not there, or twice, are refused."""
    found: dict[str, list[Expansion]] = {}
    for note_id, expansion in read_annotations(annotations):
        found.setdefault(note_id, []).append(expansion)
    seen: set[str] = set()
    for note in notes.read(ReadReport() if report is None else report):
        note_id = AnnotatedNote(note, ()).id
        if note_id in seen:
            raise FormatError(
                f"two notes have the id {note_id!r}: which one is meant cannot be told. Rename one."
            )
        seen.add(note_id)
        expansions = sorted(found.pop(note_id, ()), key=lambda each: each.start)
        _check(expansions, note_id, len(note.text))
        yield AnnotatedNote(note, tuple(expansions))
    if found:
        raise InputError(
            f"{annotations} is about {len(found):,} notes that are not there, {next(iter(found))!r} first. "
            f"Give the notes it was made from with --notes; {len(seen):,} were read."
        )


def _check(expansions: list[Expansion], note_id: str, length: int) -> None:
    position = 0
    for each in expansions:
        if not position <= each.start < each.end <= length:
            raise InputError(
                f"the expansion at {each.start}-{each.end} of {note_id!r} overlaps another or lies outside of the note "
                f"({length:,} characters). Give the notes that were annotated."
            )
        position = each.end
