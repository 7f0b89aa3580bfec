"""The bidirectional language model as a whole (ELMo, Peters et al. 2018)."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.language_model.characters import CharacterEncoder
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.encoder import BidirectionalEncoder, Readings, mirror
from lmcells.language_model.objective import WordTable
from lmcells.model.precision import at_least_float32


@dataclass(frozen=True, slots=True)
class Texts:
    """Runs of words. Each distinct word is spelt once, however often it stands there."""

    characters: Tensor  # (distinct words, max_characters)
    index: Tensor  # (B, T) which of them; anything where there is none
    lengths: Tensor  # (B,) at least 1

    @property
    def mask(self) -> Tensor:
        """(B, T), true where there is a word."""
        return torch.arange(self.index.shape[1], device=self.index.device) < self.lengths.unsqueeze(1)

    def to(self, device: torch.device) -> Self:
        """The same on a device."""
        return type(self)(self.characters.to(device), self.index.to(device), self.lengths.to(device))


class LanguageModel(nn.Module):
    """Characters -> word vectors -> states of two directions -> the next word of each."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.words = CharacterEncoder(config)
        self.encoder = BidirectionalEncoder(config)
        self.vocabulary = WordTable(config.n_words, config.width)

    def forward(self, texts: Texts) -> Readings:
        """States of both directions, each in its own order of reading: (B, 1 + T, width)."""
        spelt = at_least_float32(self.words(texts.characters))  # layers add to these: not in bf16
        vectors = functional.embedding(texts.index, spelt)  # (B, T, width)
        readings: Readings = self.encoder(vectors, texts.lengths)
        return readings

    def word_states(self, texts: Texts) -> Tensor:
        """Final states at each word, both directions side by side: (B, T, 2 * width)."""
        readings = self(texts)
        backward = mirror(readings.backward[:, 1:], texts.lengths)
        return torch.cat([readings.forward[:, 1:], backward], dim=-1)

    def mean_states(self, texts: Texts) -> Tensor:
        """ELMo_avg of the paper: the mean of the final states of a text's words, (B, 2 * width)."""
        states = self.word_states(texts).float()
        weights = texts.mask.unsqueeze(-1).to(states.dtype)  # (B, T, 1)
        return (states * weights).sum(dim=1) / weights.sum(dim=1)

    def predictions(self, texts: Texts, words: Tensor) -> tuple[Tensor, Tensor]:
        """States beside the words they are to predict, first of all texts forward, then backward.

        `words` (B, T) are ids of the vocabulary -> (2 n, width), (2 n,), where n words are there.
        """
        mask = texts.mask
        readings = self(texts)
        states = torch.cat([readings.forward[:, :-1][mask], readings.backward[:, :-1][mask]])
        return states, torch.cat([words[mask], mirror(words, texts.lengths)[mask]])
