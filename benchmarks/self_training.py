"""Replace short forms with a model's confident expansions, for self-training: long forms are then also learnt from the
contexts in which notes abbreviate them.

python benchmarks/self_training.py NOTES.parquet --model MODEL --probability 0.95 --output FOLDER

FOLDER gets two files of the same name, in `one/` and `other/`: a short form of a section is expanded in one of them
and unchanged in the other. Single letters are never expanded.
"""

import argparse
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lmcells import Expander
from lmcells.expansion.expanded_text import expand_text
from lmcells.expansion.expansion import Expansion

SIDES = ("one", "other")


@dataclass(frozen=True)
class Section:
    """A section of a note, as `Expander.pipe` reads it."""

    text: str
    header: str

    @property
    def sections(self) -> list[tuple[int, int, str]]:
        """All of it has one header."""
        return [(0, len(self.text), self.header)]


def side_of(note_id: str, section: int, short_form: str) -> str:
    """Return the side on which all occurrences of a short form in a section are expanded: a hash of where it stands."""
    return SIDES[zlib.crc32(f"{section}\0{short_form}\0{note_id}".encode()) % 2]


def is_sure(expansion: Expansion, *, probability: float) -> bool:
    """Whether the model gave this answer with at least this probability."""
    by_model = expansion.source == "model" and len(expansion.short_form) > 1
    return by_model and expansion.long_form is not None and (expansion.probability or 0.0) >= probability


def sections_of(notes: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Which note, and which of its sections, have text."""
    for row, note in enumerate(notes):
        for number, section in enumerate(note["sections"]):
            if section["text"]:
                yield row, number


def expand_half(
    notes: list[dict[str, Any]], expander: Expander, *, probability: float
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Return both sides of all notes, and how many short forms were expanded."""
    sides = {side: [{**note, "sections": [*note["sections"]]} for note in notes] for side in SIDES}
    places = list(sections_of(notes))
    read = (
        Section(each["text"], each["header"] or "UNKNOWN")
        for each in (notes[row]["sections"][number] for row, number in places)
    )
    n_written = 0
    for (row, number), expansions in zip(places, expander.pipe(read, batch_size=512), strict=True):
        section = notes[row]["sections"][number]
        sure = [each for each in expansions if is_sure(each, probability=probability)]
        n_written += len(sure)
        for side in SIDES:
            chosen = [each for each in sure if side_of(notes[row]["id"], number, each.short_form) == side]
            text = expand_text(section["text"], chosen).text
            sides[side][row]["sections"][number] = {**section, "text": text}
    return sides, n_written


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notes", type=Path, nargs="+", help="parquet files of notes with sections")
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--probability", type=float, required=True, help="of an answer, at least")
    parser.add_argument("--output", type=Path, required=True, help="folder for both sides")
    options = parser.parse_args()
    expander = Expander.from_pretrained(options.model)
    for side in SIDES:
        (options.output / side).mkdir(parents=True, exist_ok=True)
    for path in options.notes:
        table = pq.read_table(path)
        sides, n_written = expand_half(table.to_pylist(), expander, probability=options.probability)
        for side, notes in sides.items():
            pq.write_table(
                pa.Table.from_pylist(notes, schema=table.schema), options.output / side / path.name
            )
        print(f"{path.name}: {n_written:,} short forms expanded", flush=True)


if __name__ == "__main__":
    main()
