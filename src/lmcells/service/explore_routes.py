"""The paths under /explore: looking into the model."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.routing import APIRoute

from lmcells.analysis.interpolation import interpolate
from lmcells.analysis.neighbors import nearest_words
from lmcells.analysis.sections import nearest_sections as find_nearest_sections
from lmcells.analysis.senses import word_senses
from lmcells.service import explore_messages as answers
from lmcells.service.explore import Explorer, ExploringThread
from lmcells.service.messages import Name
from lmcells.service.routes import errors

MAX_SECTIONS = 8
MAX_WORDS = 40


def _name(max_length: int, example: str, description: str | None = None) -> Any:
    return Query(
        min_length=1, max_length=max_length, pattern=r"\S", examples=[example], description=description
    )


Word = Annotated[str, _name(100, "history", "a word of the model")]
Section = Annotated[str, _name(200, "SOCIAL HISTORY", "a section, by its name or an alias")]
ShortForm = Annotated[str, _name(100, "MG")]


def explore_router(explorer: Explorer, *, route_class: type[APIRoute]) -> APIRouter:
    """Return the router of GET /explore/..."""
    router = APIRouter(prefix="/explore", responses=errors(401, 422, 429), route_class=route_class)
    in_thread = ExploringThread()

    @router.get("/start", summary="How much there is to explore, and what to look at first")
    async def start() -> answers.StartAnswer:
        """Returns the paper's examples if the model knows them, and 422 if the model reads no sections."""
        return await in_thread(explorer.first_look)

    @router.get("/names", summary="Suggest words, sections or short forms for typed text")
    async def names(
        kind: Annotated[Literal["word", "section", "short_form"], Query(examples=["word"])],
        search: Annotated[str, Query(max_length=200, examples=["hist"])] = "",
        limit: Annotated[int, Query(ge=1, le=50, examples=[8])] = 8,
    ) -> answers.NamesAnswer:
        """Names that begin with `search` come first, the most frequent first; if nothing matches, the nearest names."""
        return await in_thread(lambda: explorer.names(kind, search, limit=limit))

    @router.get("/neighbors", summary="The words nearest to a word, under a section or on average")
    async def neighbors(
        word: Word,
        section: Section | None = None,
        against: Annotated[
            Literal["section", "expected"],
            Query(description="compare with other words under the same section, or on average"),
        ] = "section",
        n: Annotated[int, Query(ge=1, le=100, examples=[10])] = 10,
    ) -> answers.NeighborsAnswer:
        """Ranked by KL(cell || the other word's cell), among the 10,000 most frequent words."""
        found = await in_thread(lambda: nearest_words(explorer.cells, word, section, against=against, n=n))
        return answers.NeighborsAnswer.model_validate(found.to_dict())

    @router.get("/senses", summary="What a word means under several sections")
    async def senses(
        word: Word,
        section: Annotated[
            list[Name],
            Query(
                max_length=MAX_SECTIONS,
                examples=[["SOCIAL HISTORY", "FAMILY HISTORY"]],
                description="default: the sections in which the word is most frequent",
            ),
        ] = [],  # noqa: B006 - FastAPI copies it
        against: Annotated[
            list[Name],
            Query(
                max_length=MAX_WORDS,
                examples=[["smoker", "sister"]],
                description="words to compare with; default: those that tell the sections apart",
            ),
        ] = [],  # noqa: B006
        n_words: Annotated[int, Query(ge=1, le=MAX_WORDS, examples=[12])] = 12,
        n_neighbors: Annotated[int, Query(ge=1, le=50, examples=[8])] = 8,
    ) -> answers.SensesAnswer:
        """Other words are averaged over the sections in which they occur."""
        found = await in_thread(
            lambda: word_senses(
                explorer.cells,
                word,
                sections=section,
                words=against,
                n_words=n_words,
                n_neighbors=n_neighbors,
            )
        )
        return answers.SensesAnswer.model_validate(found.to_dict())

    @router.get("/interpolation", summary="What a short form means as the gate is moved by hand")
    async def interpolation(
        short_form: ShortForm,
        section: Section,
        steps: Annotated[int, Query(ge=2, le=201, examples=[101])] = 101,
    ) -> answers.InterpolationAnswer:
        """From an empty context (weight 0) to the section alone (1). Takes no note text: a query may be logged."""
        found = await in_thread(
            lambda: interpolate(
                explorer.ranker, short_form, section=section, steps=steps, calibration=explorer.calibration
            )
        )
        return answers.InterpolationAnswer.model_validate(found.to_dict())

    @router.get("/sections", summary="The sections on a map, in clusters")
    async def sections(
        network: Annotated[Literal["variational", "prior"], Query(examples=["variational"])] = "variational",
    ) -> answers.SectionMapAnswer:
        """The 200 sections with the most words, placed by a network's embeddings."""
        return answers.SectionMapAnswer.model_validate(await in_thread(lambda: explorer.section_map(network)))

    @router.get("/nearest-sections", summary="The sections nearest to one")
    async def nearest_sections(
        section: Section, n: Annotated[int, Query(ge=1, le=100, examples=[10])] = 10
    ) -> answers.NearestSectionsAnswer:
        """Ranked by the cosine of their embeddings, in both networks."""
        found = await in_thread(lambda: find_nearest_sections(explorer.model, section, n=n))
        return answers.NearestSectionsAnswer.model_validate(found.to_dict())

    @router.get("/mixture", summary="A word's cells by section, on a plane")
    async def mixture(
        word: Word, most: Annotated[int, Query(ge=1, le=200, examples=[60])] = 60
    ) -> answers.MixtureAnswer:
        """The sections in which the word is most frequent, and its average, along two principal axes."""
        return answers.MixtureAnswer.model_validate(
            await in_thread(lambda: explorer.mixture(word, most=most))
        )

    return router
