"""brat: a folder of texts with standoff annotations, `note.txt` and `note.ann`.

An expansion is an entity, `Acronym` or `Abstained`, with its source as an attribute and what it stands for as a note.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lmcells.expansion.expansion import Expansion
from lmcells.files import atomic_folder
from lmcells.integrations.annotated_notes import AnnotatedNote

CONFIGURATION = """\
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
        (temporary / "annotation.conf").write_text(CONFIGURATION, encoding="utf-8", newline="\n")
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
