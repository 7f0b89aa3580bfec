"""From a preset, a user's TOML file and flags to one checked configuration; the later wins."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, nearest
from lmcells.model import ModelConfig
from lmcells.training.settings import TrainingSettings

# Tables of settings in layers: a preset, a user's TOML file and flags; the later wins, unknown keys are refused.
#
# What a value may be is not known here: the dataclasses that are built from the tables check that.


DEFAULT_PRESET = "default"
FLAGS = "--set"  # the source of an override
NONE = "none"  # how TOML, which has no null, writes one

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SettingTables:
    """Which tables and keys there are, and how what is not known is refused."""

    package: str  # whose folder `presets` holds the presets
    presets: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]]  # of each table
    integers: frozenset[str]  # `table.key` of those that may be written 1e5
    example: str  # of an override
    from_corpus: frozenset[str] = frozenset()  # `table.key` of those that a corpus gives
    reads_none: bool = False  # whether "none" is None
    names_tables: bool = False  # whether a suggested key is `table.key`, of any table
    unknown_table: str = "is not known"
    unknown_key: str = "is not known"

    def layers(
        self, *, preset: str | None, file: Path | None, overrides: Iterable[str]
    ) -> Iterator[tuple[Tables, str]]:
        """The values so far and the latest layer's source: the preset, then the file, then each override."""
        from_file = _read_toml(file) if file else {}
        named = from_file.pop("preset", None)
        preset = preset or named or DEFAULT_PRESET
        if preset not in self.presets:
            place = f"{file}: " if named == preset and file else ""
            allowed = ", ".join(self.presets)
            raise ConfigError(
                f"{place}preset is {preset!r}; allowed: {allowed}.{nearest(str(preset), self.presets)}"
            )
        # All keys are checked before the first value is.
        source = f"preset {preset}"
        layers = [(self._checked(self._read_preset(preset), source=source), source)]
        layers += [(self._checked(from_file, source=str(file)), str(file))] if file else []
        layers += [(self._parse_override(override), FLAGS) for override in overrides]
        values: Tables = {table: {} for table in self.keys}
        for layer, source in layers:
            values = {table: values[table] | layer[table] for table in self.keys}
            yield values, source

    def _read_preset(self, name: str) -> dict[str, Any]:
        text = resources.files(self.package).joinpath("presets", f"{name}.toml").read_text("utf-8")
        return tomllib.loads(text)

    def _checked(self, tables: Mapping[str, Any], *, source: str) -> Tables:
        """All tables with known keys, or an error that names source and key."""
        checked: Tables = {table: {} for table in self.keys}
        for table, settings in tables.items():
            if table not in self.keys:
                allowed = ", ".join(f"[{name}]" for name in self.keys)
                raise ConfigError(
                    f"{source}: {table!r} {self.unknown_table}; allowed: {allowed}."
                    f"{nearest(table, ('preset', *self.keys))}"
                )
            if not isinstance(settings, dict):
                raise ConfigError(f"{source}: {table!r} is a value; it must be a table: [{table}].")
            for key, value in settings.items():
                checked[table][key] = self._checked_value(table, key, value, source=source)
        return checked

    def _checked_value(self, table: str, key: str, value: Any, *, source: str) -> Any:
        name = f"{table}.{key}"
        if name in self.from_corpus:
            raise ConfigError(f"{source}: {name} comes from the corpus and cannot be set.")
        if key not in self.keys[table]:
            raise ConfigError(f"{source}: '{name}' {self.unknown_key}.{self._nearest_key(table, key)}")
        if self.reads_none and value == NONE:
            return None
        if isinstance(value, float) and value.is_integer() and name in self.integers:
            return int(value)  # batch_size=1e5
        return value

    def _nearest_key(self, table: str, key: str) -> str:
        """The nearest key of this table, or the same key in another one."""
        suggestion = nearest(key, self.keys[table])
        if not self.names_tables:
            return suggestion
        for other, keys in self.keys.items():
            if key in keys:
                return f" Nearest: '{other}.{key}'."
        return suggestion.replace("'", f"'{table}.", 1)

    def _parse_override(self, override: str) -> Tables:
        """`training.learning_rate=2e-3` as tables; the value is read as TOML, or as plain text if it is not."""
        name, equals, text = override.partition("=")
        table, dot, key = name.strip().partition(".")
        if not equals or not dot:
            raise ConfigError(
                f"{FLAGS}: found {override!r}; allowed: TABLE.KEY=VALUE, such as {self.example}."
            )
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        return self._checked({table: {key: value}}, source=FLAGS)


def integer_keys(**described: type) -> frozenset[str]:
    """`table.key` of the fields whose default is an integer, given each table's dataclass."""
    return frozenset(
        f"{table}.{field.name}"
        for table, settings in described.items()
        for field in fields(settings)
        if type(field.default) is int
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Give --config a TOML file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None


# From a preset, a user's TOML file and flags to one checked configuration; the later wins.


PRESETS = ("paper", "tuned", "default")
_FROM_CORPUS = ("n_words", "n_metadata", "n_categories")
KEYS: dict[str, tuple[str, ...]] = {
    "model": tuple(field.name for field in fields(ModelConfig) if field.name not in _FROM_CORPUS),
    "training": tuple(field.name for field in fields(TrainingSettings)),
}
_TABLES = SettingTables(
    package="lmcells.training",
    presets=PRESETS,
    keys=KEYS,
    integers=integer_keys(model=ModelConfig, training=TrainingSettings),
    example="training.batch_size=4096",
    from_corpus=frozenset(f"model.{name}" for name in _FROM_CORPUS),
    reads_none=True,
    names_tables=True,
)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A model's settings, less the sizes that a corpus gives, and how it is trained."""

    model: Mapping[str, Any]
    training: TrainingSettings

    def model_config(self, corpus: Corpus) -> ModelConfig:
        """The model's settings with the sizes of a corpus."""
        kind = self.model.get("kind", "lmc")
        return ModelConfig(
            **self.model,
            n_words=len(corpus.word_counts),
            n_metadata=0 if kind == "bsg" else corpus.n_metadata(self.training.metadata),
            n_categories=corpus.n_metadata("category") if kind == "mbsge" else 0,
        )


def load_configuration(
    *, preset: str | None = None, file: Path | None = None, overrides: Iterable[str] = ()
) -> Configuration:
    """Read a preset (the file's own, or `default`), then a TOML file, then `table.key=value` overrides."""
    for values, source in _TABLES.layers(preset=preset, file=file, overrides=overrides):
        try:
            configuration = _configuration(values)
        except ConfigError as error:
            # An override may come from a flag of its own, such as --epochs.
            place = "" if source == FLAGS else f"{source}: "
            raise ConfigError(f"{place}{error}") from None
    return configuration


def _configuration(values: Tables) -> Configuration:
    """Let the dataclasses check what they can without a corpus."""
    # Sizes stand in for the corpus'; a mixture of one of each is always allowed.
    ModelConfig(**values["model"], n_words=1, n_metadata=1, n_categories=1)
    return Configuration(model=values["model"], training=TrainingSettings(**values["training"]))
