"""Rules that recognise look-alikes: text that looks like a short form but is something else.

Function words in all-caps text, names after titles, companies, units after numbers, months in dates, parts of an
electrocardiogram, states before zip codes; Roman numerals and stages; single letters in names and lists; parts of
words, and fragments from scanned text. Each rule looks at a bounded window, or once at the whole text. Other words in
capitals are judged by the model: `OrdinaryReadings` in `lmcells.expansion.calibration`.
"""

import re
from collections.abc import Callable, Container
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from lmcells.expansion.ordinary_words import (
    AFTER_NUMBERS,
    CANNOT_FOLLOW_THE,
    MONTHS,
    PIECE_BEFORE,
    STATES,
    TITLES,
    is_known_word,
    is_part_of_word,
    prose_words,
)
from lmcells.notes.tokens import STOP_WORDS

# Windows, in characters.
_REACH = 60  # on either side, for most rules
_MOST_LEADING = 12  # before a short form, for a number, an article or a title
_LABELS_REACH = 4_000  # before a letter, for the earlier labels of its list
_NEARBY = 1_500  # on either side, for the labels next to one
_SAMPLE = 4_000  # to decide whether a text is in all caps or in lower case
SIDES = frozenset("rl")  # the only letters that are found in lower case: "l hip"
_A_SENTENCE = 3  # words in capitals, at least: "COPD, PAD. Now" is a list of short forms

# Roman numerals: "stage IV", "type Ib", "III/IV", "IV. PLAN"; and the stage Ta of a tumor.
_LIST_MARK_BEFORE = re.compile(r"(?:^|\n)[ \t(]*$")
_ROMAN = re.compile(r"[IVX]{1,4}")
_ROMAN_BEFORE = re.compile(
    r"(?:\bDSM[ -]?"
    r"|\bstages?[ ](?:[IVX]{1,4}[A-C]?,[ ]){0,3}[IVX]{1,4}[A-C]?(?:[ ]?[/-][ ]?|,?[ ](?:to|and|or|through)[ ])"
    r"|\b[IVX]{1,4}(?:[/,&-]|[ ](?:to|and|of|or|through|-|/))[ ]?"
    r"|\b(?:stage|grade|class|type|level|phase|factor|zone|part|group|category|axis|figure|table|bipolar|lead|nerve)"
    r"s?[ ])$",
    re.IGNORECASE,
)
_ROMAN_FOLLOWS = re.compile(
    r"[ ]?/[ ]?(?:[IVX]{1,4}|\d)\b|[ ]?[&-][ ]?[IVX]{1,4}\b|(?:,|[ ](?:to|through|and))[ ][IVX]{1,4}\b(?![ ]?\d)"
)
_STAGE = re.compile(r"[IVX]{1,4}[A-Ca-c]")
_STAGED_BEFORE = re.compile(r"\b(?:stage|grade|type|class|category)s?[ ]$", re.IGNORECASE)
_TUMOR_BEFORE = re.compile(r"\b(?:tumou?r|stage|category)s?[ ]$", re.IGNORECASE)
_TUMOR_STAGE_FOLLOWS = re.compile(r"[,/ ]+(?:(?:or|and)[ ])?(?:T1|Tis|CIS)\b")


# Scanned text: fragments of words among stray marks, and digits misread as letters.
_MOST_MARKS = 1  # a single one may be intended
_LONGEST_FRAGMENT = 3
_MARKS = "►◄■¢«»{}€£~•\\^!`_|"  # text without any was not scanned
_STRAY_MARK = re.compile(
    r"[►◄■¢«»{}]|[€£](?!\d)"
    r"|[A-Za-z](?:[~•](?!\d)|\\(?![nrt])|\^(?!-?\d))"  # "hr~80", "mm^3" and an escaped line break are intended
    r"|(?<=\S)(?:[~•^]|\\(?![nrt]))[a-z]"
    r"|[A-Za-z]![a-z]"
    r"|[A-Za-z](?!\.+[A-Za-z]|[,:]?\"[,:]?\"?[A-Za-z])[.,;:'\"!]{2,}[A-Za-z]"
)
_ODD_MARK = re.compile(
    _STRAY_MARK.pattern
    + r"|\s[.,;:']\w|(?<=[a-z])\.[a-z]{2}|[;:'][-.,;:'`]+|[.,][;:'`-]+|\w_\w|(?<=[A-Za-z])[`~^]|[`~^](?=[A-Za-z])"
)
_WHOLE_WORD = re.compile(r"(?<=[^A-Za-z])[A-Za-z]{3,}(?=[^A-Za-z])")
_SCANNED = 2.0  # odd marks in 1,000 characters; typed text has fewer
_SCAN_SAMPLE = 2_000
_UNREADABLE = 6  # odd marks and unknown words around a fragment, at least two of each
_UNREADABLE_LONG = 11  # around a longer one, which is seldom misread from something else
_UNKNOWN_AFTER = re.compile(r"[ ]([a-z]+)(?![\w/&'’])")
_TOUCHED_BEFORE = re.compile(r"(?:[A-Za-z][\^~!*]|\S[~\\])$")
_TOUCHED_AFTER = re.compile(r"[~\\](?!\d|[nrt])|\^(?!-?\d)|[*!][a-z]")
_SPLIT_BY_MARK_AFTER = re.compile(r"[~^][A-Za-z]")  # "DIAG~USIS"
_STAIN_BEFORE = re.compile(r"\bH\s?&\s?E\s$")


