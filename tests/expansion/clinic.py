"""A corpus of invented notes with two senses of PT planted, an inventory, and models to rank them with."""

import random
from pathlib import Path
from typing import Any

import torch

from corpora import corpus_of
from lmcells.corpus import Corpus
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.windows import Mention
from lmcells.model import CellModel, ModelConfig, create_model
from lmcells.pretrained import PretrainedModel, save_pretrained

THERAPY = Sense("PT", "physical therapy", ("physical therapy", "physiotherapy"))
CLOTTING = Sense("PT", "prothrombin time", ("prothrombin time",))
UNHEARD = Sense("PT", "xylophone", ("xylophone",))
STENOSIS = Sense("MS", "mitral stenosis", ("mitral stenosis", "stenosis of the mitral valve"))
SCLEROSIS = Sense("MS", "multiple sclerosis", ("multiple sclerosis",))
INVENTORY = SenseInventory.from_senses([THERAPY, CLOTTING, STENOSIS, SCLEROSIS])

WORDS_OF = {
    "PLAN": ("exercise", "gait", "walking", "strength", "stairs", "balance"),
    "LABS": ("bleeding", "clotting", "warfarin", "seconds", "plasma", "bruise"),
}
LONG_FORM_OF = {"PLAN": "physical therapy", "LABS": "prothrombin time"}
OTHERS = ("mitral stenosis", "stenosis valve", "multiple sclerosis", "filler", "other")
SMALL: dict[str, Any] = {"cell_dim": 6, "embedding_dim": 5, "hidden_dim": 4, "window": 3}


def clinic_corpus(folder: Path, *, n_notes: int = 40, seed: int = 0) -> Corpus:
    """Each section writes its own long form out, and PT as well, among words of its own."""
    draw = random.Random(seed)
    notes = []
    for index in range(n_notes):
        sections = []
        for header, words in WORDS_OF.items():
            body = [draw.choice(words) for _ in range(16)]
            body[4], body[10] = "PT", LONG_FORM_OF[header]
            sections.append({"header": header, "text": " ".join([*body, draw.choice(OTHERS)])})
        notes.append(
            {"id": f"clinic/{index}", "category": ("ward", "office")[index % 2], "sections": sections}
        )
    return corpus_of(folder, notes)


def random_network(corpus: Corpus, kind: str, *, seed: int = 0, **settings: Any) -> CellModel:
    torch.manual_seed(seed)
    config = ModelConfig(
        **{
            "kind": kind,
            "n_words": len(corpus.words),
            "n_metadata": 0 if kind == "bsg" else corpus.n_metadata("section"),
            "n_categories": corpus.n_metadata("category") if kind == "mbsge" else 0,
            **SMALL,
            **settings,
        }
    )
    return create_model(config).eval()


def random_model(folder: Path, corpus: Corpus, kind: str, **settings: Any) -> PretrainedModel:
    """A model folder that was never trained."""
    save_pretrained(random_network(corpus, kind, **settings), folder, corpus=corpus)
    return PretrainedModel.from_pretrained(folder)


def mention(text: str, short_form: str = "PT", section: str | None = None) -> Mention:
    start = text.index(short_form)
    return Mention(text, start, start + len(short_form), short_form, section)
