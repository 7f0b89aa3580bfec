"""Language models and corpora that are small enough to train in a test."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from corpora import corpus_of
from lmcells.corpus import Corpus
from lmcells.language_model.config import LanguageModelConfig, LanguageModelSettings
from lmcells.language_model.model import LanguageModel, Texts, spell_out
from lmcells.training import loop

loop._FIRST_SECONDS = loop._REPORT_SECONDS = float(
    "inf"
)  # metrics must not depend on how busy the machine is

SMALL: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 32, "character_dim": 6}
SMALL |= {"filters": (6, 6, 8), "highways": 1}
FILLERS = tuple(f"word{letter}" for letter in "abcdefghijkl")
PLANTED = ("myocardial", "infarction")  # the one always before the other


WITHOUT_ONEDNN = pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN")


@contextmanager
def without_onednn() -> Iterator[None]:
    """Compute in bf16 on any CPU: oneDNN's is an illegal instruction on some virtual machines."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def small_config(n_words: int, **settings: Any) -> LanguageModelConfig:
    return LanguageModelConfig(**{"n_words": n_words, **SMALL, **settings})


def small_settings(**settings: Any) -> LanguageModelSettings:
    quick = {"epochs": 2, "batch_size": 256, "window": 16, "warmup_steps": 10, "learning_rate": 1e-2}
    return LanguageModelSettings(**{**quick, "held_out": 0.1, "report_steps": 5, **settings})


def small_model(n_words: int = 20, *, seed: int = 0, **settings: Any) -> LanguageModel:
    torch.manual_seed(seed)
    return LanguageModel(small_config(n_words, **settings)).eval()


def texts_of(rows: Sequence[Sequence[str]], *, max_characters: int = 24, padded_to: int = 0) -> Texts:
    """Texts as a model reads them; where there is no word the last one is meant, which must not matter."""
    distinct = sorted({word for row in rows for word in row})
    width = max(padded_to, *map(len, rows))
    index = torch.full((len(rows), width), len(distinct) - 1)
    for number, row in enumerate(rows):
        index[number, : len(row)] = torch.tensor([distinct.index(word) for word in row])
    characters = spell_out(distinct, max_characters=max_characters)
    return Texts(characters, index, torch.tensor([len(row) for row in rows]))


def planted_corpus(folder: Path, *, n_notes: int = 120, seed: int = 0) -> Corpus:
    """Notes of fillers in no order, among which "myocardial" always goes before "infarction"."""
    draw = random.Random(seed)
    notes = []
    for _ in range(n_notes):
        body: list[str] = []
        while len(body) < 24:
            body += PLANTED if draw.random() < 0.3 else (draw.choice(FILLERS),)
        notes.append("HPI: " + " ".join(body))
    return corpus_of(folder, notes)
