"""What a letter is where it is no short form: part of a name, a label, a base of a gene, the mark of a list.

Two letters may be a label, too.

Each rule looks at a bounded piece of the text.
"""

import re
from functools import lru_cache

_REACH = 60  # characters before a letter that hold what it belongs to
_LABELS_REACH = 4_000  # and the labels that come before it in a list
_NEARBY = 1_500  # characters on either side that hold a label's neighbours

VALUE_FOLLOWS = re.compile(r"[ ]?[:=<>≤≥]|[ ]\d")
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
    r"[\"”]?[ -](?:(?:and|or)[ ][A-Z][ -])?(?:cells?|inversions?|lymphocytes?|waves?)\b|[ ]?-?[ ]?reactive\b",
    re.IGNORECASE,
)
_AFTER_ST = re.compile(r"\bST[/-]$")
_BASE_BEFORE = re.compile(r"\d\s?[ACGT]\s?>\s?$")
_BASE_FOLLOWS = re.compile(r"\s?>\s?[ACGT]\b")
_ISOTOPE = re.compile(r"(?<!\d)18$")
_NUMBER_BEFORE = re.compile(r"(?<![\d.,])\d{1,2}$")
_SMALL_NUMBER_BEFORE = re.compile(r"(?<![\d.,])1?\d$")
_CODE_BEFORE = re.compile(r"\d{4}$")  # "lot 1276K"
_NUMBER_FOLLOWS = re.compile(r"\s*[\d<>≤≥=]")
_BLOCK = re.compile(r"(?<!\w)(\d{1,2})([A-Z])([A-Z])\b")
_BLOCKS_BEFORE = re.compile(r"(?:\bcassettes?|\bin[ ](?:blocks|slides?)|\(slides?)[ ]$", re.IGNORECASE)
_LINE_BEFORE = re.compile(r"(?:^|\n)[ \t]*\($")
_ITEM_FOLLOWS = re.compile(r"\)[ ]+[A-Z]")
_SEXES = "MF"  # "17M" is a boy
_SEXES_AND_SIDES = "MFLR"


def is_part_of_a_name(text: str, start: int, end: int, *, may_be_unit: bool) -> bool:
    """ "hepatitis B and C", "T wave", "mitomycin-C", "517C>T", "[18F]FDG", "cassettes 4A-4C"; not "38C", a unit."""
    before = text[max(0, start - _REACH) : start]
    letter = text[start:end]
    has_value = VALUE_FOLLOWS.match(text, end) is not None  # "hepatitis C, T 98.6"
    is_counted = not may_be_unit and letter not in _SEXES and _SMALL_NUMBER_BEFORE.search(before)
    return bool(
        _LABEL_BEFORE.search(before)
        or _AFTER_ST.search(before)
        or _BASE_BEFORE.search(before)
        or _BASE_FOLLOWS.match(text, end)
        or _NAMED_FOLLOWS.match(text, end)
        or (letter == "F" and text[end : end + 1] in ("]", "-") and _ISOTOPE.search(before))
        or (not has_value and any(each.search(before) for each in _BEFORE_A_LETTER))
        or is_counted
        or (not may_be_unit and _CODE_BEFORE.search(before))
    )


def is_a_list_mark(text: str, start: int, end: int) -> bool:
    """ "A." and "b)" of a list or a name; "C:" among "A:", "B1:" and "D:", "(C)" before an item, "15F" after "15E"."""
    letter, previous, follows = text[start:end], text[max(0, start - 1) : start], text[end : end + 1]
    if (follows == "." and not previous.isdigit()) or (follows == ")" and previous != "("):
        return True
    number = _NUMBER_BEFORE.search(text, max(0, start - 3), start)
    if number is not None:
        return _stand_in_order(text, start, [f"{number[0]}{_moved(letter, -1)}"])
    if follows == ")" and _begins_item(text, start, end):
        return True
    if follows == ")" or (follows == ":" and not VALUE_FOLLOWS.match(text, end + 1)):
        opening = "(" if follows == ")" else ""
        letters = [each for each in (_moved(letter, -2), _moved(letter, -1)) if each.isalpha()]
        return _stand_in_order(text, start, [f"{opening}{each}{follows}" for each in letters]) or (
            follows == ":" and _stands_among_labels(text, start, end)
        )
    return False


def is_a_block_label(text: str, start: int, end: int) -> bool:
    """ "4AS" where there is "4AR", "cassettes AB"."""
    before = text[max(0, start - _REACH) : start]
    if not text[start].isupper():
        return False
    if _BLOCKS_BEFORE.search(before):
        return True
    number = _NUMBER_BEFORE.search(before)
    if number is None:
        return False
    others = (*_BLOCK.findall(before), *_BLOCK.findall(text[end : end + _REACH]))
    return any(other[:2] == (number[0], text[start]) and other[2] != text[end - 1] for other in others)


def _begins_item(text: str, start: int, end: int) -> bool:
    """ "(C) LEFT NECK", where a line begins with it; not "(L) knee", "(M) 17 yo" and "(T) 98.6"."""
    is_item = text[start:end] not in _SEXES_AND_SIDES and _ITEM_FOLLOWS.match(text, end)
    return bool(is_item and _LINE_BEFORE.search(text[max(0, start - _REACH) : start]))


def _stands_among_labels(text: str, start: int, end: int) -> bool:
    """Whether the next letter is a label after it, and one of the two before it, or the one after next, is one too."""
    if _NUMBER_FOLLOWS.match(text, end + 1):
        return False
    before, after = text[max(0, start - _NEARBY) : start], text[end : end + _NEARBY]

    def has_label(where: str, n: int) -> bool:
        letter = _moved(text[start], n)
        return letter.isalpha() and _block_label(letter).search(where) is not None

    return has_label(after, 1) and (has_label(before, -1) or has_label(before, -2) or has_label(after, 2))


def _moved(letter: str, n: int) -> str:
    """The one so many further on in the alphabet."""
    return chr(ord(letter) + n)


def _stand_in_order(text: str, end: int, labels: list[str]) -> bool:
    """Whether all labels, if there are any, stand one after the other in the text before `end`."""
    at = max(0, end - _LABELS_REACH)
    for label in labels:
        found = _label(label).search(text, at, end)
        if found is None:
            return False
        at = found.end()
    return bool(labels)


@lru_cache(maxsize=1 << 12)
def _label(label: str) -> re.Pattern[str]:
    """Matches a label with no letter or number right before or after it."""
    return re.compile(rf"(?<![^\W_]){re.escape(label)}" + (r"(?![^\W_])" if label[-1].isalnum() else ""))


@lru_cache(maxsize=1 << 7)
def _block_label(letter: str) -> re.Pattern[str]:
    """Matches "D:", "D1-4:" and "DFS:", a frozen section; not "R: 16"."""
    return re.compile(
        rf"(?<![^\W_]){letter}(?:\d{{1,2}}(?:[-,]\d{{1,2}})*|FS)?\s?:(?!{_NUMBER_FOLLOWS.pattern})"
    )