# Single letters: parts of names, bases of a gene, list labels. Two letters may also be a label.
VALUE_FOLLOWS = re.compile(r"[ ]?[:=<>≤≥]|[ ]\d")
QUANTITY_FOLLOWS = re.compile(r"[ \t]?[:=<>≤≥~#-]{0,2}[ \t]?[<>]?\d+(?P<decimals>\.\d)?")
QUANTITY_BEFORE = re.compile(r"(?<![\w/.,-])\d{1,4}(?:[.,]\d+)?[ \t-]?\Z")
_LABELLED = r"\b(?:(?:hepatitis|vitamin|cassette|block|slide|specimen|part|figure)s?|(?:hep|vit|fig)\.?)[ ]"
_LABEL_BEFORE = re.compile(_LABELLED + r"\d?$", re.IGNORECASE)
_LABELS_BEFORE = re.compile(_LABELLED + r"(?:\d?[A-Z](?:[ ,/&-]|and|or)+)+\d?$", re.IGNORECASE)
_KIND_BEFORE = re.compile(
    r"\b(?:category|class|container|factor|grade|group|immunoglobulin|influenza|level|mitomycin|panel|protein|pugh|stage"
    r"|table|tooth|teeth|troponin|type|zone)s?[ ](?:(?:[A-Z],?[ ]){1,4}(?:and|or)[ ]|[A-Z]/)?$",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(
    r"\b(?!(?:anti|gender|high|low|mid|non|post|pre|sex|status)-)[A-Z]{3,}-$", re.IGNORECASE
)  # "mitomycin-C", "IBS-M"
_RANGE_BEFORE = re.compile(r"\b\d{1,2}[A-Z]-$")  # "1A-C"
_BEFORE_A_LETTER = (_LABELS_BEFORE, _KIND_BEFORE, _NAME_BEFORE, _RANGE_BEFORE)
_NAMED_FOLLOWS = re.compile(
    r"[\"”]?[ -](?:(?:and|or)[ ][A-Z][ -])?(?:axis|cells?|inversions?|lymphocytes?|waves?)\b|[ ]?-?[ ]?reactive\b",
    re.IGNORECASE,
)
_AFTER_ST = re.compile(r"\bST[/-]$")
_PER_BEFORE = re.compile(r"(?:[a-zA-Z]|\d[ ]?)(?<![Rr])/$")  # "mEq/L", "10^9/L"; not "R/L"
_VOLUME_BEFORE = re.compile(
    r"(?:\+|\b(?:EBL|LOS|UF|diuresed|goal|neg(?:ative)?|pos(?:itive)?)[ ])\d{1,2}(?:\.\d{1,2})?[ ]?$",
    re.IGNORECASE,
)
_BASE_BEFORE = re.compile(r"\d\s?[ACGT]\s?>\s?$")
_BASE_FOLLOWS = re.compile(r"\s?>\s?[ACGT]\b")
_ISOTOPE = re.compile(r"(?<!\d)18$")
_NUMBER_BEFORE = re.compile(r"(?<![\d.,])\d{1,2}$")
_SMALL_NUMBER_BEFORE = re.compile(r"(?<![\d.,])1?\d$")
_CODE_BEFORE = re.compile(r"\d{4}$")  # "1276K"
_LOT_BEFORE = re.compile(r"(?:\b(?:lot|batch|serial)\b\W{0,3}|#\s?)[\dA-Z]{0,6}\d{3}$|\d{5}$", re.IGNORECASE)
_NUMBER_FOLLOWS = re.compile(r"\s*[\d<>≤≥=]")
_BLOCK = re.compile(r"(?<!\w)(\d{1,2})([A-Z])([A-Z])\b")
_BLOCKS_BEFORE = re.compile(r"(?:\bcassettes?|\bin[ ](?:blocks|slides?)|\(slides?)[ ]$", re.IGNORECASE)
_LINE_BEFORE = re.compile(r"(?:^|\n)[ \t]*\($")
_ITEM_FOLLOWS = re.compile(r"\)[ ]+[A-Z]")
_SEXES = "MF"  # "17M" is a boy
_SEXES_AND_SIDES = "MFLR"


# Words, names, units and marks.
_FULL_WORD = re.compile(r"\b(?=[A-Z]*[AEIOUY])[A-Z]{4,}\b")
_FULL_WORD_BEFORE = re.compile(_FULL_WORD.pattern + r"[ ]$")
_FULL_WORD_FOLLOWS = re.compile(r"[ ]" + _FULL_WORD.pattern)
_LOWER_CASE_WORD = re.compile(r"\b[A-Z]?[a-z]{2,}\b")
_BOUNDARY = re.compile(r"[\n\r\t:|]")
_SENTENCE_END = re.compile(_BOUNDARY.pattern + r"|[.;?!]\s")
_AFTER_ARTICLE = re.compile(r"\b(?:the|an?)\s+$", re.IGNORECASE)
_NO_WORD_IF_FOLLOWED = {
    "US": re.compile(r"[\s-]guid", re.IGNORECASE),
    "WHO": re.compile(r"\s(?:GRADE|CLASS|CRITERIA|HISTOLOG|TYPE)"),
}
_AFTER_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Miss|Prof)\.?\s+$")
_AFTER_TITLE_IN_CAPITALS = re.compile(r"\b(?:DR|MR|MRS|MS)\.[ \t]+$")  # at the end of a line it is a disease
_TITLE_ENDS = (".", "Dr", "Mr", "Mrs", "Ms", "Miss", "Prof")
_SURNAME_FOLLOWS = re.compile(r"\.?\s+[A-Z]")
# Not another short form or a header: "MS. HTN", "MS. PLAN: rest".
_SURNAME_IN_CAPITALS_FOLLOWS = re.compile(r"\.[ \t]+(?=[A-Z]*[AEIOUY])[A-Z]{3,}\b(?![A-Z ]*:)")
_AFTER_NUMBER = re.compile(r"\d[ \t-]?\Z")
_PLURAL_BEFORE = re.compile(r"SIS[ ]?\($")
_DUCT_FOLLOWS = re.compile(r"\s+deferens\b", re.IGNORECASE)
_SCALE_FOLLOWS = re.compile(VALUE_FOLLOWS.pattern + r"|[ ](?:pain|scale|score)", re.IGNORECASE)
_DEGREES = frozenset({"MD", "DO", "PHD", "RN"})
_DEGREE_FOLLOWS = re.compile(r"\.?,[ ](?:M\.?D|D\.?O|Ph\.?D|R\.?N)\b|\.?[ ](?:M\.D|D\.O|Ph\.D)\b")
_SURNAME_AND_DEGREE_FOLLOW = re.compile(r"[ ][A-Z][a-z]+,[ ](?:M\.?D|D\.?O|R\.?N|N\.?P|P\.?A|Ph\.?D)\b")
_OF_A_PERSON_FOLLOWS = re.compile(
    r"\.?[ ](?:agrees|complains|denies|presents|presented|is[ ]an?[ ](?:\d+[ -]?y|\w+-year))"
)
_NAME_MASK = re.compile(r"\bXYZ\b")
_CITY_FOLLOWS = re.compile(r",[ ][A-Z][^\W\d_]{2}")
_COMPANY_BEFORE = re.compile(r"[A-Z][a-z]+,?[ ]$")
_IN_SENTENCE_BEFORE = re.compile(r"[a-z\d,][ ]$")
_BRAND_FOLLOWS = re.compile(r"-[A-Z][a-z]+\b")
_BRAND_BEFORE = re.compile(r"[a-z,][ ][A-Z][a-z]{4,}-$|\b[A-Z][a-z]+-[A-Z]-$")
_SLEEP_AID_BEFORE = re.compile(
    r"\b(?:Advil|Aleve|Bayer|Benadryl|Excedrin|Motrin|Refresh|Ny[Qq]uil|Tylenol|Unisom)[ ]$"
)
_MORPHINE_FOLLOWS = re.compile(r"\sContin\b", re.IGNORECASE)
_DATE_FOLLOWS = re.compile(r":\s*(?:\[\*\*|\d{1,2}/\d{1,2}/)")
_REMOVED_DATE_FOLLOWS = re.compile(r":\s*\[\*\*\d")
_OF_STOOL_FOLLOWS = re.compile(r"[ ]?[+-](?!\w)|[ -](?:neg|pos|occult|test)", re.IGNORECASE)
_STRAIN_FOLLOWS = re.compile(r"\s27/3\b")
_LETTERS_BEFORE, _LETTERS_FOLLOW = (
    re.compile(r"(?<!\S)(?:(?![NVDFC] )[A-Z] ){1,4}$"),  # "denies N V D" are three
    re.compile(r"(?: (?![NVDFC]\b)[A-Z]){1,4}(?![\w/])"),
)
_YEAR_FOLLOWS = re.compile(r"[/,. -]{1,2}(?:(?:dd|mm)[/,. -]{1,2})?yy", re.IGNORECASE)
_TIMES_BEFORE = re.compile(r"\d[ ]?[xX×][ ]?$")
_TIMES_FOLLOWS = re.compile(r"[ ]?[xX×][ ]?\d")
_IDENTIFIER_FOLLOWS = re.compile(r"_\d*[A-Za-z]|_\d{5}|-[A-Z\d]+-\d{4}")
_IDENTIFIER_BEFORE = re.compile(r"[A-Z\d]-$")
_IDENTIFIER_ENDS = re.compile(r"-\d{4}")
_ZIP_CODE_FOLLOWS = re.compile(r"\.?,?[ ]\d{5}\b")
_CITY_BEFORE = re.compile(
    r"\b(?:[Ff]rom|[Ii]n|[Nn]ear|of|[Oo]utside|to)"
    r"(?:[ ](?!\w*(?:ics|linic|logy|nit|ospital|try|ard)\b)[A-Z][a-z]+){1,3},[ ]$"
)
_STATE_ENDS = re.compile(r"[.,;)]|\s*$|[ ](?:and|by|for|on|since|to|where|who|with)\b")
_DAY_OR_YEAR_FOLLOWS = re.compile(r"[ .,-]{1,2}\d")
_PREFIXES = frozenset("neuro bi co de endo ex mid mis neo non pre pro re sub un".split())
_REST_FOLLOWS = re.compile(
    r"-(?!ox)(?:[a-zB]|[A-Z][a-z])"
)  # "co-worker", "pro-BNP"; "co-oximetry" is of carbon monoxide
_REST_IN_CAPITALS_FOLLOWS = re.compile(r"-(?!OX)[A-Z]{4}")  # "RE-LIGHT"
_VERB_BEFORE = re.compile(
    r"\b(?:(?<!due )(?<!secondary )to|not|can|could|did|do|does|may|might|must|shall|should|will|would)\s+$"
)
_NOUN_ENDINGS = ("ion", "ation")
_WEB_ENDINGS = frozenset("ac co com edu gov ie md net org uk".split())
_WEB_NAME_BEFORE = re.compile(r"\w\.$")
_OPENING_BEFORE = re.compile(
    r"(?:\b(?:cervical|external|internal|parous|patent|per|the)|\d\s?cm)\s+$", re.IGNORECASE
)
_OF_ELECTROCARDIOGRAM = {
    "PR": re.compile(r"[ -](?:intervals?|segments?|depressions?|prolongation)\b", re.IGNORECASE),
    "RR": re.compile(r"[ -]intervals?\b", re.IGNORECASE),
    "ST": re.compile(
        r"[/-]T\b|[ -](?:segments?|depressions?|elevations?|changes?|abnormalit(?:y|ies))\b", re.IGNORECASE
    ),
}


