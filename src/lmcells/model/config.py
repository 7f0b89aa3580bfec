"""The settings that define a model: its kind, its sizes and the constants of its objective. Needs no torch."""

from dataclasses import dataclass
from typing import Literal

from lmcells.errors import ConfigError
from lmcells.settings import Rate, Size, check_fields

ModelKind = Literal["lmc", "bsg", "mbsge"]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """All that is needed to build a model and to draw its batches. The defaults are the paper's.

    Settings of the training (learning rate, batch size, smoothing, ...) are in `lmcells.training.settings`.
    """

    kind: ModelKind = "lmc"
    n_words: Size
    n_metadata: int = 0  # sections; unused by bsg
    n_categories: int = 0  # note types; mbsge only

    cell_dim: Size = 100  # d, of the latent cell
    embedding_dim: Size = 100  # of E and R for words, and of R for metadata
    hidden_dim: Size = 64  # of the LSTM in each direction, and of the model network
    context_dim: int = 0  # of the LSTM in each direction; 0 means hidden_dim
    masks_span: bool = False  # whether a span taken out of the text leaves a mask in the context
    masked_span_dim: int = 0  # hidden units of the masked-span reader; 0: none, as in the paper; lmc only
    masked_span_reach: Size = 2  # words that the masked-span reader reads on each side
    phrase_dim: int = 0  # hidden units of the phrase network; 0: none, as in the paper
    dropout: Rate = 0.2
    hidden_dropout: bool = True  # dropout after the model network's ReLU too; lmc only
    embedding_std: float | None = None  # of the initial tables; None is torch's default, 1.0

    margin: float = 1.0  # of the hinge
    variance_floor: float = 1e-3  # added to the variances of context words and negatives
    n_section_draws: Size = 10  # components of a context word's mixture
    window: Size = 10  # S, words on each side of the center
    center_mask_rate: Rate = 0.2
    context_mask_rate: Rate = 0.2
    category_rate: Rate = 0.1  # mbsge: how often the note type replaces the center
    section_rate: Rate = 0.2  # mbsge: how often the section does

    def __post_init__(self) -> None:
        check_fields(self)
        if self.kind != "bsg" and self.n_metadata == 0:
            raise ConfigError("n_metadata is 0; allowed: an integer of at least 1.")
        if self.masked_span_dim and not self.masks_span:
            raise ConfigError(
                f"masked_span_dim is {self.masked_span_dim} but masks_span is false; allowed then: 0."
            )
        if self.kind == "mbsge" and self.n_categories == 0 and self.category_rate > 0:
            raise ConfigError(
                f"category_rate is {self.category_rate:g} but n_categories is 0; allowed then: 0."
            )
        if self.kind == "mbsge" and self.category_rate + self.section_rate >= 1:
            raise ConfigError(
                f"category_rate and section_rate add up to {self.category_rate + self.section_rate:g}; "
                "allowed: below 1, so that some centers are words."
            )

    @property
    def lstm_dim(self) -> int:
        """Units of the LSTM in each direction."""
        return self.context_dim or self.hidden_dim

    @property
    def metadata_dim(self) -> int:
        """Width of the variational network's E_m, the attention's query over states of both directions."""
        return 2 * self.lstm_dim

    @property
    def category_offset(self) -> int:
        """Center id of category 0 in the joint ids of mbsge: words, then categories, then sections."""
        return self.n_words

    @property
    def section_offset(self) -> int:
        """Center id of section 0 in the joint ids of mbsge."""
        return self.n_words + self.n_categories

    @property
    def n_centers(self) -> int:
        """How many ids a center can have: the words, and for mbsge the categories and sections too."""
        return self.section_offset + self.n_metadata if self.kind == "mbsge" else self.n_words

    @property
    def mask_id(self) -> int:
        """The word id of a masked span in a context, if the model masks spans."""
        return self.n_centers

    @property
    def n_read(self) -> int:
        """How many ids the variational network has vectors for."""
        return self.n_centers + self.masks_span

    def tensor_shapes(self) -> Shapes:
        """Name and shape of each tensor of the model, as in the `state_dict` of `create_model(config)`."""
        words, lstm, joint = self.embedding_dim, self.lstm_dim, self.metadata_dim
        variational = {
            "context.words.weight": (self.n_read, words),
            "context.lstm.input": (2, 4 * lstm, 2 * words),
            "context.lstm.hidden": (2, 4 * lstm, lstm),
            "context.lstm.input_bias": (2, 4 * lstm),
            "context.lstm.hidden_bias": (2, 4 * lstm),
            **self._heads(joint),
        }
        prior: Shapes
        phrases: Shapes = {}
        if self.kind == "lmc":
            variational |= {"metadata.weight": (self.n_metadata, joint), **_linear("gate", 2 * joint, 2)}
            prior = {
                "words.weight": (self.n_words, words),
                "metadata.weight": (self.n_metadata, words),
                **_linear("hidden", 2 * words, self.hidden_dim),
                **self._heads(self.hidden_dim),
            }
            if self.masked_span_dim:
                width = 2 * joint + 2 * self.masked_span_reach * words
                variational |= _linear("masked_span_reader.hidden", width, self.masked_span_dim)
                variational["masked_span_reader.out.weight"] = (joint, self.masked_span_dim)
        else:
            variational["query"] = (joint,)
            prior = {
                "mean.weight": (self.n_centers, self.cell_dim),
                "log_variance.weight": (self.n_centers, 1),
            }
        if self.phrase_dim:
            phrases = {
                "salience.weight": (1, words),
                **_linear("hidden", words, self.phrase_dim),
                **_linear("mean", self.phrase_dim, self.cell_dim),
            }
        parts = {"variational": variational, "prior": prior, "phrases": phrases}
        return {f"{part}.{name}": shape for part, shapes in parts.items() for name, shape in shapes.items()}

    def _heads(self, width: int) -> Shapes:
        return {**_linear("heads.mean", width, self.cell_dim), **_linear("heads.log_variance", width, 1)}


def _linear(name: str, width: int, out: int) -> Shapes:
    return {f"{name}.weight": (out, width), f"{name}.bias": (out,)}
