"""Abbreviation definitions in a text: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".

Candidates come from brackets and lists, as in Schwartz and Hearst (2003). The letters and numbers of the short form are
aligned with the words of the long form (`align`), each alignment is scored by its log-odds against chance, and the best
must reach `_NEEDED`. A long form of the inventory needs no alignment ("twice daily (BID)").
"""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

from lmcells.notes.tokens import STOP_WORDS

FormLookup = Callable[[str, str], object | None]
"""A short form and words, as written -> the inventory's sense that the words spell out, or None."""

_Span = tuple[int, int]
_Candidate = tuple[_Span, _Span, bool]  # short form, text with the long form, whether that begins the text

_LONGEST = 20  # characters of a short form
_MOST_PIECES = 24  # searched for a long form
_MOST_WORDS_BEFORE = 8  # of a long form before a bracket that only the inventory knows
_REACH = 200  # characters that may contain a long form
_NEAR = 10_000  # characters where a short form may be used again

# Where short and long forms occur.
_TAIL = r"\((?:[A-Za-z]{1,3}|[0-9]{0,2}[+-]?)\)"
_SHORT_FORM = rf"[A-Za-z0-9](?:[A-Za-z0-9/&.+α-ω-]{{0,10}}[A-Za-z0-9+α-ω])?(?:{_TAIL})?"
_ATTACHED = r"(?<=[^\W_])[(\[][^()\[\]\s]{1,12}[)\]]"  # poly(A), K(+), protein(s)
_ASIDE = r"(?<=\s)[(\[][^()\[\]\s]{1,12}[)\]](?=[\s-])"  # interleukin 1 (IL-1) receptor
BRACKET = re.compile(rf"[(\[](?=((?:[^()\[\]]|{_ATTACHED}|{_ASIDE}){{2,160}})[)\]])")
_PART = re.compile(r"[^,;]+")
# "family (UBA1, UBA2)"
_MEMBERS = re.compile(r"([A-Za-z]{2})[\w-]*(?:, (?:and |or )?| and | or )\1(?![a-z]{5})")
_LEAD = r"\s*(?:(?:or|also|called|termed|named|alias|abbreviated(?: as)?|a\.?k\.?a\.?|i\.?e\.?|hereafter|=)[,:]?\s+)?"
_SHORT_INSIDE = re.compile(
    rf"{_LEAD}[\"'“‘]?({_SHORT_FORM}(?: {_SHORT_FORM}){{0,2}})\.?[\"'”’]?\s*(?=[)\],;:=])"
)
_FIRST_INSIDE = re.compile(
    rf"{_LEAD}[\"'“‘]?({_SHORT_FORM})[\"'”’]?(?:\s(?=[\d<>=]|(?:or|and|in|for|also|see)\s)|(?=/))"
)
_SHORT_BEFORE = re.compile(rf"(?<![A-Za-z0-9/&.+-])({_SHORT_FORM})[\"'”’]?\s?\Z")
_SHORT_THEN_LONG = re.compile(rf"\s*({_SHORT_FORM}), (?=[A-Za-z])")
_LONG_THEN_SHORT = re.compile(rf"(?<=[^\W_])[,;] (?:or )?({_SHORT_FORM}(?: \d+)?)\s*\Z")
_SIGN = re.compile(r"[=:][ ]?(?=[A-Za-z])")
_SIGN_IN_LIST = re.compile(r"[=:,][ ]?(?=[A-Za-z])")
_OPENINGS = "\n;,.(|:"
_SHORT_OPENS = re.compile(rf"(?:^|[{_OPENINGS}])[ \t\"]*({_SHORT_FORM})[ ]?\Z")
_LISTED_LONG = re.compile(r"[^=:;,.()\n|]{4,100}")
_LIST = re.compile(r"\b(?:[Aa]bbreviations?|ABBREVIATIONS?)\b")
_LIST_LENGTH = 3000
_LEGEND_ENTRY = re.compile(  # "RA - right apical margin",
    r"[ \t\"*•-]*([A-Z]{2,6}\d?)[ \t]{0,2}(-{1,3}|[–—=:])[ \t]{0,2}(?=[A-Za-z])"
)
_LEGEND_SIGN = re.compile(rf"[{_OPENINGS}]{_LEGEND_ENTRY.pattern}")  # one a line or after a comma
_LEGEND_GAP = 200  # characters between two entries of one legend
_ADJECTIVE = re.compile(r".{3,}(?:al|ic|ar|ary|ior|ous)")  # ends no long form
_ASIDE_MARK = "\x01"
_BREAK = re.compile(  # but not in "S. aureus"; "human A (HA) and B (HB)" is two
    rf"(?<!\b[A-Z])[.]\s|[;:!?]\s|[()\[\]]|\n\s*\n|\t|\||{_ASIDE_MARK} (?=(?:{'|'.join(sorted(STOP_WORDS))})\b)"
)
_BEFORE_LONG = re.compile(
    r"(?:i\.?e\.?|e\.?g\.?|or|also|called|known as|abbreviated|a\.?k\.?a\.?|the|an?|for|meaning|=)[,:]?\s+",
    re.I,
)

