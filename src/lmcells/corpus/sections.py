"""Which headers become sections, and what happens to the others.

`paper`: a frequent header has its own id; a rare one stays part of the body text before it.
Other styles: a rare header falls back to its canonical name, then to "other", and ends the previous section.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.corpus.shard import Shard

NO_SECTION = "<no section>"
OTHER = "<other>"
_STAYS_IN_BODY = -1


def number_sections(headers: Counter[tuple[str, str]], *, min_count: int, merge_rare: bool) -> dict[str, int]:
    """Return the section names that have an id, the most frequent first.

    `headers` counts headers as written with their canonical names; `merge_rare` leaves rare ones in the body.
    """
    by_key: Counter[str] = Counter()
    by_name: Counter[str] = Counter()
    for (key, name), count in headers.items():
        by_key[key] += count
        by_name[name] += count
    kept = {key: count for key, count in by_key.items() if count >= min_count}
    needs_other = False
    for key, name in () if merge_rare else headers:
        if key in kept:
            continue
        if by_name[name] >= min_count:
            kept.setdefault(name, by_name[name])
        else:
            needs_other = True
    names = [NO_SECTION, *([OTHER] if needs_other else [])]
    names += sorted(kept, key=lambda name: (-kept[name], name))
    return {name: index for index, name in enumerate(names)}


class ResolvedShard(NamedTuple):
    """A shard with its headers resolved: the tokens of all segments, in order."""

    tokens: npt.NDArray[np.uint32]  # index of the shard's word
    segment_tokens: npt.NDArray[np.int64]
    segment_section: npt.NDArray[np.int32]
    segment_document: npt.NDArray[np.int32]


def resolve(shard: Shard, section_ids: dict[str, int]) -> ResolvedShard:
    """Drop repeated words and the tokens of section headers; keep those of headers that stay in the body."""
    document, header, n_header_tokens, n_tokens = shard.segments
    rare = section_ids.get(OTHER, _STAYS_IN_BODY)
    by_header = [section_ids.get(key, section_ids.get(name, rare)) for key, name in shard.headers]
    table = np.array([*by_header, section_ids[NO_SECTION]], np.int32)  # NO_HEADER is its last element
    section = table[header]
    in_body = section == _STAYS_IN_BODY
    first_of_document = np.append(True, document[1:] != document[:-1])
    begins = np.flatnonzero(~in_body | first_of_document)  # text never joins that of the previous note
    section = np.where(in_body, 0, section)  # a note may begin with a header that stays in the body

    lengths = np.stack([n_header_tokens, n_tokens - n_header_tokens], axis=1)
    kept_parts = np.stack([in_body, np.ones_like(in_body)], axis=1)
    tokens = shard.tokens[np.repeat(kept_parts.ravel(), lengths.ravel())]
    segment_tokens = np.add.reduceat((lengths * kept_parts).sum(axis=1), begins)

    repeats = np.flatnonzero(tokens[1:] == tokens[:-1]) + 1  # an immediately repeated word in a segment
    segment_ends = np.cumsum(segment_tokens)  # where the next segment starts
    repeats = repeats[segment_ends[np.searchsorted(segment_ends, repeats)] != repeats]
    return ResolvedShard(
        tokens=np.delete(tokens, repeats),
        segment_tokens=segment_tokens - count_in_segments(repeats, segment_tokens),
        segment_section=section[begins],
        segment_document=document[begins],
    )


def count_in_segments(
    positions: npt.NDArray[np.int64], segment_tokens: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Count the positions in each segment; positions are in order."""
    return np.diff(np.searchsorted(positions, np.cumsum(segment_tokens)), prepend=0)
