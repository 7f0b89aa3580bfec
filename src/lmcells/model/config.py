"""The settings that define a model: its kind, its sizes, and the constants of its objective."""

from dataclasses import dataclass
from typing import Literal, get_args

from lmcells.errors import ConfigError, nearest

ModelKind = Literal["lmc", "bsg", "mbsge"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What must be known to build a model and to draw its batches. The defaults are the paper's.

    How it is trained (learning rate, batch size, negatives, smoothing...) is not here.
    """

    kind: ModelKind = "lmc"
    n_words: int
    n_metadata: int = 0  # sections; unused by bsg
    n_categories: int = 0  # note types; mbsge only

    cell_dim: int = 100  # d, of the latent cell
    embedding_dim: int = 100  # of E and R for words, and of R for metadata
    hidden_dim: int = 64  # of the LSTM in each direction, and of the model network
    context_dim: int = 0  # of the LSTM where it is to be another; 0 is hidden_dim
    masks_span: bool = False  # whether a word or phrase that is taken out leaves a mark in the context
    masked_span_dim: int = (
        0  # lmc: hidden units of the gap reader; 0 is none, as in the paper; others have none
    )
    masked_span_reach: int = (
        2  # present words it reads on either side of the mark; saved models that lack it have 2
    )
    phrase_dim: int = 0  # hidden units of the phrase network; 0 is none, as in the paper
    dropout: float = 0.2
    embedding_std: float | None = None  # of the initial tables; None is torch's default, 1.0

    margin: float = 1.0  # of the hinge
    variance_floor: float = 1e-3  # added to the variances of context words and negatives
    n_section_draws: int = 10  # components of a context word's mixture
    window: int = 10  # S, words on each side of the center
    center_mask_rate: float = 0.2
    context_mask_rate: float = 0.2
    category_rate: float = 0.1  # mbsge: how often the note type takes the center's place
    section_rate: float = 0.2  # mbsge: how often the section does

    def __post_init__(self) -> None:
        if self.kind not in get_args(ModelKind):
            raise ConfigError(
                f"kind is {self.kind!r}; allowed: {', '.join(get_args(ModelKind))}."
                f"{nearest(str(self.kind), get_args(ModelKind))}"
            )
        for name in ("n_words", "cell_dim", "embedding_dim", "hidden_dim", "n_section_draws", "window"):
            self._require_integer(name, at_least=1)
        self._require_integer("n_metadata", at_least=0 if self.kind == "bsg" else 1)
        self._require_integer("n_categories", at_least=0)
        self._require_integer("phrase_dim", at_least=0)
        self._require_integer("context_dim", at_least=0)
        self._require_integer("masked_span_dim", at_least=0)
        self._require_integer("masked_span_reach", at_least=1)
        for name in ("margin", "variance_floor"):
            self._require_number(name, at_least=0.0)
        for name in ("dropout", "center_mask_rate", "context_mask_rate", "category_rate", "section_rate"):
            self._require_number(name, at_least=0.0, below=1.0)
        if self.embedding_std is not None:
            self._require_number("embedding_std", at_least=0.0)
        if self.kind == "mbsge":
            self._require_replacements()
        if self.masked_span_dim and not self.masks_span:
            raise ConfigError(
                f"masked_span_dim is {self.masked_span_dim} but masks_span is false; allowed then: 0."
            )

    @property
    def metadata_dim(self) -> int:
        """Width of the variational network's E_m, which attends over states of both directions."""
        return 2 * self.lstm_dim

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

    def _require_integer(self, name: str, *, at_least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise ConfigError(
                f"{name} is {value!r}; kind {self.kind!r} needs an integer of at least {at_least}."
            )

    def _require_number(self, name: str, *, at_least: float, below: float = float("inf")) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not at_least <= value < below:  # the comparison refuses NaN too
            limit = "" if below == float("inf") else f" and below {below:g}"
            raise ConfigError(
                f"{name} is {value!r}; allowed: a finite number of at least {at_least:g}{limit}."
            )

    def _require_replacements(self) -> None:
        if self.n_categories == 0 and self.category_rate > 0:
            raise ConfigError(
                f"category_rate is {self.category_rate:g} but n_categories is 0; allowed then: 0."
            )
        if self.category_rate + self.section_rate >= 1:
            raise ConfigError(
                f"category_rate and section_rate add to {self.category_rate + self.section_rate:g}; "
                "allowed: below 1, so that words stay centers too."
            )