# What looks like a short form, or like a long one.
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_PLURAL = re.compile(r"(.+[A-Z0-9])s")
_STAGE_OR_DATE = re.compile(r"[acpry]{0,2}[TNM]\d[a-d]?|\d*[A-Z][a-z]{2}\d{4}")
_INITIALS = re.compile(r"(?<![^ -])(?=[^ -]*[A-Z])(?![^ -]*[a-z]{3})")  # a part such as RNA, not Gleason
_WORD = re.compile(r"(?!\w?(?:alpha|beta|gamma))[A-Za-z][a-z]*[aeiouy][a-z]*")  # "Pes", but not "Hb"
_NOT_SHORT = frozenset("fig figs figure table tables eq ref see vs left right yes and the ii iii".split())
_CODE = re.compile(r"[^\s-]*(?:[A-Za-z]\d|\d[A-Za-z]|[a-z][A-Z])[^\s-]*")  # "TAF60" is no long form
_GAP = re.compile(r"[\s,;()]+")

# A piece is a run of letters or digits: "mRNA", "IL-2" and "P450" have two.
_PIECE = re.compile(r"\d+|kDa?\b|[^\W\d_]+?(?=(?<=[a-z])[A-Z]|[\W\d_]|\Z)(?:['’][a-z]+)?")
_ASIDE_GROUP, _ATTACHED_GROUP = re.compile(_ASIDE), re.compile(_ATTACHED)
_ION = re.compile(r"[+]|\([+-]\)")
_BETWEEN_WORDS = frozenset(f" \t\r\n/:.—–{_ASIDE_MARK}")
_CUT = frozenset("anti ex non pan peri post pre re self".split())  # before a hyphen, cut from the long form

# A symbol of a short form is a letter, a number or the name of a Greek letter.
_GREEK_NAMES = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu pi rho sigma tau omega".split()
_GREEK = dict(zip("αβγδεζηθκλμπρστω", _GREEK_NAMES, strict=True))
_SYMBOL = re.compile(
    r"\d+|(?<=[- ])(?:III?|IV|VI{1,3})\b|alpha|beta|gamma|delta|epsilon|zeta|theta|kappa|lambda|sigma|omega|[^\W\d_]",
    re.I,
)
_NUMERALS = "i one first;ii two second;iii three third;iv four;v five;vi;vii;viii;ix;x;xi;xii;xiii;xiv"
_NUMBERS = {word: str(n) for n, words in enumerate(_NUMERALS.split(";"), 1) for word in words.split()}
_LINKS = frozenset("a an and as at by for from in of on or the to with".split())
_COMPOUND_LETTER = re.compile(r"(?:(?<=[aeiouy])|(?<=yl)|(?<=sub)|(?<=inter|hyper|trans))[a-z](?=.{2})")
_SECOND_PART = re.compile(  # of a compound: "amino-transferase", "co-transporter", "e-xercise"
    r"(?:(?<=[a-z]{2}[aeiouy])|(?<=\b[cd][oi]))[b-df-hj-np-tv-z](?=[a-z]{4})|(?<=\be)x"
)
_LIGHT = frozenset(["type", "class", "group", "isoform", "number", "kda", "kd", *_GREEK_NAMES])


