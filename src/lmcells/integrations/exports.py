"""Exporting annotations to annotation tools: brat, doccano and Label Studio.

A file of annotations is joined with its notes, and each note is written in the tool's format.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, get_args

import lmcells
from lmcells.errors import FormatError, InputError
from lmcells.expansion.expansion import Expansion, Source
from lmcells.files import atomic_folder, atomic_write
from lmcells.integrations.rows import NoteFiles, read_annotations
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.notes.readers.opening import mend

_LINE_END = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note and its expansions, in text order."""

    note: Note
    expansions: tuple[Expansion, ...]

    @property
    def id(self) -> str:
        """The id of the note, as in the annotations."""
        return mend(self.note.id)

    @property
    def text(self) -> str:
        r"""The text with "\n" as its only line end, and of the same length: "\r\n" becomes " \n".

        Tools turn "\r\n" into "\n" when they read a file, which would shift all later offsets.
        """
        return _LINE_END.sub(lambda end: " \n" if len(end[0]) > 1 else "\n", self.note.text)


def read_annotated(
    annotations: Path, notes: NoteFiles, *, report: ReadReport | None = None
) -> Iterator[AnnotatedNote]:
    """Yield every note with its expansions; refuses annotations of missing or duplicate notes."""
    found: dict[str, list[Expansion]] = {}
    for note_id, expansion in read_annotations(annotations):
        found.setdefault(note_id, []).append(expansion)
    seen: set[str] = set()
    for note in notes.read(ReadReport() if report is None else report):
        note_id = mend(note.id)
        if note_id in seen:
            raise FormatError(f"two notes have the id {note_id!r}. Rename one.")
        seen.add(note_id)
        expansions = sorted(found.pop(note_id, ()), key=lambda each: each.start)
        position = 0
        for each in expansions:
            if not position <= each.start < each.end <= len(note.text):
                raise InputError(
                    f"the expansion at {each.start}-{each.end} of {note_id!r} overlaps another or lies outside the "
                    f"note ({len(note.text):,} characters). Give the notes that were annotated, each with its own id."
                )
            position = each.end
        yield AnnotatedNote(note, tuple(expansions))
    if found:
        raise InputError(
            f"{annotations} has expansions of {len(found):,} notes that were not found, the first is "
            f"{next(iter(found))!r}. Give the notes it was made from with --notes; {len(seen):,} were read."
        )


def _label(expansion: Expansion) -> str:
    return "Abstained" if expansion.abstained else "Acronym"


# brat: a folder of texts with standoff annotations, `note.txt` and `note.ann`. An expansion is an entity, `Acronym` or
# `Abstained`, with its source as an attribute and the long form and candidates as an annotator's note.

BRAT_CONFIGURATION = f"""\
[entities]
Acronym
Abstained

[relations]
<OVERLAP> Arg1:<ENTITY>, Arg2:<ENTITY>, <OVL-TYPE>:<ANY>

[events]

[attributes]
Source Arg:<ENTITY>, Value:{"|".join(get_args(Source))}
"""
DOCUMENTS = "documents.tsv"
"""The table of file names and note ids."""

_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_MAX_NAME = 100


def export_brat(notes: Iterable[AnnotatedNote], folder: Path, *, overwrite: bool = False) -> int:
    """Write a folder that brat opens as a collection, atomically; -> the number of documents."""
    if folder.exists() and any(folder.iterdir()) and not (folder / DOCUMENTS).is_file():
        found = f"{folder} is not an export for brat, so it is not overwritten"
        raise InputError(f"{found}. Choose another output.")
    taken: dict[str, int] = {}
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        (temporary / "annotation.conf").write_text(BRAT_CONFIGURATION, encoding="utf-8", newline="\n")
        with (temporary / DOCUMENTS).open("w", encoding="utf-8", newline="\n") as documents:
            for each in notes:
                name = _file_name(each.id, taken)
                print(name, " ".join(each.id.split()), sep="\t", file=documents)
                for suffix, content in (("txt", each.text), ("ann", "".join(standoff(each)))):
                    (temporary / f"{name}.{suffix}").write_text(content, encoding="utf-8", newline="")
    return len(taken)


