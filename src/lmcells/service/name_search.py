"""Finding names while they are typed, and the nearest ones where none is like it."""

import difflib
from collections.abc import Callable, Mapping, Sequence

_MOST_COMPARED = 10_000  # of the commonest names: comparing spellings takes long, and rare ones help nobody
_LEAST_LIKE = 0.6


class NameSearch:
    """Names that begin with what is searched, the commonest first, then those that hold it; else the nearest."""

    def __init__(
        self, counts: Mapping[str, int], *, held_by: Callable[[str], Sequence[str]] | None = None
    ) -> None:
        self._names = sorted(counts, key=lambda name: -counts[name])
        self._counts = counts
        self._keys = [name.casefold() for name in self._names]
        self._compared = dict(zip(self._keys[:_MOST_COMPARED], self._names, strict=False))
        self._held_by = held_by or (lambda _: ())

    def __contains__(self, name: object) -> bool:
        return name in self._counts

    def __call__(self, text: str, *, limit: int) -> list[tuple[str, int]]:
        """Return names with their counts, best first; without text the commonest. There is always one, if any is."""
        wanted = text.casefold().strip()
        begins = [
            (key != wanted, name)
            for key, name in zip(self._keys, self._names, strict=True)
            if key.startswith(wanted)
        ]
        found = dict.fromkeys(name for _, name in sorted(begins, key=lambda each: each[0]))
        if len(found) < limit and wanted:
            found.update(dict.fromkeys(self._held_by(wanted)))
        names = list(found) or self._nearest(wanted, limit=limit)
        return [(name, self._counts[name]) for name in names[:limit]]

    def _nearest(self, wanted: str, *, limit: int) -> list[str]:
        likest = difflib.get_close_matches(wanted, self._compared, n=limit, cutoff=_LEAST_LIKE)
        if likest:
            return [self._compared[key] for key in likest]
        alike = [name for key, name in zip(self._keys, self._names, strict=True) if key[:1] == wanted[:1]]
        return alike or self._names


def holding(names: Sequence[str]) -> Callable[[str], list[str]]:
    """What finds names that have a text in them, in their order: for names of several words."""
    keys = [(name.casefold(), name) for name in names]
    return lambda wanted: [name for key, name in keys if wanted in key]
