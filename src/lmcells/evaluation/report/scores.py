"""The page's sections that say how good the models are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lmcells.evaluation.metrics import LOWER_IS_BETTER
from lmcells.evaluation.rankers import ORACLE
from lmcells.evaluation.report.findings import (
    PRECISION,
    Findings,
    Published,
    Selection,
    means_over_short_forms,
)
from lmcells.evaluation.report.html_table import MISSING, Cell, Number, count, folded, html_table, score
from lmcells.evaluation.report.latex import ACRONYM_COLUMNS, show_hours
from lmcells.evaluation.report.markup import Markup, element, together
from lmcells.evaluation.report.tables import NAMES
from lmcells.evaluation.significance import Comparison


def headline(findings: Findings) -> Markup:
    """The first table: every model by the paper's metrics."""
    results = [model.result for model in findings.models]
    rivals = [result for result in results if result.model != ORACLE] or results
    best = {metric: _best(metric, [getattr(r.metrics, metric) for r in rivals]) for metric in NAMES}
    rows: list[list[Cell]] = []
    for result in results:
        cells: list[Cell] = [result.model]
        for metric in NAMES:
            value = getattr(result.metrics, metric)
            cells.append(
                score(value, result.intervals.get(metric), is_best=result in rivals and value == best[metric])
            )
        rows.append(cells)
    has_intervals = any(result.intervals for result in results)
    return together(
        [
            html_table(["Model", *NAMES.values()], rows, is_sortable=len(rows) > 1),
            element(
                "p",
                "Weighted F1 and NLL are over all examples, macro F1 is the mean over short forms of the mean over "
                "their long forms. Low NLL is good. ",
                "Small print: 95 % intervals (BCa bootstrap that draws whole notes). "
                if has_intervals
                else "There is no interval: it takes examples from at least two notes. ",
                f"The best value is bold; {ORACLE} knows the test set's most common senses and does not compete.",
                class_="soft",
            ),
        ]
    )


def paper_samples(findings: Findings) -> Markup:
    """The paper's own intervals, which are narrower."""
    rows: list[list[Cell]] = [
        [m.name, *(score(getattr(m.result.metrics, metric), m.paper[metric]) for metric in NAMES)]
        for m in findings.models
    ]
    return folded(
        "The paper's intervals: 100 samples of 80 % of the examples",
        html_table(["Model", *NAMES.values()], rows),
        element(
            "p",
            "Samples that share most of their examples vary about half as much as new test sets would. They are here "
            "to be compared with the paper's figure; quote the intervals above.",
            class_="soft",
        ),
    )


def seeds(findings: Findings) -> Markup:
    """Worst, mean and best over pre-training runs."""
    rows: list[list[Cell]] = []
    for name, summary in findings.seeds.items():
        cells: list[Cell] = [name, count(summary["nll"].n_seeds)]
        for metric in NAMES:
            s = summary[metric]
            spread = f"{s.worst:.3f} to {s.best:.3f}" if s.n_seeds > 1 else None
            cells.append(Number(f"{s.mean:.3f}", s.mean, spread))
        rows.append(cells)
    return together(
        [
            html_table(["Model", "Runs", *NAMES.values()], rows, is_sortable=len(rows) > 1),
            element("p", "Mean over pre-training runs; small print: worst to best.", class_="soft"),
        ]
    )


def significance(findings: Findings) -> Markup:
    """The leader against every other model, then every pair."""
    if findings.why_not_compared:
        return element("p", f"Models were not compared: {findings.why_not_compared}")
    leader = findings.leader.name
    pairs: dict[tuple[str, str], dict[str, Comparison]] = {}
    for comparison in findings.comparisons:
        c = _turned(comparison) if comparison.second == leader else comparison
        pairs.setdefault((c.first, c.second), {})[c.metric] = c
    of_leader = [_pair(pair, found) for pair, found in pairs.items() if pair[0] == leader]
    others = [_pair(pair, found) for pair, found in pairs.items() if pair[0] != leader]
    columns = ["Pair", *NAMES.values()]
    return together(
        [
            html_table(columns, of_leader, is_sortable=len(of_leader) > 1),
            element(
                "p",
                "First minus second on the same examples. Small print: 95 % interval (paired BCa bootstrap over notes) "
                "and p of a randomisation test that swaps the answers to whole notes, corrected by Holm for the number "
                "of pairs. Bold: p < 0.05.",
                class_="soft",
            ),
            folded("All other pairs", html_table(columns, others, is_sortable=True)) if others else None,
        ]
    )