class LogOdds(NamedTuple):
    """Log-odds of a definition against chance, learnt by `benchmarks/definition_weights.py`."""

    first: float = 2.16  # first letter of a piece
    follows: float = 0.79  # the next letter of the same piece
    inside: float = 0.14  # a later letter of it
    second: float = -1.98  # first letter of the second part of a compound: "aminotransferase"
    number: float = 2.79
    skipped: float = -1.78  # a word without a letter
    skipped_part: float = -0.94
    skipped_light: float = -0.83
    skipped_link: float = -0.91
    opens: float = 0.66  # the long form begins a sentence or bracket
    stop_start: float = -2.55  # it begins with a stop word
    part_start: float = -1.76  # it begins inside a word
    one_word: float = 0.60
    # of the bracket, whatever precedes it
    bracket: float = -0.04
    used: float = 1.20  # the short form is used again
    later: float = -3.45  # it is not the first part of the bracket
    words: float = -3.37  # it could be several words
    word: float = -2.86  # it could be one word


LOG_ODDS = LogOdds()
# Log-odds against chance cannot tell that "HIV-1" is more than "human immunodeficiency virus", or how sure to be. So
# these are chosen on the even half of the passages of `benchmarks/definitions.py`.
_NO_NUMBER = -4.0
_NEEDED = 2.51
_NEEDED_IN_LEGEND = 2.0  # with another entry beside it


class Definition(NamedTuple):
    """A short form, written at `text[start:end]` (without a plural s), and the long form given for it."""

    start: int
    end: int
    short_form: str
    long_form: str  # white space collapsed
    long_start: int
    long_end: int


class Piece(NamedTuple):
    """A run of letters or digits in what may be a long form."""

    start: int
    end: int
    text: str  # in lower case, Greek letters by name
    separator: str  # the characters between the previous piece and this one
    opens: bool  # begins a word
    is_capital: bool


_State = tuple[int, tuple[str, ...]]  # number of letters aligned, numbers not found so far
_Best = tuple[float, int]  # log odds, first piece


def find_definitions(text: str, spells: FormLookup = lambda *_: None) -> list[Definition]:
    """Return the definitions in a text, in order; `spells` knows long forms that letters do not align with."""
    found = {each.start: each for each in _bracketed(text, spells)} if "(" in text or "[" in text else {}
    lists = [match.start() for match in _LIST.finditer(text)] if "breviation" in text.lower() else []
    if lists or "=" in text or ": " in text:
        for each in _listed(text, lists, spells):
            found.setdefault(each.start, each)
    for each in _legends(text, spells):
        found.setdefault(each.start, each)
    return [found[start] for start in sorted(found)]


def _bracketed(text: str, spells: FormLookup) -> Iterator[Definition]:
    for bracket in BRACKET.finditer(text):
        inside = bracket.span(1)
        candidates = chain(short_inside(text, inside), _long_inside(text, inside))
        found = next(filter(None, (_define(text, *each, spells) for each in candidates)), None)
        if found:
            yield found


