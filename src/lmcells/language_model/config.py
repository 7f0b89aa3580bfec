"""The settings that define a bidirectional language model."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmcells.errors import ConfigError
from lmcells.language_model.checks import require_choice, require_integer, require_number

EncoderKind = Literal["transformer", "bilstm"]


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """What must be known to build a model: 4.4 M parameters without tables by default, 26 times the LMC's.

    How it is trained stands in `LanguageModelSettings`.
    """

    kind: EncoderKind = "transformer"
    n_words: int  # that can be predicted; any word can be read

    layers: int = 2  # in each direction
    width: int = 256  # of a word's vector, and of the states of each direction
    heads: int = 4  # of a transformer's attention
    feed_forward: int = 1024  # of a transformer's layers
    dropout: float = 0.1

    max_characters: int = 24  # bytes of a word that are read, with one mark at either end
    character_dim: int = 16
    filters: tuple[int, ...] = (32, 32, 64, 128, 256)  # how many are 1, 2, 3... characters wide
    highways: int = 2

    def __post_init__(self) -> None:
        require_choice(self, "kind", get_args(EncoderKind))
        for name in ("n_words", "layers", "width", "heads", "feed_forward", "character_dim"):
            require_integer(self, name, at_least=1)
        require_integer(self, "max_characters", at_least=3)
        require_integer(self, "highways", at_least=0)
        require_number(self, "dropout", below=1.0)
        self._require_filters()
        if self.kind == "transformer" and self.width % (2 * self.heads):
            raise ConfigError(
                f"width is {self.width}, heads is {self.heads}; allowed: a width that is a multiple of twice the heads."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "filters": list(self.filters)}

    def _require_filters(self) -> None:
        given = self.filters
        is_list = isinstance(given, list | tuple) and all(
            type(count) is int and count >= 0 for count in given
        )
        if not is_list or not sum(given) or len(given) > self.max_characters:
            raise ConfigError(
                f"filters is {given!r}; allowed: at most {self.max_characters} counts, the first of filters one "
                "character wide, and not all 0."
            )
        object.__setattr__(self, "filters", tuple(given))  # JSON and TOML have lists
