"""Short forms that a text defines itself: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".

After Schwartz and Hearst (2003), with `alignment.py` in place of their matching, and with the inventory: what it lists
as a long form is one, whether the letters tell or not ("twice daily (BID)").
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lmcells.notes.tokens import STOP_WORDS

# Which words a short form stands for, by its letters.
#
# Schwartz and Hearst (2003) let each character match anywhere in a word, from the right. Here the characters are dealt
# out to whole words: a word takes its first letter, and perhaps some inside it ("ECG" is all of "electrocardiogram");
# words without a character may only be stop words and at most one other; and of all ways to do so the best is taken. That
# finds the left edge where the original stops at the first letter that happens to fit.


WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

_INSIDE = 0.4  # what a letter inside a word counts, where one that begins a word counts 1
_SKIPPED = -0.8  # what a word without a letter counts
_LEAST = 0.59  # of the score that a short form has whose every character begins a word
_EACH_WORD = -1e-3  # of two ways that are as good, that with fewer words

_Way = tuple[float, int]  # the score, and the first word


def align(short_form: str, words: list[str], *, to_the_end: bool) -> tuple[int, int] | None:
    """Return the first and the last of the words that the short form stands for, None where it stands for none."""
    characters = _characters(short_form)
    lowered = [word.lower() for word in words]
    best: tuple[float, int, int] | None = None
    for last in range(len(words) - 1 if to_the_end else 0, len(words)):
        way = _deal(characters, lowered, last)
        if way is not None and (best is None or way[0] > best[0]):
            best = (*way, last)
    if best is None:
        return None
    score, first, last = best
    good = _is_good_word(short_form, words[first]) if first == last else score > _LEAST * len(characters)
    return (first, last) if good else None


def _is_good_word(short_form: str, word: str) -> bool:
    """Whether one word may be all of a short form: "Hb" is hemoglobin, "Pes" is no pressure, "OD" is not "old"."""
    n_capitals = sum(character.isupper() for character in short_form)
    return (n_capitals > 1 or len(short_form) == 2) and len(word) >= 2 * len(short_form)


def _characters(short_form: str) -> str:
    return "".join(character for character in short_form if character.isalnum()).lower()


def _deal(characters: str, words: list[str], last: int) -> _Way | None:
    """Deal the characters out to the words up to `last`, which takes one or more."""
    known: dict[tuple[int, int, int], _Way | None] = {}
    most_skipped = 1 if len(characters) > 2 else 0

    def deal(n_characters: int, word: int, n_skipped: int) -> _Way | None:
        """The best way to deal so many first characters to the words up to this one."""
        if n_characters == 0:
            return None if words[word + 1] in STOP_WORDS else (0.0, word + 1)
        if word < 0:
            return None
        key = (n_characters, word, n_skipped)
        if key not in known:
            ways = [*taking(n_characters, word, n_skipped), *skipping(n_characters, word, n_skipped)]
            known[key] = max(ways, default=None)
        return known[key]

    def taking(n_characters: int, word: int, n_skipped: int) -> list[_Way]:
        ways = []
        for n_taken in range(1, n_characters + 1):
            taken = characters[n_characters - n_taken : n_characters]
            if words[word][0] == taken[0] and _is_within(taken[1:], words[word][1:]):
                way = deal(n_characters - n_taken, word - 1, n_skipped)
                if way is not None:
                    ways.append((way[0] + 1 + _INSIDE * (n_taken - 1) + _EACH_WORD, way[1]))
        return ways

    def skipping(n_characters: int, word: int, n_skipped: int) -> list[_Way]:
        is_content = words[word] not in STOP_WORDS
        if word == last or n_skipped + is_content > most_skipped:
            return []
        way = deal(n_characters, word - 1, n_skipped + is_content)
        return [(way[0] + _SKIPPED * is_content + _EACH_WORD, way[1])] if way is not None else []

    return deal(len(characters), last, 0)


def _is_within(letters: str, word: str) -> bool:
    """Whether the letters occur in the word in this order."""
    remaining = iter(word)
    return all(letter in remaining for letter in letters)


# Short forms that a text defines itself: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".
#
# After Schwartz and Hearst (2003), with `alignment.py` in place of their matching, and with the inventory: what it lists
# as a long form is one, whether the letters tell or not ("twice daily (BID)").


FormLookup = Callable[[str, str], str | None]
"""A short form and words, as written: the name of the inventory's sense that these words spell out, or None."""

_LONGEST = 12  # characters of a short form
_MOST_WORDS = 14  # of a long form, and of what is looked at for one
_REACH = 160  # characters that may hold a long form