def short_inside(text: str, inside: _Span) -> Iterator[_Candidate]:
    """Read "atrial fibrillation (AF)", also as "(AF, see Table 1)", "(or AF)" and "(AF 2010)"."""
    opens, closes = inside
    if _MEMBERS.match(text, opens, closes):
        return
    for part in _PART.finditer(text, opens, closes):
        for pattern in (_SHORT_INSIDE, _FIRST_INSIDE):
            short = pattern.match(text, part.start(), closes + 1)
            if short and (part.start() == opens or sum(map(str.isupper, short[1])) > 1):
                yield short.span(1), (max(0, opens - 1 - _REACH), opens - 1), False


def _long_inside(text: str, inside: _Span) -> Iterator[_Candidate]:
    """Read "AF (atrial fibrillation)", "(AF, atrial fibrillation)" and "(atrial fibrillation, AF)"."""
    opens, closes = inside
    begin = max(0, opens - _LONGEST - 3)
    if closes - opens <= 3:
        return
    if before := _SHORT_BEFORE.search(text[begin : opens - 1]):
        yield (begin + before.start(1), begin + before.end(1)), inside, True
        if "/" in before[1]:  # "CT/MRI (magnetic resonance imaging)"
            yield (begin + before.start(1) + before[1].rindex("/") + 1, begin + before.end(1)), inside, True
    if not _MEMBERS.match(text, opens, closes) and (first := _SHORT_THEN_LONG.match(text, opens, closes)):
        yield first.span(1), (first.end(), closes), True
    if last := _LONG_THEN_SHORT.search(text, opens, closes):
        yield last.span(1), (opens, last.start()), True


def _listed(text: str, lists: list[int], spells: FormLookup) -> Iterator[Definition]:
    """Yield "AF = atrial fibrillation", "AF, atrial fibrillation;" in a list, and "AF: ..." if the inventory agrees."""
    for sign in (_SIGN_IN_LIST if lists else _SIGN).finditer(text):
        n_before = bisect_right(lists, sign.start())
        is_listed = n_before > 0 and sign.start() - lists[n_before - 1] < _LIST_LENGTH
        if sign[0][0] == "," and not is_listed:
            continue
        begin = max(0, sign.start() - _LONGEST)
        opens = _SHORT_OPENS.search(text[begin : sign.start()])
        if opens is None or (opens.start() == 0 < begin and opens[0][0] not in _OPENINGS):
            continue
        if long := _LISTED_LONG.match(text, sign.end()):
            span = begin + opens.start(1), begin + opens.end(1)
            by_letters = is_listed or "=" in sign[0]
            found = _define(text, span, long.span(), True, spells, by_letters=by_letters)
            if found is not None:
                yield found


def _legends(text: str, spells: FormLookup) -> Iterator[Definition]:
    """Yield the entries of legends: "RA - right apical margin", and "LN - lymph nodes" on the next line.

    At least two neighbouring entries, and half of them, must align: a single "FH: father healthy" in a list is not a
    legend. A single entry is enough if the inventory agrees, or if it has a dash and the initials of its words: three
    of them, or two where the text has another legend.
    """
    legends: list[list[_Entry | None]] = []
    end = -_LEGEND_GAP
    first = _LEGEND_ENTRY.match(text)  # apart: a pattern that begins with a set is three times faster
    for sign in chain([first] if first else [], _LEGEND_SIGN.finditer(text, first.end() if first else 0)):
        if sign.start(1) - end >= _LEGEND_GAP:
            legends.append([])
        legends[-1].append(_legend_entry(text, sign, spells))
        end = sign.end()
    has_legend = False
    single: list[_Entry] = []
    for entries in legends:
        aligned = [entry for entry in entries if entry]
        if len({entry.definition.short_form for entry in aligned}) > 1 and 2 * len(aligned) >= len(entries):
            has_legend = True
            yield from (entry.definition for entry in aligned)
        else:
            single += aligned
    yield from (entry.definition for entry in single if entry.is_sure or (has_legend and entry.has_initials))


class _Entry(NamedTuple):
    """A possible entry of a legend: its letters align."""

    definition: Definition
    is_sure: bool  # also without another entry beside it
    has_initials: bool  # and a dash


