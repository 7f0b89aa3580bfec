"""The answers of the paths under /explore, with the fields of the results of `lmcells.analysis`."""

from typing import Literal

from lmcells.service.messages import Message, Probability, Several


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
    """What a word means under one section, or on average if `section` is null."""

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
    probabilities: Several[Probability]
    learnt: Probability
    without_section: Probability


class InterpolationAnswer(Message):
    """Probabilities from no section (weight 0) to the section alone (weight 1), the likeliest long forms first."""

    short_form: str
    section: str
    n_words: int
    weights: Several[Probability]
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
    """A word's cell under one section: its weight in the mixture, its variance, and the position of its mean."""

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
