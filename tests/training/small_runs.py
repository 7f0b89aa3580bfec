"""Corpora and settings that are small enough to train on in a test."""

import random
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from corpora import corpus_of
from lmcells.corpus import Corpus
from lmcells.model import CellModel, ModelConfig
from lmcells.training import TrainingSettings, loop
from lmcells.training.cells import train
from lmcells.training.device_corpus import Chunk
from lmcells.training.loop import TrainingResult

# Reports by the clock would make a run's metrics depend on how busy the machine is.
loop._FIRST_SECONDS = loop._REPORT_SECONDS = float("inf")

SENSES = {
    "therapy": ("exercise", "gait", "walking", "strength", "stairs", "balance"),
    "labs": ("bleeding", "clotting", "warfarin", "seconds", "plasma", "bruise"),
}
FILLERS = tuple(f"filler{index}" for index in range(12))
TINY: dict[str, Any] = {"cell_dim": 8, "embedding_dim": 8, "hidden_dim": 6, "window": 4, "n_section_draws": 3}


def planted_corpus(folder: Path, *, n_notes: int = 150, seed: int = 0) -> Corpus:
    """Notes in which "pt" goes with words of gait under one header and with words of clotting under another."""
    draw = random.Random(seed)
    notes = []
    for index in range(n_notes):
        sections = []
        for header, words in SENSES.items():
            body = [draw.choice(words if draw.random() < 0.6 else FILLERS) for _ in range(20)]
            for at in (4, 12):
                body[at] = "pt"
            sections.append({"header": header.upper(), "text": " ".join(body)})
        notes.append({"id": f"t/{index}", "category": ("ward", "clinic")[index % 2], "sections": sections})
    return corpus_of(folder, notes)


def tiny_config(corpus: Corpus, kind: str = "lmc", **settings: Any) -> ModelConfig:
    sizes = {
        "n_words": len(corpus.words),
        "n_metadata": 0 if kind == "bsg" else corpus.n_metadata("section"),
        "n_categories": corpus.n_metadata("category") if kind == "mbsge" else 0,
    }
    return ModelConfig(**{"kind": kind, **sizes, **TINY, **settings})


def tiny_settings(**settings: Any) -> TrainingSettings:
    return TrainingSettings(
        **{"epochs": 1, "batch_size": 256, "subsampling": 0.0, "report_steps": 5, **settings}
    )


def tiny_run(
    corpus: Corpus, output: Path, *, model: Mapping[str, Any] = MappingProxyType({}), **given: Any
) -> TrainingResult[CellModel]:
    """Train a tiny model on the CPU; `given` are settings and options of `train`."""
    names = ("resume", "overwrite", "on_progress", "evaluate")
    options = {name: given.pop(name) for name in names if name in given}
    config, settings = tiny_config(corpus, **model), tiny_settings(**given)
    return train(corpus, model_config=config, settings=settings, output=output, device="cpu", **options)


def whole_chunk(corpus: Corpus) -> Chunk:
    """All of a corpus on the CPU, nothing subsampled."""
    device = torch.device("cpu")
    return Chunk.load(corpus, ((0, corpus.tokens.size),), settings=tiny_settings(), device=device)