def _legend_entry(text: str, sign: re.Match[str], spells: FormLookup) -> _Entry | None:
    if text[sign.end()].upper() != sign[1][0]:
        return None
    short_form, long = short_form_of(sign[1]), _LISTED_LONG.match(text, sign.end())
    pieces = pieces_of(text, *long.span(), from_start=True) if short_form and long else []
    if short_form is None or not pieces:
        return None
    symbols = symbols_of(short_form)
    ends = [at for at, piece in enumerate(pieces) if piece.is_capital or piece.text not in _LINKS]
    score, _, last = align(symbols, pieces, ends, from_start=True)
    is_plausible = _is_plausible(short_form, symbols, pieces[: last + 1], is_used=True, is_listed=True)
    if score < _NEEDED_IN_LEGEND or not is_plausible:
        return None
    initials = [piece.text[0] for at, piece in enumerate(pieces[: last + 1]) if at in ends]
    has_initials = sign[2] not in "=:" and initials == [symbol.lower() for symbol in symbols]
    is_known = spells(short_form, text[pieces[0].start : pieces[last].end]) is not None
    if _ADJECTIVE.fullmatch(pieces[last].text):
        last = len(pieces) - 1
    definition = _definition(text, sign.span(1), short_form, (pieces[0].start, pieces[last].end))
    return definition and _Entry(definition, is_known or (has_initials and len(symbols) > 2), has_initials)


def _define(
    text: str, span: _Span, within: _Span, from_start: bool, spells: FormLookup, *, by_letters: bool = True
) -> Definition | None:
    """Find the long form that starts a text or, unless `from_start`, ends it."""
    short_form = short_form_of(text[slice(*span)])
    if short_form is None or not (by_letters or spells(short_form, text[slice(*within)])):
        return None
    if not from_start:  # no long form contains its short form
        at = text.rfind(short_form, *within)
        after = at + len(short_form)
        if at >= 0 and text[after].isspace() and (at == 0 or text[at - 1].isspace()):
            within = after + 1, within[1]
    pieces = pieces_of(text, *within, from_start=from_start)
    if not pieces:
        return None
    starts, ends = [0], [len(pieces) - 1]
    if from_start:
        ends += [at - 1 for at, piece in enumerate(pieces) if at and _ends_before(piece)][:2]
    else:
        starts = [at for at, piece in enumerate(pieces) if piece.opens][-_MOST_WORDS_BEFORE:]
    for first, last in product(starts, ends):
        long_span = pieces[first].start, pieces[last].end
        if spells(short_form, text[slice(*long_span)]):
            return _definition(text, span, short_form, long_span)
    if not by_letters:
        return None
    is_used, is_later = use_of(text, *span)
    needed = _NEEDED - prior(short_form, is_used=is_used, is_later=is_later and not from_start)
    symbols = symbols_of(short_form)
    score, first, last = align(symbols, pieces, ends, from_start=from_start)
    is_prefix = len(symbols) > 2 and pieces[first].text.startswith(short_form.lower())  # "Dex"
    is_enough = score >= needed or (score > 0 and is_prefix)
    if not is_enough or not _is_plausible(short_form, symbols, pieces[first : last + 1], is_used=is_used):
        return None
    if first > 0 and pieces[first - 1].text == "to":  # "to prevent postpartum hemorrhage (PPH)"
        rest = pieces[first + 1 :]
        again, skipped, _ = align(symbols, rest, [len(rest) - 1], from_start=False)
        first += 1 + skipped if again >= needed else 0
    return _definition(text, span, short_form, (_word_start(pieces, first), pieces[last].end))


def _ends_before(piece: Piece) -> bool:
    """Whether a long form at the start of a bracket may end before a piece."""
    return ", " in piece.separator or piece.text == "or" or (piece.opens and piece.text.isdigit())


