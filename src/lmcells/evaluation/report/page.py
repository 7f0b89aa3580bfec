"""One HTML page that needs nothing else: no network, no other file, and a policy that forbids both."""

import base64
import hashlib
import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np

from lmcells.evaluation.breakdown import ConfusionMatrix
from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.metrics import LOWER_IS_BETTER
from lmcells.evaluation.predictions import Exclusion
from lmcells.evaluation.rankers import ORACLE
from lmcells.evaluation.report.findings import (
    PRECISION,
    Findings,
    Mistake,
    Published,
    Selection,
    commonest_mistakes,
    means_over_short_forms,
)
from lmcells.evaluation.report.latex import ACRONYM_COLUMNS, show_hours
from lmcells.evaluation.report.tables import NAMES
from lmcells.evaluation.significance import Comparison

# HTML elements whose text is escaped unless it is known to be markup.


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Markup:
    """One element. `class_` and `aria_sort` are written as `class` and `aria-sort`; a None is left out."""
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    return Markup(f"<{tag}{written}>{together(children)}</{tag}>")


def together(children: Iterable[Child]) -> Markup:
    """Children one after the other; what is not markup is escaped."""
    return Markup("".join(map(_escaped, children)))


def _escaped(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else html.escape(child)


def _attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(value)}"'


# Tables of the page: text to the left, numbers to the right, columns that a click sorts.


@dataclass(frozen=True)
class Number:
    """A number as shown, and as it sorts; `below` is a line in small print."""

    shown: str
    value: float | None  # None is the smallest
    below: str | None = None
    is_best: bool = False


Cell = Number | str
MISSING = Number("–", None)


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, is_sortable: bool = False
) -> Markup:
    """A table that scrolls sideways on a narrow screen; the first cell of a row is its heading."""
    body = list(rows)
    is_number = [
        any(isinstance(row[index], Number) for row in body if len(row) > index)
        for index in range(len(columns))
    ]
    head = [
        element(
            "th",
            element("button", column, type="button") if is_sortable and column else column,
            scope="col",
            class_="number" if number else None,
            aria_sort="none" if is_sortable and column else None,
        )
        for column, number in zip(columns, is_number, strict=True)
    ]
    lines = [
        element("tr", *(_cell(cell, is_heading=not index) for index, cell in enumerate(row))) for row in body
    ]
    table = element(
        "table", element("thead", element("tr", *head)), element("tbody", *lines), class_="sticky"
    )
    return scrolling(table)


def scrolling(content: Markup) -> Markup:
    """Wide content in a box of its own, which the keyboard can reach."""
    return element("div", content, class_="scroll", tabindex="0")


def score(value: float | None, interval: Interval | None = None, *, is_best: bool = False) -> Cell:
    """A metric with three decimals and its interval."""
    if value is None:
        return MISSING
    below = None if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"
    return Number(f"{value:.3f}", value, below, is_best)


def count(value: int | None) -> Cell:
    """A whole number, in groups of three."""
    return MISSING if value is None else Number(f"{value:,}", value)


def folded(title: Child, *content: Child, is_open: bool = False) -> Markup:
    """Content behind its title."""
    return element("details", element("summary", title), together(content), open=is_open)


def _cell(cell: Cell, *, is_heading: bool) -> Markup:
    if isinstance(cell, Number):
        return element(
            "td",
            cell.shown,
            element("small", cell.below) if cell.below else None,
            class_="number best" if cell.is_best else "number",
            data_value="-Infinity" if cell.value is None else repr(float(cell.value)),
        )
    return element("th", cell, scope="row") if is_heading else element("td", cell)


# A matplotlib SVG as part of a page whose policy allows no inline styles.
#
# `style="fill: #000"` becomes the attribute `fill="#000"`, which the page's style sheet may override for a dark screen;
# ids get the figure's name before them, since a page has many figures.


_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = {f"{_SVG}metadata", f"{_SVG}style"}
_FONT = re.compile(r"(?:(?P<weight>\d+|bold) )?(?P<size>[\d.]+px) (?P<family>.+)")
_URL = re.compile(r"url\(#([^)]+)\)")


