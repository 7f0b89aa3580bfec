"""A protocol as TOML. A file may extend another; errors name the key, what is allowed and what is nearest."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import resources
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lmcells.errors import ConfigError, nearest
from lmcells.evaluation.reproduce import protocol as plans
from lmcells.language_model.config import load_language_model_configuration
from lmcells.training import load_configuration

_LISTS = {"dataset": "datasets", "model": "models"}  # [[tables]] with names, and the fields that hold them
_HINTS = {key: get_type_hints(plans.Protocol)[_LISTS.get(key, key)] for key in plans.TABLES}
_TOP = ("extends", "seeds", "sources", *plans.TABLES)
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    plans.Source: "a path",
}

Table = dict[str, Any]


def load_protocol(path: Path) -> plans.Protocol:
    """Read and check a protocol."""
    raw = _read(path)
    try:
        seeds = _value(raw.get("seeds", [0]), plans.Seeds, "seeds")
        for table in (raw.get("selection", {}), raw.get("leakage", {}), *raw.get("model", ())):
            table.setdefault("seeds", seeds)
        if "corpus" not in raw:
            raise ConfigError("corpus is not given; a protocol needs [corpus] with its inputs.")
        tables = {"dataset": [], "model": [], **raw}
        values = {key: _value(tables[key], hint, key) for key, hint in _HINTS.items() if key in tables}
        protocol = plans.Protocol(**{_LISTS.get(key, key): value for key, value in values.items()})
        for model in (*protocol.models, *protocol.compared()):
            _check_settings(model)
        return protocol
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _read(path: Path, seen: tuple[Path, ...] = ()) -> Table:
    """Return the tables of a file, merged over those of the file it extends."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Give a TOML file, such as configs/open.toml.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None
    hints = raw.get("sources", {})

    def located(value: Any) -> Any:
        """Paths are relative to the folder of the file that contains them."""
        if isinstance(value, list):
            return [located(each) for each in value]
        return plans.Source(value, path.parent, hints) if isinstance(value, str) else value

    for key, value in raw.items():
        if key not in _TOP:
            allowed = f"allowed: {', '.join(_TOP)}.{nearest(key, _TOP)}"
            raise ConfigError(f"{path}: {key!r} is not known; {allowed}")
        if key in ("extends", "seeds"):
            continue
        tables = value if key in _LISTS else [value]
        if not _is_tables(tables):
            wanted = f"a list of tables; write [[{key}]]" if key in _LISTS else f"a table; write [{key}]"
            raise ConfigError(f"{path}: {key!r} is not {wanted}.")
        if not all(isinstance(table.get("name", ""), str) for table in tables):
            raise ConfigError(f"{path}: {key}: a name is not text.")
        types = get_type_hints(_inner(_HINTS[key])) if key in _HINTS else {}
        for table in tables:
            table |= {name: located(table[name]) for name in table if "Source" in str(types.get(name))}
    if (base := raw.pop("extends", None)) is None:
        return raw
    base_path = path.parent / str(base)
    try:
        extends_itself = base_path.resolve() in seen
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL
        raise ConfigError(f"{path}: extends is {base!r}, which is not the path of a file.") from None
    if extends_itself:
        raise ConfigError(f"{path}: extends is {base!r}, which extends this file.")
    return _laid_over(_read(base_path, (*seen, path.resolve())), raw)


def _laid_over(below: Table, above: Table) -> Table:
    """Merge tables key by key, [[dataset]] and [[model]] by their names; replace anything else."""
    merged = dict(below)
    for key, value in above.items():
        before = below.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = _laid_over(before, value)
        elif key in _LISTS and isinstance(value, list) and isinstance(before, list):
            by_name = {table.get("name"): table for table in before}
            for table in value:
                by_name[table.get("name")] = _laid_over(by_name.get(table.get("name"), {}), table)
            merged[key] = list(by_name.values())
        else:
            merged[key] = value
    return merged


