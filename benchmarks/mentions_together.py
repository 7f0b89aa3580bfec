"""What mentions of one short form in one note gain by sharing what they know, at several weights.

python benchmarks/mentions_together.py                 # the shipped model on the sets of dev_sets.py
python benchmarks/mentions_together.py --model MODEL --dataset D.jsonl --inventory I.json

Only examples of notes that have the short form more than once are scored; weight 0 is each for itself.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from dev_sets import DevSet, benchmark_sets, own_sets
from lmcells.evaluation.calibrate import ScoredMention, score_mentions
from lmcells.evaluation.dataset import Example
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import best_ranker, share
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

WEIGHTS = (0.0, 0.2, 0.35, 0.5, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="default")
    parser.add_argument(
        "--dataset", type=Path, help="with --inventory; without both, the benchmarks and our own"
    )
    parser.add_argument("--inventory", type=Path)
    options = parser.parse_args()
    if (options.dataset is None) != (options.inventory is None):
        parser.error("--dataset and --inventory belong together")
    folder = model_folder(options.model)
    model, calibration = PretrainedModel.from_pretrained(folder), Calibration.load(folder)
    given = [DevSet(options.dataset, options.inventory)] if options.dataset else None
    for dev_set in given or (*benchmark_sets(), *own_sets()):
        compare(model, calibration, dev_set)


def compare(model: PretrainedModel, calibration: Calibration, dev_set: DevSet) -> None:
    """Print accuracy and NLL at each weight."""
    groups: defaultdict[tuple[str, str], list[Example]] = defaultdict(list)
    for example in dev_set.examples:
        groups[example.note_id, example.short_form].append(example)
    ranker = best_ranker(model, dev_set.senses)
    together = [score_mentions(ranker, group, dev_set.senses) for group in groups.values() if len(group) > 1]
    n_alike = sum(len({mention.truth for mention in group}) == 1 for group in together)
    print(
        f"{dev_set.name}: {sum(map(len, together)):,} examples in {len(together):,} notes with several; "
        f"in {n_alike / len(together):.1%} of them one meaning"
    )
    for weight in WEIGHTS:
        likelihoods = [_likelihoods(group, calibration, weight=weight) for group in together]
        right, of_truth = np.concatenate(likelihoods).T
        print(f"  {weight:.2f}  accuracy {right.mean():.3f}  NLL {-np.log(of_truth).mean():.3f}")


def _likelihoods(group: list[ScoredMention], calibration: Calibration, *, weight: float) -> Floats:
    """For each mention whether the best is right, and the probability of the truth: -> (n, 2)."""
    shared = share([mention.scores for mention in group], weight=weight)
    rows = []
    for mention, scores in zip(group, shared, strict=True):
        probabilities = calibration.probabilities(scores)
        rows.append([probabilities.argmax() == mention.truth, max(probabilities[mention.truth], 1e-12)])
    return np.array(rows)


if __name__ == "__main__":
    main()
