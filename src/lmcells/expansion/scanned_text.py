"""What a scanner misread: fragments of words among stray marks, and figures that became letters."""

import re
from functools import cached_property

_REACH = 60  # characters on either side in which stray marks count
_MOST_MARKS = 1  # a single one may be meant
_LONGEST_FRAGMENT = 3
_MARKS = "►◄■¢«»{}€£~•\\^!"  # a text without any was not scanned
_STRAY_MARK = re.compile(
    r"[►◄■¢«»{}]|[€£](?!\d)"
    r"|[A-Za-z](?:[~•](?!\d)|\\(?![nrt])|\^(?!-?\d))"  # "hr~80", "mm^3" and an escaped line break are meant
    r"|(?<=\S)(?:[~•^]|\\(?![nrt]))[a-z]"
    r"|[A-Za-z]![a-z]"
    r"|[A-Za-z](?!\.+[A-Za-z]|[,:]?\"[,:]?\"?[A-Za-z])[.,;:'\"!]{2,}[A-Za-z]"
)
_TOUCHED_BEFORE = re.compile(r"(?:[A-Za-z][\^~!*]|\S[~\\])$")
_TOUCHED_AFTER = re.compile(r"[~\\](?!\d|[nrt])|\^(?!-?\d)|[*!][a-z]")
_STAIN_BEFORE = re.compile(r"\bH\s?&\s?E\s$")


class ScannedText:
    """Tells, in one text, which short pieces are misread: "ti" in "mu~ti c^llec", "lp" of "lp/19q", "H&E Xl".

    Capitals are left alone, and so are longer words.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def is_misread(self, start: int, end: int) -> bool:
        """Whether what is written at `text[start:end]` is no word that somebody wrote."""
        written = self._text[start:end]
        if written.isupper() or len(written) > _LONGEST_FRAGMENT:
            return False
        if written.lower() in ("lp", "ip", "xl"):
            return self._is_a_figure(start, end) or self._is_among_marks(start, end)
        return self._is_among_marks(start, end)

    def _is_a_figure(self, start: int, end: int) -> bool:
        before, after = self._around(start, end)
        if self._text[start:end] == "Xl":
            return _STAIN_BEFORE.search(before) is not None
        return "19q" in before or "19q" in after

    @cached_property
    def _has_marks(self) -> bool:
        return any(mark in self._text for mark in _MARKS)

    def _is_among_marks(self, start: int, end: int) -> bool:
        if not self._has_marks:
            return False
        before, after = self._around(start, end)
        is_touched = self._text[start].islower() and _TOUCHED_BEFORE.search(before)
        if is_touched or _TOUCHED_AFTER.match(after):
            return True
        return len(_STRAY_MARK.findall(before)) + len(_STRAY_MARK.findall(after)) > _MOST_MARKS

    def _around(self, start: int, end: int) -> tuple[str, str]:
        return self._text[max(0, start - _REACH) : start], self._text[end : end + _REACH]
