"""What a single letter is where it is no short form: part of a name, a label, a base of a gene, the mark of a list.

Each rule looks at a bounded piece of the text.
"""

import re

_REACH = 60  # characters before a letter that hold what it belongs to
_LABELS_REACH = 4_000  # and the labels that come before it in a list

VALUE_FOLLOWS = re.compile(r"[ ]?[:=]|[ ]\d")
_LABELLED = r"\b(?:(?:hepatitis|vitamin|cassette|block|slide|specimen|part|figure)s?|(?:hep|vit|fig)\.?)[ ]"
_LABEL_BEFORE = re.compile(_LABELLED + r"\d?$", re.IGNORECASE)
_LABELS_BEFORE = re.compile(_LABELLED + r"(?:\d?[A-Z](?:[ ,/&-]|and|or)+)+\d?$", re.IGNORECASE)
_KIND_BEFORE = re.compile(
    r"\b(?:actinomycin|amphotericin|case|category|class|cobalamin|container|factor|grade|group|immunoglobulin|influenza"
    r"|level|mitomycin|panel|protein|size|table|tooth|teeth|troponin|type|zone)s?[ ]$",
    re.IGNORECASE,
)
_NAMED_FOLLOWS = re.compile(
    r"[\"”]?[ -](?:(?:and|or)[ ][A-Z][ -])?(?:cells?|inversions?|lymphocytes?|waves?)\b|[ ]?-?[ ]?reactive\b"
    r"|-(?:ANCA|arm|cadherin|dimers?|loop|mode|peptides?|scores?|shaped|terminal|terminus|tests?|types?|values?|wires?)\b",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(r"\b(?!sex-|gender-)[A-Z]{3,}-$", re.IGNORECASE)  # "mitomycin-C", "IBS-M"
_AFTER_ST = re.compile(r"\bST[/-]$")
_BASE_BEFORE = re.compile(r"\d\s?[ACGT]\s?>\s?$")
_BASE_FOLLOWS = re.compile(r"\s?>\s?[ACGT]\b")
_ISOTOPE = re.compile(r"(?<!\d)18$")
_NUMBER_BEFORE = re.compile(r"(?<![\d.,])\d{1,2}$")
_SMALL_NUMBER_BEFORE = re.compile(r"(?<![\d.,])1?\d$")
_CODE_BEFORE = re.compile(r"\d{4}$")  # "lot 1276K"
_LINE_BEFORE = re.compile(r"(?:^|\n)[ \t]*\($")
_SEXES = "MF"  # "17M" is a boy


def is_part_of_a_name(text: str, start: int, end: int, *, may_be_unit: bool) -> bool:
    """ "hepatitis B and C", "T wave", "mitomycin-C", "517C>T", "[18F]FDG", "cassettes 4A-4C"; not "38C", a unit."""
    before = text[max(0, start - _REACH) : start]
    letter = text[start:end]
    has_value = VALUE_FOLLOWS.match(text, end) is not None  # "hepatitis C, T 98.6"
    return bool(
        _LABEL_BEFORE.search(before)
        or _NAME_BEFORE.search(before)
        or _AFTER_ST.search(before)
        or _CODE_BEFORE.search(before)
        or _BASE_BEFORE.search(before)
        or _BASE_FOLLOWS.match(text, end)
        or _NAMED_FOLLOWS.match(text, end)
        or (letter == "F" and text[end : end + 1] in ("]", "-") and _ISOTOPE.search(before))
        or (not has_value and (_LABELS_BEFORE.search(before) or _KIND_BEFORE.search(before)))
        or (not may_be_unit and letter not in _SEXES and _SMALL_NUMBER_BEFORE.search(before))
    )


def is_a_list_mark(text: str, start: int, end: int) -> bool:
    """ "A." and "b)" of a list or a name; "C:" after "A:" and "B:", "(F)" that begins a line, "15F" after "15E"."""
    previous, follows = text[max(0, start - 1) : start], text[end : end + 1]
    if (follows == "." and not previous.isdigit()) or (follows == ")" and previous != "("):
        return True
    earlier = text[max(0, start - _LABELS_REACH) : start]
    number = _NUMBER_BEFORE.search(earlier[-3:])
    if number is not None:
        return _stands_in(earlier, number[0] + _letter_before(text[start:end], 1))
    if follows == ")" and _LINE_BEFORE.search(earlier[-_REACH:]):
        return True
    if follows == ":" or (previous == "(" and follows == ")"):
        two_before = [_letter_before(text[start:end], n) for n in (1, 2)]
        labels = [letter + follows for letter in two_before if letter >= "A"]
        return bool(labels) and all(_stands_in(earlier, label) for label in labels)
    return False


def _letter_before(letter: str, n: int) -> str:
    return chr(ord(letter[0]) - n)


def _stands_in(text: str, label: str) -> bool:
    """Whether a label stands in a text, with no letter or number right before or after it."""
    at = text.find(label)
    while at >= 0:
        end = at + len(label)
        if not text[max(0, at - 1) : at].isalnum() and not (
            label[-1].isalnum() and text[end : end + 1].isalnum()
        ):
            return True
        at = text.find(label, at + 1)
    return False
