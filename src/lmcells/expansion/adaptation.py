"""Adapting a model to other text: training continues from its weights, on a corpus with its own words and sections.

The network is trained with the vocabulary of the corpus: known words and sections start from the model's vectors, new
words from those of words with similar spelling. Afterwards the words, sections and phrases that only the model knew are
restored. Its prototypes are moved into the space of the trained network by a linear map, fitted to the posterior means
before and after training at masked spans of the corpus.

Needs torch; nothing that expands notes imports this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lmcells.corpus import Corpus, WordMetadataCounts, count_words_by_metadata
from lmcells.errors import ConfigError, ModelError
from lmcells.expansion.inventory_compilation import metadata_ids, require_same_words
from lmcells.expansion.long_forms import unit_length
from lmcells.model import CellModel, ModelConfig, create_model
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.phrase_store import PhraseStore, from_four_bits
from lmcells.pretrained.save import Vocabulary
from lmcells.pretrained.subwords import TABLE, Subwords
from lmcells.training import TrainingSettings
from lmcells.training.prototypes import Prototypes, counted_segments, sample_means

Floats = npt.NDArray[np.float32]

_WORD_TABLES = (TABLE, "prior.words.weight")
_METADATA_TABLES = ("variational.metadata.weight", "prior.metadata.weight")
_NOISE = 0.02  # standard deviation; separates new words that start from the same vector
_OWN_SHARE = 0.5  # of the corpus in the counts of phrases, against the model's training text
# Of a corpus that is not counted, in the average of masked spans: more helps notes, less helps papers.
_CENTER_SHARE = 0.35
_RIDGE = 1e-3  # of the linear map, relative to the variance


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A model and the corpus that it is adapted to."""

    base: PretrainedModel
    corpus: Corpus

    def __post_init__(self) -> None:
        base, corpus = self.base, self.corpus
        if base.sizes.kind != "lmc" or base.phrase_store is None:
            raise ModelError(
                f"{base.folder} cannot be adapted: it has no phrase network and store. Give a model that was trained "
                "with the preset default."
            )
        require_same_words(base, corpus)

    def model_config(self, changed: Mapping[str, Any]) -> ModelConfig:
        """Return the model's settings, with the sizes of the corpus and the user's changes."""
        n_metadata = self.corpus.n_metadata(self.base.config.metadata_kind)
        own = replace(self.base.sizes, n_words=len(self.corpus.words), n_metadata=n_metadata)
        for name, value in changed.items():
            if not _fits(own, **{name: value}):
                raise ConfigError(
                    f"model.{name} is {value!r}; {self.base.folder} has {getattr(own, name)!r}, which adapting keeps. "
                    "Leave it out, and any preset but adapt or default."
                )
        return replace(own, **changed)

    def initial_weights(self, *, seed: int) -> dict[str, torch.Tensor]:
        """Return the model's weights for the vocabulary of the corpus."""
        base, words = self.base, self.corpus.words
        weights = {name: np.array(array, np.float32) for name, array in base.arrays.items()}
        known = np.array([base.word_ids.get(word, -1) for word in words])
        new = [word for word in words if word not in base.word_ids]
        noise = np.random.default_rng(seed)
        for name in _WORD_TABLES:
            table = weights[name]
            rows = table[np.maximum(known, 0)]
            rows[known < 0] = self._spelt_alike(table, new)
            rows[known < 0] += noise.normal(0, _NOISE, (len(new), table.shape[1])).astype(np.float32)
            # with the mask's vector, if it has one
            weights[name] = np.concatenate([rows, table[base.sizes.n_words :]])
        sections = np.array(metadata_ids(base, self.corpus))
        for name in _METADATA_TABLES:
            table = weights[name]
            weights[name] = np.where(
                (sections >= 0)[:, None], table[np.maximum(sections, 0)], table.mean(axis=0)
            )
        return {name: torch.from_numpy(array) for name, array in weights.items()}

    def _spelt_alike(self, table: Floats, words: list[str]) -> Floats:
        """Return vectors of out-of-vocabulary words by their spelling, or the mean vector if none is similar."""
        own = table[: self.base.sizes.n_words]
        weights = np.log1p(self.base.word_counts).astype(np.float32)
        rows: Floats = np.tile(weights @ own / weights.sum(), (len(words), 1))
        if self.base.subwords is not None:
            reader = Subwords(self.base.words, own, self.base.word_counts, self.base.subwords.settings)
            readable = [at for at, word in enumerate(words) if word in reader]
            rows[readable] = reader.vectors([words[at] for at in readable])
        return rows

    def merged(self, trained: CellModel) -> tuple[CellModel, Vocabulary]:
        """Return the trained model with the words and sections that only the base knew, and the joint counts."""
        base, corpus, kind = self.base, self.corpus, self.base.config.metadata_kind
        own_words, own_names = set(corpus.words), corpus.metadata_names(kind)
        other_words = [at for at, word in enumerate(base.words) if word not in own_words]
        other_names = [at for at, name in enumerate(base.sections) if name not in set(own_names)]
        words = [*corpus.words, *(base.words[at] for at in other_words)]
        names = [*own_names, *(base.sections[at] for at in other_names)]
        weights = {name: tensor.cpu().float() for name, tensor in trained.state_dict().items()}
        for tables, others, n_own in (
            (_WORD_TABLES, other_words, len(corpus.words)),
            (_METADATA_TABLES, other_names, len(own_names)),
        ):
            for name in tables:
                kept = torch.from_numpy(np.array(base.arrays[name][others], np.float32))
                weights[name] = torch.cat([weights[name][:n_own], kept, weights[name][n_own:]])
        with torch.device("meta"):
            model = create_model(replace(trained.config, n_words=len(words), n_metadata=len(names)))
        model.load_state_dict(weights, assign=True)
        word_at = {word: at for at, word in enumerate(words)}
        name_at = {name: at for at, name in enumerate(names)}
        counts = _added(
            (count_words_by_metadata(corpus, kind), np.arange(len(corpus.words)), np.arange(len(own_names))),
            (base.statistics, _places(base.words, word_at), _places(base.sections, name_at)),
            n_words=len(words),
            n_metadata=len(names),
        )
        word_counts = np.zeros(len(words), np.int64)
        word_counts[: len(corpus.words)] = corpus.word_counts
        np.add.at(word_counts, _places(base.words, word_at), base.word_counts)
        return model.eval(), Vocabulary(words, names, counts, word_counts)

    def merged_store(self, trained: CellModel, own: Prototypes, *, settings: TrainingSettings) -> PhraseStore:
        """Return the phrases of both texts, each with the prototypes of both, weighted by frequency."""
        store = self.base.phrase_store
        assert store is not None
        with torch.device("meta"):
            before = create_model(trained.config)
        before.load_state_dict(self.initial_weights(seed=settings.seed), assign=True)
        device = next(trained.parameters()).device
        means = [sample_means(each.to(device), self.corpus, settings=settings) for each in (before, trained)]
        to_trained = _linear_map(*means)
        is_counted = counted_segments(self.corpus, uncounted=settings.uncounted)
        n_counted = int(is_counted[self.corpus.token_segment].sum())
        if n_counted:
            n_read = int(self.base.word_counts.sum())  # of all text that it was trained on and adapted to
            rates = (1 - _OWN_SHARE), _OWN_SHARE * n_read / n_counted
            center = own.masked_span_center
        else:  # counts stay those of the model's own text, and averages nearly so
            rates = 1.0, 1.0
            before_center = to_trained(store.masked_span_center)
            center = before_center + _CENTER_SHARE * (own.masked_span_center - before_center)
        prototypes = from_four_bits(store.arrays["prototypes"], dim=self.base.sizes.cell_dim)
        moved = unit_length(to_trained(_points(prototypes, store.masked_span_center, means[0])) - center)
        of_own = unit_length(_points(own.prototypes, own.masked_span_center, means[1]) - center)
        own = replace(own, prototypes=of_own.astype(np.float32), masked_span_center=center)
        return _joined(store, moved.astype(np.float32), own, rates=rates)


