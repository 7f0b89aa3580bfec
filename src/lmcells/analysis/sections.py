"""Which sections are alike to a model: nearest ones, clusters, and a map."""

import numpy as np
import numpy.typing as npt

from lmcells.analysis import Row, rows_of
from lmcells.analysis.names import require_sections, section_id, section_statistics
from lmcells.analysis.statistics import Floats, principal_plane
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import InputError, MissingExtra
from lmcells.expansion.long_forms import unit_length
from lmcells.pretrained import PretrainedModel

Ids = npt.NDArray[np.int64]

NETWORK_NAMES = {"variational": "variational network", "prior": "model network"}
NETWORKS = tuple(NETWORK_NAMES)
N_CLUSTERS = 12  # by default
_TINY = np.finfo(np.float64).tiny
_N_STEPS = 500  # of t-SNE; more do not make the map of 200 sections more trustworthy


def frequent_sections(model: PretrainedModel) -> Ids:
    """The ids of the headers, those with the most words first; text without a header is left out."""
    order = np.argsort(-section_statistics(model).n_tokens, kind="stable").tolist()
    return np.array([id_ for id_ in order if model.sections[id_] not in (NO_SECTION, OTHER)], np.int64)


def unit_embeddings(model: PretrainedModel, network: str, sections: Ids) -> Floats:
    """Embeddings of sections in a network, each of length one: (n,) -> (n, E)."""
    require_sections(model)
    return unit_length(model.arrays[f"{network}.metadata.weight"][sections])


def nearest_sections(model: PretrainedModel, section: str, *, n: int = 10) -> Row:
    """Find the sections nearest to one by the cosine of their embeddings, as the paper does, in both networks."""
    id_ = section_id(model, section)
    others = frequent_sections(model)
    others = others[others != id_]
    found = Row(section=model.sections[id_], count=int(section_statistics(model).n_tokens[id_]))
    for network in NETWORKS:
        own = unit_embeddings(model, network, np.array([id_]))[0]
        cosines = unit_embeddings(model, network, others) @ own
        order = np.argsort(-cosines, kind="stable")[:n]
        found[network] = _listed(model, others[order], cosines[order])
    return found


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


def _listed(model: PretrainedModel, ids: Ids, cosines: Floats) -> tuple[Row, ...]:
    names = [model.sections[id_] for id_ in ids.tolist()]
    return rows_of(section=names, count=section_statistics(model).n_tokens[ids], cosine=cosines)


def cluster_sections(
    model: PretrainedModel,
    *,
    network: str = "variational",
    n_clusters: int | None = None,
    n_sections: int = 200,
) -> list[Row]:
    """Cluster the sections with the most words, by Ward's method on embeddings of length one; needs scikit-learn.

    The clusters with the most text come first. Each is named after its first section, the one with the most words; the
    cosines of its sections are those to its center.
    """
    require_sections(model)
    ids = frequent_sections(model)[:n_sections]
    n_clusters = min(N_CLUSTERS, ids.size) if n_clusters is None else n_clusters
    if not 1 <= n_clusters <= ids.size:
        raise InputError(
            f"{n_clusters} clusters were asked for; allowed: 1 to {ids.size}, the number of sections compared."
        )
    vectors = unit_embeddings(model, network, ids)
    labels = np.zeros(ids.size, np.int64)
    if n_clusters > 1:
        try:
            from sklearn.cluster import AgglomerativeClustering
        except ModuleNotFoundError:
            raise MissingExtra("scikit-learn", extra="report", purpose="Clustering sections") from None
        labels = AgglomerativeClustering(n_clusters, linkage="ward").fit_predict(vectors)
    clusters = []
    for label in dict.fromkeys(labels.tolist()):
        rows = np.flatnonzero(labels == label)  # by count, as the ids are
        center = vectors[rows].mean(axis=0)
        cosines = vectors[rows] @ center / max(float(np.linalg.norm(center)), _TINY)
        members = _listed(model, ids[rows], cosines)
        clusters.append(Row(name=members[0].section, sections=members))
    return sorted(clusters, key=lambda cluster: -sum(member.count for member in cluster.sections))


def map_sections(
    model: PretrainedModel,
    *,
    network: str = "variational",
    n_clusters: int | None = None,
    n_sections: int = 200,
) -> Row:
    """Lay the sections with the most words out on a plane, in clusters; takes a second, so keep the result.

    `trustworthiness` says whether neighbours on the plane are neighbours in the network: 1 at best, NaN if not known.
    Without scikit-learn the plane is that of the two principal axes, in one cluster: a service needs no more.
    """
    try:
        from sklearn import manifold
    except ModuleNotFoundError:
        manifold, n_clusters = None, 1
    found = cluster_sections(model, network=network, n_clusters=n_clusters, n_sections=n_sections)
    ids = frequent_sections(model)[:n_sections]
    vectors = unit_embeddings(model, network, ids)
    plane, trust = principal_plane(vectors), np.nan
    if manifold is not None and ids.size > 3:
        layout = manifold.TSNE(
            perplexity=min(30.0, (ids.size - 1) / 3),
            metric="cosine",
            method="exact",  # the same map however many threads there are; Barnes-Hut is not
            max_iter=_N_STEPS,
            random_state=0,
        )
        plane = layout.fit_transform(vectors).astype(np.float64)
        n_neighbors = min(10, (ids.size - 1) // 2)
        trust = float(manifold.trustworthiness(vectors, plane, n_neighbors=n_neighbors))
    plane = (plane - plane.mean(axis=0)) / max(float(plane.std()), _TINY)
    cluster_of = {each.section: number for number, cluster in enumerate(found) for each in cluster.sections}
    names = [model.sections[id_] for id_ in ids.tolist()]
    counts, clusters = section_statistics(model).n_tokens[ids], [cluster_of[name] for name in names]
    mapped = rows_of(section=names, count=counts, cluster=clusters, x=plane[:, 0], y=plane[:, 1])
    names_of_clusters = tuple(cluster.name for cluster in found)
    return Row(network=network, trustworthiness=trust, clusters=names_of_clusters, sections=mapped)
