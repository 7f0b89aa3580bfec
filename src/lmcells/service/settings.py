"""What the service accepts, and how much of it at a time."""

from dataclasses import dataclass, field

from lmcells.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Limits of the service, and the token that clients must send."""

    max_body: float = 8.0  # MB per request; more is answered with 413
    max_note_length: int = 200_000  # characters; more is answered with 422
    max_notes: int = 1_000  # per request; more is answered with 422
    max_concurrency: int = 128  # requests at a time, reading and waiting included; more is answered with 429
    body_seconds: float = 30.0  # for a body to arrive; later is answered with 408
    reviews: str | None = None  # file of reviews; without one nothing is stored
    reviewer: str = ""  # the name that the page begins with
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("max_note_length", "max_notes", "max_concurrency"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"{_flag(name)}: found {value!r}, allowed: a whole number of 1 or more.")
        for name in ("max_body", "body_seconds"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ConfigError(f"{_flag(name)}: found {value!r}, allowed: a number above 0.")
        if self.token is not None and not (
            self.token.isascii() and self.token.isprintable() and self.token.strip() == self.token != ""
        ):
            raise ConfigError(
                "the token must be printable ASCII without spaces around it. Set another LMCELLS_TOKEN."
            )

    @property
    def max_body_bytes(self) -> int:
        """The largest body in bytes."""
        return int(self.max_body * 1_000_000)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
