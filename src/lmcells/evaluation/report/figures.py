"""The report's figures, for a paper and for the page.

Imports matplotlib, so nothing imports this file before a report is written.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from lmcells.evaluation.report.findings import METRICS, Findings
from lmcells.figure_style import COLOURS, INK, LINES, MARKERS, PAGE_WIDTH, house_style, label


def draw_all(findings: Findings) -> dict[str, Figure]:
    """Draw every figure that has something to show, by its name."""
    drawings = [intervals, accuracy_at_k, number_of_candidates, calibration]
    drawings += [training_time] if findings.curves else []
    with house_style():
        return {draw.__name__: draw(findings) for draw in drawings}


def intervals(findings: Findings) -> Figure:
    """Each model's metrics with both intervals: bootstrap over notes, and the paper's samples."""
    n = len(findings.models)
    figure = Figure(figsize=(PAGE_WIDTH, 1.0 + 0.27 * n), layout="constrained")
    panels = figure.subplots(1, len(METRICS), sharey=True, squeeze=False)[0]
    for axes, (metric, title) in zip(panels, METRICS.items(), strict=True):
        for row, model in enumerate(findings.models):
            colour = COLOURS[row % len(COLOURS)]
            value, paper = getattr(model.result.metrics, metric), model.paper[metric]
            if (whole := model.result.intervals.get(metric)) is not None:
                axes.plot([whole.low, whole.high], [row, row], color=colour, linewidth=1.2)
            axes.plot([paper.low, paper.high], [row, row], color=colour, linewidth=4.5, alpha=0.45)
            axes.plot([value], [row], "o", color=colour, markersize=4.5)
        axes.set_title(title + (" (lower is better)" if metric == "nll" else ""))
        axes.grid(visible=False, axis="y")
        axes.locator_params(axis="x", nbins=4)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(n), [label(findings.shown(model.name)) for model in findings.models])
    panels[0].set_ylim(n - 0.5, -0.5)  # the first on top
    return figure


def accuracy_at_k(findings: Findings) -> Figure:
    """Share of examples whose true long form is among the first k."""
    figure, (axes,) = _panels(1, width=0.75 * PAGE_WIDTH)
    for number, model in enumerate(findings.models):
        at_k = model.result.metrics.accuracy_at_k
        _line(axes, number, findings.shown(model.name), list(at_k), list(at_k.values()))
    ks = sorted({k for model in findings.models for k in model.result.metrics.accuracy_at_k})
    axes.set_xticks(ks)
    axes.set(xlabel="K", ylabel="Accuracy@K")
    axes.set_ylim(top=1.02)
    _legend(figure, axes)
    return figure


def number_of_candidates(findings: Findings) -> Figure:
    figure, panels = _panels(2, sharey=True)
    widths = sorted({row["n_candidates"] for model in findings.models for row in model.by_candidates})
    for axes, metric in zip(panels, ("macro_f1", "mean_weighted_f1"), strict=True):
        for number, model in enumerate(findings.models):
            rows = model.by_candidates
            xs = [row["n_candidates"] for row in rows]
            _line(axes, number, findings.shown(model.name), xs, [row[metric] for row in rows])
        axes.set(xlabel="Candidate long forms", title=METRICS[metric], ylim=(0, 1.02))
        axes.set_xticks(widths)
    _legend(figure, panels[0])
    return figure


def calibration(findings: Findings) -> Figure:
    """Reliability diagram, and accuracy when only the most confident answers are given."""
    figure, (reliability, coverage) = _panels(2)
    reliability.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for number, model in enumerate(findings.models):
        name, curve = findings.shown(model.name), model.coverage_curve
        confidence, right, _ = zip(*model.reliability, strict=True)
        _line(reliability, number, name, confidence, right)
        step = max(1, len(curve.coverage) // 400)  # more points than pixels only make the file large
        shown = [*range(0, len(curve.coverage) - 1, step), len(curve.coverage) - 1]
        _line(coverage, number, name, curve.coverage[shown], curve.accuracy[shown], marker="")
    reliability.set(xlabel="Confidence", ylabel="Accuracy", title="Reliability", ylim=(0, 1.02))
    coverage.set(xlabel="Share answered, surest first", ylabel="Accuracy of those", title="Coverage")
    for axes in (reliability, coverage):
        axes.set_xlim(0, 1.02)
    coverage.set_ylim(top=1.02)
    _legend(figure, reliability)
    return figure


def training_time(findings: Findings) -> Figure:
    """Accuracy at successive checkpoints of pre-training; in minutes if all runs took less than an hour."""
    figure, (axes,) = _panels(1, width=0.75 * PAGE_WIDTH)
    order = [model.name for model in findings.models]
    order += [name for name in findings.curves if name not in order]
    longest = max(hours for curve in findings.curves.values() for hours, _ in curve)
    unit, scale = ("Hours", 1) if longest >= 1 else ("Minutes", 60)
    for name, curve in findings.curves.items():
        times, accuracies = [scale * hours for hours, _ in curve], [right for _, right in curve]
        _line(axes, order.index(name), findings.shown(name), times, accuracies)
    axes.set(xlabel=f"{unit} of pre-training", ylabel="Accuracy")
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=6)
    _legend(figure, axes)
    return figure


def _panels(n: int, *, width: float = PAGE_WIDTH, sharey: bool = False) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(width, 3.1), layout="constrained")
    return figure, list(figure.subplots(1, n, sharey=sharey, squeeze=False)[0])


def _line(
    axes: Axes, number: int, name: str, xs: ArrayLike, ys: ArrayLike, *, marker: str | None = None
) -> None:
    axes.plot(
        xs,
        ys,
        color=COLOURS[number % len(COLOURS)],
        linestyle=LINES[number // len(COLOURS) % len(LINES)],
        marker=MARKERS[number % len(MARKERS)] if marker is None else marker,
        label=label(name),
    )


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
