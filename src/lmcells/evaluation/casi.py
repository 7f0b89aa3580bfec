"""CASI -> a dataset: the rows that pass the paper's filters, with canonical names and mapped sections."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from lmcells.errors import ConfigError, FormatError, InputError, nearest
from lmcells.evaluation.dataset import Example
from lmcells.expansion import Sense, SenseInventory
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.records import open_utf8
from lmcells.notes.sections import upper_name
from lmcells.notes.tokens import iterate_tokens, spell

# The names that long forms get: from any spelling of an annotated sense to the inventory's canonical name.
#
# The authors' `labeled_sf_lf_map.csv` has a row a sense: `sf`, `target_lf_sense` (all spellings, separated by ";") and
# `target_label` (the canonical forms, separated by ";", the first one being the name).


CANONICAL_COLUMNS = ("sf", "target_lf_sense", "target_label")


@dataclass(slots=True)
class CanonicalForms:
    """Senses by short form and name, and the name that each spelling belongs to."""

    _senses: dict[tuple[str, str], Sense] = field(default_factory=dict)
    _by_spelling: dict[tuple[str, str], str] = field(default_factory=dict)
    _by_form: dict[tuple[str, str], str] = field(default_factory=dict)  # weaker: two senses may share a form

    @property
    def senses(self) -> tuple[Sense, ...]:
        return tuple(self._senses.values())

    def find(self, short_form: str, long_form: str) -> Sense | None:
        """Return the sense that this long form spells, or None."""
        place = short_form, _key(long_form)
        name = self._by_spelling.get(place) or self._by_form.get(place)
        return self._senses[short_form, name] if name else None

    def add(self, short_form: str, *, spellings: list[str], forms: list[str]) -> None:
        """Add a sense named after its first form; a name that is there already gains spellings and forms."""
        name = _key(forms[0])
        known = self._senses.get((short_form, name))
        self._senses[short_form, name] = Sense(
            short_form, known.long_form if known else forms[0], (*(known.forms if known else ()), *forms)
        )
        for spelling in spellings:
            self._by_spelling.setdefault((short_form, _key(spelling)), name)
        for form in forms:
            self._by_form.setdefault((short_form, _key(form)), name)


def load_canonical_forms(path: Path) -> CanonicalForms:
    """Read the map of the authors, or one like it."""
    canonical = CanonicalForms()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = [column for column in CANONICAL_COLUMNS if column not in (rows.fieldnames or ())]
            if missing:
                raise FormatError(
                    f"canonical forms {path}: no column {missing[0]!r}. Needed: {', '.join(CANONICAL_COLUMNS)}."
                )
            for row in rows:
                short_form = (row["sf"] or "").strip()
                forms = [form.strip() for form in (row["target_label"] or "").split(";") if form.strip()]
                if not short_form or not forms:
                    raise FormatError(
                        f"canonical forms {path}, line {rows.line_num}: 'sf' or 'target_label' is empty. "
                        "Fill both, or remove the line."
                    )
                sense = row["target_lf_sense"] or ""
                canonical.add(short_form, spellings=[sense, *sense.split(";")], forms=forms)
    except OSError as error:
        raise InputError(f"canonical forms {path} cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"canonical forms {path}: not CSV in UTF-8. Save it as such.") from error
    return canonical


def _key(long_form: str) -> str:
    return " ".join(long_form.casefold().split())


# The rows of CASI, the Clinical Abbreviation Sense Inventory, from the file as published or from a CSV re-save.
#
# Published: `AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt`, seven columns between pipes, no quotes, no header,
# Windows-1252 bytes here and there, and now and then a pipe inside the last column. Re-saved by the authors of the
# paper: a comma CSV with a header and, in a first column without a name, the row's position in the published file.


COLUMNS = ("sf", "target_lf", "sf_rep", "start_idx", "end_idx", "section", "context")
_N_COLUMNS = len(COLUMNS)
_ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one accepts any byte


@dataclass(frozen=True, slots=True)
class CasiRow:
    """One annotated short form."""

    number: int  # of its line in the published file
    short_form: str
    long_form: str
    start: int
    end: int  # of the last character or of the one after it: the file has both
    section: str | None
    text: str = field(repr=False)


class _Line(NamedTuple):
    """A row's cells in the order of `COLUMNS`, and where it was read."""

    line: int
    number: int
    cells: list[str]