def _definition(text: str, span: _Span, short_form: str, long_span: _Span) -> Definition | None:
    start, end = long_span
    end = charge.end() if (charge := _ION.match(text, end)) else end
    if text[end : end + 1] == ")" and text.count("(", start, end) > text.count(")", start, end):
        end += 1
    long_form = " ".join(text[start:end].split())
    lowered = short_form.lower()
    stem = lowered.rstrip("-0123456789") if lowered[3:4].isalpha() else lowered
    repeats = long_form.lower().startswith(stem) and not long_form[len(stem) : len(stem) + 1].islower()
    repeats |= long_form.startswith(short_form.upper())  # "TAF (TAFdep)"
    words, (word, *others) = _GAP.split(long_form.lower()), lowered.split()
    repeats |= word in words and all(len(each) == 1 or each in words or each in _NUMBERS for each in others)
    if repeats or len(long_form) <= len(short_form) or _CODE.fullmatch(long_form):
        return None
    return Definition(*span, short_form, long_form, start, end)


def short_form_of(written: str) -> str | None:
    """Return a short form without plural s and dots; None if it does not look like one."""
    short_form = written.replace(".", "") if _DOTTED.fullmatch(written) else written
    if plural := _PLURAL.fullmatch(short_form):
        short_form = plural[1]
    n_letters = sum(map(str.isalpha, short_form))
    looks_short = (
        2 <= len(short_form) <= _LONGEST
        and n_letters >= 1
        and not (n_letters > 5 and short_form[1:].islower() and short_form.isalpha())
        and short_form not in STOP_WORDS
        and short_form.lower() not in _NOT_SHORT
        and not _STAGE_OR_DATE.fullmatch(short_form)
        and (" " not in short_form or (n_letters > 2 and _INITIALS.search(short_form) is not None))
    )
    return short_form if looks_short else None


def pieces_of(text: str, start: int, end: int, *, from_start: bool) -> list[Piece]:
    """Return the pieces of the whole words of `text[start:end]` up to its first break, or after its last."""
    if from_start and (before := _BEFORE_LONG.match(text, start, end)):
        start = before.end()
    within = text[start:end]
    if "(" in within or "[" in within:
        # Hide brackets that end no long form: "(IL-1)", and those of "poly(A)".
        within = _ASIDE_GROUP.sub(lambda match: _ASIDE_MARK * len(match[0]), within)
        within = _ATTACHED_GROUP.sub(lambda match: f"\x02{match[0][1:-1]}\x02", within)
    breaks = list(_BREAK.finditer(within))
    if from_start and breaks:
        within = within[: breaks[0].start()]
    begin = breaks[-1].end() if breaks and not from_start else 0
    pieces: list[Piece] = []
    previous = begin
    for match in _PIECE.finditer(within, begin):
        separator = within[previous : match.start()]
        opens = not pieces or not _BETWEEN_WORDS.isdisjoint(separator)
        if opens and pieces and separator == ", " and pieces[-1].text.isdigit() and match[0].isdigit():
            separator, opens = ",", False  # "1, 3-propanediol"
        lowered = match[0].lower()
        span = start + match.start(), start + match.end()
        pieces.append(Piece(*span, _GREEK.get(lowered, lowered), separator, opens, match[0][0].isupper()))
        previous = match.end()
    if not from_start and begin == 0 < start and text[start - 1].isalnum():  # the first word is cut
        pieces = pieces[next((at for at, piece in enumerate(pieces) if at and piece.opens), len(pieces)) :]
    if from_start:
        return pieces[:_MOST_PIECES]
    is_near = pieces and not text[pieces[-1].end : end].strip(" \t\r\n\"'”’*)+-")
    return pieces[-_MOST_PIECES:] if is_near else []


