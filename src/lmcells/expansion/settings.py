"""The settings of an expander, as plain values."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lmcells.errors import ConfigError
from lmcells.expansion.expander import Expander
from lmcells.expansion.reader import SECTION_STYLES


@dataclass(frozen=True, slots=True)
class ExpanderSettings:
    """The settings of an expander: plain values that can be sent to another process, which opens it there.

    `inventory` are files of senses and rules that extend the shipped inventory, or `only_inventory` if that is given.
    """

    model: str | None = None  # model folder; None: the shipped one
    inventory: tuple[str, ...] = ()
    sections: str = "rules"  # how to find sections: rules, paper or none
    threshold: float | None = None  # abstain below this probability; None: the model's own threshold
    letters: bool = True  # also expand short forms outside the inventory, by their letters
    codes: bool = False  # also expand codes such as pT3a
    only_inventory: str | None = None
    header_rules: str | None = None  # a file with the user's own headers

    def __post_init__(self) -> None:
        given = (self.inventory,) if isinstance(self.inventory, str) else tuple(self.inventory or ())
        object.__setattr__(self, "inventory", given)
        if self.sections not in SECTION_STYLES:
            raise ConfigError(f"sections: found {self.sections!r}, allowed: {', '.join(SECTION_STYLES)}.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold: found {self.threshold}, allowed: 0 to 1.")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of senses and headers, in reading order."""
        named = (self.only_inventory, *self.inventory, self.header_rules)
        return tuple(Path(name) for name in named if name is not None)

    def open(self) -> Expander:
        given = asdict(self)  # but for the threshold, the arguments of `from_pretrained`
        model, threshold = given.pop("model"), given.pop("threshold")
        expander = Expander.from_pretrained(model, **given)
        if threshold is not None:
            expander.calibration = replace(expander.calibration, least_probability=threshold)
        return expander