class Written(NamedTuple):
    """What is written at `text[start:end]`, and its `stem`, without a plural ending."""

    start: int
    end: int
    stem: str
    may_be_unit: bool = False  # after a number, it may be the short form


class LookAlikes:
    """Recognises look-alikes of short forms in one text; `short_forms` are the known ones."""

    def __init__(self, text: str, short_forms: Container[str] = ()) -> None:
        self._text = text
        self._short_forms = short_forms

    def __call__(self, written: Written) -> bool:
        """Whether it is a look-alike."""
        for is_other in _rules_of(written.stem):  # noqa: SIM110 - `any` takes half as long again
            if is_other(self, written):
                return True
        return False

    def _before(self, written: Written, n_characters: int = _MOST_LEADING) -> str:
        return self._text[max(0, written.start - n_characters) : written.start]

    def _is_latin(self, written: Written) -> bool:
        """ "the cervical os", "per se", "the left vas", "VAS DEFERENS"; not "os 20/40" and "vas 5/10"."""
        if written.stem == "os":
            return _OPENING_BEFORE.search(self._before(written)) is not None
        if written.stem == "se":
            return self._before(written).endswith("per ")
        is_scale = not written.stem.islower() or _SCALE_FOLLOWS.match(self._text, written.end)
        return bool(_DUCT_FOLLOWS.match(self._text, written.end) or not is_scale)

    def _is_function_word(self, written: Written) -> bool:
        """ "OR" in all-caps text."""
        return not self.is_no_word(written) and self.is_shouted(written)

    def is_no_word(self, written: Written) -> bool:
        """ "THE OR" and "the US", since the word cannot follow an article; "WHO GRADE II", "US guidance"."""
        follows = _NO_WORD_IF_FOLLOWED.get(written.stem)
        if follows is not None and follows.match(self._text, written.end):
            return True
        can_follow = written.stem.lower() in CANNOT_FOLLOW_THE
        return can_follow and _AFTER_ARTICLE.search(self._before(written)) is not None

    def is_shouted(self, written: Written) -> bool:
        """Whether the words around it are in capitals, so that capitals carry no information."""
        if self._is_in_capitals:
            return True
        n_full, n_lower = self._words_around(written, _BOUNDARY)
        if n_full > 3 * n_lower:
            return True
        n_full, n_lower = self._words_around(written, _SENTENCE_END)
        if n_lower == 0 and n_full >= _A_SENTENCE:
            return True
        before, after = self._before(written, _REACH), self._text[written.end : written.end + _REACH]
        return bool(_FULL_WORD_BEFORE.search(before) and _FULL_WORD_FOLLOWS.match(after))

    @cached_property
    def _is_in_capitals(self) -> bool:
        """Whether the whole text is in all caps."""
        n_capitals, n_lower = (self._text.count(letter, 0, _SAMPLE) for letter in "Ee")
        return n_capitals >= 6 and n_capitals > 4 * n_lower

    def _has_capitals(self, _: Written) -> bool:
        """ "a red l" in a text with capitals is misspelt or misread; "l hip" in one without is left."""
        return not self._is_in_lower_case

    @cached_property
    def _is_in_lower_case(self) -> bool:
        """Whether the whole text is in lower case, but for a name or two."""
        sample = self._text[:_SAMPLE]
        return sum(map(str.islower, sample)) > 50 * sum(map(str.isupper, sample))

    def _words_around(self, written: Written, boundary: re.Pattern[str]) -> tuple[int, int]:
        """Count the words in capitals and in lower case around it, up to a boundary on either side."""
        before = boundary.split(self._before(written, _REACH))[-1]
        after = boundary.split(self._text[written.end : written.end + _REACH], maxsplit=1)[0]
        around = f"{before}|{after}"
        return len(_FULL_WORD.findall(around)), len(_LOWER_CASE_WORD.findall(around))

    def _is_name(self, written: Written) -> bool:
        """ "Dr. ABC"; "Engerix-PT"."""
        before = self._before(written)
        if before.endswith("-") and _BRAND_BEFORE.search(self._before(written, _REACH)):
            return True
        if not before.rstrip().endswith(_TITLE_ENDS):
            return False
        in_capitals = _AFTER_TITLE_IN_CAPITALS.search(before) is not None and self.is_shouted(written)
        return in_capitals or _AFTER_TITLE.search(before) is not None

    def _masks_name(self, written: Written) -> bool:
        """ "ABC" for a removed name."""
        return self._text[written.start : written.end] == "ABC" and self._masks_names

    @cached_property
    def _masks_names(self) -> bool:
        """Whether letters such as XYZ replace the names in the text."""
        return _NAME_MASK.search(self._text) is not None

    def _ends_a_company(self, written: Written) -> bool:
        """ "Accuray, Inc."."""
        before = self._before(written, _REACH)
        if written.stem == "AG" and not ("(" in before and _CITY_FOLLOWS.match(self._text, written.end)):
            return False
        return _COMPANY_BEFORE.search(before) is not None

    def _is_unit(self, written: Written) -> bool:
        """ "24 hr", "8 p.m.", "02 OCT 2001"; not "RR 18 HR 82"."""
        if written.may_be_unit:
            return False
        lower = written.stem.lower().replace(".", "")
        if lower in MONTHS and _DAY_OR_YEAR_FOLLOWS.match(self._text, written.end):
            return True
        if lower not in AFTER_NUMBERS or not _AFTER_NUMBER.search(self._before(written)):
            return False
        has_value = written.stem.isupper() and VALUE_FOLLOWS.match(self._text, written.end)
        return lower in {"am", "pm"} or not has_value

    def _is_stage(self, written: Written) -> bool:
        """ "type Ib"; the stage Ta of a tumor."""
        before = self._before(written, _REACH)
        if written.stem != "Ta":
            return _STAGED_BEFORE.search(before) is not None
        follows = _TUMOR_STAGE_FOLLOWS.match(self._text, written.start + 2)
        return bool(_TUMOR_BEFORE.search(before) or follows)

    def _is_numeral(self, written: Written) -> bool:
        """ "stage IV", "III/IV", "IV. PLAN"."""
        text, stem, before = self._text, written.stem, self._before(written, _REACH)
        end = written.start + len(stem)
        if text[end : end + 1] in (".", ")") and _LIST_MARK_BEFORE.search(before):
            return True
        if stem == "IV" and (before.endswith("IV, ") or text.startswith(", IV ", end)):
            return False  # "4 mg IV, IV fluids"
        return stem.isupper() and bool(_ROMAN_BEFORE.search(before) or _ROMAN_FOLLOWS.match(text, end))

    def _is_in_name(self, written: Written) -> bool:
        """ "hepatitis B and C", "T wave", "mitomycin-C", "517C>T", "[18F]FDG", "cassettes 4A-4C", "neg 1.2L"."""
        text, end = self._text, written.end
        before = self._before(written, _REACH)
        letter = text[written.start : end]
        has_value = VALUE_FOLLOWS.match(text, end) is not None  # "hepatitis C, T 98.6"
        may_be_counted = not written.may_be_unit and letter not in _SEXES
        return bool(
            _LABEL_BEFORE.search(before)
            or _AFTER_ST.search(before)
            or (letter == "L" and (_PER_BEFORE.search(before) or _VOLUME_BEFORE.search(before)))
            or _BASE_BEFORE.search(before)
            or _BASE_FOLLOWS.match(text, end)
            or _NAMED_FOLLOWS.match(text, end)
            or (letter == "F" and text[end : end + 1] in ("]", "-") and _ISOTOPE.search(before))
            or (not has_value and any(each.search(before) for each in _BEFORE_A_LETTER))
            or (may_be_counted and _SMALL_NUMBER_BEFORE.search(before))
        )

    def _is_spaced_out(self, written: Written) -> bool:
        """ "L M P: 10/16" is one short form of three letters."""
        before = _LETTERS_BEFORE.search(self._before(written))
        after = _LETTERS_FOLLOW.match(self._text, written.end)
        return sum(len(each[0]) for each in (before, after) if each) > 3

    def _ends_a_code(self, written: Written) -> bool:
        """ "1276K", "Lot 0262AA"; not "1200cc"."""
        before = _CODE_BEFORE if len(written.stem) == 1 else _LOT_BEFORE
        return not written.may_be_unit and before.search(self._before(written)) is not None

    def _is_list_label(self, written: Written) -> bool:
        """ "A." and "b)" of lists and names; "C:" among "A:", "B1:" and "D:", "(C)" of an item, "15F" after "15E"."""
        text, start, end = self._text, written.start, written.end
        letter, previous, follows = text[start:end], text[max(0, start - 1) : start], text[end : end + 1]
        if (follows == "." and not previous.isdigit()) or (follows == ")" and previous != "("):
            return True
        number = _NUMBER_BEFORE.search(text, max(0, start - 3), start)
        if number is not None:
            return _stand_in_order(text, start, [f"{number[0]}{_moved(letter, -1)}"])
        if follows == ")" and self._begins_item(written):
            return True
        if follows == ")" or (follows == ":" and not VALUE_FOLLOWS.match(text, end + 1)):
            opening = "(" if follows == ")" else ""
            letters = [each for each in (_moved(letter, -2), _moved(letter, -1)) if each.isalpha()]
            return _stand_in_order(text, start, [f"{opening}{each}{follows}" for each in letters]) or (
                follows == ":" and self._stands_among_labels(written)
            )
        return False

    def _begins_item(self, written: Written) -> bool:
        """ "(C) LEFT NECK" at the start of a line; not "(L) knee", "(M) 17 yo" and "(T) 98.6"."""
        letter = self._text[written.start : written.end]
        is_item = letter not in _SEXES_AND_SIDES and _ITEM_FOLLOWS.match(self._text, written.end)
        return bool(is_item and _LINE_BEFORE.search(self._before(written, _REACH)))

    def _stands_among_labels(self, written: Written) -> bool:
        """Whether the next letter is a label, and so is one of the two before or the one after next."""
        text, end = self._text, written.end
        if _NUMBER_FOLLOWS.match(text, end + 1):
            return False
        before, after = self._before(written, _NEARBY), text[end : end + _NEARBY]

        def has_label(where: str, n: int) -> bool:
            letter = _moved(text[written.start], n)
            return letter.isalpha() and _block_label(letter).search(where) is not None

        return has_label(after, 1) and (has_label(before, -1) or has_label(before, -2) or has_label(after, 2))

    def _is_block_label(self, written: Written) -> bool:
        """ "4AS" near "4AR", "cassettes AB"."""
        before = self._before(written)
        if _BLOCKS_BEFORE.search(before):
            return True
        number = _NUMBER_BEFORE.search(before)
        if number is None:
            return False
        first, last = self._text[written.start], self._text[written.end - 1]
        sides = self._before(written, _REACH), self._text[written.end : written.end + _REACH]
        others = chain.from_iterable(map(_BLOCK.findall, sides))
        return any(other[:2] == (number[0], first) and other[2] != last for other in others)

    def _is_state(self, written: Written) -> bool:
        """ "OR 97338", "lives in Ann Arbor, MI"; not "seen in the Clinic, PA to call"."""
        if _ZIP_CODE_FOLLOWS.match(self._text, written.end) or self._before(written).endswith("State: "):
            return True
        in_city = _CITY_BEFORE.search(self._before(written, _REACH)) is not None
        return in_city and _STATE_ENDS.match(self._text, written.end) is not None

    def _is_identifier(self, written: Written) -> bool:
        """ "NM_000458", "LAB-CT-0042"."""
        if self._text[written.end : written.end + 1] not in ("_", "-"):
            return False
        if _IDENTIFIER_FOLLOWS.match(self._text, written.end):
            return True
        ends = _IDENTIFIER_ENDS.match(self._text, written.end)
        return ends is not None and _IDENTIFIER_BEFORE.search(self._before(written)) is not None

    def _is_plural(self, written: Written) -> bool:
        """ "diagnosis(es)", "DIAGNOSIS (ES)"."""
        if written.stem == "ES":
            is_closed = self._text[written.end : written.end + 1] == ")"
            return is_closed and _PLURAL_BEFORE.search(self._before(written)) is not None
        before = self._before(written, 2)
        return before[-1:] == "(" and before[:1].isalpha()

    def _is_part_of_word(self, written: Written) -> bool:
        return is_part_of_word(self._text, written.start, written.end)

    def _is_misread(self, written: Written) -> bool:
        """ "ti" in "mu~ti c^llec", "lp" in "lp/19q", "H&E Xl"; and anything where the text is unreadable."""
        start, end = written.start, written.end
        fragment = self._text[start:end]
        may_be_figure = fragment.lower() in ("lp", "ip", "xl")
        if not (may_be_figure or self._has_marks):
            return False
        before, after = self._text[max(0, start - _REACH) : start], self._text[end : end + _REACH]
        if may_be_figure and (
            _STAIN_BEFORE.search(before) if fragment == "Xl" else "19q" in before or "19q" in after
        ):
            return True
        return self._has_marks and self._is_fragment(fragment, before, after)

    def _is_fragment(self, fragment: str, before: str, after: str) -> bool:
        """Whether stray marks touch or surround it, or the text around it is unreadable."""
        if not fragment.isupper() and len(fragment) <= _LONGEST_FRAGMENT:
            is_touched = fragment[0].islower() and _TOUCHED_BEFORE.search(before)
            if is_touched or _TOUCHED_AFTER.match(after):
                return True
            if len(_STRAY_MARK.findall(before)) + len(_STRAY_MARK.findall(after)) > _MOST_MARKS:
                return True
        if _SPLIT_BY_MARK_AFTER.match(after):
            return True
        # Whether the text was scanned is asked last: it takes longest.
        may_be = self._is_beside_unknown(fragment, before, after) or _is_unreadable(fragment, before, after)
        return may_be and self._is_scanned

    def _is_beside_unknown(self, fragment: str, before: str, after: str) -> bool:
        """Whether it is next to a fragment that is neither a word nor a short form: "rec ived"."""
        if fragment.isupper():
            return False
        pieces = [_UNKNOWN_AFTER.match(after), PIECE_BEFORE.search(before) if fragment.islower() else None]
        words = [piece[1].lower() for piece in pieces if piece is not None]
        return any(
            not is_known_word(word)
            and word not in self._short_forms
            and word.upper() not in self._short_forms
            for word in words
        )

    @cached_property
    def _has_marks(self) -> bool:
        return any(mark in self._text for mark in _MARKS)

    @cached_property
    def _is_scanned(self) -> bool:
        sample = self._text[:_SCAN_SAMPLE]
        return len(_ODD_MARK.findall(sample)) >= _SCANNED * max(300, len(sample)) / 1_000


