"""Linking the senses of an inventory to the concepts of a terminology, by name.

    names = read_omop_concepts(Path("CONCEPT.csv"))      # or read_umls_names(Path("MRCONSO.RRF"))
    links = link_concepts(inventory, names)
    links[0].outcome, links[0].concept_id                # "exact", "4329847"

A sense is linked if a single concept is named like its long form, or else like one of its forms: first ignoring case,
then also hyphens, number and punctuation (`form_key`). Of several concepts with the name, only standard (OMOP) or
preferred (UMLS) ones count; if there are still several, the sense is ambiguous and stays unchanged. Files are read
once, line by line; only names in the inventory are kept.
"""

import csv
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

from lmcells.errors import FormatError, InputError
from lmcells.expansion.inventory import Sense, SenseInventory, form_key

Outcome = Literal["exact", "normalised", "ambiguous", "missing", "kept"]

_OMOP_COLUMNS = ("concept_id", "concept_name", "vocabulary_id", "standard_concept", "invalid_reason")
_UMLS_FIELDS = 17  # and an empty one after the last bar
_CUI, _LANGUAGE, _STATUS, _PREFERRED, _SOURCE, _NAME, _SUPPRESSED = 0, 1, 2, 6, 11, 14, 16


class ConceptName(NamedTuple):
    concept_id: str
    name: str
    vocabulary: str
    is_preferred: bool  # standard in OMOP, the preferred name in UMLS


@dataclass(frozen=True, slots=True)
class ConceptLink:
    """The outcome for a sense: "kept" if it already had a concept; if ambiguous, with all concepts of that name."""

    sense: Sense
    outcome: Outcome
    concept_id: str | None = None
    concepts: tuple[ConceptName, ...] = ()


def of_vocabularies(
    concepts: Iterable[ConceptName], vocabularies: Collection[str], *, path: Path
) -> Iterator[ConceptName]:
    """Keep a file's concepts of some vocabularies, or all; refuses a vocabulary that the file does not have."""
    found = set()
    for each in concepts:
        found.add(each.vocabulary)
        if not vocabularies or each.vocabulary in vocabularies:
            yield each
    for name in vocabularies:
        if name not in found:
            listed = ", ".join(sorted(found)[:20]) or "none"
            raise InputError(
                f"{path} has no valid concept of vocabulary {name!r}; vocabularies found: {listed}. Name one."
            )


def read_omop_concepts(path: Path) -> Iterator[ConceptName]:
    """Stream the valid concepts of OMOP's CONCEPT table: tab-separated, as from Athena, or comma-separated."""
    with _open(path) as file:
        header = file.readline()
        delimiter = "\t" if "\t" in header else ","
        names = [name.strip().strip('"').lower() for name in header.split(delimiter)]
        missing = [name for name in _OMOP_COLUMNS if name not in names]
        if missing:
            raise FormatError(
                f"{path} has no column {missing[0]!r}; columns found: {', '.join(names[:20])}. "
                "Give OMOP's CONCEPT table."
            )
        at = [names.index(name) for name in _OMOP_COLUMNS]
        is_plain = delimiter == "\t"  # Athena does not quote, and names contain quotes
        rows = (line.rstrip("\r\n").split("\t") for line in file) if is_plain else csv.reader(file)
        for row in rows:
            if len(row) <= max(at):
                continue
            concept_id, name, vocabulary, standard, invalid = (row[index] for index in at)
            if not invalid:
                yield ConceptName(concept_id, name, vocabulary, standard == "S")


def read_umls_names(path: Path) -> Iterator[ConceptName]:
    """Stream the English names of UMLS's MRCONSO.RRF that are not suppressed."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            row = line.rstrip("\n").split("|")
            if len(row) < _UMLS_FIELDS:
                raise FormatError(
                    f"{path}, line {number} has {len(row)} fields, not 18. Give UMLS's MRCONSO.RRF."
                )
            if row[_LANGUAGE] == "ENG" and row[_SUPPRESSED] == "N":
                is_preferred = row[_STATUS] == "P" and row[_PREFERRED] == "Y"
                yield ConceptName(row[_CUI], row[_NAME], row[_SOURCE], is_preferred)


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text. Give the file as it was published.") from error


def link_concepts(inventory: SenseInventory, names: Iterable[ConceptName]) -> list[ConceptLink]:
    """Return the outcome for each sense, in the inventory's order."""
    open_senses = [sense for sense in inventory if sense.concept_id is None]
    written = {_plain(form) for sense in open_senses for form in (sense.long_form, *sense.forms)}
    keys = {form_key(form) for form in written}
    exact: dict[str, dict[str, ConceptName]] = {}
    normal: dict[tuple[str, ...], dict[str, ConceptName]] = {}
    for name in names:
        plain = _plain(name.name)
        key = form_key(plain)
        if key in keys:
            _keep(normal.setdefault(key, {}), name)
            if plain in written:
                _keep(exact.setdefault(plain, {}), name)
    links = []
    for sense in inventory:
        if sense.concept_id is not None:
            links.append(ConceptLink(sense, "kept", sense.concept_id))
            continue
        forms = [sense.long_form, *(form for form in sense.forms if form != sense.long_form)]
        found: list[tuple[Outcome, dict[str, ConceptName]]] = [
            ("exact", exact.get(_plain(form), {})) for form in forms
        ]
        found += [("normalised", normal.get(form_key(form), {})) for form in forms]
        links.append(_link(sense, found))
    return links


def _link(sense: Sense, found: Iterable[tuple[Outcome, dict[str, ConceptName]]]) -> ConceptLink:
    """Take the first name with a single concept; without one, the first name with several is ambiguous."""
    ambiguous: tuple[ConceptName, ...] = ()
    for outcome, concepts in found:
        several = [each for each in concepts.values() if each.is_preferred] or list(concepts.values())
        if len(several) == 1:
            return ConceptLink(sense, outcome, several[0].concept_id, tuple(several))
        ambiguous = ambiguous or tuple(several)
    return ConceptLink(sense, "ambiguous" if ambiguous else "missing", None, ambiguous)


def linked_inventory(links: Iterable[ConceptLink]) -> SenseInventory:
    """Return the senses with the concepts that were found."""
    return SenseInventory.from_senses(replace(link.sense, concept_id=link.concept_id) for link in links)


def write_report(links: Iterable[ConceptLink], path: Path) -> None:
    """Write one row per sense: the outcome, and the concepts of an ambiguous one."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("short_form", "long_form", "outcome", "concept_id", "concepts"))
        for link in links:
            concepts = "; ".join(
                f"{each.concept_id} {each.name} ({each.vocabulary})" for each in link.concepts
            )
            sense = link.sense
            table.writerow((sense.short_form, sense.long_form, link.outcome, link.concept_id or "", concepts))


def _keep(concepts: dict[str, ConceptName], name: ConceptName) -> None:
    kept = concepts.get(name.concept_id)
    if kept is None or (name.is_preferred and not kept.is_preferred):
        concepts[name.concept_id] = name


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
