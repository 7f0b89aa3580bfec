"""The account of a reading that also remembers every row that gave no note: its file, its line and the reason."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from lmcells.notes.readers import ReadReport


@dataclass(slots=True)
class RejectingReport(ReadReport):
    """Writes each skipped row down as it is met, so that none is lost and none is held in memory."""

    file: TextIO | None = field(default=None, repr=False, kw_only=True)

    def skip(self, reason: str, line: int | None = None, *, path: Path | None = None) -> None:
        """Count a row that gives no note, and write down where it stands."""
        ReadReport.skip(self, reason, line, path=path)
        if self.file is not None:
            self.file.write(rejected_row(reason, line=line, path=path))


def rejected_row(
    reason: str, *, line: int | None = None, path: Path | None = None, note_id: str | None = None
) -> str:
    """Return one line of the side file; never the text."""
    row = {"file": None if path is None else str(path), "line": line, "note_id": note_id, "reason": reason}
    return json.dumps(row) + "\n"
