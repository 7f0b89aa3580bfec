"""The sections that medSpaCy found in a document, as an expander takes them."""

from typing import Any


def medspacy_sections(doc: Any) -> list[dict[str, Any]] | None:
    """Return the sections of `doc._.sections`; None where no sectionizer ran, or another one than medSpaCy's.

    Its spans are pairs of token numbers. Text before the first header is a section without a title.
    """
    found = doc._.sections if doc.has_extension("sections") else None
    if not found or not all(hasattr(each, "section_span") and hasattr(each, "title_span") for each in found):
        return None
    sections = []
    for each in found:
        start, end = _characters(doc, *each.section_span)
        title_start, title_end = _characters(doc, *each.title_span)
        title = doc.text[title_start:title_end].strip().rstrip(":").strip()
        header = title or (str(each.category).replace("_", " ") if each.category else None)
        sections.append(
            {
                "start": start,
                "end": end,
                "header": header,
                "body_start": min(max(start, title_end), end) if title else start,
            }
        )
    return sorted(sections, key=lambda section: (section["start"], section["end"]))


def _characters(doc: Any, first: int, last: int) -> tuple[int, int]:
    """Token numbers -> offsets; an empty span lies where its first token would."""
    start = doc[first].idx if first < len(doc) else len(doc.text)
    return start, doc[last - 1].idx + len(doc[last - 1]) if last > first else start
