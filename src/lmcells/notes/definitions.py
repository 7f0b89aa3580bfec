"""Abbreviation definitions in a text: "atrial fibrillation (AF)", "AF (atrial fibrillation)", "AF = atrial ...".

Candidates come from brackets and lists, as in Schwartz and Hearst (2003). The letters of the short form are then dealt
out to the words of the long form: every way of doing so has a score (first letters of words are best, skipped words
cost), and each kind of short form needs a score that makes it reliable, in the spirit of Sohn et al. (2008). What the
inventory lists as a long form is one, even where the letters do not show it ("twice daily (BID)").
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lmcells.notes.tokens import STOP_WORDS

FormLookup = Callable[[str, str], str | None]
"""A short form and words, as written: the name of the inventory's sense that these words spell out, or None."""

_Span = tuple[int, int]

_LONGEST = 12  # characters of a word of a short form
_LONGEST_SHORT = 20  # of a short form of several words
_MOST_PIECES = 24  # of what is looked at for a long form
_MOST_WORDS_BEFORE = 8  # of a long form that only the inventory knows, before a bracket
_REACH = 200  # characters that may hold a long form

_SHORT_FORM = r"[A-Za-z0-9](?:[A-Za-z0-9/&.+α-ω-]{0,10}[A-Za-z0-9+α-ω])?(?:\((?:[A-Za-z]{1,3}|[0-9]{1,2})\))?"
_ATTACHED = r"(?<=[^\W_])[(\[][^()\[\]\s]{1,12}[)\]]"  # poly(A), K(+), protein(s)
_BRACKET = re.compile(rf"[(\[]((?:[^()\[\]]|{_ATTACHED}){{2,160}})(?=[)\]])")
_LEAD = r"(?:(?:or|also|called|termed|named|alias|abbreviated(?: as)?|a\.?k\.?a\.?|i\.?e\.?|hereafter|=)[,:]?\s+)?"
_SHORT_INSIDE = re.compile(
    rf"\s*{_LEAD}[\"'“‘]?({_SHORT_FORM}(?: {_SHORT_FORM}){{0,2}})\.?[\"'”’]?\s*(?=[)\],;:=]|\Z)"
)
_FIRST_INSIDE = re.compile(rf"\s*{_LEAD}[\"'“‘]?({_SHORT_FORM})[\"'”’]?(?:\s(?=[\d<>=]|(?:or|and|in|for|also|see)\s)|(?=/))")
_LAST_INSIDE = re.compile(rf"(?<=[^\W_])[,;] (?:or )?({_SHORT_FORM})\s*\Z")
_SHORT_BEFORE = re.compile(rf"(?<![A-Za-z0-9/&.+-])({_SHORT_FORM})[\"'”’]?\s?\Z")
_SIGN = re.compile(r"[=:][ ]?(?=[A-Za-z])")
_SIGN_IN_LIST = re.compile(r"[=:,][ ]?(?=[A-Za-z])")
_OPENINGS = "\n;,.(|:"
_SHORT_OPENS = re.compile(rf"(?:^|[{_OPENINGS}])[ \t\"]*({_SHORT_FORM})[ ]?\Z")
_LISTED_LONG = re.compile(r"[^=:;,.()\n|]{4,100}")
_LIST = re.compile(r"\b(?:[Aa]bbreviations?|ABBREVIATIONS?)\b")
_LIST_LENGTH = 3000
_BREAK = re.compile(r"(?<!\b[A-Z])[.]\s|[;:!?]\s|[()\[\]]|\n\s*\n|\t|\|")
_ASIDE = re.compile(
    r"(?:i\.?e\.?|e\.?g\.?|or|also|called|known as|abbreviated|a\.?k\.?a\.?|the|a|an|for|meaning|=)[,:]?\s+", re.I
)
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_NOT_SHORT = frozenset("fig figs figure table tables eq ref see vs left right yes and the".split())

