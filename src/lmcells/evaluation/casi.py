"""CASI, the Clinical Abbreviation Sense Inventory -> a dataset: the rows that pass the paper's filters.

Published: `AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt`, seven columns between pipes, no quotes, no header,
Windows-1252 bytes here and there, and now and then a pipe inside the last column. Re-saved by the authors of the
paper: a comma CSV with a header and, in a first column without a name, the row's position in the published file.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from lmcells.errors import ConfigError, FormatError, InputError, nearest
from lmcells.evaluation.dataset import Example
from lmcells.expansion import Sense, SenseInventory
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.records import open_utf8
from lmcells.notes.sections import upper_name
from lmcells.notes.tokens import iterate_tokens, spell

COLUMNS = ("sf", "target_lf", "sf_rep", "start_idx", "end_idx", "section", "context")
CANONICAL_COLUMNS = ("sf", "target_lf_sense", "target_label")
_ENCODINGS = ("utf-8", "cp1252", "latin-1")  # the last one accepts any byte
_EXPECTED = (
    f"Expected CASI as published, {len(COLUMNS)} columns between '|', or a CSV with the columns "
    f"{', '.join(COLUMNS)}."
)


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


Line = tuple[int, str]  # its number in the file, from 1, and its content
Cells = tuple[
    int, int, list[str]
]  # the line in the file, the row's number, its cells in the order of `COLUMNS`


def read_casi_rows(path: Path, *, report: ReadReport) -> Iterator[CasiRow]:
    """Stream the rows; broken ones are skipped and counted with their line and reason."""
    with open_utf8(path) as file:
        lines = _decoded(file, report, path)
        first = next(lines, None)
        if first is None:
            raise FormatError(f"{path} holds no row. {_EXPECTED}")
        is_published = first[1].count("|") >= len(COLUMNS) - 1
        lines = chain((first,), lines)
        for line, number, cells in _published_cells(lines) if is_published else _resaved_cells(lines, path):
            if len(cells) < len(COLUMNS):
                report.skip(f"fewer than {len(COLUMNS)} columns", line, path=path)
                continue
            short_form, long_form, _, start, end, section, text = cells
            if not (start.strip().isdecimal() and end.strip().isdecimal()):
                report.skip("an offset is not a whole number", line, path=path)
                continue
            report.n_read += 1
            long_form, section = " ".join(long_form.split()), " ".join(section.split())
            yield CasiRow(number, short_form.strip(), long_form, int(start), int(end), section or None, text)


def _decoded(lines: Iterable[bytes], report: ReadReport, path: Path) -> Iterator[Line]:
    """Decode line by line, and leave blank ones out. One stray byte must not shift the offsets of other lines."""
    for number, content in enumerate(lines, start=1):
        for encoding in _ENCODINGS:
            try:
                line = content.decode(encoding)
            except UnicodeDecodeError:
                continue
            if encoding != _ENCODINGS[0]:
                report.warn(f"not UTF-8: read as {encoding}", number, path=path)
            if not line.isspace():
                yield number, line
            break


def _published_cells(lines: Iterator[Line]) -> Iterator[Cells]:
    n_headers = 0
    for row, (line, content) in enumerate(lines):
        cells = content.rstrip("\r\n").split("|", len(COLUMNS) - 1)
        if row == 0 and cells[0].strip().lower() == COLUMNS[0]:
            n_headers = 1
        else:
            yield line, line - n_headers, cells


def _resaved_cells(lines: Iterator[Line], path: Path) -> Iterator[Cells]:
    reader = csv.reader(content for _, content in lines)
    header = [name.strip().lower() for name in next(reader)]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise FormatError(f"{path} has no column {missing[0]!r}. {_EXPECTED}")
    columns = [header.index(name) for name in COLUMNS]
    index = header.index("") if "" in header else None
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = []
        number = reader.line_num - 1
        if index is not None and index < len(cells) and cells[index].isdecimal():
            number = int(cells[index]) + 1  # the position counts from 0
        is_complete = len(cells) > max(columns)
        yield reader.line_num, number, [cells[column] for column in columns] if is_complete else []


@dataclass(slots=True)
class CanonicalForms:
    """From any spelling of an annotated sense to the inventory's canonical name."""

    _senses: dict[tuple[str, str], Sense] = field(default_factory=dict)  # by short form and name
    _by_spelling: dict[tuple[str, str], str] = field(default_factory=dict)
    _by_form: dict[tuple[str, str], str] = field(default_factory=dict)  # weaker: two senses may share a form

    @property
    def senses(self) -> tuple[Sense, ...]:
        return tuple(self._senses.values())

    def find(self, short_form: str, long_form: str) -> Sense | None:
        """Return the sense that this long form spells, or None."""
        key = short_form, _key(long_form)
        name = self._by_spelling.get(key) or self._by_form.get(key)
        return self._senses[short_form, name] if name else None

    def add(self, short_form: str, *, spellings: list[str], forms: list[str]) -> None:
        """Add a sense named after its first form; a known name gains the spellings and forms."""
        name = _key(forms[0])
        known = self._senses.get((short_form, name)) or Sense(short_form, forms[0], (forms[0],))
        self._senses[short_form, name] = replace(known, forms=(*known.forms, *forms))
        for spelling in spellings:
            self._by_spelling.setdefault((short_form, _key(spelling)), name)
        for form in forms:
            self._by_form.setdefault((short_form, _key(form)), name)


def load_canonical_forms(path: Path) -> CanonicalForms:
    """Read the authors' `labeled_sf_lf_map.csv`, one row per sense, or a file like it.

    The columns are `sf`, `target_lf_sense` (all spellings, separated by ";") and `target_label` (the canonical forms,
    separated by ";", the first one being the name).
    """
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


