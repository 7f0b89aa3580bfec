"""The settings of a bidirectional language model and of its training."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.training.configuration import Overrides, SettingTables, Tables
from lmcells.training.settings import LoopSettings, require_choice, require_integers, require_numbers

EncoderKind = Literal["transformer", "bilstm"]
Decay = Literal["flat", "root"]
PRESETS = ("paper", "default")


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """What must be known to build a model: by default 4.4 M parameters without tables, 26 times the LMC's."""

    kind: EncoderKind = "transformer"
    n_words: int  # that can be predicted; any word can be read

    layers: int = 2  # in each direction
    width: int = 256  # of a word's vector, and of the states of each direction
    heads: int = 4  # of a transformer's attention
    feed_forward: int = 1024  # of a transformer's layers
    dropout: float = 0.1

    max_characters: int = 24  # bytes of a word that are read, with a boundary at either end
    character_dim: int = 16
    filters: tuple[int, ...] = (32, 32, 64, 128, 256)  # how many are 1, 2, 3... characters wide
    highways: int = 2

    def __post_init__(self) -> None:
        require_choice(self, "kind", get_args(EncoderKind))
        names = ("n_words", "layers", "width", "heads", "feed_forward", "character_dim")
        require_integers(self, *names, at_least=1)
        require_integers(self, "max_characters", at_least=3)
        require_integers(self, "highways", at_least=0)
        require_numbers(self, "dropout", below=1.0)
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
        """Plain data for JSON."""
        return {**asdict(self), "filters": list(self.filters)}


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings(LoopSettings):
    """How a language model is trained on a corpus."""

    epochs: int = 40  # at most: training ends when the held-out loss is flat
    batch_size: int = 24576  # words a step, padding included; a multiple of 2^k and 3 * 2^k fills every batch
    window: int = 64  # words that are read together, never across a segment's boundary
    learning_rate: float = 2e-3  # of Adam, after the warm-up
    warmup_steps: int = 200
    decay: Decay = (
        "flat"  # flat: halved at each check without improvement; root: inverse square root of steps
    )
    gradient_clip: float = 1.0

    full_softmax: int = 16384  # vocabularies up to this size are predicted exactly, larger ones by sampling
    negatives: int = 8192  # words a step that stand for the whole vocabulary

    held_out: float = 0.01  # share of the documents that is never trained on
    held_out_words: int = 65536  # at most that many of their words are measured
    check_steps: int = 0  # between two checks of the held-out loss; 0 is at the end of each epoch only
    flat_patience: int = 3  # checks in a row without improvement after which the loss is flat
    flat_tolerance: float = 0.002  # share of the loss by which it must fall to improve

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("window", "warmup_steps", "negatives", "held_out_words", "flat_patience")
        require_integers(self, *names, at_least=1)
        require_integers(self, "full_softmax", "check_steps", at_least=0)
        require_numbers(self, "held_out", above=0.0, below=1.0)
        require_numbers(self, "flat_tolerance", below=1.0)
        require_choice(self, "decay", get_args(Decay))

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
    classes={"language_model": LanguageModelConfig, "training": LanguageModelSettings},
    from_corpus=("n_words",),
)


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfiguration:
    """A language model's settings, less the size that a corpus gives, and how it is trained."""

    language_model: Mapping[str, Any]
    training: LanguageModelSettings

    def config(self, corpus: Corpus) -> LanguageModelConfig:
        """The model's settings with the size of a corpus."""
        return LanguageModelConfig(**self.language_model, n_words=len(corpus.words))


def load_language_model_configuration(
    *, preset: str | None = None, file: Path | None = None, overrides: Overrides = ()
) -> LanguageModelConfiguration:
    """Read a preset (the file's own, or `default`), then a TOML file, then overrides."""

    def build(values: Tables) -> LanguageModelConfiguration:
        LanguageModelConfig(**values["language_model"], n_words=1)
        training = LanguageModelSettings(**values["training"])
        return LanguageModelConfiguration(language_model=values["language_model"], training=training)

    return TABLES.load(build, preset=preset, file=file, overrides=overrides)
