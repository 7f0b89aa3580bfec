"""Settings of a corpus, and notes to leave out."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from lmcells.errors import FormatError, InputError
from lmcells.files import sha256
from lmcells.settings import Limits, Size, check_fields

SectionStyle = Literal["auto", "paper", "rules", "given", "none"]
SECTION_STYLES: tuple[str, ...] = get_args(SectionStyle)


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """Everything that determines a corpus, apart from the notes."""

    sections: SectionStyle = "auto"  # "auto": the file's own if it has any, otherwise "rules"
    min_count: int = 10  # vocabulary words occur more often than this
    min_header_count: Size = 10  # headers with their own id occur at least this often
    header_rules: Path | None = None  # the user's own headers
    stop_words: bool = False  # keep words such as "of" and "the", which the paper drops
    # share of sections in which short forms are replaced by the note's definitions
    spelled_out: Annotated[float, Limits(at_most=1)] = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    def to_dict(self, *, metadata_columns: Sequence[str]) -> dict[str, Any]:
        """Return the settings for a manifest, with the checksum of the header rules."""
        rules = sha256(self.header_rules) if self.header_rules and self.header_rules.is_file() else None
        named = {"metadata_columns": list(metadata_columns), "header_rules": rules}
        return asdict(self) | named | {"spelled_out": float(self.spelled_out)}


def read_excluded_ids(path: Path) -> frozenset[str]:
    """Read the ids of notes to leave out, one per line, or the `note_id`s of a dataset in JSON lines."""
    try:
        with path.open(encoding="utf-8") as lines:
            ids = frozenset(_ids(path, lines))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"exclude list {path} cannot be read: {error.__class__.__name__}.") from None
    if not ids:
        raise FormatError(f"exclude list {path} has no ids. Write one id per line, such as mimic3/1234.")
    return ids


def _ids(path: Path, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith("{"):
            try:
                yield str(json.loads(line)["note_id"])
            except (ValueError, KeyError):
                raise FormatError(
                    f"exclude list {path}, line {number}: not a JSON object with a 'note_id'. "
                    "Write one id per line, or give a dataset."
                ) from None
        elif line:
            yield line
