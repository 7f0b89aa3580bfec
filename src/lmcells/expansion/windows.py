"""The window of a mention: its section, and the words around it.

A text is tokenised once; mentions carry its tokens, and `WindowReader` extracts the windows of a batch by array
operations. `tests/expansion/test_windows.py` has the reference, token by token, and checks that the two agree.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus.corpus import RADIUS
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.notes.sections import find_alias, load_aliases, upper_name
from lmcells.notes.tokens import Token, TokenArrays, find_tokens, hash_word, hash_words, slots_of, spell
from lmcells.pretrained import PretrainedModel, ReadWindows
from lmcells.pretrained.subwords import Subwords

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NULL = -1  # the id of no section
_NONE = -1  # no token, or a token without an id
_BETWEEN = "\n]#\n"  # ends any token or de-identification mark that a text leaves open
_MOST_HEADERS = 10_000  # that are cached
_SLOT_BITS = 18  # one word of the vocabulary in fourteen shares its slot with another


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text and its tokens, stop words included."""

    text: str = field(repr=False)  # patient data: never in a log or a traceback
    tokens: TokenArrays = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(text, find_tokens(text, stop_words=True))


@dataclass(frozen=True, slots=True)
class Mention:
    """A short form at `text[start:end]`; `text` is the section named `section`, or part of it.

    If the text is part of a note, the mention carries the note's tokens, and `text` begins at `offset` in the note.
    """

    text: str = field(repr=False)  # patient data: never in a log or a traceback
    start: int
    end: int
    short_form: str
    section: str | None
    note: TokenizedText | None = field(default=None, repr=False, compare=False)
    offset: int = 0


def missing_words(read: Mask) -> npt.NDArray[np.float64]:
    """Return log(N / n) for windows with n of N positions read, 0 for a whole one: (B, N) -> (B, 1)."""
    missing: npt.NDArray[np.float64] = np.log(read.shape[1] / read.sum(axis=1, keepdims=True).clip(1))
    return missing


def known_section(section: str, known: Container[str]) -> str | None:
    """Return the known name of a header: its own, or its canonical name."""
    alias = find_alias(load_aliases(None), section)
    names = (section, upper_name(section), alias.name if alias else "")
    return next((name for name in names if name in known), None)


def section_id_finder(model: PretrainedModel) -> Callable[[str | None], int]:
    """Return a function from a header to its metadata id in the model: its own, of its canonical name, or of "other".

    Without any of these it is the id of no section, or `NULL`.
    """
    ids = model.section_ids

    @lru_cache(_MOST_HEADERS)
    def find(section: str | None) -> int:
        if section is not None and (name := known_section(section, ids) or OTHER) in ids:
            return ids[name]
        return ids.get(NO_SECTION, NULL)

    return find


