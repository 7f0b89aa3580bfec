"""Measure how well and how fast sections are found: `paper` and `rules` against headers marked up by people.

    python benchmarks/section_detection.py                          # the table
    python benchmarks/section_detection.py --flattened              # each note put on one line
    python benchmarks/section_detection.py --disagreements 50       # what to audit

The data (in the folder LMCELLS_DATA, see docs/data.md) are notes as plain text with the list of their true headers.
Headers are compared as multisets for each note, ignoring case and colons.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from lmcells.notes.note import Section
from lmcells.notes.section_rules import SectionRules
from lmcells.notes.section_styles import find_paper_sections
from locations import text_folder

SectionFinder = Callable[[str], tuple[Section, ...]]
FINDERS: dict[str, SectionFinder] = {"paper": find_paper_sections, "rules": SectionRules()}
ROUNDS = 5  # the fastest counts: others share the machine


@dataclass(frozen=True)
class MarkedNote:
    """A note and the headers that its publisher set in bold."""

    id: str
    text: str
    headers: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """Agreement over the multiset of (note, header)."""

    n_right: int
    n_found: int
    n_true: int

    @property
    def precision(self) -> float:
        return self.n_right / max(1, self.n_found)

    @property
    def recall(self) -> float:
        return self.n_right / max(1, self.n_true)

    @property
    def f1(self) -> float:
        return 2 * self.n_right / max(1, self.n_found + self.n_true)


@dataclass(frozen=True)
class Disagreement:
    """A header that only one side has."""

    note_id: str
    header: str
    kind: str
    surroundings: str


def read_marked_notes(path: Path) -> list[MarkedNote]:
    rows = pq.read_table(path, columns=["id", "text", "headers"]).to_pylist()
    return [MarkedNote(row["id"], row["text"], tuple(row["headers"])) for row in rows]


def flattened(note: MarkedNote) -> MarkedNote:
    """Return a note as a system leaves it that puts all white space to one blank."""
    return replace(note, text=" ".join(note.text.split()))


def stripped(header: str) -> str:
    return " ".join(header.casefold().strip().rstrip(":").split())


def found_headers(sections: Iterable[Section]) -> Counter[str]:
    return Counter(stripped(section.header) for section in sections if section.header is not None)


def score(finder: SectionFinder, notes: Iterable[MarkedNote]) -> Score:
    n_right = n_found = n_true = 0
    for note in notes:
        found, true = found_headers(finder(note.text)), Counter(map(stripped, note.headers))
        n_right += (found & true).total()
        n_found += found.total()
        n_true += true.total()
    return Score(n_right, n_found, n_true)


def disagreements(finder: SectionFinder, notes: Iterable[MarkedNote]) -> Iterator[Disagreement]:
    for note in notes:
        found, true = found_headers(finder(note.text)), Counter(map(stripped, note.headers))
        for kind, headers in (("false positive", found - true), ("false negative", true - found)):
            for header in headers.elements():
                yield Disagreement(note.id, header, kind, surroundings(note.text, header))


def surroundings(text: str, header: str, width: int = 40) -> str:
    """Return a header's first place in the note with what stands around it; line breaks are shown."""
    at = text.casefold().find(header)
    if at < 0:
        return "(not in the text as marked up)"
    return repr(text[max(0, at - width) : at + len(header) + width])


def megabytes_per_second(finder: SectionFinder, notes: list[MarkedNote]) -> float:
    texts = [note.text for note in notes]
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for text in texts:
            finder(text)
        seconds.append(time.perf_counter() - started)
    return sum(len(text.encode()) for text in texts) / 1e6 / min(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notes", nargs="?", type=Path, help="Parquet with id, text, headers")
    parser.add_argument(
        "--disagreements", type=int, default=0, metavar="N", help="print N of `rules`, at random"
    )
    parser.add_argument("--flattened", action="store_true", help="put each note on one line first")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.notes = arguments.notes or text_folder() / "dev/mtsamples_raw.parquet"
    if not arguments.notes.exists():
        print(f"{arguments.notes} does not exist. Name another file with the columns id, text, headers.")
        return 2

    notes = read_marked_notes(arguments.notes)
    if arguments.flattened:
        notes = list(map(flattened, notes))
    print(f"{arguments.notes}: {len(notes):,} notes, {sum(len(note.headers) for note in notes):,} headers")
    print(f"{'sections':10}{'precision':>10}{'recall':>10}{'F1':>10}{'MB/s':>10}")
    for name, finder in FINDERS.items():
        result, speed = score(finder, notes), megabytes_per_second(finder, notes)
        print(f"{name:10}{result.precision:10.4f}{result.recall:10.4f}{result.f1:10.4f}{speed:10.0f}")

    if arguments.disagreements:
        found = list(disagreements(FINDERS["rules"], notes))
        sample = random.Random(arguments.seed).sample(found, min(arguments.disagreements, len(found)))
        print(f"\n{len(sample)} of {len(found)} disagreements of `rules` with the markup:")
        for number, one in enumerate(sorted(sample, key=lambda one: one.note_id), start=1):
            print(f"{number:3}  {one.note_id}  {one.kind}  {one.header!r}\n     {one.surroundings}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
