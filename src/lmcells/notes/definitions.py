"""Abbreviation definitions in a text: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".

Candidates come from brackets and lists, as in Schwartz and Hearst (2003). The characters of the short form are then
dealt out to the words of the long form (`_deal`). Every way has a score, and the score that is asked for depends on
the kind of short form (`_needed`), as Sohn et al. (2008) trust some kinds of match more than others. What the
inventory lists as a long form is one, even where the letters do not show it ("twice daily (BID)").
"""

import math
import re
from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import NamedTuple

from lmcells.notes.tokens import STOP_WORDS

FormLookup = Callable[[str, str], str | None]
"""A short form and words, as written: the name of the inventory's sense that these words spell out, or None."""

_Span = tuple[int, int]
_Place = tuple[_Span, _Span, bool]  # of a short form, of what holds the long form, and whether it opens there

_LONGEST = 20  # characters of a short form
_MOST_PIECES = 24  # of what is looked at for a long form
_MOST_WORDS_BEFORE = 8  # of a long form that only the inventory knows, before a bracket
_REACH = 200  # characters that may hold a long form

# Where short and long forms stand.
_SHORT_FORM = r"[A-Za-z0-9](?:[A-Za-z0-9/&.+α-ω-]{0,10}[A-Za-z0-9+α-ω])?(?:\((?:[A-Za-z]{1,3}|[0-9]{0,2}[+-]?)\))?"
_ATTACHED = r"(?<=[^\W_])[(\[][^()\[\]\s]{1,12}[)\]]"  # poly(A), K(+), protein(s)
_ASIDE_INSIDE = r"(?<=\s)[(\[][^()\[\]\s]{1,12}[)\]](?=[\s-])"
_BRACKET = re.compile(rf"[(\[](?=((?:[^()\[\]]|{_ATTACHED}|{_ASIDE_INSIDE}){{2,160}})[)\]])")
_PART = re.compile(r"[^,;]+")
_MEMBERS = re.compile(r"([A-Za-z]{2})[\w-]*(?:, (?:and |or )?| and | or )(?:\1|\d)")  # "(UBA1, UBA2)" defines neither
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
_BREAK = re.compile(r"(?<!\b[A-Z])[.]\s|[;:!?]\s|[()\[\]]|\n\s*\n|\t|\|")  # but not in "S. aureus"
_ASIDE = re.compile(
    r"(?:i\.?e\.?|e\.?g\.?|or|also|called|known as|abbreviated|a\.?k\.?a\.?|the|a|an|for|meaning|=)[,:]?\s+",
    re.I,
)

# What looks like a short form, or like a long one.
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_STAGE = re.compile(r"\d*[A-Z][a-z]{2}\d{4}|[acpry]{0,2}[TNM]\d[a-d]?")
_INITIALS = re.compile(r"(?<![^ -])(?=[^ -]*[A-Z])(?![^ -]*[a-z]{3})")  # a part such as RNA, not Gleason
_SKELETON = re.compile(r"[A-Za-z][bcdfghjklmnpqrstvwxz]{1,3}")  # consonants of a word, as in "Cpt"
_NOT_SHORT = frozenset("fig figs figure table tables eq ref see vs left right yes and the ii iii".split())
_CODE = re.compile(r"[^\s-]*(?:[A-Za-z]\d|\d[A-Za-z]|[a-z][A-Z])[^\s-]*")  # "TAF60" is no long form
_WRITTEN = re.compile(r"[\s,;()]+")

# A piece of a word is a run of letters or of digits: "mRNA", "IL-2" and "P450" have two.
_PIECE = re.compile(r"\d+|kDa?\b|[^\W\d_]+?(?=(?<=[a-z])[A-Z]|[\W\d_]|\Z)(?:['’][a-z]+)?")
_ASIDE_MARK, _ATTACHED_MARK = "\x01", "\x02"
_SHORT_ASIDE = re.compile(_ASIDE_INSIDE)
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

