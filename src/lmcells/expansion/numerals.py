"""Roman numerals: "stage IV", "type Ib", "III/IV", "IV. PLAN"; and the stage Ta of a tumor.

Each rule looks at a bounded piece of the text.
"""

import re

_REACH = 60  # characters before a numeral that hold what it counts
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


def is_a_numeral(text: str, start: int, end: int) -> bool:
    """Whether what may be a short form is a numeral, or a stage."""
    stem, before = text[start:end], text[max(0, start - _REACH) : start]
    if _STAGE.fullmatch(stem) and _STAGED_BEFORE.search(before):
        return True
    if stem == "Ta" and (_TUMOR_BEFORE.search(before) or _TUMOR_STAGE_FOLLOWS.match(text, end)):
        return True
    if not _ROMAN.fullmatch(stem.upper()):
        return False
    if text[end : end + 1] in (".", ")") and _LIST_MARK_BEFORE.search(before):
        return True
    if stem == "IV" and (before.endswith("IV, ") or text.startswith(", IV ", end)):  # "4 mg IV, IV fluids"
        return False
    return stem.isupper() and bool(_ROMAN_BEFORE.search(before) or _ROMAN_FOLLOWS.match(text, end))