# A piece of a word is a run of letters or of digits; "mRNA", "IL-2" and "P450" have two.
_PIECE = re.compile(r"\d+|[^\W\d_]+?(?=(?<=[a-z])[A-Z]|[\W\d_]|\Z)(?:['’][a-z]+)?")
_PARENTHESIS = re.compile(r"(?<=\s)[(\[][^()\[\]\s]{1,12}[)\]](?=[\s-])")
_ATTACHED_GROUP = re.compile(_ATTACHED)
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau phi chi psi omega".split(),
        strict=True,
    )
)
_GREEK_NAME = "|".join(name for name in _GREEK.values() if len(name) > 3)
_UNIT = re.compile(rf"\d+|{_GREEK_NAME}|[^\W\d_]", re.I)
_NUMBERS = {
    word: str(number)
    for number, words in enumerate("i one first;ii two second;iii three third;iv four;v five;vi six;vii;viii;ix;x;xi;xii;xiii;xiv;xv".split(";"), 1)
    for word in words.split()
}
_CUT = frozenset("anti ex non pan peri post pre re self".split())  # before a hyphen, not part of the long form
_HEADS = frozenset(  # nouns that a short form often leaves out at the end
    "allele cell cells channel channels complex disease domain domains enzyme enzymes factor family gene genes "
    "line locus molecule site protein proteins receptor receptors subunit syndrome system test virus".split()
)

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_TAIL = re.compile(r"[+]|\([+-]\)")
_CODE = re.compile(r"[^\s-]*(?:[A-Za-z]\d|\d[A-Za-z]|[a-z][A-Z])[^\s-]*")
_CAPITAL = re.compile("[A-Z]")
_STAGE = re.compile(r"[acpry]{0,2}[TNM]\d[a-d]?")
_HAS_INITIALS = re.compile(r"(?<![^ ])(?=[^ ]*[A-Za-z])(?![^ ]*[a-z]{3})")
_PART = re.compile(r"[^,;]+")
_SHORT_THEN = re.compile(rf"\s*({_SHORT_FORM}), (?=[A-Za-z])")
_SKELETON = re.compile(r"[A-Za-z][bcdfghjklmnpqrstvwxz]{1,3}")
_LIGHT = frozenset("type class group isoform number kda kd".split())
DR = float(__import__("os").environ.get("DR", "0.85"))
EN = float(__import__("os").environ.get("EN", "0.0"))
GL = float(__import__("os").environ.get("GL", "0.4"))
WH = float(__import__("os").environ.get("WH", "0.57"))
_SEPARATORS = frozenset(" \t\r\n/:.\x01—–")
_INSIDE = 0.4  # score of a letter inside a word; a letter that begins a word scores 1
_DROPPED = float(__import__("os").environ.get("DROP", "0.2"))
_MIDDLE = float(__import__("os").environ.get("MID", "-0.3"))
_LEAST = float(__import__("os").environ.get("LEAST", "0.59"))  # of the score of a short form whose every character begins a word


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
    text: str  # in lower case
    glue: str  # what stands between the piece before and this one
    opens: bool  # begins a word
    capital: bool


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
        found = None
        for part in _PART.finditer(text, opens, closes):
            for pattern in (_SHORT_INSIDE, _FIRST_INSIDE):
                short = None if found else pattern.match(text, part.start(), closes + 1)
                if short and (part.start() == opens or len(_CAPITAL.findall(short[1])) > 1):
                    found = _before_bracket(text, opens - 1, short.span(1), spells)
        if found is None and closes - opens > 3:
            begin = max(0, opens - _LONGEST - 8)
            before = _SHORT_BEFORE.search(text[begin : opens - 1])
            if before:
                span = begin + before.start(1), begin + before.end(1)
                found = _inside_bracket(text, span, (opens, closes), spells)
            first = None if found else _SHORT_THEN.match(text, opens, closes)
            if first:
                found = _inside_bracket(text, first.span(1), (first.end(), closes), spells)
            last = None if found else _LAST_INSIDE.search(text, opens, closes)
            if last:
                found = _whole(text, last.span(1), (opens, last.start()), spells, by_letters=True)
        if found:
            yield found


