"""The paths under /explore: looking into the model. Slow parts are computed once, when they are first needed."""

import asyncio
import difflib
import math
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, wraps
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from lmcells.analysis.cells import WordCells
from lmcells.analysis.interpolation import interpolate, section_ranker, spelt_as_in
from lmcells.analysis.mixtures import mixture_plane, word_mixture
from lmcells.analysis.names import section_id, section_statistics
from lmcells.analysis.sections import frequent_sections, map_sections
from lmcells.analysis.sections import nearest_sections as find_nearest_sections
from lmcells.analysis.senses import nearest_words, word_senses
from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.pretrained import PretrainedModel
from lmcells.service import explore_messages as messages
from lmcells.service.messages import Message, Name
from lmcells.service.routes import errors, find_names, long_forms_of

MAX_QUESTIONS = 32  # a person asks a few at a time; a program that asks more can wait
MAX_SECTIONS = 8
MAX_WORDS = 40

_MAX_COMPARED = 10_000  # comparing spellings is slow, and rare names are rarely useful
_MIN_SIMILARITY = 0.6
_N_CLUSTERS = 12
_SHORT_FORM, _SECTION = "MG", "IMAGING"  # the paper's figure
_WORD, _SECTIONS = "history", ("SOCIAL HISTORY", "FAMILY HISTORY", "PAST MEDICAL HISTORY")

Answer = TypeVar("Answer")


class ExploringThread:
    """Runs questions about the model one by one in a separate thread, so that notes never wait for them."""

    def __init__(self, *, max_questions: int = MAX_QUESTIONS) -> None:
        self._max_questions = max_questions
        self._n_inside = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lmcells-explorer")

    async def __call__(self, ask: Callable[[], Answer]) -> Answer:
        """Return what `ask` returns, or refuse with 429 if too many questions are waiting."""
        if self._n_inside >= self._max_questions:
            waiting = f"{self._max_questions} questions about the model are waiting"
            detail = f"{waiting}, the most allowed. Try again later."
            raise HTTPException(429, detail, {"Retry-After": "1"})
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
        finally:
            self._n_inside -= 1


class CountedNames:
    """Finds names that begin with a text or contain it, the most frequent first; if there are none, the nearest."""

    def __init__(self, counts: Mapping[str, int], *, searched: Mapping[str, str] | None = None) -> None:
        self._counts = counts
        self._searched = searched or {}
        self._names = {name: name.casefold() for name in sorted(counts, key=lambda name: -counts[name])}
        self._compared = {key: name for name, key in islice(self._names.items(), _MAX_COMPARED)}

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def __call__(self, text: str, *, limit: int) -> list[tuple[str, int]]:
        """Return names with their counts, best first. Unless there are no names at all, at least one is found."""
        found = find_names(text, self._names, self._searched)
        if not found:
            wanted = text.casefold().strip()
            similar = difflib.get_close_matches(wanted, self._compared, n=limit, cutoff=_MIN_SIMILARITY)
            same_letter = (name for name, key in self._names.items() if key[:1] == wanted[:1])
            found = [self._compared[key] for key in similar] or list(same_letter) or list(self._names)
        return [(name, self._counts[name]) for name in found[:limit]]


def _name(max_length: int, example: str, description: str | None = None) -> Any:
    return Query(
        min_length=1, max_length=max_length, pattern=r"\S", examples=[example], description=description
    )


Word = Annotated[str, _name(100, "history", "a word of the model")]
Section = Annotated[str, _name(200, "SOCIAL HISTORY", "a section, by its name or an alias")]
_FREQUENT = "default: the sections in which the word is most frequent"
_TELLING = "words to compare with; default: those that tell the sections apart"
SomeSections = Annotated[
    list[Name],
    Query(max_length=MAX_SECTIONS, examples=[["SOCIAL HISTORY", "FAMILY HISTORY"]], description=_FREQUENT),
]
SomeWords = Annotated[
    list[Name], Query(max_length=MAX_WORDS, examples=[["smoker", "sister"]], description=_TELLING)
]
ShortForm = Annotated[str, _name(100, "MG")]
Network = Annotated[Literal["variational", "prior"], Query(examples=["variational"])]
Dict = dict[str, Any]


