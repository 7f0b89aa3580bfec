"""A map of a model's sections: those that are alike lie together."""

from dataclasses import asdict, dataclass
from typing import Any

from lmcells.analysis.sections.clusters import cluster_sections
from lmcells.analysis.sections.embeddings import frequent_sections, unit_embeddings
from lmcells.analysis.statistics.planar import lay_out, trustworthiness
from lmcells.pretrained import PretrainedModel


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