# Log odds of each step in a definition against chance. They were learnt without labels: brackets of training text
# were paired with the words before them, and with the words before other brackets.
_FIRST, _NUMBER = 1.4, 1.5  # a letter that begins a word or is all of it, a number
_FOLLOWS, _INSIDE, _NOT_FIRST = 0.7, 0.2, -2.0  # further letters of a word; inside a word that begins otherwise
_NO_NUMBER, _NO_SPECIES = -1.5, -0.8  # "BARD1" where the long form has no number, "hREV3" for "REV3"
_SKIPPED, _SKIPPED_PART, _SKIPPED_HEAD, _SKIPPED_LIGHT, _SKIPPED_STOP = -1.2, -0.5, -0.85, -0.25, -0.55
_COMMA, _OVER_ASIDE, _OVER_ASIDE_AND = -0.5, -0.3, -3.0  # "protein A (PA) and B (PB)" is two long forms
_STOP_START, _PART_START, _OPENS = -2.0, -0.6, 0.7  # at a stop word, inside a word, at a sentence or bracket
_STOP_END = -0.7
_SKIPPED_LAST = -0.6
# The log odds that are needed: less if the short form is used again near by, more if it could be words.
_NEEDED, _IF_USED, _IF_WORDS, _IF_OPEN, _ONE = 2.0, -1.5, 0.5, 0.5, 0.5
_IF_USED_WEAK = -0.5
_NEAR, _MOST_LOOKED_AT = 10_000, 20


class Definition(NamedTuple):
    """A short form as written at `text[start:end]` (less the s of a plural), and the long form given for it."""

    start: int
    end: int
    short_form: str
    long_form: str  # white space made single
    long_start: int
    long_end: int


_Dealt = tuple[float, int]  # score, first piece
_State = tuple[int, tuple[str, ...]]  # number of letters dealt, numbers not found so far


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
        inside = bracket.span(1)
        places = chain(_short_inside(text, inside), _long_inside(text, inside))
        found = next(filter(None, (_define(text, *place, spells) for place in places)), None)
        if found:
            yield found


def _short_inside(text: str, inside: _Span) -> Iterator[_Place]:
    """Read "atrial fibrillation (AF)", also with more in the bracket: "(AF, see Table 1)", "(or AF)", "(AF 2010)"."""
    opens, closes = inside
    if _MEMBERS.match(text, opens, closes):
        return
    for part in _PART.finditer(text, opens, closes):
        for pattern in (_SHORT_INSIDE, _FIRST_INSIDE):
            short = pattern.match(text, part.start(), closes + 1)
            if short and (part.start() == opens or sum(map(str.isupper, short[1])) > 1):
                yield short.span(1), (max(0, opens - 1 - _REACH), opens - 1), False


def _long_inside(text: str, inside: _Span) -> Iterator[_Place]:
    """Read "AF (atrial fibrillation)", "(AF, atrial fibrillation)" and "(atrial fibrillation, AF)"."""
    opens, closes = inside
    begin = max(0, opens - _LONGEST - 3)
    if closes - opens <= 3:
        return
    if before := _SHORT_BEFORE.search(text[begin : opens - 1]):
        yield (begin + before.start(1), begin + before.end(1)), inside, True
    if first := _SHORT_THEN_LONG.match(text, opens, closes):
        yield first.span(1), (first.end(), closes), True
    if last := _LONG_THEN_SHORT.search(text, opens, closes):
        yield last.span(1), (opens, last.start()), False


def _listed(text: str, lists: list[int], spells: FormLookup) -> Iterator[Definition]:
    """Yield "AF = atrial fibrillation", a list's "AF, atrial fibrillation;", and "AF: ..." if the inventory agrees."""
    for sign in (_SIGN_IN_LIST if lists else _SIGN).finditer(text):
        is_listed = bool(lists) and any(0 <= sign.start() - at < _LIST_LENGTH for at in lists)
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


