"""Reviews are kept, joined and exported; nothing gets lost, and what is deleted is gone."""

import csv
import io
import json
import os
import random
import sqlite3
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import pytest
from starlette.testclient import TestClient

from lmcells import Expander
from lmcells.errors import FormatError, InputError
from lmcells.evaluation.marked_notes import read_marked_notes
from lmcells.evaluation.whole_notes import evaluate_notes
from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.layers import extend
from lmcells.integrations.exports import read_annotated
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.service import reviews
from lmcells.service.review_decisions import Action, Choice, Scope, Version, agreement
from lmcells.service.review_files import EXPORTS, add_notes, mentions_of, site_rules, version_of
from lmcells.service.reviews import ReviewStore
from service.serving import SECRET, client

THERAPY, CLOTTING = "physical therapy", "prothrombin time"
TEXT = "PLAN: PT for gait, PT again. XQZ given.\n\nLABS: PT 12."
VERSION = Version("lmcells 1 abc", "def")
NURSING = {"category": "Nursing"}


def mention(start: int, section: str, *, probability: float = 0.7) -> Expansion:
    candidates = (Candidate(THERAPY, probability, "C1"), Candidate(CLOTTING, 1 - probability))
    return Expansion(start, start + 2, "PT", section, THERAPY, probability, "model", candidates)


MENTIONS = [mention(6, "PLAN"), mention(19, "PLAN", probability=0.95), mention(47, "LABS")]


@pytest.fixture
def store(tmp_path: Path) -> ReviewStore:
    return ReviewStore(tmp_path / "reviews.db")


def add(store: ReviewStore, name: str = "1", text: str = TEXT, metadata: dict[str, str] | None = None) -> int:
    return store.add(Note(name, text, NURSING if metadata is None else metadata), MENTIONS, version=VERSION)


def decide(
    store: ReviewStore,
    note: int,
    start: int,
    long_form: str | None = None,
    scope: Scope = "mention",
    *,
    action: Action = "is",
    by: str = "Ana",
) -> None:
    end = start + 2 if action != "done" else start
    choice = Choice(start=start, end=end, long_form=long_form, scope=scope, action=action)
    store.decide(note, choice, reviewer=by, version=VERSION)


def answers(store: ReviewStore, note: int, *, by: str = "Ana") -> list[str | None]:
    """What a reviewer decided, mention by mention; "-" where nothing."""
    return [
        each.by_reviewer[by].long_form if by in each.by_reviewer else "-"
        for each in store.read(note).mentions
    ]


def exported(store: ReviewStore, expander: Expander, name: str) -> str:
    return "".join(EXPORTS[name](store.list_notes(), expander.inventory))


def rules(store: ReviewStore, expander: Expander) -> set[tuple[Any, ...]]:
    return {
        (short_form, long_form, action, *where)
        for short_form, long_form, action, where in site_rules(store.list_notes(), expander.inventory)[0]
    }


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "reviews.db"
    path.touch(0o644)
    add(ReviewStore(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    old = os.umask(0)
    try:
        ReviewStore(tmp_path / "other.db")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "other.db").stat().st_mode) == 0o600


def test_a_note_that_is_added_again_keeps_its_rank(store: ReviewStore) -> None:
    first, second = add(store, "1"), add(store, "2")
    store.rank({first: 1.0, second: 2.0})
    assert add(store, "2") == second
    assert [each.id for each in store.list_notes()] == [second, first]


def test_a_file_that_holds_something_else_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("PT today, and nothing that SQLite would know. " * 50)
    notes.chmod(0o664)
    with pytest.raises(InputError, match="cannot be used: file is not a database"):
        ReviewStore(notes)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE visits (id)")
    with pytest.raises(InputError, match="is not a file of reviews"):
        ReviewStore(tmp_path / "other.db")
    assert stat.S_IMODE(notes.stat().st_mode) == 0o664
    with pytest.raises(InputError, match="cannot be opened: No such file"):
        ReviewStore(tmp_path / "missing" / "reviews.db")


