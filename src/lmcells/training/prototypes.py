"""Prototypes: what a corpus teaches about frequent words and phrases, small enough to ship with a model.

A prototype is a mean of the posterior means at masked occurrences of a word or phrase, centered and of length 1. Known
long forms come first. A frequent phrase can occur in several kinds of contexts, so it has up to four prototypes, found
by spherical k-means.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from lmcells.corpus import Corpus
from lmcells.model import CellModel, ModelConfig, Windows
from lmcells.training.device_corpus import Chunk, divide, to_device
from lmcells.training.settings import TrainingSettings
from lmcells.training.spans import MaskedSpans, Spans, span_key, stop_word_ids

MAX_PROTOTYPES = 128_000  # in all: 6.5 MB
N_OCCURRENCES = 64  # read of each span, at most
SEVERAL = (12, 32, 96)  # occurrences for a second, a third and a fourth prototype
MIN_COHESION = 0.15  # normalised pointwise mutual information of a phrase's words
MIN_COUNT = 4  # occurrences of a long form in a user's corpus
LONGEST = 6  # words of a long form in a user's corpus, at most
N_CENTER_SPANS = 8192  # sample for the averages
_N_ROUNDS = 8  # of k-means
_SPANS_AT_ONCE = 512
_NOT_A_WORD = "<none>"  # stands for an id without a word: the mask token, and metadata that mbsge reads
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class ModelText:
    """A corpus, or a sample of a very long one, on a device: in a model's word ids, without subsampling."""

    chunk: Chunk
    words: list[str]  # by id: the model's vocabulary, then other words that were kept
    segment_metadata: Tensor | None  # (segments,) int32, below 0 where the model has none; None for bsg
    is_counted: Tensor | None  # (segments,) bool; None where all are
    config: ModelConfig

    @classmethod
    def of_corpus(
        cls,
        corpus: Corpus,
        *,
        config: ModelConfig,
        settings: TrainingSettings,
        device: torch.device,
        vocabulary: Sequence[str] | None = None,
        metadata: Sequence[int] = (),
        kept: Iterable[str] = (),
    ) -> Self:
        """Read a corpus; without `vocabulary`, the one that the model was trained on.

        Otherwise words are looked up in the model's vocabulary. Out-of-vocabulary words are dropped, as in the windows
        of a note, except those in `kept`: they can be part of a span, but the model does not read them. `metadata` maps
        the corpus' metadata ids to the model's, below 0 for none.
        """
        everything = replace(settings, subsampling=0.0)
        shards = divide(corpus, n_shards=1, chunk_tokens=settings.chunk_tokens)
        chunk = Chunk.load(corpus, shards[0][0], settings=everything, device=device)
        of_segment = None
        if config.kind != "bsg":
            own = np.asarray(corpus.segment_metadata(settings.metadata))
            of_segment = to_device(own if vocabulary is None else np.asarray(metadata, np.int32)[own], device)
        is_counted = None
        if settings.uncounted:
            is_counted = to_device(counted_segments(corpus, uncounted=settings.uncounted), device)
        if vocabulary is None:
            return cls(chunk, corpus.words, of_segment, is_counted, config)
        known = {word: id_ for id_, word in enumerate(vocabulary)}
        others = sorted(set(kept).intersection(corpus.words) - known.keys())
        words = [*vocabulary, *[_NOT_A_WORD] * (config.n_read - len(vocabulary)), *others]
        known |= {word: config.n_read + at for at, word in enumerate(others)}
        table = np.array([known.get(word, _UNKNOWN) for word in corpus.words], np.int32)
        tokens = to_device(table, device)[chunk.tokens]
        stays = tokens != _UNKNOWN
        return cls(Chunk(tokens[stays], chunk.segments[stays]), words, of_segment, is_counted, config)

    def readable(self, windows: Windows) -> Windows:
        """The same windows without out-of-vocabulary words that were kept."""
        if len(self.words) <= self.config.n_read:
            return windows
        is_read = windows.context < self.config.n_read  # (B, 2S)
        return replace(
            windows,
            center=torch.where(windows.center < self.config.n_read, windows.center, 0),
            context=torch.where(is_read, windows.context, 0),
            context_mask=windows.context_mask & is_read,
        )

    def counts(self, spans: Spans) -> Tensor:
        """How often each span occurs in segments that count, at least once: -> (U,)."""
        if self.is_counted is None:
            return spans.counts
        counted = self.is_counted[self.chunk.segments[spans.positions]].cumsum(0)
        last = spans.offsets + spans.counts - 1
        before = torch.where(spans.offsets > 0, counted[spans.offsets - 1], 0)
        return (counted[last] - before).clamp_min(1)


def counted_segments(corpus: Corpus, *, uncounted: str) -> npt.NDArray[np.bool_]:
    """Return which segments count towards how often a phrase is meant: (segments,)."""
    is_counted = np.array(corpus.metadata_names("category")) != uncounted
    of_segments: npt.NDArray[np.bool_] = is_counted[corpus.segment_metadata("category")]
    return of_segments


