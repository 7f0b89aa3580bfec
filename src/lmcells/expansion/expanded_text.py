"""Writing long forms into a text, and mapping offsets between the two texts.

expanded = expand_text(text, expander(text))
expanded.text                         # "... with a cerebrovascular accident in 2019 ..."
expanded.offset_map.to_expanded(17)   # where text[17] is now
expanded.offset_map.to_original(40)   # and back
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from lmcells.errors import InputError
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.inventory import form_key

Style = Literal["replace", "append"]
STYLES: tuple[Style, ...] = get_args(Style)

_OPENED = re.compile(r"\s*[(\[]\s*[\"'“‘]?$")
_OPENS = re.compile(r"[\"'”’]?\s*[(\[=:,]\s*")
_BRACKETS = 8  # characters allowed between a long form and its short form
_SENTENCE_OPENS = re.compile(r"(?:[.!?]\s+|\n[ \t]*)$")
_SENTENCE_ENDS = re.compile(r"\s*\Z|[ \t]*[\r\n]|\s+[A-Z]")


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Maps offsets between a text and its expansion: `[starts[i], ends[i])` became `[new_starts[i], new_ends[i])`.

    Outside these spans the two maps are inverse, and both are monotonic. An offset inside a span is mapped to the start
    of its counterpart, the end of a span to its counterpart's end.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    new_starts: tuple[int, ...]
    new_ends: tuple[int, ...]

    def to_expanded(self, offset: int) -> int:
        """Map an offset in the original text to the expanded one."""
        return _map(offset, (self.starts, self.ends), (self.new_starts, self.new_ends))

    def to_original(self, offset: int) -> int:
        """Map an offset in the expanded text to the original one."""
        return _map(offset, (self.new_starts, self.new_ends), (self.starts, self.ends))


def _map(offset: int, pieces: tuple[tuple[int, ...], ...], others: tuple[tuple[int, ...], ...]) -> int:
    index = bisect_right(pieces[0], offset) - 1
    if index < 0:
        return offset
    end = pieces[1][index]
    return others[0][index] if offset < end else others[1][index] + offset - end


@dataclass(frozen=True, slots=True)
class ExpandedText:
    """A text with its short forms expanded, and the map between its offsets and the original's."""

    text: str = field(repr=False)  # patient data: never in a log or a traceback
    offset_map: OffsetMap


def expand_text(text: str, expansions: Iterable[Expansion], *, style: Style = "replace") -> ExpandedText:
    """Write long forms into a text: instead of the short forms or, with style "append", in brackets after them.

    Short forms without an answer, and those that are defined right there, stay as they are.
    """
    if style not in STYLES:
        raise InputError(f"style: found {style!r}, allowed: {', '.join(STYLES)}.")
    pieces: list[str] = []
    replaced: list[tuple[int, int, int, int]] = []
    position = length = 0
    for expansion in sorted(expansions, key=lambda each: each.start):
        if not position <= expansion.start < expansion.end <= len(text):
            raise InputError(
                f"the expansion of {expansion.short_form!r} at {expansion.start}-{expansion.end} overlaps another or "
                f"lies outside the text ({len(text):,} characters). Give the text that was expanded."
            )
        if expansion.long_form is None or _is_defined_here(text, expansion):
            continue
        written = _written_out(text, expansion, expansion.long_form, style)
        pieces += (text[position : expansion.start], written)
        start = length + expansion.start - position
        length = start + len(written)
        replaced.append((expansion.start, expansion.end, start, length))
        position = expansion.end
    pieces.append(text[position:])
    columns = tuple(zip(*replaced, strict=True)) or ((), (), (), ())
    return ExpandedText("".join(pieces), OffsetMap(*columns))


def _written_out(text: str, expansion: Expansion, long_form: str, style: Style) -> str:
    written = text[expansion.start : expansion.end]
    if style == "append":
        return f"{written} ({long_form})"
    if written.endswith("s") and written[:-1].lower() == expansion.short_form.lower():
        long_form = plural(long_form)
    if _SENTENCE_OPENS.search(text[max(0, expansion.start - _BRACKETS) : expansion.start]):
        long_form = long_form[:1].upper() + long_form[1:]
    if written.endswith(".") and _SENTENCE_ENDS.match(text, expansion.end):
        return long_form + "."  # the last dot of "p.o." also ends the sentence
    return long_form


def plural(phrase: str) -> str:
    """Return the plural of an English phrase, by rules."""
    if re.search(r"[^aeiou]y$", phrase):
        return phrase[:-1] + "ies"
    if phrase.endswith("sis"):
        return phrase[:-2] + "es"
    if phrase.endswith("s"):
        return phrase
    return phrase + ("es" if phrase.endswith(("x", "ch", "sh")) else "s")


def _is_defined_here(text: str, expansion: Expansion) -> bool:
    """Whether the long form is right before the short form's bracket, or right after the short form."""
    if expansion.source != "definition" or expansion.long_form is None:
        return False
    long_form = form_key(expansion.long_form)
    reach = len(expansion.long_form) + _BRACKETS
    before = text[max(0, expansion.start - reach) : expansion.start]
    after = text[expansion.end : expansion.end + reach]
    opens, closes = _OPENED.search(before), _OPENS.match(after)
    return (opens is not None and form_key(before[: opens.start()])[-1:] == long_form[-1:]) or (
        closes is not None and form_key(after[closes.end() :])[:1] == long_form[:1]
    )
