"""Abbreviation definitions in a text: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".

After Schwartz and Hearst (2003), with another alignment of letters to words (`align`), and with the inventory: what it
lists as a long form is one, even where the letters do not show it ("twice daily (BID)").
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from lmcells.notes.tokens import STOP_WORDS

FormLookup = Callable[[str, str], str | None]
"""A short form and words, as written: the name of the inventory's sense that these words spell out, or None."""

_Span = tuple[int, int]

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_LONGEST = 12  # characters of a short form
_MOST_WORDS = 14  # of a long form, and of what is looked at for one
_MOST_WORDS_BEFORE = 8  # of a long form that only the inventory knows, before a bracket
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
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_NOT_SHORT = frozenset("fig figs figure table tables eq ref see vs left right yes no and or the".split())

_INSIDE = 0.4  # score of a letter inside a word; a letter that begins a word scores 1
_SKIPPED = -0.8  # score of a word without a letter
_EACH_WORD = -1e-3  # of two equally good ways, the one with fewer words wins
_LEAST = 0.59  # of the score of a short form whose every character begins a word


class Definition(NamedTuple):
    """A short form as written at `text[start:end]` (less the s of a plural), and the long form given for it."""

    start: int
    end: int
    short_form: str
    long_form: str  # white space made single
    long_start: int
    long_end: int


def find_definitions(text: str, spells: FormLookup = lambda *_: None) -> list[Definition]:
    """Return the definitions in a text, in order; `spells` knows long forms that the letters do not show."""
    definitions = list(_bracketed(text, spells)) if "(" in text or "[" in text else []
    lists = [match.start() for match in _LIST.finditer(text)] if "breviation" in text.lower() else []
    if lists or "=" in text or ": " in text:
        taken = {definition.start for definition in definitions}
        definitions += [each for each in _listed(text, lists, spells) if each.start not in taken]
        definitions.sort()
    return definitions


def _bracketed(text: str, spells: FormLookup) -> Iterator[Definition]:
    for bracket in _BRACKET.finditer(text):
        opens, closes = bracket.span()
        short = _SHORT_INSIDE.match(text, opens + 1, closes + 1)
        found = _before_bracket(text, opens, short.span(1), spells) if short else None
        if found is None and closes - opens > 4:
            begin = max(0, opens - _LONGEST - 3)
            before = _SHORT_BEFORE.search(text[begin:opens])
            if before:
                span = begin + before.start(1), begin + before.end(1)
                found = _inside_bracket(text, span, bracket.span(1), spells)
        if found:
            yield found


def _before_bracket(text: str, bracket: int, span: _Span, spells: FormLookup) -> Definition | None:
    """Find a long form that ends where the bracket with the short form opens."""
    short_form = _short_form(text, span)
    if short_form is None:
        return None
    reach = max(0, bracket - _REACH)
    breaks = [match.end() for match in _SENTENCE_BREAK.finditer(text, reach, bracket)]
    words = _words(text, breaks[-1] if breaks else reach, bracket)[-_MOST_WORDS:]
    if not breaks and reach > 0 and words and words[0][0] == reach:
        words = words[1:]  # cut in the middle
    if not words or text[words[-1][1] : bracket].strip(" \t\r\n\"'”’*-"):
        return None
    end = words[-1][1]
    for start, _ in words[-_MOST_WORDS_BEFORE:]:
        if spells(short_form, text[start:end]):
            return _definition(text, span, short_form, (start, end))
    spelled = [text[slice(*word)] for word in words]
    aligned = align(short_form, spelled, to_the_end=True)
    if aligned is None:
        return None
    first = aligned[0]
    if first > 0 and spelled[first - 1].lower() == "to":  # "to prevent postpartum hemorrhage (PPH)"
        again = align(short_form, spelled[first + 1 :], to_the_end=True)
        first = first + 1 + again[0] if again else first
    return _definition(text, span, short_form, (words[first][0], end))


def _inside_bracket(text: str, span: _Span, inside: _Span, spells: FormLookup) -> Definition | None:
    """Find a long form that opens the bracket after the short form."""
    short_form = _short_form(text, span)
    if short_form is None:
        return None
    first, last = inside
    aside = _ASIDE.match(text[first:last])
    first += aside.end() if aside else 0
    stop = _SENTENCE_BREAK.search(text, first, last)
    words = _words(text, first, stop.start() if stop else last)[:_MOST_WORDS]
    if not words:
        return None
    start, end = words[0][0], words[-1][1]
    if not spells(short_form, text[start:end]):
        aligned = align(short_form, [text[slice(*word)] for word in words], to_the_end=False)
        if aligned is None or aligned[0] != 0:
            return None
        end = words[aligned[1]][1]
    return _definition(text, span, short_form, (start, end))


