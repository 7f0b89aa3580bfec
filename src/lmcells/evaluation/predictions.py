"""The probabilities of one model on every example of one dataset: the input of metrics, tests and reports."""

import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.errors import FormatError, InputError, ModelError
from lmcells.evaluation.dataset import Example
from lmcells.expansion.inventory import SenseInventory
from lmcells.files import atomic_write, read_json, write_json

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

UNKNOWN_SHORT_FORM = "short form is not in the inventory"
UNKNOWN_LONG_FORM = "long form is not a candidate of its short form"
NO_SCORE = "no known word"

_VERSION = 2


def candidates_of(inventory: SenseInventory) -> dict[str, list[str]]:
    """The long forms of each short form, in the inventory's order."""
    senses_of = inventory.by_short_form.items()
    return {short_form: [sense.long_form for sense in senses] for short_form, senses in senses_of}


@dataclass(frozen=True)
class Exclusion:
    """A sense that was excluded or could not be scored, why, and how many examples have it as their label.

    With `kept`, the long form has no score: it is ranked last, and its examples count. Otherwise no model can be
    evaluated on its examples, and they do not count.
    """

    short_form: str
    long_form: str
    reason: str
    n_examples: int
    kept: bool


@dataclass(frozen=True, eq=False)
class Predictions:
    """The probabilities that one model gave to the candidates of every example.

    Example `i` has the candidates `candidates[short_form_index[i]]`; further columns of its row in `log_probabilities`
    are -inf. Short forms are sorted, and each has an example.
    """

    model: str
    ids: tuple[str, ...]
    note_ids: tuple[str, ...]
    short_forms: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    short_form_index: Integers  # (n,)
    truth: Integers  # (n,), a position in the example's candidates
    log_probabilities: Floats  # (n, most candidates)
    excluded: tuple[Exclusion, ...] = field(default=())

    def __post_init__(self) -> None:
        columns = self.ids, self.note_ids, self.short_form_index, self.truth, self.log_probabilities
        if len(lengths := {len(column) for column in columns}) > 1:
            raise ValueError(f"an example has one row in each column; found {sorted(lengths)} rows")
        if len(set(self.ids)) != len(self.ids):
            repeated, times = Counter(self.ids).most_common(1)[0]
            raise InputError(f"Example ids must be unique; {repeated!r} occurs {times} times.")
        if not np.allclose(np.exp(self.log_probabilities).sum(axis=1, where=self.is_candidate), 1, atol=1e-6):
            raise ValueError("each example's probabilities must sum to 1 over its own candidates")

    @classmethod
    def from_scores(
        cls,
        model: str,
        *,
        examples: Sequence[Example],
        scores: Iterable[npt.ArrayLike],
        candidates_of: Mapping[str, Sequence[str]],
    ) -> "Predictions":
        """p = softmax(score) over each example's candidates, which are `candidates_of[short_form]`, in order.

        A score of -inf means that the long form could not be scored (it has no known word): it gets the probability of
        the lowest one that could be, is ranked after it, and is reported in `excluded`. (`Expander` gives it 0, but
        here it may be the label, and its NLL must be finite.) Examples whose sense is not in the inventory are left
        out and reported as well.
        """
        senses = [(example.short_form, example.long_form) for example in examples]
        n_examples = Counter(senses)
        left_out = {
            sense: UNKNOWN_LONG_FORM if sense[0] in candidates_of else UNKNOWN_SHORT_FORM
            for sense in n_examples
            if sense[1] not in candidates_of.get(sense[0], ())
        }
        rows = zip(examples, scores, senses, strict=True)
        kept = [(example, row) for example, row, sense in rows if sense not in left_out]
        short_forms = tuple(sorted({example.short_form for example, _ in kept}))
        candidates = tuple(tuple(candidates_of[short_form]) for short_form in short_forms)
        index_of = {short_form: index for index, short_form in enumerate(short_forms)}
        short_form_index = np.array([index_of[example.short_form] for example, _ in kept], dtype=np.int64)
        truth = [candidates[index_of[example.short_form]].index(example.long_form) for example, _ in kept]

        is_candidate = _is_candidate(candidates, short_form_index)
        matrix = np.full(is_candidate.shape, -np.inf)
        for into, mask, (_, row) in zip(matrix, is_candidate, kept, strict=True):
            into[mask] = row
        unscored = (is_candidate & np.isneginf(matrix)).nonzero()
        places = set(zip(short_form_index[unscored[0]].tolist(), unscored[1].tolist(), strict=True))
        excluded = [Exclusion(*sense, why, n_examples[sense], kept=False) for sense, why in left_out.items()]
        for index, column in places:
            sense = short_forms[index], candidates[index][column]
            excluded.append(Exclusion(*sense, NO_SCORE, n_examples[sense], kept=True))
        return cls(
            model=model,
            ids=tuple(example.id for example, _ in kept),
            note_ids=tuple(example.note_id for example, _ in kept),
            short_forms=short_forms,
            candidates=candidates,
            short_form_index=short_form_index,
            truth=np.array(truth, dtype=np.int64),
            log_probabilities=_log_softmax(matrix, is_candidate),
            excluded=tuple(sorted(excluded, key=lambda each: (each.short_form, each.long_form))),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def is_candidate(self) -> Booleans:
        """Which columns of `log_probabilities` belong to a candidate of the example."""
        return _is_candidate(self.candidates, self.short_form_index)

    @cached_property
    def predicted(self) -> Integers:
        """The position of the most probable candidate; of equals, the first in the inventory."""
        rows = self.log_probabilities
        return np.asarray(rows.argmax(axis=1) if len(rows) else [], dtype=np.int64)

    @cached_property
    def first_label(self) -> Integers:
        """The number of each short form's first candidate, when all candidates are numbered consecutively."""
        widths = np.array([len(names) for names in self.candidates], dtype=np.int64)
        return np.cumsum(widths) - widths

    @cached_property
    def loss(self) -> Floats:
        """-log p of the true long form, at most 708.4 (a probability of 0)."""
        return np.minimum(-self.log_probability_of_truth, -float(np.log(np.finfo(np.float64).tiny)))

    @cached_property
    def is_right(self) -> Booleans:
        """Whether the most probable candidate is the true one."""
        return np.equal(self.predicted, self.truth)

    @cached_property
    def confidence(self) -> Floats:
        """The probability of the most probable candidate."""
        return np.exp(np.asarray(self.log_probabilities.max(axis=1, initial=-np.inf), dtype=np.float64))

    @cached_property
    def log_probability_of_truth(self) -> Floats:
        return self.log_probabilities[np.arange(len(self)), self.truth]

    @cached_property
    def rank_of_truth(self) -> Integers:
        """How many candidates come before the true one; of equals, the first in the inventory comes first."""
        order = np.argsort(-self.log_probabilities, axis=1, kind="stable")
        return np.asarray((order == self.truth[:, None]).argmax(axis=1), dtype=np.int64)

    @cached_property
    def cluster(self) -> Integers:
        """The number of each example's note, in the order in which notes first occur."""
        number_of = {note_id: number for number, note_id in enumerate(dict.fromkeys(self.note_ids))}
        return np.array([number_of[note_id] for note_id in self.note_ids], dtype=np.int64)


def _is_candidate(candidates: Sequence[Sequence[str]], short_form_index: Integers) -> Booleans:
    widths = np.array([len(names) for names in candidates], dtype=np.int64)
    mask: Booleans = np.arange(widths.max(initial=0)) < widths[short_form_index, None]
    return mask


def _log_softmax(scores: Floats, is_candidate: Booleans) -> Floats:
    """Log-softmax over each row's candidates; -inf becomes the row's lowest score and is ranked last."""
    if np.isnan(scores[is_candidate]).any() or np.isposinf(scores[is_candidate]).any():
        raise ModelError(  # a long form that cannot be scored has -inf
            "a score is NaN or +inf: the weights of the model have diverged. Train it again with a lower "
            "training.learning_rate."
        )
    is_scored = is_candidate & ~np.isneginf(scores)
    lowest = np.min(scores, axis=1, where=is_scored, initial=np.inf)
    lowest = np.where(is_scored.any(axis=1), lowest, 0.0)[:, None]
    filled = np.where(is_scored, scores, np.where(is_candidate, lowest, -np.inf))
    shifted = filled - filled.max(axis=1, keepdims=True, initial=-np.inf) if scores.size else filled
    log_p: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    # One floating-point step lower: equal in probability, but ranked after its equals.
    is_unscored = is_candidate & ~is_scored
    log_p[is_unscored] = np.nextafter(log_p[is_unscored], -np.inf)
    return log_p


_NAMES = ("model", "ids", "note_ids", "short_forms", "candidates")
_ARRAYS = ("short_form_index", "truth", "log_probabilities")


def save_predictions(path: Path, predictions: Predictions) -> None:
    """Write the numbers to `path`.npz and then the names to `path`.json; nothing is pickled."""
    with atomic_write(_beside(path, ".npz")) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{name: getattr(predictions, name) for name in _ARRAYS})
    names = {name: getattr(predictions, name) for name in _NAMES}
    excluded = [asdict(exclusion) for exclusion in predictions.excluded]
    write_json(_beside(path, ".json"), {"version": _VERSION, **names, "excluded": excluded})


def load_predictions(path: Path) -> Predictions:
    """Read what `save_predictions` wrote."""
    json_path, npz_path = _beside(path, ".json"), _beside(path, ".npz")
    try:
        saved = read_json(json_path)
        if (version := saved["version"]) != _VERSION:
            what = f"{json_path} has version {version}, this program reads {_VERSION}"
            raise FormatError(f"{what}. Evaluate again.")
        with npz_path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            values: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
            values |= {name: tuple(saved[name]) for name in ("ids", "note_ids", "short_forms")}
            return Predictions(
                model=saved["model"],
                candidates=tuple(map(tuple, saved["candidates"])),
                **values,
                excluded=tuple(Exclusion(**exclusion) for exclusion in saved["excluded"]),
            )
    except FileNotFoundError as error:
        what = "predictions are a .json and a .npz file"
        raise FormatError(f"{error.filename} does not exist; {what}.") from None
    except (KeyError, TypeError, ValueError, IndexError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"{json_path} and {npz_path.name} are not a pair of predictions: {error}") from None


def _beside(path: Path, suffix: str) -> Path:
    """Add a suffix, never replace one: a model's name may contain dots."""
    return path.with_name(path.name + suffix)
