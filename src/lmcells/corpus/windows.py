"""The words around a center, never across a section or document boundary."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RADIUS = 10


@dataclass(frozen=True, slots=True)
class Windows:
    """Context words of a batch of centers, left to right; `mask` tells which are there, the others are 0."""

    context: npt.NDArray[np.integer]  # (batch, 2 * radius)
    mask: npt.NDArray[np.bool_]  # (batch, 2 * radius)


def windows_around(
    centers: npt.NDArray[np.integer],
    *,
    tokens: npt.NDArray[np.integer],
    token_segment: npt.NDArray[np.integer],
    radius: int = RADIUS,
) -> Windows:
    """Gather up to `radius` words on each side of the tokens at `centers`."""
    offsets = np.concatenate([np.arange(-radius, 0), np.arange(1, radius + 1)])
    places = np.asarray(centers, np.int64)[:, None] + offsets  # (batch, 2 * radius)
    inside = (places >= 0) & (places < tokens.size)
    places = np.where(inside, places, 0)
    mask = inside & (token_segment[places] == token_segment[centers][:, None])
    return Windows(np.where(mask, tokens[places], 0), mask)
