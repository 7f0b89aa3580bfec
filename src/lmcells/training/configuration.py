"""From a preset, a user's TOML file and flags to one checked configuration; the later wins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.model import ModelConfig
from lmcells.training.layered_settings import FLAGS, SettingTables, Tables, integer_keys
from lmcells.training.settings import TrainingSettings

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
