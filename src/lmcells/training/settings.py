"""How a model is trained, and the presets, files and flags that say so; `lmcells.model.ModelConfig` says what it is."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from lmcells.errors import ConfigError, nearest
from lmcells.model import ModelConfig
from lmcells.settings import Limits, Positive, Rate, Size, check_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEFAULT_PRESET = "default"
ADAPT = "adapt"
PRESETS = ("paper", "tuned", DEFAULT_PRESET, ADAPT)

Overrides = Iterable[str] | Mapping[str, Any]
"""`table.key=value` as text, or `{"table.key": value}`."""
Tables = dict[str, dict[str, Any]]
S = TypeVar("S", bound="DataclassInstance")

_FLAG = "--set"
_NONE = "none"  # how TOML, which has no null, writes one

# Settings that may change when a run is resumed: none of them changes a step.
MAY_CHANGE = ("epochs", "checkpoint_minutes", "evaluate_minutes", "evaluations", "report_steps")


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """Settings of every training run, of cell models and of language models."""

    epochs: Size
    batch_size: Size
    learning_rate: Positive  # of Adam
    gradient_clip: float  # maximum gradient norm; 0 is no clipping
    seed: Annotated[int, Limits(below=2**63)] = 0  # random seed
    negative_exponent: float = 0.75  # negatives are drawn from count^this
    precision: Literal["auto", "float32", "bf16"] = "auto"  # auto is bf16 on CUDA and float32 on the CPU
    checkpoint_minutes: float = 10.0  # between checkpoints; 0: only at the end of each epoch or check
    evaluate_minutes: float = 0.0  # between evaluations; 0: only at the end of each epoch or check
    evaluations: Size = 1  # in each epoch, evenly spread; the last at its end
    report_steps: Size = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(LoopSettings):
    """How a cell model is trained on a corpus. The defaults are the preset `paper`."""

    epochs: Size = 5
    batch_size: Size = 1024  # center words per step, of all processes together
    learning_rate: Positive = 1e-3  # of Adam, at the start
    # the share of it left at the end of a linear decay; 1: constant
    final_learning_rate: Annotated[float, Limits(at_most=1)] = 1.0
    gradient_clip: float = 0.0
    initial_share: Rate = 0.0  # when adapting: of the initial weights in the average with the final ones
    metadata: str = "section"  # the kind of metadata that the model conditions on
    uncounted: str = ""  # a note type whose text is trained on but not counted in phrase frequencies

    subsampling: float = 1e-3  # threshold for frequent words; 0 keeps all
    smoothing: float = 1.0  # k of add-k in beta(m | w)

    contrastive_weight: float = 0.0  # between two occurrences of one span, a word or a phrase; 0 is off
    phrase_weight: float = 0.0  # between those occurrences and the span's words; 0 is off
    contrastive_spans: int = 0  # per step; 0: a third of the batch, which keeps a step below twice its cost
    contrastive_max_words: Size = 1  # of a span
    contrastive_temperature: Positive = 0.1
    contrastive_exponent: float = 0.5  # spans are drawn from count^this
    contrastive_min_count: Annotated[int, Limits(at_least=2)] = 4  # of a span that can be drawn
    contrastive_mask_rate: Rate = 0.0  # how often a word around a masked span is masked too
    contrastive_cut_rate: Rate = 0.0  # how often a window around a masked span is cut short
    contrastive_null_rate: Rate = 0.0  # how often the section of a masked span is dropped
    contrastive_reads_all: bool = False  # no subsampling around a masked span, as when notes are expanded

    # auto: our kernels and CUDA graphs on a GPU; on: torch.compile; off: neither
    compile: Literal["auto", "on", "off"] = "auto"
    shards: int = 0  # parts of the corpus that each give an equal part of the batch; 0: one per process
    chunk_tokens: Size = 1 << 29  # tokens of a shard on the device at once; longer shards are streamed

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.metadata, str) or not self.metadata:
            raise ConfigError(f"metadata is {self.metadata!r}; allowed: a kind of metadata of the corpus.")

    @property
    def n_contrastive_spans(self) -> int:
        """Spans of the contrastive loss per step, of all processes together; 0 when it is off."""
        if self.contrastive_weight == 0 and self.phrase_weight == 0:
            return 0
        return self.contrastive_spans or max(2, self.batch_size // 3)


@dataclass(frozen=True, kw_only=True)
class Configuration(Generic[S]):
    """A model's settings, without the sizes that come from a corpus, and how it is trained."""

    model: Mapping[str, Any]
    training: S