def inline_svg(source: str, *, name: str, description: str) -> str:
    """Return an `<svg>` element that can stand in an HTML page, labelled with what it shows."""
    root = ET.fromstring(source)
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
    used = {reference for element in root.iter() for reference in _references(element)}
    for element in root.iter():
        _rewrite(element, name=name, used=used)
        element.tag = element.tag.removeprefix(_SVG)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-label", description)
    return ET.tostring(root, encoding="unicode")


def _references(element: ET.Element) -> list[str]:
    found = [match for value in element.attrib.values() for match in _URL.findall(value)]
    if _HREF in element.attrib:
        found.append(element.attrib[_HREF].removeprefix("#"))
    return found


def _rewrite(element: ET.Element, *, name: str, used: set[str]) -> None:
    for declaration in element.attrib.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":
            _set_font(element, value)
        elif key:
            element.set(key, value)
    if (id_ := element.attrib.pop("id", None)) in used:
        element.set("id", f"{name}-{id_}")
    if _HREF in element.attrib:
        element.set("href", f"#{name}-{element.attrib.pop(_HREF).removeprefix('#')}")
    for key, value in element.attrib.items():
        element.set(key, _URL.sub(rf"url(#{name}-\1)", value))


def _set_font(element: ET.Element, shorthand: str) -> None:
    """The family is the page's; only size and weight are kept."""
    if match := _FONT.fullmatch(shorthand):
        element.set("font-size", match["size"])
        if match["weight"]:
            element.set("font-weight", match["weight"])


# The page's sections that say how good the models are.


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


# The page's sections that show where models go wrong and what was left out.


_N_MISTAKES = 15
_N_EXCLUSIONS = 200
_N_LEAKED = 20
_SHADES = 5


def confusions(findings: Findings) -> Markup:
    """The worst short forms of every model; the leader's are open."""
    parts: list[Child] = []
    for model in findings.leader_first:
        if model.confusions:
            names = ", ".join(matrix.short_form for matrix in model.confusions)
            title = together([f"{model.name} ", element("small", names)])
            content = element("div", *map(_matrix, model.confusions), class_="matrices")
            parts.append(folded(title, content, is_open=model is findings.leader))
        else:
            parts.append(element("p", f"{model.name} made no mistake."))
    return together(parts)


