"""Abbreviation definitions in a text: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".

Candidates come from brackets and lists, as in Schwartz and Hearst (2003). The characters of the short form are then
dealt out to the words of the long form (`_deal`). Every way has a score, and the score that is asked for depends on
the kind of short form (`_needed`), as Sohn et al. (2008) trust some kinds of match more than others. What the
inventory lists as a long form is one, even where the letters do not show it ("twice daily (BID)").
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lmcells.notes.tokens import STOP_WORDS

FormLookup = Callable[[str, str], str | None]
"""A short form and words, as written: the name of the inventory's sense that these words spell out, or None."""

_Span = tuple[int, int]

_LONGEST = 20  # characters of a short form
_MOST_PIECES = 24  # of what is looked at for a long form
_MOST_WORDS_BEFORE = 8  # of a long form that only the inventory knows, before a bracket
_REACH = 200  # characters that may hold a long form

# Where short and long forms stand.
_SHORT_FORM = r"[A-Za-z0-9](?:[A-Za-z0-9/&.+α-ω-]{0,10}[A-Za-z0-9+α-ω])?(?:\((?:[A-Za-z]{1,3}|[0-9]{1,2})\))?"
_ATTACHED = r"(?<=[^\W_])[(\[][^()\[\]\s]{1,12}[)\]]"  # poly(A), K(+), protein(s)
_BRACKET = re.compile(rf"[(\[]((?:[^()\[\]]|{_ATTACHED}){{2,160}})(?=[)\]])")
_PART = re.compile(r"[^,;]+")
_LEAD = r"\s*(?:(?:or|also|called|termed|named|alias|abbreviated(?: as)?|a\.?k\.?a\.?|i\.?e\.?|hereafter|=)[,:]?\s+)?"
_SHORT_INSIDE = re.compile(
    rf"{_LEAD}[\"'“‘]?({_SHORT_FORM}(?: {_SHORT_FORM}){{0,2}})\.?[\"'”’]?\s*(?=[)\],;:=])"
)
_FIRST_INSIDE = re.compile(
    rf"{_LEAD}[\"'“‘]?({_SHORT_FORM})[\"'”’]?(?:\s(?=[\d<>=]|(?:or|and|in|for|also|see)\s)|(?=/))"
)
_SHORT_BEFORE = re.compile(rf"(?<![A-Za-z0-9/&.+-])({_SHORT_FORM})[\"'”’]?\s?\Z")
_SHORT_THEN_LONG = re.compile(rf"\s*({_SHORT_FORM}), (?=[A-Za-z])")
_LONG_THEN_SHORT = re.compile(rf"(?<=[^\W_])[,;] (?:or )?({_SHORT_FORM})\s*\Z")
_SIGN = re.compile(r"[=:][ ]?(?=[A-Za-z])")
_SIGN_IN_LIST = re.compile(r"[=:,][ ]?(?=[A-Za-z])")
_OPENINGS = "\n;,.(|:"
_SHORT_OPENS = re.compile(rf"(?:^|[{_OPENINGS}])[ \t\"]*({_SHORT_FORM})[ ]?\Z")
_LISTED_LONG = re.compile(r"[^=:;,.()\n|]{4,100}")
_LIST = re.compile(r"\b(?:[Aa]bbreviations?|ABBREVIATIONS?)\b")
_LIST_LENGTH = 3000
_BREAK = re.compile(r"(?<!\b[A-Z])[.]\s|[;:!?]\s|[()\[\]]|\n\s*\n|\t|\|")  # but not in "S. aureus"
_ASIDE = re.compile(
    r"(?:i\.?e\.?|e\.?g\.?|or|also|called|known as|abbreviated|a\.?k\.?a\.?|the|a|an|for|meaning|=)[,:]?\s+",
    re.I,
)

