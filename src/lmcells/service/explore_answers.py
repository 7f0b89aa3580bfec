"""What the Explore view is answered, as pydantic models: the fields of what `lmcells.analysis` returns."""

from typing import Any, Literal

from pydantic import ConfigDict

from lmcells.service import explore_examples as examples
from lmcells.service.message import Message, Probability, several


def _with(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


class StartAnswer(Message):
    """How much there is to explore, and what to show first."""

    model_config = _with(examples.FIRST_LOOK)

    n_words: int
    n_sections: int
    n_short_forms: int
    short_form: str
    section: str
    word: str
    sections: tuple[str, ...] = several("SOCIAL HISTORY")


class CountedName(Message):
    """A word and how often it was seen, a section and its words, or a short form and its senses."""

    model_config = _with(examples.NAME)

    name: str
    count: int


class NamesAnswer(Message):
    """Names that begin with the search or hold it, else the nearest; `known` is the one that it names, if any."""

    model_config = _with(examples.NAMES)

    known: str | None
    names: tuple[CountedName, ...] = several(examples.NAME)


class NeighborMessage(Message):
    """A word near to a cell: KL(cell || the word's cell) in nats, and the cosine of the means."""

    model_config = _with(examples.NEIGHBOR)

    word: str
    count: int
    divergence: float
    cosine: float


class NeighborsAnswer(Message):
    """A word's cell, how far its section moved it (KL from its average), and the words nearest to it."""

    model_config = _with(examples.NEIGHBORS)

    word: str
    section: str | None
    against: Literal["section", "expected"]
    measure: Literal["divergence", "cosine"]
    count: int
    count_in_section: int | None
    variance: float
    moved: float
    n_candidates: int
    neighbors: tuple[NeighborMessage, ...] = several(examples.NEIGHBOR)


class LikenessMessage(Message):
    """How near a cell is to a listed word: a share among the listed, and its ratio to that of the average cell."""

    model_config = _with(examples.LIKENESS)

    word: str
    divergence: float
    probability: Probability
    ratio: float


class SectionSenseMessage(Message):
    """What a word means under one section, or on average where `section` is null."""

    model_config = _with(examples.SENSE)

    section: str | None
    count: int | None
    variance: float
    moved: float
    likenesses: tuple[LikenessMessage, ...] = several(examples.LIKENESS)
    neighbors: tuple[NeighborMessage, ...] = several(examples.NEIGHBOR)


class SensesAnswer(Message):
    """What a word means under some sections, held against a list of words."""

    model_config = _with(examples.SENSES)

    word: str
    count: int
    words: tuple[str, ...] = several("smoker")
    sections: tuple[SectionSenseMessage, ...] = several(examples.SENSE)
    average: SectionSenseMessage


class PathMessage(Message):
    """The probability of a long form at each weight, at the weight that the model chose, and under no section."""

    model_config = _with(examples.PATH)

    long_form: str
    probabilities: tuple[Probability, ...] = several(0.4)
    learnt: Probability
    without_section: Probability


class InterpolationAnswer(Message):
    """The way from no section (weight 0) to nothing but the section (1); the likeliest long forms on it first."""

    model_config = _with(examples.INTERPOLATION)

    short_form: str
    section: str
    n_words: int
    weights: tuple[Probability, ...] = several(0.5)
    learnt_weight: Probability
    long_forms: tuple[PathMessage, ...] = several(examples.PATH)


class MappedSectionMessage(Message):
    """Where a section lies on the map; only distances to near ones mean anything."""

    model_config = _with(examples.MAPPED)

    section: str
    count: int
    cluster: int
    x: float
    y: float


class SectionMapAnswer(Message):
    """The sections with the most words; `trustworthiness` is 1 where neighbours on the map are neighbours indeed."""

    model_config = _with(examples.MAP)

    network: Literal["variational", "prior"]
    trustworthiness: float | None
    clusters: tuple[str, ...] = several("SOCIAL HISTORY")
    sections: tuple[MappedSectionMessage, ...] = several(examples.MAPPED)


class NearSectionMessage(Message):
    """A section, its words, and the cosine of its embedding with another's."""

    model_config = _with(examples.NEAR_SECTION)

    section: str
    count: int
    cosine: float


class NearestSectionsAnswer(Message):
    """The sections nearest to one, by the embeddings of the variational and of the model network."""

    model_config = _with(examples.NEAR_SECTIONS)

    section: str
    count: int
    variational: tuple[NearSectionMessage, ...] = several(examples.NEAR_SECTION)
    prior: tuple[NearSectionMessage, ...] = several(examples.NEAR_SECTION)


class PlaceMessage(Message):
    """A place on the plane."""

    model_config = _with(examples.PLACE)

    x: float
    y: float


class ComponentMessage(Message):
    """A word's cell under one section: its weight in the mixture, its variance, and where its mean lies."""

    model_config = _with(examples.COMPONENT)

    section: str
    weight: Probability
    variance: float
    x: float
    y: float


class MixtureAnswer(Message):
    """A word as the mixture of its cells; `share` says how much of their distances the plane shows."""

    model_config = _with(examples.MIXTURE)

    word: str
    n_seen: int
    n_counted: int
    covered: float
    share: float
    expected: PlaceMessage
    components: tuple[ComponentMessage, ...] = several(examples.COMPONENT)
