"""What the Explore view is answered, as pydantic models: the fields of what `lmcells.analysis` returns."""

from typing import Any, Literal

from pydantic import ConfigDict

from lmcells.service.messages import Message, Probability, several

# The examples of the schema for what the Explore view asks.


FIRST_LOOK: dict[str, Any] = {
    "n_words": 28939,
    "n_sections": 593,
    "n_short_forms": 2014,
    "short_form": "MG",
    "section": "DISCHARGE MEDICATIONS",
    "word": "history",
    "sections": ["SOCIAL HISTORY", "FAMILY HISTORY"],
}
NAME: dict[str, Any] = {"name": "history", "count": 21034}
NAMES: dict[str, Any] = {"known": None, "names": [NAME]}
NEIGHBOR: dict[str, Any] = {"word": "smoker", "count": 812, "divergence": 1.94, "cosine": 0.71}
NEIGHBORS: dict[str, Any] = {
    "word": "history",
    "section": "SOCIAL HISTORY",
    "against": "section",
    "measure": "divergence",
    "count": 21034,
    "count_in_section": 69,
    "variance": 0.42,
    "moved": 0.24,
    "n_candidates": 10000,
    "neighbors": [NEIGHBOR],
}
LIKENESS: dict[str, Any] = {"word": "smoker", "divergence": 1.94, "probability": 0.21, "ratio": 1.7}
SENSE: dict[str, Any] = {
    "section": "SOCIAL HISTORY",
    "count": 69,
    "variance": 0.42,
    "moved": 0.24,
    "likenesses": [LIKENESS],
    "neighbors": [NEIGHBOR],
}
SENSES: dict[str, Any] = {
    "word": "history",
    "count": 21034,
    "words": ["smoker"],
    "sections": [SENSE],
    "average": SENSE | {"section": None, "count": None, "moved": 0.0},
}
PATH: dict[str, Any] = {
    "long_form": "milligram",
    "probabilities": [0.01, 0.4, 0.98],
    "learnt": 0.9,
    "without_section": 0.02,
}
INTERPOLATION: dict[str, Any] = {
    "short_form": "MG",
    "section": "DISCHARGE MEDICATIONS",
    "n_words": 0,
    "weights": [0.0, 0.5, 1.0],
    "learnt_weight": 0.82,
    "long_forms": [PATH],
}
MAPPED: dict[str, Any] = {"section": "SOCIAL HISTORY", "count": 51230, "cluster": 0, "x": 0.31, "y": -1.2}
MAP: dict[str, Any] = {
    "network": "variational",
    "trustworthiness": 0.94,
    "clusters": ["SOCIAL HISTORY"],
    "sections": [MAPPED],
}
NEAR_SECTION: dict[str, Any] = {"section": "FAMILY HISTORY", "count": 40211, "cosine": 0.64}
NEAR_SECTIONS: dict[str, Any] = {
    "section": "SOCIAL HISTORY",
    "count": 51230,
    "variational": [NEAR_SECTION],
    "prior": [NEAR_SECTION],
}
PLACE: dict[str, Any] = {"x": 0.1, "y": -0.4}
COMPONENT: dict[str, Any] = {"section": "SOCIAL HISTORY", "weight": 0.12, "variance": 0.42, **PLACE}
MIXTURE: dict[str, Any] = {
    "word": "history",
    "n_seen": 21034,
    "n_counted": 19980,
    "covered": 0.93,
    "share": 0.46,
    "expected": PLACE,
    "components": [COMPONENT],
}


# What the Explore view is answered, as pydantic models: the fields of what `lmcells.analysis` returns.


