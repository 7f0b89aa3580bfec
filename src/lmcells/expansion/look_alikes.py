"""What looks like a short form where it stands, and is something else.

English among words in capitals, an emphasised "NO", a name after its title, a number's unit, a date's month, a Roman
numeral, letters that are names ("hepatitis C", "T wave"), an initial, a state before its zip code, the mark of a list.
Each rule looks at a bounded piece of the text.
"""

import re
from typing import NamedTuple

from lmcells.expansion.ordinary_words import (
    AFTER_NUMBERS,
    CANNOT_FOLLOW_THE,
    MONTHS,
    TITLES,
    is_english,
)

_REACH = 60  # characters on either side that tell whether a line is written in capitals
_SAMPLE = 4_000  # characters that tell whether a text is
_MOST_LEADING = 12  # characters before a short form that hold a number, an article or a title

_FULL_WORD = re.compile(r"\b(?=[A-Z]*[AEIOUY])[A-Z]{4,}\b")
_LOWER_CASE_WORD = re.compile(r"\b[A-Z]?[a-z]{2,}\b")
_BOUNDARY = re.compile(r"[\n\r\t:|]|[.;?!]\s")
_AFTER_ARTICLE = re.compile(r"\b(?:THE|AN?)\s+$")
_OPENS_CLAUSE = re.compile(r"(?:^|\n[ \t*-]*|[:;.(][ \t]*)$")
_WORD_FOLLOWS = re.compile(r"[ \t]+[A-Za-z]{3}")
_AFTER_TITLE = re.compile(r"\b(?:(?:Dr|Mr|Mrs|Ms|Miss|Prof)\.?|(?:DR|MR|MRS|MS)\.)\s+$")
_SURNAME_FOLLOWS = re.compile(r"\.?\s+[A-Z]")
_SURNAME_IN_CAPITALS_FOLLOWS = re.compile(r"\.\s+[A-Z]{3,}\b")
_AFTER_NUMBER = re.compile(r"\d[ \t-]?$")
_DAY_OR_YEAR_FOLLOWS = re.compile(r"[ .,-]{1,2}\d")
_VALUE_FOLLOWS = re.compile(r"[ ]?[:=]|[ ]\d")
_ZIP_CODE_FOLLOWS = re.compile(r"\.?,?[ ]\d{5}\b")
_LIST_MARK_BEFORE = re.compile(r"(?:^|\n)[ \t(]*$")
_ROMAN = re.compile(r"[IVX]{1,4}[A-C]?")
_ROMAN_BEFORE = re.compile(
    r"(?:\b[IVX]{1,4}(?:[/,&-]|[ ](?:to|and|of|or|through|-|/))[ ]?|\b(?:stage|grade|class|type|level|phase|factor"
    r"|zone|part|group|category|axis|figure|table|bipolar|lead|nerve)s?[ ])$",
    re.IGNORECASE,
)
_ROMAN_FOLLOWS = re.compile(
    r"[ ]?/[ ]?(?:[IVX]{1,4}|\d)\b|[ ]?[&-][ ]?[IVX]{1,4}\b|(?:,|[ ](?:to|through|and))[ ][IVX]{1,4}\b"
)
_LETTERED_BEFORE = re.compile(
    r"\b(?:hepatitis|hep|vitamin|vit|influenza|immunoglobulin|troponin|protein|factor|type|group|grade|class|level|zone"
    r"|part|panel|figure|fig|table|cassette|block|slide|specimen)s?\.?[ ](?:\d?[A-Z](?:[ ,/&-]|and|or)+)*\d?$",
    re.IGNORECASE,
)
_LETTERED_FOLLOWS = re.compile(r"[ -](?:waves?|cells?|lymphocytes?)\b", re.IGNORECASE)
_INTERVALS = frozenset({"PR", "RR", "ST"})  # of the electrocardiogram
_INTERVAL_FOLLOWS = re.compile(
    r"[ -](?:interval|segment|depression|elevation|change|abnormalit)", re.IGNORECASE
)
_PREFIXES = frozenset("bi co de endo epi ex mid neo non pro re sub un".split())
_REST_FOLLOWS = re.compile(r"-[a-z]")
_SMALL_NUMBER_BEFORE = re.compile(r"(?<![\d.,])1?\d$")


class Written(NamedTuple):
    """What is written at `text[start:end]`; `stem` is it without the ending of a plural."""

    start: int
    end: int
    stem: str


