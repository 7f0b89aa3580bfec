"""Reviews as files: corrected annotations, a site inventory, and a labelled set for `lmcells evaluate --notes`."""

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmcells.evaluation.whole_notes import NONE, SHORT_FORM
from lmcells.expansion import SenseInventory
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.inventory import ALL_SENSES, form_key
from lmcells.integrations.exports import AnnotatedNote
from lmcells.integrations.omop import export_note_nlp
from lmcells.integrations.rows import annotation_row
from lmcells.service.review_decisions import (
    NOT_A_SHORT_FORM,
    UNKNOWN,
    Decision,
    ReviewedMention,
    ReviewedNote,
)

DISPUTED = "disputed"
"""Why a corrected annotation has no long form: reviewers disagree."""
UNCLEAR = "unclear"

SITE_COLUMNS = ("short_form", "long_form", "action", "section", "category")

Where = tuple[tuple[str, str], ...]


# Corrected annotations


def corrected(mention: ReviewedMention) -> Expansion | None:
    """Return a mention as reviewers see it, as it was where nobody decided; None for what is no short form."""
    if mention.settled is None and mention.is_disputed:
        return replace(mention.expansion, long_form=None, probability=None, abstained=DISPUTED)
    answer = mention.answer(mention.settled)
    return None if answer.abstained in (NOT_A_SHORT_FORM, UNKNOWN) else answer


def annotations(notes: Sequence[ReviewedNote], _: SenseInventory) -> Iterator[str]:
    """Yield JSON lines: the rows of `lmcells annotate`, with who decided, when, and with which model and inventory."""
    for each in notes:
        for mention in each.mentions:
            if (expansion := corrected(mention)) is not None:
                yield (
                    json.dumps(annotation_row(each.note, expansion) | _review_of(mention), ensure_ascii=False)
                    + "\n"
                )


def _review_of(mention: ReviewedMention) -> dict[str, Any]:
    decision = mention.settled
    return {
        "reviewed_by": sorted(mention.by_reviewer),
        "reviewed_at": decision.at if decision else None,
        "model": decision.version.model if decision else None,
        "inventory": decision.version.inventory if decision else None,
    }


def note_nlp(notes: Sequence[ReviewedNote], _: SenseInventory) -> Iterator[str]:
    """Yield the corrected annotations as OMOP's NOTE_NLP, in CSV; ids of notes must be whole numbers."""
    annotated = (
        AnnotatedNote(each.note, tuple(filter(None, map(corrected, each.mentions)))) for each in notes
    )
    with tempfile.TemporaryDirectory(prefix="lmcells-reviews-") as folder:  # mode 0700
        path = Path(folder) / "note_nlp.csv"
        export_note_nlp(annotated, path)
        yield path.read_text("utf-8")


# The labelled set


def labelled(notes: Sequence[ReviewedNote], _: SenseInventory) -> Iterator[str]:
    """Yield marked notes as JSON lines: those that a reviewer is done with.

    What nobody decided, or reviewers see differently, is marked as unclear and counts neither way.
    """
    for each in notes:
        if each.done_by:
            marks = [
                {"start": mention.expansion.start, "end": mention.expansion.end, **_mark(mention)}
                for mention in each.mentions
            ]
            row = {"id": each.note.id, "text": each.note.text, "mentions": marks}
            yield json.dumps(row, ensure_ascii=False) + "\n"


def _mark(mention: ReviewedMention) -> dict[str, Any]:
    decision = mention.settled
    if decision is None:
        return {"kind": UNCLEAR}
    return (
        {"kind": NONE} if decision.long_form is None else {"kind": SHORT_FORM, "senses": [decision.long_form]}
    )


# The site inventory


def site_inventory(notes: Sequence[ReviewedNote], inventory: SenseInventory) -> Iterator[str]:
    """Yield the rules that follow from the decisions, as the CSV of a layer over the inventory; see `site_rules`."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(SITE_COLUMNS)
    for short_form, long_form, action, where in site_rules(notes, inventory)[0]:
        writer.writerow(
            (short_form, long_form, action, *(dict(where).get(name, "") for name in SITE_COLUMNS[3:]))
        )
    yield table.getvalue()


def site_rules(
    notes: Sequence[ReviewedNote], inventory: SenseInventory
) -> tuple[list[tuple[str, str, str, Where]], int]:
    """Return rules (short form, long form, add | forbid | pin, where), and how many contradict each other.

    A sense that holds in a section, a category or everywhere is pinned there; one that never holds is forbidden; one
    that the inventory lacks is added. Where reviewers contradict each other, no rule is made.
    """
    meant: dict[tuple[str, Where], dict[str, str]] = {}  # what each reviewer said last
    never: set[tuple[str, str, Where]] = set()
    added: set[tuple[str, str, Where]] = set()
    spelling: dict[tuple[str, tuple[str, ...]], str] = {}  # of two that differ in case or number, the first
    for decision, mention in sorted(_made(notes), key=lambda each: each[0].id):
        where = _where(decision)
        long_form = decision.long_form or ALL_SENSES
        long_form = spelling.setdefault((decision.short_form, form_key(long_form)), long_form)
        if decision.action == "never":
            never.add((decision.short_form, long_form, where))
        elif decision.scope in ("section", "category", "everywhere"):
            meant.setdefault((decision.short_form, where), {})[decision.reviewer] = long_form
        elif decision.long_form and _is_new(decision, mention, inventory):
            added.add((decision.short_form, long_form, ()))
    rules: list[tuple[str, str, str, Where]] = []
    contradicted: set[tuple[str, str, Where]] = set()
    for (short_form, where), said in meant.items():
        claims = {(short_form, long_form, where) for long_form in said.values()}
        if len(claims) > 1 or claims & never:
            contradicted |= claims
        else:
            long_form = claims.pop()[1]
            rules.append((short_form, long_form, "forbid" if long_form == ALL_SENSES else "pin", where))
    contradicted |= added & never
    pinned = {(short_form, long_form, where) for short_form, long_form, _, where in rules}
    rules += [(name, long_form, "forbid", where) for name, long_form, where in never - contradicted]
    rules += [(name, long_form, "add", where) for name, long_form, where in added - contradicted - pinned]
    return sorted(rules), len(contradicted)


def _made(notes: Sequence[ReviewedNote]) -> Iterator[tuple[Decision, ReviewedMention]]:
    """Yield every decision that still holds at the mention where it was made, with that mention."""
    for note in notes:
        for mention in note.mentions:
            for decision in (*mention.by_reviewer.values(), *mention.exclusions):
                if decision.is_made_at(mention.expansion, note.id):
                    yield decision, mention


def _where(decision: Decision) -> Where:
    value = {"section": decision.section, "category": decision.category}.get(decision.scope)
    return ((decision.scope, value),) if value is not None else ()


def _is_new(decision: Decision, mention: ReviewedMention, inventory: SenseInventory) -> bool:
    """Whether a decision names a sense that the inventory lacks, and that is not the note's own definition."""
    expansion = mention.expansion
    if decision.long_form == expansion.long_form and expansion.source != "letters":
        return False
    senses = inventory.by_short_form.get(decision.short_form, ())
    forms = {form_key(form) for sense in senses for form in (sense.long_form, *sense.forms)}
    return form_key(decision.long_form or "") not in forms


Export = Callable[[Sequence[ReviewedNote], SenseInventory], Iterator[str]]
EXPORTS: dict[str, Export] = {
    "annotations.jsonl": annotations,
    "note_nlp.csv": note_nlp,
    "site_inventory.csv": site_inventory,
    "labelled.jsonl": labelled,
}
"""What can be exported, by the name of its file."""
