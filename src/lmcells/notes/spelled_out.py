"""Spelling out the short forms that a note defines, in a share of its sections.

"Fat mass (FM) fell. Changes in FM ..." is read as "Fat mass (FM) fell. Changes in fat mass ...". So a model sees the
long form in the contexts of the short form, while the short form stays a word in other sections.

A section spells out all mentions of a short form or none: otherwise one would be left by the masked span of its own
long form. The defining mention, "(FM)", stays, and so do mentions joined to a word before them, as in "non-FM" and
"BMI/FM". The choice of sections depends only on the note's id, the section's number and the short form, so it is the
same for any number of workers and any order.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from hashlib import blake2b
from itertools import accumulate

from lmcells.notes.definitions import find_definitions
from lmcells.notes.sections import Header, cover

_HASHES = 1 << 32
_ENDING = re.compile(r"s?(?![A-Za-z0-9+])")  # of a mention: not FM in FM2


def spell_out(text: str, headers: list[Header], *, note_id: str, share: float) -> tuple[str, list[Header]]:
    """Spell out short forms in a share of the sections; return the new text and the headers at their new offsets."""
    definitions = find_definitions(text)
    if not definitions:
        return text, headers
    sections = cover(len(text), headers)
    section_starts = [section.start for section in sections]

    def section_of(start: int, end: int) -> int | None:
        """Return the number of the section whose body contains all of `text[start:end]`."""
        number = bisect_right(section_starts, start) - 1
        return number if sections[number].body_start <= start and end <= sections[number].end else None

    @cache
    def is_spelled_out(section: int, short_form: str) -> bool:
        key = "\0".join((note_id, str(section), short_form)).encode("utf-8", "surrogatepass")
        # Not CRC: the checksums of two sections would differ in the same bits in every note.
        return int.from_bytes(blake2b(key, digest_size=4).digest()) < share * _HASHES

    counts: dict[str, Counter[str]] = {}
    defining = set()
    for each in definitions:
        extent = min(each.start, each.long_start), max(each.end, each.long_end)
        if section_of(*extent) is not None:  # a definition never crosses a header
            counts.setdefault(each.short_form, Counter())[each.long_form.lower()] += 1
            defining.add(each.start)
    if not counts:
        return text, headers
    # The most frequent long form, the first on a tie.
    long_forms = {short_form: count.most_common(1)[0][0] for short_form, count in counts.items()}

    pieces: list[str] = []
    ends, growths = [0], [0]
    for start, end, short_form in _mentions(text, long_forms):
        section = section_of(start, end)
        if section is None or start in defining or not is_spelled_out(section, short_form):
            continue
        written = long_forms[short_form]
        if not written.endswith("s"):  # "adverse events (AEs)" defines a plural
            written += text[start + len(short_form) : end]
        pieces += (text[ends[-1] : start], written)
        ends.append(end)
        growths.append(len(written) - (end - start))
    shifts = list(accumulate(growths))

    def moved(position: int) -> int:
        return position + shifts[bisect_right(ends, position) - 1]

    new_headers = [(moved(start), moved(body_start), raw, name) for start, body_start, raw, name in headers]
    return "".join((*pieces, text[ends[-1] :])), new_headers


def _mentions(text: str, short_forms: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the mentions of short forms, exactly as written or with a plural s; the longest where several match.

    One pattern for all would try each at every position, and a note may define thousands.
    """
    firsts = "".join(sorted({short_form[0] for short_form in short_forms}))  # letters and digits
    lengths = sorted({len(short_form) for short_form in short_forms}, reverse=True)
    done = 0
    for place in re.finditer(rf"(?<![A-Za-z0-9/&+-])(?=[{firsts}])", text):  # not in FFM, A/FM or non-FM
        start = place.start()
        if start < done:
            continue
        for length in lengths:
            short_form = text[start : start + length]
            if short_form in short_forms and (ending := _ENDING.match(text, start + length)):
                done = ending.end()
                yield start, done, short_form
                break
