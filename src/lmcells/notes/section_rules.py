"""Sections by rules: line-anchored headers, an alias table, and the layout of the note itself.

A line may open with a header: capitals or Title Case before a colon, or alone on the line. Whether it *is*
one is asked of the header (is it in the alias table, does it read like a sentence?) and then of the note:

- a sub-heading belongs to its section: "HEENT:" under "PHYSICAL EXAM:" opens none of its own;
- where blank lines stand before the headers, a header that is not in the table needs one too;
- where headers are in capitals, unknown Title Case before a colon is a sub-heading.

One pass finds candidate lines: the expression begins with a literal line break and every quantifier is
bounded or possessive, so time is linear whatever the text. All else looks at candidates only.
"""

import re
from pathlib import Path
from typing import NamedTuple

from lmcells.notes.note import Section
from lmcells.notes.sections import LONGEST_HEADER, Header, Kind, cover, find_alias, load_aliases, upper_name

_CANDIDATE = r"""
    \n [ \t]{{0,40}}+                              # every line; `re` jumps to a literal line break
    (?: ( [(]?\d{{1,2}}[.)]{{1,2}}                  # 1: numbering, such as 1. 10) (2) 3.)
        | (?:[A-Z]|[IVX]{{2,4}})[.)](?=[ \t])       #    A. IV)
        | \#{{1,4}} (?: [ ]?\d{{1,2}}[.)]? )?       #    # ## #1.
        | [*_]{{2}}                                 #    or the emphasis of Markdown
        ) [ \t]{{0,4}}+ [*_]{{0,2}} )?+
    ( {first} [^:\n]{{0,{longest}}}+ )              # 2: the header, up to
    (?: (:) (?!//) (?!(?<=\d:)\d) [*_]{{0,2}}       # 3: a colon, not that of http:// or 1:1000
      | (?=\n|\Z) )                                #    or the end of the line
"""

_SENTENCE = re.compile(
    r"^(?:dear|the|these|this|those|i(?=[ ]))\b"
    r"|\b(?:are|been|can|could|denied|denies|did|do|does|follows|gave|gives|had|has|have|he|her(?!-)|him|included?"
    r"|includes|is|may|my|noted|our|reported|revealed|reveals|said|says|she|should|showed|shows|stated|states|that"
    r"|them|then|there|they|told|was|we|were|which|will|would|you|your)\b",
    re.IGNORECASE,
)
_NOT_TITLE_CASE = re.compile(
    r"^(?:A|An|Dr|Mr|Mrs|Ms)\b"  # a sentence or a name
    r"|(?<![\w'’./-])(?!(?:a|and?|as|at|by|during|for|from|in|into|of|on|or|per|the|to|upon|vs|with|without)\b)[a-z]"
)
_FULL_WORD = re.compile(r"\b(?=[A-Z]*[AEIOU])[A-Z]{4}")  # not an abbreviation, nor MM/DD/YYYY
_DIGIT = re.compile(r"\d")
_ASIDE = re.compile(r"\([^()]*\)?")
_COLUMNS = re.compile(r"\t|[ ]{3}")
_SIGNATURE_OR_VALUE = re.compile(r",[ ]?[A-Za-z.]{1,6}$|[=<>]")
_NUMBER_FOLLOWS = re.compile(r"[ \t]*+[<>~=+-]?\d(?!\d?[.)](?!\d))")  # unless it numbers a list
_REST_OF_LINE_IS_BLANK = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_TEXT_FOLLOWS = re.compile(r"\s*+\S")

_BLANKS = " \t\r"
_MOST_BLANKS = 12
_MOST_BLANKS_IN_LOWER_CASE = 7
_LENGTHS_ALONE = range(3, 65)  # of a header without a colon; the user's own may have any
_KEPT_LABELS = 20_000
_SAMPLE = 20_000  # characters that tell whether a note is in all caps


