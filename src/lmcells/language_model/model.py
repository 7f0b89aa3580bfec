"""The bidirectional language model as a whole (ELMo, Peters et al. 2018)."""

from dataclasses import dataclass
from typing import NamedTuple, Self

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
        index = torch.cat([texts.index, mirror(texts.index, texts.lengths)])  # (2 B, T)
        words, mirrored = functional.embedding(index, spelt).chunk(2)  # (B, T, width) each
        readings: Readings = self.encoder(words, mirrored)
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

    def predictions(self, texts: Texts, words: Tensor) -> "Predictions":
        """What is to be predicted of texts whose words are these ids of the vocabulary, (B, T)."""
        readings = self(texts)
        states = torch.cat([readings.forward[:, :-1], readings.backward[:, :-1]])  # (2 B, T, width)
        return Predictions(
            states.flatten(0, 1),
            torch.cat([words, mirror(words, texts.lengths)]).flatten(),
            texts.mask.repeat(2, 1).flatten(),
        )


class Predictions(NamedTuple):
    """States beside the words they are to predict: of all texts forward, then of all backward.

    Padding is left in: taking it out would wait for the device to count it.
    """

    states: Tensor  # (2 B T, width)
    words: Tensor  # (2 B T,)
    present: Tensor  # (2 B T,) bool, false where there is no word
