"""Measure how fast the candidates of a dataset are scored: cached long forms against the authors' way.

    python benchmarks/scoring_speed.py                                # a random LMC of 20,000 words and 1,000 sections
    python benchmarks/scoring_speed.py --model MODEL --examples 200

The authors evaluate the model network for every example x long form x section, one example after the other. We
evaluate it once for each long form and keep four moments; scoring an example is a product with them. Both rank the same
examples of `benchmarks/data` with the same model in the same run, and the divergences must agree.

We score the whole dataset our way, and every n-th example of it the authors' way. Three ratios are printed:

    cached      windows have been read, as in the authors' code, and the inventory's moments are cached
    first time  the same, but including the time to compute the moments, once for all examples
    from text   the first time, including the time to find the words around each short form: the same work for both
"""

import os

for pool in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")  # one core each

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from lmcells.corpus.build import build_corpus
from lmcells.corpus.settings import CorpusSettings
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.expansion import SenseInventory, load_inventory
from lmcells.expansion.long_form_moments import long_form_words, words_section_weights
from lmcells.expansion.ranking import CellRanker
from lmcells.expansion.windows import Mention, WindowReader, section_id_finder
from lmcells.model import Gaussian, ModelConfig, Windows, create_model, kl_divergence
from lmcells.model.networks import ModelNetwork
from lmcells.notes.readers import ReadReport
from lmcells.notes.tokens import iterate_tokens
from lmcells.pretrained import PretrainedModel, ReadWindows, save_pretrained
from locations import SETS

N_WORDS, N_SECTIONS = 20_000, 1_000
TARGET = 50

Scores = npt.NDArray[np.float64]
T = TypeVar("T")