def _file_name(note_id: str, taken: dict[str, int]) -> str:
    """Return a safe file name for a note id, and add it to those taken, each with the last number after it."""
    plain = _UNSAFE.sub("_", note_id)[-_MAX_NAME:].strip("._") or "note"
    key = plain.casefold()  # some file systems ignore case
    for number in count(taken.get(key, 0) + 1):
        name = plain if number == 1 else f"{plain}-{number}"
        if name.casefold() not in taken:
            break
    taken[key] = number
    taken.setdefault(name.casefold(), 1)
    return name


def standoff(annotated: AnnotatedNote) -> Iterator[str]:
    """Yield the lines of a document's annotations."""
    for number, expansion in enumerate(annotated.expansions, start=1):
        # A brat span may not contain a line break, so such a span is split.
        first = expansion.start
        pieces = list(re.finditer(r"[^\n]+", annotated.text[first : expansion.end]))
        spans = ";".join(f"{first + each.start()} {first + each.end()}" for each in pieces)
        candidates = ", ".join(f"{each.long_form} {each.probability:.2f}" for each in expansion.candidates)
        concept = f" [{expansion.concept_id}]" if expansion.concept_id else ""
        answer = f"{expansion.long_form or expansion.abstained}{concept}"
        note = " ".join(f"{answer}; {expansion.short_form}: {candidates}".split())
        yield f"T{number}\t{_label(expansion)} {spans}\t{' '.join(each[0] for each in pieces)}\n"
        yield f"A{number}\tSource T{number} {expansion.source}\n"
        yield f"#{number}\tAnnotatorNotes T{number}\t{note}\n"


# doccano: JSON lines for a project of type "sequence labeling". The label is the long form, or `abstained`; the note's
# id becomes metadata of the document.

ABSTAINED = "abstained"
_MAX_LABEL = 100  # of doccano's label types


def export_doccano(notes: Iterable[AnnotatedNote], path: Path) -> int:
    """Write a file to import into doccano (format "JSONL", columns "text" and "label"); -> the number of documents."""
    return _write_lines(path, map(document, notes))


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    n_rows = 0
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False), file=file)
            n_rows += 1
    return n_rows


def document(annotated: AnnotatedNote) -> dict[str, Any]:
    found = annotated.expansions
    labels = [[each.start, each.end, (each.long_form or ABSTAINED)[:_MAX_LABEL]] for each in found]
    return {"text": annotated.text, "label": labels, "note_id": annotated.id}


# Notes: the text that `start` and `end` refer to, with its sections.


def export_notes(notes: Iterable[AnnotatedNote], path: Path) -> int:
    """Write each note's id, text, sections and expansions as JSON lines; -> the number of notes."""
    return _write_lines(path, map(_plain_note, notes))


def _plain_note(annotated: AnnotatedNote) -> dict[str, Any]:
    sections = annotated.note.sections
    return {
        "id": annotated.id,
        "text": annotated.note.text,
        "sections": None if sections is None else [[each.start, each.end, each.header] for each in sections],
        "expansions": [each.to_dict() for each in annotated.expansions],
    }


# Label Studio: tasks with predictions, and the labeling configuration that shows them. A short form is a region with
# the label `Acronym` or `Abstained`; its long form is an editable text, its probability the score of the region.

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
    """Write a JSON list of tasks, and the configuration next to it as `.xml`; -> the number of tasks."""
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
    results: list[dict[str, Any]] = []
    scores = []
    for number, each in enumerate(annotated.expansions):
        # The probability of the best candidate, whether the expander answered or abstained.
        score = max((candidate.probability for candidate in each.candidates), default=0.0)
        span = {"start": each.start, "end": each.end}
        region = {"id": f"expansion-{number}", "to_name": "text", "score": score}
        marked = span | {"text": annotated.text[each.start : each.end], "labels": [_label(each)]}
        results.append(region | {"from_name": "label", "type": "labels", "value": marked})
        if each.long_form is not None:
            value = span | {"text": [each.long_form]}
            results.append(region | {"from_name": "long_form", "type": "textarea", "value": value})
        scores.append(score)
    prediction: dict[str, Any] = {"model_version": f"lmcells {lmcells.__version__}", "result": results}
    if scores:
        prediction["score"] = min(scores)  # so that sorting tasks puts the least certain first
    return {"data": {"text": annotated.text, "note_id": annotated.id}, "predictions": [prediction]}