# What looks like a short form, or like a long one.
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_STAGE = re.compile(r"[acpry]{0,2}[TNM]\d[a-d]?")
_INITIALS = re.compile(r"(?<![^ -])(?=[^ -]*[A-Z])(?![^ -]*[a-z]{3})")  # a part such as RNA, not Gleason
_SKELETON = re.compile(r"[A-Za-z][bcdfghjklmnpqrstvwxz]{1,3}")  # consonants of a word, as in "Cpt"
_NOT_SHORT = frozenset("fig figs figure table tables eq ref see vs left right yes and the".split())
_CODE = re.compile(r"[^\s-]*(?:[A-Za-z]\d|\d[A-Za-z]|[a-z][A-Z])[^\s-]*")  # "TAF60" is no long form
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

# A piece of a word is a run of letters or of digits: "mRNA", "IL-2" and "P450" have two.
_PIECE = re.compile(r"\d+|[^\W\d_]+?(?=(?<=[a-z])[A-Z]|[\W\d_]|\Z)(?:['’][a-z]+)?")
_ASIDE_MARK, _ATTACHED_MARK = "\x01", "\x02"
_SHORT_ASIDE = re.compile(r"(?<=\s)[(\[][^()\[\]\s]{1,12}[)\]](?=[\s-])")
_ATTACHED_GROUP = re.compile(_ATTACHED)
_ION = re.compile(r"[+]|\([+-]\)")
_BETWEEN_WORDS = frozenset(f" \t\r\n/:.—–{_ASIDE_MARK}")
_CUT = frozenset("anti ex non pan peri post pre re self".split())  # before a hyphen, cut from the long form

# A unit of a short form is a letter, a number or the name of a Greek letter.
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "ω": "omega",
}  # fmt: skip
_UNIT = re.compile(r"\d+|alpha|beta|gamma|delta|epsilon|zeta|theta|kappa|lambda|sigma|omega|[^\W\d_]", re.I)
_NUMERALS = "i one first;ii two second;iii three third;iv four;v five;vi;vii;viii;ix;x;xi;xii;xiii;xiv"
_NUMBERS = {
    word: str(number) for number, words in enumerate(_NUMERALS.split(";"), 1) for word in words.split()
}
_HEADS = frozenset(  # nouns that a short form may leave out
    "allele cell cells channel channels complex disease domain domains enzyme enzymes factor family gene genes line "
    "locus molecule protein proteins receptor receptors site subunit syndrome system test virus".split()
)
_LIGHT = frozenset("type class group isoform number kda kd".split())

# Scores of a unit; one that begins a piece, or is all of it, scores 1.
_FOLLOWS_LOWER, _FOLLOWS, _INSIDE = 0.8, 0.5, 0.4  # after the letter before it ("Ang"), or further inside
_NOT_FIRST = -0.4  # inside a word whose first letter is not used
# Costs.
_SKIPPED, _SKIPPED_PART, _SKIPPED_HEAD, _SKIPPED_LIGHT, _SKIPPED_STOP = 0.8, 0.4, 0.5, 0.2, 0.02
_COMMA, _COMMA_IN_LIST = 0.7, 0.3  # "pupils equal, round, reactive": every part begins with a unit
_OVER_ASIDE, _OVER_ASIDE_AND = 0.2, 1.5  # "protein A (PA) and B (PB)" is two long forms
_WEAK_START, _PART_START = 0.5, 0.3
# The share of the best score that is needed.
_LEAST, _LEAST_OF_TWO, _LEAST_LOWER, _LEAST_WORDS = 0.55, 0.85, 0.8, 0.7
_LEAST_WHOLE = 0.5  # all of a bracket, from its first word to its last
_LEAST_OPEN = 0.8  # the first words of a bracket
_LEAST_UNNUMBERED = 0.85  # "BARD1" where the long form has no number


class Definition(NamedTuple):
    """A short form as written at `text[start:end]` (less the s of a plural), and the long form given for it."""

    start: int
    end: int
    short_form: str
    long_form: str  # white space made single
    long_start: int
    long_end: int


class _Piece(NamedTuple):
    start: int
    end: int
    text: str  # in lower case, Greek letters by name
    glue: str  # what stands between the piece before and this one
    opens: bool  # begins a word
    is_capital: bool


