"""A shard as the corpus sees it, once it is decided which headers are sections."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmcells.corpus.sections import STAYS_IN_BODY, SectionTable
from lmcells.corpus.shard import Shard


@dataclass(frozen=True, slots=True)
class ResolvedShard:
    """Body tokens in order, segment after segment; segments with their length, section and document."""

    tokens: npt.NDArray[np.uint32]  # index of the shard's word
    segment_tokens: npt.NDArray[np.int64]
    segment_section: npt.NDArray[np.int32]
    segment_document: npt.NDArray[np.int32]

    def save(self, path: Path) -> None:
        """Write it to a file, where it waits until the vocabulary is known."""
        with path.open("wb") as file:
            for field in fields(self):
                np.save(file, getattr(self, field.name), allow_pickle=False)


def load_resolved(path: Path) -> ResolvedShard:
    """Read what `save` wrote."""
    with path.open("rb") as file:
        return ResolvedShard(*(np.load(file, allow_pickle=False) for _ in fields(ResolvedShard)))


def resolve(shard: Shard, sections: SectionTable) -> ResolvedShard:
    """Drop the tokens of headers that are sections, not of those that stay in the body; drop repeats."""
    section = sections.ids_of(shard)
    first_of_document = np.ones(section.size, np.bool_)
    first_of_document[1:] = shard.segment_document[1:] != shard.segment_document[:-1]
    in_body = section == STAYS_IN_BODY
    begins = np.flatnonzero(~in_body | first_of_document)  # text never joins the previous note
    section = np.where(
        in_body, 0, section
    )  # the first of a note, with a header that stays in the body, has no section

    lengths = np.stack(
        [shard.segment_header_tokens, shard.segment_tokens - shard.segment_header_tokens], axis=1
    )
    kept_parts = np.stack([in_body, np.ones_like(in_body)], axis=1)
    tokens = shard.tokens[np.flatnonzero(np.repeat(kept_parts.ravel(), lengths.ravel()))]
    segment_tokens = np.add.reduceat((lengths * kept_parts).sum(axis=1), begins)

    repeats = find_repeats(tokens, segment_tokens)
    return ResolvedShard(
        tokens=np.delete(tokens, repeats),
        segment_tokens=segment_tokens - count_in_segments(repeats, segment_tokens),
        segment_section=section[begins],
        segment_document=shard.segment_document[begins],
    )


def find_repeats(
    tokens: npt.NDArray[np.integer], segment_tokens: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Return where a word stands right after itself, in one segment."""
    repeats = np.flatnonzero(tokens[1:] == tokens[:-1]) + 1
    segment_ends = np.cumsum(segment_tokens)  # where the next one starts
    within: npt.NDArray[np.int64] = repeats[segment_ends[np.searchsorted(segment_ends, repeats)] != repeats]
    return within


def count_in_segments(
    places: npt.NDArray[np.int64], segment_tokens: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Count the places, given in order, that lie in each segment."""
    n_before: npt.NDArray[np.int64] = np.searchsorted(places, np.cumsum(segment_tokens))
    return np.diff(n_before, prepend=0)
