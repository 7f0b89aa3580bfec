r"""Ways to find the sections of a note, by name; among them the paper's regular expression, in linear time.

    (?:^|\s{4,}|\n)[\d.#]{0,4}\s*([A-Z][A-z0-9/ ]+[A-z]:)

`re.finditer` takes quadratic time: every blank of a long run starts a new attempt. So we search backward. Colons are
rare, so we jump from colon to colon and look back from each:

- the header is part of the *run* of `[A-z0-9/ ]` that ends at the colon, so runs are disjoint;
- what precedes the header (blanks, digits, `.`, `#`) has no capital, so the header's start determines the match;
- whether a capital may start a header depends on the twelve characters before it: four blanks, or a line break
  and blanks, or one of these followed by at most four of `[\d.#]` and fewer than four blanks.

Of the capitals in a run that may start a header, the first wins, as in leftmost matching. The flaws of the expression
are kept: `[A-z]` includes ``[ \ ] ^ _ ` ``, and prose before a colon is taken for a header.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from lmcells.errors import FormatError
from lmcells.notes.note import Note, Section
from lmcells.notes.section_rules import SectionRules
from lmcells.notes.sections import Header, canonical_name, cover, load_aliases, upper_name

HeaderFinder = Callable[[Note], list[Header]]  # in order; text before the first is under no header
NoteSections = Callable[[Note], tuple[Section, ...]]

_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_A_TO_Z = frozenset(map(chr, range(ord("A"), ord("z") + 1)))  # [A-z], with the punctuation between Z and a
_RUN = "".join(sorted(_A_TO_Z)) + "0123456789/ "
_SHORTEST = 3  # characters before the colon: [A-Z], at least one of [A-z0-9/ ], [A-z]
_WHOLE_LINE = re.compile(r"[\d.#]{0,4} ?([A-Z][A-z0-9/ ]+[A-z])")
_LOOK_BACK = 12  # more than 4 blanks, 4 of [\d.#] and 3 blanks
_BEFORE_HEADER = re.compile(r"(?:^|\s{4}|\n)[\d.#]{0,4}\s*\Z")
_AFTER_BLANKS = re.compile(r" {4}(?:[0-9]{1,4} {0,3})?[A-Z]")


def section_finder(style: str, *, header_rules: Path | None = None) -> NoteSections:
    """Return the function that finds a note's sections, which cover it exactly."""
    find_headers = header_finder(style, header_rules=header_rules)
    return lambda note: cover(len(note.text), find_headers(note))


def header_finder(style: str, *, header_rules: Path | None = None) -> HeaderFinder:
    """Return the function that finds a note's headers.

    `auto` uses the sections that a file gives, and the rules for notes without; `none` finds no headers.
    """
    if style == "none":
        return lambda _: []
    if style == "paper":
        return lambda note: find_paper_headers(note.text)
    rules = SectionRules(header_rules)
    if style == "rules":
        return lambda note: rules.headers(note.text)
    aliases = load_aliases(header_rules)

    def given(note: Note) -> list[Header]:
        if note.sections is not None:
            return [
                (start, body_start, header, canonical_name(aliases, header) if header else "")
                for header, _, start, body_start, _ in note.sections
            ]
        if style == "auto":
            return rules.headers(note.text)
        raise FormatError(
            f"--sections given: note {note.id} has no sections of its own, only text. "
            "Use --sections rules (or paper), or give documents with a list of sections."
        )

    return given


def find_paper_sections(text: str) -> tuple[Section, ...]:
    """Split a note into sections as the paper does."""
    return cover(len(text), find_paper_headers(text))


def find_paper_headers(text: str) -> list[Header]:
    """Find the headers of a note as the paper does. A header's name is its text in upper case."""
    headers: list[Header] = []
    searched = 0  # end of the previous colon
    for before in text.split(":")[:-1]:
        colon = searched + len(before)
        if before and before[-1] in _A_TO_Z:
            line = before.rfind("\n") + 1
            begins_line = line > 0 or not searched
            if begins_line and (header := _whole_line(before[line:])):  # nearly every header
                n_skipped, raw, name = header
                headers.append((searched + line + n_skipped, colon + 1, raw, name))
            # Otherwise four blanks must stand for a line break.
            elif begins_line or len(before) >= 4 + _SHORTEST:
                start = _header_start(text, searched + line, colon)
                if start >= 0:
                    raw = text[start:colon]
                    headers.append((start, colon + 1, raw, upper_name(raw)))
        searched = colon + 1
    return headers


@lru_cache(maxsize=1 << 14)
def _whole_line(line: str) -> tuple[int, str, str] | None:
    """Return the header that is all of a line before its colon: how much precedes it, its text and its name."""
    whole = _WHOLE_LINE.fullmatch(line)
    return (whole.start(1), whole[1], upper_name(whole[1])) if whole else None


def _header_start(text: str, line: int, colon: int) -> int:
    """Return where the header that ends at `colon` starts, at `line` or after, or -1."""
    run = line + len(text[line:colon].rstrip(_RUN))
    last = colon - _SHORTEST
    first = colon - len(text[run:colon].lstrip(" 0123456789"))
    if first > last:
        return -1
    if text[first] in _CAPITALS and _BEFORE_HEADER.search(text, max(0, first - _LOOK_BACK), first):
        return first
    if text.find("    ", first, last) < 0:
        return -1
    later = _AFTER_BLANKS.search(text, first, last + 1)
    return later.end() - 1 if later else -1
