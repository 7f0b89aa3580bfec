"""How well models expand the short forms of a dataset.

evaluate(["default", "dominant"], dataset="dev.jsonl", inventory="senses.csv")   # a list of ModelResult

`TrainingScorer` scores a model while it trains: the paper's accuracy by hours, and which weights to report on which
test set.
"""

import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, InputError
from lmcells.evaluation.dataset import Example, load_section_map, map_section, read_dataset, section_map_of
from lmcells.evaluation.encoder_baselines import elmo_ranker
from lmcells.evaluation.intervals import Interval, bootstrap_intervals
from lmcells.evaluation.metrics import Metrics, measure
from lmcells.evaluation.predictions import Predictions, candidates_of
from lmcells.evaluation.rankers import make_ranker, window_words
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.inventory_files import InventoryLike, load_inventory
from lmcells.expansion.long_form_moments import LongFormOccurrences
from lmcells.expansion.ranking import Ranker, Ranking, best_ranker
from lmcells.files import atomic_folder, read_json, write_json
from lmcells.language_model.folder import PretrainedLanguageModel, save_language_model
from lmcells.notes.note import given_id
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, save_pretrained

if TYPE_CHECKING:  # torch takes seconds to import
    from lmcells.language_model.model import LanguageModel
    from lmcells.model import CellModel

_RUNS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, eq=False)
class ModelResult:
    """A model's predictions on one dataset, its metrics, and its cost."""

    model: str
    predictions: Predictions = field(repr=False)
    metrics: Metrics
    intervals: dict[str, Interval]  # by the name of the metric; empty when all examples are of one note
    n_parameters: int | None  # without embeddings; None when the model has none
    hours_to_peak: float | None  # of training, if the model folder records it
    seconds: float  # to score all examples
    contexts: Mapping[str, Example] = field(repr=False)  # by example id; patient data
    leakage: Mapping[str, Any] | None = None  # of `check_leakage`; None: there was no corpus to compare with
    section_mapping: Mapping[str, int] = field(default_factory=dict)  # how headers were read -> examples

    def to_json(self) -> dict[str, Any]:
        """One object of `lmcells evaluate --json`; never any note text."""
        return {
            "model": self.model,
            **asdict(self.metrics),
            "intervals": {name: asdict(interval) for name, interval in self.intervals.items()},
            "n_parameters": self.n_parameters,
            "hours_to_peak": self.hours_to_peak,
            "seconds": self.seconds,
            "excluded": [asdict(exclusion) for exclusion in self.predictions.excluded],
            "section_mapping": dict(self.section_mapping),
            "leakage": self.leakage,
        }


