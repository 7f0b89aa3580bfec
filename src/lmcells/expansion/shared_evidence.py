"""Mentions of one short form in one note share what they know: it nearly always means the same there.

With s_i the scores of a mention's candidates and s_j those of the other mentions of the same short form in the note:

    s_i + share mean_j max(s_j - max s_j, -most)

So what the others like best gains nothing and the rest loses, and a mention that stands alone is left as it is. How
well a sense fits at all is not to be read from these: only which one does.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from lmcells.expansion.long_forms import Floats
from lmcells.expansion.note_reader import Occurrence

SHARE = 0.35  # of what the others say: measured by benchmarks/mentions_together.py
MOST = 8.0  # that another mention can say against a candidate


def share_within_notes(notes: Iterable[Sequence[Occurrence]], scores: Sequence[Floats]) -> list[Floats]:
    """Adjust the scores of the mentions of each note; there is one array for each place that has a mention."""
    adjusted = list(scores)
    at = 0
    for note in notes:
        rows_of: dict[str, list[int]] = {}
        for place in note:
            if place.mention is not None:
                rows_of.setdefault(place.short_form, []).append(at)
                at += 1
        for rows in rows_of.values():
            if len(rows) > 1 and len(scores[rows[0]]) > 1:
                for row, shared in zip(rows, share([scores[row] for row in rows]), strict=True):
                    adjusted[row] = shared
    return adjusted


def share(scores: Sequence[Floats], *, weight: float = SHARE) -> Floats:
    """Adjust the scores of mentions of one short form that stand in one note: (n, K) -> (n, K)."""
    given = np.asarray(scores, np.float64)
    best = given.max(axis=1, keepdims=True)
    is_known = np.isfinite(best)  # (n, 1) whether the mention says anything
    says = np.where(is_known, np.maximum(given - np.where(is_known, best, 0.0), -MOST), 0.0)
    others = (says.sum(axis=0) - says) / max(1, len(given) - 1)
    adjusted: Floats = given + weight * others
    return adjusted
