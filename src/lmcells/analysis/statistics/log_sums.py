"""Sums of exponentials, safe at any size."""

import numpy as np

from lmcells.analysis.statistics.distances import Floats


def log_sum_exp(terms: Floats) -> Floats:
    """log sum_k exp(term_k): (n, K) -> (n,)."""
    largest = terms.max(axis=1)
    sums: Floats = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
    return sums


def log_softmax(scores: Floats) -> Floats:
    """The logarithm of the softmax of each row."""
    return scores - log_sum_exp(scores)[:, None]
