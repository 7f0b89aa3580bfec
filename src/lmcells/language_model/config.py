"""The settings of a bidirectional language model and of its training."""

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from lmcells.errors import ConfigError
from lmcells.settings import Limits, Positive, Rate, Size, check_fields
from lmcells.training.settings import LoopSettings, SettingTables

PRESETS = ("paper", "default")


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """The sizes of a model: by default 4.4 M parameters without embeddings, 26 times the LMC's."""

    kind: Literal["transformer", "bilstm"] = "transformer"
    n_words: Size  # that can be predicted; any word can be read

    layers: Size = 2  # in each direction
    width: Size = 256  # of a word's vector, and of the states of each direction
    heads: Size = 4  # of a transformer's attention
    feed_forward: Size = 1024  # of a transformer's layers
    dropout: Rate = 0.1

    # bytes of a word that are read, with a boundary at either end
    max_characters: Annotated[int, Limits(at_least=3)] = 24
    character_dim: Size = 16
    filters: tuple[int, ...] = (32, 32, 64, 128, 256)  # how many are 1, 2, 3... characters wide
    highways: int = 2

    def __post_init__(self) -> None:
        check_fields(self)
        given = self.filters
        is_list = isinstance(given, list | tuple) and all(type(each) is int and each >= 0 for each in given)
        if not is_list or not sum(given) or len(given) > self.max_characters:
            raise ConfigError(
                f"filters is {given!r}; allowed: at most {self.max_characters} counts, the first of filters one "
                "character wide, and not all 0."
            )
        object.__setattr__(self, "filters", tuple(given))  # JSON and TOML have lists
        if self.kind == "transformer" and self.width % (2 * self.heads):
            raise ConfigError(
                f"width is {self.width}, heads is {self.heads}; allowed: a width that is a multiple of twice the heads."
            )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "filters": list(self.filters)}


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings(LoopSettings):
    """How a language model is trained on a corpus."""

    epochs: Size = 40  # at most: training ends when the held-out loss is flat
    batch_size: Size = 24576  # words per step with padding; a multiple of 2^k and 3 * 2^k fills every batch
    window: Size = 64  # words that are read together, never across a segment's boundary
    learning_rate: Positive = 2e-3  # of Adam, after the warm-up
    warmup_steps: Size = 200
    decay: Literal["flat", "root"] = "flat"  # halved at a check without improvement, or 1 / sqrt(steps)
    gradient_clip: float = 1.0

    full_softmax: int = 16384  # vocabularies up to this size are predicted exactly, larger ones by sampling
    negatives: Size = 8192  # words drawn in each step to estimate the softmax over the whole vocabulary

    # share of the documents that is never trained on
    held_out: Annotated[float, Limits(above=0, below=1)] = 0.01
    held_out_words: Size = 65536  # at most that many of their words are measured
    check_steps: int = 0  # between two checks of the held-out loss; 0 is at the end of each epoch only
    flat_patience: Size = 3  # checks in a row without improvement after which the loss is flat
    flat_tolerance: Rate = 0.002  # share of the loss by which it must fall to improve

    def learning_rate_at(self, step: int, *, n_unimproved: int = 0) -> float:
        """The rate of a step, from 1: a linear warm-up, then as `decay` says.

        `root` is the inverse square root of Vaswani et al. 2017; `flat` halves with every check so far that brought no
        improvement.
        """
        if self.decay == "root":
            return self.learning_rate * min(step / self.warmup_steps, math.sqrt(self.warmup_steps / step))
        return self.learning_rate * min(1.0, step / self.warmup_steps) * 0.5**n_unimproved


TABLES = SettingTables(
    package="lmcells.language_model",
    presets=PRESETS,
    table="language_model",
    model=LanguageModelConfig,
    training=LanguageModelSettings,
    sizes=("n_words",),
)
load_language_model_configuration = TABLES.load