def _listed(text: str, lists: list[int], spells: FormLookup) -> Iterator[Definition]:
    """Yield "AF = atrial fibrillation", a list's "AF, atrial fibrillation;", and "AF: ..." if the inventory agrees."""
    for sign in (_SIGN_IN_LIST if lists else _SIGN).finditer(text):
        is_listed = any(0 <= sign.start() - at < _LIST_LENGTH for at in lists)
        if sign[0][0] == "," and not is_listed:
            continue
        begin = max(0, sign.start() - _LONGEST - 4)
        opens = _SHORT_OPENS.search(text[begin : sign.start()])
        if opens is None or (opens.start() == 0 < begin and opens[0][0] not in _OPENINGS):
            continue
        long = _LISTED_LONG.match(text, sign.end())
        if long:
            span = begin + opens.start(1), begin + opens.end(1)
            found = _whole(text, span, long.span(), spells, by_letters=is_listed or "=" in sign[0])
            if found is not None:
                yield found


def _whole(
    text: str, span: _Span, within: _Span, spells: FormLookup, *, by_letters: bool
) -> Definition | None:
    """Return the definition if a piece of text is a long form from its first word to its last."""
    short_form = _short_form(text, span)
    if short_form is None:
        return None
    is_known = spells(short_form, text[slice(*within)])
    if not (is_known or by_letters):
        return None
    words = _words(text, *within)
    if not is_known:
        if len(words) > _MOST_WORDS:
            return None
        aligned = align(short_form, [text[slice(*word)] for word in words], to_the_end=True)
        if aligned is None or aligned[0] != 0:
            return None
    return _definition(text, span, short_form, (words[0][0], words[-1][1]))


def _definition(text: str, span: _Span, short_form: str, long_span: _Span) -> Definition | None:
    long_form = " ".join(text[slice(*long_span)].split())
    if len(long_form) <= len(short_form) or short_form in WORD.findall(long_form):
        return None
    return Definition(*span, short_form, long_form, *long_span)


def _short_form(text: str, span: _Span) -> str | None:
    """Return the short form without the s of "CVAs" and without dots; None if it does not look like an acronym."""
    written = text[slice(*span)]
    short_form = written.replace(".", "") if _DOTTED.fullmatch(written) else written
    if len(short_form) > 2 and short_form[-1] == "s" and short_form[-2].isupper():
        short_form = short_form[:-1]
    letters = [character for character in short_form if character.isalpha()]
    looks_short = (
        2 <= len(short_form) <= _LONGEST
        and len(letters) >= 2
        and any(character.isupper() for character in letters)
        and not (len(letters) > 4 and short_form[1:].islower())
        and short_form.lower() not in _NOT_SHORT
    )
    return short_form if looks_short else None


def _words(text: str, start: int, end: int) -> list[_Span]:
    return [match.span() for match in WORD.finditer(text, start, end)]


def align(short_form: str, words: list[str], *, to_the_end: bool) -> _Span | None:
    """Return the first and the last of the words that the letters of a short form stand for, or None.

    Schwartz and Hearst let each character match anywhere in a word, from the right. Here the characters are dealt out
    to whole words: a word takes its first letter, and perhaps some inside it ("ECG" is all of "electrocardiogram");
    words without a character may only be stop words and at most one other; the best of all such ways is taken. That
    finds the left edge where the original stops at the first letter that happens to fit.
    """
    characters = "".join(character for character in short_form if character.isalnum()).lower()
    lowered = [word.lower() for word in words]
    best: tuple[float, int, int] | None = None
    for last in range(len(words) - 1 if to_the_end else 0, len(words)):
        way = _deal(characters, lowered, last)
        if way is not None and (best is None or way[0] > best[0]):
            best = (*way, last)
    if best is None:
        return None
    score, first, last = best
    if (
        first == last
    ):  # one word is all of it: "Hb" is hemoglobin, but "Pes" is not pressure and "OD" is not "old"
        n_capitals = sum(character.isupper() for character in short_form)
        is_good = (n_capitals > 1 or len(short_form) == 2) and len(words[first]) >= 2 * len(short_form)
    else:
        is_good = score > _LEAST * len(characters)
    return (first, last) if is_good else None


def _deal(characters: str, words: list[str], last: int) -> tuple[float, int] | None:
    """Return the best score, and the first word, of dealing the characters to the words that end with `last`."""
    most_skipped = 1 if len(characters) > 2 else 0

    @cache
    def deal(n_characters: int, word: int, n_skipped: int) -> tuple[float, int] | None:
        """Deal so many first characters to the words up to this one."""
        if n_characters == 0:
            return None if words[word + 1] in STOP_WORDS else (0.0, word + 1)
        if word < 0:
            return None
        ways = []
        for n_taken in range(1, n_characters + 1):
            taken = characters[n_characters - n_taken : n_characters]
            if words[word][0] == taken[0] and _is_within(taken[1:], words[word][1:]):
                way = deal(n_characters - n_taken, word - 1, n_skipped)
                if way is not None:
                    ways.append((way[0] + 1 + _INSIDE * (n_taken - 1) + _EACH_WORD, way[1]))
        is_content = words[word] not in STOP_WORDS
        if word != last and n_skipped + is_content <= most_skipped:
            way = deal(n_characters, word - 1, n_skipped + is_content)
            if way is not None:
                ways.append((way[0] + _SKIPPED * is_content + _EACH_WORD, way[1]))
        return max(ways, default=None)

    return deal(len(characters), last, 0)


def _is_within(letters: str, word: str) -> bool:
    """Whether the letters occur in the word in this order."""
    remaining = iter(word)
    return all(letter in remaining for letter in letters)
