"""Measure what some choices of docs/differences.md are worth: those about test sets, counts and metrics.

    export LMCELLS_DATA=FOLDER
    lmcells reproduce --config configs/open.toml --output build/open \
        --only 'dataset/*' --only corpus/main --only train/lmc-paper-0
    python benchmarks/differences.py build/open/train/lmc-paper-0 --corpus build/open/corpus --encoder FOLDER

One model trained as in the paper scores examples of dev notes, each choice both ways. The examples are substituted as
for the paper's MIMIC RS, for the short forms of CASI that have examples of two senses. Intervals are of the
difference, by note. With `--encoder`, a sentence encoder in BERT's place reads the window both ways.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dev_sets import TEXTS
from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.encoder_baselines import PretrainedEncoder, transformer_ranker
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.intervals import paired_bootstrap
from lmcells.evaluation.long_form_finder import LongFormFinder
from lmcells.evaluation.metrics import measure, tally
from lmcells.evaluation.predictions import Predictions
from lmcells.evaluation.rankers import count_sections_in_corpus, count_sections_of_examples, section_ranker
from lmcells.evaluation.reverse import build_reverse_dataset, readable_words
from lmcells.expansion import Sense, SenseInventory, load_inventory
from lmcells.expansion.long_form_moments import LongFormOccurrences, SectionWeights
from lmcells.expansion.ranking import CellRanker, Ranker, best_ranker
from lmcells.expansion.windows import Mention, known_section
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport, read_notes
from lmcells.notes.section_styles import section_finder
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel
from locations import SETS, half_of, text_folder

WORDS = 20  # on each side of an example
READ = 10  # of these, by a model
_WORD = re.compile(r"\S+")


def dev_notes() -> Iterator[Note]:
    """Yield the notes of the sources that configs/open.toml trains on, of the dev half."""
    for name in TEXTS["own_notes"]:
        yield from read_notes(text_folder() / "dev" / f"{name}.parquet", report=ReadReport())


def substituted(
    inventory: SenseInventory, *, drop_repeated: bool = True
) -> tuple[list[Example], SenseInventory]:
    """Substitute long forms in dev notes; -> the examples and their candidates."""
    finder, find_sections = LongFormFinder(inventory), section_finder("given")
    (part,) = build_reverse_dataset(
        dev_notes(),
        inventory,
        finder=finder,
        find_sections=find_sections,
        window=WORDS,
        allow_candidates=True,
        drop_repeated=drop_repeated,
    ).values()
    return part.examples, part.inventory


def as_in_the_paper(example: Example) -> Example:
    """Cut a window down to 20 words of any kind on each side."""
    before, after = example.text[: example.start], example.text[example.end :]
    starts = [word.start() for word in _WORD.finditer(before)]
    ends = [word.end() for word in _WORD.finditer(after)]
    first = starts[-WORDS] if len(starts) > WORDS else 0
    last = ends[WORDS - 1] if len(ends) > WORDS else len(after)
    text = before[first:] + example.short_form + after[:last]
    return replace(example, text=text, start=example.start - first, end=example.end - first)


def without_repeats(examples: Sequence[Example]) -> int:
    """Count the examples that differ in their long form or their words, whatever their short form."""
    cut = map(as_in_the_paper, examples)
    return len(
        {
            (each.long_form, *_WORD.findall(each.text[: each.start] + " " + each.text[each.end :]))
            for each in cut
        }
    )


def n_readable(example: Example) -> tuple[int, int]:
    """Count the words that a model reads on each side."""
    starts, _ = readable_words(example.text)
    return int((starts < example.start).sum()), int((starts >= example.end).sum())


def sections_of_the_test(model: PretrainedModel, examples: Sequence[Example]) -> SectionWeights:
    """Return p(section | long form) as counted on the test examples, without smoothing."""
    counts = {sense: Counter(of_sense) for sense, of_sense in count_sections_of_examples(examples).items()}

    def weights(sense: Sense, _: Sequence[int]) -> npt.NDArray[np.float64]:
        weight = np.zeros(len(model.sections))
        for section, n in counts.get((sense.short_form, sense.long_form), Counter[str]()).items():
            name = known_section(section, model.section_ids) or NO_SECTION
            weight[model.section_ids[name]] += n
        return weight / weight.sum() if weight.any() else np.full(weight.size, 1 / weight.size)

    return weights


def macro_f1_of_occurring(predictions: Predictions) -> float:
    """Return macro F1 over the long forms that occur, whatever else was predicted."""
    counts = tally(predictions)
    f1 = 2 * counts.right / np.maximum(counts.support + counts.predicted, 1)
    occurs = (counts.support > 0).astype(np.float64)
    n_occurring = counts.by_short_form(occurs)
    by_short_form = counts.by_short_form(f1 * occurs)[n_occurring > 0] / n_occurring[n_occurring > 0]
    return float(by_short_form.mean())


def window_of_the_code(text_of: Callable[[Mention], str]) -> Callable[[Mention], str]:
    """Cut windows as the authors' code does for BERT: without the short form and without stop words."""

    def window(mention: Mention) -> str:
        whole = text_of(mention)
        first = mention.text.index(whole)
        around = whole[: mention.start - first] + " " + whole[mention.end - first :]
        return " ".join(token.word for token in iterate_tokens(around))

    return window


