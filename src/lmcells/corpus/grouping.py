"""Grouping equal numbers in linear time: numpy's own `unique` sorts, which was half of a build's time."""

import numpy as np
import numpy.typing as npt

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
    places = np.full(1 << _SAMPLE_BITS, -1, np.int32)
    slot_of_first = _slots(hashes[first], _MULTIPLIER, _SAMPLE_BITS)
    places[slot_of_first[::-1]] = first[::-1]
    candidate = places[_slots(hashes, _MULTIPLIER, _SAMPLE_BITS)]
    known = (candidate >= 0) & (hashes[candidate] == hashes)
    rest = np.flatnonzero(~known)
    rest_first, rest_group = _group(hashes[rest])
    in_sample = first[places[slot_of_first] == first]  # the others lost their slot, and are in the rest
    firsts = np.sort(np.concatenate([in_sample, rest[rest_first]]))
    number = np.empty(hashes.size, np.int32)  # read and written at the firsts alone
    number[firsts] = np.arange(firsts.size)
    groups = number[candidate].astype(np.int64)
    groups[rest] = number[rest[rest_first]][rest_group]
    return firsts, groups


def _group(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`distinct` by a hash table filled with array operations.

    The first to claim a slot keeps it, those with another hash try again elsewhere; a few rounds are enough.
    """
    bits = max(8, int(hashes.size).bit_length() - 2)  # words repeat: far fewer than tokens are distinct
    slots = np.empty(1 << bits, np.int32 if hashes.size < 2**31 else np.int64)
    first_with_same = np.empty(hashes.size, np.int64)
    waiting = np.arange(hashes.size)
    multiplier = _MULTIPLIER
    while waiting.size:
        here = hashes[waiting]
        slot = _slots(here, multiplier, bits)
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


def _slots(hashes: npt.NDArray[np.uint64], multiplier: int, bits: int) -> npt.NDArray[np.uint64]:
    slots: npt.NDArray[np.uint64] = (hashes * np.uint64(multiplier)) >> np.uint64(64 - bits)
    return slots


def stable_order(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the order that sorts ids below 2**32, stably: numpy sorts 16-bit numbers by radix."""
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    high = (ids >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order
