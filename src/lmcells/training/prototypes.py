"""What occurrences teach about words and phrases, in a form that travels with a model.

For each frequent word or phrase of a corpus: the direction in which the posterior puts the gaps that it leaves. Those
that are known to be long forms come first, and have up to three directions if they are frequent, found by k-means on
the sphere, since a phrase can stand in several kinds of places.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from lmcells.corpus import Corpus
from lmcells.model import CellModel
from lmcells.training.agreement import UnitGaps, gap_windows
from lmcells.training.chunks import divide
from lmcells.training.device_corpus import Chunk, DeviceTables
from lmcells.training.sampler import Sampler
from lmcells.training.settings import TrainingSettings
from lmcells.training.units import DrawnUnits, Units, unit_key

MAX_DIRECTIONS = 64_000  # of all together: 6.5 MB in eight bits
N_PLACES = 64  # of a word or phrase that are read
SEVERAL = (64, 512)  # how often a long form must occur to get a second and a third direction
MIN_COHESION = 0.15  # of a phrase
N_CENTER_UNITS = 8192  # that the averages are taken of
_N_ROUNDS = 8  # of k-means
_BLOCK = 512  # units that are read at a time


@dataclass(frozen=True, slots=True)
class Prototypes:
    """Directions of frequent words and phrases, and the averages that directions start from."""

    phrases: list[str]  # words joined by spaces
    counts: npt.NDArray[np.int64]  # (P,)
    offsets: npt.NDArray[np.int64]  # (P + 1,) where the directions of each begin
    directions: npt.NDArray[np.float32]  # (R, d) of length 1
    shares: npt.NDArray[np.float32]  # (R,) of the places of its phrase; they add to 1
    gap_center: npt.NDArray[np.float32]  # (d,) the average posterior mean of a gap
    phrase_center: npt.NDArray[np.float32]  # (d,) the average mean of the phrase network


def build_prototypes(
    model: CellModel,
    corpus: Corpus,
    *,
    settings: TrainingSettings,
    long_forms: Iterable[Sequence[str]] = (),
    max_directions: int = MAX_DIRECTIONS,
) -> Prototypes:
    """Read a sample of the places of words and phrases with a trained model, on its device.

    `long_forms` are phrases that are wanted most, each as its words.
    """
    reader = _GapReader(model, corpus, settings)
    wanted = reader.find(long_forms)
    chosen = _choose(reader.units, reader.chunk, corpus, wanted=wanted, max_directions=max_directions)
    model.eval()
    with torch.no_grad():
        gap_center, phrase_center = reader.centers()
        parts = [
            (rows, *reader.directions(rows, n_directions=n_directions, center=gap_center))
            for n_directions, rows in _blocks(chosen, _n_directions(reader.units, wanted)[chosen])
        ]
        words = [reader.words_of(rows) for rows, _, _ in parts]
    each = np.concatenate([np.full(len(rows), shares.shape[1]) for rows, _, shares in parts])
    return Prototypes(
        phrases=[" ".join(corpus.words[word] for word in phrase) for part in words for phrase in part],
        counts=np.concatenate([_numpy(reader.units.counts[rows]) for rows, _, _ in parts]).astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum(each)]).astype(np.int64),
        directions=np.concatenate([_numpy(directions.flatten(0, 1)) for _, directions, _ in parts]),
        shares=np.concatenate([_numpy(shares.flatten()) for _, _, shares in parts]),
        gap_center=_numpy(gap_center),
        phrase_center=_numpy(phrase_center),
    )


class _GapReader:
    """The corpus on the model's device, with nothing left out of it, and its words and phrases."""

    def __init__(self, model: CellModel, corpus: Corpus, settings: TrainingSettings) -> None:
        device = next(model.parameters()).device
        everything = TrainingSettings(**settings.to_dict() | {"subsampling": 0.0})
        division = divide(corpus, n_shards=1, chunk_tokens=settings.chunk_tokens)
        self.model = model
        self._words = corpus.words
        self.chunk = Chunk.load(corpus, division.shards[0][0], settings=everything, device=device)
        self.units = Units.of_chunk(
            self.chunk,
            min_count=settings.agreement_min_count,
            exponent=settings.agreement_exponent,
            max_words=settings.agreement_max_words,
        )
        tables = DeviceTables.of_corpus(corpus, config=model.config, settings=settings, device=device)
        generator = torch.Generator(device).manual_seed(settings.seed)
        self._sampler = Sampler(tables, model.config, generator)
        self._max_words = settings.agreement_max_words

    def centers(self) -> tuple[Tensor, Tensor]:
        """The average mean of a gap, and of a phrase by its words, drawn as training draws them: (d,), (d,)."""
        gaps = self._gaps(self.units.draw(N_CENTER_UNITS, self._sampler.generator))
        by_words = self.model.phrase_means(gaps.words, gaps.words_mask)
        return self.model.posterior(gaps.windows).cell.mean.float().mean(dim=0), by_words.float().mean(dim=0)

    def directions(self, rows: Tensor, *, n_directions: int, center: Tensor) -> tuple[Tensor, Tensor]:
        """Directions of units and the share of each: (n,) -> (n, K, d), (n, K)."""
        counts, offsets = self.units.counts[rows], self.units.offsets[rows]
        spread = (
            torch.arange(N_PLACES, device=rows.device).unsqueeze(1) * counts // N_PLACES
        )  # (64, n), evenly
        places = self.units.places[offsets + spread]
        gaps = self._gaps(DrawnUnits(places, self.units.lengths[rows]))
        means = self.model.posterior(gaps.windows).cell.mean.float()  # (64 n, d)
        points = functional.normalize(means - center, dim=-1).view(N_PLACES, len(rows), -1)
        return _spherical_means(points.transpose(0, 1), n_directions)

    def find(self, phrases: Iterable[Sequence[str]]) -> Tensor:
        """Which units are among some phrases: -> (U,) bool."""
        word_ids = {word: id_ for id_, word in enumerate(self._words)}
        ids = ([word_ids.get(word, -1) for word in phrase] for phrase in phrases)
        keys = torch.tensor(
            [unit_key(words) for words in ids if words and -1 not in words], dtype=torch.int64
        )
        return torch.isin(self.units.keys, keys.to(self.units.keys.device))

    def words_of(self, rows: Tensor) -> list[list[int]]:
        """The words of units."""
        first = self.units.places[self.units.offsets[rows]]
        within = torch.arange(self._max_words, device=rows.device)
        words = self.chunk.tokens[(first.unsqueeze(1) + within).clamp_max(len(self.chunk) - 1)].tolist()
        return [of_row[:n] for of_row, n in zip(words, self.units.lengths[rows].tolist(), strict=True)]

    def _gaps(self, units: DrawnUnits) -> UnitGaps:
        return gap_windows(self._sampler, self.chunk, units, max_words=self._max_words)


