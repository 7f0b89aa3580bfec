"""Transformers as baselines: cosine of the window's vector and the long form's, from any checkpoint folder.

    TransformerRanker(PretrainedEncoder.bert(Path("Bio_ClinicalBERT")), inventory)
    TransformerRanker(PretrainedEncoder.sentence(Path("all-MiniLM-L6-v2")), inventory)

Both read the window as it is written, with its stop words, case and punctuation, in order. Nothing is ever fetched.
"""

from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus.corpus import RADIUS
from lmcells.errors import MissingExtra, ModelError
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.windows import Mention, window_text
from lmcells.files import read_json

if TYPE_CHECKING:
    from torch import Tensor


# From a transformer's last layer to one vector a text.


# Last layer (B, T, d), which positions are read (B, T), which of them are special (B, T) -> (B, d)
Pooling = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
POOLING_CONFIG = Path("1_Pooling") / "config.json"


def mean_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The mean over all positions that are read, [CLS] and [SEP] too, as sentence-transformers takes it."""
    weights = attended.unsqueeze(-1).to(states.dtype)  # (B, T, 1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def max_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The largest value of each dimension over all positions that are read."""
    return states.masked_fill(~attended.unsqueeze(-1), float("-inf")).amax(dim=1)


def first_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The first position that is read: [CLS]."""
    first = attended.int().argmax(dim=1)  # (B,); padding may stand on the left
    return states[first.new_tensor(range(len(first))), first]


def square_root_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The sum over the positions, divided by the square root of their number."""
    weights = attended.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).sqrt()


def mean_and_max_pooling(states: "Tensor", attended: "Tensor", special: "Tensor") -> "Tensor":
    """The average of mean and max over the words, [CLS] and [SEP] left out: the paper's choice for BERT."""
    words = attended & ~special
    words = words | (attended & ~words.any(dim=1, keepdim=True))  # a text without any word piece
    return (mean_pooling(states, words, special) + max_pooling(states, words, special)) / 2


MEAN_AND_MAX: Pooling = mean_and_max_pooling
_BY_SETTING: dict[str, Pooling] = {
    "pooling_mode_cls_token": first_pooling,
    "pooling_mode_max_tokens": max_pooling,
    "pooling_mode_mean_tokens": mean_pooling,
    "pooling_mode_mean_sqrt_len_tokens": square_root_pooling,
}


def read_pooling(folder: Path) -> Pooling:
    """The pooling that a folder of sentence-transformers asks for (several are put side by side), or the mean."""
    path = folder / POOLING_CONFIG
    if not path.is_file():
        return mean_pooling
    try:
        settings = read_json(path)
    except ValueError:
        raise ModelError(f"{path} is damaged: it is not JSON.") from None
    wanted = [name for name, is_on in settings.items() if name.startswith("pooling_mode_") and is_on is True]
    unknown = [name for name in wanted if name not in _BY_SETTING]
    if unknown or not wanted:
        found = unknown[0] if unknown else "no pooling_mode_..."
        raise ModelError(f"{path} asks for {found}; known: {', '.join(_BY_SETTING)}.")
    poolings = [
        pooling for name, pooling in _BY_SETTING.items() if name in wanted
    ]  # their order of concatenation
    return poolings[0] if len(poolings) == 1 else _side_by_side(poolings)


def _side_by_side(poolings: list[Pooling]) -> Pooling:
    def pool(states: "Tensor", attended: "Tensor", special: "Tensor") -> "Tensor":
        from torch import cat

        return cat([pooling(states, attended, special) for pooling in poolings], dim=-1)

    return pool


# Transformers as baselines: cosine of the window's vector and the long form's, from any checkpoint folder.
#
#     TransformerRanker(PretrainedEncoder.bert(Path("Bio_ClinicalBERT")), inventory)
#     TransformerRanker(PretrainedEncoder.sentence(Path("all-MiniLM-L6-v2")), inventory)
#
# Both read the window as it is written, with its stop words, case and punctuation, in order. Nothing is ever fetched.


Vectors = npt.NDArray[np.float32]
LONGEST = 512  # word pieces; a window of 20 words and what stands between them is far shorter
_BATCH = 64
_SETTINGS = "sentence_bert_config.json"


