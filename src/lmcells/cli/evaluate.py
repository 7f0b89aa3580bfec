"""`lmcells evaluate` and `lmcells calibrate`: how often a model is right, and whether its probabilities are."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from lmcells.cli.arguments import Command, Options, picked
from lmcells.cli.terminal import ProgressLine, print_columns, print_json, print_result, print_rows
from lmcells.errors import InputError
from lmcells.evaluation.calibrate import fit_calibration, report_calibration, score_mentions
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import ModelResult, evaluate
from lmcells.evaluation.rankers import CHOICES
from lmcells.evaluation.whole_notes import evaluate_notes
from lmcells.expansion import load_inventory
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.ranking import Ranking, best_ranker
from lmcells.files import write_json
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

_WITH_INTERVAL = {"accuracy": "accuracy", "weighted F1": "weighted_f1", "macro F1": "macro_f1"}
_ONLY_DATASET = ("output", "corpus", "section_map", "no_leakage_check")
_ONLY_NOTES = ("errors", "outcomes", "take_out_senses", "resume")
_SHOWN_K = (2, 3)
_SHOWN_LEAKED = 5


def _add_evaluate(add: Options) -> None:
    add("models MODEL", "model folder or baseline, see above", nargs="+")
    add_what = add.either()
    add_what("--dataset DATASET", "labelled mentions, JSON lines", type=Path)
    text = "whole notes with marked short forms: JSON lines, a brat folder, or a Label Studio export"
    add_what("--notes FILE", text, type=Path)
    add("--inventory FILE", "senses, CSV, TSV or JSON (--notes: the shipped ones)", type=Path)
    add("--errors FILE", "--notes: also write every error with its text (mode 0600)", type=Path)
    add("--outcomes FILE", "--notes: store the verdicts of each note, to resume (mode 0600)", type=Path)
    text = "--notes: also measure calibration with a fifth of the senses removed (takes six times as long)"
    add("--take-out-senses", text)
    text = "--notes: continue from --outcomes after an interruption, with the same notes and models"
    add("--resume", text, action="store_true", default=None)
    add("--corpus", "the training corpus: for counts of long forms and the leakage check", type=Path)
    add("--section-map FILE", "maps foreign headers to known ones, CSV or JSON", type=Path)
    add("--no-leakage-check", "skip the check: the dataset's notes are known not to be in the corpus")
    text = "of cell models: masked-span, by what fits in place of the short form; divergence, the paper's; auto: "
    text += "masked-span if the model supports it"
    add("--ranking", text, choices=get_args(Ranking), default="auto")
    add("--output REPORT_DIR", "write the report into this folder", type=Path)
    add.overwrite(replaces="a report")
    add("--json", "print the results as JSON")
    add("--seed N", "random seed of the baseline `random` and of the intervals (0)", type=int, default=0)


def _evaluate(options: argparse.Namespace) -> None:
    output, models = options.output, options.models
    is_of_notes = options.notes is not None
    only, others = ("--dataset", _ONLY_DATASET) if is_of_notes else ("--notes", _ONLY_NOTES)
    for name in others:
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is only for {only}. Leave it out.")
    if is_of_notes:
        _evaluate_notes(options)
        return
    if options.dataset is None:
        raise InputError("give --dataset DATASET, labelled mentions, or --notes FILE, whole marked notes.")
    if options.inventory is None:
        raise InputError("--dataset needs --inventory FILE, the senses to choose from.")
    if output:
        from lmcells.evaluation.report import Findings, require_matplotlib, write_report

        require_matplotlib()  # before the work, not after it
    with ProgressLine() as line:
        results = evaluate(
            **picked(options, evaluate),
            leakage_check=not options.no_leakage_check,
            on_model=lambda name: line.update(f"{models.index(name) + 1} of {len(models)}: {name}"),
            on_warning=lambda warning: print(f"lmcells evaluate: {warning}", file=sys.stderr),
        )
    as_json = [result.to_json() for result in results]
    if output:
        write_report(output, Findings(results, dataset_name=options.dataset.stem))
        write_json(output / "results.json", as_json, indent=1)
    if options.json:
        print_json(as_json)
    else:
        _print_results(results, dataset=options.dataset)


def _evaluate_notes(options: argparse.Namespace) -> None:
    if options.resume and options.outcomes is None:
        raise InputError("--resume needs --outcomes FILE, which stores the results of each note.")
    with ProgressLine() as line:
        results = evaluate_notes(
            **picked(options, evaluate_notes, take_out=options.take_out_senses, resume=bool(options.resume)),
            on_progress=lambda model, n: line.update(f"{model}: {n:,} notes"),
            on_warning=lambda warning: print(f"lmcells evaluate: {warning}", file=sys.stderr),
        )
    if options.json:
        print_json([asdict(result) for result in results])
        return
    n_notes, n_short_forms = results[0].n_notes, results[0].counts["short_forms"]
    print(f"{options.notes}: {n_notes:,} notes, {n_short_forms:,} short forms; 95 % intervals, by note")
    header = ("model", "precision", "recall", "F1", "right", "wrong", "false", "unsure", "missed", "neutral")
    rows = [
        (
            each.model,
            *(f"{rate['value']:.3f} [{rate['low']:.3f}, {rate['high']:.3f}]" for rate in each.rates.values()),
            *(f"{each.counts[name]:,}" for name in header[4:]),
        )
        for each in results
    ]
    print_columns([header, *rows])
    for each in results:
        if each.calibration_error_without_a_fifth is not None:
            error = each.calibration_error_without_a_fifth
            print(f"\n{each.model}: calibration error with a fifth of the senses removed {error:.3f}")
        print(f"\n{each.model}: by source")
        verdicts = ("right", "wrong", "false")
        by_source = [(name, *(str(n.get(v, 0)) for v in verdicts)) for name, n in each.by_source.items()]
        print_columns([("source", *verdicts), *by_source])
        print(f"{each.model}: answers of at least this probability")
        columns = "probability {probability:.2f} | answered {answered:,.0f} | precision {precision:.3f} | "
        print_rows(each.thresholds, columns + "recall {recall:.3f}")


def _print_results(results: Sequence[ModelResult], *, dataset: Path) -> None:
    """Print one line per model, then what was left out, how headers were mapped, and leakage."""
    first = results[0].metrics
    print(f"{dataset}: {first.n:,} examples, {first.n_short_forms} short forms; 95 % intervals, by note")
    header = ("model", *_WITH_INTERVAL, "NLL", *(f"acc@{k}" for k in _SHOWN_K), "parameters", "seconds")
    print_columns([header, *map(_row, results)])
    models_of: dict[str, list[str]] = {}
    for result in results:
        for remark in _remarks(result):
            models_of.setdefault(remark, []).append(result.model)
    for remark, models in models_of.items():
        print(remark if len(models) == len(results) else f"{', '.join(models)}: {remark}")


def _row(result: ModelResult) -> tuple[str, ...]:
    def with_interval(name: str) -> str:
        value, interval = f"{getattr(result.metrics, name):.3f}", result.intervals.get(name)
        return value if interval is None else f"{value} [{interval.low:.3f}, {interval.high:.3f}]"

    return (
        result.model,
        *map(with_interval, _WITH_INTERVAL.values()),
        f"{result.metrics.nll:.3f}",
        *(f"{result.metrics.accuracy_at_k[k]:.3f}" for k in _SHOWN_K),
        "-" if result.n_parameters is None else f"{result.n_parameters:,}",
        f"{result.seconds:.1f}",
    )


def _remarks(result: ModelResult) -> Iterator[str]:
    """Remarks that a reader needs besides the numbers."""
    groups: dict[tuple[bool, str], list[int]] = {}
    for each in result.predictions.excluded:
        groups.setdefault((each.kept, each.reason), []).append(each.n_examples)
    for (kept, reason), n_examples in sorted(groups.items()):
        what = "scored last" if kept else "left out"
        yield f"{what}, {reason}: {len(n_examples)} senses, {sum(n_examples):,} examples"
    if result.section_mapping:
        counts = ", ".join(f"{how} {n:,}" for how, n in sorted(result.section_mapping.items()))
        yield f"section headers, by example: {counts}"
    if result.leakage is not None:
        yield _leakage_remark(result.leakage)


def _leakage_remark(found: Mapping[str, Any]) -> str:
    leaked, n_notes, n_others = found["leaked_notes"], found["n_notes"], found["n_incomparable_notes"]
    others = f" ({n_others:,} have ids of a form that does not occur in the corpus)" if n_others else ""
    if not leaked:
        return f"leakage: none of {n_notes:,} test notes is in the corpus{others}"
    more = ", ..." if len(leaked) > _SHOWN_LEAKED else ""
    return (
        f"LEAKAGE: {len(leaked):,} of {n_notes:,} test notes, with {found['n_leaked_examples']:,} examples, "
        f"are in the corpus: {', '.join(leaked[:_SHOWN_LEAKED])}{more}{others}"
    )


def _add_calibrate(add: Options) -> None:
    add("model MODEL", "model folder; with --check also default (shipped)")
    add("--dataset DATASET", "JSON lines", required=True, type=Path)
    add("--inventory FILE", "senses, CSV, TSV or JSON", required=True, type=Path)
    add("--precision P", "share of answers that should be right (0.95)", type=float, default=0.95)
    text = "abstain below this probability (the lowest that gives --precision)"
    add("--least-probability P", text, type=float)
    add("--check", "measure the model's calibration and change nothing")
    add("--json", "print the result as JSON")


def _calibrate(options: argparse.Namespace) -> None:
    if not 0 < options.precision < 1:
        raise InputError(f"--precision: found {options.precision}, allowed: above 0 and below 1.")
    if options.model == DEFAULT and not options.check:
        raise InputError(
            "default is the shipped model, which stays as it is. Calibrate a copy of its folder (lmcells info default "
            "names it), or only measure with --check."
        )
    folder = model_folder(options.model) if options.check else Path(options.model)
    model = PretrainedModel.from_pretrained(folder)
    inventory = load_inventory(options.inventory)
    examples = list(read_dataset(options.dataset, report=ReadReport()))
    mentions = score_mentions(best_ranker(model, inventory), examples, inventory)
    if options.check:
        calibration = Calibration.load(folder)
    else:
        calibration = fit_calibration(mentions, precision=options.precision)
        if options.least_probability is not None:
            calibration = replace(calibration, least_probability=options.least_probability)
        calibration.save(folder)
    result = {**asdict(calibration), **report_calibration(mentions, calibration)}
    rows = [(name, f"{each:.4f}" if isinstance(each, float) else each) for name, each in result.items()]
    print_result(options, result, [(str(options.model), rows)])


_EVALUATE = f"""\
measure models on labelled short forms, or on whole notes