def _pair(pair: tuple[str, str], found: Mapping[str, Comparison]) -> list[Cell]:
    cells: list[Cell] = [" − ".join(pair)]
    for metric in NAMES:
        c = found[metric]
        below = f"{_signed(c.interval.low)} to {_signed(c.interval.high)}, {_p(c.adjusted_p_value)}"
        cells.append(Number(_signed(c.difference), c.difference, below, c.adjusted_p_value < 0.05))
    return cells


def _turned(c: Comparison) -> Comparison:
    """The same comparison as second minus first."""
    interval = replace(c.interval, estimate=-c.interval.estimate, low=-c.interval.high, high=-c.interval.low)
    return replace(c, first=c.second, second=c.first, difference=-c.difference, interval=interval)


def acronyms(findings: Findings) -> Markup:
    """Macro F1 of all models side by side, then each model's full table."""
    by_model = [{row.short_form: row for row in model.acronyms} for model in findings.models]
    known = {short_form: row for rows in reversed(by_model) for short_form, row in rows.items()}
    rows: list[list[Cell]] = []
    for short_form in sorted(known):
        values = [r[short_form].macro_f1 if short_form in r else None for r in by_model]
        best = max(value for value in values if value is not None)
        cells: list[Cell] = [short_form, count(known[short_form].count), count(known[short_form].targets)]
        cells += [score(value, is_best=value == best and len(values) > 1) for value in values]
        rows.append(cells)
    parts = [
        html_table(
            ["Short form", "Examples", "Candidates", *(m.name for m in findings.models)],
            rows,
            is_sortable=True,
        ),
        element("p", "Macro F1 by short form. A click on a column's name sorts.", class_="soft"),
    ]
    for model in findings.models:
        own: list[list[Cell]] = [
            [
                row.short_form,
                count(row.count),
                count(row.targets),
                *(score(getattr(row, name)) for name in ACRONYM_COLUMNS),
                score(row.nll),
            ]
            for row in model.acronyms
        ]
        columns = ["Short form", "Examples", "Candidates", *ACRONYM_COLUMNS.values(), "NLL"]
        means = means_over_short_forms(model.acronyms, list(ACRONYM_COLUMNS))
        summary = ", ".join(f"{ACRONYM_COLUMNS[name]} {value:.2f}" for name, value in means.items())
        parts.append(
            folded(
                together([f"{model.name}: precision, recall and F1 ", element("small", f"means: {summary}")]),
                html_table(columns, own, is_sortable=True),
            )
        )
    parts.append(
        element("p", "m: macro, w: weighted; Pr: precision, R: recall. wR is the accuracy.", class_="soft")
    )
    return together(parts)


def calibration(findings: Findings) -> Markup:
    """Numbers beside the calibration figure."""
    rows: list[list[Cell]] = []
    for model in findings.models:
        c = model.calibration
        rows.append([model.name, score(c.error), score(c.auroc), Number(f"{c.coverage:.1%}", c.coverage)])
    return together(
        [
            html_table(
                [
                    "Model",
                    "Calibration error",
                    "AUROC of confidence",
                    f"Answered at {PRECISION:.0%} precision",
                ],
                rows,
                is_sortable=len(rows) > 1,
            ),
            element(
                "p",
                "Calibration error: mean distance of confidence and accuracy over 15 bins of equal size. AUROC: how "
                "well confidence tells right answers from wrong ones. Last column: the share of examples that one "
                f"threshold answers so that {PRECISION:.0%} of the answers are right.",
                class_="soft",
            ),
        ]
    )


