"""Learn from unlabelled text what distinguishes a definition from chance: `LogOdds` of `lmcells.notes.definitions`.

python benchmarks/definition_weights.py      # needs LMCELLS_DATA; prints the log-odds, takes a minute

Each bracket that may hold a short form is aligned with the words before it, and with the words before an earlier
bracket of the same text, where letters match only by chance (later words may use the short form itself). Brackets are
a mixture: a share of definitions, which depends on the short form and its use, and a rest that matches by chance. With
x the steps of the best alignment, p(x | definition) / p(x | chance) = exp(w x). Weights and shares maximise the
likelihood of which words are a bracket's own (a small share of the earlier words also has the definition). Better
weights find better alignments: two rounds are enough.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from scipy.optimize import minimize

from lmcells.notes import definitions
from lmcells.notes.definitions import LogOdds
from locations import text_folder

Floats = npt.NDArray[np.float64]
PAPERS = "train/evidence_inference_pmc train/elife_medicine train2/elife_human train2/elife_biomed train2/plos_craft"
CASE_REPORTS = "train/e3c_english"
_ONE_IN = 8  # papers read
_EARLIER = 2  # brackets
_ROUNDS, _SHRINK = 2, 1.0
N_STEPS = LogOdds._fields.index("bracket")  # what follows is of the bracket


class Bracket(NamedTuple):
    """A bracket that may hold a short form, and the words before it."""

    short_form: str
    is_used: bool
    is_later: bool
    pieces: list[definitions.Piece]


class Traced(float):
    """A number that remembers how often each of the log odds was added to it."""

    counts: Floats

    @classmethod
    def of(cls, value: float, counts: Floats) -> Self:
        traced = cls(value)
        traced.counts = counts
        return traced

    def __add__(self, other: float) -> "Traced":
        counts = self.counts + other.counts if isinstance(other, Traced) else self.counts
        return Traced.of(float(self) + float(other), counts)

    def __mul__(self, factor: float) -> "Traced":
        return Traced.of(float(self) * factor, self.counts * factor)

    __radd__ = __add__


def read_brackets(folder: Path) -> Iterator[Bracket]:
    """Yield each short form's first bracket in each text."""
    for name, one_in in (*((paper, _ONE_IN) for paper in PAPERS.split()), (CASE_REPORTS, 1)):
        documents = pq.read_table(folder / f"{name}.parquet", columns=["sections"]).column("sections")
        for sections in documents.take(list(range(0, len(documents), one_in))).to_pylist():
            text = "\n\n".join(each["text"] for each in sections)
            brackets: dict[str, Bracket] = {}
            for match in definitions.BRACKET.finditer(text):
                for span, within, _ in islice(definitions.short_inside(text, match.span(1)), 1):
                    short_form = definitions.short_form_of(text[slice(*span)])
                    pieces = definitions.pieces_of(text, *within, from_start=False)
                    if short_form is not None and pieces:
                        brackets.setdefault(
                            short_form, Bracket(short_form, *definitions.use_of(text, *span), pieces)
                        )
            yield from brackets.values()


def rows(brackets: list[Bracket], values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the steps of each bracket with its own words and with earlier ones, and the bracket's traits."""
    n = len(values)
    definitions.LOG_ODDS = LogOdds(*(Traced.of(*pair) for pair in zip(values, np.eye(n), strict=True)))
    own, other = np.zeros((2, len(brackets), N_STEPS + 2))  # and: no alignment, constant
    own[:, -1] = other[:, -1] = 1
    traits = np.zeros((len(brackets), n - N_STEPS))
    for at, bracket in enumerate(brackets):
        prior = definitions.prior(
            bracket.short_form, is_used=bracket.is_used, is_later=bracket.is_later
        ).counts
        symbols = definitions.symbols_of(bracket.short_form)
        for table, pieces in ((own, bracket.pieces), (other, brackets[at - _EARLIER].pieces)):
            score, *_ = definitions.align(symbols, pieces, [len(pieces) - 1], from_start=False)
            if score > -np.inf:
                table[at, :N_STEPS] = score.counts[:N_STEPS]
            else:
                table[at, N_STEPS] = 1
        traits[at] = prior[N_STEPS:]
    return own, other, traits


def fit(own: Floats, other: Floats, traits: Floats) -> tuple[Floats, Floats, float]:
    """Return the log odds of the steps, those of the share of definitions, and the share among earlier words."""
    n, m = own.shape[1], traits.shape[1]

    def loss(values: Floats) -> tuple[float, Floats]:
        weights = values[:n]
        share, by_chance = 1 / (1 + np.exp(-traits @ values[n:-1])), 1 / (1 + np.exp(-values[-1]))
        gradient = np.zeros(len(values))
        gradient[: n - 1] = _SHRINK * weights[:-1]
        total = _SHRINK * float(weights[:-1] @ weights[:-1]) / 2
        for table, is_own in ((own, True), (other, False)):
            odds = np.exp(np.clip(table @ weights, -30, 30))
            p_own, p_other = share * odds + 1 - share, by_chance * odds + 1 - by_chance  # over p(x | chance)
            total -= float(np.log((p_own if is_own else p_other) / (p_own + p_other)).sum())
            of_own = is_own / p_own - 1 / (p_own + p_other)
            of_other = (not is_own) / p_other - 1 / (p_own + p_other)
            gradient[:n] -= table.T @ (odds * (of_own * share + of_other * by_chance))
            gradient[n:-1] -= traits.T @ (of_own * (odds - 1) * share * (1 - share))
            gradient[-1] -= (of_other * (odds - 1)).sum() * by_chance * (1 - by_chance)
        return total, gradient

    start = np.append(np.zeros(n + m), -4.0)
    values = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    return values[:n], values[n:-1], float(1 / (1 + np.exp(-values[-1])))


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    brackets = list(read_brackets(text_folder()))
    values = np.array(LogOdds())
    for _ in range(_ROUNDS):
        own, other, traits = rows(brackets, values)
        steps, shares, by_chance = fit(own, other, traits)
        values = np.concatenate([steps[:N_STEPS], shares])
        values[N_STEPS] += steps[-1]
    print(f"{len(brackets):,} brackets; {by_chance:.1%} of earlier words have the definition too")
    n_own, n_other = (np.concatenate([table.sum(0)[:N_STEPS], traits.sum(0)]) for table in (own, other))
    for name, value, n, n_by_chance in zip(LogOdds._fields, values, n_own, n_other, strict=True):
        print(f"{name:>16} {value:6.2f}   ({n:,.0f} times, {n_by_chance:,.0f} by chance)")


if __name__ == "__main__":
    main()
