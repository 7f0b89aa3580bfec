"""What looks like a short form where it stands, and is something else.

English among words in capitals, an emphasised "NO" or "OR", a name after its title, a company, a number's unit, a
date's month, part of an electrocardiogram, a state before its zip code. Single letters and the labels of blocks are in
`lone_letters`, Roman numerals in `numerals`, and what a scanner misread in `scanned_text`.
Each rule looks at a bounded piece of the text, or once at the whole.
"""

import re
from functools import cached_property
from typing import NamedTuple

from lmcells.expansion.lone_letters import (
    VALUE_FOLLOWS,
    is_a_block_label,
    is_a_list_mark,
    is_part_of_a_name,
)
from lmcells.expansion.numerals import is_a_numeral
from lmcells.expansion.ordinary_words import (
    AFTER_NUMBERS,
    CANNOT_FOLLOW_THE,
    MONTHS,
    STATES,
    TITLES,
    is_english,
)
from lmcells.expansion.scanned_text import ScannedText

_REACH = 60  # characters on either side that tell whether a line is written in capitals
_SAMPLE = 4_000  # characters that tell whether a text is
_A_SENTENCE = 3  # words in capitals at least; "COPD, PAD. Now" is a list of short forms
_MOST_LEADING = 12  # characters before a short form that hold a number, an article or a title

_FULL_WORD = re.compile(r"\b(?=[A-Z]*[AEIOUY])[A-Z]{4,}\b")
_LOWER_CASE_WORD = re.compile(r"\b[A-Z]?[a-z]{2,}\b")
_BOUNDARY = re.compile(r"[\n\r\t:|]")
_SENTENCE_END = re.compile(_BOUNDARY.pattern + r"|[.;?!]\s")
_AFTER_ARTICLE = re.compile(r"\b(?:THE|AN?)\s+$")
_OPENS_CLAUSE = re.compile(r"(?:^|\n[ \t*-]*|[:;.(][ \t]*)$")
_ALTERNATIVE_FOLLOWS = re.compile(
    r"\s+(?:-\s*)?(?!(?:and|are|as|at|by|for|from|had|has|in|is|of|on|or|pending|per|to|via|vs|was|were|when|where|will"
    r"|with)\b)[A-Za-z≤≥]"
)
_CHOICE = re.compile(r"[≤≥<>]|\b(?:AND|EITHER|NOT)\b")
_MEASURE_BEFORE = re.compile(r"\d[\w%+/-]*(?:[ ][a-zA-Z]{1,6}(?:/[a-zA-Z]+)?)?\s+$")  # "0-1 OR", "2 mg/dL"
_ITEM_FOLLOWS = re.compile(r"\s*\n\s*-")
_NOUN_BEFORE = re.compile(
    r"(?:\b(?:a|adjusted|an|at|crude|each|for|from|her|his|in|into|of|our|per|pooled|the|their|then|this|to|via|with)\s+"
    r"|[(\[:=])\s*$",
    re.IGNORECASE,
)
_WORD_FOLLOWS = re.compile(r"[ \t]+[A-Za-z]{3}")
_SUBJECT_BEFORE = re.compile(r"\b(?:there|it|which|he|she)[ ]$", re.IGNORECASE)
_AFTER_TITLE = re.compile(r"\b(?:(?:Dr|Mr|Mrs|Ms|Miss|Prof)\.?|(?:DR|MR|MRS|MS)\.)\s+$")
_SURNAME_FOLLOWS = re.compile(r"\.?\s+[A-Z]")
_SURNAME_IN_CAPITALS_FOLLOWS = re.compile(r"\.\s+[A-Z]{3,}\b")
_DEGREES = frozenset({"MD", "DO", "PHD", "RN"})
_DEGREE_FOLLOWS = re.compile(r"\.?,[ ](?:M\.?D|D\.?O|Ph\.?D|R\.?N)\b|\.?[ ](?:M\.D|D\.O|Ph\.D)\b")
_NAME_MASK = re.compile(r"\bXYZ\b")
_CITY_FOLLOWS = re.compile(r",[ ][A-Z][^\W\d_]{2}")
_COMPANY_BEFORE = re.compile(r"[A-Z][a-z]+,?[ ]$")
_AFTER_NUMBER = re.compile(r"\d[ \t-]?$")
_DAY_OR_YEAR_FOLLOWS = re.compile(r"[ .,-]{1,2}\d")
_YEAR_FOLLOWS = re.compile(r"[/,. -]{1,2}yy", re.IGNORECASE)
_TIMES_BEFORE = re.compile(r"\d[ ]?[xX×][ ]?$")
_TIMES_FOLLOWS = re.compile(r"[ ]?[xX×][ ]?\d")
_IDENTIFIER_FOLLOWS = re.compile(r"_\d*[A-Za-z]|_\d{5}")
_ZIP_CODE_FOLLOWS = re.compile(r"\.?,?[ ]\d{5}\b")
_OF_ELECTROCARDIOGRAM = {
    "PR": re.compile(r"[ -](?:intervals?|segments?|depressions?|prolongation)\b", re.IGNORECASE),
    "RR": re.compile(r"[ -]intervals?\b", re.IGNORECASE),
    "ST": re.compile(
        r"[/-]T\b|[ -](?:segments?|depressions?|elevations?|changes?|abnormalit(?:y|ies))\b", re.IGNORECASE
    ),
}
_PREFIXES = frozenset("bi co de ex mid neo non pro re sub un".split())
_REST_FOLLOWS = re.compile(r"-(?!ox)[a-z]")  # "co-oximetry" is of carbon monoxide
_OPENING_BEFORE = re.compile(
    r"(?:\b(?:cervical|external|internal|parous|patent|per|the)|\d\s?cm)\s+$", re.IGNORECASE
)
_NODE_FOLLOWS = re.compile(r"\s+NODES?\b")
_DUCT_FOLLOWS = re.compile(r"\s+deferens\b", re.IGNORECASE)
_SCALE_FOLLOWS = re.compile(VALUE_FOLLOWS.pattern + r"|[ ](?:pain|scale|score)", re.IGNORECASE)