def _define(
    text: str, span: _Span, within: _Span, from_start: bool, spells: FormLookup, *, by_letters: bool = True
) -> Definition | None:
    """Find the long form that opens a piece of text, up to its end, a comma or any word, or that closes it."""
    short_form = _short_form(text, span)
    if short_form is None or not (by_letters or spells(short_form, text[slice(*within)])):
        return None
    pieces = _pieces(text, *within, from_start=from_start)
    if not pieces:
        return None
    ends = [len(pieces) - 1]
    if from_start:
        starts = [0]
        ends += [at - 1 for at, piece in enumerate(pieces) if at and _ends_before(piece)][:2]
    else:
        starts = [at for at, piece in enumerate(pieces) if piece.opens][-_MOST_WORDS_BEFORE:]
        if text[_end(text, pieces[-1]) : within[1]].strip(" \t\r\n\"'”’*)-"):
            return None
    for first, last in product(starts, ends):
        long_span = pieces[first].start, _end(text, pieces[last])
        if spells(short_form, text[slice(*long_span)]):
            return _definition(text, span, short_form, long_span)
    if not by_letters:
        return None
    is_used = _is_used_again(text, span)
    aligned = _align(short_form, pieces, ends, from_start=from_start, is_used=is_used)
    if aligned is None:
        return None
    first, last = aligned
    if first > 0 and pieces[first - 1].text == "to":  # "to prevent postpartum hemorrhage (PPH)"
        rest = pieces[first + 1 :]
        again = _align(short_form, rest, [len(rest) - 1], from_start=False, is_used=is_used) if rest else None
        first += 1 + again[0] if again else 0
    return _definition(text, span, short_form, (_word_start(pieces, first), _end(text, pieces[last])))


def _definition(text: str, span: _Span, short_form: str, long_span: _Span) -> Definition | None:
    start, end = long_span
    if text[end : end + 1] == ")" and text.count("(", start, end) > text.count(")", start, end):
        end += 1
    long_form = " ".join(text[start:end].split())
    stem = short_form.rstrip("-0123456789")
    stem = stem.lower() if len(stem) > 3 else short_form.lower()
    following = long_form[len(stem) : len(stem) + 1]
    repeats = long_form.startswith(short_form) and short_form.isupper()  # "TAF (TAFdep)"
    repeats |= long_form.lower().startswith(stem) and not following.islower()
    repeats |= set(short_form.lower().split()) <= set(_WRITTEN.split(long_form.lower()))
    repeats |= " " not in long_form and short_form in long_form[1:]
    if repeats or len(long_form) <= len(short_form):
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


def _pieces(text: str, start: int, end: int, *, from_start: bool) -> list[_Piece]:
    """Return the pieces of the whole words of `text[start:end]` up to its first break, or after its last."""
    if from_start and (aside := _ASIDE.match(text, start, end)):
        start = aside.end()
    within = _masked(text[start:end])
    breaks = list(_BREAK.finditer(within))
    if from_start and breaks:
        within = within[: breaks[0].start()]
    begin = breaks[-1].end() if breaks and not from_start else 0
    is_cut = not from_start and begin == 0 < start and text[start - 1].isalnum()
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
        pieces = pieces[second:]
    return pieces[:_MOST_PIECES] if from_start else pieces[-_MOST_PIECES:]


def _end(text: str, piece: _Piece) -> int:
    """Return where a long form ends, with the charge of an ion."""
    charge = _ION.match(text, piece.end)
    return charge.end() if charge else piece.end


def _word_start(pieces: list[_Piece], first: int) -> int:
    """Return where the word of a piece begins: "beta-amyloid", but neither "post-infarct" nor "mAKAP-green"."""
    at = first
    if at > 0 and pieces[at].text.isdigit() and pieces[at - 1].text in _LIGHT:
        return pieces[at - 1].start  # "type 1 diabetes"
    while at > 0 and not pieces[at].opens:
        if "'" in pieces[at].glue:
            return pieces[first].start
        at -= 1
        is_joined = not (pieces[at].glue or pieces[at].opens or pieces[at - 1].text.isdigit())
        if pieces[at].text in _CUT or is_joined:
            return pieces[first].start
    return pieces[at].start


def _ends_before(piece: _Piece) -> bool:
    """Return whether a long form at the start of a bracket may end before a piece."""
    return ", " in piece.glue or piece.text == "or" or (piece.opens and piece.text.isdigit())


def _is_used_again(text: str, span: _Span) -> bool:
    """Return whether a short form also stands near by outside brackets, so that it needs no other proof."""
    written = text[slice(*span)]
    at = max(0, span[0] - _NEAR) - 1
    for _ in range(_MOST_LOOKED_AT):
        at = text.find(written, at + 1, span[1] + _NEAR)
        if at < 0:
            return False
        before, after = text[at - 1 : at], text[at + len(written) : at + len(written) + 1]
        if at != span[0] and not (before.isalnum() or before in "([" or after.isalnum()):
            return True
    return False