def _plan(kind: Any, table: Table, place: str) -> Any:
    """Build a dataclass from a table: known keys only, each of the type that its field declares."""
    hints = get_type_hints(kind)
    within = f"{place}: " if " " in place else f"{place}."
    for key in table:
        if key not in hints:
            allowed = f"allowed: {', '.join(hints)}.{nearest(key, hints)}"
            raise ConfigError(f"{within}{key} is not known; {allowed}")
    for each in fields(kind):
        if each.name not in table and each.default is MISSING and each.default_factory is MISSING:
            raise ConfigError(f"{within}{each.name} is not given.")
    return kind(**{key: _value(value, hints[key], within + key) for key, value in table.items()})


def _inner(hint: Any) -> Any:
    """The inner type of an optional; the item type of a tuple."""
    if get_origin(hint) in (UnionType, Union):
        return next(each for each in get_args(hint) if each is not NoneType)
    return get_args(hint)[0] if get_origin(hint) is tuple else hint


def _value(value: Any, hint: Any, name: str) -> Any:
    """Convert a value to the type of its field, or say what is allowed."""
    if get_origin(hint) is tuple:
        return _items(value, hint, name)
    inner = _inner(hint)
    kind = get_origin(inner) or inner
    if is_dataclass(inner) and inner is not plans.Source:
        return _plan(inner, value, name)
    if kind is Literal:
        plans.require_choice(name, value, get_args(inner))
    elif issubclass(kind, Mapping):
        if not isinstance(value, dict):
            raise ConfigError(f"{name} is a value; write {name.rpartition(' ')[2]}.KEY = VALUE.")
    elif kind is float and type(value) is int:
        return float(value)
    elif type(value) is not kind:
        raise ConfigError(f"{name} is {value!r}; allowed: {_WORDS[kind]}.")
    return value


def _items(value: Any, hint: Any, name: str) -> tuple[Any, ...]:
    """Convert a list: of seeds, of tables with names, or of plain values."""
    inner = _inner(hint)
    if hint == plans.Seeds:
        seeds = value if isinstance(value, list | tuple) else ()
        if not seeds or any(type(s) is not int or s < 0 for s in seeds) or len(set(seeds)) < len(seeds):
            raise ConfigError(f"{name} is {value!r}; allowed: different whole numbers, such as [0, 1, 2].")
        return tuple(seeds)
    if inner in _WORDS:
        if not isinstance(value, list):
            raise ConfigError(f"{name} is {value!r}; allowed: a list of {_WORDS[inner].split()[-1]}s.")
        return tuple(_value(each, inner, name) for each in value)
    if not _is_tables(value):
        raise ConfigError(f"{name} is not a list of tables; write [[{name}]].")
    if any("name" not in table for table in value):
        raise ConfigError(f"{name}: one has no name. Give each [[{name}]] a name.")
    return tuple(_plan(inner, table, f"{name} {table['name']!r}") for table in value)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def flags(plan: plans.ModelPlan) -> list[str]:
    """Return all differences from the preset as `table.key=value`, for `lmcells train --set`."""
    return [
        f"{table}.{key}={json.dumps(value, ensure_ascii=False, default=str)}"
        for table, values in plan.settings.items()
        for key, value in values.items()
    ]


def resolved(plan: plans.ModelPlan) -> dict[str, Any]:
    """Return preset and overrides together: the settings that a trained model depends on."""
    package = "language_model" if plan.kind == "elmo" else "training"
    path = resources.files(f"lmcells.{package}").joinpath("presets", f"{plan.preset}.toml")
    tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    for table, values in plan.settings.items():
        tables[table] = {**tables.get(table, {}), **values}
    if plan.kind != "elmo":
        tables["model"] = {**tables.get("model", {}), "kind": plan.kind}
    # The seed is the run's own; the others change no training step.
    for key in ("seed", "checkpoint_minutes", "report_steps"):
        tables.get("training", {}).pop(key, None)
    return tables


def _check_settings(plan: plans.ModelPlan) -> None:
    """Let the trainer's own reader refuse a setting."""
    try:
        if plan.kind == "elmo":
            load_language_model_configuration(preset=plan.preset, overrides=flags(plan))
        elif plan.kind in plans.TRAINED:
            load_configuration(preset=plan.preset, overrides=[*flags(plan), f"model.kind={plan.kind}"])
    except ConfigError as error:
        raise ConfigError(f"model {plan.name!r}: {error}") from None
