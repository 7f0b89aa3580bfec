"""Reviewing in a real browser, from the empty file to the inventory that changes the next expansion."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Route, expect

from lmcells import Expander
from lmcells.evaluation.marked_notes import read_marked_notes
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.service.review_files import add_notes
from lmcells.service.reviews import ReviewStore
from service.serving import SECRET, in_thread

FIRST = "PLAN: PT for gait. XQZ given.\n\nLABS: PT 12, warfarin."
SECOND = "PLAN: PT for stairs.\n\nPMH: multiple sclerosis (MS)."
NOTES = [
    Note("1", FIRST, {"category": "Nursing"}),
    Note("2", SECOND, {"category": "Nursing"}),
    Note("3", "PMH: multiple sclerosis (MS)."),
]


@pytest.fixture
def store(tmp_path: Path) -> ReviewStore:
    return ReviewStore(tmp_path / "reviews.db")


@pytest.fixture
def url(expander: Expander, store: ReviewStore) -> Iterator[str]:
    with in_thread(expander, reviews=str(store.path), reviewer="Ana") as running:
        yield running


def marks(page: Page) -> Locator:
    return page.locator("#note .mark")


def decided(page: Page) -> list[str]:
    return page.locator("#note .mark.reviewed").evaluate_all("all => all.map(each => each.dataset.tip)")


def open_queue(page: Page, store: ReviewStore, expander: Expander) -> None:
    add_notes(store, NOTES, expander)
    page.reload()
    page.locator("#notes button").first.click()
    expect(marks(page)).to_have_count(3)


def export(page: Page, name: str) -> str:
    page.click("#open-export")
    with page.expect_download() as started:
        page.click(f"[data-export='{name}']")
    page.locator("#exporting [data-close]").click()
    assert started.value.suggested_filename == name
    return Path(started.value.path()).read_text()


def test_from_the_empty_file_to_the_next_expansion(
    page: Page, store: ReviewStore, folder: Path, tmp_path: Path
) -> None:
    expect(page.locator("#reviewer")).to_have_value("Ana")
    expect(page.locator("#progress")).to_have_text("0 of 0 notes done")
    page.fill("#text", FIRST)
    page.keyboard.press("Control+Enter")
    expect(marks(page)).to_have_count(2)
    assert store.counts("Ana")["n_notes"] == 0  # nothing is kept until something is decided
    marks(page).first.click()
    page.keyboard.press("s")
    expect(page.locator(".scopes [value=section]")).to_be_checked()
    page.get_by_label("Another sense of PT").fill("posterior tibial")
    page.keyboard.press("Enter")
    expect(marks(page)).to_have_count(3)  # and unknown forms are shown
    expect(page.locator("#note .mark.reviewed")).to_have_text(["PT"])
    expect(page.locator("#details h2")).to_have_text("XQZ")
    page.get_by_label("Another sense of XQZ").fill("xanthine")
    page.keyboard.press("Enter")
    expect(page.locator("#note .mark.reviewed")).to_have_count(2)
    page.locator("#note .mark").last.click()
    page.keyboard.press("2")
    expect(page.locator("#note .mark.reviewed")).to_have_count(3)
    expect(page.locator("#status")).to_have_text("No doubt is left in this note.")
    rows = list(csv.DictReader(io.StringIO(written := export(page, "site_inventory.csv"))))
    assert [(row["short_form"], row["long_form"], row["action"], row["section"]) for row in rows] == [
        ("PT", "posterior tibial", "pin", "PLAN"),
        ("XQZ", "xanthine", "add", ""),
    ]
    (tmp_path / "site.csv").write_text(written)
    expander = Expander.from_pretrained(
        folder / "model", only_inventory=folder / "inventory.csv", inventory=tmp_path / "site.csv"
    )
    found = expander("PLAN: PT and XQZ twice weekly")
    assert (found[0].long_form, found[0].source) == ("posterior tibial", "pinned")
    assert found[1].candidates[0].long_form == "xanthine"


def test_a_queue_is_reviewed_by_keyboard_alone(page: Page, store: ReviewStore, expander: Expander) -> None:
    open_queue(page, store, expander)
    expect(page.locator("#notes button").first).to_contain_text("doubts")
    expect(page.locator("#notes .name")).to_have_text(["1", "2", "3"])
    expect(marks(page).first).to_be_focused()
    page.keyboard.press("n")
    doubts = page.locator("#note .mark.unsure, #note .mark.doubtful, #note .mark.abstained")
    n_doubts = doubts.count()
    expect(page.locator("#details h2")).to_have_text("PT")
    page.keyboard.press("t")
    expect(page.locator(".scopes [value=category]")).to_be_checked()
    expect(page.locator(".scopes")).to_contain_text("always in Nursing notes")
    page.keyboard.press("1")
    expect(page.locator("#note .mark.reviewed")).to_have_count(2)  # both PT
    expect(page.locator(".scopes [value=mention]")).to_be_checked()
    expect(page.locator("#details h2")).to_have_text("XQZ")
    page.keyboard.press("0")
    expect(page.locator("#note .mark.none")).to_have_text("XQZ")
    expect(page.locator("#done")).to_be_focused()
    page.keyboard.press("Enter")  # the rest is right
    expect(page.locator("#notes [aria-current]")).to_contain_text("2")
    expect(page.locator("#progress")).to_have_text("1 of 3 notes done")
    expect(page.locator("#note .mark.reviewed")).to_have_text(["PT"])  # by the rule for nursing notes
    marks(page).first.focus()
    page.keyboard.press("u")  # done, in the first note
    expect(page.locator("#progress")).to_have_text("0 of 3 notes done")
    expect(page.locator("#notes [aria-current]")).to_contain_text("1")
    for n_left in (1, n_doubts):
        marks(page).first.focus()
        page.keyboard.press("u")
        expect(doubts).to_have_count(n_left)
    assert decided(page) == []
    marks(page).first.focus()
    page.keyboard.press("u")
    expect(page.locator("#status")).to_have_text("There is nothing to undo.")


def test_a_sense_is_excluded_for_good(page: Page, store: ReviewStore, expander: Expander) -> None:
    open_queue(page, store, expander)
    marks(page).first.click()
    sense = page.locator("#details .senses .name").first.inner_text()
    page.keyboard.press("Shift+Digit1")
    expect(page.locator("#details .choose.gone .name")).to_have_text(sense)
    expect(page.locator("#details .answer")).to_have_text("No answer")
    expect(page.locator("#details .facts")).to_contain_text("its sense was excluded")
    assert f"PT,{sense},forbid,," in export(page, "site_inventory.csv")


def test_a_missed_short_form_is_selected_and_marked(
    page: Page, store: ReviewStore, expander: Expander
) -> None:
    open_queue(page, store, expander)
    page.evaluate(
        """() => {
            const walker = document.createTreeWalker(document.getElementById("note"), NodeFilter.SHOW_TEXT);
            while (walker.nextNode()) {
                const at = walker.currentNode.data.indexOf("gait");
                if (at >= 0) getSelection().setBaseAndExtent(walker.currentNode, at - 1, walker.currentNode, at + 4);
            }
        }"""
    )
    page.get_by_role("button", name="Mark the selected text").click()
    expect(page.locator("#details h2")).to_have_text("gait")
    page.keyboard.type("gait analysis")
    page.keyboard.press("Enter")
    expect(marks(page)).to_have_count(4)
    assert decided(page) == ["gait analysis, decided by you"]
    assert json.loads(export(page, "annotations.jsonl").partition("\n")[0])["start"] == 6


def test_two_reviewers_see_where_they_differ(
    page: Page, browser: Browser, url: str, store: ReviewStore, expander: Expander
) -> None:
    open_queue(page, store, expander)
    marks(page).first.click()
    page.keyboard.press("1")
    expect(page.locator("#note .mark.reviewed")).to_have_count(1)
    second = browser.new_page()
    second.goto(url)
    second.fill("#reviewer", "Ben")
    second.keyboard.press("Tab")
    second.locator("#notes button").first.click()
    expect(marks(second)).to_have_count(3)
    assert decided(second) == []  # Ben decides for himself
    marks(second).first.click()
    expect(second.locator("#details .decisions")).to_have_count(0)
    second.keyboard.press("2")
    expect(second.locator("#agreement")).to_have_text("Reviewers agree on 0 of 1 mentions (0 %).")
    marks(second).first.click()
    expect(second.locator("#details .decisions .differs")).to_contain_text("Ana")
    second.close()
    page.reload()
    page.locator("#notes button").first.click()
    expect(page.locator("#notes [aria-current]")).to_contain_text("1 disputed")
    marks(page).first.click()
    expect(page.locator("#details .decisions .differs")).to_contain_text("Ben")


def test_a_labelled_set_is_exported(
    page: Page, store: ReviewStore, expander: Expander, tmp_path: Path
) -> None:
    open_queue(page, store, expander)
    page.click("#done")
    expect(page.locator("#progress")).to_have_text("1 of 3 notes done")
    (tmp_path / "labelled.jsonl").write_text(export(page, "labelled.jsonl"))
    (marked,) = read_marked_notes(tmp_path / "labelled.jsonl", report=ReadReport())
    assert marked.text == FIRST
    assert [each.kind for each in marked.marks].count("short_form") == 2
    assert export(page, "note_nlp.csv").count("source=review") == 2


def test_an_export_that_cannot_be_made_says_why(page: Page, store: ReviewStore, expander: Expander) -> None:
    add_notes(store, [Note("visit.txt", FIRST)], expander)
    page.click("#open-export")
    page.click("[data-export='note_nlp.csv']")
    expect(page.locator("#export-problem")).to_contain_text("is not a whole number, which OMOP needs")


def test_a_note_is_deleted_with_its_decisions(page: Page, store: ReviewStore, expander: Expander) -> None:
    add_notes(store, [Note("secret", f"PLAN: {SECRET} in PT.")], expander)
    page.reload()
    page.locator("#notes button").first.click()
    marks(page).first.click()
    page.keyboard.press("1")
    expect(page.locator("#note .mark.reviewed")).to_have_count(1)
    page.click("#delete-note")
    page.locator("#deletion [data-close]").click()
    expect(marks(page)).to_have_count(1)
    page.click("#delete-note")
    page.click("#confirm-deletion")
    expect(page.locator("#progress")).to_have_text("0 of 0 notes done")
    assert SECRET not in page.content()
    assert SECRET.encode() not in store.path.read_bytes()


def test_an_edit_of_a_reviewed_note_is_another_note(
    page: Page, store: ReviewStore, expander: Expander
) -> None:
    open_queue(page, store, expander)
    page.click("#tab-write")
    page.fill("#text", "LABS: PT 14")
    page.keyboard.press("Control+Enter")
    expect(marks(page)).to_have_count(1)
    expect(page.locator("#delete-note")).to_be_hidden()
    marks(page).first.click()
    page.keyboard.press("1")
    expect(page.locator("#progress")).to_have_text("0 of 4 notes done")
    assert store.read(1).note.text == FIRST


def test_files_are_kept_once_something_is_decided(page: Page, store: ReviewStore, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"PLAN: PT for gait, {name}\r\n")
    page.set_input_files("#file", [tmp_path / "a.txt", tmp_path / "b.txt"])
    expect(page.locator("#notes .name")).to_have_text(["a.txt", "b.txt"])
    expect(marks(page)).to_have_count(1)
    marks(page).first.click()
    page.keyboard.press("1")
    expect(page.locator("#progress")).to_have_text("0 of 1 notes done")
    expect(page.locator("#notes .name")).to_have_text(["b.txt", "a.txt"])
    expect(page.locator("#notes [aria-current]")).to_contain_text("a.txt")
    (kept,) = store.list_notes()
    assert (kept.note.id, kept.note.text) == ("a.txt", "PLAN: PT for gait, a.txt\r\n")
    page.locator("#notes button").first.click()
    expect(page.locator("#note")).to_contain_text("b.txt")
    page.click("#done")
    expect(page.locator("#progress")).to_have_text("1 of 2 notes done")


def test_someone_must_review(page: Page, store: ReviewStore, expander: Expander) -> None:
    open_queue(page, store, expander)
    page.fill("#reviewer", "")
    page.keyboard.press("Tab")
    marks(page).first.click()
    page.keyboard.press("1")
    expect(page.locator("#problem")).to_have_text("Enter the reviewer's name first.")
    expect(page.locator("#reviewer")).to_be_focused()
    assert store.list_notes(only_decided=True) == []


def test_why_is_told_for_what_was_decided_too(page: Page, store: ReviewStore, expander: Expander) -> None:
    open_queue(page, store, expander)
    marks(page).last.click()
    expect(page.locator("#details .words")).to_contain_text("warfarin")
    page.keyboard.press("1")
    expect(page.locator("#note .mark.reviewed")).to_have_count(1)
    marks(page).last.click()
    expect(page.locator("#details .words")).to_contain_text("warfarin")
    expect(page.locator("#details .choose[aria-pressed=true]")).to_have_count(1)


@pytest.fixture
def held_decisions(page: Page) -> list[Route]:
    """Decisions on their way to the service, until the test lets them go on."""
    held: list[Route] = []
    page.route("**/decisions", lambda route: held.append(route))
    return held


def test_a_mention_opened_while_a_decision_is_stored_stays_open(
    page: Page, store: ReviewStore, expander: Expander, held_decisions: list[Route]
) -> None:
    open_queue(page, store, expander)
    marks(page).first.click()
    with page.expect_request("**/decisions"):
        page.keyboard.press("1")
    marks(page).last.click()
    held_decisions.pop().continue_()
    expect(page.locator("#note .mark.reviewed")).to_have_count(1)
    expect(page.locator("#details .words")).to_contain_text("warfarin")


def test_a_note_opened_while_a_decision_is_stored_stays_open(
    page: Page, store: ReviewStore, expander: Expander, held_decisions: list[Route]
) -> None:
    open_queue(page, store, expander)
    with page.expect_request("**/decisions"):
        page.keyboard.press("d")
    page.locator("#notes button").last.click()
    expect(page.locator("#notes [aria-current]")).to_contain_text("3")
    with page.expect_response("**/reviews?*"):
        held_decisions.pop().continue_()
    expect(page.locator("#progress")).to_have_text("1 of 3 notes done")
    expect(page.locator("#notes [aria-current]")).to_contain_text("3")


def test_a_link_brings_the_token_along(browser: Browser, expander: Expander, store: ReviewStore) -> None:
    add_notes(store, NOTES, expander)
    with in_thread(expander, reviews=str(store.path), tokens=("open sesame",)) as url:
        page = browser.new_page()
        page.goto(f"{url}/#token=open%20sesame")
        expect(page.locator("#notes button")).to_have_count(3)
        assert "sesame" not in page.url
        page.close()


def test_a_token_is_asked_for_once_although_the_window_was_left_to_copy_it(
    browser: Browser, expander: Expander, store: ReviewStore
) -> None:
    add_notes(store, NOTES, expander)
    with in_thread(expander, reviews=str(store.path), tokens=("open sesame",)) as url:
        page = browser.new_page()
        page.goto(url)
        expect(page.locator("#token-value")).to_be_focused()
        with page.expect_response("**/reviews?*") as refused:
            page.evaluate("dispatchEvent(new Event('focus'))")
        assert refused.value.status == 401
        page.fill("#token-value", "open sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#notes button")).to_have_count(3)
        expect(page.locator("#token")).to_be_hidden()
        page.close()


def test_a_pasted_note_is_stored_once_whatever_is_decided_at_the_same_time(page: Page) -> None:
    page.fill("#text", FIRST)
    page.keyboard.press("Control+Enter")
    expect(marks(page)).to_have_count(2)
    held: list[Route] = []
    page.route("**/reviews/notes?*", lambda route: held.append(route))
    for mark in (marks(page).first, marks(page).last):
        mark.click()
        with page.expect_request("**/reviews/notes?*"):
            page.keyboard.press("1")
        page.wait_for_timeout(1_100)  # names tell the second
    for route in held:
        route.continue_()
    expect(page.locator("#note .mark.reviewed")).to_have_count(2)
    expect(page.locator("#progress")).to_have_text("0 of 1 notes done")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_of_weight(
    browser: Browser, url: str, store: ReviewStore, expander: Expander, scheme: str
) -> None:
    add_notes(store, NOTES, expander)
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.locator("#notes button").first.click()
    marks(page).first.click()
    page.keyboard.press("1")
    expect(page.locator("#note .mark.reviewed")).to_have_count(1)
    expect(page.locator(".scopes")).to_be_visible()
    for opens in (None, "#open-export", "#open-keys", "#delete-note"):
        if opens:
            page.click(opens)
        found = Axe().run(page).response["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
        page.keyboard.press("Escape")
    context.close()


def test_a_phone_can_review(browser: Browser, url: str, store: ReviewStore, expander: Expander) -> None:
    add_notes(store, NOTES, expander)
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(url)
    page.locator("#notes button").first.tap()
    marks(page).first.tap()
    page.locator("#details .choose").first.tap()
    expect(page.locator("#note .mark.reviewed")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    context.close()


def test_a_phone_shows_the_queue_and_the_sections(
    browser: Browser, url: str, store: ReviewStore, expander: Expander
) -> None:
    add_notes(store, NOTES, expander)
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(url)
    page.locator("#notes button").first.tap()
    for shown in ("#reviewer", "#progress", "#open-export", "#notes button", "#outline button"):
        expect(page.locator(shown).first).to_be_in_viewport(ratio=1)
    assert page.locator("#contents").evaluate("each => each.scrollHeight - each.clientHeight") <= 0
    page.locator("#notes button").last.tap()
    expect(page.locator("#notes [aria-current]")).to_be_in_viewport(ratio=1)
    context.close()


@pytest.mark.parametrize("size", [(390, 844), (844, 390)])
def test_a_phone_shows_senses_to_choose_from(
    browser: Browser, url: str, store: ReviewStore, expander: Expander, size: tuple[int, int]
) -> None:
    add_notes(store, NOTES, expander)
    viewport = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(url)
    page.locator("#notes button").first.tap()
    marks(page).first.tap()
    expect(page.locator("#details .choose")).to_have_count(2)
    expect(page.locator("#details .choose").last).to_be_in_viewport(ratio=1)
    for never in page.locator("#details .remove").all():  # a finger can tell it from its neighbours
        box = never.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 32
    context.close()


def test_a_note_without_acronyms_can_still_be_done(
    page: Page, store: ReviewStore, expander: Expander
) -> None:
    add_notes(store, [Note("plain", "no short form here")], expander)
    page.reload()
    page.locator("#notes button").first.click()
    expect(page.locator("#done")).to_be_visible()
    expect(page.locator("#least")).to_be_hidden()
    expect(page.locator("#downloads")).to_be_hidden()
    expect(page.locator("#details")).to_contain_text("Missed a short form?")
