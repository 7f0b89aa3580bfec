"""Write 136 dev notes with their marks as JSON lines, for `lmcells evaluate --notes`.

LMCELLS_DATA=FOLDER python benchmarks/further_notes.py notes.jsonl             # or: --half odd
lmcells evaluate default --notes notes.jsonl

`benchmarks/data/further_notes.tsv` lists the short forms of notes drawn at random from those that are not in
`whole_notes_dev.jsonl`, as one language model marked them and another checked; neither had seen the software or its
inventory. It contains no text, which is read from the folder named by LMCELLS_DATA. The model was not trained on
these notes. Errors of the notes whose id has an even SHA-1 were read once they had been scored; the others were not.
"""

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lmcells.files import open_private
from locations import SETS, half_of, text_folder

MARKS = SETS / "further_notes.tsv"


def read_marks() -> dict[str, list[dict[str, Any]]]:
    """Return the marks of each note, by its id; a row without a kind stands for a note without marks."""
    marks = defaultdict(list)
    with MARKS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            of_note, senses = marks[row["id"]], row["senses"].split(";") if row["senses"] else []
            if row["kind"]:
                mark = {"start": int(row["start"]), "end": int(row["end"]), "kind": row["kind"]}
                of_note.append({**mark, "senses": senses})
    return marks


def text_of(row: dict[str, Any]) -> str:
    """Return the text of a note: as it is, or its sections below each other."""
    if row.get("text"):
        return str(row["text"])
    sections = row["sections"]
    return "\n\n".join(
        f"{each['header']}: {each['text']}" if each["header"] else each["text"] for each in sections
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the file of notes (mode 0600)")
    parser.add_argument("--half", choices=("even", "odd"), help="only these notes")
    options = parser.parse_args()
    marks = read_marks()
    sources = {"mtsamples": "mtsamples_raw"}  # of these the plain text
    with open_private(options.output) as file:
        for source in sorted({id_.split("/")[0] for id_ in marks}):
            path = text_folder() / "dev" / f"{sources.get(source, source)}.parquet"
            for row in pq.read_table(path).to_pylist():
                if row["id"] in marks and options.half in (None, half_of(row["id"])):
                    text = text_of(row)
                    of_note = [
                        mark | {"text": text[mark["start"] : mark["end"]]} for mark in marks[row["id"]]
                    ]
                    file.write(json.dumps({"id": row["id"], "text": text, "mentions": of_note}) + "\n")


if __name__ == "__main__":
    main()