class Explorer:
    """The answers of the paths under /explore, by name. Only `lmc` models can be explored; use it from one thread."""

    def __init__(self, expander: Expander) -> None:
        self._model = expander.model
        self._inventory = expander.inventory
        self._calibration = expander.calibration
        self._maps: dict[str, Dict] = {}

    @property
    def model(self) -> PretrainedModel:
        """The model; InputError if it does not use sections."""
        kind = self._model.sizes.kind
        if kind != "lmc":
            raise InputError(
                f"the service's model is of kind {kind!r}, which does not use sections: there is "
                "nothing to explore. Serve a model of kind 'lmc'."
            )
        return self._model

    @cached_property
    def _cells(self) -> WordCells:
        return WordCells(self.model)

    @cached_property
    def _ranker(self) -> PosteriorRanker:
        return section_ranker(self.model, self._inventory)

    @cached_property
    def _section_names(self) -> list[str]:
        return [self.model.sections[id_] for id_ in frequent_sections(self.model).tolist()]

    @cached_property
    def _words(self) -> CountedNames:
        counts = zip(self.model.words, self.model.word_counts.tolist(), strict=True)
        return CountedNames({word: count for word, count in counts if not word.startswith("<")})

    @cached_property
    def _sections(self) -> CountedNames:
        n_tokens = section_statistics(self.model).n_tokens.tolist()
        counts = {name: n_tokens[self.model.section_ids[name]] for name in self._section_names}
        return CountedNames(counts, searched={name: name.casefold() for name in counts})

    @cached_property
    def _short_forms(self) -> CountedNames:
        counts = {name: len(senses) for name, senses in self._inventory.by_short_form.items()}
        return CountedNames(counts, searched=long_forms_of(self._inventory))

    def start(self) -> Dict:
        """Returns the paper's examples if the model knows them, and 422 if the model reads no sections."""
        model, inventory, sections = self.model, self._inventory, self._section_names
        words = [_WORD] if _WORD in model.word_ids else [name for name, _ in self._words("", limit=1)]
        if not (words and sections):
            raise InputError("the service's model has no words or no sections: there is nothing to explore.")
        ambiguous = [name for name, senses in inventory.by_short_form.items() if len(senses) > 1]
        short_forms = [_SHORT_FORM] if _SHORT_FORM in inventory else ambiguous or inventory.short_forms
        return {
            "n_words": len(model.words),
            "n_sections": len(sections),
            "n_short_forms": len(inventory),
            "short_form": short_forms[0],
            "section": _SECTION if _SECTION in model.section_ids else sections[0],
            "word": words[0],
            "sections": [name for name in _SECTIONS if name in model.section_ids] or sections[:3],
        }

    def names(
        self,
        kind: Annotated[Literal["word", "section", "short_form"], Query(examples=["word"])],
        search: Annotated[str, Query(max_length=200, examples=["hist"])] = "",
        limit: Annotated[int, Query(ge=1, le=50, examples=[8])] = 8,
    ) -> Dict:
        """Names that begin with `search` come first, the most frequent first; if nothing matches, the nearest names."""
        model, text = self.model, search.strip()
        known: str | None = None
        if kind == "word":
            find = self._words
            known = next((word for word in (text, text.lower()) if word in model.word_ids), None)
        elif kind == "section":
            find = self._sections
            with suppress(InputError):
                known = model.sections[section_id(model, text)] if text else None
        else:
            find = self._short_forms
            known = spelt_as_in(self._inventory, text)
        known = known if known in find else None  # a placeholder has an id but nothing to show
        found = find(text, limit=limit)
        if known is not None and known not in dict(found):  # the text is an alias of it
            found = [*find(known, limit=1), *found[: limit - 1]]
        return {"known": known, "names": [{"name": name, "count": count} for name, count in found]}

    def neighbors(
        self,
        word: Word,
        section: Section | None = None,
        against: Annotated[
            Literal["section", "expected"],
            Query(description="compare with other words under the same section, or on average"),
        ] = "section",
        n: Annotated[int, Query(ge=1, le=100, examples=[10])] = 10,
    ) -> Dict:
        """Ranked by KL(cell || the other word's cell), among the 10,000 most frequent words."""
        return nearest_words(self._cells, word, section, against=against, n=n).to_dict()

    def senses(
        self,
        word: Word,
        section: SomeSections = [],  # noqa: B006 - FastAPI copies it
        against: SomeWords = [],  # noqa: B006
        n_words: Annotated[int, Query(ge=1, le=MAX_WORDS, examples=[12])] = 12,
        n_neighbors: Annotated[int, Query(ge=1, le=50, examples=[8])] = 8,
    ) -> Dict:
        """Other words are averaged over the sections in which they occur."""
        sizes = {"n_words": n_words, "n_neighbors": n_neighbors}
        return word_senses(self._cells, word, sections=section, words=against, **sizes).to_dict()

    def interpolation(
        self,
        short_form: ShortForm,
        section: Section,
        steps: Annotated[int, Query(ge=2, le=201, examples=[101])] = 101,
    ) -> Dict:
        """From an empty context (weight 0) to the section alone (1). Takes no note text: a query may be logged."""
        return interpolate(
            self._ranker, short_form, section=section, steps=steps, calibration=self._calibration
        ).to_dict()

    def sections(self, network: Network = "variational") -> Dict:
        """The 200 sections with the most words, placed by a network's embeddings."""
        if network not in self._maps:
            n_clusters = max(1, min(_N_CLUSTERS, len(self._section_names) // 2))
            found = map_sections(self.model, network=network, n_clusters=n_clusters).to_dict()
            if not math.isfinite(found["trustworthiness"]):  # too few sections to tell
                found["trustworthiness"] = None
            self._maps[network] = found
        return self._maps[network]

    def nearest_sections(
        self, section: Section, n: Annotated[int, Query(ge=1, le=100, examples=[10])] = 10
    ) -> Dict:
        """Ranked by the cosine of their embeddings, in both networks."""
        return find_nearest_sections(self.model, section, n=n).to_dict()

    def mixture(self, word: Word, most: Annotated[int, Query(ge=1, le=200, examples=[60])] = 60) -> Dict:
        """The sections in which the word is most frequent, and its average, along two principal axes."""
        marginal = word_mixture(self.model, word, most=most)
        plane = mixture_plane([marginal], most=most)
        weights, variances = marginal.mixture.weights.tolist(), marginal.mixture.variances.tolist()
        rows = zip(marginal.parts, weights, variances, plane.components[0].tolist(), strict=True)
        return {
            "word": marginal.name,
            "n_seen": marginal.n_seen or 0,
            "n_counted": marginal.n_counted,
            "covered": marginal.covered,
            "share": plane.share,
            "expected": dict(zip("xy", plane.expected[0].tolist(), strict=True)),
            "components": [
                {"section": section, "weight": weight, "variance": variance, "x": x, "y": y}
                for section, weight, variance, (x, y) in rows
            ],
        }


# The path, which is also the name of a method of `Explorer`; its answer; its summary.
VIEWS: dict[str, tuple[type[Message], str]] = {
    "start": (messages.StartAnswer, "How much there is to explore, and what to look at first"),
    "names": (messages.NamesAnswer, "Suggest words, sections or short forms for typed text"),
    "neighbors": (messages.NeighborsAnswer, "The words nearest to a word, under a section or on average"),
    "senses": (messages.SensesAnswer, "What a word means under several sections"),
    "interpolation": (messages.InterpolationAnswer, "What a short form means as the gate is moved by hand"),
    "sections": (messages.SectionMapAnswer, "The sections on a map, in clusters"),
    "nearest-sections": (messages.NearestSectionsAnswer, "The sections nearest to one"),
    "mixture": (messages.MixtureAnswer, "A word's cells by section, on a plane"),
}


def explore_router(expander: Expander, *, route_class: type[APIRoute]) -> APIRouter:
    router = APIRouter(prefix="/explore", responses=errors(401, 422, 429), route_class=route_class)
    explorer, in_thread = Explorer(expander), ExploringThread()

    def in_turn(ask: Callable[..., Dict]) -> Callable[..., Awaitable[Dict]]:
        @wraps(ask)  # FastAPI reads the parameters and the description of `ask`
        async def asked(**given: Any) -> Dict:
            return await in_thread(lambda: ask(**given))

        return asked

    for path, (answer, summary) in VIEWS.items():
        ask = in_turn(getattr(explorer, path.replace("-", "_")))
        name = f"explore_{path.replace('-', '_')}"
        router.add_api_route(f"/{path}", ask, response_model=answer, summary=summary, name=name)
    return router
