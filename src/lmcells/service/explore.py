"""What the Explore view asks of a model; what takes long is made once, when it is first asked for.

An explorer is asked by one thread: `ExploringThread` sees to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lmcells.analysis.gate.interpolation import Interpolation, interpolate, spelt_as_in
from lmcells.analysis.gate.rankings import section_ranker
from lmcells.analysis.mixtures.marginals import word_mixture
from lmcells.analysis.mixtures.plane import mixture_plane
from lmcells.analysis.names import section_id
from lmcells.analysis.sections.embeddings import frequent_sections
from lmcells.analysis.sections.map import SectionMap, map_sections
from lmcells.analysis.sections.neighbors import NearestSections, nearest_sections
from lmcells.analysis.sections.statistics import section_statistics
from lmcells.analysis.words.cells import WordCells
from lmcells.analysis.words.neighbors import NearestWords, nearest_words
from lmcells.analysis.words.senses import WordSenses, word_senses
from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.expansion.posterior_ranking import PosteriorRanker
from lmcells.pretrained import PretrainedModel
from lmcells.service.inventory_search import InventorySearch
from lmcells.service.name_search import NameSearch, holding

_N_CLUSTERS = 12
_SHORT_FORM, _SECTION = "MG", "IMAGING"  # the paper's figure
_WORD, _SECTIONS = "history", ("SOCIAL HISTORY", "FAMILY HISTORY", "PAST MEDICAL HISTORY")


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What to show first: the paper's examples where the model knows them, else what is common in it."""

    n_words: int
    n_sections: int
    n_short_forms: int
    short_form: str
    section: str
    word: str
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundNames:
    """Names for a text, with how often each was seen; `known` is the one that the text names, if any."""

    known: str | None
    names: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Place:
    """A place on a plane."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class PlacedCell:
    """A word's cell under a section, and where its mean lies."""

    section: str
    weight: float  # in the mixture
    variance: float
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class PlacedMixture:
    """A word's cells on a plane, the heaviest first, and its average."""

    word: str
    n_seen: int
    n_counted: int  # occurrences that the weights rest on
    covered: float  # weight of these cells among all
    share: float  # of the squared distances, how much the plane shows
    expected: Place
    components: tuple[PlacedCell, ...]


class Explorer:
    """Answers questions about a model that reads sections; another has nothing to explore."""

    def __init__(self, expander: Expander) -> None:
        self._model = expander.model
        self._inventory = expander.inventory
        self._calibration = expander.calibration
        self._maps: dict[str, SectionMap] = {}

    @property
    def model(self) -> PretrainedModel:
        """The model, if its words move with their section."""
        kind = self._model.sizes.kind
        if kind != "lmc":
            raise InputError(
                f"the service's model is of kind {kind!r}, whose words do not move with their section: there is "
                "nothing to explore. Serve a model of kind 'lmc'."
            )
        return self._model

    def first_look(self) -> FirstLook:
        """Choose the first examples."""
        model = self.model
        sections = [model.sections[id_] for id_ in frequent_sections(model).tolist()]
        words = [_WORD] if _WORD in model.word_ids else [name for name, _ in self._words("", limit=1)]
        if not (words and sections and len(self._inventory)):
            raise InputError(
                "the service's model has no words or sections, or its inventory no senses: there is nothing to explore."
            )
        ambiguous = [name for name, senses in self._inventory.by_short_form.items() if len(senses) > 1]
        return FirstLook(
            n_words=len(model.words),
            n_sections=len(sections),
            n_short_forms=len(self._inventory),
            short_form=_SHORT_FORM
            if _SHORT_FORM in self._inventory
            else (ambiguous or self._inventory.short_forms)[0],
            section=_SECTION if _SECTION in model.section_ids else sections[0],
            word=words[0],
            sections=tuple(name for name in _SECTIONS if name in model.section_ids) or tuple(sections[:3]),
        )

    def names(self, kind: str, text: str, *, limit: int) -> FoundNames:
        """Find words, sections or short forms by their beginning, or the nearest ones."""
        model, text = self.model, text.strip()
        if kind == "word":
            search = self._words
            known = next((word for word in (text, text.lower()) if word in model.word_ids), None)
        elif kind == "section":
            search = self._sections
            known = _unless_refused(lambda: model.sections[section_id(model, text)]) if text else None
        else:
            search = self._short_forms
            known = spelt_as_in(self._inventory, text)
        known = known if known in search else None  # a placeholder has an id, and nothing to show
        names = search(text, limit=limit)
        if known is not None and known not in dict(names):  # the text is another name of it
            names = [*search(known, limit=1), *names[: limit - 1]]
        return FoundNames(known, names)

    def neighbors(self, word: str, section: str | None, *, against: str, n: int) -> NearestWords:
        """The words nearest to a word, under a section or on average."""
        return nearest_words(self._cells, word, section, against=against, n=n)

    def senses(
        self, word: str, *, sections: Sequence[str], words: Sequence[str], n_words: int, n_neighbors: int
    ) -> WordSenses:
        """A word under some sections."""
        return word_senses(
            self._cells, word, sections=sections, words=words, n_words=n_words, n_neighbors=n_neighbors
        )

    def interpolation(self, short_form: str, section: str, *, steps: int) -> Interpolation:
        """What a short form means as the gate is moved."""
        return interpolate(
            self._ranker, short_form, section=section, steps=steps, calibration=self._calibration
        )

    def section_map(self, network: str) -> SectionMap:
        """The sections of a network on a plane."""
        if network not in self._maps:
            n_clusters = max(1, min(_N_CLUSTERS, frequent_sections(self.model).size // 2))
            self._maps[network] = map_sections(self.model, network=network, n_clusters=n_clusters)
        return self._maps[network]

    def nearest_sections(self, section: str, *, n: int) -> NearestSections:
        """The sections nearest to one."""
        return nearest_sections(self.model, section, n=n)

    def mixture(self, word: str, *, most: int) -> PlacedMixture:
        """The cells of a word by section, on a plane."""
        marginal = word_mixture(self.model, word, most=most)
        plane = mixture_plane([marginal], most=most)
        rows = zip(
            marginal.parts,
            marginal.mixture.weights.tolist(),
            marginal.mixture.variances.tolist(),
            plane.components[0].tolist(),
            strict=True,
        )
        return PlacedMixture(
            word=marginal.name,
            n_seen=marginal.n_seen or 0,
            n_counted=marginal.n_counted,
            covered=marginal.covered,
            share=plane.share,
            expected=Place(*plane.expected[0].tolist()),
            components=tuple(
                PlacedCell(section, weight, variance, *place) for section, weight, variance, place in rows
            ),
        )

    @cached_property
    def _cells(self) -> WordCells:
        return WordCells(self.model)

    @cached_property
    def _ranker(self) -> PosteriorRanker:
        return section_ranker(self.model, self._inventory)

    @cached_property
    def _words(self) -> NameSearch:
        counts = zip(self.model.words, self.model.word_counts.tolist(), strict=True)
        return NameSearch({word: count for word, count in counts if not word.startswith("<")})

    @cached_property
    def _sections(self) -> NameSearch:
        n_tokens = section_statistics(self.model).n_tokens.tolist()
        counts = {self.model.sections[id_]: n_tokens[id_] for id_ in frequent_sections(self.model).tolist()}
        return NameSearch(counts, held_by=holding(list(counts)))

    @cached_property
    def _short_forms(self) -> NameSearch:
        counts = {name: len(senses) for name, senses in self._inventory.by_short_form.items()}
        return NameSearch(counts, held_by=InventorySearch(self._inventory))


def _unless_refused(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except InputError:
        return None
