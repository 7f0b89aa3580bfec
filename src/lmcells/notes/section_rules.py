"""Section detection by rules: headers at line starts and in running text, an alias table, and the note's own layout.

A line may begin with a header: capitals or Title Case before a colon or a dash, or alone on the line; lower case only
before a colon and from the alias table. Whether it *is* one depends on the header (is it in the table, does it read
like a sentence?) and on the note:

- a sub-heading belongs to its section: "HEENT:" under "PHYSICAL EXAM:" opens no section;
- if the note's headers follow blank lines, so must a header that is not in the table;
- if the note's headers are in capitals, unknown Title Case before a colon is a sub-heading.

In running text, a header of the table in capitals may follow the end of a sentence: "HTN. PLAN: rest". A note with more
of these than headers at line starts has lost its line breaks; there, headers in lower case, unknown ones in capitals,
and those of the table in capitals without a colon also count.

One pass finds candidate lines: the pattern begins with a literal line break and every quantifier is bounded or
possessive, so time is linear in any text. Another pass goes from colon to colon. Everything else looks only at
candidates.
"""

import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from lmcells.notes.note import Section
from lmcells.notes.sections import LONGEST_HEADER, Header, Kind, cover, find_alias, load_aliases, upper_name

_CANDIDATE = r"""
    \n [ \t]{{0,40}}+                              # every line; `re` jumps to a literal line break
    (?: ( [(]?\d{{1,2}}[.)]{{1,2}}                  # 1: numbering, such as 1. 10) (2) 3.)
        | (?:[A-Z]|[IVX]{{2,4}})[.)](?=[ \t])       #    A. IV)
        | \#{{1,4}} (?: [ ]?\d{{1,2}}[.)]? )?       #    # ## #1.
        | [*_=~-]{{2,20}}+ | [*_](?=\w)             #    the emphasis of Markdown, a rule
        | [-\u2022>](?=[ \t]{{0,4}}[A-Z][A-Z /&]{{1,60}}[:-])  # a bullet or dash before capitals
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
    r"^(?:A|An|Dr|Mr|Mrs|Ms)\b|[a-z]\.[ ]"  # a sentence or a name
    r"|(?<![\w'’./-])(?!(?:a|and?|as|at|by|during|for|from|in|into|of|on|or|per|the|to|upon|vs|with|without)\b)[a-z]"
)
_FULL_WORD = re.compile(r"\b(?=[A-Z]*[AEIOU])[A-Z]{4}")  # not an abbreviation, nor MM/DD/YYYY
_LAST_SENTENCE = re.compile(r".*[\w)]{2}\. +(.+)")  # "Known HTN. PLAN", but not "P.R.N. MEDICATIONS"
_DIGIT = re.compile(r"\d")
_ASIDE = re.compile(r"\([^()]*\)?")
_COLUMNS = re.compile(r"\t|[ ]{3}")
_SIGNATURE_OR_VALUE = re.compile(r",[ ]?[A-Za-z.]{1,6}$|[=<>]")
_NUMBER_FOLLOWS = re.compile(r"[ \t]*+[<>~=+-]?\d(?!\d?[.)](?!\d))")  # but not a list number
_LETTERED = re.compile(r"(?:^|\n)[ \t]*A[:.)][^\n]*\n(?:[^\n]*\n){0,8}?[ \t]*[AB][:.)]")
_BESIDE_ASSESSMENT = frozenset({"SUBJECTIVE", "OBJECTIVE", "PLAN"})
_DASH = re.compile(r"[ \t]+-{1,3}[ \t]+|-{1,3}[ \t]+|[ \t]*(?:--|[–—])[ \t]*")  # "PLAN - rest"
_SPACE = re.compile(r" +")
_AFTER_SENTENCE = re.compile(
    r"[.;!?][)\"'*_]{0,2}+[ \t]{1,4}+[*_#=~-]{0,4}+[ \t]{0,2}+"
    r"([^\W_][^.;!?:\r\n]{0,79}+)(?<=[A-Za-z)*_ ]):(?!//)[*_]{0,2}+"
)
_LABEL_END = re.compile(r":(?<=[A-Za-z)*_ ]:)(?!//)[*_]{0,2}+")  # `re` jumps to a literal
_AFTER_PERIOD = re.compile(
    r"\.[)\"'*_]{0,2}+[ \t]{1,4}+[*_#=~-]{0,4}+[ \t]{0,2}+([^\W_][^.;!?:\r\n]{0,79}+)\Z"
)
_AFTER_COLON = re.compile(r":[ \t]{1,4}+(?=([A-Z][A-Za-z &/-]{2,60}+):(?![/\d]))")
_CAPITAL_AND_COLON = re.compile(r":(?<=[A-Z]:)(?![/\d])")
_CAPITALS_AFTER_WORDS = re.compile(r"(?<=[a-z0-9%][ \t])[A-Z][A-Z &/-]{3,60}\Z")
_CAPITALS_WITHOUT_COLON = re.compile(
    r"\.\)?+[ \t](?=[A-Z]{3})([A-Z][A-Z&/'-]*+(?:[ \t][A-Z&/][A-Z&/'-]*+){0,7}+)(?=[ \t]+(?:[A-Z]?[a-z]|\d{1,2}[.)]))"
)
_REST_OF_LINE_IS_BLANK = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_TEXT_FOLLOWS = re.compile(r"\s*+\S")

_BLANKS = " \t\r"
_RULES = "*_=~-#"  # around a header
_LONGEST_SHORT_LINE = 50  # characters; a sentence does not continue after it
_MOST_BLANKS = 12
_MOST_BLANKS_IN_LOWER_CASE = 7
_LENGTHS_ALONE = range(3, 65)  # of a header without a colon; the user's own may have any length
_KEPT_LABELS = 20_000
_SAMPLE = 20_000  # characters checked for all caps


class _Label(NamedTuple):
    """What is known about a header regardless of its position in the note."""

    name: str
    own: bool = False  # named by the user: always a header
    known: bool = False  # in the table, and not as a sub-heading
    within: frozenset[str] = frozenset()  # sections whose sub-heading it is
    capitals: bool = False
    measurable: bool = False  # a number that follows is its value: "Sodium: 140", "FL/BPD: 81"
    stands_alone: bool = True  # needs no colon


class _Candidate(NamedTuple):
    start: int
    body_start: int
    raw: str
    label: _Label
    numbering: str  # its first character, or ""
    colon: bool
    after_blank: bool  # the first line of the note, a blank line before it, or emphasis
    in_line: bool = False  # in running text, after the end of a sentence


class _Layout(NamedTuple):
    """How the note sets its headers, judged by those in the alias table, or by all if none is."""

    in_capitals: bool
    spaced: bool  # a blank line before each
    all_caps: bool  # so capitals carry no information


class SectionRules:
    """Find sections with the shipped alias table, and with the user's own aliases if a file is given.

    An alias from the file is a header wherever it begins a line, before a colon or alone.
    """

    def __init__(self, extra: Path | None = None) -> None:
        self._aliases = load_aliases(extra)
        self._has_own = extra is not None
        self._lengths_alone = range(LONGEST_HEADER + 1) if extra else _LENGTHS_ALONE
        self._labels: dict[str, _Label] = {}
        first = r"[^\W_]" if extra else r"(?:[A-Z0-9]|[a-z](?=[^:\n]{1,60}+:))"
        self._candidate = re.compile(_CANDIDATE.format(first=first, longest=LONGEST_HEADER - 1), re.VERBOSE)

    def __call__(self, text: str) -> tuple[Section, ...]:
        return cover(len(text), self.headers(text))

    def headers(self, text: str) -> list[Header]:
        candidates = self._candidates(text)
        layout = _layout(text, candidates)
        in_line = self._in_running_text(text, candidates, layout)
        if in_line:
            candidates = sorted([*candidates, *in_line], key=itemgetter(0))
        return _choose(text, candidates, layout)

    def _in_running_text(self, text: str, lines: list[_Candidate], layout: _Layout) -> list[_Candidate]:
        """Find headers of the table after a period, in capitals if the others are; more if line breaks were lost."""
        if "\n" not in text or "\n" not in text.strip():
            return self._in_one_line(text, {each.body_start for each in lines})
        taken = {each.body_start for each in lines}
        known = []
        for colon in _LABEL_END.finditer(text):
            if colon.end() in taken:  # most of them
                continue
            start = max(0, colon.start() - LONGEST_HEADER - 8)
            before = _AFTER_PERIOD.search(text, start, colon.start())
            label = self._in_table(raw := _bare(before[1])) if before else None
            if before and label and (label.own or label.capitals or not layout.in_capitals):
                known.append(_in_line(raw, label, before.start(1), colon.end()))
        if not known:
            return []
        n_lines = sum(each.label.known and _is_known_header(text, each, layout) for each in lines)
        return self._in_one_line(text, taken) if len(known) > n_lines else known

    def _in_one_line(self, text: str, taken: set[int]) -> list[_Candidate]:
        """Find the headers of a note without line breaks: also unknown ones in capitals, and some without a colon."""
        found: dict[int, _Candidate] = {}
        letters: list[_Candidate] = []
        for start, end, written, is_sentence in _before_colons(text):
            raw = _bare(written)
            if end in taken or end in found:
                continue
            if len(raw) < 2:
                if label := self._in_table(raw):
                    letters.append(_in_line(raw, label, start, end))
                continue
            label = self._in_table(raw)
            known = (
                _in_line(raw, label, start, end) if label else self._first_known(raw, start, is_joined=True)
            )
            if known is None and is_sentence and raw.isupper():
                if text[start - 3 : start - 2].isdigit():  # "2. DM MEDICATIONS:" ends a list
                    known = self._last_known(raw, start, end)
                label = self._label(raw, needs_alias=False)
                known = known or (label and _in_line(raw, label, start, end))
            if known is not None:
                found[end] = known
        if "OAP" in "".join(letter.raw for letter in letters):  # "S: cough. O: afebrile. A: URI. P: rest"
            found |= {letter.body_start: letter for letter in letters}
        for match in _CAPITALS_WITHOUT_COLON.finditer(text):
            known = self._first_known(match[1], match.start(1))
            if known is not None:
                found.setdefault(known.body_start, known)
        return list(found.values())

    def _first_known(self, written: str, start: int, *, is_joined: bool = False) -> _Candidate | None:
        """Return the longest header of the table that starts `written`; `is_joined`: before another, "EXAM NECK:"."""
        words = written.split(" ")
        for n_words in range(len(words) - is_joined, 0, -1):
            raw = " ".join(words[:n_words])
            label = self._in_table(raw) if raw else None
            if label is not None and label.capitals and not label.measurable:
                is_next = not is_joined or find_alias(self._aliases, " ".join(words[n_words:])) is not None
                return _in_line(raw, label, start, start + len(raw)) if is_next else None
        return None

    def _last_known(self, written: str, start: int, end: int) -> _Candidate | None:
        for space in _SPACE.finditer(written):
            raw = written[space.end() :]
            label = self._in_table(raw) if raw[:1].isalnum() else None
            if label is not None:
                return _in_line(raw, label, start + space.end(), end)
        return None

    def _in_table(self, raw: str) -> _Label | None:
        """Return the label of a header that is a section in the table or in the user's file."""
        label = self._labels.get(raw) or self._label(raw, needs_alias=True)
        if label is None or not (label.known or label.own):
            return None
        self._labels[raw] = label
        return label

    def _candidates(self, text: str) -> list[_Candidate]:
        candidates = []
        labels = self._labels
        padded = "\n" + text  # so that the first line matches like all others
        for match in self._candidate.finditer(padded):
            numbering, header, colon = match.groups()
            if colon is None and len(header) not in self._lengths_alone:
                continue
            raw = header.rstrip()
            if raw[-1] in _RULES:
                raw = _bare(raw) or raw
            start = match.start()
            after_blank = _is_after_blank(padded, start)
            marks = numbering or ""
            if marks:
                numbering = "##" if marks[:2] == "##" else marks[0]
                if marks[0] in "*_=~" or marks[:2] == "--":
                    numbering, after_blank = "", True
            body_start, has_colon = match.end() - 1, colon is not None
            # Most lines of text end here: alone and not after a blank line, only an alias is a header.
            needs_alias = colon is None and not after_blank
            label = labels.get(raw) or self._label(raw, needs_alias=needs_alias)
            if (label is None or not (has_colon or label.known)) and ("-" in raw or "–" in raw or "—" in raw):
                dash = _DASH.search(raw)
                before = raw[: dash.start()].rstrip() if dash and dash.start() > 0 else ""
                known = self._label(before, needs_alias=True) if before else None
                is_title = label is not None and dash is not None and _FULL_WORD.search(raw, dash.end())
                if dash and known and known.known and not raw[0].islower() and not is_title:
                    raw, label, has_colon = before, known, True
                    body_start = match.start(2) + dash.end() - 1
            if marks and label is not None and label.known and header.rstrip() != raw and not has_colon:
                has_colon = marks[0] in "*_=~-"  # rules on both sides
            if label is None or (raw[0].islower() and not label.own and _continues(padded, start)):
                continue
            labels[raw] = label
            numbering = numbering or ""
            candidates.append(_Candidate(start, body_start, raw, label, numbering, has_colon, after_blank))
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
        is_refused = needs_alias if alias is None else alias.kind is Kind.FIELD
        if raw[0].islower():  # only as a section of the table
            is_refused = alias is None or alias.kind is not Kind.SECTION or len(raw) < 2
        if prose or is_refused:
            return None
        plain = _ASIDE.sub(" ", raw).strip() or raw
        capitals = capitals or plain.isupper()
        measurable = not (capitals and _FULL_WORD.search(plain))
        if alias is not None:
            known, stands_alone = alias.kind is Kind.SECTION, len(raw) in _LENGTHS_ALONE
            return _Label(alias.name, False, known, alias.within, capitals, measurable, stands_alone)
        after_sentence = _LAST_SENTENCE.match(raw)
        is_only_its_end = after_sentence is not None and self._in_table(after_sentence[1]) is not None
        if is_only_its_end or not _reads_like_a_header(plain, capitals=capitals):
            return None
        stands_alone = not measurable and not _SIGNATURE_OR_VALUE.search(raw)
        return _Label(upper_name(raw), capitals=capitals, measurable=measurable, stands_alone=stands_alone)


