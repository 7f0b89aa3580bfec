"""A protocol: corpus, datasets, models, and how they are compared. Plain data that checks itself."""

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from lmcells.corpus.settings import CorpusSettings, SectionStyle
from lmcells.errors import ConfigError, InputError, nearest
from lmcells.notes.readers import FORMATS

DatasetKind = Literal["file", "casi", "reverse"]
ModelKind = Literal["lmc", "bsg", "mbsge", "elmo", "random", "dominant", "section-mle", "bert", "encoder"]
Preset = Literal["paper", "tuned", "default"]
TestSet = Literal["MIMIC", "CUIMC", "CASI"]
Seeds = tuple[int, ...]
Settings = Mapping[str, Any]  # a table of a preset: [model], [language_model] or [training]

TRAINED = ("lmc", "bsg", "mbsge", "elmo")
SEEDED = (*TRAINED, "random", "section-mle")
FOLDERS = ("bert", "encoder")
_NEEDED = {"file": ("file", "inventory"), "casi": ("raw",), "reverse": ("notes", "inventory")}
_SETTINGS = ("model", "language_model", "training")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
TABLES = ("dataset", "model", "corpus", "selection", "leakage", "curve", "report")  # of a file
SETTING, ADDED = "@", "+"  # MODEL@SETTING, MODEL+leaky: names that no file can give
DATA = "LMCELLS_DATA"  # the folder of the training text
_DATA_HINT = (
    f"{DATA} is the folder that holds train/, train2/, dev/ and benchmarks/; docs/data.md describes it."
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PACKAGE = "package:"


class MissingSource(InputError):  # noqa: N818 - it names a thing, like MissingExtra
    """A file that the protocol names is not on this machine."""


@dataclass(frozen=True, slots=True)
class Source:
    """A path as a protocol writes it: relative to its file, with `${VARIABLE}`, or `package:NAME/FOLDER`."""

    written: str
    folder: Path  # of the protocol's file
    hints: Mapping[str, str] = field(default_factory=dict)  # variable or path as written -> how to get it

    def __repr__(self) -> str:
        return repr(self.written)  # as messages show it

    def path(self) -> Path:
        """Return its path; MissingSource says how to get it."""
        if self.written.startswith(_PACKAGE):
            package, _, inside = self.written.removeprefix(_PACKAGE).partition("/")
            found = importlib.util.find_spec(package)
            if found is None or not found.submodule_search_locations:
                raise MissingSource(f"the package {package} is not installed.{self._hint(self.written)}")
            path = Path(found.submodule_search_locations[0]) / inside
            if not path.exists():
                raise MissingSource(f"{self.written} does not exist: {package} has no {inside!r}.")
            return path
        names = _VARIABLE.findall(self.written)
        for name in names:
            if not os.environ.get(name):
                how = "Give --data FOLDER, or" if name == DATA else "Then"
                raise MissingSource(
                    f"the variable {name} is not set.{self._hint(name)} {how}: export {name}=PATH"
                )
        path = self.folder / _VARIABLE.sub(lambda found: os.environ[found[1]], self.written)
        if not path.exists():
            hint = self._hint(*names, self.written)
            raise MissingSource(f"{self.written} does not exist (looked for {path}).{hint}")
        return path

    def _hint(self, *names: str) -> str:
        hints = {DATA: _DATA_HINT, **self.hints}
        return next((f" {hints[name]}" for name in names if name in hints), "")


@dataclass(frozen=True, kw_only=True)
class CorpusPlan:
    """The notes to train on, and how they are read."""

    inputs: tuple[Source, ...] = ()
    format: str = "auto"
    sections: SectionStyle = "auto"
    min_count: int = 10
    min_header_count: int = 10
    header_rules: Source | None = None
    stop_words: bool = False
    spelled_out: float = 0.0
    text_column: str | None = None
    id_column: str | None = None
    category_column: str | None = None
    exclude: tuple[str, ...] = ()  # datasets whose notes are left out
    pack: bool = True  # also write one file that can be taken to another machine

    def __post_init__(self) -> None:
        require_choice("corpus.format", self.format, FORMATS)
        if not self.inputs:
            raise ConfigError("corpus.inputs is empty; allowed: files or folders of notes.")
        try:
            self.settings()
        except ConfigError as error:
            raise ConfigError(f"corpus.{error}") from None

    def settings(self, header_rules: Path | None = None) -> CorpusSettings:
        """Return the settings of the corpus, with the file of header rules on this machine."""
        same = {each.name: getattr(self, each.name) for each in fields(CorpusSettings)}
        return CorpusSettings(**same | {"header_rules": header_rules})


@dataclass(frozen=True, kw_only=True)
class DatasetPlan:
    """Labelled short forms: a file, the published CASI, or reverse substitution in notes."""

    name: str
    kind: DatasetKind = "file"
    inventory: Source | None = None  # a file, or the name of another dataset
    section_map: Source | None = None
    evaluated: bool = True  # False: only there for its senses
    leakage_check: bool = True  # False: its notes cannot be in the corpus
    title: str = ""
    file: Source | None = None  # kind file
    raw: Source | None = None  # kind casi
    canonical_forms: Source | None = None
    match_short_forms: str | None = None
    skip: tuple[str, ...] = ()
    notes: tuple[Source, ...] = ()  # kind reverse
    format: str = "auto"
    sections: SectionStyle = "auto"
    min_header_count: int = 1
    max_per_sense: int = 500
    min_found: int = 0
    window: int = 20
    seed: int = 0
    share: float = 1.0  # of the notes, chosen by their ids
    spelled_forms: bool = False
    allow_candidates: bool = False
    drop_repeated: bool = False
    published: TestSet | None = None  # which of the paper's test sets this one is

    def __post_init__(self) -> None:
        place, needed = f"dataset {self.name!r}", _NEEDED[self.kind]
        for key in needed:
            if not getattr(self, key):
                needs = f"a dataset of kind {self.kind!r} needs: {', '.join(needed)}"
                raise ConfigError(f"{place}: {key} is not given; {needs}.")
        if not 0.0 < self.share <= 1.0:
            raise ConfigError(f"{place}: share is {self.share}; allowed: above 0, at most 1.")
        require_choice(f"{place}: format", self.format, FORMATS)


@dataclass(frozen=True, kw_only=True)
class SettingPlan:
    """Changes that one of the compared settings makes to its model."""

    name: str
    model: Settings = field(default_factory=dict)
    language_model: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    preset: Preset | None = None

    @property
    def settings(self) -> dict[str, Settings]:
        """The tables that change something."""
        return {name: table for name in _SETTINGS if (table := getattr(self, name))}


@dataclass(frozen=True, kw_only=True)
class ModelPlan(SettingPlan):
    """A model or baseline, and what differs from its preset."""

    kind: ModelKind = "lmc"
    preset: Preset = "default"
    folder: Source | None = None
    seeds: Seeds = ()  # () where nothing is random

    def __post_init__(self) -> None:
        place = f"model {self.name!r}"
        if (self.kind in FOLDERS) != (self.folder is not None):
            need = "needs the folder of a checkpoint" if self.kind in FOLDERS else "has none"
            raise ConfigError(f"{place}: folder; the kind {self.kind!r} {need}.")
        if self.settings and self.kind not in TRAINED:
            table = next(iter(self.settings))
            raise ConfigError(f"{place}: {table!r} is for trained kinds: {', '.join(TRAINED)}.")
        if self.kind not in SEEDED:
            object.__setattr__(self, "seeds", ())

    def with_setting(self, setting: SettingPlan, seeds: Seeds) -> "ModelPlan":
        """Return the model with a setting, named MODEL@SETTING."""
        changes = setting.settings.items()
        tables: dict[str, Any] = {name: {**getattr(self, name), **table} for name, table in changes}
        name, preset = f"{self.name}{SETTING}{setting.name}", setting.preset or self.preset
        return replace(self, name=name, preset=preset, seeds=seeds, **tables)


@dataclass(frozen=True, kw_only=True)
class SelectionPlan:
    """Settings of one model: the best on one dataset, or on all others, is reported on each of the others."""

    model: str
    dataset: str = ""
    seeds: Seeds
    setting: tuple[SettingPlan, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeakagePlan:
    """One model whose training includes the test notes."""

    model: str
    dataset: str
    seeds: Seeds
    inputs: tuple[Source, ...] = ()  # notes that are added; the corpus' `exclude` is lifted in any case


@dataclass(frozen=True, kw_only=True)
class CurvePlan:
    """What is scored while training, and how often."""

    dataset: str = ""  # "": all
    points: int = 1  # in each epoch
    chooses: bool = False  # each dataset is scored by the weights that were best on the others


@dataclass(frozen=True, kw_only=True)
class ReportPlan:
    """Rounds of the paired tests, and whether to show the paper's figures beside ours."""

    rounds: int = 5000
    resamples: int = 2000
    published: bool = True

    def __post_init__(self) -> None:
        for name in ("rounds", "resamples"):
            if getattr(self, name) < 1:
                raise ConfigError(f"report.{name} is {getattr(self, name)}; allowed: 1 or more.")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    corpus: CorpusPlan
    datasets: tuple[DatasetPlan, ...]
    models: tuple[ModelPlan, ...]
    selection: SelectionPlan | None = None
    leakage: LeakagePlan | None = None
    curve: CurvePlan | None = None
    report: ReportPlan = field(default_factory=ReportPlan)

    def __post_init__(self) -> None:
        names = require_names("dataset", self.datasets)
        require_names("model", self.models)
        if not any(dataset.evaluated for dataset in self.datasets):
            raise ConfigError("dataset: there is none to evaluate on. Give at least one [[dataset]].")
        if not self.models:
            raise ConfigError("model: there is none. Give at least one [[model]].")
        for name in self.corpus.exclude:
            require_choice("corpus.exclude", name, names)
        for dataset in self.datasets:
            if (other := dataset.match_short_forms) is not None:
                require_choice(f"dataset {dataset.name!r}: match_short_forms", other, names)
        trained = [model.name for model in self.models if model.kind in TRAINED]
        for key, plan in {"selection": self.selection, "leakage": self.leakage}.items():
            if plan is not None and (plan.dataset or plan is self.leakage):
                require_choice(f"{key}.dataset", plan.dataset, [each.name for each in self.evaluated()])
            if plan is not None:
                require_choice(f"{key}.model", plan.model, trained)
        if (selection := self.selection) is not None:
            key = "selection.setting"
            if not require_names(key, selection.setting):
                raise ConfigError(f"{key}: there is none. Give at least one [[{key}]].")
            allowed = self.model(selection.model).seeds
            if not set(selection.seeds) <= set(allowed):
                of_model = f"of {selection.model}'s seeds, {list(allowed)}"
                raise ConfigError(f"selection.seeds is {list(selection.seeds)}; allowed: {of_model}.")
        self._check_curve(names)

    def _check_curve(self, names: Sequence[str]) -> None:
        curve, chooses = self.curve, self.chooses
        if curve is not None and curve.dataset:
            require_choice("curve.dataset", curve.dataset, names)
        if curve is not None and curve.points < 1:
            raise ConfigError(f"curve.points is {curve.points}; allowed: 1 or more.")
        by_others = chooses or (self.selection is not None and not self.selection.dataset)
        if by_others and (len(self.evaluated()) < 2 or (chooses and len(self.scored()) < 2)):
            raise ConfigError(
                "a choice by the other datasets needs at least two that are evaluated and scored."
            )

    def dataset(self, name: str) -> DatasetPlan:
        return next(dataset for dataset in self.datasets if dataset.name == name)

    def model(self, name: str) -> ModelPlan:
        return next(model for model in self.models if model.name == name)

    def evaluated(self) -> list[DatasetPlan]:
        """Return the datasets that models are scored on."""
        return [dataset for dataset in self.datasets if dataset.evaluated]

    @property
    def chooses(self) -> bool:
        """Whether each dataset is scored by the weights that were best on the others."""
        return self.curve is not None and self.curve.chooses

    def scored(self) -> list[DatasetPlan]:
        """Return the datasets that are scored while training."""
        if self.curve is None:
            return []
        return [self.dataset(self.curve.dataset)] if self.curve.dataset else self.evaluated()

    def compared(self) -> list[ModelPlan]:
        """Return the model of the selection unchanged, and with each of the settings."""
        if (plan := self.selection) is None:
            return []
        model = self.model(plan.model)
        return [model, *(model.with_setting(setting, plan.seeds) for setting in plan.setting)]

    def dataset_of_inventory(self, dataset: DatasetPlan) -> str | None:
        """Return the other dataset whose senses a dataset uses, if that is what its inventory names."""
        others = [other.name for other in self.datasets if other.name != dataset.name]
        named = dataset.inventory.written if dataset.inventory is not None else ""
        return named if named in others else None


def require_choice(key: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f"{key} is {value!r}; allowed: {', '.join(choices)}.{nearest(str(value), choices)}")


def require_names(what: str, plans: Sequence[DatasetPlan | SettingPlan]) -> list[str]:
    """Return the names of plans; refuse one that is given twice, or cannot be part of a file's name."""
    names = [plan.name for plan in plans]
    for index, name in enumerate(names):
        if not _NAME.fullmatch(name):
            allowed = "letters, digits, '_', '-' and '.', such as lmc-paper"
            raise ConfigError(f"{what}.name is {name!r}; allowed: {allowed}.")
        if name in names[:index]:
            advice = f"Give each {what} its own name."
            raise ConfigError(f"{what}: the name {name!r} is given twice. {advice}")
    return names
