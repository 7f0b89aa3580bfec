"""Reviewers' decisions, in a SQLite file that only its owner can read.

    store = ReviewStore(Path("reviews.db"))
    note_id = store.add(note, mentions, version=version)
    store.decide(note_id, Choice(start=33, end=35, long_form="physical therapy", scope="section"), reviewer="Ana", ...)
    store.read(note_id)             # the note, its mentions, and each reviewer's decisions about them
    store.undo("Ana")

A decision is a row that is never changed: a new opinion is a new row, and undoing only marks a row. So two reviewers,
in two processes, never lose work. A decision says what one mention means and, by its scope, what others mean.
"""

import json
import os
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmcells.errors import InputError
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.inventory import form_key
from lmcells.notes.note import Note, Section
from lmcells.notes.section_styles import section_finder
from lmcells.service.review_decisions import Choice, Decision, ReviewedNote, Version, join

_APPLICATION = 0x6C6D6372  # "lmcr", in the header of our files
_BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE notes (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, text TEXT NOT NULL, metadata TEXT NOT NULL,
  mentions TEXT NOT NULL, usefulness REAL NOT NULL, model TEXT NOT NULL, inventory TEXT NOT NULL, added TEXT NOT NULL
);
CREATE TABLE decisions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, batch INTEGER NOT NULL,
  note INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
  start INTEGER NOT NULL, end INTEGER NOT NULL, short_form TEXT NOT NULL, section TEXT, category TEXT,
  action TEXT NOT NULL, long_form TEXT, scope TEXT NOT NULL,
  reviewer TEXT NOT NULL, at TEXT NOT NULL, model TEXT NOT NULL, inventory TEXT NOT NULL, undone TEXT
);
CREATE INDEX decisions_of_note ON decisions (note);
CREATE INDEX decisions_of_short_form ON decisions (short_form);
"""
find_sections = section_finder("auto")
_DONE = "SELECT note FROM decisions WHERE action = 'done' AND undone IS NULL AND reviewer = ?"


class ReviewsError(InputError):
    """The file of reviews is damaged, kept by another process, or has no room on its disk."""


class ReviewStore:
    """The notes to review and the decisions about them. Threads and processes may share a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            with self._open() as file:
                if not file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                    for statement in (f"PRAGMA application_id = {_APPLICATION}", *_SCHEMA.split(";")):
                        file.execute(statement)
                elif file.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                    raise InputError(f"--reviews {path} is not a file of reviews. Give one, or a new name.")
            path.chmod(0o600)  # it may have existed, or be created under another umask
        except OSError as error:
            raise InputError(f"--reviews {path} cannot be opened: {error.strerror}. Give another.") from None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection with a transaction that has the write lock."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as file:
                file.row_factory = sqlite3.Row
                file.execute("PRAGMA foreign_keys = ON")
                file.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
                file.execute("BEGIN IMMEDIATE")
                yield file
                file.execute("COMMIT")  # otherwise closing rolls back
        except sqlite3.DatabaseError as error:
            raise ReviewsError(f"--reviews {self.path} cannot be used: {error}.") from None

    # Notes

    def add(self, note: Note, mentions: Sequence[Expansion], *, version: Version) -> int:
        """Store a note, and return its number; a known one gets new mentions, and keeps its decisions and its rank."""
        found = json.dumps([each.to_dict() for each in mentions], ensure_ascii=False)
        values = {"metadata": json.dumps(dict(note.metadata), ensure_ascii=False), "mentions": found}
        values |= version._asdict() | {"usefulness": 0.0, "added": _now()}
        with self._open() as file:
            known = file.execute("SELECT text FROM notes WHERE name = ?", (note.id,)).fetchone()
            if known and known["text"] != note.text:
                raise InputError(
                    f"{self.path} already has a note named {note.id!r} with another text. Rename the note, or "
                    "delete the other."
                )
            changed = ", ".join(f"{name} = excluded.{name}" for name in values if name != "usefulness")
            on_conflict = f"ON CONFLICT (name) DO UPDATE SET {changed} RETURNING id"
            stored = _insert(file, "notes", {"name": note.id, "text": note.text, **values}, on_conflict)
            return int(stored.fetchone()["id"])

    def rank(self, usefulness: dict[int, float]) -> None:
        rows = [(value, note_id) for note_id, value in usefulness.items()]
        with self._open() as file:
            file.executemany("UPDATE notes SET usefulness = ? WHERE id = ?", rows)

    def delete(self, note_id: int) -> None:
        """Delete a note: its text and every decision made in it."""
        with self._open() as file:
            if file.execute("DELETE FROM notes WHERE id = ?", (note_id,)).rowcount == 0:
                raise _no_note(note_id)

    def read(self, note_id: int) -> ReviewedNote:
        """Return a note with everybody's decisions about its mentions."""
        with self._open() as file:
            return _read(file, note_id)

    def list_notes(
        self, *, reviewer: str = "", offset: int = 0, limit: int = -1, only_decided: bool = False
    ) -> list[ReviewedNote]:
        """Return notes: all, or those with a decision.

        The most useful to review come first, those that the reviewer has finished come last.
        """
        decided_in = "WHERE id IN (SELECT note FROM decisions WHERE undone IS NULL)" if only_decided else ""
        with self._open() as file:
            rows = file.execute(
                f"SELECT * FROM notes {decided_in} ORDER BY id IN ({_DONE}), usefulness DESC, id LIMIT ? OFFSET ?",
                (reviewer, limit, offset),
            ).fetchall()
            decisions = _decisions(file)
        in_note: dict[int, list[Decision]] = defaultdict(list)
        rules: list[Decision] = []
        for each in decisions:
            (in_note[each.note] if each.scope in ("mention", "note") else rules).append(each)
        return [_reviewed(row, [*in_note[row["id"]], *rules]) for row in rows]

    def counts(self, reviewer: str) -> dict[str, int]:
        """Return the number of notes, and of those that a reviewer has finished."""
        with self._open() as file:
            counted = f"SELECT COUNT(*) AS n_notes, COUNT(CASE WHEN id IN ({_DONE}) THEN 1 END) AS n_done FROM notes"
            return dict(file.execute(counted, (reviewer,)).fetchone())

    # Decisions

    def decide(self, note_id: int, choice: Choice, *, reviewer: str, version: Version) -> None:
        """Store a choice; "done" accepts every answer of the note that the reviewer has not decided."""
        with self._open() as file:
            seen = _read(file, note_id)
            choices = [choice]
            if choice.action == "done":
                left = [each for each in seen.mentions if reviewer not in each.by_reviewer]
                answers = [each.answer(None) for each in left]
                choices = [Choice(start=0, end=0, long_form=None, action="done")] + [
                    Choice(start=each.start, end=each.end, long_form=each.long_form)
                    for each in answers
                    if each.long_form is not None
                ]
            else:
                _check_span(choice, seen)
            batch = file.execute("SELECT COALESCE(MAX(batch), 0) + 1 FROM decisions").fetchone()[0]
            mention_at = {
                (each.expansion.start, each.expansion.end): each.expansion for each in seen.mentions
            }
            category = seen.note.metadata.get("category")
            for each in choices:
                mention = mention_at.get((each.start, each.end))
                long_form = each.long_form if each is not choice else _spelling(choice, mention, seen)
                short_form = mention.short_form if mention else seen.note.text[each.start : each.end]
                section = mention.section if mention else section_at(find_sections(seen.note), each.start)
                where = {"short_form": short_form, "section": section, "category": category}
                made = asdict(each) | where | {"long_form": long_form} | version._asdict()
                row = {"batch": batch, "note": note_id, "reviewer": reviewer, "at": _now(), **made}
                _insert(file, "decisions", row)

    def undo(self, reviewer: str) -> int | None:
        """Undo a reviewer's last choice; return its note, None if there is no choice."""
        with self._open() as file:
            last = file.execute(
                "SELECT batch, note FROM decisions WHERE reviewer = ? AND undone IS NULL ORDER BY id DESC LIMIT 1",
                (reviewer,),
            ).fetchone()
            if last is None:
                return None
            file.execute("UPDATE decisions SET undone = ? WHERE batch = ?", (_now(), last["batch"]))
            return int(last["note"])


