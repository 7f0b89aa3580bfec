"""The account of a reading: what was read, what was skipped and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UTF8_REPLACED = "invalid UTF-8 replaced"
NO_ID = "no id: row number used"
EMPTY_NOTE = "empty note"


@dataclass(slots=True)
class ReadReport:
    """Every row seen is either read or skipped for a reason; a warning is about a note that was read.

    Reasons are fixed sentences, so that they can be counted and never hold note text.
    """

    n_read: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    first_seen: dict[str, str] = field(default_factory=dict)  # reason -> "notes.csv:17", file and line or row

    @property
    def n_skipped(self) -> int:
        return self.skipped.total()

    @property
    def n_seen(self) -> int:
        return self.n_read + self.n_skipped

    def skip(self, reason: str, line: int | None = None, *, path: Path | None = None) -> None:
        """Count a row that gives no note, and remember where the first one with this reason stands."""
        self.skipped[reason] += 1
        self._remember(reason, line, path)

    def warn(self, reason: str, line: int | None = None, *, path: Path | None = None) -> None:
        """Count something the user should know about a note that is kept."""
        self.warnings[reason] += 1
        self._remember(reason, line, path)

    def _remember(self, reason: str, line: int | None, path: Path | None) -> None:
        if reason not in self.first_seen:
            place = (None if path is None else path.name, None if line is None else str(line))
            self.first_seen[reason] = ":".join(filter(None, place))

    def merge(self, other: "ReadReport") -> None:
        """Add the counts of `other`, which read what comes after."""
        self.n_read += other.n_read
        self.skipped.update(other.skipped)
        self.warnings.update(other.warnings)
        self.first_seen = other.first_seen | self.first_seen

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "n_read": self.n_read,
            "skipped": dict(self.skipped),
            "warnings": dict(self.warnings),
            "first_seen": dict(self.first_seen),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "ReadReport":
        """The report that `to_dict` wrote."""
        return cls(
            n_read=saved["n_read"],
            skipped=Counter(saved["skipped"]),
            warnings=Counter(saved["warnings"]),
            first_seen=dict(saved["first_seen"]),
        )
