"""CASI -> a dataset: the rows that pass the paper's filters, with canonical names and mapped sections."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lmcells.errors import ConfigError, InputError, nearest
from lmcells.evaluation import casi_filters
from lmcells.evaluation.canonical_forms import CanonicalForms
from lmcells.evaluation.casi_filters import (
    ANNOTATION_FILTERS,
    OPTIONAL,
    SENSE_FILTERS,
    Filter,
    split_correction,
)
from lmcells.evaluation.casi_rows import CasiRow, read_casi_rows
from lmcells.evaluation.dataset import Example
from lmcells.expansion import Sense, SenseInventory
from lmcells.notes.readers import ReadReport
from lmcells.notes.sections import upper_name

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
        drop = partial(casi_filters.drop_other_short_forms, short_forms=match_short_forms)
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