def _before_bracket(text: str, bracket: int, span: _Span, spells: FormLookup) -> Definition | None:
    """Find a long form that ends where the bracket with the short form opens."""
    short_form = _short_form(text, span)
    if short_form is None:
        return None
    pieces = _pieces(text, max(0, bracket - _REACH), bracket)
    if not pieces:
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
    """Find a long form that opens the bracket after the short form."""
    short_form = _short_form(text, span)
    if short_form is None:
        return None
    aside = _ASIDE.match(text, *inside)
    start = aside.end() if aside else inside[0]
    stop = _BREAK.search(_masked(text[start : inside[1]]))
    pieces = _pieces(text, start, start + stop.start() if stop else inside[1], from_left=True)
    if not pieces:
        return None
    start = pieces[0].start
    commas = [at for at, piece in enumerate(pieces) if ", " in piece.glue]
    for to in (len(pieces), *commas[:1]):
        end = _end(text, pieces[:to])
        if spells(short_form, text[start:end]) or _align(short_form, pieces[:to], from_start=True):
            return _definition(text, span, short_form, (start, end))
    aligned = _align(short_form, pieces, from_start=True, to_end=False)
    if aligned is None:
        return None
    last = aligned[1]
    while last + 1 < len(pieces) and not pieces[last + 1].opens:
        last += 1
    return _definition(text, span, short_form, (start, _end(text, pieces[: last + 1])))


def _listed(text: str, lists: list[int], spells: FormLookup) -> Iterator[Definition]:
    """Yield "AF = atrial fibrillation", a list's "AF, atrial fibrillation;", and "AF: ..." if the inventory agrees."""
    for sign in (_SIGN_IN_LIST if lists else _SIGN).finditer(text):
        is_listed = any(0 <= sign.start() - at < _LIST_LENGTH for at in lists)
        if sign[0][0] == "," and not is_listed:
            continue
        begin = max(0, sign.start() - _LONGEST - 8)
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
    if not pieces or not (is_known or _align(short_form, pieces, from_start=True)):
        return None
    return _definition(text, span, short_form, (pieces[0].start, _end(text, pieces)))


def _definition(text: str, span: _Span, short_form: str, long_span: _Span) -> Definition | None:
    start, end = long_span
    if text.count("(", start, end) > text.count(")", start, end) and text[end : end + 1] == ")":
        end += 1
    long_form = " ".join(text[start:end].split())
    if _CODE.fullmatch(long_form):
        return None
    if len(long_form) <= len(short_form) or (long_form.lower().startswith(short_form.lower()) and not long_form[len(short_form) : len(short_form) + 1].islower()) or short_form in _WORD.findall(long_form):
        return None
    return Definition(*span, short_form, long_form, start, end)


def _short_form(text: str, span: _Span) -> str | None:
    """Return the short form without the s of "CVAs" and without dots; None if it does not look like one."""
    written = text[slice(*span)]
    short_form = written.replace(".", "") if _DOTTED.fullmatch(written) else written
    if len(short_form) > 2 and short_form[-1] == "s" and (short_form[-2].isupper() or short_form[-2].isdigit()):
        short_form = short_form[:-1]
    n_letters = sum(map(str.isalpha, short_form))
    looks_short = (
        2 <= len(short_form) <= _LONGEST_SHORT
        and n_letters >= 1
        and any(not c.islower() for c in short_form if c.isalnum()) | (n_letters < 6)
        and not (n_letters > 5 and short_form.isalpha() and short_form[1:].islower())
        and short_form.lower() not in _NOT_SHORT
        and short_form not in STOP_WORDS
        and not _STAGE.fullmatch(short_form)
        and (" " not in short_form or (n_letters > 2 and _HAS_INITIALS.search(short_form) is not None))
    )
    return short_form if looks_short else None


