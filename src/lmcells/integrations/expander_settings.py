"""Which expander to open: plain values that travel to another process, where it is opened once."""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from lmcells.errors import ConfigError
from lmcells.expansion.expander import Expander
from lmcells.expansion.note_reader import SECTION_STYLES


@dataclass(frozen=True, slots=True)
class ExpanderSettings:
    """A model folder and an inventory (None: the shipped ones), how sections are found, and when to abstain."""

    model: str | None = None
    inventory: str | None = None
    sections: str = "rules"
    threshold: float | None = None  # least probability of an answer; None: the model's own

    def __post_init__(self) -> None:
        if self.sections not in SECTION_STYLES:
            raise ConfigError(f"sections: found {self.sections!r}, allowed: {', '.join(SECTION_STYLES)}.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold: found {self.threshold}, allowed: 0 to 1.")

    def open(self) -> Expander:
        """Load the model."""
        expander = Expander.from_pretrained(self.model, inventory=self.inventory, sections=self.sections)
        if self.threshold is not None:
            expander.calibration = replace(expander.calibration, least_probability=self.threshold)
        return expander

    def opened(self) -> Expander:
        """Return the expander of this process, loaded when it is first asked for; it answers the same in any other."""
        return _opened(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@lru_cache(maxsize=2)
def _opened(settings: ExpanderSettings) -> Expander:
    return settings.open()
