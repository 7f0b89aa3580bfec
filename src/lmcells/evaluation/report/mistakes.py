"""The kinds of mistakes a model makes most, each with one example in its context."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from lmcells.evaluation.results import ModelResult

_AROUND = 160  # characters of context on each side


@dataclass(frozen=True)
class Mistake:
    """One long form taken for another, `n` times, and the time the model was surest of it."""

    short_form: str
    long_form: str
    taken_for: str
    n: int
    example_id: str
    note_id: str | None
    p_taken: float
    p_truth: float
    section: str | None
    window: tuple[str, str, str] | None = field(repr=False)  # before, short form, after: patient data


def commonest_mistakes(result: ModelResult, *, limit: int) -> list[Mistake]:
    """The most frequent confusions of one long form with another, most frequent first."""
    predictions = result.predictions
    rows_of: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in np.flatnonzero(~predictions.is_right):
        kind = (predictions.short_form_index[row], predictions.truth[row], predictions.predicted[row])
        rows_of[int(kind[0]), int(kind[1]), int(kind[2])].append(int(row))
    commonest = sorted(rows_of.items(), key=lambda item: (-len(item[1]), item[0]))[:limit]
    return [_mistake(result, kind, rows) for kind, rows in commonest]


def _mistake(result: ModelResult, kind: tuple[int, int, int], rows: list[int]) -> Mistake:
    predictions = result.predictions
    short_form, truth, taken = kind
    row = max(rows, key=lambda row: float(predictions.confidence[row]))
    id_ = predictions.ids[row]
    example = result.contexts.get(id_)
    return Mistake(
        short_form=predictions.short_forms[short_form],
        long_form=predictions.candidates[short_form][truth],
        taken_for=predictions.candidates[short_form][taken],
        n=len(rows),
        example_id=id_,
        note_id=predictions.note_ids[row],
        p_taken=float(predictions.confidence[row]),
        p_truth=float(np.exp(predictions.log_probability_of_truth[row])),
        section=None if example is None else example.section,
        window=None if example is None else window_around(example.text, example.start, example.end),
    )


def window_around(text: str, start: int, end: int) -> tuple[str, str, str]:
    """What stands before, at and after `[start, end)`: whole words, blanks as one, "…" where text was cut off."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    if start > _AROUND:
        before = "… " + before.partition(" ")[2]
    if end + _AROUND < len(text):
        after = after.rpartition(" ")[0] + " …"
    return _one_blank(before), text[start:end], _one_blank(after)


def _one_blank(text: str) -> str:
    """Newlines and runs of blanks become one blank; those at the ends stay."""
    inner = " ".join(text.split())
    if not inner:
        return " " if text else ""
    return " " * text[0].isspace() + inner + " " * text[-1].isspace()