@pytest.mark.parametrize(
    "damage",
    [
        f"UPDATE notes SET mentions = '{SECRET}'",
        f"""UPDATE notes SET mentions = '[{{"{SECRET}": 1}}]'""",
        f"""UPDATE notes SET metadata = '["{SECRET}"]'""",
        f"UPDATE decisions SET scope = '{SECRET}'",
        f"UPDATE decisions SET start = '{SECRET}'",
        "DROP TABLE decisions",
    ],
)
def test_a_damaged_file_is_told_in_one_line(
    expander: Expander, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "reviews.db"
    store = ReviewStore(path)
    add(store)
    decide(store, 1, 6, THERAPY, "everywhere")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(damage)
    with client(expander, reviews=str(path)) as service:
        answer = service.get("/v1/reviews")
        listed = service.get("/v1/reviews/export/labelled.jsonl")
    assert (answer.status_code, listed.status_code) == (503, 503)
    assert "is damaged. Restore" in answer.text or "no such table" in answer.text
    assert SECRET not in answer.text + caplog.text


def test_a_file_that_another_process_keeps_is_told_in_one_line(
    expander: Expander, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reviews.db"
    with client(expander, reviews=str(path)) as service, closing(sqlite3.connect(path)) as other:
        monkeypatch.setattr(reviews, "_BUSY_SECONDS", 0.1)
        other.execute("BEGIN IMMEDIATE")
        answer = service.get("/v1/reviews")
    assert (answer.status_code, answer.json()["detail"][-20:]) == (503, " database is locked.")


@pytest.mark.parametrize(
    ("scope", "here", "elsewhere"),
    [
        ("mention", [CLOTTING, "-", "-"], ["-", "-", "-"]),
        ("note", [CLOTTING, CLOTTING, CLOTTING], ["-", "-", "-"]),
        ("section", [CLOTTING, CLOTTING, "-"], [CLOTTING, CLOTTING, "-"]),
        ("category", [CLOTTING, CLOTTING, CLOTTING], [CLOTTING, CLOTTING, CLOTTING]),
        ("everywhere", [CLOTTING, CLOTTING, CLOTTING], [CLOTTING, CLOTTING, CLOTTING]),
    ],
)
def test_a_decision_reaches_as_far_as_its_scope(
    store: ReviewStore, scope: Scope, here: list[str], elsewhere: list[str]
) -> None:
    note, same_type, other_type = add(store), add(store, "2"), add(store, "3", metadata={})
    decide(store, note, 6, CLOTTING, scope)
    assert answers(store, note) == here
    assert answers(store, same_type) == elsewhere
    assert answers(store, other_type) == (["-"] * 3 if scope == "category" else elsewhere)


def test_what_was_decided_in_the_note_is_stronger_than_a_rule(store: ReviewStore) -> None:
    first, second = add(store), add(store, "2")
    decide(store, first, 6, THERAPY)
    decide(store, second, 6, CLOTTING, "everywhere")
    decide(store, second, 47, THERAPY, "section")
    assert answers(store, first) == [THERAPY, CLOTTING, THERAPY]  # LABS is narrower than everywhere
    decide(store, first, 19, CLOTTING, "note")
    assert answers(store, first) == [CLOTTING, CLOTTING, CLOTTING]


def test_undoing_brings_back_what_was_before(store: ReviewStore) -> None:
    note = add(store)
    decide(store, note, 6, CLOTTING)
    decide(store, note, 6, None, "note")
    assert answers(store, note) == [None, None, None]
    decide(store, note, 6, CLOTTING, by="Ben")
    assert store.undo("Ana") == note
    assert answers(store, note) == [CLOTTING, "-", "-"]
    assert answers(store, note, by="Ben") == [CLOTTING, "-", "-"]
    assert (store.undo("Ana"), store.undo("Ana")) == (note, None)


def test_done_accepts_the_rest_and_is_undone_as_one(store: ReviewStore) -> None:
    note, other = add(store), add(store, "2")
    decide(store, note, 6, CLOTTING)
    decide(store, note, 0, action="done")
    assert answers(store, note) == [CLOTTING, THERAPY, THERAPY]
    assert store.read(note).done_by == {"Ana"}
    assert [each.id for each in store.list_notes(reviewer="Ana")] == [other, note]
    assert store.counts("Ana") == {"n_notes": 2, "n_done": 1}
    store.undo("Ana")
    assert answers(store, note) == [CLOTTING, "-", "-"]
    assert not store.read(note).done_by


def test_a_missed_short_form_is_marked_by_hand(store: ReviewStore) -> None:
    note = add(store)
    choice = Choice(start=29, end=32, long_form="xanthine quinone", scope="mention")
    store.decide(note, choice, reviewer="Ana", version=VERSION)
    marked = store.read(note).mentions[2]
    assert (marked.expansion.short_form, marked.expansion.section) == ("XQZ", "PLAN")
    assert answers(store, note) == ["-", "-", "xanthine quinone", "-"]
    with pytest.raises(InputError, match="overlaps the one at"):
        store.decide(note, replace(choice, start=5, end=8), reviewer="Ana", version=VERSION)
    with pytest.raises(InputError, match="lies outside the note"):
        store.decide(note, replace(choice, start=50, end=900), reviewer="Ana", version=VERSION)


def test_spellings_of_a_long_form_are_one(store: ReviewStore) -> None:
    note = add(store)
    decide(store, note, 6, " Physical  therapies")
    decide(store, note, 6, "Posterior Tibial", by="Ben")
    decide(store, note, 6, "posterior tibial", by="Cem")
    assert answers(store, note)[0] == THERAPY
    assert answers(store, note, by="Cem")[0] == "Posterior Tibial"


def test_agreement_counts_mentions_that_two_decided(store: ReviewStore) -> None:
    note = add(store)
    decide(store, note, 6, THERAPY)
    decide(store, note, 6, THERAPY, by="Ben")
    decide(store, note, 19, THERAPY)
    decide(store, note, 19, None, by="Ben")
    decide(store, note, 47, THERAPY)
    assert agreement(store.list_notes()) == {"n_shared": 2, "n_agreed": 1}
    agreed, disputed, single = store.read(note).mentions
    assert agreed.settled is not None
    assert disputed.settled is None
    assert single.settled is not None
    decide(store, note, 19, None, by="Cem")
    settled = store.read(note).mentions[1].settled
    assert settled is not None
    assert settled.long_form is None  # two against one


def _decide_often(path: Path, note: int, reviewer: str) -> None:
    for number in range(40):
        decide(ReviewStore(path), note, 6, f"sense {number}", by=reviewer)


def test_two_reviewers_at_once_lose_nothing(store: ReviewStore) -> None:
    note = add(store)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for running in [pool.submit(_decide_often, store.path, note, each) for each in ("Ana", "Ben")]:
            running.result()
    for reviewer in ("Ana", "Ben"):
        assert answers(store, note, by=reviewer)[0] == "sense 39"
        for _ in range(40):
            assert store.undo(reviewer) == note
        assert store.undo(reviewer) is None


def test_a_deleted_note_leaves_no_trace(store: ReviewStore) -> None:
    note, kept = add(store, "secret.txt", f"{SECRET}: {TEXT}"), add(store)
    decide(store, note, 6, "Quackenbush syndrome", "everywhere")
    assert SECRET.encode() in store.path.read_bytes()
    store.delete(note)
    content = store.path.read_bytes()
    assert SECRET.encode() not in content
    assert b"Quackenbush" not in content
    assert answers(store, kept) == ["-", "-", "-"]
    with pytest.raises(InputError, match="no note"):
        store.read(note)
    assert sorted(each.name for each in store.path.parent.iterdir()) == ["reviews.db"]


def test_a_new_note_never_gets_the_number_of_a_deleted_one(store: ReviewStore) -> None:
    deleted = add(store, "1")  # a reviewer may still have it open
    store.delete(deleted)
    assert add(store, "2") != deleted


def test_new_answers_keep_the_decisions(store: ReviewStore) -> None:
    note = add(store)
    decide(store, note, 6, CLOTTING)
    pinned = [replace(each, source="pinned") for each in MENTIONS[1:]]  # the first is no longer found
    assert store.add(Note("1", TEXT, NURSING), pinned, version=VERSION) == note
    assert answers(store, note) == [CLOTTING, "-", "-"]
    with pytest.raises(InputError, match="already has a note named '1'"):
        store.add(Note("1", "PT"), [], version=VERSION)


def test_the_site_inventory_adds_forbids_and_pins(store: ReviewStore, expander: Expander) -> None:
    note = add(store)
    decide(store, note, 6, CLOTTING, "section")
    decide(store, note, 19, "posterior tibial")
    decide(store, note, 47, CLOTTING, "everywhere", action="never")
    assert rules(store, expander) == {
        ("PT", CLOTTING, "pin", ("section", "PLAN")),
        ("PT", "posterior tibial", "add"),
        ("PT", CLOTTING, "forbid"),
    }
    written = exported(store, expander, "site_inventory.csv")
    assert written.startswith("short_form,long_form,action,section,category\n")
    decide(store, note, 19, None, "category")
    assert ("PT", "*", "forbid", ("category", "Nursing")) in rules(store, expander)
    assert ("PT", "posterior tibial", "add") not in rules(store, expander)  # decided anew


def test_accepting_an_answer_adds_nothing(store: ReviewStore, expander: Expander) -> None:
    own = Expansion(6, 8, "PT", "PLAN", "pars tensa", 0.99, "definition", (Candidate("pars tensa", 0.99),))
    note = store.add(Note("1", TEXT), [own], version=VERSION)
    decide(store, note, 0, action="done")
    assert rules(store, expander) == set()


def test_rules_on_which_reviewers_differ_are_left_out(store: ReviewStore, expander: Expander) -> None:
    note = add(store)
    decide(store, note, 6, CLOTTING, "section")
    decide(store, note, 6, THERAPY, "section", by="Ben")
    decide(store, note, 47, CLOTTING, "section")
    found, n_contradictions = site_rules(store.list_notes(), expander.inventory)
    assert found == [("PT", CLOTTING, "pin", (("section", "LABS"),))]
    assert n_contradictions == 2


def test_whatever_is_decided_the_site_inventory_can_be_read(
    store: ReviewStore, expander: Expander, tmp_path: Path
) -> None:
    draw = random.Random(0)
    notes = [add(store, str(number), metadata=draw.choice([{}, NURSING])) for number in range(6)]
    long_forms = [None, "Physical Therapy", CLOTTING, "posterior tibial", "Posterior tibials", 'a, "b"']
    for _ in range(60):
        for _ in range(5):
            decide(
                store,
                draw.choice(notes),
                draw.choice([6, 19, 47]),
                draw.choice(long_forms),
                draw.choice(get_args(Scope)),
                action=draw.choice(["is", "is", "never"]),
                by=draw.choice(["Ana", "Ben", "Cem"]),
            )
        if draw.random() < 0.3:
            store.undo("Ana")
        site = tmp_path / "site.csv"
        site.write_text(exported(store, expander, "site_inventory.csv"))
        extend(expander.inventory, site)


def test_the_exported_inventory_changes_the_next_expansion(
    store: ReviewStore, folder: Path, tmp_path: Path, expander: Expander
) -> None:
    text = "PLAN: PT for gait. XQZ given.\n\nLABS: PT 12, warfarin."
    add_notes(store, [Note("1", text, NURSING)], expander)
    (listed,) = store.list_notes()
    before = [each.expansion.long_form for each in listed.mentions]
    assert [each.expansion.short_form for each in listed.mentions] == ["PT", "XQZ", "PT"]
    decide(store, listed.id, 6, "posterior tibial", "section")
    store.decide(listed.id, Choice(start=19, end=22, long_form="xanthine"), reviewer="Ana", version=VERSION)
    (tmp_path / "site.csv").write_text(exported(store, expander, "site_inventory.csv"))
    after = Expander.from_pretrained(
        folder / "model", only_inventory=folder / "inventory.csv", inventory=tmp_path / "site.csv"
    )
    first, added, last = after(text)
    assert (first.long_form, first.source) == ("posterior tibial", "pinned")
    assert [each.long_form for each in added.candidates] == ["xanthine"]
    assert last.long_form == before[2]
    assert version_of(after).inventory != version_of(expander).inventory


def test_corrected_annotations_are_rows_of_annotate(
    store: ReviewStore, tmp_path: Path, expander: Expander
) -> None:
    note = add(store)
    decide(store, note, 6, CLOTTING)
    decide(store, note, 19, None)
    (tmp_path / "a.jsonl").write_text(exported(store, expander, "annotations.jsonl"))
    (tmp_path / "notes.jsonl").write_text(json.dumps({"id": "1", "text": TEXT}))
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(row["start"], row["long_form"], row["source"]) for row in rows] == [
        (6, CLOTTING, "review"),
        (47, THERAPY, "model"),
    ]
    assert rows[0]["reviewed_by"] == ["Ana"]
    assert (rows[0]["model"], rows[0]["inventory"]) == (VERSION.model, VERSION.inventory)
    for row in rows:
        row["note_id"] = "notes/1"
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (annotated,) = read_annotated(tmp_path / "a.jsonl", NoteFiles([tmp_path / "notes.jsonl"]))
    assert [each.source for each in annotated.expansions] == ["review", "model"]
    table = list(csv.DictReader(io.StringIO(exported(store, expander, "note_nlp.csv"))))
    assert [(row["note_id"], row["offset"], row["lexical_variant"]) for row in table] == [
        ("1", "6", "PT"),
        ("1", "47", "PT"),
    ]
    assert "source=review" in table[0]["term_modifiers"]
    add(store, "visit.txt")
    with pytest.raises(FormatError, match=r"'visit\.txt' is not a whole number, .* \(1 of 2 are not\)"):
        exported(store, expander, "note_nlp.csv")


def test_an_excluded_answer_is_none(store: ReviewStore, expander: Expander) -> None:
    note = add(store)
    decide(store, note, 6, THERAPY, "section", action="never")
    rows = [json.loads(row) for row in EXPORTS["annotations.jsonl"](store.list_notes(), expander.inventory)]
    assert [(row["long_form"], row["abstained"]) for row in rows] == [
        (None, "excluded_by_review"),
        (None, "excluded_by_review"),
        (THERAPY, None),
    ]


def test_the_labelled_set_is_scored_by_evaluate(store: ReviewStore, tmp_path: Path, folder: Path) -> None:
    note, _ = add(store), add(store, "not done")
    decide(store, note, 6, CLOTTING)
    decide(store, note, 6, THERAPY, by="Ben")  # disputed
    decide(store, note, 19, None)
    decide(store, note, 0, action="done")
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(EXPORTS["labelled.jsonl"](store.list_notes(), None)))  # type: ignore[arg-type]
    (marked,) = read_marked_notes(path, report=ReadReport())
    assert [(each.kind, each.senses) for each in marked.marks] == [
        ("unclear", ()),
        ("none", ()),
        ("short_form", (THERAPY,)),
    ]
    (score,) = evaluate_notes([str(folder / "model")], notes=path, inventory=folder / "inventory.csv")
    assert score.n_notes == 1
    assert score.counts["short_forms"] == 1


