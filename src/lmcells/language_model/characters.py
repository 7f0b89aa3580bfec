"""Words as their characters: any word has a vector, also one that was never seen.

Character CNN and highway layers as in ELMo (Peters et al. 2018; Kim et al. 2016), over the bytes of UTF-8.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcells.language_model.config import LanguageModelConfig

PADDING = 0
FIRST_BYTE = 1  # the byte b has the id b + 1
BEGINNING, END = 257, 258
N_CHARACTERS = 259


def spell_out(words: Sequence[str], *, max_characters: int) -> Tensor:
    """The characters of words, between two marks: -> (words, max_characters) int16. Longer words are cut."""
    ids = np.full((len(words), max_characters), PADDING, np.int16)
    for row, word in enumerate(words):
        written = np.frombuffer(word.encode("utf-8", "replace")[: max_characters - 2], np.uint8)
        ids[row, 0] = BEGINNING
        ids[row, 1 : 1 + written.size] = written.astype(np.int16) + FIRST_BYTE
        ids[row, 1 + written.size] = END
    return torch.from_numpy(ids)


class Highway(nn.Module):
    """g * relu(W x) + (1 - g) * x, with a gate g that begins nearly closed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, values: Tensor) -> Tensor:
        gate = self.gate(values).sigmoid()
        changed: Tensor = values + gate * (functional.relu(self.change(values)) - values)
        return changed


class CharacterEncoder(nn.Module):
    """A vector a word: filters over its characters, the largest value of each, highways, a projection."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        n_filters = sum(config.filters)
        self.characters = nn.Embedding(N_CHARACTERS, config.character_dim, padding_idx=PADDING)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.character_dim, count, width)
            for width, count in enumerate(config.filters, start=1)
            if count
        )
        self.highways = nn.Sequential(*(Highway(n_filters) for _ in range(config.highways)))
        self.projection = nn.Linear(n_filters, config.width)

    def forward(self, characters: Tensor) -> Tensor:
        """(words, max_characters) -> (words, width)."""
        read = self.characters(characters.int())  # (words, max_characters, character_dim)
        found = [self._largest(filters, read) for filters in self.filters]
        vector: Tensor = self.projection(self.highways(functional.relu(torch.cat(found, dim=-1))))
        return vector

    def _largest(self, filters: nn.Module, read: Tensor) -> Tensor:
        """The largest value of each filter over the characters: -> (words, filters).

        A convolution as one matrix product: with 16 channels that is the quicker way.
        """
        assert isinstance(filters, nn.Conv1d)
        pieces = read.unfold(1, filters.kernel_size[0], 1).flatten(
            2
        )  # (words, places, character_dim * width)
        return functional.linear(pieces, filters.weight.flatten(1), filters.bias).amax(dim=1)
