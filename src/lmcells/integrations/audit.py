"""Auditing notes: what the inventory and the section rules lack for them, with counts and proposals.

report = audit(NoteFiles([Path("notes/")]), Path("audit"))

The folder then has `audit.html`, tables to read (`unknown_short_forms.csv`, `unsure_short_forms.csv`, `sections.csv`),
and two files to edit and use: `site_inventory.csv` (`--inventory`) and `header_rules.json` (`--header-rules`). They
contain text from the notes, so only their owner can read them.

Notes are counted in shards, as in `annotate`, which are kept in `audit.parts/` until the end. Beyond `_MOST_KEPT`
distinct items the rarest are dropped, so memory is bounded.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError, InputError
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.inventory import SenseInventory, SenseLookup, plain_short_form
from lmcells.expansion.inventory_mining import DefinitionCounts
from lmcells.expansion.ordinary_words import NAMES, NOT_SHORTHAND
from lmcells.expansion.settings import ExpanderSettings
from lmcells.files import atomic_write
from lmcells.integrations.annotate import OnProgress, Progress, ShardJob
from lmcells.integrations.rows import NoteFiles, csv_text
from lmcells.integrations.shards import SHARD_NOTES, Task, find_engine, shared_expander
from lmcells.notes.note import Note, Section
from lmcells.notes.readers import ReadReport
from lmcells.notes.section_styles import section_finder
from lmcells.notes.sections import find_alias, load_aliases, upper_name
from lmcells.notes.tokens import MARK, is_in_capitals

UNSURE = 0.7  # an answer below this probability is unsure
_MOST_KEPT = 200_000
_AROUND = 50  # characters of an example on either side
_LEAST_SHARE = 0.8  # of a short form's occurrences with the same reading by letters, to propose it
_N_SHOWN = 300  # rows of a table on the page

# What looks like a short form: two capitals or more, or only consonants. Longer words in capitals are emphasised words.
_SHAPE = re.compile(
    r"(?<![\w'’&/.@-])(?:[A-Z](?:[A-Za-z]{0,4}[A-Z])[a-z]?\d?|[bcdfghjklmnpqrstvwxz]{2,5})(?![\w'’&/@-]|\.\w)"
)
_ROMAN = re.compile(r"[IVX]+")
_LOWER_WORD = re.compile(r"\b[a-z]{4,7}\b")
_LABEL = re.compile(r"^[ \t]*([A-Z][A-Za-z][A-Za-z /&-]{1,38}):", re.MULTILINE)

COLUMNS = {
    "unknown_short_forms": ("short_form", "n_notes", "n_occurrences", "defined_as", "by_letters", "example"),
    "unsure_short_forms": ("short_form", "n_notes", "n_unsure", "n_occurrences", "likeliest", "example"),
    "sections": ("header", "n_notes", "is_section", "may_be", "example"),
    "site_inventory": ("short_form", "long_form", "action", "forms", "n_notes", "comment"),
}
"""The tables, and their columns."""

Row = dict[str, Any]


def audit(
    notes: NoteFiles,
    output: Path,
    *,
    expander: ExpanderSettings | None = None,
    min_count: int = 2,
    with_context: bool = True,
    workers: int = 1,
    shard_notes: int = SHARD_NOTES,
    resume: bool = False,
    overwrite: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> dict[str, Any]:
    """Read all notes and write the folder; -> its counts. Items in `min_count` notes or more are listed.

    `with_context` also writes an example of each item, which is text of a note. The rest is as in `annotate`.
    """
    settings = expander or ExpanderSettings()
    if output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output} is not a folder. Choose another name.")
    written = {"--no-context": not with_context}
    job = ShardJob(notes, output, settings, rows=written, shard_notes=shard_notes, resume=resume)
    if resume and (done := job.report_in(output / "report.json")) and done.get("min_count") == min_count:
        return done
    existing = output if output.is_dir() and any(output.iterdir()) else None
    job.require_free(existing, overwrite=overwrite)
    if existing and not job.has_left(output / "report.json"):
        raise InputError(f"{output} is not an audit, so it is not overwritten. Choose another output.")
    findings = _Findings(shared_expander(settings).inventory)
    failed: Counter[str] = Counter()
    run, reading = find_engine("local", workers=workers), ReadReport()
    with job.open_parts():
        job.run(AuditTask(settings, with_context), run, reading, Progress(notes, on_progress))
        for counts, rows in job.results():
            failed.update(reason for _, reason in counts["failed"])
            for line in rows.split(b"\n")[:-1]:
                findings.add(json.loads(line))
        report = {**reading.to_dict(), "failed": dict(failed), "min_count": min_count}
        if not report["n_read"]:
            raise InputError("no note could be read. Check the path and --format.")
        return _write(findings, output, report, job.plan)


@dataclass(slots=True)
class _Item:
    """A short form or a header: its counts, its readings, and an example."""

    n_notes: int = 0
    n: int = 0
    readings: Counter[str] = field(default_factory=Counter)
    example: str = ""

    def add(self, n_notes: int, n: int, readings: Mapping[str, int], example: str) -> None:
        self.n_notes += n_notes
        self.n += n
        self.readings.update(readings)
        self.example = self.example or example


@dataclass(frozen=True, slots=True)
class AuditTask(Task):
    """Counts the short forms and headers of a shard."""

    with_context: bool = True

    def rows(self, expanded: Sequence[tuple[Note, Sequence[Expansion]]]) -> Iterator[list[Any]]:
        expander = shared_expander(self.expander)
        count = _ShardCounts(expander.inventory, self.expander, with_context=self.with_context)
        for note, expansions in expanded:
            count.note(note, expansions)
        return count.rows()


class _ShardCounts:
    """Counts the short forms and headers of the notes of a shard."""

    def __init__(self, inventory: SenseInventory, settings: ExpanderSettings, *, with_context: bool) -> None:
        rules = None if settings.header_rules is None else Path(settings.header_rules)
        self._aliases = load_aliases(rules)
        self._sections = section_finder(settings.sections, header_rules=rules)
        self._known = {plain_short_form(name) for name in inventory.short_forms}
        self._with_context = with_context
        self._definitions = DefinitionCounts(inventory)
        self._items: dict[tuple[str, str], _Item] = {}
        self._in_lower_case: Counter[str] = Counter()

    def note(self, note: Note, expansions: Sequence[Expansion]) -> None:
        self._definitions.add(note)
        sections = note.sections if note.sections is not None else self._sections(note)
        found: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for each in expansions:
            key, reading = self._kind_of(each)
            found.setdefault(key, []).append((each.start, reading))
        for start, short_form in self._unknown(note.text, expansions, sections):
            found.setdefault(("unknown", short_form), []).append((start, ""))
        for start, kind, name in self._headers(note.text, sections):
            found.setdefault((kind, name), []).append((start, ""))
        for key, places in found.items():
            readings = Counter(reading for _, reading in places if reading)
            is_shown = self._with_context and key[0] != "known"
            example = self._example(note.text, places[0][0]) if is_shown else ""
            self._items.setdefault(key, _Item()).add(1, len(places), readings, example)

    def _kind_of(self, each: Expansion) -> tuple[tuple[str, str], str]:
        best = each.candidates[0].long_form if each.candidates else ""
        if plain_short_form(each.short_form) not in self._known:
            is_read = each.source == "letters"
            kind = "unknown" if is_read or each.source == "definition" else "known"
            return (kind, each.short_form), best if is_read else ""
        is_unsure = each.source == "model" and (each.probability is None or each.probability < UNSURE)
        return ("unsure" if is_unsure else "known", each.short_form), best

    def _unknown(
        self, text: str, expansions: Sequence[Expansion], sections: Sequence[Section]
    ) -> Iterator[tuple[int, str]]:
        """Yield possible short forms that were neither expanded nor otherwise recognised."""
        self._in_lower_case.update(_LOWER_WORD.findall(text))
        taken = [(each.start, each.end) for each in expansions]
        taken += [(section.start, section.body_start) for section in sections]
        taken += [match.span() for match in MARK.finditer(text)]
        is_taken = bytearray(len(text))
        for start, end in taken:
            is_taken[start:end] = b"\1" * (end - start)
        for match in _SHAPE.finditer(text):
            start, end = match.span()
            word = match[0]
            lower = word.lower()
            is_known = plain_short_form(word) in self._known or lower in NOT_SHORTHAND
            if is_known or is_taken[start] or _ROMAN.fullmatch(word):
                continue
            around = text[max(0, start - _AROUND) : end + _AROUND]
            if word.islower() or not (lower in NAMES or is_in_capitals(around)):
                yield start, word

    def _headers(self, text: str, sections: Sequence[Section]) -> Iterator[tuple[int, str, str]]:
        """Yield headers that are not in the alias table, and labels before a colon that are not headers."""
        starts = set()
        for section in sections:
            if section.header is not None:
                starts.add(section.start)
                if find_alias(self._aliases, section.header) is None:
                    yield section.start, "header", upper_name(section.header)
        for match in _LABEL.finditer(text):
            if match.start() not in starts and find_alias(self._aliases, match[1]) is None:
                yield match.start(), "label", upper_name(match[1])

    def _example(self, text: str, start: int) -> str:
        words = text[max(0, start - _AROUND) : start + 2 * _AROUND].split(" ")
        first = 1 if start > _AROUND and len(words) > 3 else 0  # not a cut word
        last = -1 if start + 2 * _AROUND < len(text) and len(words) > 3 else len(words)
        return " ".join(" ".join(words[first:last]).split())

    def rows(self) -> Iterator[list[Any]]:
        for (kind, name), item in self._items.items():
            if kind == "unknown" and name.isupper() and self._in_lower_case[name.lower()] > item.n:
                continue  # an emphasised word
            yield [kind, name, item.n_notes, item.n, dict(item.readings.most_common(8)), item.example]
        for wordings, n_notes in self._definitions.counts():
            yield ["definition", n_notes, [list(each) for each in wordings]]


class _Findings:
    """The counts of all shards; beyond `_MOST_KEPT` of a kind, the rarest are dropped."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._inventory = inventory
        self._items: dict[str, dict[str, _Item]] = {}
        self._definitions = DefinitionCounts(inventory)

    def add(self, row: list[Any]) -> None:
        if row[0] == "definition":
            self._definitions.add_counts(row[2], row[1], most=_MOST_KEPT)
            return
        kind, name, n_notes, n, readings, example = row
        items = self._items.setdefault(kind, {})
        items.setdefault(name, _Item()).add(n_notes, n, readings, example)
        if len(items) > _MOST_KEPT:
            least = sorted(item.n_notes for item in items.values())[_MOST_KEPT // 4]
            self._items[kind] = {name: item for name, item in items.items() if item.n_notes > least}

    def items(self, kind: str, min_count: int) -> list[tuple[str, _Item]]:
        """Return the items of a kind that occur in enough notes, most frequent first."""
        items = self._items.get(kind, {}).items()
        found = [(name, item) for name, item in items if item.n_notes >= min_count]
        return sorted(found, key=lambda pair: (-pair[1].n_notes, -pair[1].n, pair[0]))

    def tables(self, min_count: int) -> dict[str, list[Row]]:
        found = {
            "unknown_short_forms": self._unknown(min_count),
            "unsure_short_forms": self._unsure(min_count),
            "sections": self._sections(min_count),
            "site_inventory": sorted(self._proposed(min_count), key=lambda row: (-row[4], *row[:2])),
        }
        return {name: [dict(zip(COLUMNS[name], row, strict=True)) for row in found[name]] for name in found}

    def _unknown(self, min_count: int) -> Iterator[tuple[Any, ...]]:
        """Yield the short forms that the inventory lacks, with the long forms that notes and letters propose."""
        defined: dict[str, list[str]] = {}
        for sense, _ in self._definitions.propose():
            defined.setdefault(plain_short_form(sense.short_form), []).append(sense.long_form)
        for name, item in self.items("unknown", min_count):
            by_notes = "; ".join(defined.get(plain_short_form(name), [])[:5])
            by_letters = "; ".join(long_form for long_form, _ in item.readings.most_common(3))
            yield name, item.n_notes, item.n, by_notes, by_letters, item.example

    def _unsure(self, min_count: int) -> Iterator[tuple[Any, ...]]:
        known = self._items.get("known", {})
        for name, item in self.items("unsure", min_count):
            likeliest = "; ".join(f"{long_form} {n}" for long_form, n in item.readings.most_common(4))
            n_all = item.n + (known[name].n if name in known else 0)
            yield name, item.n_notes, item.n, n_all, likeliest, item.example

    def _sections(self, min_count: int) -> Iterator[tuple[Any, ...]]:
        """Yield headers that no rule covers, and labels that are not headers."""
        names = sorted({alias.name for alias in load_aliases().values() if alias.name})
        for kind, is_section in (("header", "yes"), ("label", "no")):
            for name, item in self.items(kind, min_count):
                may_be = next(iter(get_close_matches(name, names, n=1, cutoff=0.75)), "")
                yield name, item.n_notes, is_section, may_be, item.example

    def _proposed(self, min_count: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows for a site's inventory: senses that notes define, and consistent readings by letters."""
        lookup = SenseLookup(self._inventory)
        defined = set()
        for sense, n_notes in self._definitions.propose():
            if n_notes >= min_count and all(lookup(sense.short_form, form) is None for form in sense.forms):
                defined.add(sense.key)
                forms = ";".join(form for form in sense.forms if ";" not in form)
                yield sense.short_form, sense.long_form, "add", forms, n_notes, "defined in notes"
        for name, item in self.items("unknown", min_count):
            for long_form, n in item.readings.most_common(1):
                if n >= _LEAST_SHARE * item.n and (name, long_form) not in defined:
                    yield name, long_form, "add", long_form, item.n_notes, "by its letters"


def _write(findings: _Findings, output: Path, reading: Row, plan: Row) -> Row:
    """Write the folder, readable only by its owner; -> the report, with the number of rows of each table."""
    from lmcells.evaluation.report.page import render

    tables = findings.tables(reading["min_count"])
    headers = {row["header"]: list[str]() for row in tables["sections"] if row["is_section"] == "yes"}
    report = {**reading, **{f"n_{name}": len(rows) for name, rows in tables.items()}}
    shown = {name: rows[:_N_SHOWN] for name, rows in tables.items()}
    files = {
        **{f"{name}.csv": csv_text(COLUMNS[name], rows) for name, rows in tables.items()},
        "header_rules.json": json.dumps(headers, ensure_ascii=False, indent=1) + "\n",
        "audit.html": render("audit.html", report=report, shown=_N_SHOWN, **shown),
        "report.json": json.dumps({**report, "plan": plan}, indent=1) + "\n",
    }
    output.mkdir(parents=True, exist_ok=True)
    output.chmod(0o700)
    for name, text in files.items():
        with atomic_write(output / name) as temporary:
            temporary.chmod(0o600)
            temporary.write_text(text, encoding="utf-8")
    return report