_SHORT_FORM = r"[A-Za-z0-9](?:[A-Za-z0-9/&.+-]{0,10}[A-Za-z0-9+])?"
_BRACKET = re.compile(r"[(\[]([^()\[\]]{2,120})(?=[)\]])")
_SHORT_INSIDE = re.compile(rf"\s*[\"'“‘]?({_SHORT_FORM})\.?[\"'”’]?\s*(?=[)\],;:=]|\s[\d<>])")
_SHORT_BEFORE = re.compile(rf"(?<![A-Za-z0-9/&.+-])({_SHORT_FORM})[\"'”’]?\s?\Z")
_SIGN = re.compile(r"[=:][ ]?(?=[A-Za-z])")
_SIGN_IN_LIST = re.compile(r"[=:,][ ]?(?=[A-Za-z])")
_OPENINGS = "\n;,.(|:"
_SHORT_OPENS = re.compile(rf"(?:^|[{_OPENINGS}])[ \t\"]*({_SHORT_FORM})[ ]?\Z")
_LISTED_LONG = re.compile(r"[^=:;,.()\n|]{4,100}")
_LIST = re.compile(r"\b(?:[Aa]bbreviations?|ABBREVIATIONS?)\b")
_LIST_LENGTH = 3000
_SENTENCE_BREAK = re.compile(r"[.;:!?]\s|[()\[\]]|,\s|\n\s*\n|\t|\|")
_ASIDE = re.compile(
    r"^(?:i\.?e\.?|e\.?g\.?|or|also|called|known as|abbreviated|a\.?k\.?a\.?|the|a|an|for|meaning|=)[,:]?\s+",
    re.I,
)
_NOT_SHORT = frozenset("fig figs figure table tables eq ref see vs left right yes no and or the".split())


class Definition(NamedTuple):
    """A short form as written at `text[start:end]` (less the s of a plural), and the long form given for it."""

    start: int
    end: int
    short_form: str
    long_form: str  # white space made single
    long_start: int
    long_end: int


def find_definitions(text: str, spells: FormLookup = lambda *_: None) -> list[Definition]:
    """Return the definitions in a text, in order; `spells` knows long forms that no letters would tell."""
    definitions = list(_bracketed(text, spells)) if "(" in text or "[" in text else []
    lists = [match.start() for match in _LIST.finditer(text)] if "breviation" in text.lower() else []
    if lists or "=" in text or ": " in text:
        taken = {definition.start for definition in definitions}
        definitions += [each for each in _listed(text, lists, spells) if each.start not in taken]
        definitions.sort()
    return definitions


def _bracketed(text: str, spells: FormLookup) -> Iterator[Definition]:
    for match in _BRACKET.finditer(text):
        short = _SHORT_INSIDE.match(text, match.start() + 1, match.end() + 1)
        found = _before_bracket(text, match.start(), short.span(1), spells) if short else None
        if found is None and match.end() - match.start() > 4:
            begin = max(0, match.start() - _LONGEST - 3)
            before = _SHORT_BEFORE.search(text[begin : match.start()])
            if before:
                span = begin + before.start(1), begin + before.end(1)
                found = _inside_bracket(text, span, match.span(1), spells)
        if found:
            yield found


def _before_bracket(text: str, bracket: int, span: tuple[int, int], spells: FormLookup) -> Definition | None:
    """A long form that ends where the bracket with the short form opens."""
    start, end, short_form = _trim_plural(text, *span)
    if not _may_be_short(short_form):
        return None
    reach = max(0, bracket - _REACH)
    breaks = [match.end() for match in _SENTENCE_BREAK.finditer(text, reach, bracket)]
    first = breaks[-1] if breaks else reach
    words = _words(text, first, bracket)[-_MOST_WORDS:]
    if breaks == [] and reach > 0 and words and words[0][0] == reach:
        words = words[1:]  # cut in the middle
    if not words or text[words[-1][1] : bracket].strip(" \t\r\n\"'”’*-"):
        return None
    for n_words in range(min(len(words), 8), 0, -1):
        place = words[-n_words][0], words[-1][1]
        if spells(short_form, text[slice(*place)]):
            return _definition(text, (start, end), short_form, place)
    first_word = _first_word(short_form, [text[slice(*word)] for word in words])
    if first_word is None:
        return None
    return _definition(text, (start, end), short_form, (words[first_word][0], words[-1][1]))


