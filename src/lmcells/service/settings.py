"""What the service accepts, and how much of it at a time."""

from dataclasses import dataclass, field
from pathlib import Path

from lmcells.errors import ConfigError

_COUNTS = ("max_note_length", "max_notes", "max_concurrency", "max_connections")
_MEASURES = ("max_body", "receive_seconds", "deadline")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Limits of the service, the host names that it answers to, and the tokens of which clients must send one."""

    max_body: float = 8.0  # MB per request, unpacked; more is answered with 413
    max_note_length: int = 200_000  # characters; more is answered with 422
    max_notes: int = 1_000  # per request; more is answered with 422
    max_concurrency: int = 128  # requests that wait for their answer; more: 429
    max_connections: int = 1_000  # beyond it, the connection that has been silent for longest is closed
    receive_seconds: float = 30.0  # for a request to arrive; later is answered with 408
    deadline: float = 60.0  # seconds for an answer; later is answered with 503
    allowed_hosts: tuple[str, ...] = ()  # names in the Host header; none: any
    reviews: str | None = None  # file of reviews; without one nothing is stored
    reviewer: str = ""  # the name that the page begins with
    tokens: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name in (*_COUNTS, *_MEASURES):
            value, allowed = getattr(self, name), "a number above 0"
            if name in _COUNTS:
                is_right, allowed = type(value) is int and value >= 1, "a whole number of 1 or more"
            else:
                is_right = 0 < value < float("inf")
            if not is_right:
                raise ConfigError(f"--{name.replace('_', '-')}: found {value!r}, allowed: {allowed}.")
        for number, token in enumerate(self.tokens, start=1):
            if not token:
                problem = "is empty"
            elif not token.isascii():
                problem = "holds a character that is not ASCII, which no header can carry"
            elif not token.isprintable() or token.strip() != token:
                problem = "holds a control character, or begins or ends with a space"
            else:
                continue
            raise ConfigError(
                f"token {number} of {len(self.tokens)} {problem}. Allowed: printable ASCII without spaces around "
                "it. Set another LMCELLS_TOKEN, or correct the --token-file."
            )

    @property
    def max_body_bytes(self) -> int:
        return int(self.max_body * 1_000_000)


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens of a file, one per line; empty lines and those that begin with # are skipped."""
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"--token-file: cannot read {path}: {reason}.") from None
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigError(f"--token-file: {path} holds no token. Write one per line.")
    return tokens
