"""ELMo as the paper ranks with it: the cosine of two means of final states, the window's and the long form's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lmcells.corpus import RADIUS
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.windows import Mention, tokens_around
from lmcells.notes.tokens import iterate_tokens, spell

if TYPE_CHECKING:  # torch takes seconds to import
    from lmcells.language_model.folder import PretrainedLanguageModel
    from lmcells.language_model.model import Texts

_BATCH = 256

Vectors = npt.NDArray[np.float64]
Words = tuple[str, ...]


class ElmoRanker:
    """Cosine(ELMo_avg(short form and context), ELMo_avg(long form)); a long form is the mean of its alternatives.

    ranker = ElmoRanker(load_language_model("model"), inventory)
    ranker.scores(mentions)   # for each mention one score a sense, in the inventory's order; higher is better

    The window's words are those that the model has learnt from, ten on either side. The short form and the long
    form's words need not be among them: they are read by their characters. It computes where the model is.
    """

    def __init__(
        self,
        pretrained: "PretrainedLanguageModel",
        inventory: SenseInventory,
        *,
        radius: int = RADIUS,
    ) -> None:
        self._model = pretrained.model
        self._words = frozenset(pretrained.words)
        self._stop_words = pretrained.reads_stop_words
        self._inventory = inventory
        self._radius = radius
        self._long_forms: dict[str, Vectors] = {}  # short form -> (K, d), computed once

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Cosines, one a candidate; -inf where a long form has no token at all."""
        self._encode_long_forms(sorted({mention.short_form for mention in mentions}))
        windows = self._encode([self._window(mention) for mention in mentions])
        return [
            np.nan_to_num(self._long_forms[mention.short_form] @ window, nan=-np.inf)  # (K, d), (d,) -> (K,)
            for mention, window in zip(mentions, _normalised(windows), strict=True)
        ]

    def _window(self, mention: Mention) -> Words:
        left, right = tokens_around(
            mention, words=self._words, radius=self._radius, stop_words=self._stop_words
        )
        return (
            *(token.word for token in left),
            spell(mention.short_form),
            *(token.word for token in right),
        )

    def _encode_long_forms(self, short_forms: Sequence[str]) -> None:
        new = [short_form for short_form in short_forms if short_form not in self._long_forms]
        senses = [sense for short_form in new for sense in self._inventory.senses(short_form)]
        phrases_of = {sense: _phrases(sense, stop_words=self._stop_words) for sense in senses}
        phrases = sorted({phrase for of_sense in phrases_of.values() for phrase in of_sense})
        vector_of = dict(zip(phrases, self._encode(phrases), strict=True))
        missing = np.full(2 * self._model.config.width, np.nan)
        for short_form in new:
            means = [
                np.mean([vector_of[phrase] for phrase in phrases_of[sense]] or [missing], axis=0)
                for sense in self._inventory.senses(short_form)
            ]
            self._long_forms[short_form] = _normalised(np.stack(means))

    def _encode(self, texts: Sequence[Words]) -> Vectors:
        """ELMo_avg of each text: (n, d). Texts of like length share a batch."""
        import torch

        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        vectors = np.zeros((len(texts), 2 * self._model.config.width))
        device = next(self._model.parameters()).device
        with torch.inference_mode():
            for start in range(0, len(order), _BATCH):
                rows = order[start : start + _BATCH]
                batch = self._spelt([texts[row] for row in rows]).to(device)
                vectors[rows] = self._model.mean_states(batch).cpu().numpy()
        return vectors

    def _spelt(self, texts: Sequence[Words]) -> "Texts":
        import torch

        from lmcells.language_model.model import Texts, spell_out

        number: dict[str, int] = {}
        index = np.zeros((len(texts), max(map(len, texts))), np.int64)
        for row, words in enumerate(texts):
            index[row, : len(words)] = [number.setdefault(word, len(number)) for word in words]
        return Texts(
            spell_out(list(number), max_characters=self._model.config.max_characters),
            torch.from_numpy(index),
            torch.tensor([len(words) for words in texts]),
        )


def _phrases(sense: Sense, *, stop_words: bool) -> list[Words]:
    """The alternatives of a long form as words, each once; one without a token is none."""
    phrases = [
        tuple(token.word for token in iterate_tokens(form, stop_words=stop_words)) for form in sense.forms
    ]
    return [phrase for phrase in dict.fromkeys(phrases) if phrase]


def _normalised(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled
