"""Whether a test set's notes were in the pre-training corpus.

Notes are compared by id, `source/id`. That none is shared means nothing unless one could have been: `mimic3/12` can be
looked for among `mimic3/7, mimic3/9`, `12` and `mimic/12` cannot. So each id has a *form* (its source, and the kinds of
characters that follow). A dataset of which no id has the form of any in the corpus is an error, not a clean bill of
health; notes whose form the corpus does not have are counted, so that a check of a part does not pass for a whole.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from lmcells.corpus import Corpus
from lmcells.errors import InputError

_SHOWN = 3
_WAIVER = "--no-leakage-check"
_RUNS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Leakage:
    """The test notes that the model may have read, of all test notes."""

    leaked: tuple[str, ...]  # note ids, sorted
    n_notes: int
    n_examples: int  # that stand in leaked notes
    n_incomparable: int  # test notes with an id of a form that no note of the corpus has
    n_corpus_notes: int

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "n_leaked_notes": len(self.leaked),
            "n_notes": self.n_notes,
            "n_leaked_examples": self.n_examples,
            "n_incomparable_notes": self.n_incomparable,
            "n_corpus_notes": self.n_corpus_notes,
            "leaked_notes": list(self.leaked),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(
            leaked=tuple(saved["leaked_notes"]),
            n_notes=saved["n_notes"],
            n_examples=saved["n_leaked_examples"],
            n_incomparable=saved["n_incomparable_notes"],
            n_corpus_notes=saved["n_corpus_notes"],
        )


def check_leakage(note_ids: Iterable[str], corpus: Corpus, *, waiver: str = _WAIVER) -> Leakage:
    """List the test notes that are documents of a corpus; `note_ids` has one id an example.

    `waiver` is what the user can write where the notes are truly others.
    """
    documents = corpus.metadata_names("document")
    return find_leakage(note_ids, documents, corpus_name=str(corpus.folder), waiver=waiver)


def find_leakage(
    note_ids: Iterable[str], documents: Iterable[str], *, corpus_name: str, waiver: str = _WAIVER
) -> Leakage:
    """The same for the ids of the corpus' documents."""
    of_examples = list(note_ids)
    tested, trained = set(of_examples), set(documents)
    leaked = tested & trained
    forms = set(map(form_of, trained))
    n_incomparable = sum(form_of(id_) not in forms for id_ in tested)
    if tested and n_incomparable == len(tested):
        raise InputError(
            f"the leakage check can match nothing: no note_id of the dataset ({_some(tested)}) has the form of any id "
            f"in {corpus_name} ({_some(trained)}). Ids are source/id and must be written the same in both. If these "
            f"are truly different notes, say so with {waiver}."
        )
    return Leakage(
        leaked=tuple(sorted(leaked)),
        n_notes=len(tested),
        n_examples=sum(note_id in leaked for note_id in of_examples),
        n_incomparable=n_incomparable,
        n_corpus_notes=len(trained),
    )


def form_of(id_: str) -> str:
    """Return the source of an id, and of the rest each run as `0` (digits), `a` (letters) or `x` (both)."""
    start = id_.find("/") + 1  # 0 where there is no source
    return id_[:start] + _RUNS.sub(_kind_of_run, id_[start:])


def _kind_of_run(run: re.Match[str]) -> str:
    return "0" if run.group().isdigit() else "a" if run.group().isalpha() else "x"


def _some(ids: set[str]) -> str:
    shown = sorted(ids)[:_SHOWN]
    return ", ".join(map(repr, shown)) + (", ..." if len(ids) > _SHOWN else "") if shown else "none"
