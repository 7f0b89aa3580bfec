"""Scores of a model while it trains: the paper's figure of accuracy by hours of pre-training."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.expansion.inventory import load_inventory
from lmcells.expansion.ranking import CellRanker
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, save_pretrained

if TYPE_CHECKING:
    from lmcells.model import CellModel


def evaluation_hook(
    datasets: Sequence[Path], *, inventory: Path, corpus: Corpus, metadata_kind: str
) -> Callable[["CellModel", float], dict[str, Any]]:
    """Read everything now, so that a mistake shows before training; return what scores a model on each dataset."""
    senses = load_inventory(inventory)
    examples = {path.stem: list(read_dataset(path, report=ReadReport())) for path in datasets}

    def evaluate(model: "CellModel", _: float) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            save_pretrained(model, Path(folder) / "model", corpus=corpus, metadata_kind=metadata_kind)
            ranker = CellRanker(PretrainedModel.from_pretrained(Path(folder) / "model"), senses)
            measured = {name: measure(predict(name, ranker, each, senses)) for name, each in examples.items()}
        return {
            name: {"accuracy": found.accuracy, "macro_f1": found.macro_f1, "nll": found.nll}
            for name, found in measured.items()
        }

    return evaluate