def random_model(folder: Path, examples: list[Example], inventory: SenseInventory) -> PretrainedModel:
    """An LMC that was never trained, whose vocabulary holds the words of the dataset and of the inventory."""
    texts = [example.text for example in examples] + [form for sense in inventory for form in sense.forms]
    words = Counter(token.word for text in texts for token in iterate_tokens(text))
    headers = {example.section for example in examples if example.section}
    fillers = [f"filler{n}x" for n in range(max(0, N_WORDS - len(words)))]
    sections = [*sorted(headers), *(f"SECTION {n}X" for n in range(N_SECTIONS - 1 - len(headers)))]
    per_section = -(-len(fillers) // len(sections))
    notes = [
        {
            "id": f"random/{n}",
            "sections": [
                {
                    "header": header,
                    "text": " ".join(
                        [*fillers[n * per_section : (n + 1) * per_section], texts[n % len(texts)]]
                    ),
                }
            ],
        }
        for n, header in enumerate(sections)
    ] + [
        {"id": f"random/text{n}", "sections": [{"header": "", "text": text}]} for n, text in enumerate(texts)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    settings = CorpusSettings(min_count=0, min_header_count=1, sections="given")
    corpus = build_corpus(folder / "notes.jsonl", output=folder / "corpus", settings=settings)
    torch.manual_seed(0)
    network = create_model(ModelConfig(n_words=len(corpus.words), n_metadata=corpus.n_metadata("section")))
    save_pretrained(network.eval(), folder / "model", corpus=corpus)
    return PretrainedModel.from_pretrained(folder / "model")


def authors_way(
    model: PretrainedModel, inventory: SenseInventory
) -> Callable[[ReadWindows, Mention], Scores]:
    """Scores of one mention: posterior in torch, then the model network for each long form under all sections.

    All sections of all candidates go through the network in one batch, as the authors' do; beta is given.
    """
    network = model.to_torch()
    prior = network.prior
    assert isinstance(prior, ModelNetwork), "the model must be an LMC"
    weights_of = words_section_weights(model)
    words_of = {
        (sense.short_form, sense.long_form): long_form_words(sense, model) for sense in inventory
    }  # tokenized beforehand, as theirs are
    beta_of = {
        (sense.short_form, sense.long_form): torch.from_numpy(weights_of(sense, words_of[key])).float()
        for sense in inventory
        if words_of[key := (sense.short_form, sense.long_form)]
    }
    sections_of = section_id_finder(model)
    n_sections = network.config.n_metadata

    def scores(windows: ReadWindows, mention: Mention) -> Scores:
        q = network.posterior(
            Windows(
                center=torch.from_numpy(windows.center),
                context=torch.from_numpy(windows.context),
                context_mask=torch.from_numpy(windows.context_mask),
                metadata=torch.tensor([sections_of(mention.section)]),
                center_mask=torch.from_numpy(windows.center_mask),
            )
        ).cell
        keys = [(mention.short_form, sense.long_form) for sense in inventory.senses(mention.short_form)]
        known = [row for row, key in enumerate(keys) if words_of[key]]
        vectors = torch.stack(
            [prior.words.weight[words_of[keys[row]]].mean(dim=0) for row in known]
        )  # (K, E)
        sections = torch.arange(n_sections).expand(len(known), -1)  # (K, M)
        p = prior.of_vectors(vectors.unsqueeze(1).expand(-1, n_sections, -1), sections)  # (K, M)
        each = kl_divergence(Gaussian(q.mean.unsqueeze(1), q.log_variance.unsqueeze(1)), p)  # (K, M)
        beta = torch.stack([beta_of[keys[row]] for row in known])
        found = np.full(len(keys), -np.inf)
        found[known] = -(each * beta).sum(dim=1).double().numpy()
        return found

    return scores


def main() -> None:
    """Time both, compare their scores, and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="an LMC's folder (a random one is made)")
    parser.add_argument("--dataset", type=Path, default=SETS / "reverse_dev.jsonl")
    parser.add_argument("--inventory", type=Path, default=SETS / "casi_inventory.json")
    parser.add_argument("--examples", type=int, default=100, help="scored the authors' way (100)")
    parser.add_argument("--rounds", type=int, default=3, help="of ours; the fastest counts (3)")
    options = parser.parse_args()
    if not options.dataset.exists():
        sys.exit(f"{options.dataset} is not there; give --dataset and --inventory")
    torch.set_num_threads(1)
    inventory = load_inventory(options.inventory)
    examples = list(read_dataset(options.dataset, report=ReadReport()))
    mentions = [
        Mention(each.text, each.start, each.end, each.short_form, each.section)
        for each in examples
        if each.short_form in inventory
    ]
    with tempfile.TemporaryDirectory() as folder:
        model = (
            PretrainedModel.from_pretrained(options.model)
            if options.model
            else random_model(Path(folder), examples, inventory)
        )
        print(f"{len(model.words):,} words, {len(model.sections):,} sections, {len(mentions):,} examples")
        rounds = [our_way(model, inventory, mentions) for _ in range(options.rounds)]
        ours = rounds[0].scores
        reading, first, cached = (
            min(seconds) / len(mentions)
            for seconds in zip(*((each.reading, each.first, each.cached) for each in rounds), strict=True)
        )
        chosen = range(
            0, len(mentions), max(1, len(mentions) // options.examples)
        )  # of all short forms alike
        with torch.inference_mode():
            score = authors_way(model, inventory)
            read = WindowReader(model.word_ids, radius=model.sizes.window)
            each = [read([mentions[row]]) for row in chosen]
            score(each[0], mentions[0])
            theirs, their_scoring = timed(
                lambda: [score(window, mentions[row]) for window, row in zip(each, chosen, strict=True)]
            )
    for row, expected in zip(chosen, theirs, strict=True):
        np.testing.assert_allclose(ours[row], expected, rtol=1e-3, atol=1e-3)
    print(f"divergences agree within {largest_difference([ours[row] for row in chosen], theirs):.1e}")
    theirs_each = their_scoring / len(theirs)
    for name, one, other in (
        ("cached", cached, theirs_each),
        ("first time", first, theirs_each),
        ("from text", first + reading, theirs_each + reading),
    ):
        print(
            f"{name:<10}  ours {1 / one:>9,.0f} examples/s, authors' {1 / other:>6,.0f}: {other / one:>5,.0f} x"
        )
    print(f"cached scoring is to be at least {TARGET} x: {'yes' if theirs_each >= TARGET * cached else 'NO'}")


@dataclass(frozen=True)
class OurRound:
    """Scores of all mentions, and the seconds that each part took."""

    scores: list[Scores]
    reading: float
    first: float
    cached: float


def our_way(model: PretrainedModel, inventory: SenseInventory, mentions: list[Mention]) -> OurRound:
    """Score all mentions with a new ranker, which has nothing cached, and once more."""
    ranker = CellRanker(model, inventory)
    windows, reading = timed(lambda: ranker.read(mentions))
    scores, first = timed(lambda: ranker.window_scores(windows, mentions))
    _, cached = timed(lambda: ranker.window_scores(windows, mentions))
    return OurRound(scores, reading, first, cached)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Do some work, and say how long it took."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def largest_difference(ours: list[Scores], theirs: list[Scores]) -> float:
    """Between the scores of the long forms that have one."""
    return max(
        float(np.abs(one[np.isfinite(other)] - other[np.isfinite(other)]).max())
        for one, other in zip(ours, theirs, strict=True)
    )


if __name__ == "__main__":
    main()
