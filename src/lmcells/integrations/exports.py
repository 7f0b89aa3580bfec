"""Label Studio: tasks with predictions, and the labeling configuration that shows them.

A short form is a region with the label `Acronym` or `Abstained`; its long form is a text that can be edited, its
probability the score of the region.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmcells
from lmcells.errors import FormatError, InputError
from lmcells.expansion.expansion import Expansion
from lmcells.files import atomic_folder, atomic_write
from lmcells.integrations.rows import NoteFiles, read_annotations
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.records import mend

# Notes with what was found in them: a file of annotations joined with the notes it was made from, for the exports.


_LINE_END = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note and its expansions, in the order of the text."""

    note: Note
    expansions: tuple[Expansion, ...]

    @property
    def id(self) -> str:
        """The id of the note, as it stands in the annotations."""
        return mend(self.note.id)

    @property
    def text(self) -> str:
        r"""The text with lines that end in "\n" alone, character for character as long: "\r\n" is " \n".

        Tools turn "\r\n" into "\n" where they read a file, and all offsets after it are wrong. Ours hold in both.
        """
        return _LINE_END.sub(lambda end: " \n" if len(end[0]) > 1 else "\n", self.note.text)


def read_annotated(
    annotations: Path, notes: NoteFiles, *, report: ReadReport | None = None
) -> Iterator[AnnotatedNote]:
    """Yield every note with its expansions; annotations of a note that is not there, or twice, are refused."""
    found: dict[str, list[Expansion]] = {}
    for note_id, expansion in read_annotations(annotations):
        found.setdefault(note_id, []).append(expansion)
    seen: set[str] = set()
    for note in notes.read(ReadReport() if report is None else report):
        note_id = AnnotatedNote(note, ()).id
        if note_id in seen:
            raise FormatError(
                f"two notes have the id {note_id!r}: which one is meant cannot be told. Rename one."
            )
        seen.add(note_id)
        expansions = sorted(found.pop(note_id, ()), key=lambda each: each.start)
        _check(expansions, note_id, len(note.text))
        yield AnnotatedNote(note, tuple(expansions))
    if found:
        raise InputError(
            f"{annotations} is about {len(found):,} notes that are not there, {next(iter(found))!r} first. "
            f"Give the notes it was made from with --notes; {len(seen):,} were read."
        )


def _check(expansions: list[Expansion], note_id: str, length: int) -> None:
    position = 0
    for each in expansions:
        if not position <= each.start < each.end <= length:
            raise InputError(
                f"the expansion at {each.start}-{each.end} of {note_id!r} overlaps another or lies outside of the note "
                f"({length:,} characters). Give the notes that were annotated."
            )
        position = each.end


# brat: a folder of texts with standoff annotations, `note.txt` and `note.ann`.
#
# An expansion is an entity, `Acronym` or `Abstained`, with its source as an attribute and what it stands for as a note.


BRAT_CONFIGURATION = """\
[entities]
Acronym
Abstained

[relations]
<OVERLAP> Arg1:<ENTITY>, Arg2:<ENTITY>, <OVL-TYPE>:<ANY>

[events]

[attributes]
Source Arg:<ENTITY>, Value:model|definition
"""
DOCUMENTS = "documents.tsv"
"""Which file is which note."""

_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_NAME = 100


def export_brat(notes: Iterable[AnnotatedNote], folder: Path) -> int:
    """Write a folder that brat opens as a collection, whole or not at all; -> how many documents it has."""
    names = _Names()
    with atomic_folder(folder) as temporary:
        (temporary / "annotation.conf").write_text(BRAT_CONFIGURATION, encoding="utf-8", newline="\n")
        with (temporary / DOCUMENTS).open("w", encoding="utf-8", newline="\n") as documents:
            for each in notes:
                name = names(each.id)
                print(name, " ".join(each.id.split()), sep="\t", file=documents)
                for suffix, content in (("txt", each.text), ("ann", "".join(standoff(each)))):
                    (temporary / f"{name}.{suffix}").write_text(content, encoding="utf-8", newline="")
    return len(names)


def standoff(annotated: AnnotatedNote) -> Iterator[str]:
    """Yield the lines of a document's annotations."""
    for number, expansion in enumerate(annotated.expansions, start=1):
        kind = "Abstained" if expansion.abstained else "Acronym"
        fragments = list(_fragments(annotated.text, expansion.start, expansion.end))
        spans = ";".join(f"{start} {end}" for start, end in fragments)
        written = " ".join(annotated.text[start:end] for start, end in fragments)
        yield f"T{number}\t{kind} {spans}\t{written}\n"
        yield f"A{number}\tSource T{number} {expansion.source}\n"
        yield f"#{number}\tAnnotatorNotes T{number}\t{_note(expansion)}\n"


