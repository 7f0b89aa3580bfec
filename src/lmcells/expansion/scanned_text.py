"""What a scanner misread: fragments of words among stray marks, and figures that became letters.

Each rule looks at a bounded piece of the text.
"""

import re

_REACH = 60  # characters on either side in which stray marks count
_MOST_MARKS = 1  # a single one may be meant
_LONGEST_FRAGMENT = 3
_STRAY_MARK = re.compile(
    r"[€►◄■¢«»£{}]|[A-Za-z](?:[~\\•]|\^(?!-?\d))|[~\\•^][a-z]|[A-Za-z]![a-z]"
    r"|[A-Za-z](?!\.+[A-Za-z])[.,;:'\"!]{2,}[A-Za-z]"
)
_TOUCHED_BEFORE = re.compile(r"(?:[A-Za-z][\^~!*]|[~\\])$")
_TOUCHED_AFTER = re.compile(r"[~\\]|\^(?!-?\d)|[*!][a-z]")
_STAIN_BEFORE = re.compile(r"\bH\s?&\s?E\s$")


def is_misread(text: str, start: int, end: int) -> bool:
    """ "ti" in "mu·ti~ple, c^llec1", "lp" of "lp/19q", "H&E Xl"; capitals are left alone, and so are longer words."""
    written = text[start:end]
    if written.isupper() or len(written) > _LONGEST_FRAGMENT:
        return False
    before, after = text[max(0, start - _REACH) : start], text[end : end + _REACH]
    if written.lower() in ("lp", "ip") and "19q" in before + after:
        return True
    if written == "Xl" and _STAIN_BEFORE.search(before):
        return True
    if (written[0].islower() and _TOUCHED_BEFORE.search(before)) or _TOUCHED_AFTER.match(after):
        return True
    return len(_STRAY_MARK.findall(before)) + len(_STRAY_MARK.findall(after)) > _MOST_MARKS
