"""Training: it learns what was planted, stops when there is nothing more to learn, and goes on after a stop."""

import json
import math
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

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
from lmcells.language_model.train import LanguageModelProgress, LanguageModelResult, train_language_model
from lmcells.language_model.windows import cut_windows
from lmcells.training import TrainingDiverged, TrainingStopped
from lmcells.training.checkpoint import load_newest
from lmcells.training.distributed import CHUNKS, derived_seed

KINDS = pytest.mark.parametrize("kind", ["transformer", "bilstm"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"))


def run(
    corpus: Corpus,
    output: Path,
    *,
    resume: bool = False,
    on_progress: Any = None,
    evaluate: Any = None,
    **settings: Any,
) -> LanguageModelResult:
    kind = settings.pop("kind", "transformer")
    return train_language_model(
        corpus,
        config=small_config(len(corpus.words), kind=kind),
        settings=small_settings(**settings),
        output=output,
        device="cpu",
        resume=resume,
        on_progress=on_progress,
        evaluate=evaluate,
    )


def unigram_entropy(corpus: Corpus) -> float:
    counts = Counter(corpus.tokens.tolist())
    return -sum(n / corpus.tokens.size * math.log(n / corpus.tokens.size) for n in counts.values())


def metrics(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def next_words(result: LanguageModelResult, corpus: Corpus, row: list[str]) -> tuple[dict[str, float], ...]:
    """How likely each word is after a row of words, and before it."""
    with torch.no_grad():
        readings = result.model(texts_of([row]))
        states = torch.stack([readings.forward[0, -1], readings.backward[0, -1]])
        chances = result.model.vocabulary.logits(states).softmax(dim=-1).tolist()
    return tuple(dict(zip(corpus.words, each, strict=True)) for each in chances)


@KINDS
@pytest.mark.parametrize("full_softmax", [8192, 0], ids=["exact", "sampled"])
def test_it_learns_which_word_goes_before_which(
    corpus: Corpus, tmp_path: Path, kind: str, full_softmax: int
) -> None:
    result = run(corpus, tmp_path, kind=kind, epochs=8, full_softmax=full_softmax, negatives=64)
    losses = held_out_losses(tmp_path)
    assert losses[-1] < losses[0]
    assert result.held_out_loss == min(losses)
    assert result.held_out_loss < unigram_entropy(corpus) - 0.3
    after, _ = next_words(result, corpus, [FILLERS[0], PLANTED[0]])
    _, before = next_words(result, corpus, [PLANTED[1], FILLERS[1]])
    assert after[PLANTED[1]] > 0.9
    assert before[PLANTED[0]] > 0.9
    filler_after, _ = next_words(result, corpus, [FILLERS[0]])
    assert filler_after[PLANTED[1]] < 0.1


def held_out_losses(output: Path) -> list[float]:
    return [line["held_out_loss"] for line in metrics(output) if "held_out_loss" in line]


def test_it_stops_when_the_held_out_loss_is_flat(corpus: Corpus, tmp_path: Path) -> None:
    flat = {"epochs": 50, "flat_tolerance": 0.02, "flat_patience": 2}
    result = run(corpus, tmp_path, **flat)
    assert result.ending == "flat"
    losses = held_out_losses(tmp_path)
    assert 3 <= len(losses) < 50
    assert min(losses[-2:]) > 0.97 * min(losses[:-2])
    assert result.held_out_loss == min(losses)
    again = run(corpus, tmp_path, **flat, resume=True)
    assert again.last is None
    assert (again.ending, again.n_steps, again.peak) == ("flat", result.n_steps, result.peak)


def test_it_says_that_the_epochs_were_over_before_the_loss_was_flat(corpus: Corpus, tmp_path: Path) -> None:
    result = run(corpus, tmp_path, epochs=2)
    assert result.ending == "epochs"
    assert len(held_out_losses(tmp_path)) == 2


def test_the_rate_halves_where_a_check_brings_no_improvement(corpus: Corpus, tmp_path: Path) -> None:
    seen: list[LanguageModelProgress] = []
    run(corpus, tmp_path, epochs=50, flat_tolerance=0.9, flat_patience=3, on_progress=seen.append)
    after_checks = [each.learning_rate for each in seen if each.held_out_loss is not None]
    assert after_checks == pytest.approx([1e-2, 5e-3, 2.5e-3, 1.25e-3])


def test_without_scores_the_peak_is_the_lowest_held_out_loss(corpus: Corpus, tmp_path: Path) -> None:
    result = run(corpus, tmp_path, epochs=3)
    lines = [line for line in metrics(tmp_path) if "held_out_loss" in line]
    best = min(lines, key=lambda line: line["held_out_loss"])
    assert result.peak.metric == "held_out_loss"
    assert (result.peak.score, result.peak.step) == (best["held_out_loss"], best["step"])
    assert result.peak.hours == best["seconds"] / 3600
    assert 0 < result.peak.hours <= result.seconds / 3600


def test_with_scores_the_peak_is_the_best_of_them_over_all_resumptions(
    corpus: Corpus, tmp_path: Path
) -> None:
    scores = iter([0.1, 0.6, 0.4, 0.6])

    def evaluate(model: LanguageModel, hours: float) -> dict[str, Any]:
        assert not model.training
        assert hours > 0
        return {"dev": {"macro_f1": next(scores), "accuracy": 0.9}}

    run(corpus, tmp_path, epochs=2, evaluate=evaluate)
    result = run(corpus, tmp_path, epochs=4, resume=True, evaluate=evaluate)
    evaluations = [line for line in metrics(tmp_path) if "evaluation" in line]
    assert len(evaluations) == 4
    assert (result.peak.metric, result.peak.score) == ("macro_f1", 0.6)
    assert (result.peak.step, result.peak.hours) == (evaluations[1]["step"], evaluations[1]["hours"])


def test_what_evaluating_takes_is_no_time_of_training(corpus: Corpus, tmp_path: Path) -> None:
    def evaluate(_model: LanguageModel, _hours: float) -> dict[str, Any]:
        time.sleep(0.5)
        return {}

    began = time.monotonic()
    result = run(corpus, tmp_path, epochs=2, evaluate=evaluate)
    assert result.seconds < time.monotonic() - began - 1.0


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
    seen: list[LanguageModelProgress] = []
    result = run(
        corpus, tmp_path, epochs=3, check_steps=3, flat_patience=100, learning_rate=5.0, warmup_steps=60,
        gradient_clip=0.0, decay="root", on_progress=seen.append,
    )  # fmt: skip
    measured = [each.held_out_loss for each in seen if each.held_out_loss is not None]
    assert measured[-1] > min(measured)
    assert result.held_out_loss == min(measured)
    assert seen[-1].best_held_out_loss == min(measured)
    newest = load_newest(tmp_path)
    assert newest is not None
    for name, value in result.model.state_dict().items():
        assert np.array_equal(newest.tensors[f"best.{name}"], value.numpy()), name
    biases = result.model.vocabulary.biases.weight.detach().numpy()
    assert not np.array_equal(newest.tensors["model.vocabulary.biases.weight"], biases)


@KINDS
def test_a_run_that_was_stopped_ends_as_if_it_never_was(corpus: Corpus, tmp_path: Path, kind: str) -> None:
    settings = {"kind": kind, "epochs": 3, "full_softmax": 0, "negatives": 8, "report_steps": 1}
    expected = run(corpus, tmp_path / "whole", **settings)

    def stop_at_12(progress: LanguageModelProgress) -> None:
        if progress.step == 12:  # in the middle of an epoch
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(TrainingStopped, match="stopped by SIGTERM at step 13"):
        run(corpus, tmp_path / "parts", on_progress=stop_at_12, **settings)
    found = run(corpus, tmp_path / "parts", resume=True, **settings)
    assert (found.n_steps, found.n_words) == (expected.n_steps, expected.n_words)
    assert found.held_out_loss == expected.held_out_loss
    weights = found.model.state_dict()
    for name, value in expected.model.state_dict().items():
        assert torch.equal(weights[name], value), name
    steps = [line["step"] for line in metrics(tmp_path / "parts")]
    assert steps == list(range(1, expected.n_steps + 1))


def test_a_finished_run_goes_on_for_more_epochs(corpus: Corpus, tmp_path: Path) -> None:
    expected = run(corpus, tmp_path / "whole", epochs=2)
    run(corpus, tmp_path / "parts", epochs=1)
    found = run(corpus, tmp_path / "parts", epochs=2, resume=True)
    assert found.held_out_loss == expected.held_out_loss


def test_the_seed_decides_everything_and_the_global_one_is_left_alone(corpus: Corpus, tmp_path: Path) -> None:
    torch.manual_seed(5)
    untouched = torch.rand(3)
    torch.manual_seed(5)
    first = run(corpus, tmp_path / "a", epochs=1, seed=1)
    assert torch.equal(torch.rand(3), untouched)
    again = run(corpus, tmp_path / "b", epochs=1, seed=1)
    other = run(corpus, tmp_path / "c", epochs=1, seed=2)
    assert first.held_out_loss == again.held_out_loss != other.held_out_loss


def test_every_word_that_is_not_held_out_is_read_once_an_epoch(corpus: Corpus, tmp_path: Path) -> None:
    result = run(corpus, tmp_path, epochs=1)
    assert 0.85 * corpus.tokens.size < result.n_words < 0.95 * corpus.tokens.size
    assert not result.model.training


def test_runs_that_make_no_sense_are_refused(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(corpus, tmp_path / "taken", epochs=1)
    with pytest.raises(ConfigError, match="holds a run already"):
        run(corpus, tmp_path / "taken", epochs=1)
    with pytest.raises(ConfigError, match=r"training.learning_rate = 0.01, now it is 0.5"):
        run(corpus, tmp_path / "taken", epochs=1, learning_rate=0.5, resume=True)
    with pytest.raises(ConfigError, match="precision is 'bf16'"):
        run(corpus, tmp_path / "new", precision="bf16")
    with pytest.raises(ConfigError, match="n_words is 3"):
        train_language_model(
            corpus, config=small_config(3), settings=small_settings(), output=tmp_path / "new", device="cpu"
        )
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="without torchrun"):
        run(corpus, tmp_path / "new")


def test_a_loss_that_is_no_number_ends_the_run(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(TrainingDiverged, match="no longer finite after step"):
        run(corpus, tmp_path, learning_rate=1e30, warmup_steps=1, gradient_clip=0.0, report_steps=1)