def _bare(written: str) -> str:
    """Return a header without trailing blanks and rules."""
    raw = written.rstrip()
    while raw and raw[-1] in _RULES:
        raw = raw.rstrip(_RULES).rstrip()
    return raw


def _is_after_blank(padded: str, start: int) -> bool:
    """Whether the line before the line break at `start` is blank or does not exist."""
    before = padded[start - 1 : start]
    if before not in _BLANKS:  # most lines
        return before == "\n"
    return padded[max(0, start - 40) : start].rstrip(_BLANKS)[-1:] in ("", "\n")


def _in_line(raw: str, label: _Label, start: int, end: int) -> _Candidate:
    return _Candidate(start, end, raw, label, numbering="", colon=True, after_blank=True, in_line=True)


def _before_colons(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """Yield possible headers in running text: start, end, as written, whether a sentence ends before it."""
    for match in _AFTER_SENTENCE.finditer(text):
        yield match.start(1), match.end(), match[1], True
    for match in _AFTER_COLON.finditer(text):
        yield match.start(1), match.end(1) + 1, match[1], False
    for match in _CAPITAL_AND_COLON.finditer(text):
        words = _CAPITALS_AFTER_WORDS.search(text, max(0, match.start() - LONGEST_HEADER), match.start())
        if words:
            yield words.start(), match.end(), words[0], False


def _continues(padded: str, start: int) -> bool:
    """Whether the previous line is long and ends within a sentence, so that this one continues it."""
    line = padded[max(0, start - _LONGEST_SHORT_LINE - 1) : start]
    return "\n" not in line and len(line) > _LONGEST_SHORT_LINE and line.rstrip()[-1:] not in ".:;!?"


def _reads_like_a_header(header: str, *, capitals: bool) -> bool:
    """Whether a line outside the table is not a sentence, a name, a row of a table or a level such as L5-S1."""
    if not (capitals or header[0].isupper()) or _COLUMNS.search(header) or _SENTENCE.search(header):
        return False
    if _DIGIT.search(header.split(None, 1)[0]):
        return False
    return capitals or not _NOT_TITLE_CASE.search(header)


def _choose(text: str, candidates: list[_Candidate], layout: _Layout) -> list[Header]:
    """Decide in order, by the layout of the note and the current section."""
    headers: list[Header] = []
    open_section = ""
    is_soap = any(candidate.label.name in _BESIDE_ASSESSMENT for candidate in candidates)
    has_letter = any(candidate.raw == "A" for candidate in candidates)
    is_list = has_letter and not is_soap and _LETTERED.search(text) is not None
    for candidate in candidates:
        label = candidate.label
        if candidate.raw == "A" and is_list:
            continue  # its first specimen
        is_header = _is_known_header if label.known else _is_unknown_header
        if candidate.in_line:
            is_header = _is_header_in_line
            if headers and candidate.start < headers[-1][1]:
                continue  # part of the previous header
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


def _is_header_in_line(text: str, candidate: _Candidate, layout: _Layout) -> bool:  # noqa: ARG001
    label = candidate.label
    if label.known or label.within:
        return label.known
    is_value = label.measurable or _NUMBER_FOLLOWS.match(text, candidate.body_start) is not None
    return label.capitals and not is_value


def _is_known_header(text: str, candidate: _Candidate, layout: _Layout) -> bool:
    _, body_start, _, label, numbering, colon, after_blank, _ = candidate
    if colon:
        # Under headers in capitals, "Pain: better" or "2. Pain: better" is an item of its section.
        if numbering:
            is_item = layout.in_capitals or not after_blank
        else:
            is_item = layout.in_capitals and layout.spaced and not after_blank
        return label.capitals or not is_item or _REST_OF_LINE_IS_BLANK.match(text, body_start) is not None
    if not label.stands_alone:
        return False
    if numbering in ("#", "##"):
        return True
    if numbering:
        return after_blank and label.capitals
    return after_blank or label.capitals or not layout.spaced


def _is_unknown_header(text: str, candidate: _Candidate, layout: _Layout) -> bool:
    _, body_start, _, label, numbering, colon, after_blank, _ = candidate
    if numbering == "##" and not colon:
        return True  # a Markdown heading
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