@torch.no_grad()
def average_weights(model: CellModel, initial: Mapping[str, torch.Tensor], *, share: float) -> None:
    """Move a model's weights back towards those it started from (Wortsman et al. 2022, WiSE-FT).

    The average keeps most of what was learnt on either text.
    """
    for name, tensor in model.state_dict().items():
        tensor.lerp_(initial[name].to(tensor), share)


def _fits(sizes: ModelConfig, **changed: Any) -> bool:
    """Whether a model with some settings changed has tensors of the same shapes."""
    try:
        return replace(sizes, **changed).tensor_shapes() == sizes.tensor_shapes()
    except ConfigError:  # the change contradicts another setting
        return False


def _places(names: list[str], at: dict[str, int]) -> npt.NDArray[np.int64]:
    return np.array([at[name] for name in names], np.int64)


def _added(
    *tables: tuple[WordMetadataCounts, npt.NDArray[np.int64], npt.NDArray[np.int64]],
    n_words: int,
    n_metadata: int,
) -> WordMetadataCounts:
    """Add counts; each table comes with the indices of its words and metadata in the joint table."""
    keys, counts = [], []
    for table, words, metadata in tables:
        of_cell = np.repeat(words, np.diff(table.offsets))
        keys.append(of_cell * n_metadata + metadata[table.metadata])
        counts.append(table.counts)
    distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.bincount(inverse, np.concatenate(counts), minlength=distinct.size).astype(np.int64)
    offsets = np.searchsorted(distinct, np.arange(n_words + 1) * n_metadata)
    return WordMetadataCounts(offsets, (distinct % n_metadata).astype(np.int32), total, n_metadata)