Rank the long forms of every short form of a dataset, and print accuracy, F1 and negative log-likelihood with 95 %
intervals, resampled by note. Nothing is fitted to the dataset. Models are evaluated one after the other.

With --notes, expand whole notes and compare the answers with the marked short forms: right, wrong, falsely expanded,
unsure, missed; precision and recall, by source and by probability. MODEL may then also be `dictionary` (the most
frequent sense) or `scispacy` (its abbreviation detector).

MODEL is {CHOICES}.
`dominant` is the dataset's own most common sense, an oracle; `section-mle` counts sections in --corpus.

examples:
  lmcells evaluate default dictionary --notes marked_notes.jsonl
  lmcells evaluate default --dataset rs.jsonl --inventory inventory.json
  lmcells evaluate model random dominant --dataset rs.jsonl --inventory inventory.json --corpus corpus
  lmcells evaluate model encoder:all-MiniLM-L6-v2 --dataset rs.jsonl --inventory inventory.json --output report
  lmcells evaluate model --dataset casi.jsonl --inventory casi.json --section-map map.csv --no-leakage-check --json"""
_CALIBRATE = """\
fit a model's probabilities and its threshold for abstaining

Fit a temperature, the score of "no sense fits" and a threshold to a dataset, and write them into the model folder. Make
the dataset with `lmcells dataset reverse` from notes like those the model will be used on, and never report results on
it; to measure calibration on another dataset, use --check.

example:
  lmcells calibrate model --dataset train_rs.jsonl --inventory senses.csv --precision 0.95"""
COMMANDS = {
    "evaluate": Command(_EVALUATE, _add_evaluate, _evaluate),
    "calibrate": Command(_CALIBRATE, _add_calibrate, _calibrate),
}