def _fragments(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A span never holds a line end: one that does is given in pieces."""
    for piece in re.finditer(r"[^\n]+", text[start:end]):
        yield start + piece.start(), start + piece.end()


def _note(expansion: Expansion) -> str:
    candidates = ", ".join(f"{each.long_form} {each.probability:.2f}" for each in expansion.candidates)
    answer = expansion.long_form or expansion.abstained
    concept = f" [{expansion.concept_id}]" if expansion.concept_id else ""
    return " ".join(f"{answer}{concept}; {expansion.short_form}: {candidates}".split())


class _Names:
    """A file's name for each note, whatever its id holds, and never the same twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self._taken)

    def __call__(self, note_id: str) -> str:
        plain = _UNSAFE.sub("_", note_id)[-_LONGEST_NAME:].strip("._") or "note"
        name, number = plain, 1
        while name.casefold() in self._taken:  # some file systems do not tell case
            number += 1
            name = f"{plain}-{number}"
        self._taken.add(name.casefold())
        return name


# doccano: JSON lines for a project of the kind "sequence labeling".
#
# A label is what a short form stands for, or `abstained`; the id of a note becomes part of the document's metadata.


ABSTAINED = "abstained"
_LONGEST_LABEL = 100  # of doccano's label types


def export_doccano(notes: Iterable[AnnotatedNote], path: Path) -> int:
    """Write a file for doccano's import (format "JSONL", columns "text" and "label"); -> how many documents it has."""
    n_documents = 0
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for each in notes:
            print(json.dumps(document(each), ensure_ascii=False), file=file)
            n_documents += 1
    return n_documents


def document(annotated: AnnotatedNote) -> dict[str, Any]:
    """Return a note as doccano reads it."""
    labels = [
        [each.start, each.end, (each.long_form or ABSTAINED)[:_LONGEST_LABEL]]
        for each in annotated.expansions
    ]
    return {"text": annotated.text, "label": labels, "note_id": annotated.id}


# Label Studio: tasks with predictions, and the labeling configuration that shows them.
#
# A short form is a region with the label `Acronym` or `Abstained`; its long form is a text that can be edited, its
# probability the score of the region.


LABELING_CONFIGURATION = """\
<View>
  <Style>.htx-text{ white-space: pre-wrap; }</Style>
  <Labels name="label" toName="text">
    <Label value="Acronym" background="#2a7f62"/>
    <Label value="Abstained" background="#b8860b"/>
  </Labels>
  <Text name="text" value="$text"/>
  <TextArea name="long_form" toName="text" perRegion="true" editable="true" maxSubmissions="1"
            placeholder="what it stands for"/>
</View>
"""


def export_label_studio(notes: Iterable[AnnotatedNote], path: Path) -> int:
    """Write a JSON list of tasks, and beside it the configuration as `.xml`; -> how many tasks there are."""
    n_tasks = 0
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write("[")
        for each in notes:
            file.write(("," if n_tasks else "") + "\n" + json.dumps(task(each), ensure_ascii=False))
            n_tasks += 1
        file.write("\n]\n")
    with atomic_write(path.with_suffix(".xml")) as temporary:
        temporary.write_text(LABELING_CONFIGURATION, encoding="utf-8", newline="\n")
    return n_tasks


def task(annotated: AnnotatedNote) -> dict[str, Any]:
    """Return a note as a task with one prediction."""
    scores = [_score(each) for each in annotated.expansions]
    prediction: dict[str, Any] = {
        "model_version": f"lmcells {lmcells.__version__}",
        "result": [
            result
            for number, each in enumerate(annotated.expansions)
            for result in _results(f"expansion-{number}", each, annotated.text)
        ],
    }
    if scores:
        prediction["score"] = min(scores)  # the least sure first, when tasks are sorted by it
    return {"data": {"text": annotated.text, "note_id": annotated.id}, "predictions": [prediction]}


def _results(region: str, expansion: Expansion, text: str) -> Iterator[dict[str, Any]]:
    place = {"start": expansion.start, "end": expansion.end}
    common = {"id": region, "to_name": "text", "score": _score(expansion)}
    yield common | {
        "from_name": "label",
        "type": "labels",
        "value": place
        | {
            "text": text[expansion.start : expansion.end],
            "labels": ["Abstained" if expansion.abstained else "Acronym"],
        },
    }
    if expansion.long_form is not None:
        value = place | {"text": [expansion.long_form]}
        yield common | {"from_name": "long_form", "type": "textarea", "value": value}


def _score(expansion: Expansion) -> float:
    """How likely the best candidate is, answered or not."""
    return max((candidate.probability for candidate in expansion.candidates), default=0.0)
