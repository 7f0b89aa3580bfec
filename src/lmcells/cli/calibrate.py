"""`lmcells calibrate`: make a model's probabilities mean what they say."""

import argparse
from pathlib import Path
from typing import Any

from lmcells.cli.terminal import print_json, print_table
from lmcells.errors import InputError
from lmcells.evaluation.calibrate import fit_calibration, report_calibration, score_mentions
from lmcells.evaluation.dataset import read_dataset
from lmcells.expansion import load_inventory
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.ranking import best_ranker
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

SUMMARY = "fit a model's probabilities and its right to say unsure"
DESCRIPTION = """\
Fit a temperature and two thresholds to a dataset, and write them into the model folder. The dataset should be derived
from notes as the model will meet them, by `lmcells dataset reverse`, and never be one that results are reported on;
for that there is --check."""
EXAMPLE = (
    "example:\n  lmcells calibrate model --dataset train_rs.jsonl --inventory senses.csv --precision 0.95"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("model", metavar="MODEL", help="model folder; to --check also default (shipped)")
    parser.add_argument("--dataset", required=True, type=Path, metavar="DATASET", help="JSON lines")
    parser.add_argument("--inventory", required=True, type=Path, metavar="FILE", help="senses, JSON or CSV")
    parser.add_argument(
        "--precision",
        type=float,
        default=0.95,
        metavar="P",
        help="share of given answers that should be right (0.95)",
    )
    parser.add_argument(
        "--check", action="store_true", help="measure the calibration that the model has, and change nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(options: argparse.Namespace) -> None:
    """Calibrate the model and print what that achieves."""
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
    result: dict[str, Any] = {
        "temperature": calibration.temperature,
        "least_probability": calibration.least_probability,
        "least_score": calibration.least_score,
        **report_calibration(mentions, calibration).to_dict(),
    }
    if options.json:
        print_json(result)
    else:
        rows = [
            (name, f"{value:.4f}" if isinstance(value, float) else value) for name, value in result.items()
        ]
        print_table(rows, title=str(options.model))
