"""Transformers as baselines: cosine of the window's vector and the long form's, from any checkpoint folder.

    TransformerRanker(PretrainedEncoder.bert(Path("Bio_ClinicalBERT")), inventory)
    TransformerRanker(PretrainedEncoder.sentence(Path("all-MiniLM-L6-v2")), inventory)

Both read the window as it is written, with its stop words, case and punctuation, in order. Nothing is ever fetched.
"""

from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus.windows import RADIUS
from lmcells.errors import MissingExtra, ModelError
from lmcells.evaluation.pooling import MEAN_AND_MAX, Pooling, read_pooling
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.context import Mention, window_text
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.files import read_json

if TYPE_CHECKING:
    from torch import Tensor

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