def _linear_map(before: Floats, after: Floats) -> Callable[[Floats], Floats]:
    """Fit the map from posterior means (n, d) to those of another network at the same spans, by ridge regression."""
    middle, new_middle = before.mean(axis=0, dtype=np.float64), after.mean(axis=0, dtype=np.float64)
    x, y = before - middle, after - new_middle
    gram = x.T @ x
    ridge = _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    # The identity in directions that the spans do not cover.
    matrix = np.linalg.solve(gram + ridge, x.T @ y + ridge)
    return lambda points: ((points - middle) @ matrix + new_middle).astype(np.float32)


def _points(prototypes: Floats, center: Floats, means: Floats) -> Floats:
    """Return where prototypes lie: in their directions from the center, as far away as posterior means are."""
    radius = np.linalg.norm(means - center, axis=1).mean()
    points: Floats = center + radius * prototypes
    return points


def _joined(store: PhraseStore, moved: Floats, own: Prototypes, *, rates: tuple[float, float]) -> PhraseStore:
    """Join two sets of phrases, with counts as in a mixture of both texts."""
    of_base = (store.arrays["offsets"].astype(np.int64), store.arrays["shares"].astype(np.float64), moved)
    of_own = (own.offsets, own.shares.astype(np.float64), own.prototypes)
    at_base = {phrase: at for at, phrase in enumerate(store.phrases)}
    at_own = {phrase: at for at, phrase in enumerate(own.phrases)}
    phrases = [*own.phrases, *(phrase for phrase in store.phrases if phrase not in at_own)]
    sources = (
        (of_base, at_base, store.arrays["counts"].astype(np.float64) * rates[0]),
        (of_own, at_own, own.counts.astype(np.float64) * rates[1]),
    )
    rows: list[Floats] = []
    shares: list[npt.NDArray[np.float64]] = []
    counts, sizes = [], []
    for phrase in phrases:
        total, n_rows = 0.0, 0
        for (offsets, of_rows, vectors), at, of_phrase in sources:
            if (index := at.get(phrase)) is None:
                continue
            found = slice(offsets[index], offsets[index + 1])
            rows.append(vectors[found])
            shares.append(of_rows[found] / of_rows[found].sum() * of_phrase[index])
            total += of_phrase[index]
            n_rows += found.stop - found.start
        counts.append(total)
        sizes.append(n_rows)
    return PhraseStore.of_prototypes(
        Prototypes(
            phrases=phrases,
            counts=np.maximum(np.rint(counts), 1).astype(np.int64),
            offsets=np.cumsum([0, *sizes]),
            prototypes=np.concatenate(rows),
            shares=np.concatenate(shares) / np.repeat(counts, sizes),
            masked_span_center=own.masked_span_center,
            phrase_center=own.phrase_center,
        )
    )