def _with(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


class StartAnswer(Message):
    """How much there is to explore, and what to show first."""

    model_config = _with(FIRST_LOOK)

    n_words: int
    n_sections: int
    n_short_forms: int
    short_form: str
    section: str
    word: str
    sections: tuple[str, ...] = several("SOCIAL HISTORY")


class CountedName(Message):
    """A word and how often it was seen, a section and its words, or a short form and its senses."""

    model_config = _with(NAME)

    name: str
    count: int


class NamesAnswer(Message):
    """Names that begin with the search or hold it, else the nearest; `known` is the one that it names, if any."""

    model_config = _with(NAMES)

    known: str | None
    names: tuple[CountedName, ...] = several(NAME)


class NeighborMessage(Message):
    """A word near to a cell: KL(cell || the word's cell) in nats, and the cosine of the means."""

    model_config = _with(NEIGHBOR)

    word: str
    count: int
    divergence: float
    cosine: float


class NeighborsAnswer(Message):
    """A word's cell, how far its section moved it (KL from its average), and the words nearest to it."""

    model_config = _with(NEIGHBORS)

    word: str
    section: str | None
    against: Literal["section", "expected"]
    measure: Literal["divergence", "cosine"]
    count: int
    count_in_section: int | None
    variance: float
    moved: float
    n_candidates: int
    neighbors: tuple[NeighborMessage, ...] = several(NEIGHBOR)


class LikenessMessage(Message):
    """How near a cell is to a listed word: a share among the listed, and its ratio to that of the average cell."""

    model_config = _with(LIKENESS)

    word: str
    divergence: float
    probability: Probability
    ratio: float


class SectionSenseMessage(Message):
    """What a word means under one section, or on average where `section` is null."""

    model_config = _with(SENSE)

    section: str | None
    count: int | None
    variance: float
    moved: float
    likenesses: tuple[LikenessMessage, ...] = several(LIKENESS)
    neighbors: tuple[NeighborMessage, ...] = several(NEIGHBOR)


class SensesAnswer(Message):
    """What a word means under some sections, held against a list of words."""

    model_config = _with(SENSES)

    word: str
    count: int
    words: tuple[str, ...] = several("smoker")
    sections: tuple[SectionSenseMessage, ...] = several(SENSE)
    average: SectionSenseMessage


class PathMessage(Message):
    """The probability of a long form at each weight, at the weight that the model chose, and under no section."""

    model_config = _with(PATH)

    long_form: str
    probabilities: tuple[Probability, ...] = several(0.4)
    learnt: Probability
    without_section: Probability


class InterpolationAnswer(Message):
    """The way from no section (weight 0) to nothing but the section (1); the likeliest long forms on it first."""

    model_config = _with(INTERPOLATION)

    short_form: str
    section: str
    n_words: int
    weights: tuple[Probability, ...] = several(0.5)
    learnt_weight: Probability
    long_forms: tuple[PathMessage, ...] = several(PATH)


class MappedSectionMessage(Message):
    """Where a section lies on the map; only distances to near ones mean anything."""

    model_config = _with(MAPPED)

    section: str
    count: int
    cluster: int
    x: float
    y: float


class SectionMapAnswer(Message):
    """The sections with the most words; `trustworthiness` is 1 where neighbours on the map are neighbours indeed."""

    model_config = _with(MAP)

    network: Literal["variational", "prior"]
    trustworthiness: float | None
    clusters: tuple[str, ...] = several("SOCIAL HISTORY")
    sections: tuple[MappedSectionMessage, ...] = several(MAPPED)


class NearSectionMessage(Message):
    """A section, its words, and the cosine of its embedding with another's."""

    model_config = _with(NEAR_SECTION)

    section: str
    count: int
    cosine: float


class NearestSectionsAnswer(Message):
    """The sections nearest to one, by the embeddings of the variational and of the model network."""

    model_config = _with(NEAR_SECTIONS)

    section: str
    count: int
    variational: tuple[NearSectionMessage, ...] = several(NEAR_SECTION)
    prior: tuple[NearSectionMessage, ...] = several(NEAR_SECTION)


class PlaceMessage(Message):
    """A place on the plane."""

    model_config = _with(PLACE)

    x: float
    y: float


class ComponentMessage(Message):
    """A word's cell under one section: its weight in the mixture, its variance, and where its mean lies."""

    model_config = _with(COMPONENT)

    section: str
    weight: Probability
    variance: float
    x: float
    y: float


class MixtureAnswer(Message):
    """A word as the mixture of its cells; `share` says how much of their distances the plane shows."""

    model_config = _with(MIXTURE)

    word: str
    n_seen: int
    n_counted: int
    covered: float
    share: float
    expected: PlaceMessage
    components: tuple[ComponentMessage, ...] = several(COMPONENT)