@dataclass(frozen=True, slots=True)
class Prototypes:
    """Prototypes of frequent words and phrases, and the averages that they are centered by."""

    phrases: list[str]  # words joined by spaces
    counts: npt.NDArray[np.int64]  # (P,)
    offsets: npt.NDArray[np.int64]  # (P + 1,) where the prototypes of each begin
    prototypes: npt.NDArray[np.float32]  # (R, d) of length 1
    shares: npt.NDArray[np.floating]  # (R,) of the phrase's occurrences, adding up to 1
    masked_span_center: npt.NDArray[np.float32]  # (d,) the average posterior mean of a masked span
    phrase_center: npt.NDArray[np.float32]  # (d,) the average mean of the phrase network


@torch.no_grad()
def build_prototypes(
    model: CellModel,
    corpus: Corpus,
    *,
    settings: TrainingSettings,
    long_forms: Iterable[Sequence[str]] = (),
    max_prototypes: int = MAX_PROTOTYPES,
) -> Prototypes | None:
    """Read a sample of the occurrences of frequent words and phrases in the corpus that the model was trained on.

    `long_forms`, each a list of words, come first. None if nothing occurs often enough.
    """
    text, spans, masked = _draw_spans(model, corpus, settings)
    if spans.n_drawn == 0:
        return None
    wanted = _find(long_forms, spans, text.words)
    chosen = _choose(spans, text.words, wanted=wanted, max_prototypes=max_prototypes)
    by_words = model.phrase_means(masked.words, masked.words_mask).float().mean(dim=0)  # (d,)
    by_context = model.posterior(masked.windows).cell.mean.float().mean(dim=0)  # (d,)
    return _read(model, text, spans, chosen, masked_span_center=by_context, phrase_center=by_words)


@torch.no_grad()
def sample_means(model: CellModel, corpus: Corpus, *, settings: TrainingSettings) -> npt.NDArray[np.float32]:
    """Posterior means at a sample of masked spans, the same for all models with one vocabulary: -> (n, d)."""
    _, _, masked = _draw_spans(model, corpus, settings)
    means: npt.NDArray[np.float32] = model.posterior(masked.windows).cell.mean.float().cpu().numpy()
    return means


def _draw_spans(
    model: CellModel, corpus: Corpus, settings: TrainingSettings
) -> tuple[ModelText, Spans, MaskedSpans]:
    """The corpus that a model was trained on, its spans, and a sample of them, drawn as in training."""
    device = _device(model.eval())
    text = ModelText.of_corpus(corpus, config=model.config, settings=settings, device=device)
    stop_words = stop_word_ids(corpus, device=device)
    spans = Spans.of_training(text.chunk, settings=settings, stop_words=stop_words)
    drawn = spans.draw(N_CENTER_SPANS, torch.Generator(device).manual_seed(settings.seed))
    return text, spans, spans.masked(drawn, config=model.config, segment_metadata=text.segment_metadata)


@torch.no_grad()
def read_long_forms(
    model: CellModel,
    text: ModelText,
    *,
    long_forms: Iterable[Sequence[str]],
    masked_span_center: npt.NDArray[np.float32],
    phrase_center: npt.NDArray[np.float32],
    min_count: int = MIN_COUNT,
) -> Prototypes:
    """Read only the occurrences of long forms, in any text, for a model whose averages are known."""
    phrases = {tuple(words) for words in long_forms if 0 < len(words) <= LONGEST}
    spans = _spans_among(text, phrases, min_count=min_count)
    device = _device(model.eval())
    by_context, by_words = (torch.tensor(each, device=device) for each in (masked_span_center, phrase_center))
    chosen = _find(phrases, spans, text.words).nonzero().squeeze(1)
    return _read(model, text, spans, chosen, masked_span_center=by_context, phrase_center=by_words)


def _spans_among(text: ModelText, phrases: Collection[Sequence[str]], *, min_count: int) -> Spans:
    """The spans of a text that consist only of words of these phrases: in a long text far fewer than all spans."""
    words = {word for phrase in phrases for word in phrase}
    chunk = text.chunk
    is_wanted = torch.tensor([word in words for word in text.words], device=chunk.tokens.device)
    kept = is_wanted[chunk.tokens].nonzero().squeeze(1)
    segments = chunk.segments[kept]
    # Cut the text where words were dropped, so that no phrase reaches across.
    cut = (kept.diff() != 1) | (segments.diff() != 0)
    runs = torch.cat([cut.new_zeros(min(len(kept), 1)), cut]).cumsum(0, dtype=torch.int32)
    max_words = max(map(len, phrases), default=1)
    spans = Spans.of_chunk(Chunk(chunk.tokens[kept], runs), min_count=min_count, max_words=max_words)
    return replace(spans, chunk=chunk, positions=kept[spans.positions].to(torch.int32))


