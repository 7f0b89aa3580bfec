"""A document given as sections -> one text, and the spans of its sections."""

from collections.abc import Iterable

from lmcells.notes.note import Section


def join_sections(parts: Iterable[tuple[str | None, str]]) -> tuple[str, tuple[Section, ...]]:
    """Write (header, text) pairs one under another; the sections cover the result exactly.

    Returns ("", ()) when no section has any text: headers alone are an empty document.
    """
    pieces: list[str] = []
    sections: list[Section] = []
    position, has_text = 0, False
    for header, text in parts:
        written = header.strip() if header else ""
        bare = written.rstrip(": \t")
        title = (written if written.endswith(":") else written + ":") + "\n" if bare else ""
        start, body_start = position, position + len(title)
        position = body_start + len(text) + 1
        pieces += (title, text, "\n")
        sections.append(Section(bare or None, " ".join(bare.upper().split()), start, body_start, position))
        has_text = has_text or not (text == "" or text.isspace())
    return ("".join(pieces), tuple(sections)) if has_text else ("", ())
