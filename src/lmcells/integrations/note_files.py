"""Which notes to read: files or folders, their format and columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes


@dataclass(frozen=True, slots=True)
class NoteFiles:
    """Files and folders of notes, in the order in which they are read."""

    paths: Sequence[Path]
    format: str = "auto"
    columns: Columns = field(default_factory=Columns)

    def read(self, report: ReadReport) -> Iterator[Note]:
        """Stream all notes; what cannot be read is in the report."""
        for path in self.paths:
            yield from read_notes(path, format=self.format, columns=self.columns, report=report)

    def files(self) -> list[Path]:
        """All files that are there, those of folders included."""
        found = (file for path in self.paths for file in (path.rglob("*") if path.is_dir() else [path]))
        return sorted(file for file in found if file.is_file())