def test_the_most_useful_notes_come_first(store: ReviewStore, expander: Expander) -> None:
    notes = [
        Note("sure", "PMH: multiple sclerosis (MS)."),
        Note("one unknown form", "The XQZ was seen."),
        Note("frequent unknown form", "The VKW was seen."),
        *(Note(f"with the same {number}", "The VKW is multiple sclerosis (MS).") for number in range(9)),
        Note("many unknown forms", "The VKW, the XQZ and the QQR were seen."),
    ]
    assert add_notes(store, notes, expander) == len(notes)
    names = [each.note.id for each in store.list_notes()]
    assert names[0] == "many unknown forms"
    assert names.index("frequent unknown form") < names.index("one unknown form") < names.index("sure")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The XQZ was seen, two XQZs in all.", ["XQZ", "XQZs"]),
        ("CHEST XQZ VIEW: clear today.", []),  # a heading within a line
        ("XQZ AND QQR WERE SEEN", []),  # capitals tell nothing
        ("She is in NY, stage IV, DO call.", []),
        ("The XQZ-12 and a.XQZ and XQZ/b", []),
    ],
)
def test_unknown_forms_are_what_looks_short(text: str, found: list[str], expander: Expander) -> None:
    mentions = mentions_of(Note("1", text), [], expander)
    assert [each.short_form for each in mentions] == found
    assert all(text[each.start : each.end] == each.short_form for each in mentions)


