"""Which of two words another one belongs to, by counting alone: a judge that no model of ours has taught.

Words are compared by the cosine of their positive pointwise mutual information with the commonest words,
PPMI(w, c) = max(0, log p(w, c) / (p(w) p(c))), over windows of five words on each side.
"""

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus

WINDOW = 5
N_CONTEXTS = 3_000

Floats = npt.NDArray[np.float32]


class Associations:
    """How much alike words are in a corpus.

    associations = Associations(corpus)
    associations.belongs("melody", to="guitar", rather_than="compiler")
    """

    def __init__(self, corpus: Corpus) -> None:
        self._ids = {word: id_ for id_, word in enumerate(corpus.words)}
        vectors = positive_information(count_together(corpus))
        self._unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def belongs(self, word: str, *, to: str, rather_than: str) -> bool:
        """Whether a word is more like one word than like the other."""
        unit = self._unit[self._ids[word]]
        return bool(unit @ self._unit[self._ids[to]] > unit @ self._unit[self._ids[rather_than]])


def count_together(corpus: Corpus) -> Floats:
    """How often each word stands near each of the commonest ones: (V, C). Windows end with the document."""
    tokens = np.asarray(corpus.tokens, np.int64)
    segments = np.asarray(corpus.token_segment)
    n_words = len(corpus.words)
    n_contexts = min(N_CONTEXTS, n_words)  # ids are by frequency, the most frequent first
    counts = np.zeros(n_words * n_contexts, np.float32)
    for distance in range(1, WINDOW + 1):
        left, right = tokens[:-distance], tokens[distance:]
        is_same = segments[:-distance] == segments[distance:]
        for word, context in ((left, right), (right, left)):
            kept = is_same & (context < n_contexts)
            pairs = word[kept] * n_contexts + context[kept]
            counts += np.bincount(pairs, minlength=counts.size).astype(np.float32)
    return counts.reshape(n_words, n_contexts)


def positive_information(counts: Floats) -> Floats:
    """Positive pointwise mutual information of rows and columns: (V, C) -> (V, C)."""
    of_words, of_contexts = counts.sum(axis=1, keepdims=True), counts.sum(axis=0, keepdims=True)
    expected = of_words * (of_contexts / max(float(counts.sum()), 1.0))
    ratio = np.divide(counts, expected, out=np.ones_like(counts), where=counts > 0)
    information: Floats = np.log(ratio)
    return np.maximum(information, 0)
