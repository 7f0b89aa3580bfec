"""What an expander answers: plain values that compare, pickle and go into JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

Source = Literal["model", "definition"]

LOW_CONFIDENCE = "low_confidence"
NO_SENSE_FITS = "no_sense_fits"
NO_KNOWN_LONG_FORM = "no_known_long_form"
"""Why no long form was chosen: the best is not likely enough; none fits; the model knows no word of any of them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A long form that a short form may stand for, and how likely that is where it stands."""

    long_form: str
    probability: float
    concept_id: str | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """A short form written at `text[start:end]`, and what it stands for there.

    `short_form` is the inventory's spelling: "PT" where "pts" or "Pt" is written. `long_form` and `probability` are
    None where the expander abstained, and `abstained` says why; `candidates` are there all the same, best first.
    """

    start: int
    end: int
    short_form: str
    section: str | None
    long_form: str | None
    probability: float | None
    source: Source
    candidates: tuple[Candidate, ...]
    abstained: str | None = None

    @property
    def concept_id(self) -> str | None:
        """The concept of the chosen long form, where the inventory gives one."""
        return self.candidates[0].concept_id if self.long_form is not None and self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, under the names of the fields."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["candidates"] = [
            {name: getattr(candidate, name) for name in candidate.__slots__} for candidate in self.candidates
        ]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The expansion that `to_dict` gave these values for."""
        candidates = tuple(Candidate(**candidate) for candidate in values["candidates"])
        return cls(**{**values, "candidates": candidates})
