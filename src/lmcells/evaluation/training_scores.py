"""Scores of a model while it trains: the paper's accuracy by hours, and which weights to report on which test set."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.encoder_baselines import elmo_ranker
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.rankers import rank_cells
from lmcells.expansion.inventory import SenseInventory, load_inventory
from lmcells.expansion.long_forms import LongFormOccurrences
from lmcells.expansion.ranking import Ranker
from lmcells.files import put_in_place, read_json, write_json
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, save_pretrained

if TYPE_CHECKING:  # torch takes seconds to import
    from lmcells.language_model.model import LanguageModel
    from lmcells.model import CellModel

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
                f"--inventory: found {len(inventories)} for {len(datasets)} of --evaluate; allowed: one for all, or "
                "one for each in the same order."
            )
        if keep_in is not None and len(datasets) < 2:
            raise ConfigError("--keep-best chooses by the other datasets: give --evaluate at least twice.")
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
            rank = partial(rank_cells, saved, occurrences=self._occurrences)
            return self._score(rank, hours, lambda: folder)

    def elmo(self, model: "LanguageModel", hours: float) -> Scores:
        """Score a language model, on the device where it trains."""
        from lmcells.language_model.folder import PretrainedLanguageModel, save_language_model
        from lmcells.model import count_parameters

        manifest = {"settings": self._corpus.manifest.settings}
        as_saved = PretrainedLanguageModel(model, self._corpus.words, manifest, {})
        with tempfile.TemporaryDirectory() as temporary:

            def save() -> Path:
                folder, record = Path(temporary) / "model", {"parameters": count_parameters(model)}
                if not folder.exists():
                    save_language_model(model, folder, corpus=self._corpus, training=record)
                return folder

            return self._score(partial(elmo_ranker, as_saved), hours, save)

    def _score(
        self, ranker_of: Callable[[SenseInventory], Ranker], hours: float, save: Callable[[], Path]
    ) -> Scores:
        scores: Scores = {}
        for name, examples, senses in self._scored:
            found = measure(predict(name, ranker_of(senses), examples, senses))
            scores[name] = {"accuracy": found.accuracy, "macro_f1": found.macro_f1, "nll": found.nll}
        if self._keep_in is not None:
            for name in scores:
                others = [of_other["macro_f1"] for other, of_other in scores.items() if other != name]
                self._keep_if_best(self._keep_in / name, float(np.mean(others)), hours, save)
        return scores

    @staticmethod
    def _keep_if_best(kept: Path, score: float, hours: float, save: Callable[[], Path]) -> None:
        """Keep a model unless an earlier one of this run is as good; a later one is of a run that stopped."""
        record = kept.with_name(f"{kept.name}.json")
        before: dict[str, Any] = read_json(record) if record.is_file() and kept.is_dir() else {}
        if before and before["hours"] < hours and before["macro_f1_of_others"] >= score:
            return
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_name(f"{kept.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(save(), fresh)
        put_in_place(fresh, kept)
        write_json(record, {"macro_f1_of_others": score, "hours": hours}, indent=1)
