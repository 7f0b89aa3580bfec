"""`lmcells evaluate` and `lmcells calibrate`: how often a model is right, and whether it knows."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from lmcells.cli.arguments import Command, add_overwrite
from lmcells.cli.terminal import ProgressLine, print_columns, print_json, print_table
from lmcells.errors import InputError
from lmcells.evaluation.calibrate import fit_calibration, report_calibration, score_mentions
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import Leakage, ModelResult, evaluate
from lmcells.evaluation.rankers import CHOICES
from lmcells.expansion import load_inventory
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.ranking import Ranking, best_ranker
from lmcells.files import write_json
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

_WITH_INTERVAL = {"accuracy": "accuracy", "weighted F1": "weighted_f1", "macro F1": "macro_f1"}
_SHOWN_K = (2, 3)
_SHOWN_LEAKED = 5


def _add_dataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", required=True, type=Path, metavar="DATASET", help="JSON lines")
    parser.add_argument("--inventory", required=True, type=Path, metavar="FILE", help="senses, JSON or CSV")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="model folder or baseline, see above")
    _add_dataset(parser)
    add("--corpus", type=Path, help="the training corpus: counts of long forms, and the leakage check")
    add(
        "--section-map",
        type=Path,
        metavar="FILE",
        help="foreign to known headers, CSV or JSON; others are guessed",
    )
    add("--no-leakage-check", action="store_true", help="the dataset's notes are truly not the corpus'")
    add(
        "--ranking",
        choices=get_args(Ranking),
        default="auto",
        help="of cell models: masked-span, by what fits in place of the short form; divergence, the paper's; auto: "
        "masked-span where the model can",
    )
    add("--output", type=Path, metavar="REPORT_DIR", help="write the report into this folder")
    add_overwrite(parser, replaces="a report")
    add("--json", action="store_true", help="print the results as JSON")
    add("--seed", type=int, default=0, metavar="N", help="random seed of chance and of the intervals (0)")


def _evaluate(options: argparse.Namespace) -> None:
    output: Path | None = options.output
    if output:
        from lmcells.evaluation.report import require_matplotlib, write_report

        require_matplotlib()  # before the work, not after it
    with ProgressLine() as line:
        results = evaluate(
            options.models,
            dataset=options.dataset,
            inventory=options.inventory,
            corpus=options.corpus,
            section_map=options.section_map,
            ranking=options.ranking,
            seed=options.seed,
            leakage_check=not options.no_leakage_check,
            on_model=lambda name: line.update(
                f"{options.models.index(name) + 1} of {len(options.models)}: {name}"
            ),
            on_warning=lambda warning: print(f"lmcells evaluate: {warning}", file=sys.stderr),
        )
    as_json = [result.to_json() for result in results]
    if output:
        write_report(output, results, dataset_name=options.dataset.stem)
        write_json(output / "results.json", as_json, indent=1)
    if options.json:
        print_json(as_json)
    else:
        _print_results(results, dataset=options.dataset)


def _print_results(results: Sequence[ModelResult], *, dataset: Path) -> None:
    """Print a line per model, then what was left out, how headers were mapped, and leakage."""
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
    metrics = result.metrics
    return (
        result.model,
        *(_with_interval(result, name) for name in _WITH_INTERVAL.values()),
        f"{metrics.nll:.3f}",
        *(f"{metrics.accuracy_at_k[k]:.3f}" for k in _SHOWN_K),
        "-" if result.n_parameters is None else f"{result.n_parameters:,}",
        f"{result.seconds:.1f}",
    )


def _with_interval(result: ModelResult, name: str) -> str:
    value = f"{getattr(result.metrics, name):.3f}"
    interval = result.intervals.get(name)
    return value if interval is None else f"{value} [{interval.low:.3f}, {interval.high:.3f}]"


def _remarks(result: ModelResult) -> Iterator[str]:
    """What a reader must know besides the numbers."""
    excluded = result.predictions.excluded
    for kept, what in ((False, "left out"), (True, "scored last")):
        for reason in sorted({each.reason for each in excluded if each.kept == kept}):
            here = [each for each in excluded if each.kept == kept and each.reason == reason]
            n_examples = sum(each.n_examples for each in here)
            yield f"{what}, {reason}: {len(here)} senses, {n_examples:,} examples"
    if result.section_mapping:
        counts = ", ".join(f"{how} {n:,}" for how, n in sorted(result.section_mapping.items()))
        yield f"section headers, by example: {counts}"
    if result.leakage is not None:
        yield _leakage_remark(result.leakage)


def _leakage_remark(leakage: Leakage) -> str:
    of_other_form = ""
    if leakage.n_incomparable:
        of_other_form = f" ({leakage.n_incomparable:,} have ids of a form that the corpus does not have)"
    if not leakage.leaked:
        return f"leakage: none of {leakage.n_notes:,} test notes is in the corpus{of_other_form}"
    more = ", ..." if len(leakage.leaked) > _SHOWN_LEAKED else ""
    return (
        f"LEAKAGE: {len(leakage.leaked):,} of {leakage.n_notes:,} test notes, with {leakage.n_examples:,} examples, "
        f"are in the corpus: {', '.join(leakage.leaked[:_SHOWN_LEAKED])}{more}{of_other_form}"
    )


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="model folder; with --check also default (shipped)")
    _add_dataset(parser)
    add(
        "--precision",
        type=float,
        default=0.95,
        metavar="P",
        help="share of answers that should be right (0.95)",
    )
    add("--check", action="store_true", help="measure the model's calibration and change nothing")
    add("--json", action="store_true", help="print the result as JSON")


def _calibrate(options: argparse.Namespace) -> None:
    if not 0 < options.precision < 1:
        raise InputError(f"--precision: found {options.precision}, allowed: above 0 and below 1.")
    folder = model_folder(options.model) if options.check else Path(options.model)
    model = PretrainedModel.from_pretrained(folder)
    inventory = load_inventory(options.inventory)
    examples = list(read_dataset(options.dataset, report=ReadReport()))
    mentions = score_mentions(best_ranker(model, inventory), examples, inventory)
    if options.check:
        calibration = Calibration.load(folder)
    else:
        calibration = fit_calibration(mentions, precision=options.precision)
        calibration.save(folder)
    result = {**asdict(calibration), **asdict(report_calibration(mentions, calibration))}
    if options.json:
        print_json(result)
    else:
        rows = [(name, f"{each:.4f}" if isinstance(each, float) else each) for name, each in result.items()]
        print_table(rows, title=str(options.model))


COMMANDS = {
    "evaluate": Command(
        summary="measure models on a dataset of labelled short forms",
        description=f"""\