def _choose(units: Units, chunk: Chunk, corpus: Corpus, *, wanted: Tensor, max_directions: int) -> Tensor:
    """What is wanted, then the most frequent words and cohesive phrases, while there is room: -> (n,) rows.

    A number or a mark is no part of a phrase.
    """
    is_word = torch.tensor([not word.startswith("<") for word in corpus.words], device=chunk.tokens.device)
    first = units.places[units.offsets]
    counts = torch.bincount(chunk.tokens, minlength=len(is_word)).double().log()
    may_be = torch.ones_like(units.counts, dtype=torch.bool)
    apart = torch.zeros_like(first, dtype=torch.float64)  # log of the product of the words' counts
    for column in range(int(units.lengths.max())):
        within = column < units.lengths
        word = chunk.tokens[(first + column).clamp_max(len(chunk) - 1)]
        may_be &= is_word[word] | ~within
        apart += torch.where(within, counts[word], 0.0)
    # Normalised pointwise mutual information: 0 where words meet by chance, 1 where they are never apart.
    n_more, total, together = units.lengths - 1, np.log(len(chunk)), units.counts.double().log()
    cohesion = (together + n_more * total - apart) / (
        n_more.clamp_min(1) * (total - together).clamp_min(1e-9)
    )
    may_be &= (n_more == 0) | (cohesion >= MIN_COHESION)
    rows = (may_be | wanted).nonzero().squeeze(1)
    importance = units.counts[rows].long() + wanted[rows] * len(chunk)
    rows = rows[torch.sort(importance, descending=True, stable=True).indices]
    return rows[_n_directions(units, wanted)[rows].cumsum(0) <= max_directions]


def _n_directions(units: Units, wanted: Tensor) -> Tensor:
    """How many directions each unit is to have: (U,)."""
    return 1 + torch.stack([wanted & (units.counts >= least) for least in SEVERAL]).sum(dim=0)


def _blocks(rows: Tensor, n_directions: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Rows with equally many directions, so many at a time as fit."""
    for n in range(1, len(SEVERAL) + 2):
        alike = rows[n_directions == n]
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


def _numpy(values: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = values.cpu().numpy()
    return array