def find_definitions(text: str, spells: FormLookup = lambda *_: None) -> list[Definition]:
    """Return the definitions in a text, in order; `spells` knows long forms that the letters do not show."""
    found = {each.start: each for each in _bracketed(text, spells)} if "(" in text or "[" in text else {}
    lists = [match.start() for match in _LIST.finditer(text)] if "breviation" in text.lower() else []
    if lists or "=" in text or ": " in text:
        for each in _listed(text, lists, spells):
            found.setdefault(each.start, each)
    return [found[start] for start in sorted(found)]


def _bracketed(text: str, spells: FormLookup) -> Iterator[Definition]:
    for bracket in _BRACKET.finditer(text):
        opens, closes = bracket.span(1)
        found = _short_inside(text, opens, closes, spells)
        if found is None and closes - opens > 3:
            found = _long_inside(text, opens, closes, spells)
        if found:
            yield found


def _short_inside(text: str, opens: int, closes: int, spells: FormLookup) -> Definition | None:
    """Read "atrial fibrillation (AF)", also with more in the bracket: "(AF, see Table 1)", "(or AF)", "(AF 2010)"."""
    for part in _PART.finditer(text, opens, closes):
        for pattern in (_SHORT_INSIDE, _FIRST_INSIDE):
            short = pattern.match(text, part.start(), closes + 1)
            if short and (part.start() == opens or sum(map(str.isupper, short[1])) > 1):
                found = _before_bracket(text, opens - 1, short.span(1), spells)
                if found:
                    return found
    return None


def _long_inside(text: str, opens: int, closes: int, spells: FormLookup) -> Definition | None:
    """Read "AF (atrial fibrillation)", "(AF, atrial fibrillation)" and "(atrial fibrillation, AF)"."""
    begin = max(0, opens - _LONGEST - 3)
    before = _SHORT_BEFORE.search(text[begin : opens - 1])
    found = None
    if before:
        span = begin + before.start(1), begin + before.end(1)
        found = _inside_bracket(text, span, (opens, closes), spells)
    if found is None and (first := _SHORT_THEN_LONG.match(text, opens, closes)):
        found = _inside_bracket(text, first.span(1), (first.end(), closes), spells)
    if found is None and (last := _LONG_THEN_SHORT.search(text, opens, closes)):
        found = _whole(text, last.span(1), (opens, last.start()), spells, by_letters=True)
    return found


def _before_bracket(text: str, bracket: int, span: _Span, spells: FormLookup) -> Definition | None:
    """Find a long form that ends where the bracket with the short form opens."""
    short_form = _short_form(text, span)
    pieces = _pieces(text, max(0, bracket - _REACH), bracket)[-_MOST_PIECES:] if short_form else []
    if short_form is None or not pieces:
        return None
    end = _end(text, pieces)
    if text[end:bracket].strip(" \t\r\n\"'”’*)-"):
        return None
    for piece in [piece for piece in pieces if piece.opens][-_MOST_WORDS_BEFORE:]:
        if spells(short_form, text[piece.start : end]):
            return _definition(text, span, short_form, (piece.start, end))
    aligned = _align(short_form, pieces)
    if aligned is None:
        return None
    first, _ = aligned
    if first > 0 and pieces[first - 1].text == "to":  # "to prevent postpartum hemorrhage (PPH)"
        again = _align(short_form, pieces[first + 1 :])
        first = first + 1 + again[0] if again else first
    return _definition(text, span, short_form, (_word_start(pieces, first), end))


