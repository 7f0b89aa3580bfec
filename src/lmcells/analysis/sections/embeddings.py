"""The embeddings of a model's sections in its two networks."""

import numpy as np
import numpy.typing as npt

from lmcells.analysis.names import require_sections
from lmcells.analysis.sections.statistics import section_statistics
from lmcells.analysis.statistics.distances import Floats
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import InputError, nearest
from lmcells.pretrained import PretrainedModel

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
