"""Answers to the Explore view, as pydantic models: the fields of what `lmcells.analysis` returns."""

from typing import Literal

from pydantic import Field

from lmcells.service.messages import Message, Probability, Several, add_examples


class StartAnswer(Message):
    """How much there is to explore, and what to show first."""

    n_words: int
    n_sections: int
    n_short_forms: int
    short_form: str
    section: str
    word: str
    sections: Several[str]


class CountedName(Message):
    """A word with its number of occurrences, a section with its words, or a short form with its senses."""

    name: str
    count: int


class NamesAnswer(Message):
    """Names that begin with the search or contain it, else the nearest ones; `known` is the name it matches, if any."""

    known: str | None
    names: Several[CountedName]


class NeighborMessage(Message):
    """A word near a cell: KL(cell || the word's cell) in nats, and the cosine of the means."""

    word: str
    count: int
    divergence: float
    cosine: float


class NeighborsAnswer(Message):
    """A word's cell, how far its section moved it (KL from its average), and the words nearest to it."""

    word: str
    section: str | None
    against: Literal["section", "expected"]
    measure: Literal["divergence", "cosine"]
    count: int
    count_in_section: int | None
    variance: float
    moved: float
    n_candidates: int
    neighbors: Several[NeighborMessage]


class LikenessMessage(Message):
    """How near a cell is to a listed word: its share among the listed, and the ratio to the average cell's share."""

    word: str
    divergence: float
    probability: Probability
    ratio: float


class SectionSenseMessage(Message):
    """What a word means under one section, or on average where `section` is null."""

    section: str | None
    count: int | None
    variance: float
    moved: float
    likenesses: Several[LikenessMessage]
    neighbors: Several[NeighborMessage]


class SensesAnswer(Message):
    """What a word means under several sections, compared with a list of words."""

    word: str
    count: int
    words: Several[str]
    sections: Several[SectionSenseMessage]
    average: SectionSenseMessage


class PathMessage(Message):
    """The probability of a long form at each weight, at the weight the model chose, and without a section."""

    long_form: str
    probabilities: Several[Probability] = Field(examples=[[0.4]])
    learnt: Probability
    without_section: Probability


class InterpolationAnswer(Message):
    """Probabilities from no section (weight 0) to the section alone (weight 1), the likeliest long forms first."""

    short_form: str
    section: str
    n_words: int
    weights: Several[Probability] = Field(examples=[[0.5]])
    learnt_weight: Probability
    long_forms: Several[PathMessage]


class MappedSectionMessage(Message):
    """A section's position on the map. Only short distances mean anything."""

    section: str
    count: int
    cluster: int
    x: float
    y: float


class SectionMapAnswer(Message):
    """The sections with the most words; `trustworthiness` is 1 if neighbours on the map are neighbours in the model."""

    network: Literal["variational", "prior"]
    trustworthiness: float | None
    clusters: Several[str]
    sections: Several[MappedSectionMessage]


class NearSectionMessage(Message):
    """A section, its number of words, and the cosine of its embedding with another section's."""

    section: str
    count: int
    cosine: float


class NearestSectionsAnswer(Message):
    """The sections nearest to one, by the embeddings of the variational network and of the model network."""

    section: str
    count: int
    variational: Several[NearSectionMessage]
    prior: Several[NearSectionMessage]


class PlaceMessage(Message):
    """A point on the plane."""

    x: float
    y: float


class ComponentMessage(Message):
    """A word's cell under one section: its weight in the mixture, its variance, and where its mean lies."""

    section: str
    weight: Probability
    variance: float
    x: float
    y: float


class MixtureAnswer(Message):
    """A word as the mixture of its cells; `share` says how much of their distances the plane shows."""

    word: str
    n_seen: int
    n_counted: int
    covered: float
    share: float
    expected: PlaceMessage
    components: Several[ComponentMessage]


# Examples for the schema

_NAME = CountedName(name="history", count=21034)
_NEIGHBOR = NeighborMessage(word="smoker", count=812, divergence=1.94, cosine=0.71)
_LIKENESS = LikenessMessage(word="smoker", divergence=1.94, probability=0.21, ratio=1.7)
_SENSE = SectionSenseMessage(
    section="SOCIAL HISTORY",
    count=69,
    variance=0.42,
    moved=0.24,
    likenesses=(_LIKENESS,),
    neighbors=(_NEIGHBOR,),
)
_AVERAGE = _SENSE.model_copy(update={"section": None, "count": None, "moved": 0.0})
_PATH = PathMessage(long_form="milligram", probabilities=(0.01, 0.4, 0.98), learnt=0.9, without_section=0.02)
_MAPPED = MappedSectionMessage(section="SOCIAL HISTORY", count=51230, cluster=0, x=0.31, y=-1.2)
_NEAR = NearSectionMessage(section="FAMILY HISTORY", count=40211, cosine=0.64)
_PLACE = PlaceMessage(x=0.1, y=-0.4)
_COMPONENT = ComponentMessage(section="SOCIAL HISTORY", weight=0.12, variance=0.42, x=0.1, y=-0.4)

add_examples(
    StartAnswer(
        n_words=28939,
        n_sections=593,
        n_short_forms=2014,
        short_form="MG",
        section="DISCHARGE MEDICATIONS",
        word="history",
        sections=("SOCIAL HISTORY", "FAMILY HISTORY"),
    ),
    NamesAnswer(known=None, names=(_NAME,)),
    NeighborsAnswer(
        word="history",
        section="SOCIAL HISTORY",
        against="section",
        measure="divergence",
        count=21034,
        count_in_section=69,
        variance=0.42,
        moved=0.24,
        n_candidates=10000,
        neighbors=(_NEIGHBOR,),
    ),
    SensesAnswer(word="history", count=21034, words=("smoker",), sections=(_SENSE,), average=_AVERAGE),
    InterpolationAnswer(
        short_form="MG",
        section="DISCHARGE MEDICATIONS",
        n_words=0,
        weights=(0.0, 0.5, 1.0),
        learnt_weight=0.82,
        long_forms=(_PATH,),
    ),
    SectionMapAnswer(
        network="variational", trustworthiness=0.94, clusters=("SOCIAL HISTORY",), sections=(_MAPPED,)
    ),
    NearestSectionsAnswer(section="SOCIAL HISTORY", count=51230, variational=(_NEAR,), prior=(_NEAR,)),
    MixtureAnswer(
        word="history",
        n_seen=21034,
        n_counted=19980,
        covered=0.93,
        share=0.46,
        expected=_PLACE,
        components=(_COMPONENT,),
    ),
    *(_NAME, _NEIGHBOR, _LIKENESS, _SENSE, _PATH, _MAPPED, _NEAR, _PLACE, _COMPONENT),
)