def _inside_bracket(text: str, span: _Span, inside: _Span, spells: FormLookup) -> Definition | None:
    """Find a long form that opens the bracket after the short form: all of it, up to a comma, or its first words."""
    short_form = _short_form(text, span)
    if short_form is None:
        return None
    aside = _ASIDE.match(text, *inside)
    start = aside.end() if aside else inside[0]
    stop = _BREAK.search(_masked(text[start : inside[1]]))
    pieces = _pieces(text, start, start + stop.start() if stop else inside[1])[:_MOST_PIECES]
    if not pieces:
        return None
    start = pieces[0].start
    commas = [at for at, piece in enumerate(pieces) if at and ", " in piece.glue]
    for to in (len(pieces), *commas[:1]):
        end = _end(text, pieces[:to])
        if spells(short_form, text[start:end]) or _align(short_form, pieces[:to], from_start=True):
            return _definition(text, span, short_form, (start, end))
    aligned = _align(short_form, pieces, from_start=True, to_end=False)
    if aligned is None:
        return None
    return _definition(text, span, short_form, (start, _end(text, pieces[: aligned[1] + 1])))


def _listed(text: str, lists: list[int], spells: FormLookup) -> Iterator[Definition]:
    """Yield "AF = atrial fibrillation", a list's "AF, atrial fibrillation;", and "AF: ..." if the inventory agrees."""
    for sign in (_SIGN_IN_LIST if lists else _SIGN).finditer(text):
        is_listed = any(0 <= sign.start() - at < _LIST_LENGTH for at in lists)
        if sign[0][0] == "," and not is_listed:
            continue
        begin = max(0, sign.start() - _LONGEST)
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
    pieces = _pieces(text, *within)
    if not pieces:
        return None
    if not is_known and (len(pieces) > _MOST_PIECES or not _align(short_form, pieces, from_start=True)):
        return None
    return _definition(text, span, short_form, (pieces[0].start, _end(text, pieces)))


def _definition(text: str, span: _Span, short_form: str, long_span: _Span) -> Definition | None:
    start, end = long_span
    if text[end : end + 1] == ")" and text.count("(", start, end) > text.count(")", start, end):
        end += 1
    long_form = " ".join(text[start:end].split())
    following = long_form[len(short_form) : len(short_form) + 1]
    repeats = long_form.startswith(short_form) and short_form.isupper()  # "TAF (TAFdep)"
    repeats |= long_form.lower().startswith(short_form.lower()) and not following.islower()
    if repeats or len(long_form) <= len(short_form) or short_form in _WORD.findall(long_form):
        return None
    if _CODE.fullmatch(long_form):
        return None
    return Definition(*span, short_form, long_form, start, end)


def _short_form(text: str, span: _Span) -> str | None:
    """Return the short form without the s of "CVAs" and without dots; None if it does not look like one."""
    written = text[slice(*span)]
    short_form = written.replace(".", "") if _DOTTED.fullmatch(written) else written
    if (
        len(short_form) > 2
        and short_form[-1] == "s"
        and (short_form[-2].isupper() or short_form[-2].isdigit())
    ):
        short_form = short_form[:-1]
    n_letters = sum(map(str.isalpha, short_form))
    looks_short = (
        2 <= len(short_form) <= _LONGEST
        and n_letters >= 1
        and not (n_letters > 5 and short_form[1:].islower() and short_form.isalpha())
        and short_form not in STOP_WORDS
        and short_form.lower() not in _NOT_SHORT
        and not _STAGE.fullmatch(short_form)
        and (" " not in short_form or (n_letters > 2 and _INITIALS.search(short_form) is not None))
    )
    return short_form if looks_short else None


def _masked(text: str) -> str:
    """Hide brackets that do not end a long form: "(IL-1)" is filled up, and "poly(A)" keeps its letters."""
    if "(" not in text and "[" not in text:
        return text
    text = _SHORT_ASIDE.sub(lambda match: _ASIDE_MARK * len(match[0]), text)
    return _ATTACHED_GROUP.sub(lambda match: _ATTACHED_MARK + match[0][1:-1] + _ATTACHED_MARK, text)