def _word_start(pieces: list[Piece], first: int) -> int:
    """Return the start of a piece's word: "beta-amyloid", but neither "post-infarct" nor "mAKAP-green"."""
    at = first
    if at > 0 and pieces[at].text.isdigit() and pieces[at - 1].text in _LIGHT:
        return pieces[at - 1].start  # "type 1 diabetes"
    while at > 0 and not pieces[at].opens:
        if pieces[at - 1].text in _CUT:
            return pieces[first].start
        at -= 1
        if not (pieces[at].separator or pieces[at].opens or pieces[at - 1].text.isdigit()):
            return pieces[first].start
    return pieces[at].start


def use_of(text: str, start: int, end: int) -> tuple[bool, bool]:
    """Return whether a short form is used again nearby, and whether it is not the first part of its bracket."""
    n_uses = text.count(f" {text[start:end]}", max(0, start - _NEAR), end + _NEAR)
    return n_uses > (text[start - 1 : start] == " "), text[max(0, start - 2) : start] in (", ", "; ")


def symbols_of(short_form: str) -> list[str]:
    """Return the letters and numbers of a short form, and the names of its Greek letters."""
    symbols = _SYMBOL.findall("".join(_GREEK.get(character, character) for character in short_form))
    if len(symbols) > 3 and symbols[-1] == "p" and symbols[-2].isdigit():
        symbols.pop()  # "Rap1p" is the protein of a gene
    return symbols


def prior(short_form: str, *, is_used: bool, is_later: bool) -> float:
    """Return the prior log-odds that a bracket defines a short form, before its letters are aligned."""
    n_letters = sum(map(str.isalpha, short_form))
    return (
        LOG_ODDS.bracket
        + LOG_ODDS.used * is_used
        + LOG_ODDS.later * is_later
        + LOG_ODDS.words * (" " in short_form or n_letters == 1)
        + LOG_ODDS.word * (_WORD.fullmatch(short_form) is not None)
    )


def _is_plausible(
    short_form: str, symbols: list[str], pieces: list[Piece], *, is_used: bool, is_listed: bool = False
) -> bool:
    """Whether a writer would shorten it so: "Hb" is hemoglobin, but "Pes" is not pressure, nor "OD" "old"."""
    n, word = len(symbols), pieces[0].text
    if len(pieces) > 1:
        may_be_word = short_form.islower() and _WORD.fullmatch(short_form) is not None
        if may_be_word and not word.startswith(short_form) and n > sum(p.text not in _LINKS for p in pieces):
            return False  # "pain (peritoneal irritation)"
        return not (short_form.isalpha() and short_form.islower() and any(p.text.isdigit() for p in pieces))
    if _WORD.fullmatch(short_form):
        is_abbreviated = word.startswith(short_form.lower()) or (is_used and not short_form.islower())
    else:
        is_abbreviated = n > 2 or is_used or not short_form.islower()
    if n == 2 and short_form.isupper() and short_form.isalpha() and not is_listed:
        is_abbreviated = symbols[1].lower() in (word[1], *_COMPOUND_LETTER.findall(word))
    return is_abbreviated and len(word) >= 2 * n


