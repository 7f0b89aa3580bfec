"""What a corpus was asked to be."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lmcells.errors import ConfigError, FormatError, InputError, nearest

# What a corpus was asked to be.


SectionStyle = Literal["auto", "paper", "rules", "given", "none"]
SECTION_STYLES: tuple[str, ...] = get_args(SectionStyle)
RESERVED_KINDS = ("section", "document", "category")


def has_stop_words(settings: Mapping[str, Any]) -> bool:
    """Whether a corpus with these settings, as its manifest has them, holds words such as "of" and "the"."""
    return bool(settings.get("stop_words", False))  # not so before there was the choice


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """Everything that decides what a corpus holds, apart from the notes themselves."""

    sections: SectionStyle = "auto"  # "auto": the file's own where it has them, otherwise "rules"
    min_count: int = 10  # a word of the vocabulary is seen more often than this
    min_header_count: int = 10  # a header with an id of its own is seen at least this often
    metadata_columns: tuple[str, ...] = ()  # kinds of metadata beside section, category and document
    header_rules: str | None = None  # fingerprint of the user's own header rules
    stop_words: bool = False  # whether words such as "of" and "the" are read too; the paper leaves them out
    spelled_out: float = 0.0  # share of sections that read a short form as the long form its note defines

    def __post_init__(self) -> None:
        if self.sections not in SECTION_STYLES:
            raise ConfigError(
                f"sections: found {self.sections!r}, allowed: {', '.join(SECTION_STYLES)}."
                f"{nearest(self.sections, SECTION_STYLES)}"
            )
        if self.min_count < 0:
            raise ConfigError(f"min_count: found {self.min_count}, allowed: 0 or more.")
        if self.min_header_count < 1:
            raise ConfigError(f"min_header_count: found {self.min_header_count}, allowed: 1 or more.")
        if not 0 <= self.spelled_out <= 1:
            raise ConfigError(
                f"spelled_out (--spell-out): found {self.spelled_out}, allowed: a share from 0 to 1."
            )
        for column in self.metadata_columns:
            if column in RESERVED_KINDS or not column.replace("_", "").replace("-", "").isalnum():
                raise ConfigError(
                    f"metadata column: found {column!r}, allowed: letters, digits, '_' and '-', and not "
                    f"{', '.join(RESERVED_KINDS)}, which every corpus has. Rename the column."
                )

    @property
    def metadata_kinds(self) -> tuple[str, ...]:
        """The kinds of metadata that belong to a whole document and are read with it."""
        return ("category", *self.metadata_columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as they stand in a manifest."""
        return asdict(self)


# The notes that must stay out of a corpus, such as those a test set was made from.


def read_excluded_ids(path: Path) -> frozenset[str]:
    """Read ids, one a line; or a dataset in JSON lines, whose `note_id` are meant."""
    try:
        with path.open(encoding="utf-8") as lines:
            ids = frozenset(_ids(path, lines))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"exclude list {path} cannot be read: {error.__class__.__name__}.") from None
    if not ids:
        raise FormatError(f"exclude list {path} holds no id. Write one id a line, such as mimic3/1234.")
    return ids


def _ids(path: Path, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith("{"):
            try:
                yield str(json.loads(line)["note_id"])
            except (ValueError, KeyError):
                raise FormatError(
                    f"exclude list {path}, line {number}: not a JSON object with a 'note_id'. "
                    "Write ids one a line, or give a dataset."
                ) from None
        elif line:
            yield line