_Rule = Callable[[LookAlikes, Written], bool]


def _beside(*, before: re.Pattern[str] | None = None, after: re.Pattern[str] | None = None) -> _Rule:
    """Return a rule that holds between these patterns, or beside one."""

    def is_beside(look_alikes: LookAlikes, written: Written) -> bool:
        return (after is None or after.match(look_alikes._text, written.end) is not None) and (
            before is None or before.search(look_alikes._before(written)) is not None
        )

    return is_beside


@lru_cache(maxsize=1 << 14)
def _rules_of(stem: str) -> tuple[_Rule, ...]:
    """Return the rules that may apply to a stem: for most mentions three or four."""
    lower, plain, in_capitals = stem.lower(), stem.replace(".", ""), stem.isupper()
    is_dotted, may_have_noun = plain != stem, len(stem) > 4 and stem.islower()
    may_be_verb = may_have_noun and any(stem + each in prose_words() for each in _NOUN_ENDINGS)
    rest = _REST_IN_CAPITALS_FOLLOWS if in_capitals else _REST_FOLLOWS
    surname = _SURNAME_IN_CAPITALS_FOLLOWS if in_capitals else _SURNAME_FOLLOWS
    may_apply = (
        (_beside(after=rest), lower in _PREFIXES),  # "co-worker", "RE-LIGHT"
        (_beside(before=_VERB_BEFORE), may_be_verb),  # "a saw was used to resect"; not "s/p resect"
        (LookAlikes._is_latin, stem in ("os", "se") or lower == "vas"),
        (LookAlikes._is_function_word, in_capitals and lower in STOP_WORDS),
        (LookAlikes._is_name, True),
        # "dressed with Op-Site"
        (_beside(before=_IN_SENTENCE_BEFORE, after=_BRAND_FOLLOWS), stem[0].isupper() and stem[1:].islower()),
        (_beside(before=_SLEEP_AID_BEFORE), stem == "PM"),  # "Tylenol PM"
        (_beside(after=_MORPHINE_FOLLOWS), stem == "MS"),  # "MS Contin"
        (_beside(after=_DATE_FOLLOWS), stem == "D/T"),  # when a letter was dictated and transcribed
        (_beside(after=_REMOVED_DATE_FOLLOWS), stem == "T"),
        (_beside(after=_OF_STOOL_FOLLOWS), lower == "heme"),  # "stool heme negative"
        (_beside(after=_STRAIN_FOLLOWS), stem == "RA"),  # "rubella virus vaccine (Wistar RA 27/3)"
        (LookAlikes._is_spaced_out, len(stem) == 1),
        (LookAlikes._has_capitals, stem in SIDES),
        (_beside(before=_WEB_NAME_BEFORE), stem in _WEB_ENDINGS),
        (LookAlikes._masks_name, stem == "ABC"),
        # "M.R., M.D."
        (_beside(after=_DEGREE_FOLLOWS), is_dotted and in_capitals and plain not in _DEGREES),
        (_beside(after=_OF_A_PERSON_FOLLOWS), is_dotted and in_capitals),  # "J.P. denies"
        (_beside(after=_SURNAME_AND_DEGREE_FOLLOW), in_capitals and len(stem) == 2),  # "CT Walsh, MD"
        (_beside(after=surname), lower in TITLES),  # "MS. SMITH"
        (LookAlikes._ends_a_company, stem in ("Inc", "AG", "Co")),
        (LookAlikes._is_unit, plain.lower() in MONTHS or plain.lower() in AFTER_NUMBERS),
        (LookAlikes._is_stage, stem == "Ta" or _STAGE.fullmatch(stem)),
        (LookAlikes._is_numeral, _ROMAN.fullmatch(stem.upper())),
        (LookAlikes._is_list_label, len(stem) == 1),
        (LookAlikes._is_in_name, len(stem) == 1),
        (LookAlikes._ends_a_code, len(stem) <= 2),
        (LookAlikes._is_block_label, len(stem) == 2 and stem[0].isupper()),
        (_beside(after=_OF_ELECTROCARDIOGRAM.get(stem)), stem in _OF_ELECTROCARDIOGRAM),  # "ST depression"
        (LookAlikes._is_state, stem in STATES),
        (LookAlikes._is_identifier, True),
        (_beside(after=_YEAR_FOLLOWS), lower in ("dd", "mm")),  # of a date's form: "Month DD, YYYY"
        (_beside(before=_TIMES_BEFORE, after=_TIMES_FOLLOWS), is_dotted),  # "2 x O.B x 0.5"
        (LookAlikes._is_plural, stem.islower() or stem == "ES"),
        (LookAlikes._is_part_of_word, True),
        (LookAlikes._is_misread, True),
    )
    return tuple([rule for rule, may in may_apply if may])


