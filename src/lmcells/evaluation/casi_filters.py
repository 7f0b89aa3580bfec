"""What the paper leaves out of CASI: one function a filter, in the paper's order.

The first five look at the label as it was annotated; then labels become canonical, and the others look at those.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from lmcells.evaluation.casi_rows import CasiRow
from lmcells.notes.tokens import iterate_tokens, spell

Filter = Callable[[Iterable[CasiRow]], list[CasiRow]]

CODES = frozenset(("C3", "C4", "T1", "T2", "T3", "T4"))
NO_SENSE = ("UNSURED", "MISTAKE", "GENERAL ENGLISH", "NAME")

# Nine senses, two of them in two spellings, that the paper's authors took out: places, and what is no meaning at all.
LISTED_LONG_FORMS = frozenset(
    (
        "type a, type b",
        "american society of anaesthesiologists",
        "american society of anesthesiologists",
        "california",
        "iowa",
        "fairview southdale hospital",
        "los angeles",
        "louisiana",
        "louisiana (geographic location)",
        "physician associates",
        "right",
    )
)

_CORRECTION = re.compile(r":\s*([A-Za-z&]+)\s*$")
_WORD = re.compile(r"\w+")


def drop_nulls(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Rows without a short form, a long form or a text."""
    return [row for row in rows if row.short_form and row.long_form and row.text.strip()]


def drop_codes(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Vertebrae, complement factors and hormones: C3, C4, T1 to T4."""
    return [row for row in rows if row.short_form not in CODES]


def drop_repeated_short_forms(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Long forms that hold the short form as a word: they name a use of it, and expand nothing."""
    return [row for row in rows if row.short_form.lower() not in row.long_form.lower().split()]


def drop_unclear_senses(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """What annotators marked as no sense at all."""
    return [row for row in rows if not any(mark in row.long_form for mark in NO_SENSE)]


def drop_listed_long_forms(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """The authors' list of nine long forms."""
    return [row for row in rows if split_correction(row.long_form)[0].lower() not in LISTED_LONG_FORMS]


def split_correction(long_form: str) -> tuple[str, str | None]:
    """Split "central venous pressure:CVP", a sense that belongs to another short form: the writer's slip."""
    match = _CORRECTION.search(long_form)
    return (long_form[: match.start()].strip(), match[1].upper()) if match else (long_form, None)


def drop_missed_offsets(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Rows whose start is not that of the short form as a word, with a space within two characters after it.

    The end follows from the start, so that the file's two conventions for it do not matter.
    """
    return [row for row in rows if _hits_short_form(row)]


def _hits_short_form(row: CasiRow) -> bool:
    end = row.start + len(row.short_form)
    return (
        row.text.startswith(row.short_form, row.start)
        and not _WORD.match(row.text[row.start - 1 : row.start] if row.start else "")
        and not _WORD.match(row.text, end)
        and " " in row.text[end : end + 2]
    )


def drop_lost_tokens(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Rows whose short form is not a token of its own."""
    return [row for row in rows if _is_token(row)]


def _is_token(row: CasiRow) -> bool:
    word, end = spell(row.short_form), row.start + len(row.short_form)
    return any(token == (word, row.start, end) for token in iterate_tokens(row.text))


def drop_duplicates(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Rows with the long form and the words of an earlier one."""
    first: dict[tuple[str, str], CasiRow] = {}
    for row in rows:
        first.setdefault((row.long_form, " ".join(_WORD.findall(row.text.lower()))), row)
    return list(first.values())


def drop_single_senses(rows: Iterable[CasiRow]) -> list[CasiRow]:
    """Short forms that are left with one sense."""
    rows = list(rows)
    senses: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        senses[row.short_form].add(row.long_form)
    return [row for row in rows if len(senses[row.short_form]) > 1]


def drop_other_short_forms(rows: Iterable[CasiRow], *, short_forms: Collection[str]) -> list[CasiRow]:
    """Short forms that the other dataset does not have."""
    return [row for row in rows if row.short_form in short_forms]


# Name on the command line, title in the table, function.
ANNOTATION_FILTERS: tuple[tuple[str, str, Filter], ...] = (
    ("nulls", "no short form, long form or text", drop_nulls),
    ("codes", "C3, C4, T1 to T4", drop_codes),
    ("repeated-short-forms", "short form is a word of the long form", drop_repeated_short_forms),
    ("unclear-senses", "UNSURED, MISTAKE, GENERAL ENGLISH, NAME", drop_unclear_senses),
    ("listed-long-forms", "the authors' list of nine long forms", drop_listed_long_forms),
)
SENSE_FILTERS: tuple[tuple[str, str, Filter], ...] = (
    ("offsets", "offset misses the short form", drop_missed_offsets),
    ("tokens", "short form is no token", drop_lost_tokens),
    ("duplicates", "duplicate of (long form, context)", drop_duplicates),
    ("single-sense", "short form left with one sense", drop_single_senses),
)
NECESSARY = frozenset(("nulls", "offsets"))  # without these there is no example
OPTIONAL = tuple(name for name, _, _ in ANNOTATION_FILTERS + SENSE_FILTERS if name not in NECESSARY)
