"""The results of an expander: plain values that can be compared, pickled and written as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

Source = Literal["model", "definition", "header", "grammar", "letters", "pinned", "review"]
"""Where an answer comes from: the model's ranking of the inventory, a definition in the note, a header of the note, the
grammar of counted forms, the letters of a short form that the inventory lacks, a rule that pins it, or a reviewer."""

LOW_CONFIDENCE = "low_confidence"
NO_SENSE_FITS = "no_sense_fits"
NO_KNOWN_LONG_FORM = "no_known_long_form"
"""Why an expander abstained: the best sense is not likely enough, none fits, or the model knows no word of any."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A long form that a short form may stand for.

    Attributes:
        long_form: the canonical name of the sense.
        probability: that the short form stands for it here; the candidates' probabilities sum to 1.
        concept_id: the concept of the sense, if the inventory has one.
    """

    long_form: str
    probability: float
    concept_id: str | None = None


@dataclass(frozen=True, slots=True)
class Expansion:
    """A short form in a note, and what it stands for there.

    Attributes:
        start: offset of the short form in the note.
        end: offset of its end: `note[start:end]` is what was written.
        short_form: the inventory's spelling: "PT" for "pts" or "Pt".
        section: the name of its section, None if there is none.
        long_form: what it stands for; None if the expander abstained.
        probability: of that long form; None if the expander abstained.
        source: "model", "definition" if the note defines it, "header", "letters", "grammar" or "pinned".
        candidates: all long forms considered, best first, even if the expander abstained.
        abstained: None, or why: "low_confidence", "no_sense_fits" or "no_known_long_form".
        error_prone: whether patient-safety lists advise against this short form for the first candidate.
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
    error_prone: bool = False

    @property
    def concept_id(self) -> str | None:
        """The concept of the chosen long form, if the inventory has one."""
        return self.candidates[0].concept_id if self.long_form is not None and self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, by field name."""
        values = {name: getattr(self, name) for name in self.__slots__}  # asdict is ten times slower
        values["candidates"] = [
            {name: getattr(each, name) for name in each.__slots__} for each in self.candidates
        ]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the expansion of `to_dict`; KeyError, TypeError or ValueError if it is of anything else."""
        candidates = tuple(Candidate(**candidate) for candidate in values["candidates"])
        made = cls(**{**values, "candidates": candidates})
        for each in (made, *candidates):
            for name, kind in _TYPES[type(each)].items():
                if not isinstance(getattr(each, name), kind):
                    raise TypeError(name)
        return made


_NUMBER = float | int
_TYPES: dict[type, dict[str, Any]] = {
    Candidate: {"long_form": str, "probability": _NUMBER, "concept_id": str | None},
    Expansion: {
        "start": int,
        "end": int,
        "short_form": str,
        "section": str | None,
        "long_form": str | None,
        "probability": _NUMBER | None,
        "source": str,
        "abstained": str | None,
        "error_prone": bool,
    },
}