def read_casi_rows(path: Path, *, report: ReadReport) -> Iterator[CasiRow]:
    """Stream the rows; one that is not a row is counted with its line and reason."""
    with open_utf8(path) as file:
        warn = partial(report.warn, path=path)
        lines = _numbered(_decoded(file, warn))
        first = next(lines, None)
        if first is None:
            raise FormatError(f"{path} holds no row. {_expected()}")
        read_lines = _published_lines if first[1].count("|") >= _N_COLUMNS - 1 else _resaved_lines
        for row in read_lines(first, lines, path):
            try:
                casi_row = _row(row)
            except _NotARow as reason:
                report.skip(str(reason), row.line, path=path)
                continue
            report.n_read += 1
            yield casi_row


def _decoded(lines: Iterable[bytes], warn: Callable[[str, int], None]) -> Iterator[str]:
    """Decode line by line: one stray byte must not spoil the others, whose offsets count characters."""
    for number, content in enumerate(lines, start=1):
        for encoding in _ENCODINGS:
            try:
                line = content.decode(encoding)
            except UnicodeDecodeError:
                continue
            if encoding != _ENCODINGS[0]:
                warn(f"not UTF-8: read as {encoding}", number)
            yield line
            break


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if not line.isspace())


class _NotARow(Exception):  # noqa: N818 - the reason why a line is skipped, not a failure
    pass


def _row(found: _Line) -> CasiRow:
    if len(found.cells) < _N_COLUMNS:
        raise _NotARow(f"fewer than {_N_COLUMNS} columns")
    short_form, long_form, _, start, end, section, text = found.cells
    if not (start.strip().isdecimal() and end.strip().isdecimal()):
        raise _NotARow("an offset is not a whole number")
    return CasiRow(
        found.number,
        short_form.strip(),
        " ".join(long_form.split()),
        int(start),
        int(end),
        " ".join(section.split()) or None,
        text,
    )


def _published_lines(first: tuple[int, str], rest: Iterator[tuple[int, str]], path: Path) -> Iterator[_Line]:
    del path  # every line stands for itself: nothing can be wrong with the file as a whole
    has_header = first[1].partition("|")[0].strip().lower() == COLUMNS[0]
    for line, content in rest if has_header else chain((first,), rest):
        yield _Line(line, line - has_header, content.rstrip("\r\n").split("|", _N_COLUMNS - 1))


def _resaved_lines(first: tuple[int, str], rest: Iterator[tuple[int, str]], path: Path) -> Iterator[_Line]:
    reader = csv.reader(content for _, content in chain((first,), rest))
    header = [name.strip().lower() for name in next(reader)]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise FormatError(f"{path} has no column {missing[0]!r}. {_expected()}")
    places = [header.index(name) for name in COLUMNS]
    index = header.index("") if "" in header else None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield _Line(reader.line_num, 0, [])
            continue
        number = reader.line_num - 1
        if index is not None and index < len(cells) and cells[index].isdecimal():
            number = int(cells[index]) + 1  # the position counts from 0
        complete = len(cells) > max(places)
        yield _Line(reader.line_num, number, [cells[place] for place in places] if complete else [])


def _expected() -> str:
    return (
        f"Expected CASI as published, {_N_COLUMNS} columns between '|', or a CSV with the columns "
        f"{', '.join(COLUMNS)}."
    )


# What the paper leaves out of CASI: one function a filter, in the paper's order.
#
# The first five look at the label as it was annotated; then labels become canonical, and the others look at those.


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


# CASI -> a dataset: the rows that pass the paper's filters, with canonical names and mapped sections.


MATCH_TITLE = "short form not in the other dataset"


@dataclass(frozen=True, slots=True)
class Step:
    """A filter, and what it did."""

    name: str
    title: str
    n_removed: int
    n_left: int


@dataclass(frozen=True, slots=True)
class CasiDataset:
    """The examples, and the account of how they came about."""

    examples: list[Example]
    inventory: SenseInventory  # of the senses that occur
    n_rows: int
    steps: tuple[Step, ...]
    end_offsets: Counter[str]  # which convention the rows follow that hit their short form
    sections: Counter[str]
    n_without_canonical_form: int


