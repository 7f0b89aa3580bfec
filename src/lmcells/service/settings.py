"""Settings and limits of the service."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lmcells.errors import ConfigError


def _limit(default: float, metavar: str, meaning: str) -> Any:
    """A limit that is also an option of `lmcells serve`."""
    return field(default=default, metadata={"metavar": metavar, "help": meaning})


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Limits of the service, the host names that it answers to, and the tokens that clients may send."""

    max_body: float = _limit(8.0, "MB", "megabytes per request (%(default)g), else 413")  # unpacked
    max_note_length: int = _limit(200_000, "N", "characters per note (%(default)d), else 422")
    max_notes: int = _limit(1_000, "N", "notes per request (%(default)d), else 422")
    max_concurrency: int = _limit(128, "N", "requests at a time in each process (%(default)d), else 429")
    max_connections: int = _limit(
        1_000, "N", "open connections of each process (%(default)d); idle ones are closed"
    )
    receive_seconds: float = 30.0  # for a request to arrive; later is answered with 408
    deadline: float = _limit(60.0, "SECONDS", "time for an answer (%(default)g), else 503")
    allowed_hosts: tuple[str, ...] = ()  # names in the Host header; none: any
    reviews: str | None = None  # file of reviews; without one nothing is stored
    reviewer: str = ""  # the reviewer's name that the page starts with
    tokens: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, allowed, is_right = getattr(self, each.name), "", True
            if isinstance(each.default, int):
                is_right, allowed = type(value) is int and value >= 1, "a whole number of 1 or more"
            elif isinstance(each.default, float):
                is_right, allowed = 0 < value < float("inf"), "a number above 0"
            if not is_right:
                raise ConfigError(f"--{each.name.replace('_', '-')}: found {value!r}, allowed: {allowed}.")
        for number, token in enumerate(self.tokens, start=1):
            if not token:
                problem = "is empty"
            elif not token.isascii():
                problem = "has a non-ASCII character, which is not possible in a header"
            elif not token.isprintable() or token.strip() != token:
                problem = "has a control character, or begins or ends with a space"
            else:
                continue
            raise ConfigError(
                f"token {number} of {len(self.tokens)} {problem}. Allowed: printable ASCII, no spaces at the ends. "
                "Set another LMCELLS_TOKEN, or correct the --token-file."
            )

    @property
    def max_body_bytes(self) -> int:
        return int(self.max_body * 1_000_000)


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens of a file, one per line; empty lines and those that begin with # are skipped."""
    try:
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"--token-file: cannot read {path}: {reason}.") from None
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigError(f"--token-file: {path} contains no token. Write one per line.")
    return tokens
