"""The windows of many mentions at once, by array operations: what `context.tokens_around` finds one by one.

The texts of a batch are tokenized as one. A token is read if the model knows it, or it has sub-words, and it does not
repeat the token before it; of those the last before a mention and the first after it make its window.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.corpus.corpus import RADIUS
from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.notes.sections import find_alias, load_aliases, upper_name
from lmcells.notes.token_arrays import TokenArrays, find_tokens, hash_word, hash_words
from lmcells.notes.tokens import Token, iterate_tokens, spell
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.subwords import Subwords

# What a model reads of a short form in a text: its word, its section, and the words around it.


@dataclass(frozen=True, slots=True)
class Mention:
    """A short form at `text[start:end]`; `text` is, or lies within, the section named `section`."""

    text: str = field(repr=False)  # patient data: never in a log or a traceback
    start: int
    end: int
    short_form: str
    section: str | None


@dataclass(frozen=True, slots=True)
class ReadWindows:
    """Mentions as the networks take them. A short form that is no word of the model is a masked center."""

    center: npt.NDArray[np.int64]  # (B,)
    center_mask: npt.NDArray[np.bool_]  # (B,) whether the model knows the short form as a word
    context: npt.NDArray[np.int64]  # (B, 2 * radius), one more where the gap is marked
    context_mask: npt.NDArray[np.bool_]  # as the context
    unknown: npt.NDArray[np.float32] | None = None  # (n, E), of words whose ids follow those of the model


def window_text(mention: Mention, *, words: Container[str] | None = None, radius: int = RADIUS) -> str:
    """Return the same window as it is written: from the first of its words to the last, with all in between."""
    left, right = tokens_around(mention, words=words, radius=radius)
    start = left[0].start if left else mention.start
    end = right[-1].end if right else mention.end
    return mention.text[start:end]


def tokens_around(
    mention: Mention, *, words: Container[str] | None = None, radius: int = RADIUS, stop_words: bool = False
) -> tuple[list[Token], list[Token]]:
    """Return up to `radius` tokens on either side that are among `words`; a word right after itself counts once."""
    left: list[Token] = []
    right: list[Token] = []
    side, previous = left, ""
    center = spell(mention.short_form)
    nearest = None
    for token in iterate_tokens(mention.text, stop_words=stop_words):
        if token.end <= mention.start:
            nearest = token
        if token.start >= mention.end and side is left:
            side, previous = right, center
        if (
            token.word != previous
            and (token.end <= mention.start or side is right)
            and (words is None or token.word in words)
        ):
            side.append(token)
            if len(right) == radius:
                break
        previous = token.word
    if left and left[-1] is nearest and nearest.word == center:
        left.pop()  # "PT PT": the corpus has one of them, the center
    return left[-radius:], right


# The header of a section -> the metadata id under which a model knows it.


NULL = -1


class SectionIds:
    """Looks up headers, each once."""

    def __init__(self, model: PretrainedModel) -> None:
        self._ids = model.section_ids
        self._aliases = load_aliases(None)
        self._found: dict[str | None, int] = {}

    def __getitem__(self, section: str | None) -> int:
        """The id of a header: its own, that of its canonical name, that of "other", or that of no section."""
        if section not in self._found:
            if len(self._found) > 100_000:  # headers of a million notes need not all be remembered
                self._found.clear()
            self._found[section] = self._find(section)
        return self._found[section]

    def _find(self, section: str | None) -> int:
        if section is not None:
            alias = find_alias(self._aliases, section)
            for name in (upper_name(section), alias.name if alias else "", OTHER):
                if name in self._ids:
                    return self._ids[name]
        return self._ids.get(NO_SECTION, NULL)


# The windows of many mentions at once, by array operations: what `context.tokens_around` finds one by one.
#
# The texts of a batch are tokenized as one. A token is read if the model knows it, or it has sub-words, and it does not
# repeat the token before it; of those the last before a mention and the first after it make its window.


Integers = npt.NDArray[np.int64]

_BETWEEN = "\n]#\n"  # ends whatever token or de-identification mark a text leaves open
_UNKNOWN = -1


class WindowReader:
    """Reads windows for one vocabulary.

    read = WindowReader(model.word_ids, radius=10, mask_id=model.sizes.mask_id)
    read(mentions)   # ReadWindows
    """

    def __init__(
        self,
        word_ids: Mapping[str, int],
        *,
        radius: int,
        hides_center: bool = False,
        mask_id: int | None = None,
        subwords: Subwords | None = None,
        stop_words: bool = False,
    ) -> None:
        """With `hides_center` a short form is not read itself; with `mask_id` that id stands in its place.

        Words that are not in the vocabulary are left out, or read by their `subwords`; so are stop words, or all left
        out.
        """
        self._word_ids = word_ids
        self._radius = radius
        self._hides_center = hides_center
        self._mask_id = mask_id
        self._subwords = subwords
        self._stop_words = stop_words
        hashes = hash_words(word_ids)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._ids = np.array(list(word_ids.values()), np.int64)[order]

    @property
    def words(self) -> Container[str]:
        """The words that are read."""
        return self._word_ids if self._subwords is None else _Readable(self._word_ids, self._subwords)

    def __call__(self, mentions: Sequence[Mention]) -> ReadWindows:
        """Gather, for each mention, up to `radius` words on either side, as the corpus would."""
        n_marks = 0 if self._mask_id is None else 1
        context = np.zeros((len(mentions), 2 * self._radius + n_marks), np.int64)
        mask = np.zeros(context.shape, np.bool_)
        center, center_mask, center_hashes = self._centers(mentions)
        unknown = None
        if mentions:
            words, places, spellings = self._tokenize(mentions)
            before, after = _neighbours(words, places, center_hashes, radius=self._radius)
            sides = [(before, slice(0, self._radius)), (after, slice(self._radius + n_marks, None))]
            ids = np.append(words.ids, 0)  # a token that lacks is -1, so the last one
            for found, columns in sides:
                mask[:, columns] = found >= 0
                context[:, columns] = ids[found]
            if self._subwords is not None:
                unknown = _look_up(self._subwords, spellings, context, mask)
        if self._mask_id is not None:
            context[:, self._radius], mask[:, self._radius] = self._mask_id, True
        return ReadWindows(center, center_mask, context, mask, unknown)

    def _centers(
        self, mentions: Sequence[Mention]
    ) -> tuple[Integers, npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
        spelt = {short_form: spell(short_form) for short_form in {each.short_form for each in mentions}}
        ids = {short_form: self._word_ids.get(word, _UNKNOWN) for short_form, word in spelt.items()}
        hashes = {short_form: hash_word(word) for short_form, word in spelt.items()}
        center = np.array([ids[each.short_form] for each in mentions], np.int64)
        is_read = (center != _UNKNOWN) & (not self._hides_center)
        of_words = np.array([hashes[each.short_form] for each in mentions], np.uint64)
        return np.where(is_read, center, 0), is_read, of_words

    def _tokenize(self, mentions: Sequence[Mention]) -> tuple["_Words", "_Places", list[str]]:
        """Tokenize the distinct texts of mentions joined into one, and place the mentions in that.

        Unknown words that can be read get the ids that follow those of the model; the last is how they are spelt.
        """
        begins: dict[int, int] = {}  # by identity: mentions in one section share their text
        texts, length = [], 0
        for mention in mentions:
            if id(mention.text) not in begins:
                begins[id(mention.text)] = length
                texts.append(mention.text)
                length += len(mention.text) + len(_BETWEEN)
        text = _BETWEEN.join(texts)
        tokens = find_tokens(text, stop_words=self._stop_words)
        at = np.minimum(np.searchsorted(self._hashes, tokens.hashes), max(self._hashes.size - 1, 0))
        known = self._hashes[at] == tokens.hashes if self._hashes.size else np.zeros(at.shape, np.bool_)
        ids = np.where(known, self._ids[at] if self._hashes.size else 0, _UNKNOWN)
        spellings = self._number_unknown(text, tokens, ids)
        text_begins = np.array([begins[id(each.text)] for each in mentions], np.int64)
        text_ends = text_begins + np.array([len(each.text) for each in mentions], np.int64)
        starts = text_begins + np.array([each.start for each in mentions], np.int64)
        ends = text_begins + np.array([each.end for each in mentions], np.int64)
        places = _Places(
            first=np.searchsorted(tokens.starts, text_begins, "left"),
            left=np.searchsorted(tokens.ends, starts, "right"),
            right=np.searchsorted(tokens.starts, ends, "left"),
            last=np.searchsorted(tokens.starts, text_ends, "left"),
        )
        is_first = np.zeros(tokens.hashes.size + 1, np.bool_)
        is_first[places.first] = True
        repeats = np.append(False, tokens.hashes[1:] == tokens.hashes[:-1]) & ~is_first[:-1]
        return _Words(ids, tokens.hashes, repeats), places, spellings

    def _number_unknown(self, text: str, tokens: TokenArrays, ids: Integers) -> list[str]:
        """Give unknown words that can be read ids, in place; return them in the order of their ids."""
        if self._subwords is None:
            return []
        at = np.flatnonzero(ids == _UNKNOWN)
        _, first, which = np.unique(tokens.hashes[at], return_index=True, return_inverse=True)
        written = [spell(text[tokens.starts[token] : tokens.ends[token]]) for token in at[first].tolist()]
        can_be_read = np.array([word in self._subwords for word in written], np.bool_)
        numbers = np.where(can_be_read, self._subwords.n_read + np.cumsum(can_be_read) - 1, _UNKNOWN)
        ids[at] = numbers[which]
        return [word for word, is_read in zip(written, can_be_read.tolist(), strict=True) if is_read]


@dataclass(frozen=True, slots=True)
class _Readable:
    """Known words, and those that have sub-words."""

    known: Mapping[str, int]
    subwords: Subwords

    def __contains__(self, word: object) -> bool:
        return word in self.known or word in self.subwords


class _Words(NamedTuple):
    """Tokens in order."""

    ids: Integers
    hashes: npt.NDArray[np.uint64]
    repeats: npt.NDArray[np.bool_]  # whether a token is the one before it once more


class _Places(NamedTuple):
    """Where mentions stand among the tokens, one value a mention."""

    first: Integers  # token of its text
    left: Integers  # after the last token that ends before it
    right: Integers  # the first token that begins after it
    last: Integers  # after the last token of its text


def _look_up(
    subwords: Subwords, spellings: list[str], context: Integers, mask: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """The vectors of the unknown words that stand in a window; those alone keep a number, in place."""
    is_unknown = mask & (context >= subwords.n_read)
    present, which = np.unique(context[is_unknown] - subwords.n_read, return_inverse=True)
    context[is_unknown] = subwords.n_read + which
    return subwords.vectors([spellings[number] for number in present.tolist()])


def _neighbours(
    words: _Words, places: _Places, center_hashes: npt.NDArray[np.uint64], *, radius: int
) -> tuple[Integers, Integers]:
    """The tokens that are read before and after each mention, -1 where there are fewer: -> (B, radius) each."""
    n_tokens = words.ids.size
    is_read = np.append((words.ids >= 0) & ~words.repeats, False)  # one more: an index past the end is safe
    read = np.append(np.flatnonzero(is_read), n_tokens)  # and an end that no token is
    hashes = np.append(words.hashes, np.uint64(0))

    # "PT PT": the corpus has one of them, the center.
    previous = places.left - 1
    is_center = (previous >= places.first) & (hashes[np.maximum(previous, 0)] == center_hashes)
    before_end = np.searchsorted(read, np.where(is_center, previous, places.left), "left")
    columns = np.arange(radius)
    at = before_end[:, None] - radius + columns
    before = np.where(at >= 0, read[np.maximum(at, 0)], _UNKNOWN)
    before = np.where(before >= places.first[:, None], before, _UNKNOWN)

    # The first after a mention follows the center, whatever is written there; the others their neighbour.
    follows = places.right < places.last
    first_id = np.append(words.ids, _UNKNOWN)[np.minimum(places.right, n_tokens)]
    is_first_read = follows & (first_id >= 0) & (hashes[np.minimum(places.right, n_tokens)] != center_hashes)
    after_begin = np.searchsorted(read, places.right + 1, "left")
    at = after_begin[:, None] + columns - is_first_read[:, None]
    after = read[np.clip(at, 0, read.size - 1)]
    after[is_first_read, 0] = places.right[is_first_read]
    after = np.where(after < places.last[:, None], after, _UNKNOWN)
    return before, after
