"""A note on a terminal: its text with the short forms marked, then what each stands for, section by section."""

import re
import textwrap
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby

from lmcells.expansion.expansion import Candidate, Expansion

_LIKELY, _UNSURE = 0.9, 0.6
_GREEN, _YELLOW, _RED, _CYAN, _DIM, _BOLD = "32", "33", "31", "36", "2", "1"
_SHOWN = 3  # alternatives
_LEAST_SHOWN = 0.005
_TAB = "    "
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # would move the cursor, or worse
_BREAKS = re.compile(r"\S+")
_WIDEST_NAME = 34


def render(text: str, expansions: Sequence[Expansion], *, width: int = 100, color: bool = True) -> str:
    """Return the note and its expansions, wrapped; without color short forms stand in brackets."""
    paint = _paint if color else _plain
    lines = list(_marked(text, expansions, width=width, color=color))
    if not expansions:
        return "\n".join([*lines, "", paint("No short form of the inventory was found.", _DIM)])
    names = [_name(expansion, text) for expansion in expansions]
    name_width = min(_WIDEST_NAME, max(map(len, names)))
    written_width = max(expansion.end - expansion.start for expansion in expansions)
    for section, group in groupby(expansions, key=lambda expansion: expansion.section):
        lines += ["", paint(_clean(section or "no section"), _BOLD if section else _DIM)]
        for expansion in group:
            lines += _entry(text, expansion, columns=(written_width, name_width), width=width, color=color)
    return "\n".join(lines)


def _entry(
    text: str, expansion: Expansion, *, columns: tuple[int, int], width: int, color: bool
) -> Iterator[str]:
    """One short form: as written, the long form, how sure, and what else it might be."""
    paint = _paint if color else _plain
    written = _clean(text[expansion.start : expansion.end])
    name = _name(expansion, text)
    left = f"  {written:<{columns[0]}}  "
    rest = _alternatives(expansion)
    indent = " " * (len(left) + columns[1] + 8)
    if len(name) > columns[1] or len(indent) > width // 2 + 20:
        indent = " " * len(left)
    sure = _sure(expansion)
    opening = f"  {paint(f'{written:<{columns[0]}}', _color(expansion))}  {name:<{columns[1]}}  {sure:>5}"
    room = max(20, width - len(indent) - 1)
    wrapped = textwrap.wrap(rest, room) if rest else []
    if wrapped and len(indent) > len(left):
        yield f"{opening} {paint(wrapped[0], _DIM)}"
        wrapped = wrapped[1:]
    else:
        yield opening
    for line in wrapped:
        yield indent + paint(line, _DIM)


def _name(expansion: Expansion, text: str) -> str:
    if expansion.long_form is not None:
        return _clean(expansion.long_form)
    best = (
        expansion.candidates[0].long_form if expansion.candidates else text[expansion.start : expansion.end]
    )
    reason = (expansion.abstained or "").replace("_", " ")
    return f"? {_clean(best)} ({reason})"


def _sure(expansion: Expansion) -> str:
    if expansion.source == "definition":
        return "def."
    return _percent(expansion.probability) if expansion.probability is not None else "-"


def _alternatives(expansion: Expansion) -> str:
    others = [each for each in expansion.candidates[1:] if each.probability >= _LEAST_SHOWN][:_SHOWN]
    return ", ".join(f"{_clean(each.long_form)} {_percent(each.probability)}" for each in others)


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f}%"


def _color(expansion: Expansion) -> str:
    if expansion.source == "definition":
        return _CYAN
    best: Candidate | None = expansion.candidates[0] if expansion.candidates else None
    if expansion.abstained or best is None:
        return _DIM
    return _GREEN if best.probability >= _LIKELY else _YELLOW if best.probability >= _UNSURE else _RED


def _marked(text: str, expansions: Sequence[Expansion], *, width: int, color: bool) -> Iterator[str]:
    """Yield the text in lines no wider than the terminal, short forms marked."""
    remaining = list(expansions)
    brackets = 0 if color else 2
    for start, end in _lines(text, width, [expansion.start for expansion in expansions], brackets):
        pieces, position = [], start
        while remaining and remaining[0].start < end:
            expansion = remaining.pop(0)
            written = _clean(text[expansion.start : expansion.end])
            pieces.append(_clean(text[position : expansion.start]))
            pieces.append(_paint(written, f"1;4;{_color(expansion)}") if color else f"[{written}]")
            position = expansion.end
        pieces.append(_clean(text[position:end]))
        yield "".join(pieces).rstrip()


def _lines(text: str, width: int, marks: list[int], mark_width: int) -> Iterator[tuple[int, int]]:
    """Yield where each line on the terminal begins and ends; words longer than a line stay whole."""
    position = 0
    for line in text.rstrip().split("\n"):
        start = position
        for word in _BREAKS.finditer(line):
            end = position + word.end()
            n_marks = bisect_left(marks, end) - bisect_left(marks, start)
            if end - start + mark_width * n_marks > width and position + word.start() > start:
                yield start, position + word.start()
                start = position + word.start()
        yield start, position + len(line)
        position += len(line) + 1


def _clean(text: str) -> str:
    """Return text that a terminal shows as it is, on one line."""
    return _CONTROL.sub("", text.replace("\t", _TAB).replace("\n", " "))


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _plain(text: str, _: str) -> str:
    return text
