"""Grouping equal numbers in linear time: numpy's own `unique` sorts, which was half of a build's time."""

import numpy as np
import numpy.typing as npt

_MULTIPLIER = 0x9E3779B97F4A7C15


def distinct(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each distinct hash stands first, in order, and for every hash which of these it is.

    A hash table filled by array operations: the first to claim a slot keeps it, those with another hash try
    again elsewhere. A few rounds are enough.
    """
    bits = max(8, int(hashes.size).bit_length() - 2)  # words repeat: far fewer than tokens are distinct
    slots = np.empty(1 << bits, np.int32 if hashes.size < 2**31 else np.int64)
    first_with_same = np.empty(hashes.size, np.int64)
    waiting = np.arange(hashes.size)
    multiplier = _MULTIPLIER
    while waiting.size:
        here = hashes[waiting]
        slot = (here * np.uint64(multiplier)) >> np.uint64(64 - bits)
        slots[slot[::-1]] = waiting[
            ::-1
        ]  # of several values for one slot the last written stays: the first in order
        holder = slots[slot]
        same = hashes[holder] == here
        first_with_same[waiting[same]] = holder[same]
        waiting = waiting[~same]
        multiplier = multiplier * _MULTIPLIER % (1 << 64)
    is_first = first_with_same == np.arange(hashes.size)
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first_with_same]


def stable_order(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the order that sorts ids below 2**32, stably: numpy sorts 16-bit numbers by radix."""
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    high = (ids >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order