def _pieces(text: str, start: int, end: int) -> list[_Piece]:
    """Return the pieces of the words of `text[start:end]` after its last sentence break, whole words only."""
    within = _masked(text[start:end])
    begin = max((match.end() for match in _BREAK.finditer(within)), default=0)
    is_cut = begin == 0 < start and text[start - 1].isalnum()
    pieces: list[_Piece] = []
    previous = begin
    for match in _PIECE.finditer(within, begin):
        glue = within[previous : match.start()]
        opens = not pieces or not _BETWEEN_WORDS.isdisjoint(glue)
        if opens and pieces and glue == ", " and pieces[-1].text.isdigit() and match[0].isdigit():
            glue, opens = ",", False  # "1, 3-propanediol"
        lowered = match[0].lower()
        span = start + match.start(), start + match.end()
        pieces.append(_Piece(*span, _GREEK.get(lowered, lowered), glue, opens, match[0][0].isupper()))
        previous = match.end()
    if is_cut:
        second = next((at for at, piece in enumerate(pieces) if at and piece.opens), len(pieces))
        return pieces[second:]
    return pieces


def _end(text: str, pieces: list[_Piece]) -> int:
    """Return where a long form ends, with the charge of an ion."""
    charge = _ION.match(text, pieces[-1].end)
    return charge.end() if charge else pieces[-1].end


def _word_start(pieces: list[_Piece], first: int) -> int:
    """Return where the word of a piece begins: "beta-amyloid", but neither "post-infarct" nor "mAKAP-green"."""
    at = first
    while at > 0 and not pieces[at].opens:
        at -= 1
        is_joined = not (pieces[at].glue or pieces[at].opens or pieces[at - 1].text.isdigit())
        if pieces[at].text in _CUT or is_joined:
            return pieces[first].start
    return pieces[at].start


def _align(
    short_form: str, pieces: list[_Piece], *, from_start: bool = False, to_end: bool = True
) -> _Span | None:
    """Return the first and the last of the pieces that a short form stands for, or None."""
    units = _UNIT.findall("".join(_GREEK.get(character, character) for character in short_form))
    letters = [unit for unit in units if len(unit) == 1 and unit.isalpha()]
    if len(units) > 3 and units[-1] == "p" and units[-2].isdigit():
        letters.pop()  # "Rap1p" is the protein of a gene
    for dealt, least in ((units, 0.0), (letters, _LEAST_UNNUMBERED)):
        if dealt is letters and not 2 < len(letters) < len(units):
            return None
        best = _deal(dealt, pieces, from_start=from_start, to_end=to_end)
        if best is None:
            continue
        score, first, last = best
        needed = _needed(short_form, len(dealt), pieces[first : last + 1], is_whole=from_start and to_end)
        least_open = 0.0 if to_end else _LEAST_OPEN
        if needed is not None and score + 1e-6 >= max(needed, least, least_open) * len(dealt):
            return first, last
    return None


def _needed(short_form: str, n: int, pieces: list[_Piece], *, is_whole: bool) -> float | None:
    """Return the share of the best score that makes an alignment reliable, or None if nothing does."""
    if len(pieces) == 1:  # "Hb" is hemoglobin, but "Pes" is not pressure and "OD" is not "old"
        word = pieces[0].text
        n_capitals = sum(map(str.isupper, short_form))
        is_beginning = n == 3 and len(word) >= 6 and word.startswith(short_form.lower())
        is_skeleton = n > 2 and _SKELETON.fullmatch(short_form)
        is_abbreviated = n_capitals > 1 or (n == 2 and n_capitals) or is_skeleton
        return 0.0 if is_beginning or (is_abbreviated and len(word) >= 2 * n) else None
    if n <= 2:
        return _LEAST_OF_TWO
    if short_form.islower():  # "leg (lot ENG5466)" is none
        has_number = any(piece.text.isdigit() for piece in pieces)
        return None if has_number and short_form.isalpha() else _LEAST_LOWER
    if " " in short_form:
        return _LEAST_WORDS
    return _LEAST_WHOLE if is_whole and n > 3 else _LEAST