class _Label(NamedTuple):
    """What can be said of a header without looking at its place in the note."""

    name: str
    own: bool = False  # named by the user: always a header
    known: bool = False  # in the table, and not as a sub-heading
    within: frozenset[str] = frozenset()  # sections whose sub-heading it is
    capitals: bool = False
    measurable: bool = False  # a number after it is its value: "Sodium: 140", "FL/BPD: 81"
    stands_alone: bool = True  # needs no colon


class _Candidate(NamedTuple):
    start: int
    body_start: int
    raw: str
    label: _Label
    numbering: str  # its first character, or ""
    colon: bool
    after_blank: bool  # the first line of the note, a blank line before it, or emphasis


class _Layout(NamedTuple):
    """How the note sets its headers, judged by those in the alias table, or by all where none is."""

    in_capitals: bool
    spaced: bool  # a blank line before each
    all_caps: bool  # the whole note is in capitals, so capitals carry no information


class SectionRules:
    """Find sections with the shipped alias table, and the user's own aliases where a file is given.

    An alias from the file is a header wherever it opens a line, before a colon or alone.
    """

    def __init__(self, extra: Path | None = None) -> None:
        self._aliases = load_aliases(extra)
        self._has_own = extra is not None
        self._lengths_alone = range(LONGEST_HEADER + 1) if extra else _LENGTHS_ALONE
        self._labels: dict[str, _Label] = {}
        first = r"[^\W_]" if extra else "[A-Z0-9]"
        self._candidate = re.compile(_CANDIDATE.format(first=first, longest=LONGEST_HEADER - 1), re.VERBOSE)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_labels": {}}  # they were read in notes: patient data does not travel

    def __call__(self, text: str) -> tuple[Section, ...]:
        return cover(len(text), self.headers(text))

    def headers(self, text: str) -> list[Header]:
        """Find the headers of a note."""
        return _choose(text, self._candidates(text))

    def _candidates(self, text: str) -> list[_Candidate]:
        candidates = []
        labels = self._labels
        padded = "\n" + text  # so that the first line begins like all others
        for match in self._candidate.finditer(padded):
            numbering, header, colon = match.groups()
            if colon is None and len(header) not in self._lengths_alone:
                continue
            raw = header.rstrip()
            if raw[-1] in "*_":
                raw = raw.rstrip("*_").rstrip()
            start = match.start()
            after_blank = _is_after_blank(padded, start)
            numbering = numbering[0] if numbering else ""
            if numbering and numbering in "*_":
                numbering, after_blank = "", True
            # Most lines of text end here: alone and not after a blank line, only an alias is a header.
            needs_alias = colon is None and not after_blank
            label = labels.get(raw) or self._label(raw, needs_alias=needs_alias)
            if label is None:
                continue
            labels[raw] = label
            candidates.append(
                _Candidate(start, match.end() - 1, raw, label, numbering, colon is not None, after_blank)
            )
        if len(labels) > _KEPT_LABELS:
            labels.clear()
        return candidates

    def _label(self, raw: str, *, needs_alias: bool) -> _Label | None:
        capitals = raw.isupper()
        most_blanks = _MOST_BLANKS if capitals else _MOST_BLANKS_IN_LOWER_CASE
        prose = raw[-1] in ".,;=" or raw.count(" ") > most_blanks
        if prose and not self._has_own:  # most lines end here
            return None
        alias = find_alias(self._aliases, raw)
        if alias is not None and alias.kind is Kind.OWN:
            return _Label(alias.name, own=True, within=alias.within, capitals=capitals)
        if prose or raw[0].islower() or (needs_alias if alias is None else alias.kind is Kind.FIELD):
            return None
        plain = _ASIDE.sub(" ", raw).strip() or raw
        capitals = capitals or plain.isupper()
        measurable = not (capitals and _FULL_WORD.search(plain))
        if alias is not None:
            known, stands_alone = alias.kind is Kind.SECTION, len(raw) in _LENGTHS_ALONE
            return _Label(alias.name, False, known, alias.within, capitals, measurable, stands_alone)
        if not _reads_like_a_header(plain, capitals=capitals):
            return None
        stands_alone = not measurable and not _SIGNATURE_OR_VALUE.search(raw)
        return _Label(upper_name(raw), capitals=capitals, measurable=measurable, stands_alone=stands_alone)


