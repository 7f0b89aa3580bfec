"""A protocol as TOML: `extends` another file, and says which key is wrong, what is allowed and what is nearest."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from lmcells.errors import ConfigError, nearest
from lmcells.evaluation.reproduce.protocol import (
    SEEDED,
    SETTING,
    TRAINED,
    CorpusPlan,
    DatasetPlan,
    LeakagePlan,
    ModelPlan,
    Protocol,
    ReportPlan,
    SelectionPlan,
    Source,
    require_name,
)

# A model's settings in a protocol: checked by the trainer's own reader, and as flags of `lmcells train`.


# Settings that came after runs had been recorded, with the value that those runs had in effect: while a setting has it,
# it is left out, and the runs stay what they are.
_ADDED_LATER: dict[str, dict[str, Any]] = {
    "model": {"masked_span_dim": 0, "masked_span_reach": 2},
    "training": {"contrastive_mask_rate": 0.0, "contrastive_null_rate": 0.0, "contrastive_reads_all": False},
}


def flags(plan: ModelPlan) -> list[str]:
    """`table.key=value` of all that differs from the preset; the value is TOML."""
    return [
        f"{table}.{key}={json.dumps(value, ensure_ascii=False)}"
        for table, values in plan.settings.items()
        for key, value in values.items()
    ]


def resolved(plan: ModelPlan) -> dict[str, Any]:
    """Preset and overrides together, read without torch: what a trained model depends on."""
    package = "language_model" if plan.kind == "elmo" else "training"
    # By way of the outermost package: importing the inner one imports torch.
    path = resources.files("lmcells").joinpath(package, "presets", f"{plan.preset}.toml")
    tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    for table, values in plan.settings.items():
        tables[table] = tables.get(table, {}) | dict(values)
    if plan.kind != "elmo":
        tables["model"] = tables.get("model", {}) | {"kind": plan.kind}
    for key in (
        "seed",
        "checkpoint_minutes",
        "report_steps",
    ):  # the first is the run's own; the others change no step
        tables.get("training", {}).pop(key, None)
    for name, later in _ADDED_LATER.items():
        table = tables.get(name, {})
        for key in [key for key, value in later.items() if table.get(key) == value]:
            del table[key]
    return tables


def check_settings(plan: ModelPlan) -> None:
    """Refuse a setting that is unknown or out of range; where torch is not installed, training will."""
    if plan.kind not in TRAINED:
        return
    try:
        import torch  # noqa: F401
    except ImportError:
        return
    if plan.kind == "elmo":
        from lmcells.language_model.config import load_language_model_configuration

        load_language_model_configuration(preset=plan.preset, overrides=flags(plan))
    else:
        from lmcells.training import load_configuration

        load_configuration(preset=plan.preset, overrides=[*flags(plan), f"model.kind={plan.kind}"])


# A protocol as TOML: `extends` another file, and says which key is wrong, what is allowed and what is nearest.


_TOP = (
    "extends",
    "seeds",
    "sources",
    "corpus",
    "dataset",
    "model",
    "selection",
    "leakage",
    "curve",
    "report",
)
_SETTINGS = ("model", "language_model", "training")
_MODEL_KEYS = ("name", "kind", "preset", "folder", "seeds", *_SETTINGS)
_SELECTION_KEYS = ("model", "dataset", "seeds", "setting")
_LEAKAGE_KEYS = ("model", "dataset", "seeds", "inputs")
_PATHS = {
    "corpus": ("inputs", "header_rules"),
    "dataset": ("file", "inventory", "section_map", "raw", "canonical_forms", "notes"),
    "model": ("folder",),
    "leakage": ("inputs",),
}
_LISTS = ("inputs", "notes", "exclude", "skip")

Table = dict[str, Any]
Plan = TypeVar("Plan", CorpusPlan, DatasetPlan, ReportPlan)


def load_protocol(path: Path, *, checks_models: bool = True) -> Protocol:
    """Read and check a protocol; an error names the file and the key.

    `checks_models` has the trainer check its settings, which takes seconds of importing torch.
    """
    raw = _read(path, seen=())
    try:
        protocol = _protocol(raw)
        if checks_models:
            for model in (*protocol.models, *(protocol.selection.settings if protocol.selection else ())):
                _require_known_settings(model)
        return protocol
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _read(path: Path, *, seen: tuple[Path, ...]) -> Table:
    """The tables of a file, laid over those of the file it extends."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist. Give --config a TOML file, such as configs/open.toml."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None
    for key in raw:
        if key not in _TOP:
            raise ConfigError(
                f"{path}: {key!r} is not known; allowed: {', '.join(_TOP)}.{nearest(key, _TOP)}"
            )
    for key in ("dataset", "model"):
        given = raw.get(key, [])
        if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
            raise ConfigError(f"{path}: {key!r} is not a list of tables; write [[{key}]].")
    for key in ("sources", "corpus", "selection", "leakage", "curve", "report"):
        if not isinstance(raw.get(key, {}), dict):
            raise ConfigError(f"{path}: {key!r} is not a table; write [{key}].")
    raw = _located(raw, path)
    if (base := raw.pop("extends", None)) is None:
        return raw
    base_path = path.parent / str(base)
    if base_path.resolve() in seen:
        raise ConfigError(f"{path}: extends is {base!r}, which extends this file.")
    return _laid_over(_read(base_path, seen=(*seen, path.resolve())), raw)


