"""A map of a model's sections: those that are alike lie together."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.analysis.names import require_sections, section_id, section_statistics
from lmcells.analysis.planar import cut, lay_out, trustworthiness, ward_merges
from lmcells.analysis.statistics import Floats
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import InputError, nearest
from lmcells.pretrained import PretrainedModel

# The embeddings of a model's sections in its two networks.


Ids = npt.NDArray[np.int64]

NETWORK_NAMES = {"variational": "variational network", "prior": "model network"}
NETWORKS = tuple(NETWORK_NAMES)


def unit_embeddings(model: PretrainedModel, network: str, sections: Ids) -> Floats:
    """Embeddings of sections in a network, each of length one: (n,) -> (n, E)."""
    require_sections(model)
    if network not in NETWORKS:
        raise InputError(
            f"network is {network!r}; allowed: {', '.join(NETWORKS)}.{nearest(str(network), NETWORKS)}"
        )
    vectors = model.arrays[f"{network}.metadata.weight"][sections].astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: Floats = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
    return units


def frequent_sections(model: PretrainedModel) -> Ids:
    """The ids of the headers, those with the most words first; text without a header is left out."""
    order = np.argsort(-section_statistics(model).n_tokens, kind="stable").tolist()
    return np.array([id_ for id_ in order if model.sections[id_] not in (NO_SECTION, OTHER)], np.int64)


# The sections nearest to one, in both networks.


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


# The sections of a model in groups that are alike.


N_CLUSTERS = 12  # unless told otherwise


@dataclass(frozen=True, slots=True)
class SectionCluster:
    """Sections that are alike, those with the most words first; named after the first."""

    name: str
    sections: tuple[SectionNeighbor, ...]  # cosine: to the middle of the cluster


@dataclass(frozen=True, slots=True)
class SectionClusters:
    """The sections of a network in groups, the largest text first."""

    network: str
    clusters: tuple[SectionCluster, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def cluster_sections(
    model: PretrainedModel,
    *,
    network: str = "variational",
    n_clusters: int | None = None,
    n_sections: int = 200,
) -> SectionClusters:
    """Group the sections with the most words, by Ward's method on embeddings of length one; twelve groups if it can."""
    require_sections(model)
    ids = frequent_sections(model)[:n_sections]
    n_clusters = min(N_CLUSTERS, ids.size) if n_clusters is None else n_clusters
    if not 1 <= n_clusters <= ids.size:
        raise InputError(
            f"{n_clusters} clusters were asked for; allowed: 1 to {ids.size}, the number of sections looked at."
        )
    vectors = unit_embeddings(model, network, ids)
    labels = cut(ward_merges(vectors), n_clusters)
    counts = section_statistics(model).n_tokens
    clusters = []
    for label in range(n_clusters):
        rows = np.flatnonzero(labels == label)  # ids are sorted by count, and so are the rows
        middle = vectors[rows].mean(axis=0)
        cosines = vectors[rows] @ middle / max(float(np.linalg.norm(middle)), np.finfo(np.float64).tiny)
        members = listed(model, ids[rows], cosines, counts)
        clusters.append(SectionCluster(members[0].section, members))
    clusters.sort(key=lambda cluster: -sum(member.count for member in cluster.sections))
    return SectionClusters(network, tuple(clusters))


# A map of a model's sections: those that are alike lie together.


@dataclass(frozen=True, slots=True)
class MappedSection:
    """Where a section lies; only distances to near ones mean anything."""

    section: str
    count: int  # words under it in the training text
    cluster: int  # its place among the clusters
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class SectionMap:
    """Sections on a plane, those with the most words first."""

    network: str
    trustworthiness: float  # whether neighbours on the map are neighbours in the network: 1 at best
    clusters: tuple[str, ...]  # the name of each
    sections: tuple[MappedSection, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def map_sections(
    model: PretrainedModel,
    *,
    network: str = "variational",
    n_clusters: int | None = None,
    n_sections: int = 200,
) -> SectionMap:
    """Lay the sections with the most words out on a plane, and group them; takes a second, so keep the result."""
    found = cluster_sections(model, network=network, n_clusters=n_clusters, n_sections=n_sections)
    cluster_of = {
        member.section: place for place, cluster in enumerate(found.clusters) for member in cluster.sections
    }
    count_of = {member.section: member.count for cluster in found.clusters for member in cluster.sections}
    ids = frequent_sections(model)[:n_sections]
    vectors = unit_embeddings(model, network, ids)
    plane = lay_out(vectors)
    names = [model.sections[id_] for id_ in ids.tolist()]
    return SectionMap(
        network,
        trustworthiness(vectors, plane),
        tuple(cluster.name for cluster in found.clusters),
        tuple(
            MappedSection(name, count_of[name], cluster_of[name], x, y)
            for name, (x, y) in zip(names, plane.tolist(), strict=True)
        ),
    )
