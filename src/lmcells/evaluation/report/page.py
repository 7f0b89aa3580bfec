"""One HTML page that needs nothing else: no network, no other file, and a content policy that forbids both.

The markup and the prose are in `templates/`; here is what they show.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np

from lmcells.evaluation.breakdown import ConfusionMatrix, SeedSummary
from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.metrics import LOWER_IS_BETTER
from lmcells.evaluation.predictions import Exclusion
from lmcells.evaluation.rankers import ORACLE
from lmcells.evaluation.report.findings import (
    ACRONYM_COLUMNS,
    METRICS,
    PRECISION,
    Findings,
    Mistake,
    ModelFindings,
    Published,
    commonest_mistakes,
    means_over_short_forms,
    show_hours,
)
from lmcells.evaluation.report.svg import inline_svg
from lmcells.evaluation.significance import Comparison

_CAPTIONS = {
    "intervals": "Dot: all examples. Thin line: 95 % interval, BCa bootstrap over notes. Thick line: the paper's 100 "
    "samples of 80 %.",
    "accuracy_at_k": "Share of examples whose true long form is among the K most probable.",
    "number_of_candidates": "F1 of short forms by the number of their candidate long forms.",
    "calibration": "Left: how often answers are right, by the model's confidence; on the dotted line, confidence "
    "equals accuracy. Right: accuracy when only the most confident answers are given.",
    "training_time": "Accuracy at successive checkpoints of pre-training.",
}
_NARROW = frozenset({"accuracy_at_k", "training_time"})
_N_MISTAKES = 15
_N_EXCLUSIONS = 200
_N_LEAKED = 20
_SHADES = 5


@dataclass(frozen=True)
class Number:
    """A number as shown, and as it sorts; `below` is a line in small print."""

    shown: str
    value: float | None  # None sorts as the smallest
    below: str | None = None
    is_best: bool = False

    @property
    def sorts_as(self) -> str:
        """The value as the script that sorts tables reads it."""
        return "-Infinity" if self.value is None else repr(float(self.value))


Cell = Number | str
MISSING = Number("–", None)


@dataclass(frozen=True)
class Table:
    """A table of the page; the first cell of a row is its heading."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """Each column with whether it holds numbers."""
        return [
            (column, any(isinstance(row[index], Number) for row in self.rows))
            for index, column in enumerate(self.columns)
        ]


def score(value: float | None, interval: Interval | None = None, *, is_best: bool = False) -> Cell:
    """Return the cell of a metric: three decimals and its interval."""
    if value is None:
        return MISSING
    below = None if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"
    return Number(f"{value:.3f}", value, below, is_best)


def spread(summary: SeedSummary, *, is_best: bool = False) -> Cell:
    """Return the cell of a metric over runs: the mean, and worst to best."""
    below = f"{summary.worst:.3f} to {summary.best:.3f}" if summary.n_seeds > 1 else None
    return Number(f"{summary.mean:.3f}", summary.mean, below, is_best)


def count(value: int | None) -> Cell:
    """Return the cell of a whole number, its digits in groups of three."""
    return MISSING if value is None else Number(f"{value:,}", value)


def hours_to_peak(hours: float | None) -> Cell:
    """Return the cell of a time of pre-training."""
    return MISSING if hours is None else Number(show_hours(hours), hours)


def render(template: str, **values: Any) -> str:
    """Fill one of the HTML templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("lmcells.evaluation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    folder = files("lmcells.evaluation.report") / "templates"
    for name, file in {"style": "style.css", "script": "sort.js"}.items():
        source = (folder / file).read_text(encoding="utf-8")
        values[name] = Markup(source)
        values[f"{name}_hash"] = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return environment.get_template(template).render(values)


def report_page(findings: Findings, figures: Mapping[str, str]) -> str:
    """Return the report; `figures` are SVG documents by name."""
    from markupsafe import Markup

    shown = {
        name: {
            "svg": Markup(inline_svg(source, name=name, description=_CAPTIONS[name])),
            "caption": _CAPTIONS[name],
            "is_narrow": name in _NARROW,
        }
        for name, source in figures.items()
    }
    return render(
        "report.html",
        findings=findings,
        view=_View(findings),
        figures=shown,
        oracle=ORACLE,
        precision=f"{PRECISION:.0%}",
    )


class _View:
    """The tables and texts of the report, one method each, as its template asks for them."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.models = findings.models

    def sections(self) -> dict[str, str]:
        study = self.findings.study
        titles = {
            "results": "Results",
            "runs": "Pre-training runs" if self.findings.seeds else "",
            "paper": "Beside the paper" if study.published else "",
            "selection": "Choice of settings" if study.selection is not None else "",
            "significance": "Is one better than another?",
            "at-k": "Accuracy@K",
            "candidates": "Number of candidates",
            "calibration": "Calibration",
            "cost": "Cost",
            "acronyms": "By short form",
            "confusions": "Confusions",
            "errors": "Errors in context",
            "excluded": "What was excluded",
            "leakage": "Leakage",
        }
        return {id_: title for id_, title in titles.items() if title}

    def summary(self) -> str:
        metrics, leader = self.models[0].result.metrics, self.findings.leader.name
        return (
            f"{metrics.n:,} examples of {metrics.n_short_forms:,} short forms, {len(self.models)} "
            f"model{'s' if len(self.models) > 1 else ''}. Best macro F1: {leader} "
            f"({self.findings.mean(leader, 'macro_f1'):.3f})."
        )

    def headline(self) -> Table:
        results = [model.result for model in self.models]
        rivals = [result for result in results if result.model != ORACLE] or results
        best: dict[str, float] = {}
        for metric in METRICS if len(rivals) > 1 else ():
            values = [getattr(result.metrics, metric) for result in rivals]
            best[metric] = min(values) if metric in LOWER_IS_BETTER else max(values)
        rows: list[list[Cell]] = []
        for result in results:
            row: list[Cell] = [result.model]
            for metric in METRICS:
                value = getattr(result.metrics, metric)
                is_best = result in rivals and value == best.get(metric)
                row.append(score(value, result.intervals.get(metric), is_best=is_best))
            rows.append(row)
        return Table(["Model", *METRICS.values()], rows)

    def has_intervals(self) -> bool:
        return any(model.result.intervals for model in self.models)

    def paper_samples(self) -> Table:
        rows = [
            [m.name, *(score(getattr(m.result.metrics, metric), m.paper[metric]) for metric in METRICS)]
            for m in self.models
        ]
        return Table(["Model", *METRICS.values()], rows)

    def seeds(self) -> Table:
        rows = [
            [name, count(found["nll"].n_seeds), *(spread(found[metric]) for metric in METRICS)]
            for name, found in self.findings.seeds.items()
        ]
        return Table(["Model", "Runs", *METRICS.values()], rows)

    def published(self) -> Table:
        """Our means beside a paper's."""
        published = self.findings.study.published
        datasets = list(dict.fromkeys(each.dataset for each in published))
        rows: list[list[Cell]] = []
        for model in self.models:
            theirs = {each.dataset: each for each in published if each.model == model.name}
            system = next((each.system for each in theirs.values()), "–")
            ours = (score(self.findings.mean(model.name, metric)) for metric in ("accuracy", "macro_f1"))
            rows.append([model.name, system, *ours, *(_published(theirs.get(name)) for name in datasets)])
        return Table(["Model", "In the paper", "Accuracy here", "Macro F1 here", *datasets], rows)

    def chosen(self) -> str:
        selection = self.findings.study.selection
        settings = selection.settings if selection is not None else ()
        return next((setting.model for setting in settings if setting.is_chosen), "none")

    def is_chosen_here(self) -> bool:
        selection = self.findings.study.selection
        return selection is None or all(setting.here is None for setting in selection.settings)

    def selection(self) -> Table:
        """Settings by their macro F1 where they were compared, and the metrics here."""
        assert self.findings.study.selection is not None
        selection, metrics = self.findings.study.selection, {} if self.is_chosen_here() else METRICS
        rows: list[list[Cell]] = [
            [
                setting.model,
                count(setting.n_seeds),
                score(setting.macro_f1_there, is_best=setting.is_chosen),
                *(score(getattr(setting.here, metric, None)) for metric in metrics),
            ]
            for setting in selection.settings
        ]
        here = (f"{title} here" for title in metrics.values())
        return Table(["Setting", "Runs", f"Macro F1 on {selection.chosen_on}", *here], rows)

    def pairs(self, *, with_leader: bool) -> Table:
        """Pairs of models with their difference by each metric."""
        leader = self.findings.leader.name
        pairs: dict[tuple[str, str], list[Comparison]] = {}
        for comparison in self.findings.comparisons:
            c = _turned(comparison) if comparison.second == leader else comparison
            if (c.first == leader) == with_leader:
                pairs.setdefault((c.first, c.second), []).append(c)
        rows: list[list[Cell]] = []
        for pair, comparisons in pairs.items():
            found = {comparison.metric: comparison for comparison in comparisons}
            rows.append([" − ".join(pair), *(_difference(found[metric]) for metric in METRICS)])
        return Table(["Pair", *METRICS.values()], rows)

    def calibration(self) -> Table:
        columns = [
            "Model",
            "Calibration error",
            "AUROC of confidence",
            f"Answered at {PRECISION:.0%} precision",
        ]
        rows: list[list[Cell]] = [
            [m.name, score(m.calibration_error), score(m.auroc), Number(f"{m.coverage:.1%}", m.coverage)]
            for m in self.models
        ]
        return Table(columns, rows)

    def cost(self) -> Table:
        columns = ["Model", "Parameters without embeddings", "Hours of pre-training to peak"]
        rows: list[list[Cell]] = []
        for result in (model.result for model in self.models):
            seconds = Number(f"{result.seconds:.2f}", result.seconds)
            rows.append(
                [result.model, count(result.n_parameters), hours_to_peak(result.hours_to_peak), seconds]
            )
        return Table([*columns, "Seconds to score all examples"], rows)

    def acronyms(self) -> Table:
        """Macro F1 of all models side by side."""
        by_model = [{row.short_form: row for row in model.acronyms} for model in self.models]
        known = {short_form: row for rows in reversed(by_model) for short_form, row in rows.items()}
        rows: list[list[Cell]] = []
        for short_form in sorted(known):
            values = [r[short_form].macro_f1 if short_form in r else None for r in by_model]
            best = max(value for value in values if value is not None)
            cells = (score(value, is_best=value == best and len(values) > 1) for value in values)
            rows.append(
                [short_form, count(known[short_form].count), count(known[short_form].targets), *cells]
            )
        return Table(["Short form", "Examples", "Candidates", *(m.name for m in self.models)], rows)

    def acronyms_of(self, model: ModelFindings) -> Table:
        columns = {**ACRONYM_COLUMNS, "nll": "NLL"}
        rows: list[list[Cell]] = [
            [row.short_form, count(row.count), count(row.targets), *(score(getattr(row, c)) for c in columns)]
            for row in model.acronyms
        ]
        return Table(["Short form", "Examples", "Candidates", *columns.values()], rows)

    def means_of(self, model: ModelFindings) -> str:
        means = means_over_short_forms(model.acronyms)
        return ", ".join(f"{ACRONYM_COLUMNS[column]} {value:.2f}" for column, value in means.items())

    def shaded(self, matrix: ConfusionMatrix) -> dict[str, Any]:
        """A confusion matrix without the long forms that neither occur nor were predicted."""
        shown = np.flatnonzero(matrix.counts.sum(axis=0) + matrix.counts.sum(axis=1)).tolist()
        share = matrix.counts * _SHADES // np.maximum(matrix.counts.sum(axis=1, keepdims=True), 1)
        shade = np.where(matrix.counts > 0, 1 + np.minimum(_SHADES - 1, share), 0)
        return {
            "columns": {i + 1: matrix.long_forms[i] for i in shown},
            "rows": {
                f"{i + 1}. {matrix.long_forms[i]}": [
                    {"n": int(matrix.counts[i, j]), "shade": int(shade[i, j]), "is_right": i == j}
                    for j in shown
                ]
                for i in shown
            },
        }

    def n_wrong(self, model: ModelFindings) -> str:
        is_right = model.result.predictions.is_right
        return f"{(~is_right).sum():,} of {len(is_right):,} wrong"

    def mistakes(self, model: ModelFindings) -> list[Mistake]:
        return commonest_mistakes(model.result, limit=_N_MISTAKES)

    def excluded(self) -> Table:
        """Senses that could not be treated like the others."""
        columns = ["Short form", "Long form", "Reason", "Consequence", "Examples", "Models"]
        rows: list[list[Cell]] = [
            [
                *(e.short_form, e.long_form, e.reason, "ranked last, counts" if e.kept else "left out"),
                *(count(e.n_examples), "all" if len(names) == len(self.models) else ", ".join(names)),
            ]
            for e, names in self._models_by_exclusion()
        ]
        return Table(columns, rows[:_N_EXCLUSIONS])

    def n_more_excluded(self) -> int:
        return max(0, len(self._models_by_exclusion()) - _N_EXCLUSIONS)

    def _models_by_exclusion(self) -> list[tuple[Exclusion, list[str]]]:
        names_of: dict[Exclusion, list[str]] = {}
        for model in self.models:
            for exclusion in model.result.predictions.excluded:
                names_of.setdefault(exclusion, []).append(model.name)
        return sorted(names_of.items(), key=lambda item: (item[0].kept, -item[0].n_examples))

    def section_matching(self) -> Table:
        rows: list[list[Cell]] = [
            [m.name, how, count(n)] for m in self.models for how, n in m.result.section_mapping.items()
        ]
        return Table(["Model", "Match", "Examples"], rows)

    def leakage(self) -> Table:
        columns = ["Model", "Leaked notes", "Test notes", "Examples in them", "Not comparable"]
        rows: list[list[Cell]] = []
        for model in self.models:
            if (found := model.leakage) is not None:
                counts = (len(found.leaked), found.n_notes, found.n_examples, found.n_incomparable)
                rows.append([model.name, *map(count, (*counts, found.n_corpus_notes))])
        return Table([*columns, "Notes in the corpus"], rows)

    def leaked(self) -> str:
        ids = sorted({id_ for m in self.models if m.leakage is not None for id_ in m.leakage.leaked})
        end = ", …" if len(ids) > _N_LEAKED else "."
        return ", ".join(ids[:_N_LEAKED]) + end if ids else ""

    def unchecked(self) -> str:
        return ", ".join(model.name for model in self.models if model.leakage is None)

    def ablation(self) -> Table:
        """What it changed to pre-train on the test notes as well."""
        rows: list[list[Cell]] = []
        for model, (within, without) in self.findings.ablation.items():
            row: list[Cell] = [model]
            for metric in METRICS:
                a, b = getattr(within, metric), getattr(without, metric)
                row.append(Number(_signed(a - b), a - b, f"{a:.3f} with, {b:.3f} without"))
            rows.append(row)
        return Table(["Model", *METRICS.values()], rows)


def _published(found: Published | None) -> Cell:
    if found is None:
        return MISSING
    shown = ("–" if value is None else f"{value:.2f}" for value in (found.accuracy, found.macro_f1))
    return Number(" / ".join(shown), found.accuracy)


def _turned(c: Comparison) -> Comparison:
    """The same comparison as second minus first."""
    interval = replace(c.interval, estimate=-c.interval.estimate, low=-c.interval.high, high=-c.interval.low)
    return replace(c, first=c.second, second=c.first, difference=-c.difference, interval=interval)


def _difference(c: Comparison) -> Cell:
    p = "p < 0.001" if c.adjusted_p_value < 0.001 else f"p = {c.adjusted_p_value:.3f}"
    below = f"{_signed(c.interval.low)} to {_signed(c.interval.high)}, {p}"
    return Number(_signed(c.difference), c.difference, below, c.adjusted_p_value < 0.05)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
