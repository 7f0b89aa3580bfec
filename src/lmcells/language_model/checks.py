"""Settings that check themselves: what was found, and what is allowed."""

import math
from collections.abc import Sequence

from lmcells.errors import ConfigError, nearest


def require_integer(settings: object, name: str, *, at_least: int, below: int | None = None) -> None:
    """Refuse a setting that is no integer in this range."""
    value = getattr(settings, name)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or value < at_least or (below is not None and value >= below):
        limit = "" if below is None else f" and below {below}"
        raise ConfigError(f"{name} is {value!r}; allowed: an integer of at least {at_least}{limit}.")


def require_number(settings: object, name: str, *, above: float = -math.inf, below: float = math.inf) -> None:
    """Refuse a setting that is no finite number of at least 0, or not strictly within these limits."""
    value = getattr(settings, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or not above < value < below:
        lowest = f"above {above:g}" if above >= 0 else "of at least 0"
        limit = "" if below == math.inf else f" and below {below:g}"
        raise ConfigError(f"{name} is {value!r}; allowed: a finite number {lowest}{limit}.")


def require_choice(settings: object, name: str, choices: Sequence[str]) -> None:
    """Refuse a setting that is none of the choices."""
    value = getattr(settings, name)
    if value not in choices:
        near = nearest(str(value), choices)
        raise ConfigError(f"{name} is {value!r}; allowed: {', '.join(choices)}.{near}")
