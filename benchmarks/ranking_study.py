"""What each choice of ranking is worth: accuracy / macro F1 with one thing changed at a time.

python benchmarks/dev_sets.py            # once, for own_notes and own_papers
python benchmarks/ranking_study.py       # the choices of configs/ranking.toml, the shipped model
python benchmarks/ranking_study.py MODEL MODEL --config CHOICES.toml    # the mean of several models
"""

import argparse
import random
import re
import string
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np

from dev_sets import DRAWN, ROOT, DevSet, benchmark_sets, own_sets
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.rankers import SectionMappingRanker, section_mapper
from lmcells.expansion.long_forms import ScoreWeights
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import SUBWORDS, model_folder

CONFIG = ROOT / "configs" / "ranking.toml"
_LONG_WORD = re.compile(r"[A-Za-z]{6,}")


@dataclass(frozen=True, kw_only=True)
class Choice(ScoreWeights):
    """One way to rank, and what is done to the examples before."""

    reads_section: bool = True
    reads_unknown: bool = True  # words outside the vocabulary, by their spelling
    misspelt: float = 0.0  # share of the long words around a short form

    @property
    def name(self) -> str:
        """What differs from what ships."""
        changed = [each for each in fields(self) if getattr(self, each.name) != each.default]
        return ", ".join(f"{each.name} = {getattr(self, each.name)}" for each in changed) or "as it ships"

    def reader(self, model: PretrainedModel) -> PretrainedModel:
        """The model that reads unknown words, or leaves them out."""
        if self.reads_unknown:
            return model
        files = {name: file for name, file in model.config.files.items() if name != SUBWORDS}
        return replace(model, config=replace(model.config, files=files))

    def prepared(self, examples: Sequence[Example]) -> list[Example]:
        """The examples with and without what the choice wants; the same slips each time."""
        given = examples if self.reads_section else [replace(each, section=None) for each in examples]
        if not self.misspelt:
            return list(given)
        return [_misspelt(each, share=self.misspelt, draw=random.Random(each.id)) for each in given]


def _misspelt(example: Example, *, share: float, draw: random.Random) -> Example:
    slip_some = partial(
        _LONG_WORD.sub, lambda word: _slip(word[0], draw) if draw.random() < share else word[0]
    )
    before, after = slip_some(example.text[: example.start]), slip_some(example.text[example.end :])
    written = example.text[example.start : example.end]
    return replace(example, text=before + written + after, start=len(before), end=len(before + written))


def _slip(word: str, draw: random.Random) -> str:
    """A letter too many, one too few, another one, or two the wrong way round; never the first."""
    at = draw.randrange(1, len(word) - 1)
    letter = draw.choice(string.ascii_lowercase)
    rest = draw.choice(
        (
            letter + word[at:],
            word[at + 1 :],
            letter + word[at + 1 :],
            word[at + 1] + word[at] + word[at + 2 :],
        )
    )
    return word[:at] + rest


def score(model: PretrainedModel, choice: Choice, dev_set: DevSet) -> tuple[float, float]:
    """Accuracy and macro F1."""
    ranker = MaskedSpanRanker(choice.reader(model), dev_set.senses, weights=choice)
    mapped = SectionMappingRanker(ranker, section_mapper(model.sections))  # as `lmcells evaluate` does
    measured = measure(predict("", mapped, choice.prepared(dev_set.examples), dev_set.senses))
    return measured.accuracy, measured.macro_f1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["default"])
    parser.add_argument("--config", type=Path, default=CONFIG, help="the choices")
    parser.add_argument("--own", type=Path, default=DRAWN, help="folder of own_notes and own_papers")
    options = parser.parse_args()
    models = [PretrainedModel.from_pretrained(model_folder(name)) for name in options.models]
    dev_sets = [*benchmark_sets(), *own_sets(options.own)]
    print("| choice |", " | ".join(each.name for each in dev_sets), "|")
    print("|---" * (len(dev_sets) + 1) + "|")
    for settings in tomllib.loads(options.config.read_text("utf-8"))["choice"]:
        choice = Choice(**settings)
        cells = []
        for dev_set in dev_sets:
            accuracy, macro_f1 = np.mean([score(model, choice, dev_set) for model in models], axis=0)
            cells.append(f"{accuracy:.3f} / {macro_f1:.3f}".replace("0.", "."))
        print(f"| {choice.name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
