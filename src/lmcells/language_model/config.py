"""The settings that define a bidirectional language model."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, nearest
from lmcells.training.configuration import SettingTables, integer_keys

# Settings that check themselves: what was found, and what is allowed.


def require_integer(settings: object, name: str, *, at_least: int, below: int | None = None) -> None:
    """Refuse a setting that is no integer in this range."""
    value = getattr(settings, name)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < at_least or (below is not None and value >= below):
        limit = "" if below is None else f" and below {below}"
        raise ConfigError(f"{name} is {value!r}; allowed: an integer of at least {at_least}{limit}.")


def require_number(settings: object, name: str, *, above: float = -math.inf, below: float = math.inf) -> None:
    """Refuse a setting that is no finite number of at least 0, or not strictly within these limits."""
    value = getattr(settings, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or not above < value < below:
        lowest = f"above {above:g}" if above >= 0 else "of at least 0"
        limit = "" if below == math.inf else f" and below {below:g}"
        raise ConfigError(f"{name} is {value!r}; allowed: a finite number {lowest}{limit}.")


def require_choice(settings: object, name: str, choices: Sequence[str]) -> None:
    """Refuse a setting that is none of the choices."""
    value = getattr(settings, name)
    if value not in choices:
        near = nearest(str(value), choices)
        raise ConfigError(f"{name} is {value!r}; allowed: {', '.join(choices)}.{near}")


# The settings that define a bidirectional language model.


EncoderKind = Literal["transformer", "bilstm"]


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """What must be known to build a model: 4.4 M parameters without tables by default, 26 times the LMC's.

    How it is trained stands in `LanguageModelSettings`.
    """

    kind: EncoderKind = "transformer"
    n_words: int  # that can be predicted; any word can be read

    layers: int = 2  # in each direction
    width: int = 256  # of a word's vector, and of the states of each direction
    heads: int = 4  # of a transformer's attention
    feed_forward: int = 1024  # of a transformer's layers
    dropout: float = 0.1

    max_characters: int = 24  # bytes of a word that are read, with one mark at either end
    character_dim: int = 16
    filters: tuple[int, ...] = (32, 32, 64, 128, 256)  # how many are 1, 2, 3... characters wide
    highways: int = 2

    def __post_init__(self) -> None:
        require_choice(self, "kind", get_args(EncoderKind))
        for name in ("n_words", "layers", "width", "heads", "feed_forward", "character_dim"):
            require_integer(self, name, at_least=1)
        require_integer(self, "max_characters", at_least=3)
        require_integer(self, "highways", at_least=0)
        require_number(self, "dropout", below=1.0)
        self._require_filters()
        if self.kind == "transformer" and self.width % (2 * self.heads):
            raise ConfigError(
                f"width is {self.width}, heads is {self.heads}; allowed: a width that is a multiple of twice the heads."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "filters": list(self.filters)}

    def _require_filters(self) -> None:
        given = self.filters
        is_list = isinstance(given, list | tuple) and all(
            type(count) is int and count >= 0 for count in given
        )
        if not is_list or not sum(given) or len(given) > self.max_characters:
            raise ConfigError(
                f"filters is {given!r}; allowed: at most {self.max_characters} counts, the first of filters one "
                "character wide, and not all 0."
            )
        object.__setattr__(self, "filters", tuple(given))  # JSON and TOML have lists


# How a language model is trained. What it is stands in `LanguageModelConfig`.


Precision = Literal["auto", "float32", "bf16"]
Decay = Literal["flat", "root"]


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings:
    """Everything that decides how a language model is trained on a corpus."""

    epochs: int = 40  # at most: training ends when the held-out loss is flat
    batch_size: int = 24576  # words a step, padding included; a multiple of 2^k and 3 * 2^k fills every batch
    window: int = 64  # words that are read together, never across a segment's boundary
    learning_rate: float = 2e-3  # of Adam, reached after the warm-up
    warmup_steps: int = 200
    decay: Decay = (
        "flat"  # flat: halved at each check without improvement; root: falls with the root of the steps
    )
    gradient_clip: float = 1.0  # largest norm of a step's gradient; 0 clips nothing
    seed: int = 0

    full_softmax: int = 16384  # vocabularies up to this size are predicted exactly, larger ones by sampling
    negatives: int = 8192  # words a step that stand for the whole vocabulary
    negative_exponent: float = 0.75  # they are drawn from count^this

    held_out: float = 0.01  # part of the documents that is never trained on
    held_out_words: int = 65536  # at most that many of their words are measured
    check_steps: int = 0  # between two checks of the held-out loss; 0 is at the end of each epoch only
    flat_patience: int = 3  # checks in a row without improvement after which the loss is flat
    flat_tolerance: float = 0.002  # part of the loss by which it must fall to improve

    precision: Precision = "auto"  # auto is bf16 on CUDA and float32 on the CPU
    checkpoint_minutes: float = 10.0  # 0 writes one with each check
    evaluate_minutes: float = 0.0  # between calls of the evaluation hook; 0 is with each check
    report_steps: int = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "window", "warmup_steps", "negatives", "held_out_words"):
            require_integer(self, name, at_least=1)
        for name in ("flat_patience", "report_steps"):
            require_integer(self, name, at_least=1)
        for name in ("full_softmax", "check_steps"):
            require_integer(self, name, at_least=0)
        require_integer(self, "seed", at_least=0, below=2**63)
        require_number(self, "learning_rate", above=0.0)
        require_number(self, "held_out", above=0.0, below=1.0)
        require_number(self, "flat_tolerance", below=1.0)
        for name in ("gradient_clip", "negative_exponent", "checkpoint_minutes", "evaluate_minutes"):
            require_number(self, name)
        require_choice(self, "precision", get_args(Precision))
        require_choice(self, "decay", get_args(Decay))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def learning_rate_at(self, step: int, *, n_unimproved: int = 0) -> float:
        """The rate of a step, from 1: a straight rise, then as `decay` says.

        `root` is the inverse square root of Vaswani et al. 2017; `flat` halves with every check so far that brought no
        improvement.
        """
        if self.decay == "root":
            return self.learning_rate * min(step / self.warmup_steps, math.sqrt(self.warmup_steps / step))
        return self.learning_rate * min(1.0, step / self.warmup_steps) * 0.5**n_unimproved


# From a preset, a user's TOML file and flags to one checked configuration; the later wins.


PRESETS = ("paper", "default")
KEYS: dict[str, tuple[str, ...]] = {
    "language_model": tuple(each.name for each in fields(LanguageModelConfig) if each.name != "n_words"),
    "training": tuple(each.name for each in fields(LanguageModelSettings)),
}
_TABLES = SettingTables(
    package="lmcells.language_model",
    presets=PRESETS,
    keys=KEYS,
    integers=integer_keys(training=LanguageModelSettings),
    example="language_model.layers=4",
    unknown_table="is no table of a language model",
    unknown_key="is not known to a language model",
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
    *, preset: str | None = None, file: Path | None = None, overrides: Iterable[str] = ()
) -> LanguageModelConfiguration:
    """Read a preset (the file's own, or `default`), then a TOML file, then `table.key=value` overrides."""
    for values, source in _TABLES.layers(preset=preset, file=file, overrides=overrides):
        try:
            LanguageModelConfig(**values["language_model"], n_words=1)
            training = LanguageModelSettings(**values["training"])
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
    return LanguageModelConfiguration(language_model=values["language_model"], training=training)
