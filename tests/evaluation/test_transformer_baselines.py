"""Transformers as baselines, on a checkpoint made on the spot; nothing is ever fetched."""

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch

from evaluation.tiny_checkpoint import write_checkpoint
from expansion.clinic import INVENTORY, mention
from lmcells.errors import MissingExtra, ModelError
from lmcells.evaluation.encoder_baselines import PretrainedEncoder, read_pooling, transformer_ranker
from lmcells.expansion import Sense, SenseInventory

TEXTS = ["gait with PT on the stairs.", "PT", "bleeding, prothrombin time"]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("checkpoint") / "bert")


def last_layer(folder: Path, text: str) -> torch.Tensor:
    """All positions of one text, without any padding: (T, d)."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with torch.no_grad():
        model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        states: torch.Tensor = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    return states


def unit(vector: torch.Tensor) -> Any:
    return (vector / vector.norm()).numpy()


def test_bert_is_the_mean_of_mean_and_max_over_the_words(folder: Path) -> None:
    found = PretrainedEncoder.bert(folder).encode(TEXTS)
    for vector, text in zip(found, TEXTS, strict=True):
        words = last_layer(folder, text)[1:-1]  # without [CLS] and [SEP]
        expected = unit((words.mean(dim=0) + words.max(dim=0).values) / 2)
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_a_sentence_encoder_is_the_mean_over_all_positions(folder: Path) -> None:
    found = PretrainedEncoder.sentence(folder).encode(TEXTS)
    for vector, text in zip(found, TEXTS, strict=True):
        np.testing.assert_allclose(vector, unit(last_layer(folder, text).mean(dim=0)), atol=1e-5)


@pytest.mark.parametrize(
    ("modes", "pool"),
    [
        (["cls_token"], lambda states: states[0]),
        (["max_tokens"], lambda states: states.max(dim=0).values),
        (["mean_sqrt_len_tokens"], lambda states: states.sum(dim=0) / len(states) ** 0.5),
        (["cls_token", "mean_tokens"], lambda states: torch.cat([states[0], states.mean(dim=0)])),
    ],
)
def test_a_sentence_encoder_is_pooled_as_its_folder_says(tmp_path: Path, modes: list[str], pool: Any) -> None:
    settings = {"pooling_mode_mean_tokens": False} | {f"pooling_mode_{mode}": True for mode in modes}
    folder = write_checkpoint(tmp_path / "encoder", pooling=settings)
    found = PretrainedEncoder.sentence(folder).encode(TEXTS)
    for vector, text in zip(found, TEXTS, strict=True):
        np.testing.assert_allclose(vector, unit(pool(last_layer(folder, text))), atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"pooling_mode_lasttoken": True}])
def test_a_pooling_that_is_not_known_is_refused(tmp_path: Path, settings: dict[str, bool]) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="known: pooling_mode_cls_token"):
        read_pooling(tmp_path)


def test_scores_are_cosines_of_window_and_long_form(folder: Path) -> None:
    encoder = PretrainedEncoder.bert(folder)
    scores = transformer_ranker(encoder, INVENTORY).scores([mention("gait with PT on the stairs.")])[0]
    window = encoder.encode(["gait with PT on the stairs"])[0]  # up to its last word, as written
    forms = encoder.encode(["physical therapy", "physiotherapy", "prothrombin time"])
    therapy = forms[:2].mean(axis=0)
    expected = [window @ therapy / np.linalg.norm(therapy), window @ forms[2]]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert scores.dtype == np.float64


def test_the_order_of_words_matters(folder: Path) -> None:
    ranker = transformer_ranker(PretrainedEncoder.bert(folder), INVENTORY)
    one, other = ranker.scores([mention("gait stairs PT"), mention("stairs gait PT")])
    assert not np.allclose(one, other)


def test_the_window_spans_known_words_only(folder: Path) -> None:
    encoder = PretrainedEncoder.bert(folder)
    text = "stairs unknown gait PT unknown bleeding time"
    ranker = transformer_ranker(encoder, INVENTORY, words={"gait", "bleeding"})
    alone = transformer_ranker(encoder, INVENTORY).scores([mention("gait PT unknown bleeding")])
    np.testing.assert_allclose(ranker.scores([mention(text)]), alone, atol=1e-5)


def test_a_long_form_of_unknown_pieces_still_has_a_score(folder: Path) -> None:
    inventory = SenseInventory.from_senses([Sense("PT", "…"), Sense("PT", "xyz")])
    scores = transformer_ranker(PretrainedEncoder.bert(folder), inventory).scores([mention("gait PT")])[0]
    assert np.isfinite(scores).all()


def test_no_mentions_have_no_scores(folder: Path) -> None:
    assert transformer_ranker(PretrainedEncoder.bert(folder), INVENTORY).scores([]) == []


def test_parameters_are_counted_without_embeddings(folder: Path) -> None:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, local_files_only=True)
    tables = sum(p.numel() for name, p in model.named_parameters() if name.endswith("embeddings.weight"))
    expected = sum(p.numel() for p in model.parameters()) - tables
    assert PretrainedEncoder.bert(folder).n_parameters == expected


def test_a_folder_that_is_no_checkpoint_is_refused_in_one_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ModelError, match="Give the folder of a Hugging Face checkpoint"):
            PretrainedEncoder.bert(folder)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError) as error:
        PretrainedEncoder.bert(tmp_path)
    assert "\n" not in str(error.value)


def test_without_transformers_the_error_names_the_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def without_transformers(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.partition(".")[0] == "transformers":
            raise ModuleNotFoundError("No module named 'transformers'", name="transformers")
        return real_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_transformers)
    with pytest.raises(MissingExtra, match=r"lmcells\[baselines\]"):
        PretrainedEncoder.bert(folder)
