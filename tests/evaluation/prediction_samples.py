"""Predictions made up for tests of metrics."""

import numpy as np

from lmcells.evaluation.dataset import Example
from lmcells.evaluation.predictions import Predictions


def example(id_: str, short_form: str, long_form: str, note_id: str | None = None) -> Example:
    """An example without a text; it has a note of its own unless one is given."""
    return Example(id_, "", 0, 0, short_form, None, long_form, note_id or f"note of {id_}")


def predictions_from_answers(
    answers: list[tuple[str, int, int]],
    n_candidates: dict[str, int],
    *,
    model: str = "model",
    notes: list[str] | None = None,
) -> Predictions:
    """From (short form, true candidate, predicted candidate); the predicted one has twice the others' weight."""
    return Predictions.from_scores(
        model,
        examples=[
            example(f"e{i}", name, f"{name}-{truth}", notes[i] if notes else None)
            for i, (name, truth, _) in enumerate(answers)
        ],
        scores=[np.log(1 + (np.arange(n_candidates[name]) == predicted)) for name, _, predicted in answers],
        candidates_of={name: [f"{name}-{k}" for k in range(n)] for name, n in n_candidates.items()},
    )


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
    notes = None if n_notes is None else of_test.integers(n_notes, size=n)
    scores = np.random.default_rng([2, seed]).normal(size=(n, int(widths.max())))
    scores[np.arange(n), truth] += skill
    return Predictions.from_scores(
        model,
        examples=[
            example(f"e{i}", f"S{s}", f"S{s}-{t}", None if notes is None else f"n{notes[i]}")
            for i, (s, t) in enumerate(zip(short_form, truth, strict=True))
        ],
        scores=[row[:width] for row, width in zip(scores, widths[short_form], strict=True)],
        candidates_of={f"S{s}": [f"S{s}-{k}" for k in range(width)] for s, width in enumerate(widths)},
    )