def compare(what: str, theirs: Predictions, ours: Predictions) -> None:
    """Print accuracy and macro F1 both ways, and how they differ."""
    cells = []
    of_difference = paired_bootstrap(ours, theirs)
    for metric in ("accuracy", "macro_f1"):
        before, after = getattr(measure(theirs), metric), getattr(measure(ours), metric)
        interval = of_difference[metric]
        cells.append(
            f"{before:.3f} | {after:.3f} | {after - before:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
        )
    print(f"| {what} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="folder of an LMC")
    parser.add_argument("--corpus", type=Path, required=True, metavar="CORPUS", help="that it was trained on")
    parser.add_argument("--encoder", type=Path, metavar="FOLDER", help="of a sentence encoder")
    options = parser.parse_args()
    model, corpus = PretrainedModel.from_pretrained(options.model), Corpus.open(options.corpus)
    inventory = load_inventory(SETS / "casi_inventory.json")
    examples, senses = substituted(inventory)
    occurrences = LongFormOccurrences(corpus)
    ranker: Ranker = best_ranker(model, senses, occurrences=occurrences)

    def score(scored: Sequence[Example], by: Ranker = ranker) -> Predictions:
        return predict("lmc", by, scored, senses)

    ours, in_paper = score(examples), [as_in_the_paper(example) for example in examples]
    print(f"{len(examples):,} examples, {len(senses)} short forms, {senses.n_senses} senses\n")
    n_short = sum(
        min(n_readable(cut)) < READ <= min(n_readable(whole))
        for cut, whole in zip(in_paper, examples, strict=True)
    )
    print(
        f"{n_short / len(examples):.3f} of the windows of 20 words of any kind have fewer than {READ} readable ones"
    )
    print("on a side that has more\n")
    with_repeats, _ = substituted(inventory, drop_repeated=False)
    n_kept = without_repeats(with_repeats)
    print(
        f"of {len(with_repeats):,} examples {len(examples):,} are no repeats, by the paper's code {n_kept:,}\n"
    )
    print("| | accuracy: theirs | ours | difference | macro F1: theirs | ours | difference |")
    print("|---|---|---|---|---|---|---|")
    compare("windows: 20 words of any kind, or 20 readable ones", score(in_paper), ours)
    on_test = CellRanker(model, senses, section_weights=sections_of_the_test(model, examples))
    compare("p(section given long form): of the test, or of training notes", score(examples, on_test), ours)
    even, odd = ([each for each in examples if half_of(each.note_id) == half] for half in ("even", "odd"))
    held_out = section_ranker(senses, count_sections_of_examples(odd)).base
    of_training = section_ranker(senses, count_sections_in_corpus(senses, occurrences)).base
    compare(
        "section MLE: of held-out notes, or of training notes",
        score(even, held_out),
        score(even, of_training),
    )
    if options.encoder:
        encoder = transformer_ranker(PretrainedEncoder.sentence(options.encoder), senses, words=corpus.words)
        whole = score(examples, encoder)
        encoder.window = window_of_the_code(encoder.window)
        compare(
            "encoder: window without short form and stop words, or as written",
            score(examples, encoder),
            whole,
        )
    occurring, both = macro_f1_of_occurring(ours), measure(ours).macro_f1
    of_labels = "macro F1: of long forms that occur, or also of those predicted"
    print(f"| {of_labels} | | | | {occurring:.3f} | {both:.3f} | {both - occurring:+.3f} |")


if __name__ == "__main__":
    main()
