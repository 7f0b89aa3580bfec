"""Score answers in training notes at places that language models have judged.

python benchmarks/judged_places.py                       # both halves
python benchmarks/judged_places.py --errors errors.tsv   # also write the errors of the even half

`benchmarks/data/judged_places.tsv` lists 7,004 places in 2,715 notes of thirteen kinds: what an earlier version
answered, was unsure about or missed, one to three places for each short form and answer, with the meaning according to
language models (empty if it is not a short form). It contains no text, which is read from the folder named by
LMCELLS_DATA. Rules are derived from the notes whose id has an even SHA-1 and checked on the others. The model has read
these notes, so the figures only compare versions; they do not show how well unseen notes are read.
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from lmcells import Expander, Expansion
from lmcells.evaluation.marked_notes import Meanings
from lmcells.files import open_private
from locations import SETS, half_of, text_folder

PLACES = SETS / "judged_places.tsv"
LONGEST = 12_000  # characters of a note that are read


@dataclass(frozen=True)
class Place:
    """What a reader says of `text[start:end]`; without senses it is no short form."""

    start: int
    end: int
    senses: list[str]
    weight: float  # how often this short form and answer occur in these notes


def read_places() -> dict[tuple[str, str], list[Place]]:
    """Return the places of each file and note."""
    places = defaultdict(list)
    with PLACES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            senses = row["senses"].split(";") if row["senses"] else []
            place = Place(int(row["start"]), int(row["end"]), senses, float(row["weight"]))
            places[row["file"], row["id"]].append(place)
    return places


def read_texts(wanted: dict[tuple[str, str], list[Place]]) -> Iterator[tuple[str, str, str]]:
    """Yield (file, id, text) of each wanted note."""
    for name in dict.fromkeys(file for file, _ in wanted):
        for row in pq.read_table(text_folder() / f"{name}.parquet").to_pylist():
            if (name, row["id"]) in wanted:
                sections = row.get("sections") or ()
                parts = (
                    f"{each['header']}:\n{each['text']}" if each["header"] else each["text"]
                    for each in sections
                )
                yield name, row["id"], (row.get("text") or "\n\n".join(parts))[:LONGEST]


def judge(place: Place, found: Expansion | None, meanings: Meanings) -> str:
    """Compare an answer with what readers say."""
    answer = found.long_form if found is not None else None
    if not place.senses:
        return "silent" if answer is None else "false"
    if answer is None:
        return "missed" if found is None else "unsure"
    return "right" if meanings.same(answer, place.senses) else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--errors", type=Path, help="write the errors of the even half, with their text (mode 0600)"
    )
    parser.add_argument("--model", default="default", help="model folder (the shipped one)")
    options = parser.parse_args()
    expand = Expander.from_pretrained(options.model)
    meanings = Meanings(expand.inventory)
    counts, weighted = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
    errors = []
    places = read_places()
    for name, note_id, text in read_texts(places):
        half = half_of(note_id)
        kind = f"{half}, {'scans' if 'tcga' in name else 'notes'}"
        expansions = expand(text)
        for place in places[name, note_id]:
            found = next(
                (each for each in expansions if each.start < place.end and place.start < each.end), None
            )
            verdict = judge(place, found, meanings)
            counts[kind][verdict] += 1
            weighted[kind][verdict] += place.weight  # type: ignore[assignment]
            if half == "even" and verdict not in ("right", "silent"):
                around = (
                    text[max(0, place.start - 60) : place.end + 60].replace("\n", " / ").replace("\t", " ")
                )
                answer = (
                    (found.source, found.long_form, found.probability) if found is not None else ("", "", "")
                )
                errors.append(
                    (
                        verdict,
                        name,
                        note_id,
                        text[place.start : place.end],
                        *answer,
                        *place.senses[:1],
                        around,
                    )
                )
    for kind in sorted(counts):
        for title, of_kind in (("places", counts[kind]), ("by frequency", weighted[kind])):
            right, given = of_kind["right"], of_kind["right"] + of_kind["wrong"] + of_kind["false"]
            wanted = of_kind["right"] + of_kind["wrong"] + of_kind["unsure"] + of_kind["missed"]
            others = ", ".join(
                f"{verdict} {of_kind[verdict]:.0f}" for verdict in ("wrong", "false", "unsure", "missed")
            )
            print(
                f"{kind}, {title:12}  precision {right / given:.3f}  recall {right / wanted:.3f}  ({others})"
            )
    if options.errors is not None:
        with open_private(options.errors) as file:
            csv.writer(file, delimiter="\t").writerows(errors)


if __name__ == "__main__":
    main()
