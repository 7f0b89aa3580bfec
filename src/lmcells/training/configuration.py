"""From a preset, a user's TOML file and flags to one checked configuration; the later wins."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, nearest
from lmcells.model import ModelConfig
from lmcells.training.settings import TrainingSettings

PRESETS = ("paper", "default")
DEFAULT_PRESET = "default"
NONE = "none"  # how TOML, which has no null, writes one

_FROM_CORPUS = ("n_words", "n_metadata", "n_categories")
KEYS: dict[str, tuple[str, ...]] = {
    "model": tuple(field.name for field in fields(ModelConfig) if field.name not in _FROM_CORPUS),
    "training": tuple(field.name for field in fields(TrainingSettings)),
}
_INTEGER_FIELDS = {
    f"{table}.{field.name}"
    for table, described in (("model", ModelConfig), ("training", TrainingSettings))
    for field in fields(described)
    if field.default is not MISSING and type(field.default) is int
}


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
    from_file = _read_toml(file) if file else {}
    named = from_file.pop("preset", None)
    preset = preset or named or DEFAULT_PRESET
    if preset not in PRESETS:
        place = f"{file}: " if named == preset and file else ""
        raise ConfigError(
            f"{place}preset is {preset!r}; allowed: {', '.join(PRESETS)}.{nearest(str(preset), PRESETS)}"
        )
    values = _checked(_read_preset(preset), source=f"preset {preset}")
    layers = [(_checked(from_file, source=str(file)), f"{file}: ")] if file else []
    layers += [(_parse_override(override), "") for override in overrides]
    for layer, source in layers:
        for table, settings in layer.items():
            values[table].update(settings)
            _require_valid(values, source=source)
    return _require_valid(values, source="")


def _require_valid(values: Mapping[str, dict[str, Any]], *, source: str) -> Configuration:
    """Let the dataclasses check what they can without a corpus, and name the layer a bad value came from."""
    try:
        training = TrainingSettings(**values["training"])
        # Sizes stand in for the corpus'; a mixture of one of each is always allowed.
        ModelConfig(**values["model"], n_words=1, n_metadata=1, n_categories=1)
    except ConfigError as error:
        raise ConfigError(f"{source}{error}") from None
    return Configuration(model=dict(values["model"]), training=training)


def _read_preset(name: str) -> dict[str, Any]:
    text = resources.files("lmcells.training").joinpath("presets", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Give --config a TOML file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None


def _checked(tables: Mapping[str, Any], *, source: str) -> dict[str, dict[str, Any]]:
    """Both tables with known keys and values of the right types, or an error that names file and key."""
    checked: dict[str, dict[str, Any]] = {name: {} for name in KEYS}
    for table, settings in tables.items():
        if table not in KEYS:
            expected = ", ".join(f"[{name}]" for name in KEYS)
            raise ConfigError(
                f"{source}: {table!r} is not known; allowed: {expected}.{_nearest_key(table, ('preset', *KEYS))}"
            )
        if not isinstance(settings, dict):
            raise ConfigError(f"{source}: {table!r} is a value; it must be a table: [{table}].")
        for key, value in settings.items():
            checked[table][key] = _checked_value(table, key, value, source=source)
    return checked


def _checked_value(table: str, key: str, value: Any, *, source: str) -> Any:
    if table == "model" and key in _FROM_CORPUS:
        raise ConfigError(f"{source}: model.{key} comes from the corpus and cannot be set.")
    if key not in KEYS[table]:
        raise ConfigError(f"{source}: '{table}.{key}' is not known.{_nearest_key(key, KEYS[table], table)}")
    if value == NONE:
        return None
    if isinstance(value, float) and value.is_integer() and f"{table}.{key}" in _INTEGER_FIELDS:
        return int(value)  # batch_size=1e5
    return value


def _nearest_key(key: str, choices: Iterable[str], table: str | None = None) -> str:
    """The nearest key of this table, or the same key in the other one."""
    for other, keys in KEYS.items():
        if table is not None and other != table and key in keys:
            return f" Nearest: '{other}.{key}'."
    prefix = f"{table}." if table else ""
    return nearest(key, choices).replace("'", f"'{prefix}", 1)


def _parse_override(override: str) -> dict[str, dict[str, Any]]:
    """`training.learning_rate=2e-3` as tables; the value is read as TOML, or as plain text if it is not."""
    name, equals, text = override.partition("=")
    table, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise ConfigError(
            f"--set: found {override!r}; allowed: TABLE.KEY=VALUE, such as training.batch_size=4096."
        )
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    return _checked({table: {key: value}}, source="--set")