def _located(raw: Table, path: Path) -> Table:
    """Paths belong to the folder of the file that they are written in."""
    hints = {str(name): str(hint) for name, hint in raw.get("sources", {}).items()}

    def locate(table: Table, keys: Iterable[str]) -> Table:
        return table | {key: located(table[key]) for key in keys if key in table}

    def located(value: Any) -> Any:
        if isinstance(value, list):
            return [located(each) for each in value]
        return Source(value, path.parent, hints) if isinstance(value, str) else value

    for key, keys in _PATHS.items():
        if key in raw:
            found = raw[key]
            raw[key] = (
                [locate(each, keys) for each in found] if isinstance(found, list) else locate(found, keys)
            )
    return raw


def _laid_over(below: Table, above: Table) -> Table:
    """Tables are merged key by key, [[dataset]] and [[model]] by their names; anything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        before = below.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = _laid_over(before, value)
        elif key in ("dataset", "model") and isinstance(value, list) and isinstance(before, list):
            by_name = {table.get("name"): table for table in before}
            for table in value:
                by_name[table.get("name")] = _laid_over(by_name.get(table.get("name"), {}), table)
            merged[key] = list(by_name.values())
        else:
            merged[key] = value
    return merged


def _protocol(raw: Table) -> Protocol:
    seeds = _seeds(raw.get("seeds", [0]), "seeds")
    models = tuple(_model(table, seeds) for table in raw.get("model", ()))
    if "corpus" not in raw:
        raise ConfigError("corpus is not given; a protocol needs [corpus] with its inputs.")
    curve = _checked(raw.get("curve", {}), "curve", ("dataset",))
    return Protocol(
        corpus=_build(CorpusPlan, {"inputs": [], **raw["corpus"]}, "corpus"),
        datasets=tuple(
            _build(DatasetPlan, _named(table, "dataset"), f"dataset {table.get('name')!r}")
            for table in raw.get("dataset", ())
        ),
        models=models,
        selection=_selection(raw["selection"], seeds, models) if "selection" in raw else None,
        leakage=_leakage(raw["leakage"], seeds) if "leakage" in raw else None,
        curve=_text(curve.get("dataset"), "curve.dataset") if curve else None,
        report=_build(ReportPlan, raw.get("report", {}), "report"),
    )


def _model(table: Table, seeds: tuple[int, ...]) -> ModelPlan:
    place = f"model {table.get('name')!r}"
    _checked(_named(table, "model"), place, _MODEL_KEYS)
    require_name("model.name", table["name"])
    kind = table.get("kind", "lmc")
    chosen = _seeds(table["seeds"], f"{place}: seeds") if "seeds" in table else seeds
    return ModelPlan(
        name=table["name"],
        kind=kind,
        preset=table.get("preset", "default"),
        settings=_settings(table, place),
        folder=_source(table.get("folder"), f"{place}: folder"),
        seeds=chosen if kind in SEEDED else (),
    )


def _selection(table: Table, seeds: tuple[int, ...], models: Iterable[ModelPlan]) -> SelectionPlan:
    _checked(table, "selection", _SELECTION_KEYS)
    base = {model.name: model for model in models}.get(table.get("model", ""))
    chosen = _seeds(table["seeds"], "selection.seeds") if "seeds" in table else seeds
    settings: list[ModelPlan] = []
    for setting in _tables(table.get("setting", []), "selection.setting"):
        place = f"selection.setting {setting.get('name')!r}"
        _checked(_named(setting, "selection.setting"), place, ("name", "preset", *_SETTINGS))
        require_name("selection.setting.name", setting["name"])
        if setting["name"] in (each.name.partition(SETTING)[2] for each in settings):
            raise ConfigError(f"selection.setting: the name {setting['name']!r} is given twice.")
        if base is not None:
            changed = _settings(setting, place)
            tables = {**base.settings, **{k: {**base.settings.get(k, {}), **v} for k, v in changed.items()}}
            name, preset = f"{base.name}{SETTING}{setting['name']}", setting.get("preset", base.preset)
            settings.append(replace(base, name=name, preset=preset, settings=tables, seeds=chosen))
    for key in ("model", "dataset"):
        _text(table.get(key), f"selection.{key}")
    if base is not None and not settings:
        raise ConfigError("selection.setting: there is none. Give at least one [[selection.setting]].")
    if base is not None and not set(chosen) <= set(base.seeds):
        raise ConfigError(
            f"selection.seeds is {list(chosen)}; allowed: of {base.name}'s seeds, {list(base.seeds)}."
        )
    return SelectionPlan(
        model=table["model"], dataset=table["dataset"], seeds=chosen, settings=tuple(settings)
    )


def _leakage(table: Table, seeds: tuple[int, ...]) -> LeakagePlan:
    _checked(table, "leakage", _LEAKAGE_KEYS)
    return LeakagePlan(
        model=_text(table.get("model"), "leakage.model"),
        dataset=_text(table.get("dataset"), "leakage.dataset"),
        seeds=_seeds(table["seeds"], "leakage.seeds") if "seeds" in table else seeds,
        inputs=tuple(_sources(table.get("inputs", []), "leakage.inputs")),
    )


def _settings(table: Table, place: str) -> dict[str, Table]:
    found = {name: table[name] for name in _SETTINGS if name in table}
    for name, values in found.items():
        if not isinstance(values, dict):
            raise ConfigError(f"{place}: {name!r} is a value; write {name}.KEY = VALUE.")
    return found


def _require_known_settings(plan: ModelPlan) -> None:
    """Let the trainer's own reader check preset and overrides."""
    try:
        check_settings(plan)
    except ConfigError as error:
        raise ConfigError(f"model {plan.name!r}: {error}") from None


