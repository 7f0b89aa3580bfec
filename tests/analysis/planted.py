"""A model whose cells are set by hand: a mean is the word's vector plus the section's."""

from pathlib import Path

import torch
from torch import nn

from corpora import corpus_of
from lmcells.model import ModelConfig, create_model
from lmcells.pretrained import PretrainedModel, save_pretrained

# Axes: social, family, laboratory, none of them.
WORDS = {
    "history": (0.0, 0.0, 0.0, 0.5),
    "smoking": (3.0, 0.0, 0.0, 0.0),
    "alcohol": (2.5, 0.3, 0.0, 0.0),
    "mother": (0.0, 3.0, 0.0, 0.0),
    "father": (0.3, 2.5, 0.0, 0.0),
    "sodium": (0.0, 0.0, 3.0, 0.0),
    "potassium": (0.0, 0.0, 2.5, 0.3),
}
SECTIONS = {
    "SOCIAL HISTORY": (1.0, 0.0, 0.0, 0.0),
    "SHX": (0.9, 0.1, 0.0, 0.0),
    "FAMILY HISTORY": (0.0, 1.0, 0.0, 0.0),
    "FHX": (0.1, 0.9, 0.0, 0.0),
    "LABORATORY DATA": (0.0, 0.0, 1.0, 0.0),
    "CHEMISTRY": (0.0, 0.1, 0.9, 0.0),
    "PLAN": (
        0.1,
        0.0,
        0.8,
        0.6,
    ),  # beside the laboratory in the model network, in the variational one beside SOCIAL
}
_PLAN_IN_VARIATIONAL = (0.8, 0.0, 0.1, 0.6)
_COUNTS = {
    "SOCIAL HISTORY": {"history": 9, "smoking": 8, "alcohol": 7},
    "SHX": {"smoking": 2, "alcohol": 2},
    "FAMILY HISTORY": {"history": 6, "mother": 8, "father": 7},
    "FHX": {"mother": 2, "father": 2},
    "LABORATORY DATA": {"history": 1, "sodium": 8, "potassium": 7},
    "CHEMISTRY": {"sodium": 2, "potassium": 2},
    "PLAN": {"sodium": 1},
}
LOG_VARIANCE = -0.7
_LIFT = 20.0  # added before the ReLU and taken off after it, which makes the network linear


def planted_model(folder: Path) -> PretrainedModel:
    """Write the model's folder and open it."""
    # One word a note: a word that follows itself would be taken for one.
    occurrences = [
        (header, word) for header, counts in _COUNTS.items() for word, n in counts.items() for _ in range(n)
    ]
    notes = [
        {"id": f"planted/{number}", "sections": [{"header": header, "text": word}]}
        for number, (header, word) in enumerate(occurrences)
    ]
    corpus = corpus_of(folder, notes)
    names = corpus.metadata_names("section")
    network = create_model(
        ModelConfig(
            n_words=len(corpus.words), n_metadata=len(names), cell_dim=4, embedding_dim=4, hidden_dim=4
        )
    )
    nothing = (0.0, 0.0, 0.0, 0.0)
    with torch.no_grad():
        prior = network.prior
        _set(prior.words, [WORDS[word] for word in corpus.words])
        _set(prior.metadata, [SECTIONS.get(name, nothing) for name in names])
        prior.hidden.weight.copy_(torch.cat([torch.eye(4), torch.eye(4)], dim=1))
        prior.hidden.bias.fill_(_LIFT)
        prior.heads.mean.weight.copy_(torch.eye(4))
        prior.heads.mean.bias.fill_(-_LIFT)
        prior.heads.log_variance.weight.zero_()
        prior.heads.log_variance.bias.fill_(LOG_VARIANCE)
        read = {**SECTIONS, "PLAN": _PLAN_IN_VARIATIONAL}
        _set(network.variational.metadata, [(*read.get(name, nothing), *nothing) for name in names])
    save_pretrained(network, folder / "model", corpus=corpus)
    return PretrainedModel.from_pretrained(folder / "model")


def _set(table: nn.Embedding, rows: list[tuple[float, ...]]) -> None:
    table.weight.copy_(torch.tensor(rows))
