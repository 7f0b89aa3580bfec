"""The results of an evaluation on a terminal."""

from collections.abc import Sequence
from pathlib import Path

from lmcells.evaluation.evaluate import Leakage, ModelResult

_WITH_INTERVAL = (("accuracy", "accuracy"), ("weighted F1", "weighted_f1"), ("macro F1", "macro_f1"))
_SHOWN_K = (2, 3)
_SHOWN_LEAKED = 5


def print_results(results: Sequence[ModelResult], *, dataset: Path) -> None:
    """Print a line a model, then what was left out, how headers were mapped, and leakage."""
    first = results[0].metrics
    print(f"{dataset}: {first.n:,} examples, {first.n_short_forms} short forms; 95 % intervals, by note")
    print_columns([_HEADER, *map(_row, results)])
    said: dict[str, list[str]] = {}
    for result in results:
        for note in notes_about(result):
            said.setdefault(note, []).append(result.model)
    for note, models in said.items():
        print(note if len(models) == len(results) else f"{', '.join(models)}: {note}")


_HEADER = (
    "model",
    *(title for title, _ in _WITH_INTERVAL),
    "NLL",
    *(f"acc@{k}" for k in _SHOWN_K),
    "parameters",
    "seconds",
)


def _row(result: ModelResult) -> tuple[str, ...]:
    metrics = result.metrics
    return (
        result.model,
        *(_with_interval(result, name) for _, name in _WITH_INTERVAL),
        f"{metrics.nll:.3f}",
        *(f"{metrics.accuracy_at_k[k]:.3f}" for k in _SHOWN_K),
        "-" if result.n_parameters is None else f"{result.n_parameters:,}",
        f"{result.seconds:.1f}",
    )


def _with_interval(result: ModelResult, name: str) -> str:
    value = f"{getattr(result.metrics, name):.3f}"
    interval = result.intervals.get(name)
    return value if interval is None else f"{value} [{interval.low:.3f}, {interval.high:.3f}]"


def notes_about(result: ModelResult) -> list[str]:
    """What a reader must know beside the numbers."""
    notes = []
    left_out = [exclusion for exclusion in result.predictions.excluded if not exclusion.kept]
    for reason in sorted({exclusion.reason for exclusion in left_out}):
        here = [exclusion for exclusion in left_out if exclusion.reason == reason]
        notes.append(
            f"left out, {reason}: {len(here)} senses, {sum(exclusion.n_examples for exclusion in here):,} examples"
        )
    last = [exclusion for exclusion in result.predictions.excluded if exclusion.kept]
    if last:
        notes.append(
            f"scored last, {last[0].reason}: {len(last)} senses, "
            f"{sum(exclusion.n_examples for exclusion in last):,} examples"
        )
    if result.section_mapping:
        counts = ", ".join(f"{how} {n:,}" for how, n in sorted(result.section_mapping.items()))
        notes.append(f"section headers, by example: {counts}")
    if result.leakage is not None:
        notes.append(_leakage_note(result.leakage))
    return notes


def _leakage_note(leakage: Leakage) -> str:
    of_other_form = (
        f" ({leakage.n_incomparable:,} have ids of a form that the corpus does not have)"
        if leakage.n_incomparable
        else ""
    )
    if not leakage.leaked:
        return f"leakage: none of {leakage.n_notes:,} test notes is in the corpus{of_other_form}"
    shown = ", ".join(leakage.leaked[:_SHOWN_LEAKED]) + (
        ", ..." if len(leakage.leaked) > _SHOWN_LEAKED else ""
    )
    return (
        f"LEAKAGE: {len(leakage.leaked):,} of {leakage.n_notes:,} test notes, with {leakage.n_examples:,} examples, "
        f"are in the corpus: {shown}{of_other_form}"
    )


def print_columns(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> None:
    """Print rows of text, the columns `left` to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            value.ljust(width) if place in left else value.rjust(width)
            for place, (value, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(["", *cells]).rstrip())
