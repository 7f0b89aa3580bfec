"""A model's settings in a protocol: checked by the trainer's own reader, and as flags of `lmcells train`."""

import json
import tomllib
from importlib import resources
from typing import Any

from lmcells.evaluation.reproduce.protocol import TRAINED, ModelPlan

# Settings that came after runs had been recorded, with the value that those runs had in effect: while a setting has it,
# it is left out, and the runs stay what they are.
_ADDED_LATER: dict[str, dict[str, Any]] = {
    "model": {"gap_dim": 0, "gap_reach": 2},
    "training": {"agreement_mask_rate": 0.0, "agreement_null_rate": 0.0, "agreement_reads_all": False},
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
        from lmcells.language_model.configuration import load_language_model_configuration

        load_language_model_configuration(preset=plan.preset, overrides=flags(plan))
    else:
        from lmcells.training import load_configuration

        load_configuration(preset=plan.preset, overrides=[*flags(plan), f"model.kind={plan.kind}"])