def _insert(
    file: sqlite3.Connection, table: str, row: dict[str, Any], on_conflict: str = ""
) -> sqlite3.Cursor:
    places = ", ".join("?" * len(row))
    return file.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places}) {on_conflict}", tuple(row.values())
    )


def _check_span(choice: Choice, seen: ReviewedNote) -> None:
    span = choice.start, choice.end
    if not 0 <= choice.start < choice.end <= len(seen.note.text):
        raise InputError(f"the mention {span} lies outside the note ({len(seen.note.text):,} characters).")
    for each in seen.mentions:
        other = each.expansion.start, each.expansion.end
        if span != other and other[0] < choice.end and choice.start < other[1]:
            raise InputError(f"the mention {span} overlaps the one at {other}. Decide about that one.")


def _spelling(choice: Choice, mention: Expansion | None, seen: ReviewedNote) -> str | None:
    """Return a long form in the spelling of the senses or of earlier decisions."""
    if choice.long_form is None:
        return None
    known = [each.long_form for each in mention.candidates] if mention else []
    known += [each.long_form or "" for one in seen.mentions for each in one.by_reviewer.values()]
    key = form_key(choice.long_form)
    return next((each for each in known if form_key(each) == key), choice.long_form.strip())


def section_at(sections: Sequence[Section], offset: int) -> str | None:
    n_before = bisect_right(sections, offset, key=lambda each: each.start)
    return sections[n_before - 1].name or None if n_before else None


def _no_note(note_id: int) -> InputError:
    return InputError(f"there is no note {note_id} in the reviews. It may have been deleted.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _decisions(file: sqlite3.Connection, note_id: int | None = None) -> list[Decision]:
    """Return the decisions about a note: those made in it, and rules made elsewhere. Without a note, all decisions."""
    about = "" if note_id is None else "AND (note = ? OR scope NOT IN ('mention', 'note'))"
    rows = file.execute(
        f"SELECT * FROM decisions WHERE undone IS NULL {about} ORDER BY id",
        () if note_id is None else (note_id,),
    )
    return [Decision(**{name: row[name] for name in Decision.__dataclass_fields__}) for row in rows]


def _read(file: sqlite3.Connection, note_id: int) -> ReviewedNote:
    row = file.execute("SELECT * FROM notes WHERE id = ?", (note_id,)).fetchone()
    if row is None:
        raise _no_note(note_id)
    return _reviewed(row, _decisions(file, note_id))


def _reviewed(row: sqlite3.Row, decisions: Sequence[Decision]) -> ReviewedNote:
    try:
        mentions = [Expansion.from_dict(each) for each in json.loads(row["mentions"])]
        note = Note(row["name"], row["text"], json.loads(row["metadata"]))
        return join(row["id"], note, mentions, decisions)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        problem = f"note {row['id']} in the reviews, or a decision about it, is damaged"
        raise ReviewsError(f"{problem}. Restore the file of reviews from a copy.") from None
