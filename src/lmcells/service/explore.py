"""What the Explore view asks of a model; what takes long is made once, when it is first asked for.

An explorer is asked by one thread: `ExploringThread` sees to it.
"""

import asyncio
import difflib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from starlette.exceptions import HTTPException

from lmcells.analysis.cells import WordCells
from lmcells.analysis.interpolation import Interpolation, interpolate, section_ranker, spelt_as_in
from lmcells.analysis.mixtures import mixture_plane, word_mixture
from lmcells.analysis.names import section_id, section_statistics
from lmcells.analysis.neighbors import NearestWords, nearest_words
from lmcells.analysis.sections import (
    NearestSections,
    SectionMap,
    frequent_sections,
    map_sections,
    nearest_sections,
)
from lmcells.analysis.senses import WordSenses, word_senses
from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.pretrained import PretrainedModel
from lmcells.service.routes import InventorySearch

# Finding names while they are typed, and the nearest ones where none is like it.


_MOST_COMPARED = 10_000  # of the commonest names: comparing spellings takes long, and rare ones help nobody
_LEAST_LIKE = 0.6


class NameSearch:
    """Names that begin with what is searched, the commonest first, then those that hold it; else the nearest."""

    def __init__(
        self, counts: Mapping[str, int], *, held_by: Callable[[str], Sequence[str]] | None = None
    ) -> None:
        self._names = sorted(counts, key=lambda name: -counts[name])
        self._counts = counts
        self._keys = [name.casefold() for name in self._names]
        self._compared = dict(zip(self._keys[:_MOST_COMPARED], self._names, strict=False))
        self._held_by = held_by or (lambda _: ())

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def __call__(self, text: str, *, limit: int) -> list[tuple[str, int]]:
        """Return names with their counts, best first; without text the commonest. There is always one, if any is."""
        wanted = text.casefold().strip()
        begins = [
            (key != wanted, name)
            for key, name in zip(self._keys, self._names, strict=True)
            if key.startswith(wanted)
        ]
        found = dict.fromkeys(name for _, name in sorted(begins, key=lambda each: each[0]))
        if len(found) < limit and wanted:
            found.update(dict.fromkeys(self._held_by(wanted)))
        names = list(found) or self._nearest(wanted, limit=limit)
        return [(name, self._counts[name]) for name in names[:limit]]

    def _nearest(self, wanted: str, *, limit: int) -> list[str]:
        likest = difflib.get_close_matches(wanted, self._compared, n=limit, cutoff=_LEAST_LIKE)
        if likest:
            return [self._compared[key] for key in likest]
        alike = [name for key, name in zip(self._keys, self._names, strict=True) if key[:1] == wanted[:1]]
        return alike or self._names


def holding(names: Sequence[str]) -> Callable[[str], list[str]]:
    """What finds names that have a text in them, in their order: for names of several words."""
    keys = [(name.casefold(), name) for name in names]
    return lambda wanted: [name for key, name in keys if wanted in key]


# Questions about the model, answered one by one by a thread of their own: notes do not wait for them.


Answer = TypeVar("Answer")

MOST_WAITING = 32  # a person asks a few; more is a program that should wait


class ExploringThread:
    """One thread, so that all explorers together take one core at most; it starts with the first question."""

    def __init__(self, *, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._n_inside = 0
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="lmcells-explorer")

    async def __call__(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer, or refuse with 429 where too many wait."""
        if self._n_inside >= self._most_waiting:
            raise HTTPException(
                429,
                f"{self._most_waiting} questions about the model wait, the most there may be. Try again later.",
                headers={"Retry-After": "1"},
            )
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        finally:
            self._n_inside -= 1


# What the Explore view asks of a model; what takes long is made once, when it is first asked for.
#
# An explorer is asked by one thread: `ExploringThread` sees to it.


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
