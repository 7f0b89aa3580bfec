"""`lmcells train --kind elmo`, as it is typed."""

import json
from pathlib import Path

import pytest

from language_model.small_models import planted_corpus
from lmcells.cli.main import main
from lmcells.cli.train_elmo import elmo_progress_message
from lmcells.corpus import Corpus
from lmcells.language_model.folder import load_language_model
from lmcells.language_model.train import LanguageModelProgress
from refusals import assert_refused

SMALL = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "filters": "[4, 4]"}
QUICK = [part for name, value in SMALL.items() for part in ("--set", f"language_model.{name}={value}")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=20)


def train(corpus: Corpus, output: Path, *arguments: str) -> int:
    start = ["train", str(corpus.folder), "--output", str(output), "--kind", "elmo", "--device", "cpu"]
    return main([*start, *QUICK, "--batch-size", "128", *arguments])


def test_a_language_model_is_trained_saved_and_goes_on(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    assert train(corpus, output, "--epochs", "1", "--seed", "5", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["encoder"]) == ("elmo", "transformer")
    loaded = load_language_model(output)
    assert loaded.training["seed"] == 5
    assert loaded.training["settings"]["batch_size"] == 128
    assert loaded.training["held_out_loss"] == printed["held_out_loss"]
    assert loaded.model.config.filters == (4, 4)
    assert (tmp_path / "model.training" / "metrics.jsonl").is_file()
    assert train(corpus, output, "--epochs", "2", "--seed", "5", "--resume") == 0
    assert "held out loss" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epochs", "0"), "epochs is 0"),
        (("--set", "language_model.layer=3"), "Nearest: 'layers'"),
        (("--set", "model.cell_dim=3"), "'model' is no table of a language model"),
        (("--metadata", "section"), "'training.metadata' is not known to a language model"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert_refused(train(corpus, tmp_path / "model", *arguments), capsys, command="train", message=message)


def test_the_progress_line_says_what_is_what() -> None:
    progress = LanguageModelProgress(
        step=1200, epoch=2, n_epochs=5, words=10, words_per_second=12345.6, loss=5.25, held_out_loss=None,
        best_held_out_loss=5.5, gradient_norm=1.0, learning_rate=1e-3, seconds=1.0, peak_memory=2_500_000_000,
    )  # fmt: skip
    assert elmo_progress_message(progress) == (
        "epoch 2/5, step 1,200, 12,346 words/s, loss 5.250, held out 5.500, 2.5 GB"
    )