def _is_after_blank(padded: str, start: int) -> bool:
    """Whether the line before the line break at `start` is blank, or there is none."""
    before = padded[start - 1 : start]
    if before not in _BLANKS:  # most lines
        return before == "\n"
    return padded[max(0, start - 40) : start].rstrip(_BLANKS)[-1:] in ("", "\n")


def _reads_like_a_header(header: str, *, capitals: bool) -> bool:
    """Whether a line that is not in the table is no sentence, name, row of a table or level such as L5-S1."""
    if not (capitals or header[0].isupper()) or _COLUMNS.search(header) or _SENTENCE.search(header):
        return False
    if _DIGIT.search(header.split(None, 1)[0]):
        return False
    return capitals or not _NOT_TITLE_CASE.search(header)


def _choose(text: str, candidates: list[_Candidate]) -> list[Header]:
    """Decide in order, knowing the layout of the note and the section that is open."""
    layout = _layout(text, candidates)
    headers: list[Header] = []
    open_section = ""
    for candidate in candidates:
        label = candidate.label
        is_header = _is_known_header if label.known else _is_unknown_header
        if label.own or (open_section not in label.within and is_header(text, candidate, layout)):
            headers.append((candidate.start, candidate.body_start, candidate.raw, label.name))
            open_section = label.name
    return headers


def _layout(text: str, candidates: list[_Candidate]) -> _Layout:
    judged = [candidate for candidate in candidates if candidate.label.known and not candidate.numbering]
    judged = judged or [candidate for candidate in candidates if candidate.colon]
    n_capitals = sum([candidate.label.capitals for candidate in judged])
    after_blank = [candidate.after_blank for candidate in judged if candidate.start > 0]
    is_asked = any(not (candidate.colon or candidate.label.known) for candidate in candidates)
    return _Layout(
        in_capitals=n_capitals > 0 and 2 * n_capitals >= len(judged),
        spaced=2 * sum(after_blank) >= len(after_blank),
        all_caps=is_asked and text.count("E", 0, _SAMPLE) > text.count("e", 0, _SAMPLE),
    )


def _is_known_header(text: str, candidate: _Candidate, layout: _Layout) -> bool:
    _, body_start, _, label, numbering, colon, after_blank = candidate
    if colon:
        # Under headers in capitals, "Pain: better" or "2. Pain: better" is an item of the section it stands in.
        if numbering:
            is_item = layout.in_capitals or not after_blank
        else:
            is_item = layout.in_capitals and layout.spaced and not after_blank
        return label.capitals or not is_item or _REST_OF_LINE_IS_BLANK.match(text, body_start) is not None
    if not label.stands_alone:
        return False
    if numbering and numbering != "#":
        return after_blank and label.capitals
    return after_blank or label.capitals or not layout.spaced


def _is_unknown_header(text: str, candidate: _Candidate, layout: _Layout) -> bool:
    _, body_start, _, label, numbering, colon, after_blank = candidate
    if numbering == "#" or (colon and label.measurable and _NUMBER_FOLLOWS.match(text, body_start)):
        return False  # a problem, as in "# COPD: steroids", or a value
    if not colon:
        stands_apart = after_blank and label.capitals and label.stands_alone and not layout.all_caps
        return stands_apart and _TEXT_FOLLOWS.match(text, body_start) is not None  # a signature ends the note
    if label.capitals:
        return after_blank or not (layout.spaced or numbering)
    if layout.in_capitals or numbering:
        return False
    return after_blank or _REST_OF_LINE_IS_BLANK.match(text, body_start) is not None