def _masked(text: str) -> str:
    """Hide brackets that do not end a long form: "(IL-1)" becomes filling, and "poly(A)" keeps its letters."""
    if not any(c in text for c in "()[]"):
        return text
    text = _PARENTHESIS.sub(lambda match: "\x01" * len(match[0]), text)
    return _ATTACHED_GROUP.sub(lambda match: f"\x02{match[0][1:-1]}\x02", text)


def _pieces(text: str, start: int, end: int, *, from_left: bool = False) -> list[_Piece]:
    """Return the pieces of the words of `text[start:end]`, from its last sentence break on."""
    within = _masked(text[start:end])
    begin = max((match.end() for match in _BREAK.finditer(within)), default=0)
    pieces = []
    previous = begin
    for match in _PIECE.finditer(within, begin):
        glue = within[previous : match.start()]
        opens = not pieces or not set(glue).isdisjoint(_SEPARATORS)
        if opens and pieces and glue == ", " and pieces[-1].text.isdigit() and match[0].isdigit():
            glue, opens = ",", False  # "1, 3-propanediol"
        lowered = match[0].lower()
        pieces.append(
            _Piece(start + match.start(), start + match.end(), _GREEK.get(lowered, lowered), glue, opens, match[0][0].isupper())
        )
        previous = match.end()
    if not begin and not from_left and start > 0 and not text[start - 1].isspace() and text[start].isalnum() and text[start - 1].isalnum():
        at = next((at for at, piece in enumerate(pieces) if at and piece.opens), len(pieces))
        pieces = pieces[at:]
    return pieces[:_MOST_PIECES] if from_left else pieces[-_MOST_PIECES:]


def _end(text: str, pieces: list[_Piece]) -> int:
    """Return where a long form ends: after the bracket of "K(+)" and "protein(s)"."""
    tail = _TAIL.match(text, pieces[-1].end)
    return tail.end() if tail else pieces[-1].end


def _word_start(pieces: list[_Piece], first: int) -> int:
    at = first
    while at > 0 and not pieces[at].opens:
        at -= 1
        joined = not (pieces[at].glue or pieces[at].opens or pieces[at - 1].text.isdigit())  # "mAKAP-green"
        if pieces[at].text in _CUT or joined:
            return pieces[first].start
    return pieces[at].start


def _align(
    short_form: str, pieces: list[_Piece], *, from_start: bool = False, to_end: bool = True
) -> _Span | None:
    """Return the first and the last of the pieces that a short form stands for, or None.

    Schwartz and Hearst let each character match anywhere, from the right. Here the characters are dealt out to
    words in all ways, and the best is taken: that finds the left edge where the original stops at the first letter
    that happens to fit.
    """
    units = _UNIT.findall("".join(_GREEK.get(c, c) for c in short_form))
    found = _deal(short_form, units, pieces, from_start=from_start, to_end=to_end)
    if found:
        return found
    kept = [unit for unit in units if len(unit) == 1 and unit.isalpha()]
    if len(units) > 3 and units[-1] == "p" and units[-2].isdigit():
        kept.pop()
    if len(kept) > 2 and len(kept) < len(units):
        return _deal(short_form, kept, pieces, from_start=from_start, to_end=to_end, least=DR)
    return None