def _build(kind: type[Plan], table: Table, place: str) -> Plan:
    """A dataclass from a table: known keys only, of the types that its defaults have."""
    described = {field.name: field for field in fields(kind)}
    values: Table = {}
    for key, value in _checked(table, place, tuple(described)).items():
        name = f"{place}: {key}" if " " in place else f"{place}.{key}"
        if key in _LISTS:
            read: Callable[[Any, str], Any] = _sources if key in ("inputs", "notes") else _texts
            values[key] = tuple(read(value, name))
        elif "Source" in str(described[key].type):
            values[key] = _source(value, name)
        else:
            values[key] = _typed(value, described[key].default, name)
    return kind(**values)


def _typed(value: Any, default: Any, name: str) -> Any:
    wanted: type = {type(None): str}.get(type(default), type(default))
    if not isinstance(default, bool | int | float | str | None):
        wanted = str  # a required name
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
        raise ConfigError(f"{name} is {_shown(value)}; allowed: {words[wanted]}.")
    return value


def _named(table: Table, place: str) -> Table:
    if "name" not in table:
        raise ConfigError(f"{place}: one has no name. Give each [[{place}]] a name.")
    return table


def _checked(table: Mapping[str, Any], place: str, allowed: tuple[str, ...]) -> Table:
    for key in table:
        if key not in allowed:
            name = f"{place}: {key}" if " " in place else f"{place}.{key}"
            raise ConfigError(f"{name} is not known; allowed: {', '.join(allowed)}.{nearest(key, allowed)}")
    return dict(table)


def _seeds(value: Any, name: str) -> tuple[int, ...]:
    is_seeds = isinstance(value, list) and value and all(type(seed) is int and seed >= 0 for seed in value)
    if not is_seeds or len(set(value)) < len(value):
        raise ConfigError(f"{name} is {_shown(value)}; allowed: different whole numbers, such as [0, 1, 2].")
    return tuple(value)


def _tables(value: Any, name: str) -> list[Table]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ConfigError(f"{name} is not a list of tables; write [[{name}]].")
    return value


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        raise ConfigError(f"{name} is {_shown(value)}; allowed: a list of texts.")
    return [_text(each, name) for each in value]


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is {_shown(value)}; allowed: text.")
    return value


def _sources(value: Any, name: str) -> list[Source]:
    if not isinstance(value, list) or not all(isinstance(each, Source) for each in value):
        raise ConfigError(f"{name} is {_shown(value)}; allowed: a list of paths.")
    return value


def _source(value: Any, name: str) -> Source | None:
    if value is not None and not isinstance(value, Source):
        raise ConfigError(f"{name} is {_shown(value)}; allowed: a path.")
    return value


def _shown(value: Any) -> str:
    return repr(value.written) if isinstance(value, Source) else repr(value)
