"""Scoring whole notes, end to end: which short forms are found, and expanded as a reader would.

An expansion that overlaps a `short_form` is *right* when it means one of its senses and *wrong* when it does not; on a
`none`, or where nothing is marked, it is *false*. Other kinds (code, compound, everyday, unit_or_title, unclear)
count neither way and are reported as *neutral*. A short form without an answer is *unsure* when the expander abstained
on it, else *missed*. Precision is right / (right + wrong + false), recall is right / all short forms. Each expansion
matches at most one mention, and each short form at most one expansion.
"""

import hashlib
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

import lmcells
from lmcells.errors import FormatError, InputError
from lmcells.evaluation.calibrate import DRAWS, TAKEN_OUT, expected_calibration_error
from lmcells.evaluation.marked_notes import NONE, SHORT_FORM, Mark, MarkedNote, Meanings, read_marked_notes
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.finder import ShortFormFinder
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.inventory_files import InventoryLike, load_inventory
from lmcells.expansion.layers import shipped_inventory
from lmcells.files import open_private, sha256
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

DICTIONARY, SCISPACY = "dictionary", "scispacy"
THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

Verdict = Literal["right", "wrong", "false", "unsure", "missed", "neutral"]

_OF_INVENTORY = ("model", "header", "pinned")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one expansion, or on a short form without one."""

    verdict: Verdict
    start: int
    end: int
    kind: str | None  # of the mark, None where nothing is marked
    senses: tuple[str, ...]
    source: str | None = None
    long_form: str | None = None
    probability: float | None = None


def judge(note: MarkedNote, expansions: Sequence[Expansion], meanings: Meanings) -> list[Outcome]:
    outcomes: list[Outcome] = []
    answered: set[Mark] = set()
    unsure: set[Mark] = set()
    for each in expansions:
        here = {mark: min(mark.end, each.end) - max(mark.start, each.start) for mark in note.marks}
        free = [mark for mark, overlap in here.items() if overlap > 0 and mark not in answered]
        mark = max(free, key=lambda mark: (mark.kind == SHORT_FORM, here[mark]), default=None)
        if each.long_form is None:
            if mark is not None and mark.kind == SHORT_FORM:
                unsure.add(mark)
            continue
        verdict: Verdict = "false"
        if mark is not None:
            if mark.kind == SHORT_FORM:
                answered.add(mark)
                forms = _within_mark(note.text, each, mark)
                verdict = "right" if any(meanings.same(form, mark.senses) for form in forms) else "wrong"
            elif mark.kind != NONE:
                verdict = "neutral"
        kind, senses = (mark.kind, mark.senses) if mark is not None else (None, ())
        said = each.source, each.long_form, each.probability
        outcomes.append(Outcome(verdict, each.start, each.end, kind, senses, *said))
    outcomes += [
        Outcome("unsure" if mark in unsure else "missed", mark.start, mark.end, mark.kind, mark.senses)
        for mark in note.marks
        if mark.kind == SHORT_FORM and mark not in answered
    ]
    return sorted(outcomes, key=lambda outcome: outcome.start)


@dataclass(frozen=True)
class WholeNoteScores:
    """The scores of one expander on marked notes; intervals are by note."""

    model: str
    n_notes: int
    counts: dict[str, int]  # by verdict, and all `short_forms`
    rates: dict[str, dict[str, float]]  # precision, recall, f1 -> value, low, high
    by_source: dict[str, dict[str, int]]  # model, definition, ... -> right, wrong, false
    by_kind: dict[str, int]  # expansions of text that is not a short form, by the kind of mark
    thresholds: list[dict[str, float]]  # probability at least -> answered, precision, recall
    calibration_error_without_a_fifth: float | None = None  # see `calibration_error_without_senses`


def summarize(model: str, notes: Sequence[Sequence[Outcome]], *, seed: int = 0) -> WholeNoteScores:
    rows = [Counter(outcome.verdict for outcome in outcomes) for outcomes in notes]
    sums = [(n["right"], n["wrong"], n["false"], n["unsure"] + n["missed"]) for n in rows]
    table = np.array(sums, np.float64).reshape(-1, 4)
    every = [outcome for outcomes in notes for outcome in outcomes]
    counts = sum(rows, Counter[str]())
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(len(table), [1 / max(1, len(table))] * len(table), 2000)
    resampled = _rates(weights @ table)
    rates = {}
    for name, value in _rates(table.sum(axis=0, keepdims=True)).items():
        low, high = np.quantile(resampled[name], [0.025, 0.975]).tolist()
        rates[name] = {"value": float(value[0]), "low": low, "high": high}
    by_source: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in every:
        if outcome.source is not None and outcome.verdict != "neutral":
            by_source[outcome.source][outcome.verdict] += 1
    elsewhere = [each for each in every if each.verdict in ("false", "neutral")]
    n_short_forms = sum(counts[name] for name in ("right", "wrong", "unsure", "missed"))
    return WholeNoteScores(
        model=model,
        n_notes=len(notes),
        counts={verdict: counts[verdict] for verdict in get_args(Verdict)} | {"short_forms": n_short_forms},
        rates=rates,
        by_source={source: dict(found) for source, found in sorted(by_source.items())},
        by_kind=dict(Counter(each.kind or "unmarked" for each in elsewhere)),
        thresholds=[_at_threshold(every, least, n_short_forms) for least in THRESHOLDS],
    )


def _at_threshold(outcomes: Iterable[Outcome], least: float, n_short_forms: int) -> dict[str, float]:
    kept = [each.verdict for each in outcomes if each.probability is not None and each.probability >= least]
    right = kept.count("right")
    counted = right + kept.count("wrong") + kept.count("false")
    return {
        "probability": least,
        "answered": counted,
        "precision": right / counted if counted else 1.0,
        "recall": right / n_short_forms if n_short_forms else 0.0,
    }


def _rates(sums: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
    """Precision, recall and F1 of each row of summed (right, wrong, false, not answered)."""
    right, wrong, false, unanswered = sums.T
    given, wanted = right + wrong + false, right + wrong + unanswered
    return {
        "precision": right / np.maximum(given, 1),
        "recall": right / np.maximum(wanted, 1),
        "f1": 2 * right / np.maximum(given + wanted, 1),
    }


def calibration_error_without_senses(
    model: str, notes: Sequence[MarkedNote], senses: SenseInventory
) -> float | None:
    """Return the calibration error of the top answers with a fifth of all senses removed; mean of five draws, or None.

    Any sense of the inventory is wrong for a short form whose sense was removed; what the note defines, counts or
    spells (`letters`) may be right all the same. If the expander abstains, its best candidate counts.
    """
    expander = Expander.from_pretrained(model, only_inventory=senses)
    meanings, every, errors = Meanings(senses), list(senses), []
    for seed in range(DRAWS):
        taken = set(Random(seed).sample(range(len(every)), round(TAKEN_OUT * len(every))))
        left = SenseInventory.from_senses(sense for at, sense in enumerate(every) if at not in taken)
        gone = defaultdict(list)
        for at in taken:
            gone[every[at].short_form].append(every[at].long_form)
        left = replace(left, has_priors=senses.has_priors)
        sure, right = [], []
        expanded = expander.pipe([note.text for note in notes], only_inventory=left)
        for note, expansions in zip(notes, expanded, strict=True):
            short_forms = {each.start: each.short_form for each in expansions}
            for outcome in judge(note, [_answered(each) for each in expansions], meanings):
                if outcome.verdict in ("right", "wrong") and outcome.probability is not None:
                    lost = gone[short_forms[outcome.start]] if outcome.source in _OF_INVENTORY else ()
                    is_gone = any(meanings.same(each, outcome.senses) for each in lost)
                    sure.append(outcome.probability)
                    right.append(outcome.verdict == "right" and not is_gone)
        errors += [expected_calibration_error(sure, right)] if sure else []
    return fmean(errors) if errors else None


def _answered(expansion: Expansion) -> Expansion:
    """Return the expansion with its best candidate as the answer."""
    best = expansion.candidates[0]
    return replace(expansion, long_form=best.long_form, probability=best.probability, abstained=None)


def _within_mark(text: str, expansion: Expansion, mark: Mark) -> Iterator[str]:
    """Yield the long form, and the long form without words that the text has beside the mark ("B" of "Hep B")."""
    long_form = expansion.long_form or ""
    yield long_form
    beside = f"{text[expansion.start : mark.start]} {text[mark.end : expansion.end]}".lower().split()
    if beside:
        yield " ".join(word for word in long_form.split() if word.lower() not in beside)


def evaluate_notes(
    models: Sequence[str | Path],
    *,
    notes: Path | str,
    inventory: InventoryLike | None = None,
    outcomes: Path | None = None,
    errors: Path | None = None,
    resume: bool = False,
    take_out: bool = False,
    seed: int = 0,
    on_progress: Callable[[str, int], None] = lambda *_: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> list[WholeNoteScores]:
    """Score models on whole notes with marked short forms, end to end.

    `models` are model folders, "default", or the baselines "dictionary" (the most frequent sense of the inventory) and
    "scispacy" (its abbreviation detector, where it is installed). `outcomes` stores the verdicts of each note, so that
    `resume` continues after an interruption, with the same notes, inventory and models; `errors` gets every error with
    the text around it: both contain patient data, and are readable only by their owner. `take_out` also measures the
    calibration with senses removed.
    """
    report = ReadReport()
    marked = list(read_marked_notes(Path(notes), report=report))
    for reason, n in report.skipped.items():
        on_warning(f"{n:,} notes skipped: {reason} (first at {report.first_seen[reason]})")
    if not marked:
        raise FormatError(f"{notes} has no note with marked short forms. docs/data.md describes the format.")
    senses = shipped_inventory() if inventory is None else load_inventory(inventory)
    meanings = Meanings(senses)
    names = list(map(str, models))
    origins = {model: _origin(model, senses) for model in names} if outcomes is not None else {}
    done = _read_outcomes(outcomes, marked, origins) if outcomes is not None and resume else {}
    results = []
    with (
        nullcontext() if outcomes is None else open_private(outcomes, append=resume) as kept,
        nullcontext() if errors is None else open_private(errors) as told,
    ):
        for model in names:
            baseline = {DICTIONARY: lambda: _dictionary(senses), SCISPACY: _scispacy}.get(model)
            expand = baseline() if baseline else Expander.from_pretrained(model, only_inventory=senses)
            judged = []
            for number, note in enumerate(marked, start=1):
                digest = _digest_note(note)
                found = done.get((model, digest))
                if found is None:
                    found = judge(note, expand(note.text), meanings)
                    if kept is not None:
                        row: dict[str, Any] = {"model": model, "id": note.id, "note": digest}
                        row |= {"made_from": origins[model], "outcomes": list(map(asdict, found))}
                        print(json.dumps(row, ensure_ascii=False), file=kept, flush=True)
                judged.append(found)
                if told is not None:
                    for each in found:
                        if each.verdict not in ("right", "neutral"):
                            around = note.text[max(0, each.start - 40) : each.end + 40]
                            row = {"model": model, "id": note.id, **asdict(each), "text": around}
                            print(json.dumps(row, ensure_ascii=False), file=told, flush=True)
                on_progress(model, number)
            scores = summarize(model, judged, seed=seed)
            if take_out and model not in (DICTIONARY, SCISPACY):
                error = calibration_error_without_senses(model, marked, senses)
                scores = replace(scores, calibration_error_without_a_fifth=error)
            results.append(scores)
    return results


def _dictionary(inventory: SenseInventory) -> Callable[[str], list[Expansion]]:
    """Look up every short form, and answer its most frequent sense, by the shipped model's phrase counts."""
    find = ShortFormFinder(inventory)
    store = PretrainedModel.from_pretrained(model_folder(None)).phrase_store
    counts = dict(zip(store.phrases, store.arrays["counts"].tolist(), strict=True)) if store else {}

    def expand(text: str) -> list[Expansion]:
        answers = []
        for found in find(text):
            senses = inventory.senses(found.short_form)
            best = max(senses, key=lambda sense: max(counts.get(form.lower(), 0) for form in sense.forms))
            candidate = Candidate(best.long_form, 1.0, best.concept_id)
            answers.append(Expansion(*found, None, best.long_form, 1.0, "model", (candidate,)))
        return answers

    return expand


