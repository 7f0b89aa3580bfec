"""What occurrences teach about words and phrases, in a form that travels with a model.

For each frequent word or phrase of a corpus: the direction in which the posterior puts the masked_spans that it leaves. Those
that are known to be long forms come first, and have up to four prototypes if they are frequent, found by k-means on
the sphere, since a phrase can stand in several kinds of places.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from lmcells.corpus import Corpus
from lmcells.model import CellModel, ModelConfig, Windows
from lmcells.training.contrastive import MaskedSpans, masked_span_windows
from lmcells.training.device_corpus import AliasTable, Chunk, DeviceTables, divide, to_device
from lmcells.training.sampler import Sampler
from lmcells.training.settings import TrainingSettings
from lmcells.training.spans import DrawnSpans, Spans, span_key, stop_word_ids

# A text as a model reads it: the words and the metadata of a corpus under the model's own ids.
#
# The corpus that a model was trained on has these ids already. Any other has its own vocabulary and section names: words
# go by their spelling, and one that the model does not know is left out, as in the windows of a note.


_NO_WORD = "<none>"  # the name of an id that is no word's: the gap, and what mbsge reads beside words
_LEFT_OUT = -1


@dataclass(frozen=True, slots=True)
class ModelIds:
    """Under which ids a model knows the words and the metadata of some corpus."""

    vocabulary: Sequence[str]  # the model's words
    metadata: Sequence[int]  # the model's id of each of the corpus' metadata; below 0 is none
    kept: Iterable[str] = ()  # further words that are not left out: they can be found, and are never read


@dataclass(frozen=True, slots=True)
class ModelText:
    """A corpus, or a cut through a very long one, on a device; nothing is subsampled."""

    chunk: Chunk  # words and segments
    words: list[str]  # by id: the model's vocabulary, and what else was kept
    segment_metadata: Tensor | None  # (segments,) int32, below 0 where the model has none; None for bsg
    config: ModelConfig

    @classmethod
    def of_corpus(
        cls,
        corpus: Corpus,
        *,
        config: ModelConfig,
        settings: TrainingSettings,
        device: torch.device,
        ids: ModelIds | None = None,
    ) -> Self:
        """Read a corpus; without `ids` it is the one that the model was trained on."""
        everything = replace(settings, subsampling=0.0)
        division = divide(corpus, n_shards=1, chunk_tokens=settings.chunk_tokens)
        chunk = Chunk.load(corpus, division.shards[0][0], settings=everything, device=device)
        of_segment = None
        if config.kind != "bsg":
            own = np.asarray(corpus.segment_metadata(settings.metadata))
            of_segment = to_device(own if ids is None else np.asarray(ids.metadata, np.int32)[own], device)
        if ids is None:
            return cls(chunk, corpus.words, of_segment, config)
        known = {word: id_ for id_, word in enumerate(ids.vocabulary)}
        kept = sorted(set(ids.kept).intersection(corpus.words) - known.keys())
        words = [*ids.vocabulary, *[_NO_WORD] * (config.n_read - len(ids.vocabulary)), *kept]
        known |= {word: config.n_read + at for at, word in enumerate(kept)}
        table = np.array([known.get(word, _LEFT_OUT) for word in corpus.words], np.int32)
        tokens = to_device(table, device)[chunk.tokens]
        stays = tokens != _LEFT_OUT
        return cls(Chunk(tokens[stays], chunk.segments[stays]), words, of_segment, config)

    def readable(self, windows: Windows) -> Windows:
        """The same windows; a word that was kept without the model knowing it is absent from them."""
        if len(self.words) <= self.config.n_read:
            return windows
        is_read = windows.context < self.config.n_read  # (B, 2S)
        return replace(
            windows,
            center=torch.where(windows.center < self.config.n_read, windows.center, 0),
            context=torch.where(is_read, windows.context, 0),
            context_mask=windows.context_mask & is_read,
        )


# What occurrences teach about words and phrases, in a form that travels with a model.
#
# For each frequent word or phrase of a corpus: the direction in which the posterior puts the masked_spans that it leaves. Those
# that are known to be long forms come first, and have up to four prototypes if they are frequent, found by k-means on
# the sphere, since a phrase can stand in several kinds of places.


MAX_PROTOTYPES = 128_000  # of all together: 6.5 MB
N_PLACES = 64  # of a word or phrase that are read
SEVERAL = (12, 32, 96)  # how often a phrase must occur to get a second, a third and a fourth direction
MIN_COHESION = 0.15  # of a phrase
MIN_COUNT = 4  # of a long form that is read in a text of the user's
LONGEST = 6  # words of such a long form
N_CENTER_SPANS = 8192  # that the averages are taken of
_N_ROUNDS = 8  # of k-means
_BLOCK = 512  # spans that are read at a time


@dataclass(frozen=True, slots=True)
class Prototypes:
    """Directions of frequent words and phrases, and the averages that prototypes start from."""

    phrases: list[str]  # words joined by spaces
    counts: npt.NDArray[np.int64]  # (P,)
    offsets: npt.NDArray[np.int64]  # (P + 1,) where the prototypes of each begin
    prototypes: npt.NDArray[np.float32]  # (R, d) of length 1
    shares: npt.NDArray[np.float32]  # (R,) of the places of its phrase; they add to 1
    masked_span_center: npt.NDArray[np.float32]  # (d,) the average posterior mean of a gap
    phrase_center: npt.NDArray[np.float32]  # (d,) the average mean of the phrase network


def build_prototypes(
    model: CellModel,
    corpus: Corpus,
    *,
    settings: TrainingSettings,
    long_forms: Iterable[Sequence[str]] = (),
    max_prototypes: int = MAX_PROTOTYPES,
) -> Prototypes | None:
    """Read a sample of the places of words and phrases with a model and the corpus it was trained on, on its device.

    `long_forms` are phrases that are wanted most, each as its words. None where nothing comes up often enough.
    """
    text = ModelText.of_corpus(corpus, config=model.config, settings=settings, device=_device(model))
    stop_words = stop_word_ids(corpus, device=_device(model))
    spans = Spans.of_training(text.chunk, settings=settings, stop_words=stop_words)
    if spans.n_drawn == 0:
        return None
    reader = _PlaceReader(model, text, spans, max_words=settings.contrastive_max_words, seed=settings.seed)
    wanted = reader.find(long_forms)
    chosen = _choose(spans, text, wanted=wanted, max_prototypes=max_prototypes)
    model.eval()
    with torch.no_grad():
        masked_span_center, phrase_center = reader.centers()
        return reader.read(
            chosen,
            _n_prototypes(spans)[chosen],
            masked_span_center=masked_span_center,
            phrase_center=phrase_center,
        )


def read_long_forms(
    model: CellModel,
    text: ModelText,
    *,
    long_forms: Iterable[Sequence[str]],
    masked_span_center: npt.NDArray[np.float32],
    phrase_center: npt.NDArray[np.float32],
    min_count: int = MIN_COUNT,
) -> Prototypes:
    """Read the places of long forms alone, in any text, for a model whose averages are known already."""
    phrases = {tuple(words) for words in long_forms if 0 < len(words) <= LONGEST}
    longest = max(map(len, phrases), default=1)
    spans = _spans_among(text, phrases, min_count=min_count, max_words=longest)
    reader = _PlaceReader(model, text, spans, max_words=longest)
    wanted = reader.find(phrases)
    chosen = wanted.nonzero().squeeze(1)
    model.eval()
    with torch.no_grad():
        return reader.read(
            chosen,
            _n_prototypes(spans)[chosen],
            masked_span_center=torch.from_numpy(np.array(masked_span_center, np.float32)).to(_device(model)),
            phrase_center=torch.from_numpy(np.array(phrase_center, np.float32)).to(_device(model)),
        )


def _spans_among(
    text: ModelText, phrases: Iterable[Sequence[str]], *, min_count: int, max_words: int
) -> Spans:
    """The spans of a text that have no other words than some phrases do: far fewer than all, in a long text."""
    words = {word for phrase in phrases for word in phrase}
    chunk = text.chunk
    is_wanted = torch.tensor([word in words for word in text.words], device=chunk.tokens.device)
    kept = is_wanted[chunk.tokens].nonzero().squeeze(1)
    segments = chunk.segments[kept]
    # What is left is cut wherever words were left out, so that no phrase reaches across.
    cut = (kept.diff() != 1) | (segments.diff() != 0)
    runs = torch.cat([cut.new_zeros(min(len(kept), 1)), cut]).cumsum(0, dtype=torch.int32)
    spans = Spans.of_chunk(
        Chunk(chunk.tokens[kept], runs), min_count=min_count, exponent=0.0, max_words=max_words
    )
    return replace(spans, places=kept[spans.places].to(torch.int32))


class _PlaceReader:
    """Reads the masked_spans that words and phrases of a text leave."""

    def __init__(
        self, model: CellModel, text: ModelText, spans: Spans, *, max_words: int, seed: int = 0
    ) -> None:
        self.model, self.text, self.spans = model, text, spans
        device = _device(model)
        tables = DeviceTables(
            segment_metadata=text.segment_metadata,
            segment_category=None,
            sections=None,
            negatives=AliasTable.of_weights(np.ones(1), device=device),  # none is drawn
        )
        self._sampler = Sampler(tables, text.config, torch.Generator(device).manual_seed(seed))
        self._max_words = max_words

    def read(
        self, rows: Tensor, n_prototypes: Tensor, *, masked_span_center: Tensor, phrase_center: Tensor
    ) -> Prototypes:
        """Read some spans, so many prototypes of each: (n,), (n,)."""
        phrases: list[str] = []
        counts, each = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        prototypes, shares = [np.zeros((0, len(masked_span_center)), np.float32)], [np.zeros(0, np.float32)]
        for n, block in _blocks(rows, n_prototypes):
            of_block, their_shares = self.prototypes(block, n_prototypes=n, center=masked_span_center)
            phrases += self.names(block)
            counts.append(_numpy(self.spans.counts[block]).astype(np.int64))
            each.append(np.full(len(block), n))
            prototypes.append(_numpy(of_block.flatten(0, 1)))
            shares.append(_numpy(their_shares.flatten()))
        return Prototypes(
            phrases=phrases,
            counts=np.concatenate(counts),
            offsets=np.concatenate([[0], np.cumsum(np.concatenate(each))]).astype(np.int64),
            prototypes=np.concatenate(prototypes),
            shares=np.concatenate(shares),
            masked_span_center=_numpy(masked_span_center),
            phrase_center=_numpy(phrase_center),
        )

    def centers(self) -> tuple[Tensor, Tensor]:
        """The average mean of a gap, and of a phrase by its words, drawn as training draws them: (d,), (d,)."""
        masked_spans = self._masked_spans(self.spans.draw(N_CENTER_SPANS, self._sampler.generator))
        by_words = self.model.phrase_means(masked_spans.words, masked_spans.words_mask)
        return self.model.posterior(masked_spans.windows).cell.mean.float().mean(
            dim=0
        ), by_words.float().mean(dim=0)

    def prototypes(self, rows: Tensor, *, n_prototypes: int, center: Tensor) -> tuple[Tensor, Tensor]:
        """Directions of spans and the share of each: (n,) -> (n, K, d), (n, K)."""
        counts, offsets = self.spans.counts[rows], self.spans.offsets[rows]
        spread = (
            torch.arange(N_PLACES, device=rows.device).unsqueeze(1) * counts // N_PLACES
        )  # (64, n), evenly
        places = self.spans.places[offsets + spread]
        masked_spans = self._masked_spans(DrawnSpans(places, self.spans.lengths[rows]))
        means = self.model.posterior(self.text.readable(masked_spans.windows)).cell.mean.float()  # (64 n, d)
        points = functional.normalize(means - center, dim=-1).view(N_PLACES, len(rows), -1)
        return _spherical_means(points.transpose(0, 1), n_prototypes)

    def find(self, phrases: Iterable[Sequence[str]]) -> Tensor:
        """Which spans are among some phrases: -> (U,) bool."""
        word_ids = {word: id_ for id_, word in enumerate(self.text.words)}
        ids = ([word_ids.get(word, -1) for word in phrase] for phrase in phrases)
        keys = torch.tensor(
            [span_key(words) for words in ids if words and -1 not in words], dtype=torch.int64
        )
        return torch.isin(self.spans.keys, keys.to(self.spans.keys.device))

    def names(self, rows: Tensor) -> list[str]:
        """The words of spans, joined by spaces."""
        first, tokens = self.spans.places[self.spans.offsets[rows]], self.text.chunk.tokens
        within = torch.arange(self._max_words, device=rows.device)
        words = tokens[(first.unsqueeze(1) + within).clamp_max(len(tokens) - 1)].tolist()
        return [
            " ".join(self.text.words[word] for word in of_row[:n])
            for of_row, n in zip(words, self.spans.lengths[rows].tolist(), strict=True)
        ]

    def _masked_spans(self, spans: DrawnSpans) -> MaskedSpans:
        return masked_span_windows(self._sampler, self.text.chunk, spans, max_words=self._max_words)


def _choose(spans: Spans, text: ModelText, *, wanted: Tensor, max_prototypes: int) -> Tensor:
    """What is wanted, then the most frequent words and cohesive phrases, while there is room: -> (n,) rows.

    A number or a mark is no part of a phrase, and what training would not draw is none.
    """
    chunk = text.chunk
    is_word = torch.tensor([not word.startswith("<") for word in text.words], device=chunk.tokens.device)
    first = spans.places[spans.offsets]
    counts = torch.bincount(chunk.tokens, minlength=len(is_word)).double().log()
    may_be = spans.weights > 0
    apart = torch.zeros_like(first, dtype=torch.float64)  # log of the product of the words' counts
    for column in range(int(spans.lengths.max())):
        within = column < spans.lengths
        word = chunk.tokens[(first + column).clamp_max(len(chunk) - 1)]
        may_be &= is_word[word] | ~within
        apart += torch.where(within, counts[word], 0.0)
    # Normalised pointwise mutual information: 0 where words meet by chance, 1 where they are never apart.
    n_more, total, together = spans.lengths - 1, np.log(len(chunk)), spans.counts.double().log()
    cohesion = (together + n_more * total - apart) / (
        n_more.clamp_min(1) * (total - together).clamp_min(1e-9)
    )
    may_be &= (n_more == 0) | (cohesion >= MIN_COHESION)
    rows = (may_be | wanted).nonzero().squeeze(1)
    importance = spans.counts[rows].long() + wanted[rows] * len(chunk)
    rows = rows[torch.sort(importance, descending=True, stable=True).indices]
    return rows[_n_prototypes(spans)[rows].cumsum(0) <= max_prototypes]


def _n_prototypes(spans: Spans) -> Tensor:
    """How many prototypes each span is to have: (U,)."""
    return 1 + torch.stack([spans.counts >= least for least in SEVERAL]).sum(dim=0)


def _blocks(rows: Tensor, n_prototypes: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Rows with equally many prototypes, so many at a time as fit."""
    for n in range(1, len(SEVERAL) + 2):
        alike = rows[n_prototypes == n]
        for block in torch.split(alike, _BLOCK) if len(alike) else ():
            yield n, block


