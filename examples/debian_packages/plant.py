"""Plant words with two meanings: two words of different sections get one spelling in half of the notes.

    python plant.py notes.jsonl --corpus corpus --output planted.jsonl --pairs pairs.json

"guitar" and "compiler" become "guitarcompiler" in every other note and stay what they are in the rest, so that it is
known which word a cell of "guitarcompiler" should be near under which section. Under each of its two sections at least
nine in ten occurrences are of one word. Every second pair is for choosing settings, the others are for reporting.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from lmcells.corpus import Corpus, WordMetadataCounts, count_words_by_metadata
from lmcells.errors import InputError, LmcellsError
from lmcells.notes.tokens import iterate_tokens

CATEGORY = "category"
MIN_SHARE = 0.25  # of a word's occurrences that are under its section
MAX_FOREIGN = 0.1  # of a planted word's occurrences under a section that may be of the other word
MIN_LETTERS = 4


@dataclass(frozen=True)
class Meaning:
    """A word, the section in which it is at home, and how often it occurs there and anywhere."""

    word: str
    section: str
    n_there: int
    n: int


@dataclass(frozen=True)
class Pair:
    """A planted word with two meanings."""

    word: str
    meanings: tuple[Meaning, Meaning]
    is_reported: bool  # or else it is for choosing settings


def meanings_of(
    words: Sequence[str], counts: WordMetadataCounts, sections: Sequence[str], *, min_count: int
) -> Iterator[tuple[Meaning, Counter[str]]]:
    """Words that have a home among the sections, with their counts under all of them."""
    for id_, word in enumerate(words):
        row = slice(counts.offsets[id_], counts.offsets[id_ + 1])
        n = int(counts.counts[row].sum())
        is_plain = word.isascii() and word.isalpha() and len(word) >= MIN_LETTERS
        if not is_plain or n < min_count:
            continue
        names = (sections[section] for section in counts.metadata[row].tolist())
        here = Counter(dict(zip(names, counts.counts[row].tolist(), strict=True)))
        home, n_there = here.most_common(1)[0]
        if n_there >= MIN_SHARE * n and word != home:
            yield Meaning(word, home, n_there, n), here


def choose_pairs(
    found: Iterable[tuple[Meaning, Counter[str]]], *, n_pairs: int, max_per_section: int, seed: int
) -> list[Pair]:
    """Draw pairs of like frequency from different sections; no word is used twice, no section too often."""
    shuffled = list(found)
    random.Random(seed).shuffle(shuffled)
    counts = {meaning.word: under for meaning, under in shuffled}
    waiting: list[Meaning] = []
    used: Counter[str] = Counter()
    pairs: list[Pair] = []
    for first, _ in shuffled:
        if len(pairs) == n_pairs or used[first.section] == max_per_section:
            continue
        second = next((other for other in waiting if _go_together(first, other, counts)), None)
        used[first.section] += 1
        if second is None:
            waiting.append(first)
        else:
            waiting.remove(second)
            word = first.word + second.word
            pairs.append(Pair(word, (first, second), is_reported=len(pairs) % 2 == 1))
    return pairs


def _go_together(first: Meaning, second: Meaning, counts: dict[str, Counter[str]]) -> bool:
    spelled = first.word + second.word
    return (
        first.section != second.section
        and max(first.n, second.n) <= 2 * min(first.n, second.n)
        and spelled not in counts
        and counts[second.word][first.section] <= MAX_FOREIGN * first.n_there
        and counts[first.word][second.section] <= MAX_FOREIGN * second.n_there
    )


def is_changed(note_id: str) -> bool:
    """Whether this note gets planted words: half of them do, always the same half."""
    return crc32(note_id.encode()) % 2 == 0


def plant(text: str, spelled: dict[str, str]) -> str:
    """Spell some words differently."""
    pieces, position = [], 0
    for token in iterate_tokens(text):
        if token.word in spelled:
            pieces += [text[position : token.start], spelled[token.word]]
            position = token.end
    return "".join((*pieces, text[position:]))


def plant_notes(lines: Iterable[str], pairs: Iterable[Pair]) -> Iterator[str]:
    """Change every other note; the rest stay as they are."""
    spelled = {meaning.word: pair.word for pair in pairs for meaning in pair.meanings}
    for line in lines:
        note = json.loads(line)
        if is_changed(note["id"]):
            for section in note["sections"]:
                section["text"] = plant(section["text"], spelled)
        yield json.dumps(note, ensure_ascii=False) + "\n"


def read_pairs(path: Path) -> list[Pair]:
    """Read what was planted."""
    pairs = []
    for pair in json.loads(path.read_text(encoding="utf-8")):
        first, second = (Meaning(**each) for each in pair["meanings"])
        pairs.append(Pair(pair["word"], (first, second), is_reported=pair["is_reported"]))
    return pairs


def run(options: argparse.Namespace) -> None:
    """Choose the pairs, plant them, and show some."""
    corpus = Corpus.open(options.corpus)
    counts, sections = count_words_by_metadata(corpus, CATEGORY), corpus.metadata_names(CATEGORY)
    pairs = choose_pairs(
        meanings_of(corpus.words, counts, sections, min_count=options.min_count),
        n_pairs=options.n_pairs,
        max_per_section=options.max_per_section,
        seed=options.seed,
    )
    if not pairs:
        raise InputError(
            f"{options.corpus} has no two words of different sections that were seen {options.min_count} times. "
            "Lower --min-count."
        )
    with options.notes.open(encoding="utf-8") as lines, options.output.open("w", encoding="utf-8") as file:
        file.writelines(plant_notes(lines, pairs))
    options.pairs.write_text(json.dumps([asdict(pair) for pair in pairs], indent=1) + "\n", encoding="utf-8")
    used = {meaning.section for pair in pairs for meaning in pair.meanings}
    n = np.median([meaning.n for pair in pairs for meaning in pair.meanings])
    print(f"{options.pairs}: {len(pairs)} words with two meanings, of {len(used)} sections,")
    print(f"the words in them were seen {n:.0f} times (median); for example:")
    for pair in pairs[:5]:
        print("  " + " and ".join(f"{meaning.word} ({meaning.section})" for meaning in pair.meanings))


def main() -> int:
    """Parse the options and run; an error is one line, and exit code 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notes", type=Path, metavar="NOTES", help="what make_notes.py wrote")
    parser.add_argument("--corpus", type=Path, required=True, help="what lmcells prepare made of them")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="NOTES", help="notes with planted words"
    )
    parser.add_argument("--pairs", type=Path, required=True, metavar="FILE", help="what was planted (JSON)")
    parser.add_argument("--n-pairs", type=int, default=120, metavar="N", help="how many (120)")
    parser.add_argument("--min-count", type=int, default=100, metavar="N", help="of a word in a pair (100)")
    parser.add_argument(
        "--max-per-section", type=int, default=12, metavar="N", help="words of a section (12)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (0)")
    try:
        run(parser.parse_args())
    except (LmcellsError, OSError) as error:
        print(f"plant.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
