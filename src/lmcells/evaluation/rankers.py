"""Rankers by name (MODEL on the command line): model folders and baselines; and the baselines that read no words.

Ranking equal candidates in the inventory's order would favour whatever its author wrote first. `random` and
`section-mle` therefore break ties at random, by differences too small to affect a probability.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION
from lmcells.errors import InputError, nearest
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.encoder_baselines import PretrainedEncoder, elmo_ranker, transformer_ranker
from lmcells.evaluation.predictions import Floats
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_form_moments import LongFormOccurrences
from lmcells.expansion.ranking import Ranker, Ranking, best_ranker, ranks_by_masked_span
from lmcells.expansion.windows import Mention, known_section
from lmcells.language_model.folder import is_language_model, load_language_model
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

ORACLE = "dominant"
NAMES = ("random", ORACLE, "section-mle")
PREFIXES = ("section-mle:DATASET", "bert:FOLDER", "encoder:FOLDER")
CHOICES = f"a model folder, {', '.join((DEFAULT, *NAMES, *PREFIXES))}"
_TABLES = (  # embeddings: what the paper's counts of parameters leave out
    *("variational.context.words.weight", "variational.metadata.weight"),
    *("prior.words.weight", "prior.metadata.weight", "prior.mean.weight", "prior.log_variance.weight"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRanker:
    """A ranker under evaluation.

    A cell model ranks as it does in `Expander`: the same windows, sections, scorer and temperature. Only ranking by
    divergence differs if there is a corpus: it uses the counts of long forms, not only those of their words.
    """

    base: Ranker
    temperature: float = 1.0  # softmax(score / temperature) are the probabilities
    # Whether it has read text under a header; None: it reads no sections.
    knows: Callable[[str], bool] | None = None
    n_parameters: int | None = None  # without embeddings
    hours_to_peak: float | None = None
    corpus_fingerprint: str | None = None  # of the corpus it was trained on

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of each mention, so that their softmax is the model's probability."""
        return [scores / self.temperature for scores in self.base.scores(mentions)]


def make_ranker(
    name: str,
    inventory: SenseInventory,
    *,
    examples: Sequence[Example],
    corpus: Corpus | None = None,
    words: Iterable[str] | None = None,
    ranking: Ranking = "auto",
    seed: int = 0,
) -> NamedRanker:
    """Open a ranker by its name; `corpus` has counts of long forms, `words` count towards a transformer's window."""
    kind, colon, argument = name.partition(":")
    if name == "random":
        return NamedRanker(base=PriorRanker(inventory, lambda _sense, _section: 1.0, seed=seed))
    if name == ORACLE:
        return NamedRanker(base=dominant_ranker(inventory, examples))
    if kind == "section-mle" and (not colon or argument):
        if argument:
            counts = count_sections_of_examples(read_dataset(Path(argument), report=ReadReport()))
        elif corpus is not None:
            counts = count_sections_in_corpus(inventory, LongFormOccurrences(corpus))
        else:
            raise InputError(
                "section-mle counts the sections of long forms in training notes. Give them: --corpus CORPUS, or "
                "section-mle:DATASET with reverse substitutions in training notes."
            )
        return section_ranker(inventory, counts, seed=seed)
    if kind in ("bert", "encoder") and argument:
        open_encoder = PretrainedEncoder.bert if kind == "bert" else PretrainedEncoder.sentence
        encoder = open_encoder(Path(argument))
        transformer = transformer_ranker(encoder, inventory, words=words)
        return NamedRanker(base=transformer, n_parameters=encoder.n_parameters)
    folder = model_folder(name)
    if is_language_model(folder):
        pretrained = load_language_model(folder)
        return NamedRanker(
            base=elmo_ranker(pretrained, inventory),
            n_parameters=pretrained.training.get("parameters"),
            hours_to_peak=pretrained.training.get("hours_to_peak"),
            corpus_fingerprint=pretrained.corpus.get("fingerprint"),
        )
    if not folder.is_dir():
        raise InputError(f"MODEL: found {name!r}, allowed: {CHOICES}.{nearest(name, NAMES)}")
    model = PretrainedModel.from_pretrained(folder)
    occurrences = None
    if corpus is not None:
        occurrences = LongFormOccurrences(corpus, metadata_kind=model.config.metadata_kind)
    reads_sections = model.sizes.kind != "bsg" and model.config.metadata_kind == "section"
    return NamedRanker(
        base=best_ranker(model, inventory, ranking=ranking, occurrences=occurrences),
        temperature=calibration_of(model, ranking=ranking).temperature,
        knows=(lambda each: known_section(each, model.section_ids) is not None) if reads_sections else None,
        n_parameters=sum(array.size for table, array in model.arrays.items() if table not in _TABLES),
        hours_to_peak=model.config.training.get("hours_to_peak"),
        corpus_fingerprint=model.config.corpus.get("fingerprint"),
    )


