"""Predictions made up for tests of metrics."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.evaluation.predictions import Predictions


@dataclass(frozen=True)
class Example:
    id: str
    short_form: str
    long_form: str
    note_id: str | None = None


def predictions_from_answers(
    answers: list[tuple[str, int, int]],
    n_candidates: dict[str, int],
    *,
    model: str = "model",
    notes: list[str] | None = None,
) -> Predictions:
    """From (short form, true candidate, predicted candidate); the predicted one has twice the others' weight."""
    widest = max(n_candidates.values())
    scores = np.zeros((len(answers), widest))
    for row, (_, _, predicted) in zip(scores, answers, strict=True):
        row[predicted] = np.log(2)
    examples = [
        Example(f"e{i}", short_form, f"{short_form}-{truth}", notes[i] if notes else None)
        for i, (short_form, truth, _) in enumerate(answers)
    ]
    candidates_of = {name: [f"{name}-{k}" for k in range(n)] for name, n in n_candidates.items()}
    return Predictions.from_scores(model, examples=examples, scores=scores, candidates_of=candidates_of)


def random_predictions(
    seed: int,
    *,
    n: int = 60,
    n_short_forms: int = 4,
    skill: float = 1.0,
    n_notes: int | None = None,
    model: str = "model",
    test_set: int | None = None,
) -> Predictions:
    """Random truths, and scores that favour the truth by `skill`; predictions of one `test_set` share the truths."""
    of_test = np.random.default_rng(seed if test_set is None else [1, test_set])
    widths = of_test.integers(2, 6, size=n_short_forms)
    short_form = of_test.integers(n_short_forms, size=n)
    truth = (of_test.random(n) ** 2 * widths[short_form]).astype(int)
    notes: npt.NDArray[np.int64] | None = None if n_notes is None else of_test.integers(n_notes, size=n)
    scores = np.random.default_rng([2, seed]).normal(size=(n, int(widths.max())))
    scores[np.arange(n), truth] += skill
    examples = [
        Example(f"e{i}", f"S{s}", f"S{s}-{t}", None if notes is None else f"n{notes[i]}")
        for i, (s, t) in enumerate(zip(short_form, truth, strict=True))
    ]
    candidates_of = {f"S{s}": [f"S{s}-{k}" for k in range(width)] for s, width in enumerate(widths)}
    return Predictions.from_scores(model, examples=examples, scores=scores, candidates_of=candidates_of)
