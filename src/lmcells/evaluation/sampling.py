"""A uniform sample of a stream that depends on what is in the stream and on the seed, not on the order.

Every item gets a pseudo-random rank from its name, and the lowest ranks stay. Memory is bounded by the sample.
"""

import hashlib
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


def rank_of(name: str, *, seed: int | str = "") -> int:
    """Return a number of 64 bits that looks random and depends on the name and the seed alone."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


@dataclass(slots=True)
class Sample(Generic[Item]):
    """At most `size` items of those offered."""

    size: int
    seed: int
    n_offered: int = 0
    _heap: list[tuple[int, int, Item]] = field(default_factory=list)  # the highest rank first

    def offer(self, name: str, item: Item) -> None:
        """Consider an item. Its name must be its own."""
        self.n_offered += 1
        entry = (-rank_of(name, seed=self.seed), self.n_offered, item)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Item]:
        return (item for _, _, item in self._heap)
