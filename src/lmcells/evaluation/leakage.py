"""Whether a test set's notes were in the pre-training corpus.

Notes are compared by id, `source/id`. Where no id is shared, that means nothing unless it could have been otherwise:
`mimic3/12` can be found among `mimic3/7, mimic3/9`, but `12` cannot. So ids are also compared by *shape* (the source,
and the kinds of characters of what follows it), and a dataset of which no id has the shape of any in the corpus, and
no source is one of the corpus', is an error rather than a clean bill of health.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import InputError

_SHOWN = 3
_RUNS = re.compile(r"[A-Za-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Leakage:
    """The test notes that the model may have read, of all test notes."""

    leaked: tuple[str, ...]  # note ids, sorted
    n_notes: int
    n_examples: int  # that stand in leaked notes
    n_corpus_notes: int

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "n_leaked_notes": len(self.leaked),
            "n_notes": self.n_notes,
            "n_leaked_examples": self.n_examples,
            "n_corpus_notes": self.n_corpus_notes,
            "leaked_notes": list(self.leaked),
        }


def check_leakage(note_ids: Iterable[str], corpus: Corpus) -> Leakage:
    """List the test notes that are documents of a corpus; `note_ids` has one id an example."""
    return find_leakage(note_ids, corpus.metadata_names("document"), corpus_name=str(corpus.folder))


def find_leakage(note_ids: Iterable[str], documents: Iterable[str], *, corpus_name: str) -> Leakage:
    """The same for the corpus' document ids."""
    of_examples = list(note_ids)
    tested, trained = set(of_examples), set(documents)
    leaked = tested & trained
    if tested and not leaked:
        _require_comparable(tested, trained, corpus_name=corpus_name)
    return Leakage(
        leaked=tuple(sorted(leaked)),
        n_notes=len(tested),
        n_examples=sum(note_id in leaked for note_id in of_examples),
        n_corpus_notes=len(trained),
    )


def _require_comparable(tested: set[str], trained: set[str], *, corpus_name: str) -> None:
    if {_source(id_) for id_ in tested} & {_source(id_) for id_ in trained} - {None}:
        return
    if {shape_of(id_) for id_ in tested} & {shape_of(id_) for id_ in trained}:
        return
    raise InputError(
        f"the leakage check can match nothing: no note_id of the dataset ({_some(tested)}) has the form of any "
        f"document id in {corpus_name} ({_some(trained)}). Ids are source/id and must be written the same in both. "
        "Make dataset and corpus from the same files, or evaluate without --corpus."
    )


def _source(id_: str) -> str | None:
    source, slash, _ = id_.partition("/")
    return source if slash else None


def shape_of(id_: str) -> str:
    """Return the source of an id, and the rest with its runs of letters and digits as `a` and `0`."""
    source, slash, rest = id_.partition("/")
    rest = _RUNS.sub(lambda run: "0" if run.group().isdigit() else "a", rest if slash else id_)
    return f"{source}/{rest}" if slash else rest


def _some(ids: set[str]) -> str:
    shown = sorted(ids)[:_SHOWN]
    return ", ".join(map(repr, shown)) + (", ..." if len(ids) > _SHOWN else "") if shown else "none"
