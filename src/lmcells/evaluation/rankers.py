"""What MODEL on the command line means: a model folder, or the name of a baseline."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.errors import InputError, nearest
from lmcells.evaluation.baselines import (
    DominantRanker,
    RandomRanker,
    SectionCounts,
    SectionMleRanker,
    count_sections_in_corpus,
    count_sections_of_examples,
)
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.evaluation.elmo_ranker import ElmoRanker
from lmcells.evaluation.predictions import Floats
from lmcells.evaluation.section_mapping import SectionMapper
from lmcells.evaluation.transformer_baselines import PretrainedEncoder, TransformerRanker
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import LongFormOccurrences, counted_section_weights, smoothing_in_training
from lmcells.expansion.ranking import CellRanker, MaskedSpanRanker, Ranker, Ranking, ranks_by_masked_span
from lmcells.expansion.windows import Mention
from lmcells.language_model.folder import is_language_model
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

ORACLE = "dominant"
NAMES = ("random", ORACLE, "section-mle")
PREFIXES = ("section-mle:DATASET", "bert:FOLDER", "encoder:FOLDER")
CHOICES = f"a model folder, {', '.join((DEFAULT, *NAMES, *PREFIXES))}"
_TABLES = (  # embeddings: what the paper's counts of parameters leave out
    "variational.context.words.weight",
    "variational.metadata.weight",
    "prior.words.weight",
    "prior.metadata.weight",
    "prior.mean.weight",
    "prior.log_variance.weight",
)


@dataclass(frozen=True, slots=True)
class NamedRanker:
    """A ranker, what it is called, and what is known about it."""

    name: str
    ranker: Ranker
    n_parameters: int | None = None  # without embeddings
    hours_to_peak: float | None = None
    sections: SectionMapper | None = None  # counts how the dataset's headers were mapped
    corpus_fingerprint: str | None = None  # of the corpus it was trained on


class CalibratedRanker:
    """Another ranker's scores, so that their softmax is a calibrated probability."""

    def __init__(self, ranker: Ranker, calibration: Calibration) -> None:
        self._ranker = ranker
        self._temperature = calibration.temperature

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """The other's scores, divided by the temperature."""
        return [scores / self._temperature for scores in self._ranker.scores(mentions)]


class SectionMappingRanker:
    """Puts a known header in the place of a foreign one, and asks another ranker.

    A header without a counterpart is left as it is: the ranker has its own answer to an unknown header. One that a
    manual map gives nothing for is no section.
    """

    def __init__(self, ranker: Ranker, mapper: SectionMapper) -> None:
        self._ranker = ranker
        self._mapper = mapper

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """The other's scores."""
        return self._ranker.scores([self._mapped(mention) for mention in mentions])

    def _mapped(self, mention: Mention) -> Mention:
        mapped = self._mapper(mention.section)
        return mention if mapped.how == "unmapped" else replace(mention, section=mapped.section)


def section_mapper(sections: Iterable[str], section_map: Mapping[str, str | None] = {}) -> SectionMapper:
    """What puts one of a model's sections in the place of a foreign one."""
    known = [section for section in sections if section not in (NO_SECTION, OTHER)]
    return SectionMapper(known, manual=section_map)