def _spherical_means(points: Tensor, n_means: int) -> tuple[Tensor, Tensor]:
    """k-means by cosine, for each row on its own: (n, P, d) -> (n, K, d), (n, K) shares of the points."""
    means = points.mean(dim=1, keepdim=True)
    for _ in range(1, n_means):  # each begins at the point that those before it say least of
        nearest = (points @ means.transpose(1, 2)).amax(dim=-1)  # (n, P)
        farthest = nearest.argmin(dim=1).view(-1, 1, 1).expand(-1, 1, points.shape[-1])
        means = torch.cat([means, points.gather(1, farthest)], dim=1)
    for _ in range(_N_ROUNDS if n_means > 1 else 1):
        means = functional.normalize(means, dim=-1)
        member = functional.one_hot((points @ means.transpose(1, 2)).argmax(dim=-1), n_means).to(points.dtype)
        sums = member.transpose(1, 2) @ points  # (n, K, P), (n, P, d) -> (n, K, d)
        means = torch.where(member.sum(dim=1).unsqueeze(-1) > 0, sums, means)
    return functional.normalize(means, dim=-1), member.mean(dim=1)


def _device(model: CellModel) -> torch.device:
    return next(model.parameters()).device


def _numpy(values: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = values.cpu().numpy()
    return array
