"""A model and a dataset -> predictions."""

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import lmcells
from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.elmo_ranker import ElmoRanker
from lmcells.evaluation.intervals import Interval, bootstrap_intervals
from lmcells.evaluation.metrics import Metrics, measure
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.rankers import NamedRanker
from lmcells.expansion.inventory import SenseInventory, load_inventory
from lmcells.expansion.ranking import CellRanker, Ranker
from lmcells.expansion.windows import Mention
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, save_pretrained

if TYPE_CHECKING:
    from lmcells.language_model.model import LanguageModel
    from lmcells.model import CellModel


# Whether a test set's notes were in the pre-training corpus.
#
# Notes are compared by id, `source/id`. That none is shared means nothing unless one could have been: `mimic3/12` can be
# looked for among `mimic3/7, mimic3/9`, `12` and `mimic/12` cannot. So each id has a *form* (its source, and the kinds of
# characters that follow). A dataset of which no id has the form of any in the corpus is an error, not a clean bill of
# health; notes whose form the corpus does not have are counted, so that a check of a part does not pass for a whole.


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


# One model on one dataset: all that the terminal, `--json` and the report show.


@dataclass(frozen=True, eq=False)
class ModelResult:
    """What a model said, how good it was, and what it cost."""

    model: str
    predictions: Predictions = field(repr=False)
    metrics: Metrics
    intervals: dict[str, Interval]  # by the name of the metric; empty when all examples are of one note
    n_parameters: int | None  # without embeddings; None when the model has none
    hours_to_peak: float | None  # of training, where the model folder tells
    seconds: float  # to score all examples
    contexts: Mapping[str, Example] = field(repr=False)  # by example id; patient data
    leakage: Leakage | None = None  # None: there was no corpus to compare with
    section_mapping: Mapping[str, int] = field(default_factory=dict)  # how headers were mapped -> examples

    def to_json(self) -> dict[str, Any]:
        """One object of `lmcells evaluate --json`; never any note text."""
        return {
            "model": self.model,
            **self.metrics.to_json(),
            "intervals": {name: asdict(interval) for name, interval in self.intervals.items()},
            "n_parameters": self.n_parameters,
            "hours_to_peak": self.hours_to_peak,
            "seconds": self.seconds,
            "excluded": [asdict(exclusion) for exclusion in self.predictions.excluded],
            "section_mapping": dict(self.section_mapping),
            "leakage": None if self.leakage is None else self.leakage.to_json(),
        }


# A model and a dataset -> predictions.


def predict(name: str, ranker: Ranker, examples: Sequence[Example], inventory: SenseInventory) -> Predictions:
    """Score every example whose short form the inventory has."""
    known = [example for example in examples if example.short_form in inventory]
    mentions = [Mention(each.text, each.start, each.end, each.short_form, each.section) for each in known]
    widest = max((len(inventory.senses(each.short_form)) for each in known), default=0)
    by_example = dict(zip((each.id for each in known), ranker.scores(mentions), strict=True))
    scores = np.full((len(examples), widest), -np.inf)
    for row, example in enumerate(examples):
        if example.id in by_example:
            scores[row, : by_example[example.id].size] = by_example[example.id]
    candidates_of = {
        short_form: [sense.long_form for sense in inventory.senses(short_form)]
        for short_form in inventory.short_forms
    }
    return Predictions.from_scores(name, examples=examples, scores=scores, candidates_of=candidates_of)


# One ranker on one dataset, from scores to a result.


def run_model(
    named: NamedRanker,
    examples: Sequence[Example],
    inventory: SenseInventory,
    *,
    leakage: Leakage | None = None,
    seed: int = 0,
) -> ModelResult:
    """Score every example, measure, and put intervals around the metrics."""
    started = time.perf_counter()
    predictions = predict(named.name, named.ranker, examples, inventory)
    seconds = time.perf_counter() - started
    return ModelResult(
        model=named.name,
        predictions=predictions,
        metrics=measure(predictions),
        intervals=_intervals(predictions, seed=seed),
        n_parameters=named.n_parameters,
        hours_to_peak=named.hours_to_peak,
        seconds=seconds,
        contexts={example.id: example for example in examples},
        leakage=leakage,
        section_mapping={}
        if named.sections is None
        else {str(how): n for how, n in named.sections.counts.items()},
    )


def _intervals(predictions: Predictions, *, seed: int) -> dict[str, Interval]:
    """Bootstrap over notes; of one note there is nothing to draw from."""
    if not predictions.cluster.max(initial=0):
        return {}
    return bootstrap_intervals(predictions, seed=seed)


# Scores of a model while it trains: the paper's figure of accuracy by hours of pre-training.


Scores = dict[str, Any]


def evaluation_hook(
    datasets: Sequence[Path], *, inventory: Path, corpus: Corpus, metadata_kind: str
) -> Callable[["CellModel", float], Scores]:
    """Read everything now, so that a mistake shows before training; return what scores a model on each dataset."""
    score = _Scorer(datasets, inventory)

    def evaluate(model: "CellModel", _: float) -> Scores:
        with tempfile.TemporaryDirectory() as folder:
            save_pretrained(model, Path(folder) / "model", corpus=corpus, metadata_kind=metadata_kind)
            return score(CellRanker(PretrainedModel.from_pretrained(Path(folder) / "model"), score.senses))

    return evaluate


def elmo_evaluation_hook(
    datasets: Sequence[Path], *, inventory: Path, corpus: Corpus
) -> Callable[["LanguageModel", float], Scores]:
    """The same for a language model, which is scored on the device where it trains."""
    from lmcells.language_model.folder import PretrainedLanguageModel

    score = _Scorer(datasets, inventory)

    def evaluate(model: "LanguageModel", _: float) -> Scores:
        as_saved = PretrainedLanguageModel(
            Path(), model, corpus.words, {"settings": corpus.manifest.settings}, {}, lmcells.__version__
        )
        return score(ElmoRanker(as_saved, score.senses))

    return evaluate


class _Scorer:
    """Datasets that rankers are measured on, one after the other."""

    def __init__(self, datasets: Sequence[Path], inventory: Path) -> None:
        self.senses: SenseInventory = load_inventory(inventory)
        self._examples = {path.stem: list(read_dataset(path, report=ReadReport())) for path in datasets}

    def __call__(self, ranker: Ranker) -> Scores:
        measured = {
            name: measure(predict(name, ranker, each, self.senses)) for name, each in self._examples.items()
        }
        return {
            name: {"accuracy": found.accuracy, "macro_f1": found.macro_f1, "nll": found.nll}
            for name, found in measured.items()
        }
