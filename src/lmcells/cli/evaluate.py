"""`lmcells evaluate`: how well models expand the short forms of a dataset."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from lmcells.cli.arguments import add_overwrite
from lmcells.cli.evaluation_table import print_results
from lmcells.cli.terminal import ProgressLine, print_json
from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.evaluate import Leakage, ModelResult, check_leakage, run_model
from lmcells.evaluation.rankers import CHOICES, NamedRanker, make_ranker, window_words
from lmcells.evaluation.section_mapping import load_section_map
from lmcells.expansion import load_inventory
from lmcells.expansion.ranking import Ranking
from lmcells.files import write_json
from lmcells.notes.readers import ReadReport

SUMMARY = "measure models on a dataset of labelled short forms"
DESCRIPTION = f"""\
Rank the long forms of every short form of a dataset, and print accuracy, F1 and negative log-likelihood with 95 %
intervals, drawn by note. Nothing is fitted to the dataset. Several models are given one after the other.

MODEL is {CHOICES}.
`dominant` is the dataset's own most common sense, an oracle; `section-mle` counts sections in --corpus."""
EXAMPLE = """\
examples:
  lmcells evaluate default --dataset rs.jsonl --inventory inventory.json
  lmcells evaluate model random dominant --dataset rs.jsonl --inventory inventory.json --corpus corpus
  lmcells evaluate model encoder:all-MiniLM-L6-v2 --dataset rs.jsonl --inventory inventory.json --output report
  lmcells evaluate model --dataset casi.jsonl --inventory casi.json --section-map map.csv --no-leakage-check --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help="model folder or baseline, see above")
    parser.add_argument("--dataset", required=True, type=Path, metavar="DATASET", help="JSON lines")
    parser.add_argument("--inventory", required=True, type=Path, metavar="FILE", help="senses, JSON or CSV")
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="CORPUS",
        help="the training corpus: counts of long forms, and the leakage check",
    )
    parser.add_argument(
        "--section-map",
        type=Path,
        metavar="FILE",
        help="foreign to known headers, CSV or JSON; others are guessed",
    )
    parser.add_argument(
        "--no-leakage-check",
        action="store_true",
        help="the dataset's notes are truly others than the corpus'",
    )
    parser.add_argument(
        "--ranking",
        choices=get_args(Ranking),
        default="auto",
        help="of cell models: gap, by what fits in the short form's place; divergence, the paper's; auto: gap where "
        "the model can",
    )
    parser.add_argument("--output", type=Path, metavar="REPORT_DIR", help="write the report into this folder")
    add_overwrite(parser, replaces="a report")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of chance and of the intervals (0)")


def run(options: argparse.Namespace) -> None:
    """Evaluate one model after the other, print the table, and write the report."""
    _require_different(options.models)
    if options.seed < 0:
        raise InputError(f"--seed: found {options.seed}, allowed: 0 or more.")
    if options.output:
        if any(options.output.glob("*")) and not options.overwrite:
            raise InputError(
                f"--output {options.output} exists already. Choose another, or replace its report with --overwrite."
            )
        from lmcells.evaluation.report import require_matplotlib

        require_matplotlib()  # before the work, not after it
    inventory = load_inventory(options.inventory)
    examples = _read_examples(options.dataset)
    corpus = Corpus.open(options.corpus) if options.corpus else None
    section_map = load_section_map(options.section_map) if options.section_map else {}
    leakage = None
    if corpus is not None and not options.no_leakage_check:
        leakage = check_leakage((example.note_id for example in examples), corpus)
    words = window_words(options.models, corpus=corpus)
    results = []
    with ProgressLine() as line:
        for number, model in enumerate(options.models, start=1):
            line.update(f"{number} of {len(options.models)}: {model}")
            named = make_ranker(
                model,
                inventory,
                examples=examples,
                corpus=corpus,
                section_map=section_map,
                words=words,
                ranking=options.ranking,
                seed=options.seed,
            )
            told = _leakage_of(named, leakage, corpus=corpus)
            results.append(run_model(named, examples, inventory, leakage=told, seed=options.seed))
    if options.output:
        write_results(options.output, results, dataset_name=options.dataset.stem)
    if options.json:
        print_json([result.to_json() for result in results])
    else:
        print_results(results, dataset=options.dataset)


def _require_different(models: Sequence[str]) -> None:
    """Refuse one model under two names, such as `model` and `./model/`; a report would compare it with itself."""
    seen: dict[str, str] = {}
    for model in models:
        kind, colon, folder = model.rpartition(":")
        meant = f"{kind}{colon}{Path(folder).resolve()}" if Path(folder).exists() else model
        if meant in seen:
            same = "" if seen[meant] == model else f", as {seen[meant]!r} as well"
            raise InputError(f"MODEL: {model!r} is given twice{same}. Give each model once.")
        seen[meant] = model


def write_results(folder: Path, results: Sequence[ModelResult], *, dataset_name: str) -> None:
    """Write the report, and what --json prints as `results.json` beside it."""
    from lmcells.evaluation.report import write_report

    write_report(folder, results, dataset_name=dataset_name)
    write_json(folder / "results.json", [result.to_json() for result in results], indent=1)


def _read_examples(path: Path) -> list[Example]:
    report = ReadReport()
    examples = list(read_dataset(path, report=report))
    for reason, n in report.skipped.items():
        print(
            f"lmcells evaluate: {n:,} rows skipped: {reason} (first at {report.first_seen[reason]})",
            file=sys.stderr,
        )
    return examples


def _leakage_of(named: NamedRanker, leakage: Leakage | None, *, corpus: Corpus | None) -> Leakage | None:
    """Say nothing of a model that was trained on another corpus."""
    if leakage is None or corpus is None or named.corpus_fingerprint in (None, corpus.manifest.fingerprint):
        return leakage
    print(
        f"lmcells evaluate: {named.name} was trained on another corpus than {corpus.folder}: its leakage is unknown",
        file=sys.stderr,
    )
    return None