def _is_unreadable(fragment: str, before: str, after: str) -> bool:
    """Whether the text around a fragment has so many odd marks and words that it is unreadable."""
    n_odd = len(_ODD_MARK.findall(before)) + len(_ODD_MARK.findall(after))
    if n_odd < 2:
        return False
    words = _WHOLE_WORD.findall(f"{before} | {after}")
    n_unknown = sum(not is_known_word(word.lower()) for word in words)
    is_short = len(fragment) < (_LONGEST_FRAGMENT if fragment.isupper() else _LONGEST_FRAGMENT + 1)
    return n_unknown > 1 and n_odd + n_unknown >= (_UNREADABLE if is_short else _UNREADABLE_LONG)


def _moved(letter: str, n: int) -> str:
    """Return the letter `n` positions later in the alphabet."""
    return chr(ord(letter) + n)


def _stand_in_order(text: str, end: int, labels: list[str]) -> bool:
    """Whether there are labels, and all occur in this order before `end`."""
    at = max(0, end - _LABELS_REACH)
    for label in labels:
        found = _label(label).search(text, at, end)
        if found is None:
            return False
        at = found.end()
    return bool(labels)


@lru_cache(maxsize=1 << 12)
def _label(label: str) -> re.Pattern[str]:
    """Match a label without a letter or number next to it."""
    return re.compile(rf"(?<![^\W_]){re.escape(label)}" + (r"(?![^\W_])" if label[-1].isalnum() else ""))


@lru_cache(maxsize=1 << 7)
def _block_label(letter: str) -> re.Pattern[str]:
    """Match "D:", "D1-4:" and "DFS:", a frozen section; not "R: 16"."""
    return re.compile(
        rf"(?<![^\W_]){letter}(?:\d{{1,2}}(?:[-,]\d{{1,2}})*|FS)?\s?:(?!{_NUMBER_FOLLOWS.pattern})"
    )