def _first_word(short_form: str, words: list[str]) -> int | None:
    """Return where the long form at the end of the words begins."""
    aligned = align(short_form, words, to_the_end=True)
    if aligned is None:
        return None
    first = aligned[0]
    if first > 0 and words[first - 1].lower() == "to":  # "to prevent postpartum hemorrhage (PPH)"
        again = align(short_form, words[first + 1 :], to_the_end=True)
        first = first + 1 + again[0] if again else first
    return first


def _inside_bracket(
    text: str, span: tuple[int, int], inside: tuple[int, int], spells: FormLookup
) -> Definition | None:
    """A long form that opens the bracket after the short form."""
    start, end, short_form = _trim_plural(text, *span)
    if not _may_be_short(short_form):
        return None
    first, last = inside
    aside = _ASIDE.match(text[first:last])
    first += aside.end() if aside else 0
    return _opening(text, (start, end), short_form, (first, last), spells)


def _opening(
    text: str, span: tuple[int, int], short_form: str, within: tuple[int, int], spells: FormLookup
) -> Definition | None:
    """A long form that begins with the first word of a piece of text."""
    stop = _SENTENCE_BREAK.search(text, *within)
    words = _words(text, within[0], stop.start() if stop else within[1])[:_MOST_WORDS]
    if not words:
        return None
    whole = words[0][0], words[-1][1]
    if spells(short_form, text[slice(*whole)]):
        return _definition(text, span, short_form, whole)
    aligned = align(short_form, [text[slice(*word)] for word in words], to_the_end=False)
    if aligned is None or aligned[0] != 0:
        return None
    return _definition(text, span, short_form, (words[0][0], words[aligned[1]][1]))


def _listed(text: str, lists: list[int], spells: FormLookup) -> Iterator[Definition]:
    """ "AF = atrial fibrillation", a list's "AF, atrial fibrillation;", and "AF: ..." where the inventory agrees."""
    for sign in (_SIGN_IN_LIST if lists else _SIGN).finditer(text):
        is_listed = any(0 <= sign.start() - at < _LIST_LENGTH for at in lists)
        if sign[0][0] == "," and not is_listed:
            continue
        begin = max(0, sign.start() - _LONGEST - 4)
        opens = _SHORT_OPENS.search(text[begin : sign.start()])
        if opens is None or (opens.start() == 0 < begin and opens[0][0] not in _OPENINGS):
            continue
        span = begin + opens.start(1), begin + opens.end(1)
        long = _LISTED_LONG.match(text, sign.end())
        found = (
            _whole(text, span, long.span(), spells, by_letters=is_listed or "=" in sign[0]) if long else None
        )
        if found is not None:
            yield found


def _whole(
    text: str, span: tuple[int, int], within: tuple[int, int], spells: FormLookup, *, by_letters: bool
) -> Definition | None:
    """A piece of text that is a long form from its first word to its last."""
    start, end, short_form = _trim_plural(text, *span)
    if not _may_be_short(short_form):
        return None
    is_known = spells(short_form, text[slice(*within)])
    if not (is_known or by_letters):
        return None
    words = _words(text, *within)
    place = words[0][0], words[-1][1]
    if not is_known:
        if len(words) > _MOST_WORDS:
            return None
        aligned = align(short_form, [text[slice(*word)] for word in words], to_the_end=True)
        if aligned is None or aligned[0] != 0:
            return None
    return _definition(text, (start, end), short_form, place)


def _definition(
    text: str, span: tuple[int, int], short_form: str, place: tuple[int, int]
) -> Definition | None:
    long_form = " ".join(text[slice(*place)].split())
    if len(long_form) <= len(short_form) or short_form in WORD.findall(long_form):
        return None
    return Definition(*span, short_form, long_form, *place)


def _trim_plural(text: str, start: int, end: int) -> tuple[int, int, str]:
    """Return the place, and the short form without the s of "CVAs" and with no dots."""
    written = text[start:end]
    short_form = written.replace(".", "") if re.fullmatch(r"(?:[A-Za-z]\.)+[A-Za-z]", written) else written
    if len(short_form) > 2 and short_form[-1] == "s" and short_form[-2].isupper():
        short_form = short_form[:-1]
    return start, end, short_form


def _may_be_short(short_form: str) -> bool:
    """Whether it looks like an acronym: two characters or more, a capital letter, no ordinary word."""
    letters = [character for character in short_form if character.isalpha()]
    return (
        2 <= len(short_form) <= _LONGEST
        and len(letters) >= 2
        and any(character.isupper() for character in letters)
        and not (len(letters) > 4 and short_form[1:].islower())
        and short_form.lower() not in _NOT_SHORT
    )


def _words(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text, start, end)]