def evaluate(
    models: str | Path | Sequence[str | Path],
    *,
    dataset: str | Path | Iterable[Example],
    inventory: InventoryLike,
    corpus: str | Path | Corpus | None = None,
    section_map: str | Path | Mapping[str, str | None] | None = None,
    ranking: Ranking = "auto",
    seed: int = 0,
    leakage_check: bool = True,
    on_model: Callable[[str], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> list[ModelResult]:
    """Rank the candidates of every example with each model, and measure; nothing is fitted to the dataset.

    `models` are model folders, "default" or names of baselines; see `lmcells evaluate --help`. `corpus` is the training
    corpus: it supplies counts of long forms, and no test note should be in it. `section_map` maps foreign headers to
    those of the models. `on_model` is called with each model before it starts, `on_warning` with a line about skipped
    rows and about models whose leakage is unknown.
    """
    names = [str(models)] if isinstance(models, str | Path) else [str(model) for model in models]
    _require_different(names)
    if seed < 0:
        raise InputError(f"--seed: found {seed}, allowed: 0 or more.")
    warn = on_warning or (lambda _: None)
    senses = load_inventory(inventory)
    examples = _read(Path(dataset), warn) if isinstance(dataset, str | Path) else list(dataset)
    corpus = Corpus.open(Path(corpus)) if isinstance(corpus, str | Path) else corpus
    if isinstance(section_map, str | Path):
        headers = load_section_map(Path(section_map))
    else:
        headers = section_map_of(section_map or {})
    leakage = None
    if corpus is not None and leakage_check:
        leakage = check_leakage((example.note_id for example in examples), corpus)
    words = window_words(names, corpus=corpus)
    contexts = {example.id: example for example in examples}
    mapped = [map_section(example.section, headers) for example in examples]
    read = [replace(each, section=section) for each, (section, _) in zip(examples, mapped, strict=True)]
    results = []
    for name in names:
        if on_model is not None:
            on_model(name)
        ranker = make_ranker(
            name,
            senses,
            examples=examples,
            corpus=corpus,
            words=words,
            ranking=ranking,
            seed=seed,
        )
        is_of_corpus = corpus is None or ranker.corpus_fingerprint in (None, corpus.manifest.fingerprint)
        if corpus is not None and leakage is not None and not is_of_corpus:
            warn(f"{name} was trained on another corpus than {corpus.folder}: its leakage is unknown")
        started = time.perf_counter()
        predictions = predict(name, ranker, read, senses)
        seconds = time.perf_counter() - started
        sections: Counter[str] = Counter()
        for example, (section, how) in zip(read, mapped, strict=True):
            if ranker.knows is not None and example.short_form in senses:
                sections[how if section is None or ranker.knows(section) else "unknown"] += 1
        results.append(
            ModelResult(
                model=name,
                predictions=predictions,
                metrics=measure(predictions),
                intervals=bootstrap_intervals(predictions, seed=seed),
                n_parameters=ranker.n_parameters,
                hours_to_peak=ranker.hours_to_peak,
                seconds=seconds,
                contexts=contexts,
                leakage=leakage if is_of_corpus else None,
                section_mapping=dict(sections),
            )
        )
    return results


def predict(name: str, ranker: Ranker, examples: Sequence[Example], inventory: SenseInventory) -> Predictions:
    """Score every example whose short form the inventory has."""
    candidates = candidates_of(inventory)
    scored = iter(ranker.scores([each.mention for each in examples if each.short_form in candidates]))
    scores = (next(scored) if each.short_form in candidates else np.zeros(0) for each in examples)
    return Predictions.from_scores(name, examples=examples, scores=scores, candidates_of=candidates)


def _require_different(models: Sequence[str]) -> None:
    """Refuse one model under two names, such as `model` and `./model/`: a report would compare it with itself."""
    seen: dict[str, str] = {}
    for model in models:
        kind, colon, folder = model.rpartition(":")
        meant = f"{kind}{colon}{Path(folder).resolve()}" if Path(folder).exists() else model
        if meant in seen:
            same = "" if seen[meant] == model else f", also as {seen[meant]!r}"
            raise InputError(f"MODEL: {model!r} is given twice{same}. Give each model once.")
        seen[meant] = model


def _read(path: Path, warn: Callable[[str], None]) -> list[Example]:
    report = ReadReport()
    examples = list(read_dataset(path, report=report))
    for reason, n in report.skipped.items():
        warn(f"{n:,} rows skipped: {reason} (first at {report.first_seen[reason]})")
    return examples


def check_leakage(note_ids: Iterable[str], corpus: Corpus) -> dict[str, Any]:
    """Count and list the test notes that are documents of a corpus; `note_ids` has one id per example.

    Finding none means nothing unless one could have been found: `mimic3/12` can be compared with `mimic3/7` and
    `mimic3/9`, but `12` and `mimic/12` cannot. So it is an error if no id of the dataset has the form of a corpus id,
    and notes with ids of other forms are counted.
    """
    written = list(note_ids)
    of_examples, names = list(map(given_id, written)), corpus.metadata_names("document")
    tested, trained = set(of_examples), set(map(given_id, names))
    leaked = tested & trained
    forms = set(map(form_of, trained))
    n_incomparable = sum(form_of(id_) not in forms for id_ in tested)
    if tested and n_incomparable == len(tested):
        raise InputError(
            f"the leakage check cannot match any note: no note_id of the dataset ({_some(set(written))}) has the form "
            f"of an id in {corpus.folder} ({_some(set(names))}). Ids are source/id and must be the same in both. "
            f"If these really are different notes, use --no-leakage-check (in a protocol: leakage_check = false)."
        )
    return {
        "n_leaked_notes": len(leaked),
        "n_notes": len(tested),
        "n_leaked_examples": sum(note_id in leaked for note_id in of_examples),
        "n_incomparable_notes": n_incomparable,
        "n_corpus_notes": len(trained),
        "leaked_notes": sorted(leaked),
    }


def form_of(id_: str) -> str:
    """Return the source of an id, and of the rest each run as `0` (digits), `a` (letters) or `x` (both)."""

    def kind(run: re.Match[str]) -> str:
        return "0" if run.group().isdigit() else "a" if run.group().isalpha() else "x"

    start = id_.find("/") + 1  # 0 where there is no source
    return id_[:start] + _RUNS.sub(kind, id_[start:])


def _some(ids: set[str]) -> str:
    shown = [repr(id_) for id_ in sorted(ids)[:3]]
    return ", ".join([*shown, "..."] if len(ids) > len(shown) else shown) or "none"


BEST = "best"  # in the folder of a training run: a model folder for each dataset

Scores = dict[str, dict[str, float]]  # dataset -> metric -> value


class TrainingScorer:
    """Scores a model on each dataset, as `evaluate --corpus` scores the model folder that it would be saved as.

    With `keep_in`, a folder, it keeps for each dataset the model that was best on the others: the paper reports
    results on one test set, using the others for validation. Best is the highest mean macro F1; of equals the first.
    Everything is read at once, so that a mistake shows before training.
    """

    def __init__(
        self,
        datasets: Sequence[Path],
        *,
        inventories: Sequence[Path],
        corpus: Corpus,
        keep_in: Path | None = None,
    ) -> None:
        if len(inventories) not in (1, len(datasets)):
            raise ConfigError(
                f"--inventory: found {len(inventories)} for {len(datasets)} --evaluate datasets; allowed: one for all, "
                "or one for each in the same order."
            )
        if keep_in is not None and len(datasets) < 2:
            raise ConfigError("--keep-best chooses by the other datasets: give --evaluate at least twice.")
        names = Counter(path.stem for path in datasets)
        if repeated := [name for name, n in names.items() if n > 1]:
            raise ConfigError(
                f"--evaluate: two datasets are called {repeated[0]!r}. Rename one of the files."
            )
        senses = list(map(load_inventory, inventories))
        self._scored = [
            (path.stem, list(read_dataset(path, report=ReadReport())), inventory)
            for path, inventory in zip(datasets, senses * (len(datasets) // len(senses)), strict=True)
        ]
        self._corpus, self._keep_in = corpus, keep_in
        self._occurrences: LongFormOccurrences | None = None  # found once, for all evaluations

    def cells(
        self, model: "CellModel", hours: float, *, metadata_kind: str, settings: Mapping[str, Any]
    ) -> Scores:
        """Score a cell model that is trained with these settings."""
        if self._occurrences is None:
            self._occurrences = LongFormOccurrences(self._corpus, metadata_kind=metadata_kind)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            record = {"seed": settings["seed"], "settings": settings, "hours": hours}
            save_pretrained(model, folder, corpus=self._corpus, metadata_kind=metadata_kind, training=record)
            saved = PretrainedModel.from_pretrained(folder)
            rank = partial(best_ranker, saved, occurrences=self._occurrences)
            return self._score(rank, hours, lambda: folder)

    def elmo(self, model: "LanguageModel", hours: float) -> Scores:
        """Score a language model, on the device where it trains."""
        from lmcells.model import count_parameters

        manifest = {"settings": self._corpus.manifest.settings}
        as_saved = PretrainedLanguageModel(model, self._corpus.words, manifest, {})
        with tempfile.TemporaryDirectory() as temporary:

            def save() -> Path:
                folder, record = Path(temporary) / "model", {"parameters": count_parameters(model)}
                save_language_model(model, folder, corpus=self._corpus, training=record)
                return folder

            return self._score(partial(elmo_ranker, as_saved), hours, save)

    def _score(
        self, ranker_of: Callable[[SenseInventory], Ranker], hours: float, save: Callable[[], Path]
    ) -> Scores:
        scores: Scores = {}
        for name, examples, senses in self._scored:
            with np.errstate(over="ignore", invalid="ignore"):  # where training diverges, the loop says so
                found = measure(predict(name, ranker_of(senses), examples, senses))
            scores[name] = {"accuracy": found.accuracy, "macro_f1": found.macro_f1, "nll": found.nll}
        if self._keep_in is not None:
            for name in scores:
                others = [of_other["macro_f1"] for other, of_other in scores.items() if other != name]
                self._keep_if_best(self._keep_in / name, float(np.mean(others)), hours, save)
        return scores

    @staticmethod
    def _keep_if_best(kept: Path, score: float, hours: float, save: Callable[[], Path]) -> None:
        """Keep a model unless an earlier one of this run is as good; a later one is from an interrupted run."""
        record = kept.with_name(f"{kept.name}.json")
        before: dict[str, Any] = read_json(record) if record.is_file() and kept.is_dir() else {}
        if before and before["hours"] < hours and before["macro_f1_of_others"] >= score:
            return
        with atomic_folder(kept, overwrite=True) as fresh:
            for file in save().iterdir():  # copytree would hide that the disk is full
                shutil.copyfile(file, fresh / file.name)
        write_json(record, {"macro_f1_of_others": score, "hours": hours}, indent=1)
