"""What the Explore view asks of a model. Slow parts are computed once, when they are first needed."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from lmcells.analysis.cells import WordCells
from lmcells.analysis.interpolation import section_ranker, spelt_as_in
from lmcells.analysis.mixtures import mixture_plane, word_mixture
from lmcells.analysis.names import section_id, section_statistics
from lmcells.analysis.sections import frequent_sections, map_sections
from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.pretrained import PretrainedModel
from lmcells.service.explore_messages import NamesAnswer, StartAnswer
from lmcells.service.search import InventorySearch, NameSearch, containing

MAX_QUESTIONS = 32  # a person asks a few at a time; more is a program that should wait

_N_CLUSTERS = 12
_SHORT_FORM, _SECTION = "MG", "IMAGING"  # the paper's figure
_WORD, _SECTIONS = "history", ("SOCIAL HISTORY", "FAMILY HISTORY", "PAST MEDICAL HISTORY")

Answer = TypeVar("Answer")


class ExploringThread:
    """Runs questions about the model one by one in a thread of its own, so that notes never wait for them."""

    def __init__(self, *, max_questions: int = MAX_QUESTIONS) -> None:
        self._max_questions = max_questions
        self._n_inside = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lmcells-explorer")

    async def __call__(self, ask: Callable[[], Answer]) -> Answer:
        """Return what `ask` returns, or refuse with 429 where too many questions wait."""
        if self._n_inside >= self._max_questions:
            raise HTTPException(
                429,
                f"{self._max_questions} questions about the model are waiting, the most allowed. Try again later.",
                headers={"Retry-After": "1"},
            )
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
        finally:
            self._n_inside -= 1


class Explorer:
    """A model as the Explore view sees it. Only `lmc` models can be explored; use it from one thread."""

    def __init__(self, expander: Expander) -> None:
        self._model = expander.model
        self.inventory = expander.inventory
        self.calibration = expander.calibration
        self._maps: dict[str, dict[str, Any]] = {}

    @property
    def model(self) -> PretrainedModel:
        """The model; InputError if its words do not depend on their section."""
        kind = self._model.sizes.kind
        if kind != "lmc":
            raise InputError(
                f"the service's model is of kind {kind!r}, whose words do not depend on their section: there is "
                "nothing to explore. Serve a model of kind 'lmc'."
            )
        return self._model

    @cached_property
    def cells(self) -> WordCells:
        """The cells of all words."""
        return WordCells(self.model)

    @cached_property
    def ranker(self) -> PosteriorRanker:
        """Ranks long forms as the gate is moved."""
        return section_ranker(self.model, self.inventory)

    def first_look(self) -> StartAnswer:
        """Choose what to show first: the paper's examples if the model knows them, else frequent names."""
        model, inventory = self.model, self.inventory
        sections = [model.sections[id_] for id_ in frequent_sections(model).tolist()]
        words = [_WORD] if _WORD in model.word_ids else [name for name, _ in self._words("", limit=1)]
        if not (words and sections and len(inventory)):
            raise InputError(
                "the service's model has no words or sections, or its inventory no senses: there is nothing to explore."
            )
        ambiguous = [name for name, senses in inventory.by_short_form.items() if len(senses) > 1]
        return StartAnswer(
            n_words=len(model.words),
            n_sections=len(sections),
            n_short_forms=len(inventory),
            short_form=_SHORT_FORM if _SHORT_FORM in inventory else (ambiguous or inventory.short_forms)[0],
            section=_SECTION if _SECTION in model.section_ids else sections[0],
            word=words[0],
            sections=tuple(name for name in _SECTIONS if name in model.section_ids) or tuple(sections[:3]),
        )

    def names(self, kind: str, text: str, *, limit: int) -> NamesAnswer:
        """Find words, sections or short forms by their beginning, or the nearest ones."""
        model, text = self.model, text.strip()
        known: str | None
        if kind == "word":
            search = self._words
            known = next((word for word in (text, text.lower()) if word in model.word_ids), None)
        elif kind == "section":
            search = self._sections
            try:
                known = model.sections[section_id(model, text)] if text else None
            except InputError:
                known = None
        else:
            search = self._short_forms
            known = spelt_as_in(self.inventory, text)
        known = known if known in search else None  # a placeholder has an id but nothing to show
        names = search(text, limit=limit)
        if known is not None and known not in dict(names):  # the text is an alias of it
            names = [*search(known, limit=1), *names[: limit - 1]]
        counted = [{"name": name, "count": count} for name, count in names]
        return NamesAnswer.model_validate({"known": known, "names": counted})

    def section_map(self, network: str) -> dict[str, Any]:
        """Map the sections by a network's embeddings."""
        if network not in self._maps:
            n_clusters = max(1, min(_N_CLUSTERS, frequent_sections(self.model).size // 2))
            found = map_sections(self.model, network=network, n_clusters=n_clusters).to_dict()
            if not math.isfinite(found["trustworthiness"]):  # too few sections to tell
                found["trustworthiness"] = None
            self._maps[network] = found
        return self._maps[network]

    def mixture(self, word: str, *, most: int) -> dict[str, Any]:
        """Project a word's cells by section, and its average, onto a plane."""
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

    @cached_property
    def _words(self) -> NameSearch:
        counts = zip(self.model.words, self.model.word_counts.tolist(), strict=True)
        return NameSearch({word: count for word, count in counts if not word.startswith("<")})

    @cached_property
    def _sections(self) -> NameSearch:
        n_tokens = section_statistics(self.model).n_tokens.tolist()
        counts = {self.model.sections[id_]: n_tokens[id_] for id_ in frequent_sections(self.model).tolist()}
        return NameSearch(counts, containing=containing(list(counts)))

    @cached_property
    def _short_forms(self) -> NameSearch:
        counts = {name: len(senses) for name, senses in self.inventory.by_short_form.items()}
        return NameSearch(counts, containing=InventorySearch(self.inventory))