class WindowReader:
    """Reads the windows of mentions for one vocabulary.

    read = WindowReader(model.word_ids, radius=10, mask_id=model.sizes.mask_id)
    read(mentions)   # ReadWindows
    """

    def __init__(
        self,
        word_ids: Mapping[str, int] | None,
        *,
        radius: int = RADIUS,
        hides_center: bool = False,
        mask_id: int | None = None,
        subwords: Subwords | None = None,
        stop_words: bool = False,
    ) -> None:
        """With `hides_center` the short form is masked; `mask_id` replaces it in the context.

        Out-of-vocabulary words are dropped, or embedded by `subwords`; stop words are dropped unless `stop_words`.
        Without a vocabulary (None) any word is read, for `words_read` and `text_of`.
        """
        self._word_ids = word_ids
        self._radius = radius
        self._hides_center = hides_center
        self._mask_id = mask_id
        self._subwords = subwords
        self._stop_words = stop_words
        known = word_ids or {}
        hashes = hash_words(known)
        order = np.argsort(hashes)
        # A sentinel with the largest hash, so that an index past the end is safe.
        self._hashes = np.append(hashes[order], np.uint64(2**64 - 1))
        self._ids = np.append(np.array(list(known.values()), np.int64)[order], _NONE)
        self._slots = np.zeros(1 << _SLOT_BITS, np.int32)  # where a word is in these; some words share a slot
        self._slots[slots_of(self._hashes, 1, _SLOT_BITS)] = np.arange(self._hashes.size)

    def __call__(self, mentions: Sequence[Mention]) -> ReadWindows:
        """Return up to `radius` words on either side of each mention, as in a corpus.

        An out-of-vocabulary short form is a masked center.
        """
        n_masks = 0 if self._mask_id is None else 1
        context = np.zeros((len(mentions), 2 * self._radius + n_masks), np.int64)
        mask = np.zeros(context.shape, np.bool_)
        spelt = {short_form: spell(short_form) for short_form in {each.short_form for each in mentions}}
        word_ids = self._word_ids or {}
        id_of = {short_form: word_ids.get(word, _NONE) for short_form, word in spelt.items()}
        center = np.array([id_of[each.short_form] for each in mentions], np.int64)
        center_mask = (center != _NONE) & (not self._hides_center)
        unknown = None
        if mentions:
            tokens = self._tokens_of(mentions)
            ids = np.append(tokens.ids, 0)  # index _NONE is the last one
            columns = slice(0, self._radius), slice(self._radius + n_masks, None)
            for found, side in zip(self._neighbours(mentions, tokens), columns, strict=True):
                mask[:, side] = found != _NONE
                context[:, side] = ids[found]
            if self._subwords is not None:
                unknown = _look_up(self._subwords, tokens.spellings, context, mask)
        if self._mask_id is not None:
            context[:, self._radius], mask[:, self._radius] = self._mask_id, True
        return ReadWindows(np.where(center_mask, center, 0), center_mask, context, mask, unknown)

    def words_read(self, mentions: Sequence[Mention]) -> list[tuple[list[Token], list[Token]]]:
        """Return the tokens of each mention's window, before and after it, with their offsets in its text."""
        if not mentions:
            return []
        tokens = self._tokens_of(mentions)
        sides = self._neighbours(mentions, tokens)
        read = []
        for row, mention in enumerate(mentions):
            both: tuple[list[Token], list[Token]] = ([], [])
            for side, found in zip(both, sides, strict=True):
                for at in found[row][found[row] != _NONE].tolist():
                    start, end = (
                        int(offsets[at] - tokens.begins[row]) for offsets in (tokens.starts, tokens.ends)
                    )
                    side.append(Token(spell(mention.text[start:end]), start, end))
            read.append(both)
        return read

    def text_of(self, mention: Mention) -> str:
        """Return a window as written, from its first word to its last."""
        ((left, right),) = self.words_read([mention])
        start = left[0].start if left else mention.start
        return mention.text[start : right[-1].end if right else mention.end]

    def _tokens_of(self, mentions: Sequence[Mention]) -> "_BatchTokens":
        """Concatenate the tokens of the mentions' notes, as far as the mentions' texts extend."""
        mentions = _with_tokens(mentions)
        extents: dict[int, tuple[TokenizedText, int, int]] = {}  # by identity: a note, and the part needed
        for mention in mentions:
            first, last = mention.offset, mention.offset + len(mention.text)
            note, earliest, latest = extents.get(id(mention.note), (mention.note, first, last))
            assert note is not None
            extents[id(note)] = note, min(first, earliest), max(last, latest)
        parts: list[tuple[Integers, Integers, npt.NDArray[np.uint64]]] = []
        texts: list[str] = []
        shift_of: dict[int, int] = {}
        length = 0
        for key, (note, first, last) in extents.items():
            tokens = note.tokens if self._stop_words else note.tokens.without_stop_words()
            inside = slice(tokens.starts.searchsorted(first), tokens.ends.searchsorted(last, "right"))
            shift_of[key] = shift = length - first
            parts.append((tokens.starts[inside] + shift, tokens.ends[inside] + shift, tokens.hashes[inside]))
            texts.append(note.text[first:last])
            length += last - first + 1
        starts, ends, hashes = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        at = self._slots[slots_of(hashes, 1, _SLOT_BITS)]
        others = np.flatnonzero(self._hashes[at] != hashes)
        at[others] = self._hashes.searchsorted(hashes[others])
        is_known = self._hashes[at] == hashes
        ids = np.where(is_known, self._ids[at], _NONE if self._word_ids is not None else 0)
        spellings = self._number_unknown("\n".join(texts), starts, ends, hashes, ids)
        begins = np.array([shift_of[id(each.note)] + each.offset for each in mentions], np.int64)
        return _BatchTokens(starts, ends, hashes, ids, spellings, begins)

    def _number_unknown(
        self, text: str, starts: Integers, ends: Integers, hashes: npt.NDArray[np.uint64], ids: Integers
    ) -> list[str]:
        """Give out-of-vocabulary words with subwords the ids after the model's; return them in that order."""
        if self._subwords is None:
            return []
        at = np.flatnonzero(ids == _NONE)
        _, first, which = np.unique(hashes[at], return_index=True, return_inverse=True)
        written = [spell(text[starts[token] : ends[token]]) for token in at[first].tolist()]
        can_be_read = np.array([word in self._subwords for word in written], np.bool_)
        numbers = np.where(can_be_read, self._subwords.n_read + np.cumsum(can_be_read) - 1, _NONE)
        ids[at] = numbers[which]
        return [word for word, is_read in zip(written, can_be_read.tolist(), strict=True) if is_read]

    def _neighbours(self, mentions: Sequence[Mention], tokens: "_BatchTokens") -> tuple[Integers, Integers]:
        """Return the context tokens before and after each mention, padded with `_NONE`: (B, radius) each.

        A token counts if it has an id and does not repeat the token before it.
        """
        radius, n_tokens = self._radius, tokens.ids.size
        hash_of = {
            short_form: hash_word(spell(short_form)) for short_form in {each.short_form for each in mentions}
        }
        center = np.array([hash_of[each.short_form] for each in mentions], np.uint64)
        lengths, begins, ends = (
            np.array(values, np.int64)
            for values in zip(*((len(each.text), each.start, each.end) for each in mentions), strict=True)
        )
        # Of each mention: the first token of its text and the end of its tokens, the end of those before the mention,
        # and the first token after it.
        first = np.searchsorted(tokens.starts, tokens.begins, "left")
        last = np.searchsorted(tokens.ends, tokens.begins + lengths, "right")
        left = np.searchsorted(tokens.ends, tokens.begins + begins, "right")
        right = np.searchsorted(tokens.starts, tokens.begins + ends, "left")

        # A sentinel, so that an index past the end is safe.
        ids, hashes = np.append(tokens.ids, _NONE), np.append(tokens.hashes, np.uint64(0))
        repeats = np.append(False, hashes[1:] == hashes[:-1])
        read = np.append(np.flatnonzero((ids != _NONE) & ~repeats), n_tokens)

        # "PT PT": the corpus keeps only one, the center.
        previous = left - 1
        is_center = (previous >= first) & (hashes[np.maximum(previous, 0)] == center)
        stop = np.where(is_center, previous, left)
        before_end = np.searchsorted(read, stop, "left")
        n_before = before_end - np.searchsorted(read, first, "left")
        columns = np.arange(radius)
        before = read[np.maximum(before_end[:, None] - radius + columns, 0)]
        before = np.where(columns >= radius - n_before[:, None], before, _NONE)
        # The first token of a text is no repeat, whatever precedes it in the note.
        opens = np.flatnonzero((first < stop) & repeats[first] & (ids[first] != _NONE) & (n_before < radius))
        before[opens, radius - 1 - n_before[opens]] = first[opens]

        # The first token after a mention is compared with the center, the others with their neighbour.
        following = np.minimum(right, n_tokens)
        is_read = (right < last) & (ids[following] != _NONE) & (hashes[following] != center)
        after_begin = np.searchsorted(read, right + 1, "left")
        after = read[np.clip(after_begin[:, None] + columns - is_read[:, None], 0, read.size - 1)]
        after[is_read, 0] = right[is_read]
        return before, np.where(after < last[:, None], after, _NONE)


