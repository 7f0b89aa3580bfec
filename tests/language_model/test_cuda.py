"""A language model on a GPU: it never waits for the device, and learns what it learns on the CPU."""

from pathlib import Path

import pytest
import torch

from corpora import corpus_of
from language_model.small_models import planted_corpus, small_config, small_settings
from lmcells.language_model.train import LanguageModelTask, train_language_model
from lmcells.training.distributed import World

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
]
KINDS = pytest.mark.parametrize("kind", ["transformer", "bilstm"])


@KINDS
@pytest.mark.parametrize("full_softmax", [8192, 0], ids=["exact", "sampled"])
def test_no_step_waits_for_the_device(tmp_path: Path, kind: str, full_softmax: int) -> None:
    corpus = planted_corpus(tmp_path, n_notes=200)
    task = LanguageModelTask(
        corpus,
        config=small_config(len(corpus.words), kind=kind),
        settings=small_settings(epochs=5, batch_size=192, full_softmax=full_softmax, negatives=16),
        world=World(torch.device("cuda", 0)),
    )
    task.model.train()
    steps = task.steps()
    for _ in range(4):
        next(steps)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@KINDS
def test_it_learns_as_on_the_cpu(tmp_path: Path, kind: str) -> None:
    corpus = corpus_of(tmp_path / "notes", ["HPI: chest pain and fever since monday"] * 60)
    losses = [
        train_language_model(
            corpus,
            model_config=small_config(len(corpus.words), kind=kind, dropout=0.0),
            settings=small_settings(epochs=10),
            output=tmp_path / device,
            device=device,
        ).record["held_out_loss"]
        for device in ("cpu", "cuda")
    ]
    assert losses[0] == pytest.approx(losses[1], abs=0.1)
