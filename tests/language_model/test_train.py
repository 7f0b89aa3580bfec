"""Training: it learns what was planted, stops when there is nothing more to learn, and goes on after a stop."""

import math
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpora import corpus_of
from language_model.small_models import (
    FILLERS,
    PLANTED,
    planted_corpus,
    small_config,
    small_settings,
    texts_of,
)
from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.language_model.model import LanguageModel
from lmcells.language_model.train import EarlyStopping, cut_windows, train_language_model
from lmcells.pretrain import train
from lmcells.training import Progress, TrainingStopped
from lmcells.training.checkpoint import load_newest
from lmcells.training.distributed import CHUNKS, derived_seed
from lmcells.training.loop import TrainingResult
from lmcells.training.metrics import read_metrics

KINDS = pytest.mark.parametrize("kind", ["transformer", "bilstm"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"))


def run(
    corpus: Corpus, output: Path, *, kind: Any = "transformer", **given: Any
) -> TrainingResult[LanguageModel]:
    """`given` are settings and options of `train_language_model`."""
    names = ("resume", "on_progress", "evaluate")
    options = {name: given.pop(name) for name in names if name in given}
    config, settings = small_config(len(corpus.words), kind=kind), small_settings(**given)
    return train_language_model(
        corpus, model_config=config, settings=settings, output=output, device="cpu", **options
    )


def unigram_entropy(corpus: Corpus) -> float:
    counts = Counter(corpus.tokens.tolist())
    return -sum(n / corpus.tokens.size * math.log(n / corpus.tokens.size) for n in counts.values())


def next_words(
    result: TrainingResult[LanguageModel], corpus: Corpus, row: list[str]
) -> tuple[dict[str, float], ...]:
    """How likely each word is after a row of words, and before it."""
    with torch.no_grad():
        states = torch.stack([each[0, -1] for each in result.model(texts_of([row]))])
        chances = result.model.vocabulary.logits(states).softmax(dim=-1).tolist()
    return tuple(dict(zip(corpus.words, each, strict=True)) for each in chances)


@pytest.mark.parametrize(("kind", "full_softmax"), [("transformer", 8192), ("bilstm", 0)])
def test_it_learns_which_word_goes_before_which(
    corpus: Corpus, tmp_path: Path, kind: str, full_softmax: int
) -> None:
    result = run(corpus, tmp_path, kind=kind, epochs=8, full_softmax=full_softmax, negatives=64)
    losses = held_out_losses(tmp_path)
    assert losses[-1] < losses[0]
    assert result.record["held_out_loss"] == min(losses)
    assert result.record["held_out_loss"] < unigram_entropy(corpus) - 0.3
    after, _ = next_words(result, corpus, [FILLERS[0], PLANTED[0]])
    _, before = next_words(result, corpus, [PLANTED[1], FILLERS[1]])
    assert after[PLANTED[1]] > 0.9
    assert before[PLANTED[0]] > 0.9
    filler_after, _ = next_words(result, corpus, [FILLERS[0]])
    assert filler_after[PLANTED[1]] < 0.1


def held_out_losses(output: Path) -> list[float]:
    return [line["held_out_loss"] for line in read_metrics(output) if "held_out_loss" in line]


def test_it_stops_when_the_held_out_loss_is_flat(corpus: Corpus, tmp_path: Path) -> None:
    flat = {"epochs": 50, "flat_tolerance": 0.02, "flat_patience": 2}
    result = run(corpus, tmp_path, **flat)
    assert result.record["ended_by"] == "flat"
    losses = held_out_losses(tmp_path)
    assert 3 <= len(losses) < 50
    assert min(losses[-2:]) > 0.97 * min(losses[:-2])
    assert result.record["held_out_loss"] == min(losses)
    again = run(corpus, tmp_path, **flat, resume=True)
    assert again.record["ended_by"] == "flat"
    assert all(again.record[name] == result.record[name] for name in ("steps", "peak"))


def test_it_says_that_the_epochs_were_over_before_the_loss_was_flat(corpus: Corpus, tmp_path: Path) -> None:
    result = run(corpus, tmp_path, epochs=2)
    assert result.record["ended_by"] == "epochs"
    assert len(held_out_losses(tmp_path)) == 2


def test_the_rate_halves_where_a_check_brings_no_improvement(corpus: Corpus, tmp_path: Path) -> None:
    seen: list[Progress] = []
    run(corpus, tmp_path, epochs=50, flat_tolerance=0.9, flat_patience=3, on_progress=seen.append)
    after_checks = [each.metrics["learning_rate"] for each in seen if "held_out_loss" in each.losses]
    assert after_checks == pytest.approx([1e-2, 5e-3, 2.5e-3, 1.25e-3])


def test_without_scores_the_peak_is_the_lowest_held_out_loss(corpus: Corpus, tmp_path: Path) -> None:
    record = run(corpus, tmp_path, epochs=3).record
    lines = [line for line in read_metrics(tmp_path) if "held_out_loss" in line]
    best = min(lines, key=lambda line: line["held_out_loss"])
    peak = {"metric": "held_out_loss", "score": best["held_out_loss"], "step": best["step"]}
    assert record["peak"] == {**peak, "hours": best["seconds"] / 3600}
    assert 0 < record["hours_to_peak"] == record["peak"]["hours"] <= record["seconds"] / 3600


def test_the_held_out_documents_are_never_trained_on(tmp_path: Path) -> None:
    """Each note has a word of its own: the gradient of the words that are only in held-out notes stays zero."""
    notes = [f"HPI: own{number}x own{number}y pain and fever" for number in range(40)]
    corpus = corpus_of(tmp_path / "notes", [note.replace("0", "zero") for note in notes])
    result = run(corpus, tmp_path / "run", epochs=1, full_softmax=0, negatives=1, learning_rate=1e-2)
    seed = derived_seed(0, CHUNKS)
    training, held_out = cut_windows(corpus, window=16, held_out=0.1, seed=seed)
    words = [
        {int(token) for start, length in zip(each.starts, each.lengths, strict=True)
         for token in corpus.tokens[start : start + length]}
        for each in (training, held_out)
    ]  # fmt: skip
    only_held_out = sorted(words[1] - words[0])
    assert len(only_held_out) >= 4
    start = np.log(corpus.word_counts / corpus.word_counts.sum())
    biases = result.model.vocabulary.biases.weight.detach()[:, 0].double().numpy()
    moved = np.abs(biases - start) > 1e-4
    trained = sorted(words[0] - words[1])
    assert moved[trained].all()
    assert moved[only_held_out].sum() <= 2  # those that were drawn as negatives, one a step


def test_the_model_is_that_of_the_lowest_held_out_loss(corpus: Corpus, tmp_path: Path) -> None:
    """A learning rate that ruins the model after the first measurements."""
    seen: list[Progress] = []
    result = run(
        corpus, tmp_path, epochs=3, check_steps=3, flat_patience=100, learning_rate=5.0, warmup_steps=60,
        gradient_clip=0.0, decay="root", on_progress=seen.append,
    )  # fmt: skip
    measured = [each.losses["held_out_loss"] for each in seen if "held_out_loss" in each.losses]
    assert measured[-1] > min(measured)
    assert result.record["held_out_loss"] == min(measured)
    assert seen[-1].losses["best_held_out_loss"] == min(measured)
    found = load_newest(tmp_path)
    assert found is not None
    _, saved = found
    for name, value in result.model.state_dict().items():
        assert np.array_equal(saved[f"best.{name}"], value.numpy()), name
    biases = result.model.vocabulary.biases.weight.detach().numpy()
    assert not np.array_equal(saved["model.vocabulary.biases.weight"], biases)


@KINDS
def test_a_run_that_was_stopped_ends_as_if_it_never_was(corpus: Corpus, tmp_path: Path, kind: str) -> None:
    settings = {"kind": kind, "epochs": 3, "full_softmax": 0, "negatives": 8, "report_steps": 1}
    expected = run(corpus, tmp_path / "whole", **settings)

    def stop_at_12(progress: Progress) -> None:
        if progress.metrics["step"] == 12:  # in the middle of an epoch
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(TrainingStopped, match="stopped by SIGTERM at step 13"):
        run(corpus, tmp_path / "parts", on_progress=stop_at_12, **settings)
    found = run(corpus, tmp_path / "parts", resume=True, **settings)
    for name in ("steps", "words", "held_out_loss"):
        assert found.record[name] == expected.record[name]
    weights = found.model.state_dict()
    for name, value in expected.model.state_dict().items():
        assert torch.equal(weights[name], value), name
    steps = [line["step"] for line in read_metrics(tmp_path / "parts")]
    assert steps == list(range(1, expected.record["steps"] + 1))


def test_the_seed_decides_everything_and_the_global_one_is_left_alone(corpus: Corpus, tmp_path: Path) -> None:
    torch.manual_seed(5)
    untouched = torch.rand(3)
    torch.manual_seed(5)
    first = run(corpus, tmp_path / "a", epochs=1, seed=1)
    assert torch.equal(torch.rand(3), untouched)
    again = run(corpus, tmp_path / "b", epochs=1, seed=1)
    other = run(corpus, tmp_path / "c", epochs=1, seed=2)
    losses = [each.record["held_out_loss"] for each in (first, again, other)]
    assert losses[0] == losses[1] != losses[2]


def test_every_word_that_is_not_held_out_is_read_once_an_epoch(corpus: Corpus, tmp_path: Path) -> None:
    result = run(corpus, tmp_path, epochs=1)
    assert 0.85 * corpus.tokens.size < result.record["words"] < 0.95 * corpus.tokens.size
    assert not result.model.training


def test_runs_that_make_no_sense_are_refused(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(corpus, tmp_path / "taken", epochs=1)
    with pytest.raises(ConfigError, match="already holds a run"):
        run(corpus, tmp_path / "taken", epochs=1)
    with pytest.raises(ConfigError, match=r"training.learning_rate = 0.01, now it is 0.5"):
        run(corpus, tmp_path / "taken", epochs=1, learning_rate=0.5, resume=True)
    with pytest.raises(ConfigError, match="precision is 'bf16'"):
        run(corpus, tmp_path / "new", precision="bf16")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="without torchrun"):
        train(corpus, kind="elmo", output=tmp_path / "new")


def checks_until_flat(losses: Sequence[float], *, tolerance: float = 0.01, patience: int = 2) -> int | None:
    stopping = EarlyStopping(tolerance=tolerance, patience=patience)
    for number, loss in enumerate(losses, start=1):
        stopping.add(loss)
        if stopping.is_flat:
            return number
    return None


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([5.0, 4.0, 3.0, 2.0], None),
        ([5.0, 5.0, 5.0], 3),
        ([5.0, 4.99, 4.98], 3),  # too little
        ([5.0, 4.97, 4.94, 4.91, 4.88], None),  # little, but 1 % every second check
        ([5.0, 6.0, 4.0, 4.5, 4.6], 5),  # one check alone does not count
        ([5.0, float("inf"), float("inf")], 3),
    ],
)
def test_it_is_flat_after_so_many_checks_without_improvement(
    losses: list[float], expected: int | None
) -> None:
    assert checks_until_flat(losses) == expected


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=30), st.integers(0, 29))
def test_a_restored_one_goes_on_as_if_nothing_had_been(losses: list[float], split: int) -> None:
    whole, before = (EarlyStopping(tolerance=0.05, patience=3) for _ in range(2))
    for loss in losses[:split]:
        before.add(loss)
    after = EarlyStopping(tolerance=0.05, patience=3)
    after.restore(before.state())
    lowest = [whole.add(loss) for loss in losses]
    assert lowest[split:] == [after.add(loss) for loss in losses[split:]]
    assert after == whole
    assert whole.lowest == min(losses)


def test_a_check_that_does_not_count_can_only_improve() -> None:
    stopping = EarlyStopping(tolerance=0.01, patience=1)
    for loss in (5.0, 5.0, 6.0):
        stopping.add(loss, counts=False)
    assert not stopping.is_flat
    assert stopping.n_unimproved == 0
    assert stopping.add(4.0, counts=False)
    stopping.add(4.0)
    assert stopping.is_flat