def _deal(short_form: str, units: list[str], pieces: list[_Piece], *, from_start: bool, to_end: bool, least: float = 0) -> _Span | None:
    letters = [unit.lower() for unit in units]
    n = len(units)
    if not n:
        return None
    best: tuple[float, int, int] | None = None
    state: list[tuple[float, int] | None] = [None] * (n + 1)
    for at, piece in enumerate(pieces):
        crossing = _crossing_cost(piece)
        skipping = crossing + _skip_cost(pieces, at)
        new = [each and (each[0] - skipping, each[1]) for each in state]
        if at == 0 or not from_start:
            cost = _start_cost(pieces, at)
            state[0] = None if cost is None else (-cost, at)
        else:
            state[0] = None
        for i in range(n):
            here = state[i]
            if here is None:
                continue
            for taken, value in _matches(units, letters, i, piece):
                score = here[0] + value - (min(crossing, 0.3) if i and value >= 1 else crossing if i else 0)
                old = new[i + taken]
                if old is None or score > old[0]:
                    new[i + taken] = score, here[1]
        new[0] = None
        state = new
        done = state[n]
        if done is not None and (at == len(pieces) - 1 or not to_end and piece.text not in STOP_WORDS) and (best is None or done[0] > best[0]):
            best = done[0], done[1], at
    if best is None:
        return None
    score, first, last = best
    needed = _needed(short_form, units, pieces[first : last + 1])
    if from_start and to_end and needed == _LEAST * n - 1e-6:
        needed = WH * n - 1e-6
    return (first, last) if score >= max(needed, (least if to_end else 0.8) * n) else None


def _needed(short_form: str, units: list[str], pieces: list[_Piece]) -> float:
    """Return the score that makes an alignment reliable."""
    n = len(units)
    if len(pieces) == 1:
        n_capitals = sum(map(str.isupper, short_form))
        word = pieces[0].text
        if n == 3 and word.startswith(short_form.lower()) and len(word) >= n + 3:
            return 0
        if _SKELETON.fullmatch(short_form) and (n > 2 or n_capitals) and len(word) >= 2 * n:
            return 0
        good = (n_capitals > 1 or (n == 2 and n_capitals)) and len(word) >= 2 * n
        return 0 if good else 99
    share = _LEAST
    if n == 2:
        share = 0.85
    elif short_form.islower():
        share = 0.8
    elif " " in short_form:
        share = 0.7
    return share * n - 1e-6


def _start_cost(pieces: list[_Piece], at: int) -> float | None:
    piece = pieces[at]
    next_opens = at + 1 == len(pieces) or pieces[at + 1].opens
    if piece.opens:
        if piece.text in STOP_WORDS and next_opens and not (len(piece.text) == 1 and piece.capital):
            return 0.5 if at == 0 or piece.capital or piece.text not in ("a", "an", "the") else None
        return 0.5 if len(piece.text) == 1 and next_opens and not piece.capital else 0.0
    before = pieces[at - 1]
    if not piece.glue and not before.text.isdigit():
        return None
    return 0.3


def _crossing_cost(piece: _Piece) -> float:
    if "" in piece.glue:
        return 1.5 if piece.text in STOP_WORDS else 0.2
    return 0.7 if ", " in piece.glue else 0.0


def _skip_cost(pieces: list[_Piece], at: int) -> float:
    piece = pieces[at]
    ends = at == len(pieces) - 1
    if piece.text in STOP_WORDS:
        return 0.8 if ends else 0.02
    if len(piece.text) == 1 or piece.text.isdigit() or piece.text in _LIGHT:
        return 0.2
    if piece.text in _HEADS:
        return 0.2 if ends else 0.5
    return (0.8 if piece.opens else GL) + (EN if ends else 0)


def _matches(units: list[str], letters: list[str], i: int, piece: _Piece) -> Iterator[tuple[int, float]]:
    """Yield how many units from this one on the piece can stand for, with the score."""
    unit, word = letters[i], piece.text
    if len(unit) > 1 or unit.isdigit():
        if word == unit or _NUMBERS.get(word) == unit:
            yield 1, 1.0
        return
    at = 0 if word[0] == unit else word.find(unit) if i else -1
    if at < 0:
        return
    value = 1.0 if at == 0 else _MIDDLE
    yield 1, value
    if word in STOP_WORDS:
        return
    for taken in range(2, len(letters) - i + 1):
        unit = letters[i + taken - 1]
        if len(unit) > 1:
            return
        where = word.find(unit, at + 1)
        if where < 0:
            return
        if where == at + 1:
            value += 0.8 if units[i + taken - 1].islower() else _INSIDE + 0.1
        else:
            value += _INSIDE
        at = where
        yield taken, float(taken) if taken == len(word) else value