class PretrainedEncoder:
    """A checkpoint that turns texts into vectors; torch and transformers are imported when one is opened."""

    def __init__(self, folder: Path, pooling: Pooling, *, max_length: int = LONGEST) -> None:
        tokenizer, model = _load(folder)
        self._tokenizer = tokenizer
        self._model = model.eval()
        self._pooling = pooling
        known = (tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", LONGEST))
        self._max_length = int(min(max_length, LONGEST, *known))

    @classmethod
    def bert(cls, folder: Path) -> Self:
        """The paper's BERT: the average of mean and max over the last layer's words."""
        return cls(folder, MEAN_AND_MAX)

    @classmethod
    def sentence(cls, folder: Path) -> Self:
        """A folder of sentence-transformers, pooled as its own `1_Pooling/config.json` says, or by the mean."""
        inner = folder / "0_Transformer"  # of older versions
        settings = folder / _SETTINGS
        max_length = LONGEST
        if settings.is_file():
            max_length = read_json(settings).get("max_seq_length") or LONGEST
        return cls(inner if inner.is_dir() else folder, read_pooling(folder), max_length=max_length)

    @property
    def n_parameters(self) -> int:
        """Number of trained values outside the tables."""
        from torch import nn

        tables = (module for module in self._model.modules() if isinstance(module, nn.Embedding))
        total = sum(parameter.numel() for parameter in self._model.parameters())
        return int(total - sum(table.weight.numel() for table in tables))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One vector of length 1 a text: (n, d). Texts of like length share a batch."""
        import torch

        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        vectors: list[Vectors] = [np.zeros(0, np.float32)] * len(texts)
        with torch.inference_mode():
            for start in range(0, len(order), _BATCH):
                rows = order[start : start + _BATCH]
                encoded = self._encode_batch([texts[row] for row in rows]).numpy()
                for row, vector in zip(rows, encoded, strict=True):
                    vectors[row] = vector
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)

    def _encode_batch(self, texts: list[str]) -> "Tensor":
        from torch.nn import functional

        batch = self._tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=self._max_length,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        special = batch.pop("special_tokens_mask").bool()
        states = self._model(**batch).last_hidden_state  # (B, T, d)
        pooled = self._pooling(states, batch["attention_mask"].bool(), special)
        return functional.normalize(pooled.float(), dim=-1)


class TransformerRanker:
    """Ranks by the cosine of the window and the long form, the long form being the average of its alternatives.

    `words`: the window spans ten of these words on either side, stop words aside, as for the paper's models; None is
    any word.
    """

    def __init__(
        self,
        encoder: PretrainedEncoder,
        inventory: SenseInventory,
        *,
        words: Container[str] | None = None,
        radius: int = RADIUS,
    ) -> None:
        self._encoder = encoder
        self._inventory = inventory
        self._words = words
        self._radius = radius
        self._long_forms: dict[str, Vectors] = {}  # short form -> (K, d), computed once

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Cosines, one a candidate."""
        windows = [window_text(mention, words=self._words, radius=self._radius) for mention in mentions]
        self._encode_long_forms(sorted({mention.short_form for mention in mentions}))
        return [
            (self._long_forms[mention.short_form] @ vector).astype(np.float64)  # (K, d), (d,) -> (K,)
            for mention, vector in zip(mentions, self._encoder.encode(windows), strict=True)
        ]

    def _encode_long_forms(self, short_forms: Sequence[str]) -> None:
        new = [short_form for short_form in short_forms if short_form not in self._long_forms]
        senses = [sense for short_form in new for sense in self._inventory.senses(short_form)]
        forms = sorted({form for sense in senses for form in sense.forms})
        vector_of = dict(zip(forms, self._encoder.encode(forms), strict=True))
        for short_form in new:
            self._long_forms[short_form] = np.stack(
                [_average(sense, vector_of) for sense in self._inventory.senses(short_form)]
            )


def _average(sense: Sense, vector_of: dict[str, Vectors]) -> Vectors:
    mean: Vectors = np.mean([vector_of[form] for form in sense.forms], axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _load(folder: Path) -> tuple[Any, Any]:
    """Open tokenizer and model of a folder, offline."""
    try:
        import torch  # noqa: F401
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise MissingExtra(error.name, extra="baselines", purpose="A transformer baseline") from None
    if not (folder / "config.json").is_file():
        found = "has no config.json" if folder.is_dir() else "is not a folder"
        raise ModelError(f"{folder} {found}. Give the folder of a Hugging Face checkpoint.")
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return tokenizer, AutoModel.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{folder} cannot be opened as a Hugging Face checkpoint: {reason}") from error