class _BatchTokens(NamedTuple):
    """The tokens of a batch of mentions, concatenated."""

    starts: Integers
    ends: Integers
    hashes: npt.NDArray[np.uint64]
    ids: Integers  # `_NONE` for a token without an id
    spellings: list[str]  # of the words whose ids follow the model's
    begins: Integers  # (B,) start of each mention's text


def _with_tokens(mentions: Sequence[Mention]) -> Sequence[Mention]:
    """Add tokens to mentions that have only a text; these are tokenised together."""
    texts = {id(each.text): each.text for each in mentions if each.note is None}
    if not texts:
        return mentions
    joined = TokenizedText.of(_BETWEEN.join(texts.values()))
    begins, begin = {}, 0
    for key, text in texts.items():
        begins[key] = begin
        begin += len(text) + len(_BETWEEN)
    return [
        each if each.note is not None else replace(each, note=joined, offset=begins[id(each.text)])
        for each in mentions
    ]


def _look_up(
    subwords: Subwords, spellings: list[str], context: Integers, mask: Mask
) -> npt.NDArray[np.float32]:
    """Return the vectors of the out-of-vocabulary words in windows, and renumber these words in place."""
    is_unknown = mask & (context >= subwords.n_read)
    present, which = np.unique(context[is_unknown] - subwords.n_read, return_inverse=True)
    context[is_unknown] = subwords.n_read + which
    return subwords.vectors([spellings[number] for number in present.tolist()])
