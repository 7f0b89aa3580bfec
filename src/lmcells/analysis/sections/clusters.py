"""The sections of a model in groups that are alike."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lmcells.analysis.names import require_sections
from lmcells.analysis.sections.embeddings import frequent_sections, unit_embeddings
from lmcells.analysis.sections.neighbors import SectionNeighbor, listed
from lmcells.analysis.sections.statistics import section_statistics
from lmcells.analysis.statistics.agglomeration import cut, ward_merges
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel

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
