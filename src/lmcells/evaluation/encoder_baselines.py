"""Baselines that rank by the cosine of two vectors, the window's and the long form's: ELMo, BERT, sentence encoders.

torch and transformers are imported when a model is opened; nothing is ever downloaded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from lmcells.errors import MissingExtra, ModelError
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_forms import unit_length
from lmcells.expansion.windows import Mention, WindowReader
from lmcells.files import read_json
from lmcells.notes.tokens import iterate_tokens, spell

if TYPE_CHECKING:
    from torch import Tensor

    from lmcells.language_model.folder import PretrainedLanguageModel

Words = tuple[str, ...]
Text = TypeVar("Text", str, Words)

# Last layer (B, T, d), which positions are read (B, T), which of them are special (B, T) -> (B, d)
Pooling = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]

LONGEST = 512  # word pieces; a window of 20 words with the text between them is far shorter
_BATCH = 64


@dataclass(eq=False)
class CosineRanker(Generic[Text]):
    """Cosine of the window and the long form (the mean of its alternatives); -inf for a long form without any."""

    inventory: SenseInventory
    window: Callable[[Mention], Text]
    alternatives: Callable[[Sense], Sequence[Text]]  # the ways to write a long form
    encode: Callable[[Sequence[Text]], Floats]  # -> (n, d)
    _long_forms: dict[str, Floats] = field(default_factory=dict)  # short form -> (K, d), computed once

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        windows = unit_length(self.encode([self.window(mention) for mention in mentions]))
        new = sorted({mention.short_form for mention in mentions} - self._long_forms.keys())
        texts_of = {name: list(map(self.alternatives, self.inventory.senses(name))) for name in new}
        texts = sorted({text for senses in texts_of.values() for of_sense in senses for text in of_sense})
        vector_of = dict(zip(texts, self.encode(texts), strict=True)) if texts else {}
        missing = [np.full(windows.shape[1], np.nan)]
        for short_form, senses in texts_of.items():
            vectors = ([vector_of[text] for text in of_sense] or missing for of_sense in senses)
            self._long_forms[short_form] = unit_length(np.stack([np.mean(each, axis=0) for each in vectors]))
        return [
            np.nan_to_num(self._long_forms[mention.short_form] @ window, nan=-np.inf)  # (K, d), (d,) -> (K,)
            for mention, window in zip(mentions, windows, strict=True)
        ]


def _encode_in_batches(texts: Sequence[Text], encode: Callable[[list[Text]], "Tensor"]) -> Floats:
    """Encode texts of similar length together: -> (n, d)."""
    import torch

    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    with torch.inference_mode():
        encoded = [encode([texts[row] for row in rows]).cpu().numpy() for rows in batches]
    if not encoded:
        return np.zeros((0, 0))
    vectors = np.zeros((len(texts), encoded[0].shape[1]))
    vectors[order] = np.concatenate(encoded)
    return vectors


def elmo_ranker(pretrained: "PretrainedLanguageModel", inventory: SenseInventory) -> CosineRanker[Words]:
    """Cosine(ELMo_avg(short form and context), ELMo_avg(long form)), as the paper ranks with ELMo.

    The window has ten words on each side that the model was trained on. The short form and the long form's words need
    not be among those: the model reads characters. It computes on the model's device.
    """
    model, stop_words = pretrained.model, pretrained.reads_stop_words
    read = WindowReader(dict.fromkeys(pretrained.words, 0), stop_words=stop_words)

    def window(mention: Mention) -> Words:
        ((left, right),) = read.words_read([mention])
        return (*(each.word for each in left), spell(mention.short_form), *(each.word for each in right))

    def alternatives(sense: Sense) -> Sequence[Words]:
        tokens = (iterate_tokens(form, stop_words=stop_words) for form in sense.forms)
        phrases = dict.fromkeys(tuple(token.word for token in of_form) for of_form in tokens)
        return [phrase for phrase in phrases if phrase]

    def mean_states(texts: list[Words]) -> "Tensor":
        import torch

        from lmcells.language_model.model import Texts, spell_out

        number: dict[str, int] = {}
        index = np.zeros((len(texts), max(map(len, texts))), np.int64)
        for row, words in enumerate(texts):
            index[row, : len(words)] = [number.setdefault(word, len(number)) for word in words]
        spelled = spell_out(list(number), max_characters=model.config.max_characters)
        batch = Texts(spelled, torch.from_numpy(index), torch.tensor([len(words) for words in texts]))
        return model.mean_states(batch.to(next(model.parameters()).device))

    return CosineRanker(inventory, window, alternatives, lambda texts: _encode_in_batches(texts, mean_states))


def transformer_ranker(
    encoder: "PretrainedEncoder", inventory: SenseInventory, *, words: Iterable[str] | None = None
) -> CosineRanker[str]:
    """Read the window as written, with its stop words, case and punctuation.

    The window spans ten `words` on each side, not counting stop words, as for the paper's models; None is any word.
    """
    read = WindowReader(None if words is None else dict.fromkeys(words, 0))
    return CosineRanker(inventory, read.text_of, lambda sense: sense.forms, encoder.encode)


class PretrainedEncoder:
    def __init__(self, folder: Path, pooling: Pooling, *, max_length: int = LONGEST) -> None:
        self._tokenizer, model = _load(folder)
        self._model = model.eval()
        self._pooling = pooling
        known = (self._tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", LONGEST))
        self._max_length = int(min(max_length, LONGEST, *known))

    @classmethod
    def bert(cls, folder: Path) -> Self:
        """The paper's BERT: the average of mean and max over the last layer's words."""
        return cls(folder, _mean_and_max_of_words)

    @classmethod
    def sentence(cls, folder: Path) -> Self:
        """A sentence-transformers folder, pooled as its own `1_Pooling/config.json` says, or by the mean."""
        settings = folder / "sentence_bert_config.json"
        max_length = read_json(settings).get("max_seq_length") if settings.is_file() else None
        inner = folder / "0_Transformer"  # of older versions
        pooling = read_pooling(folder)
        return cls(inner if inner.is_dir() else folder, pooling, max_length=max_length or LONGEST)

    @property
    def n_parameters(self) -> int:
        """Number of trained values outside the embedding tables."""
        from torch import nn

        tables = (module for module in self._model.modules() if isinstance(module, nn.Embedding))
        total = sum(parameter.numel() for parameter in self._model.parameters())
        return int(total - sum(table.weight.numel() for table in tables))

    def encode(self, texts: Sequence[str]) -> Floats:
        """One vector of length 1 per text: (n, d)."""
        return _encode_in_batches(texts, self._encode_batch)

    def _encode_batch(self, texts: list[str]) -> "Tensor":
        from torch.nn import functional

        how = {"padding": True, "truncation": True, "max_length": self._max_length, "return_tensors": "pt"}
        batch = self._tokenizer(texts, **how, return_special_tokens_mask=True)
        special = batch.pop("special_tokens_mask").bool()
        states = self._model(**batch).last_hidden_state  # (B, T, d)
        pooled = self._pooling(states, batch["attention_mask"].bool(), special)
        return functional.normalize(pooled.float(), dim=-1)


def _load(folder: Path) -> tuple[Any, Any]:
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


def _mean(states: "Tensor", read: "Tensor") -> "Tensor":
    weights = read.unsqueeze(-1).to(states.dtype)  # (B, T, 1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def _max(states: "Tensor", read: "Tensor") -> "Tensor":
    return states.masked_fill(~read.unsqueeze(-1), float("-inf")).amax(dim=1)


def _first(states: "Tensor", read: "Tensor") -> "Tensor":
    first = read.int().argmax(dim=1)  # (B,); padding may be on the left
    return states[first.new_tensor(range(len(first))), first]


def _mean_and_max_of_words(states: "Tensor", attended: "Tensor", special: "Tensor") -> "Tensor":
    """The average of mean and max over the words, without [CLS] and [SEP]: the paper's choice for BERT."""
    words = attended & ~special
    words = words | (attended & ~words.any(dim=1, keepdim=True))  # a text without any word piece
    return (_mean(states, words) + _max(states, words)) / 2


