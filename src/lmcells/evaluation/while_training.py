"""Scores of a model while it trains: the paper's figure of accuracy by hours of pre-training."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmcells
from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.elmo_ranker import ElmoRanker
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.expansion.inventory import SenseInventory, load_inventory
from lmcells.expansion.rankers import Ranker
from lmcells.expansion.ranking import CellRanker
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, save_pretrained

if TYPE_CHECKING:
    from lmcells.language_model.model import LanguageModel
    from lmcells.model import CellModel

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
