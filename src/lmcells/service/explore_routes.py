"""The paths under /explore: looking into the model."""

import math
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.routing import APIRoute

from lmcells.service import explore_messages as answers
from lmcells.service.explore import Explorer, ExploringThread
from lmcells.service.messages import Name
from lmcells.service.routes import errors

MOST_SECTIONS = 8
MOST_WORDS = 40

SOMETHING = r"\S"
Word = Annotated[
    str,
    Query(
        min_length=1,
        max_length=100,
        pattern=SOMETHING,
        examples=["history"],
        description="that the model knows",
    ),
]
Section = Annotated[
    str,
    Query(
        min_length=1,
        max_length=200,
        pattern=SOMETHING,
        examples=["SOCIAL HISTORY"],
        description="by its name, or by one that means it",
    ),
]
ShortForm = Annotated[str, Query(min_length=1, max_length=100, pattern=SOMETHING, examples=["MG"])]


def exploring(explorer: Explorer, in_thread: ExploringThread, *, route_class: type[APIRoute]) -> APIRouter:
    """GET /explore/..."""
    router = APIRouter(prefix="/explore", responses=errors(401, 422, 429), route_class=route_class)

    @router.get("/start", summary="What there is to explore, and what to look at first")
    async def start() -> answers.StartAnswer:
        """The paper's examples where the model knows them; a model that reads no sections answers 422."""
        return answers.StartAnswer.model_validate(asdict(await in_thread(explorer.first_look)))

    @router.get("/names", summary="Words, sections or short forms for what is typed")
    async def names(
        kind: Annotated[Literal["word", "section", "short_form"], Query(examples=["word"])],
        search: Annotated[str, Query(max_length=200, examples=["hist"])] = "",
        limit: Annotated[int, Query(ge=1, le=50, examples=[8])] = 8,
    ) -> answers.NamesAnswer:
        """What begins with `search` comes first, the commonest first; where nothing is like it, the nearest names."""
        found = await in_thread(lambda: explorer.names(kind, search, limit=limit))
        return answers.NamesAnswer.model_validate(
            {"known": found.known, "names": [{"name": name, "count": count} for name, count in found.names]}
        )

    @router.get("/neighbors", summary="The words nearest to a word, under a section or on average")
    async def neighbors(
        word: Word,
        section: Section | None = None,
        against: Annotated[
            Literal["section", "expected"],
            Query(description="the other words under the same section, or on average"),
        ] = "section",
        n: Annotated[int, Query(ge=1, le=100, examples=[10])] = 10,
    ) -> answers.NeighborsAnswer:
        """Nearest is the least KL(cell || the other word's cell), among the 10,000 commonest words."""
        found = await in_thread(lambda: explorer.neighbors(word, section, against=against, n=n))
        return answers.NeighborsAnswer.model_validate(found.to_dict())

    @router.get("/senses", summary="What a word means under several sections")
    async def senses(
        word: Word,
        section: Annotated[
            list[Name],
            Query(
                max_length=MOST_SECTIONS,
                examples=[["SOCIAL HISTORY", "FAMILY HISTORY"]],
                description="without: those in which the word was seen most",
            ),
        ] = [],  # noqa: B006 - FastAPI copies it
        against: Annotated[
            list[Name],
            Query(
                max_length=MOST_WORDS,
                examples=[["smoker", "sister"]],
                description="words to hold it against; without: those that tell the sections apart",
            ),
        ] = [],  # noqa: B006
        n_words: Annotated[int, Query(ge=1, le=MOST_WORDS, examples=[12])] = 12,
        n_neighbors: Annotated[int, Query(ge=1, le=50, examples=[8])] = 8,
    ) -> answers.SensesAnswer:
        """Other words are taken on average, over the sections in which each was seen."""
        found = await in_thread(
            lambda: explorer.senses(
                word, sections=section, words=against, n_words=n_words, n_neighbors=n_neighbors
            )
        )
        return answers.SensesAnswer.model_validate(found.to_dict())

    @router.get("/interpolation", summary="What a short form means as the gate is moved by hand")
    async def interpolation(
        short_form: ShortForm,
        section: Section,
        steps: Annotated[int, Query(ge=2, le=201, examples=[101])] = 101,
    ) -> answers.InterpolationAnswer:
        """From an empty context (weight 0) to nothing but the section (1). Text is not taken: a query may be logged."""
        found = await in_thread(lambda: explorer.interpolation(short_form, section, steps=steps))
        return answers.InterpolationAnswer.model_validate(found.to_dict())

    @router.get("/sections", summary="The sections on a map, in clusters")
    async def sections(
        network: Annotated[Literal["variational", "prior"], Query(examples=["variational"])] = "variational",
    ) -> answers.SectionMapAnswer:
        """The 200 sections with the most words, by their embeddings in a network."""
        found = (await in_thread(lambda: explorer.section_map(network))).to_dict()
        trust = found.pop("trustworthiness")
        return answers.SectionMapAnswer.model_validate(
            {**found, "trustworthiness": trust if math.isfinite(trust) else None}
        )

    @router.get("/nearest-sections", summary="The sections nearest to one")
    async def nearest_sections(
        section: Section, n: Annotated[int, Query(ge=1, le=100, examples=[10])] = 10
    ) -> answers.NearestSectionsAnswer:
        """By the cosine of their embeddings, in both networks."""
        found = await in_thread(lambda: explorer.nearest_sections(section, n=n))
        return answers.NearestSectionsAnswer.model_validate(found.to_dict())

    @router.get("/mixture", summary="A word's cells by section, on a plane")
    async def mixture(
        word: Word, most: Annotated[int, Query(ge=1, le=200, examples=[60])] = 60
    ) -> answers.MixtureAnswer:
        """The sections in which the word was seen most, and its average, along two principal axes."""
        found = await in_thread(lambda: explorer.mixture(word, most=most))
        return answers.MixtureAnswer.model_validate(asdict(found))

    return router