def _align(
    short_form: str, pieces: list[_Piece], ends: list[int], *, from_start: bool, is_used: bool
) -> _Span | None:
    """Return the first and the last of the pieces that a short form stands for, or None."""
    units = _UNIT.findall("".join(_GREEK.get(character, character) for character in short_form))
    if len(units) > 3 and units[-1] == "p" and units[-2].isdigit():
        units.pop()  # "Rap1p" is the protein of a gene
    dealt = _deal(units, pieces, from_start=from_start)
    open_ends = [at for at in range(len(pieces)) if _may_end(pieces, at)] if from_start else []
    needed = _needed(short_form, len(units), is_used=is_used, from_start=from_start)
    for lasts, needed in ((ends, needed), (open_ends, max(_NEEDED, needed) + _IF_OPEN)):
        found = [(best[0], -last, best[1]) for last in lasts if (best := dealt[last])]
        if found:
            score, last, first = max(found)
            least = _ONE if first == -last else needed
            if score >= least and _is_plausible(short_form, units, pieces[first : 1 - last], is_used):
                return first, -last
    return None


def _needed(short_form: str, n: int, *, is_used: bool, from_start: bool) -> float:
    """Return the log odds that a short form needs."""
    is_word = short_form.isalpha() and short_form.islower()
    if is_word or " " in short_form or sum(map(str.isalpha, short_form)) == 1:
        return _NEEDED + _IF_WORDS
    is_code = sum(map(str.isupper, short_form)) > 1 or any(map(str.isdigit, short_form))
    if not (is_used and is_code):
        return _NEEDED
    return _NEEDED + (_IF_USED_WEAK if from_start or n == 2 else _IF_USED)


def _may_end(pieces: list[_Piece], last: int) -> bool:
    return pieces[last].text not in STOP_WORDS and (last + 1 == len(pieces) or pieces[last + 1].opens)


def _is_plausible(short_form: str, units: list[str], pieces: list[_Piece], is_used: bool) -> bool:
    if len(pieces) > 1:
        has_number = any(piece.text.isdigit() for piece in pieces)
        return not (short_form.isalpha() and short_form.islower() and has_number)  # "leg (lot ENG5466)"
    # "Hb" is hemoglobin, but "Pes" is not pressure and "OD" is not "old".
    word, n = pieces[0].text, len(units)
    n_capitals = sum(map(str.isupper, short_form))
    is_beginning = (n == 3 or len(word) > 2 * n > 6) and word.startswith(short_form.lower())
    is_skeleton = (n > 2 or is_used) and _SKELETON.fullmatch(short_form) is not None
    is_abbreviated = n_capitals > 1 or (n_capitals == 1 and (n == 2 or is_used)) or is_skeleton
    return (is_beginning or is_abbreviated) and len(word) >= 2 * n and all(len(unit) == 1 and unit.isalpha() for unit in units)


