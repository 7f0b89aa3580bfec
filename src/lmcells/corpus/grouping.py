"""Grouping equal numbers in linear time: numpy's own `unique` sorts, which was half of a build's time."""

import numpy as np
import numpy.typing as npt

from lmcells.notes.bulk_tokens import slots_of

_MULTIPLIER = 0x9E3779B97F4A7C15
_SAMPLE = 1 << 15
_SAMPLE_BITS = 16  # slots for the sample's hashes: small enough for the processor's cache


def distinct(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each distinct hash stands first, in order, and for every hash which of these it is.

    Most tokens are of few words, and a sample has nearly all of these: what it knows is looked up in a table that stays
    in the cache, and only the rest is grouped at full size.
    """
    if hashes.size < 4 * _SAMPLE:
        return _group(hashes)
    first, _ = _group(hashes[:_SAMPLE])
    places = np.zeros(1 << _SAMPLE_BITS, np.int64)  # where a slot is empty, the comparison below fails
    slot_of_first = slots_of(hashes[first], _MULTIPLIER, _SAMPLE_BITS)
    places[slot_of_first[::-1]] = first[::-1]
    candidate = places[slots_of(hashes, _MULTIPLIER, _SAMPLE_BITS)]
    rest = np.flatnonzero(hashes[candidate] != hashes)
    rest_first, rest_group = _group(hashes[rest])
    in_sample = first[places[slot_of_first] == first]  # the others lost their slot, and are in the rest
    firsts = np.sort(np.concatenate([in_sample, rest[rest_first]]))
    number = np.empty(hashes.size, np.int64)  # read and written at the firsts alone
    number[firsts] = np.arange(firsts.size)
    groups = number[candidate]
    groups[rest] = number[rest[rest_first]][rest_group]
    return firsts, groups


def _group(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`distinct` by a hash table filled with array operations.

    The first to claim a slot keeps it, those with another hash try again elsewhere; a few rounds are enough.
    """
    bits = max(8, int(hashes.size).bit_length() - 2)  # words repeat: far fewer than tokens are distinct
    slots = np.empty(1 << bits, np.int64)
    first_with_same = np.empty(hashes.size, np.int64)
    waiting = np.arange(hashes.size)
    multiplier = _MULTIPLIER
    while waiting.size:
        here = hashes[waiting]
        slot = slots_of(here, multiplier, bits)
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
    """Return the order that sorts ids below 2**31, stably.

    Each id is sorted together with its place, as one number: numpy sorts numbers faster than it finds their order.
    """
    bits = int(ids.size).bit_length()
    order: npt.NDArray[np.int64] = (ids.astype(np.int64) << bits) | np.arange(ids.size)
    order.sort()
    order &= (1 << bits) - 1
    return order
