"""The page's sections that show where models go wrong and what was left out."""

import numpy as np

from lmcells.evaluation.breakdown import ConfusionMatrix
from lmcells.evaluation.predictions import Exclusion
from lmcells.evaluation.report.findings import Findings
from lmcells.evaluation.report.html_table import Cell, count, folded, html_table, scrolling
from lmcells.evaluation.report.markup import Child, Markup, element, together
from lmcells.evaluation.report.mistakes import Mistake, commonest_mistakes
from lmcells.evaluation.report.scores import ablation

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
