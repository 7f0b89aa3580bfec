"""Models that the tests look into."""

from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn

from corpora import corpus_of
from lmcells.analysis import Row, rows_of
from lmcells.analysis.gaussian_mixture import GaussianMixture
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
    "PLAN": (0.1, 0.0, 0.8, 0.6),  # beside the laboratory in the model network
}
# In the variational network beside SOCIAL HISTORY.
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
    sizes = {"n_words": len(corpus.words), "n_metadata": len(names)}
    network = create_model(ModelConfig(**sizes, cell_dim=4, embedding_dim=4, hidden_dim=4))
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


def planted_variances(n: int = 400, *, seed: int = 0) -> tuple[Row, ...]:
    """Variance within grows with the number of senses alone, variance between with the sections alone."""
    random = np.random.default_rng(seed)
    n_senses, n_sections = random.integers(0, 6, n), random.uniform(1, 40, n)
    count = random.integers(100, 10_000, n)
    within = 0.5 + 0.05 * n_senses + 0.02 * random.normal(size=n)
    between = 0.001 * n_sections + 0.002 * random.random(n)
    columns = {"count": count, "within": within, "between": between, "total": within + between}
    return rows_of(word=[f"w{row}" for row in range(n)], **columns, n_sections=n_sections, n_senses=n_senses)


NOTE = """\
HISTORY OF PRESENT ILLNESS: The patient is a 62-year-old man with a CVA in 2019 who was seen in the office this morning
for follow-up after PT three times a week; he walks well, denies chest pain, and takes his tablets with food every day.

ANESTHESIA: MAC.

MEDICATIONS: MS 2 mg IV.
"""


def random_mixture(seed: int, *, n: int, dim: int, spread: float = 2.0) -> GaussianMixture:
    random = np.random.default_rng(seed)
    return GaussianMixture(
        random.dirichlet(np.full(n, 2.0)), spread * random.normal(size=(n, dim)), random.uniform(0.3, 2.0, n)
    )


mixtures = st.builds(
    random_mixture,
    st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    dim=st.integers(1, 5),
    spread=st.floats(0, 9),
)
