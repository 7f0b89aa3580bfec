"""From a preset, a user's TOML file and flags to one checked configuration; the later wins."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, nearest
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.settings import LanguageModelSettings

PRESETS = ("paper", "default")
DEFAULT_PRESET = "default"
KEYS: dict[str, tuple[str, ...]] = {
    "language_model": tuple(each.name for each in fields(LanguageModelConfig) if each.name != "n_words"),
    "training": tuple(each.name for each in fields(LanguageModelSettings)),
}
_INTEGERS = {each.name for each in fields(LanguageModelSettings) if type(each.default) is int}


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
    from_file = _read_toml(file) if file else {}
    preset = preset or from_file.pop("preset", None) or DEFAULT_PRESET
    from_file.pop("preset", None)
    if preset not in PRESETS:
        raise ConfigError(
            f"preset is {preset!r}; allowed: {', '.join(PRESETS)}.{nearest(str(preset), PRESETS)}"
        )
    values: dict[str, dict[str, Any]] = {table: {} for table in KEYS}
    layers = [(_read_preset(preset), f"preset {preset}"), (from_file, str(file))]
    layers += [(_parse_override(override), "--set") for override in overrides]
    for layer, source in layers:
        for table, settings in _checked(layer, source=source).items():
            values[table].update(settings)
        try:
            LanguageModelConfig(**values["language_model"], n_words=1)
            training = LanguageModelSettings(**values["training"])
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
    return LanguageModelConfiguration(language_model=values["language_model"], training=training)


def _read_preset(name: str) -> dict[str, Any]:
    text = resources.files("lmcells.language_model").joinpath("presets", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Give --config a TOML file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None


def _checked(tables: Mapping[str, Any], *, source: str) -> dict[str, dict[str, Any]]:
    """The tables with known keys, or an error that names source and key."""
    checked: dict[str, dict[str, Any]] = {}
    for table, settings in tables.items():
        if table not in KEYS or not isinstance(settings, dict):
            allowed = ", ".join(f"[{name}]" for name in KEYS)
            raise ConfigError(
                f"{source}: {table!r} is no table of a language model; allowed: {allowed}.{nearest(table, KEYS)}"
            )
        for key in settings:
            if key not in KEYS[table]:
                raise ConfigError(
                    f"{source}: '{table}.{key}' is not known to a language model.{nearest(key, KEYS[table])}"
                )
        checked[table] = {key: _whole_number(key, value) for key, value in settings.items()}
    return checked


def _whole_number(key: str, value: Any) -> Any:
    """1e5 as an integer, where one is wanted."""
    return int(value) if isinstance(value, float) and value.is_integer() and key in _INTEGERS else value


def _parse_override(override: str) -> dict[str, dict[str, Any]]:
    """`training.learning_rate=2e-3` as tables; the value is read as TOML, or as plain text if it is not."""
    name, equals, text = override.partition("=")
    table, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise ConfigError(
            f"--set: found {override!r}; allowed: TABLE.KEY=VALUE, such as language_model.layers=4."
        )
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    return {table: {key: value}}
