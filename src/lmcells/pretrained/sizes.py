"""The sizes of a saved model, and the tensors that a model of such sizes must have.

`lmcells.model.ModelConfig` says more, but lives beside torch; this is what running without torch needs of it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Self

from lmcells.errors import ConfigError, nearest

KINDS = ("lmc", "bsg", "mbsge")
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """The kind of a model and the sizes of its tables and layers, named as in `ModelConfig`."""

    kind: str
    n_words: int
    n_metadata: int
    n_categories: int
    cell_dim: int
    embedding_dim: int
    hidden_dim: int
    context_dim: int
    phrase_dim: int
    masks_span: bool
    masked_span_dim: int
    masked_span_reach: int = 2  # what models had before they said so
    window: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Take the sizes from a `ModelConfig` that was saved as a mapping."""
        missing = [
            field.name for field in fields(cls) if field.default is MISSING and field.name not in config
        ]
        if missing:
            raise ConfigError(f"the model's settings lack {', '.join(missing)}.")
        return cls(**{field.name: config[field.name] for field in fields(cls) if field.name in config})

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(
                f"kind is {self.kind!r}; allowed: {', '.join(KINDS)}.{nearest(str(self.kind), KINDS)}"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "masks_span":
                if not isinstance(value, bool):
                    raise ConfigError(f"{field.name} is {value!r}; allowed: true or false.")
            elif field.name != "kind" and (type(value) is not int or value < self._least(field.name)):
                raise ConfigError(
                    f"{field.name} is {value!r}; allowed: an integer of at least {self._least(field.name)}."
                )

    def _least(self, name: str) -> int:
        may_be_none = {"n_categories", "phrase_dim", "context_dim", "masked_span_dim"} | (
            {"n_metadata"} if self.kind == "bsg" else set()
        )
        return 0 if name in may_be_none else 1

    @property
    def section_offset(self) -> int:
        """Center id of section 0 in the joint ids of mbsge."""
        return self.n_words + self.n_categories

    @property
    def n_centers(self) -> int:
        """How many ids a center can have."""
        return self.section_offset + self.n_metadata if self.kind == "mbsge" else self.n_words

    @property
    def lstm_dim(self) -> int:
        """Units of the LSTM in each direction."""
        return self.context_dim or self.hidden_dim

    @property
    def mask_id(self) -> int:
        """The id that marks a gap in a context, where the model marks them."""
        return self.n_centers

    @property
    def n_read(self) -> int:
        """How many ids the variational network has vectors for."""
        return self.n_centers + self.masks_span

    def tensor_shapes(self) -> Shapes:
        """Name and shape of each tensor in `model.safetensors`."""
        hidden, lstm, words = self.hidden_dim, self.lstm_dim, self.embedding_dim
        variational = {
            "context.words.weight": (self.n_read, words),
            "context.lstm.input": (2, 4 * lstm, 2 * words),
            "context.lstm.hidden": (2, 4 * lstm, lstm),
            "context.lstm.input_bias": (2, 4 * lstm),
            "context.lstm.hidden_bias": (2, 4 * lstm),
            **self._heads(2 * lstm),
        }
        prior: Shapes
        if self.kind == "lmc":
            variational |= {
                "metadata.weight": (self.n_metadata, 2 * lstm),
                **_linear("gate", 4 * lstm, 2),
            }
            if self.masked_span_dim:
                read = 4 * lstm + 2 * self.masked_span_reach * words
                variational |= {
                    **_linear("masked_span_reader.hidden", read, self.masked_span_dim),
                    "masked_span_reader.out.weight": (2 * lstm, self.masked_span_dim),
                }
            prior = {
                "words.weight": (self.n_words, words),
                "metadata.weight": (self.n_metadata, words),
                **_linear("hidden", 2 * words, hidden),
                **self._heads(hidden),
            }
        else:
            variational |= {"query": (2 * lstm,)}
            prior = {
                "mean.weight": (self.n_centers, self.cell_dim),
                "log_variance.weight": (self.n_centers, 1),
            }
        phrases: Shapes = {}
        if self.phrase_dim:
            phrases = {
                "salience.weight": (1, words),
                **_linear("hidden", words, self.phrase_dim),
                **_linear("mean", self.phrase_dim, self.cell_dim),
            }
        parts = {"variational": variational, "prior": prior, "phrases": phrases}
        return {f"{part}.{name}": shape for part, of_part in parts.items() for name, shape in of_part.items()}

    def _heads(self, width: int) -> Shapes:
        return {**_linear("heads.mean", width, self.cell_dim), **_linear("heads.log_variance", width, 1)}


def _linear(name: str, width: int, out: int) -> Shapes:
    return {f"{name}.weight": (out, width), f"{name}.bias": (out,)}