def _matrix(matrix: ConfusionMatrix) -> Markup:
    """Rows are true, columns predicted; a long form that neither occurs nor was predicted is left out."""
    shown = np.flatnonzero(matrix.counts.sum(axis=0) + matrix.counts.sum(axis=1))
    head = [
        element("th", "true ↓   predicted →", scope="col"),
        *(element("th", str(i + 1), scope="col", title=matrix.long_forms[i]) for i in shown),
    ]
    rows = []
    for i in shown:
        total = int(matrix.counts[i].sum())
        cells = [element("th", f"{i + 1}. {matrix.long_forms[i]}", scope="row")]
        for j in shown:
            n = int(matrix.counts[i, j])
            shade = 0 if not n else 1 + min(_SHADES - 1, n * _SHADES // total)
            cells.append(
                element("td", str(n) if n else "·", class_=f"h{shade}" + (" right" if i == j else ""))
            )
        rows.append(element("tr", *cells))
    table = element("table", element("thead", element("tr", *head)), element("tbody", *rows), class_="matrix")
    return element("div", element("h3", matrix.short_form), scrolling(table))


def mistakes(findings: Findings) -> Markup:
    """The commonest mistakes, each with the note's text around it."""
    parts: list[Child] = [
        element(
            "p",
            "Each entry is one long form taken for another: how often, and the example of which the model was surest. "
            "In brackets: its probabilities. "
            "All errors are listed, without text, in ",
            element("code", "tables/errors.csv"),
            ".",
        )
    ]
    for model in findings.leader_first:
        found = commonest_mistakes(model.result, limit=_N_MISTAKES)
        n_wrong = int((~model.result.predictions.is_right).sum())
        told = element("small", f"{n_wrong:,} of {len(model.result.predictions):,} wrong")
        entries = map(_mistake, found) if found else [element("p", "No mistake.")]
        parts.append(folded(together([f"{model.name} ", told]), *entries, is_open=model is findings.leader))
    return together(parts)


def _mistake(mistake: Mistake) -> Markup:
    times = "once" if mistake.n == 1 else f"{mistake.n:,} times"
    where = [f"example {mistake.example_id}"]
    if mistake.note_id is not None:
        where.append(f"note {mistake.note_id}")
    where.append(f"section {mistake.section}" if mistake.section else "no section")
    if mistake.window is None:
        quote = element("p", "Its text was not kept.", class_="soft")
    else:
        before, short_form, after = mistake.window
        quote = element("blockquote", before, element("mark", short_form), after)
    return element(
        "div",
        element(
            "p",
            element("strong", mistake.short_form),
            f": {mistake.long_form} ({mistake.p_truth:.2f}) was taken for ",
            element("strong", mistake.taken_for),
            f" ({mistake.p_taken:.2f}), {times}",
        ),
        quote,
        element("p", element("small", " · ".join(where))),
        class_="mistake",
    )


def excluded(findings: Findings) -> Markup:
    """Senses that could not be treated like the others."""
    models_of: dict[Exclusion, list[str]] = {}
    for model in findings.models:
        for exclusion in model.result.predictions.excluded:
            models_of.setdefault(exclusion, []).append(model.name)
    if not models_of:
        return together(
            [
                element("p", "Nothing: every example counts, and every candidate was scored."),
                _sections(findings),
            ]
        )
    rows: list[list[Cell]] = [
        [
            e.short_form,
            e.long_form,
            e.reason,
            "ranked last, counts" if e.kept else "left out",
            count(e.n_examples),
            "all" if len(names) == len(findings.models) else ", ".join(names),
        ]
        for e, names in sorted(models_of.items(), key=lambda item: (item[0].kept, -item[0].n_examples))
    ]
    columns = ["Short form", "Long form", "Reason", "Consequence", "Examples", "Models"]
    more = len(rows) - _N_EXCLUSIONS
    return together(
        [
            html_table(columns, rows[:_N_EXCLUSIONS], is_sortable=True),
            element("p", f"And {more:,} more, in tables/excluded.csv.") if more > 0 else None,
            _sections(findings),
        ]
    )


def _sections(findings: Findings) -> Markup | None:
    """How the dataset's section headers were matched with the model's."""
    rows: list[list[Cell]] = [
        [model.name, how, count(n)]
        for model in findings.models
        for how, n in model.result.section_mapping.items()
    ]
    if not rows:
        return None
    return together(
        [
            element("h3", "How section headers were matched"),
            html_table(["Model", "Match", "Examples"], rows),
        ]
    )


def leakage(findings: Findings) -> Markup:
    """Whether test notes were in the pre-training corpus."""
    checked = [(model.name, model.leakage) for model in findings.models if model.leakage is not None]
    parts: list[Child] = []
    if not checked:
        parts.append(element("p", "Not checked: there was no corpus to compare the notes with."))
    else:
        rows: list[list[Cell]] = [
            [
                name,
                count(len(found.leaked)),
                count(found.n_notes),
                count(found.n_examples),
                count(found.n_incomparable),
                count(found.n_corpus_notes),
            ]
            for name, found in checked
        ]
        columns = [
            "Model",
            "Leaked notes",
            "Test notes",
            "Examples in them",
            "Not comparable",
            "Notes in the corpus",
        ]
        parts.append(html_table(columns, rows))
        ids = sorted({id_ for _, found in checked for id_ in found.leaked})
        if ids:
            dots = ", …" if len(ids) > _N_LEAKED else "."
            parts.append(element("p", "Leaked: ", ", ".join(ids[:_N_LEAKED]), dots))
        else:
            parts.append(element("p", "No test note was found in the pre-training corpus."))
        unchecked = [model.name for model in findings.models if model.leakage is None]
        if unchecked:
            parts.append(element("p", f"Not checked: {', '.join(unchecked)}."))
    return together([*parts, *ablation(findings)])


# One HTML page that needs nothing else: no network, no other file, and a policy that forbids both.


_CAPTIONS = {
    "intervals": "Dot: all examples. Thin line: 95 % interval, BCa bootstrap over notes. Thick line: the paper's 100 "
    "samples of 80 %.",
    "accuracy_at_k": "Share of examples whose true long form is among the K most probable.",
    "number_of_candidates": "F1 of short forms by the number of their candidate long forms.",
    "calibration": "Left: how often answers are right, by how sure the model was; on the dotted line, probabilities "
    "mean what they say. Right: accuracy when only the surest answers are given.",
    "training_time": "Accuracy at successive checkpoints of pre-training.",
}
_NARROW = frozenset({"accuracy_at_k", "training_time"})


def page(findings: Findings, figures: Mapping[str, str]) -> str:
    """The report; `figures` are SVG documents by name."""
    drawn = {name: _figure(name, source) for name, source in figures.items()}
    first = [headline(findings), drawn["intervals"], paper_samples(findings)]
    sections = [("results", "Results", together(first))]
    if findings.seeds:
        sections.append(("runs", "Pre-training runs", seeds(findings)))
    if findings.study.published:
        sections.append(("paper", "Beside the paper", published(findings)))
    if findings.study.selection is not None:
        sections.append(("selection", "Choice of settings", selection(findings.study.selection)))
    sections += [
        ("significance", "Is one better than another?", significance(findings)),
        ("at-k", "Accuracy@K", drawn["accuracy_at_k"]),
        ("candidates", "Number of candidates", drawn["number_of_candidates"]),
        ("calibration", "Calibration", together([drawn["calibration"], calibration(findings)])),
        ("cost", "Cost", together([cost(findings), drawn.get("training_time")])),
        ("acronyms", "By short form", acronyms(findings)),
        ("confusions", "Confusions", together([_about_confusions(), confusions(findings)])),
        ("errors", "Errors in context", mistakes(findings)),
        ("excluded", "What was excluded", excluded(findings)),
        ("leakage", "Leakage", leakage(findings)),
    ]
    links = [element("li", element("a", title, href=f"#{id_}")) for id_, title, _ in sections]
    metrics = findings.models[0].result.metrics
    main = [
        element("h1", f"Acronym expansion: {findings.dataset_name}"),
        element(
            "p",
            f"{metrics.n:,} examples of {metrics.n_short_forms:,} short forms, {len(findings.models)} "
            f"model{'s' if len(findings.models) > 1 else ''}. Best macro F1: {findings.leader.name} "
            f"({findings.mean(findings.leader.name, 'macro_f1'):.3f}).",
        ),
        *(element("p", remark) for remark in findings.study.remarks),
        element(
            "p",
            "This page quotes notes (“Errors in context”) and names them: keep it where the notes are kept. The tables "
            "name examples and notes but quote none. Not for clinical decisions.",
            class_="privacy",
        ),
        element("nav", element("ul", *links), aria_label="Sections"),
        *(element("section", element("h2", title), content, id=id_) for id_, title, content in sections),
    ]
    return document(f"{findings.dataset_name}: lmcells report", element("main", *main))


def _about_confusions() -> Markup:
    return element(
        "p",
        "The short forms with the lowest macro F1. Shades are shares of a row; boxed cells are right answers.",
        class_="soft",
    )


def _figure(name: str, source: str) -> Markup:
    caption = _CAPTIONS[name]
    return element(
        "figure",
        element(
            "div", Markup(inline_svg(source, name=name, description=caption)), class_="scroll", tabindex="0"
        ),
        element("figcaption", caption),
        class_="narrow" if name in _NARROW else None,
    )


def document(title: str, body: Child) -> str:
    """A page with our style and the script that sorts tables, which may fetch nothing."""
    style, script = (_part(name) for name in ("style.css", "sort.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = "\n".join(
        [
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            element("title", title),
            f"<style>{style}</style>",
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{together([body])}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """A part of the page as its policy allows it."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
