"""The sections nearest to one, in both networks."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lmcells.analysis.names import section_id
from lmcells.analysis.sections.embeddings import NETWORKS, Ids, frequent_sections, unit_embeddings
from lmcells.analysis.sections.statistics import section_statistics
from lmcells.analysis.statistics.distances import Floats
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


@dataclass(frozen=True, slots=True)
class SectionNeighbor:
    """A section near to another."""

    section: str
    count: int  # words under it in the training text
    cosine: float  # of the two embeddings


@dataclass(frozen=True, slots=True)
class NearestSections:
    """The sections nearest to one, in both networks."""

    section: str
    count: int
    variational: tuple[SectionNeighbor, ...]  # by the embeddings that the gate and the attention read
    prior: tuple[SectionNeighbor, ...]  # by those of the model network

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def nearest_sections(model: PretrainedModel, section: str, *, n: int = 10) -> NearestSections:
    """Find the sections nearest to one by the cosine of their embeddings, as the paper does."""
    if n < 1:
        raise InputError(f"n is {n}; allowed: 1 or more.")
    id_ = section_id(model, section)
    counts = section_statistics(model).n_tokens
    others = frequent_sections(model)
    others = others[others != id_]
    found = []
    for network in NETWORKS:
        cosines = (
            unit_embeddings(model, network, others) @ unit_embeddings(model, network, np.array([id_]))[0]
        )
        order = np.argsort(-cosines, kind="stable")[:n].tolist()
        found.append(listed(model, others[order], cosines[order], counts))
    return NearestSections(model.sections[id_], int(counts[id_]), *found)


def shared_neighbors(model: PretrainedModel, *, n: int = 10, n_sections: int = 200) -> float:
    """How many of a section's n nearest sections the two networks have in common, on average."""
    ids = frequent_sections(model)[:n_sections]
    n = min(n, ids.size - 1)
    near = []
    for network in NETWORKS:
        vectors = unit_embeddings(model, network, ids)
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -np.inf)
        near.append(np.argsort(-cosines, axis=1, kind="stable")[:, :n])
    return float(np.mean([np.intersect1d(one, other).size for one, other in zip(*near, strict=True)]))


def listed(model: PretrainedModel, ids: Ids, cosines: Floats, counts: Ids) -> tuple[SectionNeighbor, ...]:
    """Sections by their ids, each with its words and its cosine."""
    return tuple(
        SectionNeighbor(model.sections[id_], int(counts[id_]), float(cosine))
        for id_, cosine in zip(ids.tolist(), cosines.tolist(), strict=True)
    )
