"""The names that long forms get: from any spelling of an annotated sense to the inventory's canonical name.

The authors' `labeled_sf_lf_map.csv` has a row a sense: `sf`, `target_lf_sense` (all spellings, separated by ";") and
`target_label` (the canonical forms, separated by ";", the first one being the name).
"""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from lmcells.errors import FormatError, InputError
from lmcells.expansion import Sense

COLUMNS = ("sf", "target_lf_sense", "target_label")


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
            missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
            if missing:
                raise FormatError(
                    f"canonical forms {path}: no column {missing[0]!r}. Needed: {', '.join(COLUMNS)}."
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
