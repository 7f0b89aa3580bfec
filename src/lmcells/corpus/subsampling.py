"""Dropping most places of the most frequent words, as word2vec does, when training reads the corpus."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.corpus.corpus import Corpus
from lmcells.errors import ConfigError

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Stream:
    """Tokens and their segments, in order."""

    tokens: npt.NDArray[np.integer]
    token_segment: npt.NDArray[np.integer]


def keep_probability(counts: npt.NDArray[np.integer], *, threshold: float) -> npt.NDArray[np.float64]:
    """Return the chance of each word's places to stay: sqrt(t/f) + t/f, at most 1, f its share of all tokens.

    Mikolov et al. 2013, in the form of the word2vec program. A threshold of 0 keeps everything.
    """
    if threshold < 0:
        raise ConfigError(
            f"subsampling threshold: found {threshold}, allowed: 0 (keep all) or more, usually 0.001."
        )
    if threshold == 0:
        return np.ones(counts.size)
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    probability: npt.NDArray[np.float64] = np.minimum(np.sqrt(ratio) + ratio, 1.0)
    return probability


def subsample(
    corpus: Corpus, *, threshold: float = 1e-3, seed: int, first: int = 0, last: int | None = None
) -> Stream:
    """Return the tokens from `first` to `last` that stay: a matter of the seed and their place alone."""
    last = corpus.tokens.size if last is None else min(last, corpus.tokens.size)
    probability = keep_probability(np.asarray(corpus.word_counts), threshold=threshold).astype(np.float32)
    tokens, segments = [corpus.tokens[:0]], [corpus.token_segment[:0]]
    for block in range(first // _BLOCK, -(-last // _BLOCK)):
        chances = np.random.Generator(np.random.Philox(key=[seed, block])).random(_BLOCK, np.float32)
        start, end = max(first, block * _BLOCK), min(last, (block + 1) * _BLOCK)
        here = np.asarray(corpus.tokens[start:end])
        stays = chances[start - block * _BLOCK : end - block * _BLOCK] < probability[here]
        tokens.append(here[stays])
        segments.append(np.asarray(corpus.token_segment[start:end])[stays])
    return Stream(np.concatenate(tokens), np.concatenate(segments))