def _deal(units: list[str], pieces: list[_Piece], *, from_start: bool) -> list[_Dealt | None]:
    """Return, by last piece, the best way of dealing the units of a short form to the pieces.

    Schwartz and Hearst let each character match anywhere, from the right, and stop at the first letter that happens
    to fit. Here all ways are compared: a piece takes its first letter and perhaps some inside it, or is skipped.
    Numbers and Greek letters may stand anywhere: "type 1 protein phosphatase (PP1)".
    """
    letters = [unit for unit in units if len(unit) == 1 and unit.isalpha()]
    numbers = tuple(unit.lower() for unit in units if len(unit) > 1 or unit.isdigit())
    lowered = [letter.lower() for letter in letters]
    has_species = len(letters) > 2 and letters[0].islower() and letters[1].isupper()
    if not _is_spelled(lowered[has_species:], "".join(piece.text for piece in pieces)):
        return [None] * len(pieces)
    ended: list[_Dealt | None] = []
    dealt: dict[_State, _Dealt] = {}
    for at, piece in enumerate(pieces):
        start = _start(pieces, at) if at == 0 or not from_start else None
        if start is not None:
            _keep(dealt, (0, numbers), start, at)
            if has_species:
                _keep(dealt, (1, numbers), start + _NO_SPECIES, at)
        crossing = _crossing(piece)
        skip, skip_last = _skip(piece, ends=False), _skip(piece, ends=True)
        number = _NUMBERS.get(piece.text, piece.text)
        stop_end = _STOP_END if piece.text in STOP_WORDS and len(piece.text) > 1 else 0.0
        new: dict[_State, _Dealt] = {}
        end: dict[_State, _Dealt] = {}
        for (n_dealt, left), (score, first) in dealt.items():
            if first != at:
                score += crossing
            if number in left:
                rest = tuple(each for each in left if each != number)
                hit = score + _NUMBER * (len(left) - len(rest))
                _keep(new, (n_dealt, rest), hit, first)
                _keep(end, (n_dealt, rest), hit, first)
            if n_dealt > 0 or (piece.text in _LIGHT and left != numbers):
                _keep(new, (n_dealt, left), score + skip, first)
                _keep(end, (n_dealt, left), score + skip_last, first)
            if n_dealt < len(letters):
                for taken, value in _matches(letters, lowered, n_dealt, piece.text):
                    _keep(new, (n_dealt + taken, left), score + value, first)
                    _keep(end, (n_dealt + taken, left), score + value + stop_end, first)
        dealt = new
        ended.append(
            max(
                (
                    (score + _NO_NUMBER * len(left), first)
                    for (n_dealt, left), (score, first) in end.items()
                    if n_dealt == len(letters)
                ),
                default=None,
            )
        )
    return ended


def _is_spelled(letters: list[str], text: str) -> bool:
    """Return whether letters stand in a text in their order."""
    at = 0
    for letter in letters:
        at = text.find(letter, at) + 1
        if at == 0:
            return False
    return True


def _keep(best: dict[_State, _Dealt], state: _State, score: float, first: int) -> None:
    """Keep the best score of a state, and the first piece of that way."""
    if state not in best or score > best[state][0]:
        best[state] = score, first


def _start(pieces: list[_Piece], at: int) -> float | None:
    """Return the log odds of a long form that begins with a piece; None if it may not."""
    piece = pieces[at]
    if not piece.opens:
        if pieces[at - 1].text.isdigit():
            return 0.0
        return _PART_START if piece.glue else None
    opens = _OPENS if at == 0 else 0.0
    if (piece.is_capital and len(piece.text) == 1) or (at + 1 < len(pieces) and not pieces[at + 1].opens):
        return opens  # "T cell", "all-trans"
    if piece.text in ("a", "an", "the") and at > 0 and not piece.is_capital:
        return None
    if len(piece.text) == 1:
        return opens + _PART_START
    return opens + _STOP_START if piece.text in STOP_WORDS else opens


def _crossing(piece: _Piece) -> float:
    if _ASIDE_MARK in piece.glue:
        return _OVER_ASIDE_AND if piece.text in STOP_WORDS else _OVER_ASIDE
    return _COMMA if ", " in piece.glue else 0.0


def _skip(piece: _Piece, *, ends: bool) -> float:
    if piece.text in STOP_WORDS and not (ends and len(piece.text) == 1):
        return -math.inf if ends else _SKIPPED_STOP
    if len(piece.text) == 1 or piece.text.isdigit() or piece.text in _LIGHT:
        return _SKIPPED_LIGHT
    if piece.text in _HEADS:
        return _SKIPPED_HEAD
    return (_SKIPPED if piece.opens else _SKIPPED_PART) + _SKIPPED_LAST * ends


def _matches(letters: list[str], lowered: list[str], first: int, word: str) -> Iterator[tuple[int, float]]:
    """Yield how many letters from the first on a piece can stand for, with their score."""
    at = 0 if word[0] == lowered[first] else word.find(lowered[first]) if first else -1
    if at < 0:
        return
    value = _FIRST if at == 0 else _NOT_FIRST
    yield 1, value
    if word in STOP_WORDS:
        return
    for taken in range(2, len(lowered) - first + 1):
        where = word.find(lowered[first + taken - 1], at + 1)
        if where < 0:
            return
        value += _INSIDE if where > at + 1 else _FOLLOWS
        at = where
        yield taken, _FIRST * taken if taken == len(word) else value