def align(
    symbols: list[str], pieces: list[Piece], ends: list[int], *, from_start: bool
) -> tuple[float, int, int]:
    """Return the log-odds of the best alignment of symbols with pieces, with its first and last piece.

    Schwartz and Hearst match each character anywhere, from the right, and stop at the first letter that happens to fit.
    Here all alignments are compared: a piece matches by its first letter and perhaps some inside it, or is skipped.
    Numbers and Greek letters may match anywhere: "type 1 protein phosphatase (PP1)".
    """
    letters = [symbol.lower() for symbol in symbols if len(symbol) == 1 and symbol.isalpha()]
    numbers = tuple(
        _NUMBERS.get(symbol.lower(), symbol.lower())
        for symbol in symbols
        if len(symbol) > 1 or symbol.isdigit()
    )
    best = -math.inf, 0, 0
    spelled = iter("".join(piece.text for piece in pieces))
    if not all(letter in spelled for letter in letters):
        return best
    aligned: dict[_State, _Best] = {}
    for at, piece in enumerate(pieces):
        is_article = at > 0 and piece.opens and piece.text in ("a", "an", "the") and not piece.is_capital
        start = _start_score(pieces, at) if at == 0 or not (from_start or is_article) else None
        if start is not None:
            _keep(aligned, (0, numbers), start, at)
        skip = _skip_score(piece)
        number = _NUMBERS.get(piece.text, piece.text)
        new: dict[_State, _Best] = {}
        for (n_aligned, left), (score, first) in aligned.items():
            if number in left:
                rest = tuple(each for each in left if each != number)
                _keep(new, (n_aligned, rest), score + LOG_ODDS.number * (len(left) - len(rest)), first)
            if n_aligned > 0 or (piece.text in _LIGHT and left != numbers):
                _keep(new, (n_aligned, left), score + skip, first)
            for taken, value in () if is_article else _matches(letters, n_aligned, piece.text):
                _keep(new, (n_aligned + taken, left), score + value, first)
        aligned = new
        is_weak = piece.text in STOP_WORDS and len(piece.text) > 1 and letters[-1:] != [piece.text[0]]
        if at in ends and not is_weak:
            for (n_aligned, left), (so_far, first) in aligned.items():
                score = so_far + _NO_NUMBER * len(left)
                if n_aligned == len(letters) and score > best[0]:
                    best = score, first, at
    return best[0] + LOG_ODDS.one_word * (best[1] == best[2]), best[1], best[2]


def _keep(best: dict[_State, _Best], state: _State, score: float, first: int) -> None:
    if state not in best or score > best[state][0]:
        best[state] = score, first


def _start_score(pieces: list[Piece], at: int) -> float | None:
    """Return the log-odds that a long form begins with a piece; None if it cannot."""
    piece = pieces[at]
    if not piece.opens:
        return 0.0 if pieces[at - 1].text.isdigit() else LOG_ODDS.part_start if piece.separator else None
    opens = LOG_ODDS.opens if at == 0 else 0.0
    if (piece.is_capital and len(piece.text) == 1) or (at + 1 < len(pieces) and not pieces[at + 1].opens):
        return opens  # "T cell", "all-trans"
    if len(piece.text) == 1:
        return opens + LOG_ODDS.part_start
    return opens + (LOG_ODDS.stop_start if piece.text in STOP_WORDS else 0.0)


def _skip_score(piece: Piece) -> float:
    if piece.text in _LINKS:
        return LOG_ODDS.skipped_link
    if len(piece.text) == 1 or piece.text.isdigit() or piece.text in _LIGHT:
        return LOG_ODDS.skipped_light
    return LOG_ODDS.skipped if piece.opens else LOG_ODDS.skipped_part


def _matches(letters: list[str], first: int, word: str) -> Iterator[tuple[int, float]]:
    """Yield how many letters, from `first` on, a piece can match, with their log-odds."""
    if first == len(letters):
        return
    at, value = 0, LOG_ODDS.first
    if word[0] != letters[first]:
        at, value = _second_parts(word).get(letters[first], 0), LOG_ODDS.second
        if at == 0 or first == 0:
            return
    yield 1, value
    for taken, letter in enumerate(letters[first + 1 :] if word not in STOP_WORDS else (), 2):
        where = word.find(letter, at + 1)
        if where < 0:
            return
        value += LOG_ODDS.inside if where > at + 1 else LOG_ODDS.follows
        at = where
        yield taken, LOG_ODDS.first * taken if taken == len(word) else value


@lru_cache(maxsize=4096)
def _second_parts(word: str) -> dict[str, int]:
    """Return the letters that may begin the second part of a compound, with their positions."""
    return {match[0]: match.start() for match in _SECOND_PART.finditer(word)}
