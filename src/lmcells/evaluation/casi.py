"""CASI, the Clinical Abbreviation Sense Inventory -> a dataset: the rows that pass the paper's filters.

Published: `AnonymizedClinicalAbbreviationsAndAcronymsDataSet.txt`, seven columns separated by pipes, no quotes, no
header, a few Windows-1252 bytes, and sometimes a pipe inside the last column. Re-saved by the authors of the paper: a
comma CSV with a header and, in a first column without a name, the row's position in the published file.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from lmcells.errors import ConfigError, FormatError, InputError, nearest
from lmcells.evaluation.dataset import Example, load_section_map, map_section, read_dataset, reading
from lmcells.expansion import Sense, SenseInventory
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.opening import open_utf8
from lmcells.notes.tokens import STOP_WORDS, iterate_tokens, spell

COLUMNS = ("sf", "target_lf", "sf_rep", "start_idx", "end_idx", "section", "context")
CANONICAL_COLUMNS = ("sf", "target_lf_sense", "target_label")
_EXPECTED = (
    f"Expected CASI as published, {len(COLUMNS)} columns separated by '|', or a CSV with the columns "
    f"{', '.join(COLUMNS)}."
)


Line = tuple[int, str]  # its number in the file, from 1, and its content
Cells = tuple[int, int, list[str]]  # line in the file, number of the row, cells in the order of `COLUMNS`


def read_casi_rows(path: Path, *, report: ReadReport) -> Iterator[Example]:
    """Stream the rows; broken ones are skipped and counted with their line and reason.

    The id of a row is its line in the published file. Its end is that of the last character or of the one after it: the
    file has both.
    """
    with open_utf8(path) as file:
        lines = _decoded(file, report, path)
        beginning = list(islice(lines, 2))
        if not beginning:
            raise FormatError(f"{path} has no rows. {_EXPECTED}")
        first = beginning[0][1]
        if len(beginning) == 1 and "\r" in first.rstrip("\r\n"):
            raise FormatError(
                f"{path} is one line with carriage returns. Save it with line ends of Unix or Windows."
            )
        is_published = first.count("|") >= len(COLUMNS) - 1
        lines = chain(beginning, lines)
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
            id_, labels = f"casi/{number}", (short_form.strip(), section or None, long_form)
            yield Example(id_, text, int(start), int(end), *labels, note_id=id_)
    if not report.n_read:
        why = next(iter(report.skipped), "only a header")
        raise FormatError(f"{path}: no row can be read ({why}). {_EXPECTED}")


def _decoded(lines: Iterable[bytes], report: ReadReport, path: Path) -> Iterator[Line]:
    """Decode line by line, without blank lines. One stray byte must not shift the offsets of other lines."""
    for number, content in enumerate(lines, start=1):
        for encoding in ("utf-8", "cp1252", "latin-1"):  # the last one accepts any byte
            with suppress(UnicodeDecodeError):
                line = content.decode(encoding)
                break
        if encoding != "utf-8":
            report.warn(f"not UTF-8: read as {encoding}", number, path=path)
        if not line.isspace():
            yield number, line


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
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = []
        row = dict(zip(header, cells, strict=False))
        position = row.get("", "")  # in the published file, from 0
        number = int(position) + 1 if position.isdecimal() else reader.line_num - 1
        yield reader.line_num, number, [row[name] for name in COLUMNS if name in row]


# Short form, any spelling of a sense (as `_key`) -> the sense.
CanonicalForms = Mapping[tuple[str, str], Sense]


def load_canonical_forms(path: Path) -> CanonicalForms:
    """Read the authors' `labeled_sf_lf_map.csv`, one row per sense, or a file like it.

    The columns are `sf`, `target_lf_sense` (all spellings, separated by ";") and `target_label` (the canonical forms,
    separated by ";", the first one being the name). Rows of one name are one sense. A spelling says more than a form,
    which two senses may share.
    """
    forms_of: dict[tuple[str, str], list[str]] = {}  # by short form and name
    by_spelling: dict[tuple[str, str], tuple[str, str]] = {}
    by_form: dict[tuple[str, str], tuple[str, str]] = {}
    with reading(path, "canonical forms") as text:
        rows = csv.DictReader(StringIO(text, newline=""))
        missing = [column for column in CANONICAL_COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            needed = ", ".join(CANONICAL_COLUMNS)
            raise FormatError(f"canonical forms {path}: no column {missing[0]!r}. Needed: {needed}.")
        for row in rows:
            short_form, sense, label = ((row[column] or "").strip() for column in CANONICAL_COLUMNS)
            forms = [form.strip() for form in label.split(";") if form.strip()]
            if not short_form or not forms:
                what = f"canonical forms {path}, line {rows.line_num}: 'sf' or 'target_label' is empty"
                raise FormatError(f"{what}. Fill both, or remove the line.")
            name = short_form, _key(forms[0])
            forms_of.setdefault(name, []).extend(forms)
            for names, written in ((by_spelling, [sense, *sense.split(";")]), (by_form, forms)):
                for each in written:
                    names.setdefault((short_form, _key(each)), name)
    senses = {name: Sense(name[0], forms[0], tuple(forms)) for name, forms in forms_of.items()}
    return {key: senses[name] for key, name in (by_form | by_spelling).items()}


def _key(long_form: str) -> str:
    return " ".join(long_form.casefold().split())


# The paper's filters. Nine senses, two of them in two spellings, that its authors removed: places, and labels that are
# not meanings.
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
    """Split "central venous pressure:CVP", a sense of another short form: the writer made a mistake."""
    match = _CORRECTION.search(long_form)
    return (long_form[: match.start()].strip(), match[1].upper()) if match else (long_form, None)


def _hits_short_form(row: Example) -> object:
    """Whether the row's start is that of the short form as a word, with a space within two characters after it.

    The end follows from the start, so that the file's two conventions for it do not matter.
    """
    word = re.compile(rf"(?<!\w){re.escape(row.short_form)}(?!\w)(?=.? )", re.DOTALL)
    return word.match(row.text, row.start)


def _is_token(row: Example) -> bool:
    word, end = spell(row.short_form), row.start + len(row.short_form)
    return any(token == (word, row.start, end) for token in iterate_tokens(row.text))


Filter = Callable[[list[Example]], list[Example]]


def _where(keep: Callable[[Example], object]) -> Filter:
    return lambda rows: [row for row in rows if keep(row)]


def _without_duplicates(rows: list[Example]) -> list[Example]:
    """Drop rows with the same long form and words as an earlier row; stop words and numbers do not count."""
    first: dict[tuple[str, ...], Example] = {}
    for row in rows:
        words = _WORD.findall(row.text.lower())
        counting = (word for word in words if not word.isdigit() and word not in STOP_WORDS)
        first.setdefault((row.long_form, *counting), row)
    return list(first.values())


def _without_single_senses(rows: list[Example]) -> list[Example]:
    n_senses = Counter(short_form for short_form, _ in {(row.short_form, row.long_form) for row in rows})
    return [row for row in rows if n_senses[row.short_form] > 1]


# By name on the command line, in the paper's order: title in the table, and the filter. All but the last read the label
# as annotated; the last reads canonical labels.
FILTERS: dict[str, tuple[str, Filter]] = {
    "nulls": (
        "no short form, long form or text",
        _where(lambda row: row.short_form and row.long_form and row.text.strip()),
    ),
    "codes": ("C3, C4, T1 to T4", _where(lambda row: row.short_form not in CODES)),
    "repeated-short-forms": (  # such a label names a use of the short form rather than a long form
        "short form is a word of the long form",
        _where(lambda row: row.short_form.lower() not in row.long_form.lower().split()),
    ),
    "unclear-senses": (
        "UNSURED, MISTAKE, GENERAL ENGLISH, NAME",
        _where(lambda row: not any(mark in row.long_form for mark in NO_SENSE)),
    ),
    "listed-long-forms": (
        "the authors' list of nine long forms",
        _where(lambda row: split_correction(row.long_form)[0].lower() not in LISTED_LONG_FORMS),
    ),
    "offsets": ("offset misses the short form", _where(_hits_short_form)),
    "tokens": ("short form is no token", _where(_is_token)),
    "duplicates": ("duplicate of (long form, context)", _without_duplicates),
    "single-sense": ("short form left with one sense", _without_single_senses),
}
OPTIONAL = tuple(name for name in FILTERS if name not in ("nulls", "offsets"))  # those two make an example


class CasiDataset(NamedTuple):
    """The examples, the senses that occur, and how many rows each filter removed, for JSON."""

    examples: list[Example]
    inventory: SenseInventory
    account: dict[str, Any]


def build_casi_dataset(
    path: Path,
    *,
    canonical_forms: Path | None = None,
    section_map: Path | None = None,
    match_short_forms: Path | None = None,
    skip: Collection[str] = (),
) -> CasiDataset:
    """Apply the paper's filters, except those in `skip`; keep only short forms of `match_short_forms`, a dataset."""
    for name in skip:
        if name not in OPTIONAL:
            allowed = f"{', '.join(OPTIONAL)}.{nearest(name, OPTIONAL)}"
            raise ConfigError(f"filter to skip: found {name!r}, allowed: {allowed}")
    filters = dict(FILTERS)
    matched: set[str] = set()
    if match_short_forms is not None:
        matched = {each.short_form for each in read_dataset(match_short_forms, report=ReadReport())}
        matches = _where(lambda row: row.short_form in matched)
        filters["match-short-forms"] = "short form not in the other dataset", matches
    canonical = load_canonical_forms(canonical_forms) if canonical_forms else {}
    targets = load_section_map(section_map) if section_map else {}
    report = ReadReport()
    rows = list(read_casi_rows(path, report=report))
    n_rows, steps = len(rows), []
    sense_of: dict[tuple[str, str], Sense] = {}
    for name, (title, keep) in filters.items():
        if name == "single-sense":
            rows, sense_of = _name_senses(rows, canonical)
        if name in skip:
            continue
        left = keep(rows)
        if name == "match-short-forms" and rows and not left:
            what = f"none of the {len(matched)} short forms to match is in {path}"
            raise InputError(f"{what}. Check --match-short-forms.")
        steps.append({"name": name, "removed": len(rows) - len(left), "left": len(left), "title": title})
        rows = left
    used = sorted({(row.short_form, row.long_form) for row in rows})
    inventory = SenseInventory.from_senses(sense_of[key] for key in used)
    conventions = {-1: "inclusive", 0: "exclusive"}
    end_offsets = (conventions.get(row.end - row.start - len(row.short_form), "neither") for row in rows)
    without = [row for row in rows if (row.short_form, _key(row.long_form)) not in canonical]
    sections = [map_section(row.section, targets) for row in rows]
    examples = [
        replace(row, end=row.start + len(row.short_form), section=section)
        for row, (section, _) in zip(rows, sections, strict=True)
    ]
    account = {
        "n_rows": n_rows,
        "n_examples": len(rows),
        "n_short_forms": len(inventory),
        "n_senses": inventory.n_senses,
        "steps": steps,
        "end_offsets": dict(Counter(end_offsets)),
        "sections": dict(Counter(how for _, how in sections)),
        "n_without_canonical_form": len(without) if canonical else 0,
        "report": report.to_dict(),
    }
    return CasiDataset(examples, inventory, account)


def _name_senses(
    rows: list[Example], canonical: CanonicalForms
) -> tuple[list[Example], dict[tuple[str, str], Sense]]:
    """Give every row the name of its sense; return the rows, and the senses by short form and name.

    Spellings that differ only in case are one sense, named by the first spelling.
    """
    named: list[Example] = []
    senses: dict[tuple[str, str], Sense] = {}
    as_written: dict[tuple[str, str], Sense] = {}
    for row in rows:
        long_form, corrected = split_correction(row.long_form)
        sense = canonical.get((row.short_form, _key(long_form)))
        if sense is None and corrected is not None:
            belongs_to = canonical.get((corrected, _key(long_form)))
            sense = belongs_to and replace(belongs_to, short_form=row.short_form)
        if sense is None:
            key = row.short_form, long_form.casefold()
            sense = as_written.setdefault(key, Sense(row.short_form, long_form))
        named.append(replace(row, long_form=sense.long_form))
        senses[row.short_form, sense.long_form] = sense
    return named, senses