def calibration_of(model: PretrainedModel, *, ranking: Ranking = "auto") -> Calibration:
    """The model's calibration, for the ranking that it was fitted on; a plain softmax for another."""
    is_own = ranks_by_masked_span(model, ranking) == ranks_by_masked_span(model)
    return Calibration.load(model.folder) if is_own else Calibration()


def window_words(names: Iterable[str], *, corpus: Corpus | None = None) -> frozenset[str] | None:
    """The words that make up every model's window: the corpus', else those of the first model folder, else any."""
    if corpus is not None:
        return frozenset(corpus.words)
    for name in names:
        is_folder = ":" not in name and name not in (DEFAULT, *NAMES) and Path(name).is_dir()
        if is_folder and not is_language_model(Path(name)):
            return frozenset(PretrainedModel.from_pretrained(name).words)
    return None


TIE_BREAK = 1e-9
FLOOR = 1e-6  # in place of a probability of 0: NLL stays finite, and no count in a real corpus is that rare

SectionCounts = Mapping[tuple[str, str], Counter[str]]  # short form, long form -> section -> occurrences


@dataclass(eq=False)
class PriorRanker:
    """Scores log p(sense), where p may depend on the section; with a seed, ties are broken at random."""

    inventory: SenseInventory
    probability: Callable[[Sense, str], float]
    seed: int | None = None

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        random = np.random.default_rng(self.seed)
        scores = []
        for mention in mentions:
            senses = self.inventory.senses(mention.short_form)
            p = [self.probability(sense, mention.section or NO_SECTION) for sense in senses]
            noise = 0.0 if self.seed is None else TIE_BREAK * random.random(len(p))
            scores.append(np.log(np.maximum(p, FLOOR)) + noise)
        return scores


def dominant_ranker(inventory: SenseInventory, examples: Sequence[Example]) -> PriorRanker:
    """Always the most common sense of the test set itself, on a tie the inventory's first: an oracle."""
    counts = Counter((example.short_form, example.long_form) for example in examples)
    totals = {
        short_form: sum(counts[short_form, sense.long_form] for sense in inventory.senses(short_form))
        for short_form in inventory.short_forms
    }
    return PriorRanker(
        inventory,
        lambda sense, _: counts[sense.short_form, sense.long_form] / max(totals[sense.short_form], 1),
    )


def section_ranker(inventory: SenseInventory, counts: SectionCounts, *, seed: int = 0) -> NamedRanker:
    """p(long form | section), proportional to p(section | long form) = C(section, long form) / C(long form).

    The paper's maximum-likelihood estimate: no prior of the long form, no smoothing. A probability of 0 (a section
    never seen with a long form, or a long form never seen) becomes 1e-6; ties are broken at random. "No section" counts
    as a section.
    """
    known = frozenset(section for of_sense in counts.values() for section in of_sense)
    totals = {sense: of_sense.total() for sense, of_sense in counts.items()}

    def probability(sense: Sense, section: str) -> float:
        key, name = (sense.short_form, sense.long_form), known_section(section, known)
        return counts[key][name] / totals[key] if name and totals.get(key) else 0.0

    base = PriorRanker(inventory, probability, seed=seed)
    return NamedRanker(base=base, knows=lambda section: known_section(section, known) is not None)


def count_sections_of_examples(examples: Iterable[Example]) -> SectionCounts:
    """Count on a dataset, such as reverse substitutions in training notes."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for example in examples:
        counts[example.short_form, example.long_form][example.section or NO_SECTION] += 1
    return counts


def count_sections_in_corpus(inventory: SenseInventory, occurrences: LongFormOccurrences) -> SectionCounts:
    """Count the occurrences of long forms in a corpus, as reverse substitution would find them in its notes."""
    names = occurrences.corpus.metadata_names("section")
    counts = {}
    for sense in inventory:
        of_section = zip(names, occurrences.metadata_counts(sense).tolist(), strict=True)
        counts[sense.short_form, sense.long_form] = Counter({name: int(n) for name, n in of_section if n})
    return counts
