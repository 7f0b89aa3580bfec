"""Which part of a split a note belongs to: decided by its id alone, so that it is the same everywhere and always."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lmcells.errors import ConfigError
from lmcells.evaluation.sampling import rank_of

_EXAMPLE = "Write it as dev=0.1,test=0.2."


@dataclass(frozen=True, slots=True)
class NoteSplit:
    """Named parts and their shares of the notes; what is left over belongs to none."""

    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, share in self.shares.items():
            if not re.fullmatch(r"[\w-]+", name):
                raise ConfigError(
                    f"split: {name!r} is no name. Allowed: letters, digits, '_' and '-'. {_EXAMPLE}"
                )
            if not 0.0 < share <= 1.0:
                raise ConfigError(f"split: found {name}={share}, allowed: above 0, at most 1. {_EXAMPLE}")
        if sum(self.shares.values()) > 1.0 + 1e-9:
            raise ConfigError(f"split: the shares add to {sum(self.shares.values()):g}, allowed: at most 1.")

    @classmethod
    def parse(cls, written: str) -> "NoteSplit":
        """Read "dev=0.1,test=0.2"."""
        shares: dict[str, float] = {}
        for part in written.split(","):
            name, equals, share = part.strip().partition("=")
            try:
                number = float(share)
            except ValueError:
                number = 0.0
            if not equals or name in shares or not number > 0.0:
                raise ConfigError(
                    f"split: found {part.strip()!r}, allowed: each name once, with its share. {_EXAMPLE}"
                )
            shares[name] = number
        return cls(shares)

    def part_of(self, note_id: str) -> str | None:
        """Return the part of a note, or None for one that is left over."""
        place = rank_of(note_id, seed="split") / 2**64
        for name, share in self.shares.items():
            if place < share:
                return name
            place -= share
        return None