@dataclass(frozen=True, kw_only=True)
class SettingTables(Generic[S]):
    """The tables that configure a kind of model: its own, and [training]. Their dataclasses check the values."""

    package: str  # the presets are in its folder `presets`
    presets: tuple[str, ...]
    table: str  # [model] or [language_model]
    model: "type[DataclassInstance]"
    training: type[S]
    sizes: tuple[str, ...]  # of the model, which come from a corpus and cannot be set

    @property
    def keys(self) -> dict[str, dict[str, Any]]:
        """The keys of each table, with their defaults."""
        return {
            table: {each.name: each.default for each in fields(described) if each.name not in self.sizes}
            for table, described in ((self.table, self.model), ("training", self.training))
        }

    def load(
        self,
        *,
        preset: str | None = None,
        file: Path | None = None,
        overrides: Overrides = (),
        otherwise: str = DEFAULT_PRESET,
    ) -> Configuration[S]:
        """Read a preset (the one given, or that of the file, or `otherwise`), then the TOML file, then overrides.

        Values are checked after each layer, so that an error can name the source.
        """
        from_file = _read_toml(file) if file else {}
        named = from_file.pop("preset", None)
        preset = preset or named or otherwise
        if preset not in self.presets:
            source = f"{file}: " if named == preset and file else ""
            allowed = ", ".join(self.presets)
            raise ConfigError(
                f"{source}preset is {preset!r}; allowed: {allowed}.{nearest(str(preset), self.presets)}"
            )
        # All keys are checked before the first value is.
        path = resources.files(self.package).joinpath("presets", f"{preset}.toml")
        preset_tables = tomllib.loads(path.read_text("utf-8"))
        layers = [(f"preset {preset}: ", self._checked(preset_tables, source=f"preset {preset}"))]
        layers += [(f"{file}: ", self._checked(from_file, source=str(file)))] if file else []
        # No source for these: an override may come from a flag of its own, such as --epochs.
        layers += [("", self._checked(override, source=_FLAG)) for override in _parsed(overrides)]
        values: Tables = {table: {} for table in self.keys}
        for source, layer in layers:
            values = {table: values[table] | layer.get(table, {}) for table in values}
            try:
                self.model(**values[self.table], **dict.fromkeys(self.sizes, 1))
                training = self.training(**values["training"])
            except ConfigError as error:
                raise ConfigError(f"{source}{error}") from None
        return Configuration(model=values[self.table], training=training)

    def _checked(self, tables: Mapping[str, Any], *, source: str) -> Tables:
        """Refuse tables and keys that do not exist."""
        for table, settings in tables.items():
            if table not in self.keys:
                allowed, near = f"[{self.table}], [training]", nearest(table, ("preset", *self.keys))
                raise ConfigError(f"{source}: {table!r} is not known; allowed: {allowed}.{near}")
            if not isinstance(settings, dict):
                raise ConfigError(f"{source}: {table!r} is a value; it must be a table: [{table}].")
        return {
            table: {key: self._value(table, key, value, source=source) for key, value in settings.items()}
            for table, settings in tables.items()
        }

    def _value(self, table: str, key: str, value: Any, *, source: str) -> Any:
        name, keys = f"{table}.{key}", self.keys
        if key in self.sizes:
            raise ConfigError(f"{source}: {name} comes from the corpus and cannot be set.")
        if key not in keys[table]:
            elsewhere = [f" Nearest: '{other}.{key}'." for other in keys if key in keys[other]]
            near = nearest(name, [f"{table}.{each}" for each in keys[table]])
            raise ConfigError(f"{source}: '{name}' is not known.{elsewhere[0] if elsewhere else near}")
        if isinstance(value, float) and value.is_integer() and type(keys[table][key]) is int:
            return int(value)  # batch_size=1e5
        return None if value == _NONE else value


def _parsed(overrides: Overrides) -> Iterator[Tables]:
    """Each override as tables; a value is read as TOML, or taken as a string if that fails."""
    if isinstance(overrides, Mapping):
        named = list(overrides.items())
    else:
        named = [(name, _read_value(text)) for name, _, text in (each.partition("=") for each in overrides)]
    for name, value in named:
        table, dot, key = name.strip().partition(".")
        if not dot or value == "":
            raise ConfigError(
                f"{_FLAG}: found {name!r}; allowed: TABLE.KEY=VALUE, such as training.batch_size=4096."
            )
        yield {table: {key: value}}


def _read_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Give --config a TOML file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None


TABLES = SettingTables(
    package="lmcells.training",
    presets=PRESETS,
    table="model",
    model=ModelConfig,
    training=TrainingSettings,
    sizes=("n_words", "n_metadata", "n_categories"),
)
load_configuration = TABLES.load
