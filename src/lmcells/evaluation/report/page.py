"""A self-contained HTML page: no network, no other file, and a content policy that forbids both.

The markup and the prose are in `templates/`; here are the values they show.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np

from lmcells.evaluation.intervals import Comparison
from lmcells.evaluation.metrics import ConfusionMatrix
from lmcells.evaluation.predictions import Exclusion
from lmcells.evaluation.report.findings import (
    ACRONYM_COLUMNS,
    METRICS,
    PRECISION,
    Findings,
    Published,
    best_of,
    by_short_form,
    commonest_mistakes,
    templates,
)

_N_MISTAKES = 15
_SHADES = 5


def render(template: str, **values: Any) -> str:
    from markupsafe import Markup

    environment = templates(autoescape=True)
    environment.filters |= {
        "between": lambda interval: "" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}",
        "mistakes": partial(commonest_mistakes, limit=_N_MISTAKES),
        "published_for": published_figures,
        "shaded": _shaded,
        "signed": _signed,
    }
    folder = files("lmcells.evaluation.report") / "templates"
    for name, file in {"style": "style.css", "script": "sort.js"}.items():
        source = (folder / file).read_text(encoding="utf-8")
        values[name] = Markup(source)
        values[f"{name}_hash"] = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return environment.get_template(template).render(values)


def report_page(findings: Findings, figures: Mapping[str, str]) -> str:
    """Return the report; `figures` are SVG documents by name, in base64."""
    models, settings = findings.models, findings.settings
    competing = [model.result.metrics for model in models if model.name not in findings.oracles]
    rivals = {metric: [getattr(metrics, metric) for metrics in competing] for metric in METRICS}
    is_chosen_here = not any(setting.here for setting in settings)
    return render(
        "report.html",
        findings=findings,
        figures=figures,
        metrics=METRICS,
        acronym_columns=ACRONYM_COLUMNS,
        precision=f"{PRECISION:.0%}",
        best={
            metric: best_of(metric, values) if len(values) > 1 else None for metric, values in rivals.items()
        },
        test_sets=list(dict.fromkeys(each.dataset for each in findings.published)),
        names=[findings.shown(model.name) for model in models],
        systems={each.model: each.system for each in findings.published},
        chosen=next((setting.model for setting in settings if setting.is_chosen), "none"),
        is_chosen_here=is_chosen_here,
        titles_here=[] if is_chosen_here else [f"{title} here" for title in METRICS.values()],
        pairs=_pairs(findings),
        acronyms=_acronyms(findings),
        exclusions=_exclusions(findings),
        section_matches=[(m.name, how, n) for m in models for how, n in m.result.section_mapping.items()],
        leader_first=sorted(models, key=lambda model: model is not findings.leader),
        leaked=sorted({id_ for m in models if (found := m.result.leakage) for id_ in found["leaked_notes"]}),
    )


def published_figures(
    published: Sequence[Published], model: str, show: Callable[[float], str] = "{:.2f}".format
) -> list[dict[str, Any]]:
    """For each test set accuracy / weighted F1 / macro F1 / NLL as they are shown, and the accuracy, to sort by."""
    theirs: dict[str, dict[str, Any]] = {each.dataset: {"shown": "", "value": None} for each in published}
    for found in published:
        if found.model == model:
            values = (found.accuracy, found.weighted_f1, found.macro_f1, found.nll)
            shown = ("–" if value is None else show(value) for value in values)
            theirs[found.dataset] = {"shown": " / ".join(shown), "value": found.accuracy}
    return list(theirs.values())


def _pairs(findings: Findings) -> dict[str, list[dict[str, Any]]]:
    """Comparisons by pair of models: the leader minus each other model, then the other pairs."""
    leader = findings.leader.name
    found: dict[tuple[str, str], dict[str, Comparison]] = {}
    for comparison in findings.compared[0]:
        c = comparison
        if c.second == leader:  # the same comparison as second minus first
            low, high = -c.interval.high, -c.interval.low
            interval = replace(c.interval, estimate=-c.interval.estimate, low=low, high=high)
            c = replace(c, first=c.second, second=c.first, difference=-c.difference, interval=interval)
        found.setdefault((c.first, c.second), {})[c.metric] = c
    pairs: dict[str, list[dict[str, Any]]] = {"of_leader": [], "others": []}
    for names, by_metric in found.items():
        group = "of_leader" if names[0] == leader else "others"
        is_fair = not any(name in findings.oracles for name in names)
        title = " − ".join(map(findings.shown, names))
        pairs[group].append({"title": title, "by_metric": by_metric, "is_fair": is_fair})
    return pairs


def _acronyms(findings: Findings) -> list[dict[str, Any]]:
    """Macro F1 by short form, of all models side by side."""
    found, is_rival = [], [model.name not in findings.oracles for model in findings.models]
    for short_form, rows in by_short_form(findings.models).items():
        first, values = next(filter(None, rows)), [None if row is None else row["macro_f1"] for row in rows]
        rivals = [value if of_rival else None for value, of_rival in zip(values, is_rival, strict=True)]
        best = max((value for value in rivals if value is not None), default=None)
        bold = [value is not None and value == best and sum(is_rival) > 1 for value in rivals]
        counts = {"short_form": short_form, "count": first["count"], "targets": first["targets"]}
        found.append({**counts, "macro_f1": list(zip(values, bold, strict=True))})
    return found


def _exclusions(findings: Findings) -> list[tuple[Exclusion, list[str]]]:
    """Senses that could not be treated like the others, with the models concerned."""
    names_of: dict[Exclusion, list[str]] = {}
    for model in findings.models:
        for exclusion in model.result.predictions.excluded:
            names_of.setdefault(exclusion, []).append(model.name)
    return sorted(names_of.items(), key=lambda item: (item[0].kept, -item[0].n_examples))


def _shaded(matrix: ConfusionMatrix) -> dict[str, Any]:
    """A confusion matrix without the long forms that neither occur nor were predicted."""
    shown = np.flatnonzero(matrix.counts.sum(axis=0) + matrix.counts.sum(axis=1)).tolist()
    share = matrix.counts * _SHADES // np.maximum(matrix.counts.sum(axis=1, keepdims=True), 1)
    shade = np.where(matrix.counts > 0, 1 + np.minimum(_SHADES - 1, share), 0)
    rows = {}
    for i in shown:
        cells = [{"n": matrix.counts[i, j], "shade": shade[i, j], "is_right": i == j} for j in shown]
        rows[f"{i + 1}. {matrix.long_forms[i]}"] = cells
    return {"columns": {i + 1: matrix.long_forms[i] for i in shown}, "rows": rows}


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