def test_routes_need_the_token_and_a_file(expander: Expander, tmp_path: Path) -> None:
    with client(expander) as without:
        assert without.get("/v1/reviews").status_code == 404
    with client(expander, reviews=str(tmp_path / "r.db"), tokens=("sesame",)) as guarded:
        for path in ("/v1/reviews", "/v1/reviews/notes/1", "/v1/reviews/export/labelled.jsonl"):
            assert guarded.get(path).status_code == 401
        assert guarded.delete("/v1/reviews/notes/1").status_code == 401
        assert guarded.post("/v1/reviews/undo", json={"reviewer": "Ana"}).status_code == 401
        allowed = guarded.get("/v1/reviews", headers={"Authorization": "Bearer sesame"})
        assert allowed.json()["n_notes"] == 0


def test_a_reviewer_sees_what_others_decided_only_after_deciding(expander: Expander, tmp_path: Path) -> None:
    with client(expander, reviews=str(tmp_path / "r.db")) as service:
        note = service.post("/v1/reviews/notes", json={"name": "1", "text": TEXT}).json()
        first = note["expansions"][0]
        choice = {"start": first["start"], "end": first["end"], "long_form": CLOTTING}
        address = f"/v1/reviews/notes/{note['id']}/decisions"
        service.post(address, json=choice | {"reviewer": "Ana"})
        before = service.get(f"/v1/reviews/notes/{note['id']}?reviewer=Ben").json()["expansions"][0]
        assert (before["mine"], before["others"]) == (None, [])
        after = service.post(address, json=choice | {"reviewer": "Ben", "long_form": None}).json()
        assert [each["reviewer"] for each in after["expansions"][0]["others"]] == ["Ana"]
        assert after["expansions"][0]["abstained"] == "not_a_short_form"
        listed = service.get("/v1/reviews?reviewer=Ben").json()
        assert (listed["n_shared"], listed["n_agreed"], listed["notes"][0]["n_disputed"]) == (1, 0, 1)
        for wrong in (
            choice,
            choice | {"reviewer": " "},
            choice | {"reviewer": "A", "scope": "galaxy"},
            choice | {"reviewer": "A", "long_form": "*"},
            choice | {"reviewer": "A", "long_form": None, "action": "never"},  # it would forbid all
        ):
            assert service.post(address, json=wrong).status_code == 422
        assert (
            service.post("/v1/reviews/notes/99/decisions", json=choice | {"reviewer": "A"}).status_code == 422
        )
        assert service.get("/v1/reviews/export/passwords").status_code == 404
        for name, text in (("half", "PT \ud83d"), ("half \ud83d", "PT"), ("long", "PT " * 100_000)):
            body = json.dumps({"name": name, "text": text})
            answer = service.post(
                "/v1/reviews/notes", content=body, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 422


@pytest.fixture
def service(expander: Expander, tmp_path: Path) -> Iterator[TestClient]:
    with client(expander, reviews=str(tmp_path / "r.db")) as running:
        yield running


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_page_of_another_site_cannot_send_a_note(service: TestClient, content_type: str | None) -> None:
    """Without asking first, browsers send other sites only these types."""
    headers = {"Content-Type": content_type} if content_type else {}
    body = json.dumps({"name": "planted", "text": TEXT}).encode()
    answer = service.post("/v1/reviews/notes", content=body, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (
        415,
        "Content-Type: not supported; allowed: application/json.",
    )
    assert service.get("/v1/reviews").json()["n_notes"] == 0


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"name": "1", "text": SECRET}).encode("utf-16"),  # its values cannot be counted
        json.dumps({"name": "1", "text": "PT", "metadata": {SECRET: 1}}).encode(),
        json.dumps({"name": "1", "text": "PT", SECRET: 1}).encode(),
        json.dumps({str(number): SECRET for number in range(100)}).encode(),
        b'{"name": "1", "text": "' + SECRET.encode(),
        b"[" * 100_000,
        b'{"text": ' + b"9" * 10_000 + b"}",
    ],
)
def test_a_wrong_body_is_refused_in_one_line_that_quotes_nothing(service: TestClient, content: bytes) -> None:
    answer = service.post("/v1/reviews/notes", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]
    assert SECRET not in answer.text


@pytest.mark.parametrize("number", ["9223372036854775808", "9" * 40, "-1"])
def test_a_number_that_no_note_can_have_is_refused(service: TestClient, number: str) -> None:
    address = f"/v1/reviews/notes/{number}"
    done = {"reviewer": "Ana", "action": "done"}
    for answer in (
        service.get(address),
        service.delete(address),
        service.post(f"{address}/decisions", json=done),
    ):
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith("note_id: ")


def test_the_section_of_a_mention_is_found_among_many_in_short_time(expander: Expander) -> None:
    n_sections = 12_000
    note = Note("1", "Plan:\nqq QZX qq\n" * n_sections)
    start = time.perf_counter()
    mentions = mentions_of(note, [], expander)
    assert {each.section for each in mentions} == {"PLAN"}
    assert time.perf_counter() - start < 4


def test_the_schema_describes_the_bodies_of_reviews(service: TestClient) -> None:
    schema = service.get("/openapi.json").json()
    for path in ("/notes", "/notes/{note_id}/decisions", "/undo"):
        content = schema["paths"][f"/v1/reviews{path}"]["post"]["requestBody"]["content"]
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert schema["components"]["schemas"][name]["properties"]["name" if path == "/notes" else "reviewer"]
