"""From a transformer's last layer to one vector a text."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lmcells.errors import ModelError
from lmcells.files import read_json

if TYPE_CHECKING:
    from torch import Tensor

# Last layer (B, T, d), which positions are read (B, T), which of them are special (B, T) -> (B, d)
Pooling = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
POOLING_CONFIG = Path("1_Pooling") / "config.json"


def mean_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The mean over all positions that are read, [CLS] and [SEP] too, as sentence-transformers takes it."""
    weights = attended.unsqueeze(-1).to(states.dtype)  # (B, T, 1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def max_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The largest value of each dimension over all positions that are read."""
    return states.masked_fill(~attended.unsqueeze(-1), float("-inf")).amax(dim=1)


def first_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The first position that is read: [CLS]."""
    first = attended.int().argmax(dim=1)  # (B,); padding may stand on the left
    return states[first.new_tensor(range(len(first))), first]


def square_root_pooling(states: "Tensor", attended: "Tensor", _special: "Tensor") -> "Tensor":
    """The sum over the positions, divided by the square root of their number."""
    weights = attended.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).sqrt()


def mean_and_max_pooling(states: "Tensor", attended: "Tensor", special: "Tensor") -> "Tensor":
    """The average of mean and max over the words, [CLS] and [SEP] left out: the paper's choice for BERT."""
    words = attended & ~special
    words = words | (attended & ~words.any(dim=1, keepdim=True))  # a text without any word piece
    return (mean_pooling(states, words, special) + max_pooling(states, words, special)) / 2


MEAN_AND_MAX: Pooling = mean_and_max_pooling
_BY_SETTING: dict[str, Pooling] = {
    "pooling_mode_cls_token": first_pooling,
    "pooling_mode_max_tokens": max_pooling,
    "pooling_mode_mean_tokens": mean_pooling,
    "pooling_mode_mean_sqrt_len_tokens": square_root_pooling,
}


def read_pooling(folder: Path) -> Pooling:
    """The pooling that a folder of sentence-transformers asks for (several are put side by side), or the mean."""
    path = folder / POOLING_CONFIG
    if not path.is_file():
        return mean_pooling
    try:
        settings = read_json(path)
    except ValueError:
        raise ModelError(f"{path} is damaged: it is not JSON.") from None
    wanted = [name for name, is_on in settings.items() if name.startswith("pooling_mode_") and is_on is True]
    unknown = [name for name in wanted if name not in _BY_SETTING]
    if unknown or not wanted:
        found = unknown[0] if unknown else "no pooling_mode_..."
        raise ModelError(f"{path} asks for {found}; known: {', '.join(_BY_SETTING)}.")
    poolings = [
        pooling for name, pooling in _BY_SETTING.items() if name in wanted
    ]  # their order of concatenation
    return poolings[0] if len(poolings) == 1 else _side_by_side(poolings)


def _side_by_side(poolings: list[Pooling]) -> Pooling:
    def pool(states: "Tensor", attended: "Tensor", special: "Tensor") -> "Tensor":
        from torch import cat

        return cat([pooling(states, attended, special) for pooling in poolings], dim=-1)

    return pool
