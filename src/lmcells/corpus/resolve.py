"""A shard as the corpus sees it, once it is decided which headers are sections."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmcells.corpus.sections import STAYS_IN_BODY, SectionTable
from lmcells.corpus.shard import Shard


@dataclass(frozen=True, slots=True)
class ResolvedShard:
    """Body tokens in order, each with its segment; segments with their section and document."""

    tokens: npt.NDArray[np.uint32]  # index of the shard's word
    token_segment: npt.NDArray[np.int64]
    segment_section: npt.NDArray[np.int32]
    segment_document: npt.NDArray[np.int32]


def resolve(shard: Shard, sections: SectionTable) -> ResolvedShard:
    """Drop the tokens of headers that are sections, not of those that stay in the body; drop repeats."""
    section = sections.ids_of(shard)
    first_of_document = np.ones(section.size, np.bool_)
    first_of_document[1:] = shard.segment_document[1:] != shard.segment_document[:-1]
    in_body = section == STAYS_IN_BODY
    begins = ~in_body | first_of_document  # text never joins the previous note
    section = np.where(
        in_body, 0, section
    )  # the first of a note, with a header that stays in the body, has no section

    lengths = np.stack(
        [shard.segment_header_tokens, shard.segment_tokens - shard.segment_header_tokens], axis=1
    )
    kept_parts = np.stack([in_body, np.ones_like(in_body)], axis=1)
    keep = np.repeat(kept_parts.ravel(), lengths.ravel())
    tokens = shard.tokens[keep]
    token_segment = np.repeat(np.cumsum(begins) - 1, (lengths * kept_parts).sum(axis=1))

    distinct = repeats_dropped(tokens, token_segment)
    return ResolvedShard(
        tokens=tokens[distinct],
        token_segment=token_segment[distinct],
        segment_section=section[begins],
        segment_document=shard.segment_document[begins],
    )


def repeats_dropped(
    tokens: npt.NDArray[np.integer], segments: npt.NDArray[np.integer]
) -> npt.NDArray[np.bool_]:
    """Return which tokens stay when a word right after itself, in one segment, is dropped."""
    stays = np.ones(tokens.size, np.bool_)
    stays[1:] = (tokens[1:] != tokens[:-1]) | (segments[1:] != segments[:-1])
    return stays