class LookAlikes:
    """Tells, in one text, what looks like a short form and is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._in_capitals: bool | None = None  # the whole text; asked only when it matters

    def __call__(self, written: Written, *, may_be_unit: bool) -> bool:
        """Whether it is something else; what may be a unit is none of the numbers' units that are refused."""
        return (
            self._is_a_word(written)
            or self._is_a_name(written)
            or (not may_be_unit and self._is_a_unit(written))
            or self._is_a_numeral(written)
            or self._is_letters(written, may_be_unit=may_be_unit)
            or self._is_a_mark(written)
        )

    def _before(self, written: Written, n_characters: int = _MOST_LEADING) -> str:
        return self._text[max(0, written.start - n_characters) : written.start]

    def _is_a_word(self, written: Written) -> bool:
        if written.stem in _PREFIXES and _REST_FOLLOWS.match(self._text, written.end):  # "co-worker"
            return True
        if not written.stem.isupper():
            return False
        if written.stem == "NO" and _OPENS_CLAUSE.search(self._before(written)):  # "NO known allergies"
            return _WORD_FOLLOWS.match(self._text, written.end) is not None
        lower = written.stem.lower()
        return (
            is_english(lower)
            and self._is_shouted(written)
            and not (lower in CANNOT_FOLLOW_THE and _AFTER_ARTICLE.search(self._before(written)))
        )

    def _is_shouted(self, written: Written) -> bool:
        """Whether it stands among words in capitals, so that they set nothing apart."""
        if self._in_capitals is None:
            n_capitals, n_lower = (self._text.count(letter, 0, _SAMPLE) for letter in "Ee")
            self._in_capitals = n_capitals >= 6 and n_capitals > 4 * n_lower
        if self._in_capitals:
            return True
        before = _BOUNDARY.split(self._before(written, _REACH))[-1]
        after = _BOUNDARY.split(self._text[written.end : written.end + _REACH], maxsplit=1)[0]
        around = f"{before}|{after}"
        return len(_FULL_WORD.findall(around)) > 3 * len(_LOWER_CASE_WORD.findall(around))

    def _is_a_name(self, written: Written) -> bool:
        """ "Dr. ABC"; "Ms." before a surname; "Ph" of "Ph.D."."""
        _, end, stem = written
        if stem.lower() in TITLES:
            follows = _SURNAME_IN_CAPITALS_FOLLOWS if stem.isupper() else _SURNAME_FOLLOWS
            if follows.match(self._text, end):
                return True
        if stem == "Ph" and self._text.startswith(".D", end):
            return True
        return _AFTER_TITLE.search(self._before(written)) is not None

    def _is_a_unit(self, written: Written) -> bool:
        """ "24 hr", "8 p.m.", "02 OCT 2001"; in "RR 18 HR 82" it is none."""
        lower = written.stem.lower().replace(".", "")
        if lower in MONTHS and _DAY_OR_YEAR_FOLLOWS.match(self._text, written.end):
            return True
        if lower not in AFTER_NUMBERS or not _AFTER_NUMBER.search(self._before(written)):
            return False
        has_value = written.stem.isupper() and _VALUE_FOLLOWS.match(self._text, written.end)
        return lower in {"am", "pm"} or not has_value

    def _is_a_numeral(self, written: Written) -> bool:
        """ "stage IV", "type Ib", "III/IV", "IV. PLAN"."""
        _, end, stem = written
        if not _ROMAN.fullmatch(stem.upper()):
            return False
        before = self._before(written, _REACH)
        if self._text[end : end + 1] in (".", ")") and _LIST_MARK_BEFORE.search(before):
            return True
        if _ROMAN_BEFORE.search(before):
            return stem.isupper() or stem[-1] in "abc"
        return stem.isupper() and _ROMAN_FOLLOWS.match(self._text, end) is not None

    def _is_letters(self, written: Written, *, may_be_unit: bool) -> bool:
        """ "hepatitis B and C", "T wave", "ST depression", "cassettes 4A-4C"; in "38C" it is a unit."""
        if len(written.stem) > 1:
            return written.stem in _INTERVALS and bool(_INTERVAL_FOLLOWS.match(self._text, written.end))
        before = self._before(written, _REACH)
        return bool(
            _LETTERED_BEFORE.search(before)
            or _LETTERED_FOLLOWS.match(self._text, written.end)
            or (not may_be_unit and _SMALL_NUMBER_BEFORE.search(before))
        )

    def _is_a_mark(self, written: Written) -> bool:
        """ "A." and "b)" of a list or a name, "OR 97338", "diagnosis(es)"."""
        start, end, stem = written
        before, follows = self._text[max(0, start - 2) : start], self._text[end : end + 1]
        if len(stem) == 1:
            return (follows == "." and not before[-1:].isdigit()) or (follows == ")" and before[-1:] != "(")
        if len(stem) == 2 and stem.isupper() and _ZIP_CODE_FOLLOWS.match(self._text, end):
            return True
        return stem.islower() and before[-1:] == "(" and before[:1].isalpha()
