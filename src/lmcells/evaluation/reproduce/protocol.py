"""What is to be reproduced: a corpus, datasets, models, and what is done with them. Plain data that checks itself."""

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from lmcells.corpus.settings import CorpusSettings
from lmcells.errors import ConfigError, InputError, nearest
from lmcells.files import read_json, sha256, write_json
from lmcells.notes.readers import FORMATS

# The files that a protocol names, and what they held when they were last seen.


_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PACKAGE = "package:"


class MissingSource(InputError):  # noqa: N818 - it names a thing, like MissingExtra
    """A file that the protocol names is not on this machine."""


@dataclass(frozen=True, slots=True)
class Source:
    """A path as it is written in a protocol: relative to its file, with `${VARIABLE}`, or `package:NAME/FOLDER`."""

    written: str
    folder: Path  # of the file that it is written in
    hints: Mapping[str, str]  # variable or path as written -> how to get what it stands for

    def path(self) -> Path:
        """Where it is, or an error that says how to get it."""
        if self.written.startswith(_PACKAGE):
            return self._in_package(self.written.removeprefix(_PACKAGE))
        for name in _VARIABLE.findall(self.written):
            if not os.environ.get(name):
                raise MissingSource(
                    f"the variable {name} is not set; it stands for a file that the protocol needs."
                    f"{self._hint(name)} Then: export {name}=PATH"
                )
        path = self.folder / _VARIABLE.sub(lambda found: os.environ[found[1]], self.written)
        if not path.exists():
            names = _VARIABLE.findall(self.written)
            raise MissingSource(
                f"{self.written} does not exist (looked for {path}).{self._hint(*names, self.written)}"
            )
        return path

    def _in_package(self, written: str) -> Path:
        package, _, inside = written.partition("/")
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise MissingSource(f"the package {package} is not installed.{self._hint(self.written)}")
        path = Path(found.submodule_search_locations[0]) / inside
        if not path.exists():
            raise MissingSource(f"{self.written} does not exist: {package} has no {inside!r}.")
        return path

    def _hint(self, *names: str) -> str:
        return next((f" {self.hints[name]}" for name in names if name in self.hints), "")


class Digests:
    """Checksums of sources, computed once and remembered: a machine without the files still knows what they held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = read_json(path) if path.is_file() else {}

    def of(self, source: Source) -> str:
        """Return the checksum of a file, or of all files of a folder with their names."""
        before = self._known.get(source.written)
        try:
            path = source.path()
        except MissingSource:
            if before is None:
                raise
            return str(before["sha256"])
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        stamps = [[file.stat().st_size, file.stat().st_mtime_ns] for file in files]
        if before is None or before["stamps"] != stamps:
            digest = _digest(path, files)
            self._known[source.written] = {"sha256": digest, "stamps": stamps}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._known, indent=1)
        return str(self._known[source.written]["sha256"])


def _digest(path: Path, files: list[Path]) -> str:
    if files == [path]:
        return sha256(path)
    listing = "".join(f"{file.relative_to(path)} {sha256(file)}\n" for file in files)
    return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()


# What is to be reproduced: a corpus, datasets, models, and what is done with them. Plain data that checks itself.


DatasetKind = Literal["file", "casi", "reverse"]
ModelKind = Literal["lmc", "bsg", "mbsge", "elmo", "random", "dominant", "section-mle", "bert", "encoder"]
CELLS = ("lmc", "bsg", "mbsge")
TRAINED = (*CELLS, "elmo")
SEEDED = (*TRAINED, "random", "section-mle")
FOLDERS = ("bert", "encoder")
PRESETS = ("paper", "tuned", "default")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
SETTING, ADDED = "@", "+"  # MODEL@SETTING, MODEL+leaky: names that no file can give

Tables = Mapping[str, Mapping[str, Any]]  # [model], [language_model] and [training], as in a preset


@dataclass(frozen=True, kw_only=True)
class CorpusPlan:
    """The notes to train on, and how they are read."""

    inputs: tuple[Source, ...]
    format: str = "auto"
    sections: str = "auto"
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
        return CorpusSettings(
            sections=self.sections,  # type: ignore[arg-type]
            min_count=self.min_count,
            min_header_count=self.min_header_count,
            header_rules=header_rules,
            stop_words=self.stop_words,
            spelled_out=self.spelled_out,
        )


@dataclass(frozen=True, kw_only=True)
class DatasetPlan:
    """Labelled short forms: a file, the published CASI, or reverse substitution in notes."""

    name: str
    kind: DatasetKind = "file"
    inventory: Source | None = None  # a file, or the name of another dataset
    section_map: Source | None = None
    evaluated: bool = True  # False: only there for its senses
    leakage_check: bool = True  # False: its notes are truly others than the corpus'
    title: str = ""
    file: Source | None = None  # kind file
    raw: Source | None = None  # kind casi
    canonical_forms: Source | None = None
    match_short_forms: str | None = None
    skip: tuple[str, ...] = ()
    notes: tuple[Source, ...] = ()  # kind reverse
    format: str = "auto"
    sections: str = "auto"
    max_per_sense: int = 500
    window: int = 20
    seed: int = 0
    share: float = 1.0  # of the notes, chosen by their ids
    spelled_forms: bool = False
    allow_candidates: bool = False

    def __post_init__(self) -> None:
        require_name("dataset.name", self.name)
        place = f"dataset {self.name!r}"
        require_choice(f"{place}: kind", self.kind, get_args(DatasetKind))
        needed = {"file": ("file", "inventory"), "casi": ("raw",), "reverse": ("notes", "inventory")}[
            self.kind
        ]
        for key in needed:
            if not getattr(self, key):
                raise ConfigError(
                    f"{place}: {key} is not given; a dataset of kind {self.kind!r} needs: {', '.join(needed)}."
                )
        if not 0.0 < self.share <= 1.0:
            raise ConfigError(f"{place}: share is {self.share}; allowed: above 0, at most 1.")
        require_choice(f"{place}: format", self.format, FORMATS)


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A model or baseline, and what differs from its preset."""

    name: str
    kind: ModelKind
    preset: str = "default"
    settings: Tables = field(default_factory=dict)
    folder: Source | None = None
    seeds: tuple[int, ...] = ()  # () where there is no chance in it

    def __post_init__(self) -> None:
        place = f"model {self.name!r}"
        require_choice(f"{place}: kind", self.kind, get_args(ModelKind))
        require_choice(f"{place}: preset", self.preset, PRESETS)
        if (self.kind in FOLDERS) != (self.folder is not None):
            need = "needs the folder of a checkpoint" if self.kind in FOLDERS else "has none"
            raise ConfigError(f"{place}: folder; the kind {self.kind!r} {need}.")
        if self.settings and self.kind not in TRAINED:
            raise ConfigError(
                f"{place}: {next(iter(self.settings))!r} is for trained kinds: {', '.join(TRAINED)}."
            )