# The paper's filters. Nine senses, two of them in two spellings, that its authors took out: places, and what is no
# meaning at all.
LISTED_LONG_FORMS = frozenset(
    "type a, type b|american society of anaesthesiologists|american society of anesthesiologists|california|iowa|"
    "fairview southdale hospital|los angeles|louisiana|louisiana (geographic location)|physician associates|"
    "right".split("|")
)
CODES = frozenset(("C3", "C4", "T1", "T2", "T3", "T4"))  # vertebrae, complement factors and hormones
NO_SENSE = ("UNSURED", "MISTAKE", "GENERAL ENGLISH", "NAME")  # what annotators wrote instead of a sense

_CORRECTION = re.compile(r":\s*([A-Za-z&]+)\s*$")
_WORD = re.compile(r"\w+")


def split_correction(long_form: str) -> tuple[str, str | None]:
    """Split "central venous pressure:CVP", a sense of another short form: the writer's slip."""
    match = _CORRECTION.search(long_form)
    return (long_form[: match.start()].strip(), match[1].upper()) if match else (long_form, None)


def _hits_short_form(row: CasiRow) -> bool:
    """Whether the row's start is that of the short form as a word, with a space within two characters after it.

    The end follows from the start, so that the file's two conventions for it do not matter.
    """
    end = row.start + len(row.short_form)
    return (
        row.text.startswith(row.short_form, row.start)
        and not _WORD.match(row.text[row.start - 1 : row.start] if row.start else "")
        and not _WORD.match(row.text, end)
        and " " in row.text[end : end + 2]
    )


def _is_token(row: CasiRow) -> bool:
    word, end = spell(row.short_form), row.start + len(row.short_form)
    return any(token == (word, row.start, end) for token in iterate_tokens(row.text))


def _without_duplicates(rows: list[CasiRow]) -> list[CasiRow]:
    """Without rows that have the long form and the words of an earlier one."""
    first: dict[tuple[str, str], CasiRow] = {}
    for row in rows:
        first.setdefault((row.long_form, " ".join(_WORD.findall(row.text.lower()))), row)
    return list(first.values())


def _without_single_senses(rows: list[CasiRow]) -> list[CasiRow]:
    senses: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        senses[row.short_form].add(row.long_form)
    return [row for row in rows if len(senses[row.short_form]) > 1]


Filter = Callable[[list[CasiRow]], list[CasiRow]]


def _rows_where(keep: Callable[[CasiRow], object]) -> Filter:
    return lambda rows: [row for row in rows if keep(row)]


# By name on the command line, in the paper's order: title in the table, and what does it. The first five look at the
# label as it was annotated; then labels become canonical, and the others look at those.
ANNOTATION_FILTERS: dict[str, tuple[str, Filter]] = {
    "nulls": (
        "no short form, long form or text",
        _rows_where(lambda row: row.short_form and row.long_form and row.text.strip()),
    ),
    "codes": ("C3, C4, T1 to T4", _rows_where(lambda row: row.short_form not in CODES)),
    "repeated-short-forms": (  # such a long form names a use of the short form, and expands nothing
        "short form is a word of the long form",
        _rows_where(lambda row: row.short_form.lower() not in row.long_form.lower().split()),
    ),
    "unclear-senses": (
        "UNSURED, MISTAKE, GENERAL ENGLISH, NAME",
        _rows_where(lambda row: not any(mark in row.long_form for mark in NO_SENSE)),
    ),
    "listed-long-forms": (
        "the authors' list of nine long forms",
        _rows_where(lambda row: split_correction(row.long_form)[0].lower() not in LISTED_LONG_FORMS),
    ),
}
SENSE_FILTERS: dict[str, tuple[str, Filter]] = {
    "offsets": ("offset misses the short form", _rows_where(_hits_short_form)),
    "tokens": ("short form is no token", _rows_where(_is_token)),
    "duplicates": ("duplicate of (long form, context)", _without_duplicates),
    "single-sense": ("short form left with one sense", _without_single_senses),
}
OPTIONAL = tuple(  # without the two others there is no example
    name for name in (*ANNOTATION_FILTERS, *SENSE_FILTERS) if name not in ("nulls", "offsets")
)


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

    def apply(filters: Mapping[str, tuple[str, Filter]]) -> None:
        nonlocal rows
        for name, (title, keep) in filters.items():
            if name not in skip:
                left = keep(rows)
                steps.append(Step(name, title, len(rows) - len(left), len(left)))
                rows = left

    apply(ANNOTATION_FILTERS)
    senses = _name_senses(rows, canonical_forms)
    rows = [replace(row, long_form=sense.long_form) for row, sense in zip(rows, senses, strict=True)]
    apply(SENSE_FILTERS)
    if match_short_forms is not None:
        if rows and not any(row.short_form in match_short_forms for row in rows):
            raise InputError(
                f"none of the {len(match_short_forms)} short forms to match is in {path}. Check --match-short-forms."
            )
        matches = _rows_where(lambda row: row.short_form in match_short_forms)
        apply({"match-short-forms": ("short form not in the other dataset", matches)})
    used = {(row.short_form, row.long_form) for row in rows}
    sense_of = {(sense.short_form, sense.long_form): sense for sense in senses}
    sections: Counter[str] = Counter()
    targets = {upper_name(header): target for header, target in (section_map or {}).items()}
    conventions = {-1: "inclusive", 0: "exclusive"}
    return CasiDataset(
        examples=[_example(row, targets, sections) for row in rows],
        inventory=SenseInventory.from_senses(sense_of[key] for key in sorted(used)),
        n_rows=n_rows,
        steps=tuple(steps),
        end_offsets=Counter(
            conventions.get(row.end - row.start - len(row.short_form), "neither") for row in rows
        ),
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