def _scispacy() -> Callable[[str], list[Expansion]]:
    try:
        import scispacy.abbreviation  # noqa: F401
        import spacy
    except ImportError:
        raise InputError("scispacy is not installed. Run: pip install scispacy, or leave it out.") from None
    nlp = spacy.blank("en")
    nlp.add_pipe("abbreviation_detector")

    def expand(text: str) -> list[Expansion]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about notes without a definition
            abbreviations = nlp(text)._.abbreviations
        found = []
        for each in sorted(abbreviations, key=lambda each: each.start_char):
            place, long_form = (each.start_char, each.end_char, each.text, None), str(each._.long_form)
            found.append(Expansion(*place, long_form, 1.0, "definition", (Candidate(long_form, 1.0),)))
        return found

    return expand


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _digest_note(note: MarkedNote) -> str:
    return _digest((note.id, note.text, note.marks))


def _origin(model: str, senses: SenseInventory) -> dict[str, str]:
    """Return what the verdicts on a note depend on besides the note; a model's files count by their content."""
    files = []
    if model != SCISPACY:
        folder = model_folder(None if model == DICTIONARY else model)
        files = [
            (str(file.relative_to(folder)), sha256(file)) for file in folder.rglob("*") if file.is_file()
        ]
    return {
        "inventory": _digest((list(senses), senses.has_priors)),
        "model": _digest(sorted(files)),
        "version of lmcells": lmcells.__version__,
    }


def _read_outcomes(
    path: Path, notes: Sequence[MarkedNote], origins: dict[str, dict[str, str]]
) -> dict[tuple[str, str], list[Outcome]]:
    """Read the verdicts of an earlier run, by model and note; a line that a full disk has truncated is left out.

    Verdicts on another version of a note, or by another inventory, model or lmcells are refused.
    """
    digests: dict[str, set[str]] = {}
    for note in notes:
        digests.setdefault(note.id, set()).add(_digest_note(note))
    done = {}
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            row = json.loads(line)
            found = [Outcome(**{**each, "senses": tuple(each["senses"])}) for each in row["outcomes"]]
            model, digest, origin = row["model"], row["note"], row["made_from"]
            now, known = origins[model], digests[row["id"]]
            changed = [name for name in now if origin.get(name) != now[name]]
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        if digest not in known:
            changed.insert(0, "note")
        if changed:
            raise InputError(
                f"--resume: {path} was made with another {', '.join(changed)}. Use the same, or replace it: "
                "--overwrite instead of --resume."
            )
        done[model, digest] = found
    return done