def _deal(
    units: list[str], pieces: list[_Piece], *, from_start: bool, to_end: bool
) -> tuple[float, int, int] | None:
    """Return the best score of dealing the units to the pieces, with the first and the last piece.

    Schwartz and Hearst let each character match anywhere, from the right, and stop at the first letter that happens
    to fit. Here all ways are compared: a piece takes its first letter and perhaps some inside it, or is skipped.
    """
    lowered = [unit.lower() for unit in units]
    n = len(units)
    best: tuple[float, int, int] | None = None
    dealt: list[tuple[float, int] | None] = [None] * (n + 1)  # by number of units: score, first piece
    for at, piece in enumerate(pieces):
        crossing = _crossing_cost(piece)
        is_last = at == len(pieces) - 1
        skipping = crossing + _skip_cost(piece, ends=is_last)
        new = [each and (each[0] - skipping, each[1]) for each in dealt]
        cost = _start_cost(pieces, at) if at == 0 or not from_start else None
        dealt[0] = None if cost is None else (-cost, at)
        for n_dealt, so_far in enumerate(dealt[:n]):
            if so_far is None:
                continue
            for taken, value in _matches(units, lowered, n_dealt, piece.text):
                score = so_far[0] + value
                if n_dealt:
                    score -= min(crossing, _COMMA_IN_LIST) if value >= 1 else crossing
                old = new[n_dealt + taken]
                if old is None or score > old[0]:
                    new[n_dealt + taken] = score, so_far[1]
        dealt = new
        done = dealt[n]
        may_end = is_last or not (to_end or piece.text in STOP_WORDS or not pieces[at + 1].opens)
        if done is not None and may_end and (best is None or done[0] > best[0]):
            best = *done, at
    return best


def _start_cost(pieces: list[_Piece], at: int) -> float | None:
    """Return what it costs to begin a long form with a piece; None if it may not."""
    piece = pieces[at]
    if not piece.opens:
        return _PART_START if piece.glue or pieces[at - 1].text.isdigit() else None
    if (piece.is_capital and len(piece.text) == 1) or (at + 1 < len(pieces) and not pieces[at + 1].opens):
        return 0.0  # "T cell", "all-trans"
    if piece.text in ("a", "an", "the") and at > 0 and not piece.is_capital:
        return None
    return _WEAK_START if piece.text in STOP_WORDS or len(piece.text) == 1 else 0.0


def _crossing_cost(piece: _Piece) -> float:
    if _ASIDE_MARK in piece.glue:
        return _OVER_ASIDE_AND if piece.text in STOP_WORDS else _OVER_ASIDE
    return _COMMA if ", " in piece.glue else 0.0


def _skip_cost(piece: _Piece, *, ends: bool) -> float:
    if piece.text in STOP_WORDS and not (ends and len(piece.text) == 1):
        return math.inf if ends else _SKIPPED_STOP
    if len(piece.text) == 1 or piece.text.isdigit() or piece.text in _LIGHT:
        return _SKIPPED_LIGHT
    if piece.text in _HEADS:
        return _SKIPPED_LIGHT if ends else _SKIPPED_HEAD
    return _SKIPPED if piece.opens else _SKIPPED_PART


def _matches(units: list[str], lowered: list[str], first: int, word: str) -> Iterator[tuple[int, float]]:
    """Yield how many units from the first on a piece can stand for, with their score."""
    unit = lowered[first]
    if len(unit) > 1 or unit.isdigit():
        if word == unit or _NUMBERS.get(word) == unit:
            yield 1, 1.0
        return
    at = 0 if word[0] == unit else word.find(unit) if first else -1
    if at < 0:
        return
    value = 1.0 if at == 0 else _NOT_FIRST
    yield 1, value
    if word in STOP_WORDS:
        return
    for taken in range(2, len(lowered) - first + 1):
        unit = lowered[first + taken - 1]
        where = word.find(unit, at + 1) if len(unit) == 1 else -1
        if where < 0:
            return
        if where > at + 1:
            value += _INSIDE
        else:
            value += _FOLLOWS_LOWER if units[first + taken - 1].islower() else _FOLLOWS
        at = where
        yield taken, float(taken) if taken == len(word) else value
