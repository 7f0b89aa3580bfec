"""Merge a preset, a TOML file and `table.key=value` overrides into one checked configuration; the later wins."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lmcells.errors import ConfigError, nearest
from lmcells.model import ModelConfig
from lmcells.training.settings import TrainingSettings

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