def build_casi_dataset(
    path: Path,
    *,
    canonical_forms: CanonicalForms | None = None,
    section_map: Mapping[str, str | None] | None = None,
    match_short_forms: Collection[str] | None = None,
    skip: Collection[str] = (),
    report: ReadReport,
) -> CasiDataset:
    """Read CASI and apply the paper's filters in order, except those named in `skip`."""
    for name in skip:
        if name not in OPTIONAL:
            raise ConfigError(
                f"filter to skip: found {name!r}, allowed: {', '.join(OPTIONAL)}.{nearest(name, OPTIONAL)}"
            )
    rows = list(read_casi_rows(path, report=report))
    n_rows, steps = len(rows), []

    def apply(filters: tuple[tuple[str, str, Filter], ...], rows: list[CasiRow]) -> list[CasiRow]:
        for name, title, drop in filters:
            if name not in skip:
                left = drop(rows)
                steps.append(Step(name, title, len(rows) - len(left), len(left)))
                rows = left
        return rows

    rows = apply(ANNOTATION_FILTERS, rows)
    senses = _name_senses(rows, canonical_forms)
    rows = [replace(row, long_form=sense.long_form) for row, sense in zip(rows, senses, strict=True)]
    rows = apply(SENSE_FILTERS, rows)
    if match_short_forms is not None:
        if rows and not any(row.short_form in match_short_forms for row in rows):
            raise InputError(
                f"none of the {len(match_short_forms)} short forms to match is in {path}. Check --match-short-forms."
            )
        drop = partial(drop_other_short_forms, short_forms=match_short_forms)
        rows = apply((("match-short-forms", MATCH_TITLE, drop),), rows)
    used = {(row.short_form, row.long_form) for row in rows}
    kept = {(sense.short_form, sense.long_form): sense for sense in senses}
    sections: Counter[str] = Counter()
    targets = {upper_name(header): target for header, target in (section_map or {}).items()}
    return CasiDataset(
        examples=[_example(row, targets, sections) for row in rows],
        inventory=SenseInventory.from_senses(kept[key] for key in sorted(used)),
        n_rows=n_rows,
        steps=tuple(steps),
        end_offsets=Counter(map(_end_convention, rows)),
        sections=sections,
        n_without_canonical_form=sum(
            canonical_forms is not None and canonical_forms.find(row.short_form, row.long_form) is None
            for row in rows
        ),
    )


def _name_senses(rows: list[CasiRow], canonical_forms: CanonicalForms | None) -> list[Sense]:
    """Give every row its sense; spellings that differ in case alone are one sense, named as it was first written."""
    senses: list[Sense] = []
    as_written: dict[tuple[str, str], Sense] = {}
    for row in rows:
        long_form, corrected = split_correction(row.long_form)
        sense = None
        if canonical_forms is not None:
            sense = canonical_forms.find(row.short_form, long_form)
            if sense is None and corrected is not None:
                belongs_to = canonical_forms.find(corrected, long_form)
                sense = belongs_to and replace(belongs_to, short_form=row.short_form)
        if sense is None:
            key = row.short_form, long_form.casefold()
            sense = as_written.setdefault(key, Sense(row.short_form, long_form))
        senses.append(sense)
    return senses


def _example(row: CasiRow, targets: Mapping[str, str | None], sections: Counter[str]) -> Example:
    section = row.section
    if section is None:
        sections["no section"] += 1
    elif upper_name(section) in targets:
        section = targets[upper_name(section)]
        sections["mapped" if section else "mapped to none"] += 1
    else:
        sections["as written"] += 1
    return Example(
        id=f"casi/{row.number}",
        text=row.text,
        start=row.start,
        end=row.start + len(row.short_form),
        short_form=row.short_form,
        section=section,
        long_form=row.long_form,
        note_id=f"casi/{row.number}",
    )


def _end_convention(row: CasiRow) -> str:
    beyond = row.end - row.start - len(row.short_form)
    return {-1: "inclusive", 0: "exclusive"}.get(beyond, "neither")