Rank the long forms of every short form of a dataset, and print accuracy, F1 and negative log-likelihood with 95 %
intervals, resampled by note. Nothing is fitted to the dataset. Models are evaluated one after the other.

MODEL is {CHOICES}.
`dominant` is the dataset's own most common sense, an oracle; `section-mle` counts sections in --corpus.""",
        example="""\
examples:
  lmcells evaluate default --dataset rs.jsonl --inventory inventory.json
  lmcells evaluate model random dominant --dataset rs.jsonl --inventory inventory.json --corpus corpus
  lmcells evaluate model encoder:all-MiniLM-L6-v2 --dataset rs.jsonl --inventory inventory.json --output report
  lmcells evaluate model --dataset casi.jsonl --inventory casi.json --section-map map.csv --no-leakage-check --json""",
        add_arguments=_add_evaluate,
        run=_evaluate,
    ),
    "calibrate": Command(
        summary="fit a model's probabilities and when it abstains",
        description="""\
Fit a temperature and two thresholds to a dataset, and write them into the model folder. The dataset should be derived
from notes like those the model will be used on, by `lmcells dataset reverse`, and never be one that results are
reported on; for that there is --check.""",
        example="example:\n  lmcells calibrate model --dataset train_rs.jsonl --inventory senses.csv --precision 0.95",
        add_arguments=_add_calibrate,
        run=_calibrate,
    ),
}
