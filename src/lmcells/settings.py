"""Checking settings, which are dataclasses, against the types of their fields."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from lmcells.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Limits:
    """The allowed range of a number; at least 0 by default."""

    at_least: int = 0
    above: int | None = None
    below: int | None = None
    at_most: int | None = None

    def allow(self, value: float) -> bool:
        return (
            (value >= self.at_least if self.above is None else value > self.above)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )

    def __str__(self) -> str:
        limits = [f"of at least {self.at_least}" if self.above is None else f"above {self.above}"]
        limits += [f"below {self.below}"] if self.below is not None else []
        limits += [f"at most {self.at_most}"] if self.at_most is not None else []
        return " and ".join(limits)


Size = Annotated[int, Limits(at_least=1)]
Rate = Annotated[float, Limits(below=1)]
Positive = Annotated[float, Limits(above=0)]


Settings = TypeVar("Settings")


def from_saved(kind: type[Settings], saved: Mapping[str, Any]) -> Settings:
    """Build settings from the mapping that was saved of them; refuses missing and unknown ones."""
    differing = sorted(saved.keys() ^ {field.name for field in fields(kind)})  # type: ignore[arg-type]
    if differing:
        raise ConfigError(
            f"settings that this lmcells does not know, or that are missing: {', '.join(differing)}. Upgrade lmcells."
        )
    return kind(**saved)


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold; true and false are not numbers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def check_fields(settings: Any) -> None:
    """Refuse the first field that does not match its type: bool, Literal, int, float, or Annotated with `Limits`."""
    types = get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        value, kind, limits = getattr(settings, field.name), types[field.name], Limits()
        if get_origin(kind) is Annotated:
            kind, limits = get_args(kind)
        allowed, near = "", ""
        if kind is bool and not isinstance(value, bool):
            allowed = "true or false"
        elif get_origin(kind) is Literal and value not in get_args(kind):
            choices = [str(each) for each in get_args(kind)]
            allowed, near = ", ".join(choices), nearest(str(value), choices)
        elif kind is int and (type(value) is not int or not limits.allow(value)):
            allowed = f"an integer {limits}"
        elif kind is float or (kind == float | None and value is not None):
            is_allowed = is_finite(value) and limits.allow(value)
            allowed = "" if is_allowed else f"a finite number {limits}"
        if allowed:
            raise ConfigError(f"{field.name} is {value!r}; allowed: {allowed}.{near}")