def make_ranker(
    name: str,
    inventory: SenseInventory,
    *,
    examples: Sequence[Example],
    corpus: Corpus | None = None,
    section_map: Mapping[str, str | None] = {},
    words: Container[str] | None = None,
    ranking: Ranking = "auto",
    seed: int = 0,
) -> NamedRanker:
    """Find out what a name stands for, and open it.

    `corpus` supplies the counts of long forms; `section_map` overrides how headers are mapped to known ones; `words`
    are those that count towards a transformer's window; `ranking` is how a cell model ranks.
    """
    kind, colon, argument = name.partition(":")
    if name == "random":
        return NamedRanker(name, RandomRanker(inventory, seed=seed))
    if name == ORACLE:
        return NamedRanker(name, DominantRanker(inventory, examples))
    if kind == "section-mle" and (not colon or argument):
        counts = _section_counts(argument, inventory, corpus=corpus)
        by_section = SectionMleRanker(inventory, counts, seed=seed)
        return _with_sections(NamedRanker(name, by_section), by_section.sections, section_map)
    if kind in ("bert", "encoder") and argument:
        open_encoder = PretrainedEncoder.bert if kind == "bert" else PretrainedEncoder.sentence
        encoder = open_encoder(Path(argument))
        transformer = TransformerRanker(encoder, inventory, words=words)
        return NamedRanker(name, transformer, n_parameters=encoder.n_parameters)
    folder = model_folder(name)
    if is_language_model(folder):
        return _elmo_ranker(name, inventory)
    if folder.is_dir():
        model = PretrainedModel.from_pretrained(folder)
        ranker = _masked_span_ranker if ranks_by_masked_span(model, ranking) else _divergence_ranker
        return _of_cell_model(name, model, ranker(model, inventory, corpus=corpus), section_map=section_map)
    raise InputError(f"MODEL: found {name!r}, allowed: {CHOICES}.{nearest(name, NAMES)}")


def window_words(names: Iterable[str], *, corpus: Corpus | None = None) -> frozenset[str] | None:
    """The words that make up every model's window: the corpus', else those of the first model folder, else any."""
    if corpus is not None:
        return frozenset(corpus.words)
    for name in names:
        is_folder = ":" not in name and name not in (DEFAULT, *NAMES) and Path(name).is_dir()
        if is_folder and not is_language_model(Path(name)):
            return frozenset(PretrainedModel.from_pretrained(name).words)
    return None


def _elmo_ranker(name: str, inventory: SenseInventory) -> NamedRanker:
    from lmcells.language_model.folder import load_language_model

    pretrained = load_language_model(Path(name))
    return NamedRanker(
        name,
        ElmoRanker(pretrained, inventory),
        n_parameters=pretrained.training.get("parameters"),
        hours_to_peak=pretrained.training.get("hours_to_peak"),
        corpus_fingerprint=pretrained.corpus.get("fingerprint"),
    )


def _masked_span_ranker(
    model: PretrainedModel,
    inventory: SenseInventory,
    *,
    corpus: Corpus | None,  # noqa: ARG001
) -> Ranker:
    """The model alone: what a corpus could tell about long forms, its phrase store knows."""
    return CalibratedRanker(MaskedSpanRanker(model, inventory), Calibration.load(model.folder))


def _divergence_ranker(model: PretrainedModel, inventory: SenseInventory, *, corpus: Corpus | None) -> Ranker:
    weights = None
    if corpus is not None and model.sizes.kind == "lmc":
        places = LongFormOccurrences(corpus, metadata_kind=model.config.metadata_kind)
        weights = counted_section_weights(model, places, add=smoothing_in_training(model))
    return CellRanker(model, inventory, section_weights=weights)


def _of_cell_model(
    name: str, model: PretrainedModel, ranker: Ranker, *, section_map: Mapping[str, str | None]
) -> NamedRanker:
    training = model.config.training
    named = NamedRanker(
        name,
        ranker,
        n_parameters=sum(array.size for name, array in model.arrays.items() if name not in _TABLES),
        hours_to_peak=training.get("hours_to_peak"),
        corpus_fingerprint=model.config.corpus.get("fingerprint"),
    )
    reads_sections = model.sizes.kind != "bsg" and model.config.metadata_kind == "section"
    return _with_sections(named, model.sections, section_map) if reads_sections else named


def _with_sections(
    named: NamedRanker, sections: Iterable[str], section_map: Mapping[str, str | None]
) -> NamedRanker:
    mapper = section_mapper(sections, section_map)
    return replace(named, ranker=SectionMappingRanker(named.ranker, mapper), sections=mapper)


def _section_counts(dataset: str, inventory: SenseInventory, *, corpus: Corpus | None) -> SectionCounts:
    if dataset:
        return count_sections_of_examples(read_dataset(Path(dataset), report=ReadReport()))
    if corpus is None:
        raise InputError(
            "section-mle counts where long forms stand in training notes. Give them: --corpus CORPUS, or "
            "section-mle:DATASET with reverse substitutions in training notes."
        )
    return count_sections_in_corpus(inventory, LongFormOccurrences(corpus))