@dataclass(frozen=True, kw_only=True)
class SelectionPlan:
    """Settings of one model that are compared on one dataset; the best is reported on the others."""

    model: str
    dataset: str
    seeds: tuple[int, ...]
    settings: tuple[ModelPlan, ...]  # each is the model with a setting of its own, named MODEL@SETTING


@dataclass(frozen=True, kw_only=True)
class LeakagePlan:
    """One model trained with the test notes as well."""

    model: str
    dataset: str
    seeds: tuple[int, ...]
    inputs: tuple[Source, ...] = ()  # notes that are added; the corpus' `exclude` is lifted in any case


@dataclass(frozen=True, kw_only=True)
class ReportPlan:
    """How much work the paired tests are, and whether the paper's figures stand beside ours."""

    rounds: int = 5000
    resamples: int = 2000
    published: bool = True

    def __post_init__(self) -> None:
        for name in ("rounds", "resamples"):
            if getattr(self, name) < 1:
                raise ConfigError(f"report.{name} is {getattr(self, name)}; allowed: 1 or more.")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The whole of it."""

    corpus: CorpusPlan
    datasets: tuple[DatasetPlan, ...]
    models: tuple[ModelPlan, ...]
    selection: SelectionPlan | None = None
    leakage: LeakagePlan | None = None
    curve: str | None = None  # the dataset that is scored while training
    report: ReportPlan = field(default_factory=ReportPlan)

    def __post_init__(self) -> None:
        names = [dataset.name for dataset in self.datasets]
        _require_unique("dataset", names)
        _require_unique("model", [model.name for model in self.models])
        if not any(dataset.evaluated for dataset in self.datasets):
            raise ConfigError("dataset: there is none to evaluate on. Give at least one [[dataset]].")
        if not self.models:
            raise ConfigError("model: there is none. Give at least one [[model]].")
        references = {"corpus.exclude": self.corpus.exclude, "curve.dataset": _one(self.curve)}
        for dataset in self.datasets:
            references[f"dataset {dataset.name!r}: match_short_forms"] = _one(dataset.match_short_forms)
        for key, plan in (("selection", self.selection), ("leakage", self.leakage)):
            if plan is not None:
                references[f"{key}.dataset"] = (plan.dataset,)
                trained = [model.name for model in self.models if model.kind in TRAINED]
                require_choice(f"{key}.model", plan.model, trained)
        for key, wanted in references.items():
            for name in wanted:
                require_choice(key, name, names)

    def dataset(self, name: str) -> DatasetPlan:
        """The dataset of a name."""
        return next(dataset for dataset in self.datasets if dataset.name == name)

    def model(self, name: str) -> ModelPlan:
        """The model of a name."""
        return next(model for model in self.models if model.name == name)

    def dataset_of_inventory(self, dataset: DatasetPlan) -> str | None:
        """The other dataset whose senses a dataset uses, if that is what its inventory names."""
        others = [other.name for other in self.datasets if other.name != dataset.name]
        return (
            dataset.inventory.written if dataset.inventory and dataset.inventory.written in others else None
        )


def require_choice(key: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise ConfigError(f"{key} is {value!r}; allowed: {', '.join(choices)}.{nearest(str(value), choices)}")


def require_name(key: str, value: Any) -> None:
    """Refuse what cannot be part of a file's name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ConfigError(
            f"{key} is {value!r}; allowed: letters, digits, '_', '-' and '.', such as lmc-paper."
        )


def _require_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(
                f"{what}: the name {name!r} is given twice. Give each {what} a name of its own."
            )
        seen.add(name)


def _one(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)