class Written(NamedTuple):
    """What is written at `text[start:end]`; `stem` is it without the ending of a plural."""

    start: int
    end: int
    stem: str


class LookAlikes:
    """Tells, in one text, what looks like a short form and is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._scanned = ScannedText(text)

    def __call__(self, written: Written, *, may_be_unit: bool) -> bool:
        """Whether it is something else; what may be a unit is none of the numbers' units that are refused."""
        return (
            self._is_a_word(written)
            or self._is_a_name(written)
            or (not may_be_unit and self._is_a_unit(written))
            or is_a_numeral(self._text, written.start, written.start + len(written.stem))
            or self._is_letters(written, may_be_unit=may_be_unit)
            or self._is_a_mark(written)
            or self._scanned.is_misread(written.start, written.end)
        )

    def _before(self, written: Written, n_characters: int = _MOST_LEADING) -> str:
        return self._text[max(0, written.start - n_characters) : written.start]

    def _is_a_word(self, written: Written) -> bool:
        if written.stem in _PREFIXES and _REST_FOLLOWS.match(self._text, written.end):  # "co-worker"
            return True
        if self._is_latin(written) or (
            written.stem == "LYMPH" and _NODE_FOLLOWS.match(self._text, written.end)
        ):
            return True
        if not written.stem.isupper():
            return False
        if written.stem == "NO" and _OPENS_CLAUSE.search(self._before(written)):  # "NO known allergies"
            return _WORD_FOLLOWS.match(self._text, written.end) is not None
        is_verb = written.stem == "IS" and _SUBJECT_BEFORE.search(self._before(written))  # "There IS also"
        if is_verb or (written.stem == "OR" and self._is_a_choice(written)):
            return True
        lower = written.stem.lower()
        return (
            is_english(lower)
            and self._is_shouted(written)
            and not (lower in CANNOT_FOLLOW_THE and _AFTER_ARTICLE.search(self._before(written)))
        )

    def _is_a_choice(self, written: Written) -> bool:
        """ "ULN OR bilirubin < 2", "5 mg OR none", "AND/OR", an item of a list; not "taken to OR", "the ORs < 1"."""
        start, end, stem = written
        if end - start > len(stem) or not _ALTERNATIVE_FOLLOWS.match(self._text, end):
            return False
        if _NOUN_BEFORE.search(self._before(written)):
            return False
        before, after = self._around(written, _SENTENCE_END)
        return bool(
            _CHOICE.search(f"{before}|{after}")
            or _MEASURE_BEFORE.search(before)
            or _ITEM_FOLLOWS.match(self._text, end)
        )

    def _is_latin(self, written: Written) -> bool:
        """ "the cervical os", "the left vas", "VAS DEFERENS"; in "os 20/40" and "vas 5/10" it is none."""
        if written.stem == "os":
            return _OPENING_BEFORE.search(self._before(written)) is not None
        if written.stem.lower() != "vas":
            return False
        is_scale = not written.stem.islower() or _SCALE_FOLLOWS.match(self._text, written.end)
        return bool(_DUCT_FOLLOWS.match(self._text, written.end) or not is_scale)

    def _is_shouted(self, written: Written) -> bool:
        """Whether it stands among words in capitals, so that they set nothing apart."""
        if self._is_in_capitals:
            return True
        n_full, n_lower = self._words_around(written, _BOUNDARY)
        if n_full > 3 * n_lower:
            return True
        n_full, n_lower = self._words_around(written, _SENTENCE_END)
        return n_lower == 0 and n_full >= _A_SENTENCE

    @cached_property
    def _is_in_capitals(self) -> bool:
        """Whether the whole text is."""
        n_capitals, n_lower = (self._text.count(letter, 0, _SAMPLE) for letter in "Ee")
        return n_capitals >= 6 and n_capitals > 4 * n_lower

    def _words_around(self, written: Written, boundary: re.Pattern[str]) -> tuple[int, int]:
        """How many words in capitals and how many others stand around it, up to a boundary on either side."""
        around = "|".join(self._around(written, boundary))
        return len(_FULL_WORD.findall(around)), len(_LOWER_CASE_WORD.findall(around))

    def _around(self, written: Written, boundary: re.Pattern[str]) -> tuple[str, str]:
        """What stands before and after it, up to a boundary on either side."""
        before = boundary.split(self._before(written, _REACH))[-1]
        after = boundary.split(self._text[written.end : written.end + _REACH], maxsplit=1)[0]
        return before, after

    def _is_a_name(self, written: Written) -> bool:
        """ "Dr. ABC"; "Ms." before a surname; "Ph" of "Ph.D."; "M.R., M.D."; "Accuray, Inc."; a mask for names."""
        start, end, stem = written
        if self._text[start:end] == "ABC" and self._masks_names:
            return True
        is_dotted = "." in stem and stem.isupper() and stem.replace(".", "") not in _DEGREES
        if is_dotted and _DEGREE_FOLLOWS.match(self._text, end):  # initials
            return True
        if stem.lower() in TITLES:
            follows = _SURNAME_IN_CAPITALS_FOLLOWS if stem.isupper() else _SURNAME_FOLLOWS
            if follows.match(self._text, end):
                return True
        if stem == "Ph" and self._text.startswith(".D", end):
            return True
        if stem in ("Inc", "AG") and self._ends_a_company(written):
            return True
        return _AFTER_TITLE.search(self._before(written)) is not None

    @cached_property
    def _masks_names(self) -> bool:
        """Whether the text has letters in the place of names."""
        return _NAME_MASK.search(self._text) is not None

    def _ends_a_company(self, written: Written) -> bool:
        before = self._before(written, _REACH)
        if written.stem == "AG" and not ("(" in before and _CITY_FOLLOWS.match(self._text, written.end)):
            return False
        return _COMPANY_BEFORE.search(before) is not None

    def _is_a_unit(self, written: Written) -> bool:
        """ "24 hr", "8 p.m.", "02 OCT 2001"; in "RR 18 HR 82" it is none."""
        lower = written.stem.lower().replace(".", "")
        if lower in MONTHS and _DAY_OR_YEAR_FOLLOWS.match(self._text, written.end):
            return True
        if lower not in AFTER_NUMBERS or not _AFTER_NUMBER.search(self._before(written)):
            return False
        has_value = written.stem.isupper() and VALUE_FOLLOWS.match(self._text, written.end)
        return lower in {"am", "pm"} or not has_value

    def _is_letters(self, written: Written, *, may_be_unit: bool) -> bool:
        """ "PR interval", "ST depression", "4AS", and letters that are part of a name or the mark of a list."""
        start, end, stem = written
        if len(stem) == 1:
            return is_a_list_mark(self._text, start, end) or is_part_of_a_name(
                self._text, start, end, may_be_unit=may_be_unit
            )
        if len(stem) == 2 and is_a_block_label(self._text, start, end):
            return True
        part = _OF_ELECTROCARDIOGRAM.get(stem)
        return part is not None and part.match(self._text, end) is not None

    def _is_a_mark(self, written: Written) -> bool:
        """ "OR 97338", "diagnosis(es)", "NM_000458", "mm/dd/yy", "Month DD, YYYY", "2 x O.B x 0.5"."""
        start, end, stem = written
        if stem in STATES and _ZIP_CODE_FOLLOWS.match(self._text, end):
            return True
        if _IDENTIFIER_FOLLOWS.match(self._text, end):
            return True
        if stem.lower() == "dd" and _YEAR_FOLLOWS.match(self._text, end):
            return True
        is_between = _TIMES_FOLLOWS.match(self._text, end) and _TIMES_BEFORE.search(self._before(written))
        if is_between and "." in stem:
            return True
        before = self._text[max(0, start - 2) : start]
        return stem.islower() and before[-1:] == "(" and before[:1].isalpha()
