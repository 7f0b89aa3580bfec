"""Measure recall and precision of `find_definitions` on published sets of abbreviation definitions.

python benchmarks/definitions.py definitions.jsonl

The file has one passage per line: `{"id", "text", "definitions": [{"short_form", "long_form"}]}` (BIOADI, Schwartz and
Hearst; free for research only, so not in this repository). The pairs of a passage are compared as sets, with short
forms as written in the text ("NLSs" where a definition says NLS); case, hyphens, commas and a final s are ignored.
Rules and thresholds were chosen on the passages whose id has an even SHA-1.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from lmcells.notes.definitions import find_definitions
from locations import half_of


def normalised(short_form: str, long_form: str) -> tuple[str, ...]:
    """Return a pair as it is compared."""
    texts = (text.lower().replace("-", " ").replace(",", " ") for text in (short_form, long_form))
    return tuple(" ".join(text.split()).removesuffix("s") for text in texts)


def found_in(text: str) -> set[tuple[str, ...]]:
    """Return the definitions that are found in a text."""
    return {normalised(text[each.start : each.end], each.long_form) for each in find_definitions(text)}


def gold_of(row: dict[str, Any]) -> set[tuple[str, ...]]:
    """Return the definitions that a passage has."""
    return {normalised(each["short_form"], each["long_form"]) for each in row["definitions"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("passages", type=Path, help="JSON lines with gold definitions")
    options = parser.parse_args()
    counts = {"even": Counter[str](), "odd": Counter[str]()}
    for line in options.passages.read_text("utf-8").splitlines():
        row = json.loads(line)
        found = found_in(row["text"])
        gold = gold_of(row)
        half = half_of(row["id"])
        counts[half].update(passages=1, found=len(found), gold=len(gold), right=len(found & gold))
    for name, n in (("all", counts["even"] + counts["odd"]), *counts.items()):
        precision, recall = n["right"] / max(1, n["found"]), n["right"] / max(1, n["gold"])
        size = f"{n['passages']:,} passages, {n['gold']:,} definitions"
        print(f"{name:4}  {size}: precision {precision:.3f}, recall {recall:.3f}")


if __name__ == "__main__":
    main()
