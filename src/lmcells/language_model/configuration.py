"""From a preset, a user's TOML file and flags to one checked configuration; the later wins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.language_model.config import LanguageModelConfig
from lmcells.language_model.settings import LanguageModelSettings
from lmcells.training.layered_settings import SettingTables, integer_keys

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