# By their settings in sentence-transformers, in the order in which it puts them side by side. All of them read [CLS]
# and [SEP] too.
_POOLINGS: dict[str, Callable[["Tensor", "Tensor"], "Tensor"]] = {
    "pooling_mode_cls_token": _first,
    "pooling_mode_max_tokens": _max,
    "pooling_mode_mean_tokens": _mean,
    "pooling_mode_mean_sqrt_len_tokens": lambda states, read: (
        _mean(states, read) * read.sum(dim=1, keepdim=True).to(states.dtype).sqrt()
    ),
}


def read_pooling(folder: Path) -> Pooling:
    """The pooling that a sentence-transformers folder asks for (several are put side by side), or the mean."""
    path = folder / "1_Pooling" / "config.json"
    try:
        settings = read_json(path) if path.is_file() else {"pooling_mode_mean_tokens": True}
    except ValueError:
        raise ModelError(f"{path} is damaged: it is not JSON.") from None
    wanted = [name for name, is_on in settings.items() if name.startswith("pooling_mode_") and is_on is True]
    unknown = [name for name in wanted if name not in _POOLINGS]
    if unknown or not wanted:
        found = unknown[0] if unknown else "no pooling_mode_..."
        raise ModelError(f"{path} asks for {found}; known: {', '.join(_POOLINGS)}.")

    def pool(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
        from torch import cat

        poolings = (pooling for name, pooling in _POOLINGS.items() if name in wanted)
        return cat([pooling(states, attended) for pooling in poolings], dim=-1)

    return pool