def cost(findings: Findings) -> Markup:
    """What each model takes."""
    rows: list[list[Cell]] = [
        [
            m.name,
            count(m.result.n_parameters),
            MISSING if (hours := m.result.hours_to_peak) is None else Number(show_hours(hours), hours),
            Number(f"{m.result.seconds:.2f}", m.result.seconds),
        ]
        for m in findings.models
    ]
    return html_table(
        [
            "Model",
            "Parameters without embeddings",
            "Hours of pre-training to peak",
            "Seconds to score all examples",
        ],
        rows,
        is_sortable=len(rows) > 1,
    )


def _best(metric: str, values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return min(values) if metric in LOWER_IS_BETTER else max(values)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def ablation(findings: Findings) -> Iterable[Markup]:
    """What it changed that the test notes were pre-trained on."""
    if not findings.ablation:
        return
    rows: list[list[Cell]] = []
    for model, (within, without) in findings.ablation.items():
        cells: list[Cell] = [model]
        for metric in NAMES:
            a, b = getattr(within, metric), getattr(without, metric)
            cells.append(Number(_signed(a - b), a - b, f"{a:.3f} with, {b:.3f} without"))
        rows.append(cells)
    yield element("h3", "Test notes in and out of pre-training")
    yield html_table(["Model", *NAMES.values()], rows)


def selection(found: Selection) -> Markup:
    """Settings by their macro F1 where they were compared, and the metrics here."""
    rows: list[list[Cell]] = []
    for setting in found.settings:
        there = Number(f"{setting.macro_f1_there:.3f}", setting.macro_f1_there, is_best=setting.is_chosen)
        here = [score(None if setting.here is None else getattr(setting.here, metric)) for metric in NAMES]
        rows.append([setting.model, count(setting.n_seeds), there, *(here if _is_elsewhere(found) else ())])
    columns = ["Setting", "Runs", f"Macro F1 on {found.chosen_on}"]
    columns += [f"{title} here" for title in NAMES.values()] if _is_elsewhere(found) else []
    chosen = next((setting.model for setting in found.settings if setting.is_chosen), "none")
    told = (
        f"{chosen} was chosen on {found.chosen_on}, by the mean macro F1 of its runs, and not on this dataset."
        if _is_elsewhere(found)
        else f"{chosen} was chosen here. What this dataset says about it is flattered by the choice; read the others."
    )
    return together([html_table(columns, rows), element("p", told, class_="soft")])


def _is_elsewhere(found: Selection) -> bool:
    return any(setting.here is not None for setting in found.settings)


def published(findings: Findings) -> Markup:
    """Our means beside a paper's, which are of other data."""
    datasets = list(dict.fromkeys(each.dataset for each in findings.study.published))
    by_model: dict[str, dict[str, Published]] = {}
    for each in findings.study.published:
        by_model.setdefault(each.model, {})[each.dataset] = each
    rows: list[list[Cell]] = []
    for model in findings.models:
        theirs = by_model.get(model.name, {})
        cells: list[Cell] = [model.name, next((each.system for each in theirs.values()), "–")]
        cells += [score(findings.mean(model.name, metric)) for metric in ("accuracy", "macro_f1")]
        cells += [_accuracy_and_f1(theirs.get(dataset)) for dataset in datasets]
        rows.append(cells)
    columns = ["Model", "In the paper", "Accuracy here", "Macro F1 here", *datasets]
    return together(
        [
            html_table(columns, rows, is_sortable=len(rows) > 1),
            element(
                "p",
                "Means over pre-training runs; the paper's are accuracy / macro F1 on its own test sets, of other "
                "notes: compare the order of the models, not the numbers.",
                class_="soft",
            ),
        ]
    )


def _accuracy_and_f1(found: Published | None) -> Cell:
    if found is None:
        return MISSING
    shown = ("–" if value is None else f"{value:.2f}" for value in (found.accuracy, found.macro_f1))
    return Number(" / ".join(shown), found.accuracy)