def _find(phrases: Iterable[Sequence[str]], spans: Spans, words: Sequence[str]) -> Tensor:
    """Which spans are among these phrases: -> (U,) bool."""
    word_ids = {word: id_ for id_, word in enumerate(words)}
    ids = ([word_ids.get(word, _UNKNOWN) for word in phrase] for phrase in phrases)
    keys = [span_key(each) for each in ids if each and _UNKNOWN not in each]
    return torch.isin(spans.keys, torch.tensor(keys, dtype=torch.int64, device=spans.keys.device))


def _read(
    model: CellModel,
    text: ModelText,
    spans: Spans,
    rows: Tensor,
    *,
    masked_span_center: Tensor,
    phrase_center: Tensor,
) -> Prototypes:
    """The prototypes of the spans in these rows (n,)."""
    n_prototypes, n_read = _n_prototypes(spans)[rows], _n_read(spans)[rows]
    chosen, n_each = [rows[:0]], [0]
    prototypes = [masked_span_center.new_zeros(0, len(masked_span_center))]
    shares = [prototypes[0][:, 0]]
    # In blocks of spans with equal numbers of prototypes and of occurrences to read.
    for n, k in torch.unique(torch.stack([n_prototypes, n_read], dim=1), dim=0).tolist():
        of_block = rows[(n_prototypes == n) & (n_read == k)]
        for block in torch.split(of_block, _SPANS_AT_ONCE * N_OCCURRENCES // k):
            turn = torch.arange(k, device=rows.device).unsqueeze(1)
            evenly = turn * spans.counts[block] // k  # (k, b)
            occurrences = (spans.positions[spans.offsets[block] + evenly], spans.lengths[block])
            masked = spans.masked(occurrences, config=text.config, segment_metadata=text.segment_metadata)
            means = model.posterior(text.readable(masked.windows)).cell.mean.float()  # (k b, d)
            points = functional.normalize(means - masked_span_center, dim=-1).view(k, len(block), -1)
            found, share = _spherical_means(points.transpose(0, 1), n)  # (b, n, d), (b, n)
            chosen.append(block)
            n_each += [n] * len(block)
            prototypes.append(found.flatten(0, 1))
            shares.append(share.flatten())
    every = torch.cat(chosen)
    return Prototypes(
        phrases=_names(spans, every, text.words),
        counts=text.counts(spans)[every].cpu().numpy().astype(np.int64),
        offsets=np.cumsum(n_each).astype(np.int64),
        prototypes=torch.cat(prototypes).cpu().numpy(),
        shares=torch.cat(shares).cpu().numpy(),
        masked_span_center=masked_span_center.cpu().numpy(),
        phrase_center=phrase_center.cpu().numpy(),
    )


def _names(spans: Spans, rows: Tensor, words: Sequence[str]) -> list[str]:
    """The words of spans, joined by spaces."""
    first, tokens = spans.positions[spans.offsets[rows]], spans.chunk.tokens
    within = torch.arange(spans.max_words, device=rows.device)
    ids = tokens[(first.unsqueeze(1) + within).clamp_max(len(tokens) - 1)].tolist()
    lengths = spans.lengths[rows].tolist()
    return [" ".join(words[id_] for id_ in of_row[:n]) for of_row, n in zip(ids, lengths, strict=True)]


def _choose(spans: Spans, words: Sequence[str], *, wanted: Tensor, max_prototypes: int) -> Tensor:
    """The `wanted` spans, then the most frequent words and cohesive phrases, while there is room: -> (n,) rows.

    Leaves out spans with numbers or placeholders, and spans that training never draws.
    """
    chunk = spans.chunk
    is_word = torch.tensor([not word.startswith("<") for word in words], device=chunk.tokens.device)
    first = spans.positions[spans.offsets]
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
    possible = n_more.clamp_min(1) * (total - together).clamp_min(1e-9)
    may_be &= (n_more == 0) | ((together + n_more * total - apart) / possible >= MIN_COHESION)
    rows = (may_be | wanted).nonzero().squeeze(1)
    importance = spans.counts[rows].long() + wanted[rows] * len(chunk)
    rows = rows[torch.sort(importance, descending=True, stable=True).indices]
    return rows[_n_prototypes(spans)[rows].cumsum(0) <= max_prototypes]


def _n_prototypes(spans: Spans) -> Tensor:
    """How many prototypes each span gets: (U,)."""
    return 1 + torch.stack([spans.counts >= least for least in SEVERAL]).sum(dim=0)


def _n_read(spans: Spans) -> Tensor:
    """How many occurrences of each span are read: its count rounded up to a power of two, for few blocks: (U,)."""
    power = spans.counts.double().log2().ceil().clamp(1, math.log2(N_OCCURRENCES))
    return (2**power).long()


def _spherical_means(points: Tensor, n_means: int) -> tuple[Tensor, Tensor]:
    """Spherical k-means of each row: (n, P, d) -> (n, K, d), (n, K) shares of the points."""
    means = points.mean(dim=1, keepdim=True)
    for _ in range(1, n_means):  # each mean starts at the point farthest from those before it
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
