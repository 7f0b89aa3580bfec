"""The page in a real browser: what is shown, by mouse and by keyboard, and what may never happen."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from lmcells import Expander
from lmcells.expansion import expand_text
from lmcells.service.app import page_files
from service.serving import NOTE, SECRET, in_thread

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> PT <script>document.title='owned'</script> & PT\U0001f600 PT"


@pytest.fixture(scope="module")
def url(expander: Expander) -> Iterator[str]:
    with in_thread(expander) as running:
        yield running


def expand(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#view-read")).to_be_visible()


def expand_again(page: Page, text: str) -> None:
    page.click("#tab-write")
    expand(page, text)


def marks(page: Page) -> Locator:
    return page.locator("#note .mark:not(.filtered)")


def test_a_note_is_shown_with_its_acronyms(page: Page, expander: Expander) -> None:
    expand(page, NOTE)
    assert page.locator("#note").inner_text() == NOTE
    assert marks(page).all_inner_texts() == [NOTE[each.start : each.end] for each in expander(NOTE)]
    levels = [name.split()[1] for name in marks(page).evaluate_all("all => all.map(each => each.className)")]
    assert levels[-2:] == ["definition", "definition"]
    assert set(levels[:3]) <= {"sure", "unsure", "doubtful"}
    assert page.locator("#details .overview button").count() == 5
    assert page.locator("#legend").inner_text().count("defined in the note") == 1


def test_an_acronym_shows_its_senses_and_what_the_model_relied_on(page: Page, expander: Expander) -> None:
    expand(page, NOTE)
    marks(page).nth(1).click()
    details = page.locator("#details")
    expansion = expander(NOTE)[1]
    expect(details.locator("h2")).to_have_text("PT")
    expect(details.locator(".answer")).to_have_text(str(expansion.long_form))
    assert details.locator(".senses .name").all_inner_texts() == [
        each.long_form for each in expansion.candidates
    ]
    widths = details.locator(".senses .track span").evaluate_all(
        "all => all.map(each => parseFloat(each.style.width))"
    )
    assert widths == pytest.approx([100 * each.probability for each in expansion.candidates], abs=0.01)
    expect(details.locator(".facts")).to_contain_text("PLAN")
    shares = re.findall(r"(\d+) %", details.locator(".weight-names").inner_text())
    assert sum(map(int, shares)) in (99, 100, 101)
    assert "gait" in details.locator(".words").inner_text()
    expect(details.locator(".effect-of-section")).to_contain_text("The section")
    expect(details).to_contain_text("× multiplies the odds of the first sense")
    shaded = page.evaluate(
        "[...CSS.highlights.values()].flatMap(each => [...each].map(range => range.toString()))"
    )
    assert "gait" in shaded
    marks(page).nth(3).click()
    expect(details).to_contain_text("The note defines it")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.fill("#text", NOTE)
    page.keyboard.press("Control+Enter")
    expect(marks(page).first).to_be_focused()
    assert page.locator("#note .mark[tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")
    expect(marks(page).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#details h2")).to_have_text("PT")
    page.keyboard.press("End")
    expect(page.locator("#details h2")).to_have_text("MS")
    page.keyboard.press("ArrowRight")  # there is none
    expect(marks(page).last).to_be_focused()
    page.keyboard.press("Home")
    expect(marks(page).first).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#details .overview")).to_be_visible()
    expect(marks(page).first).to_be_focused()
    outline = marks(page).first.evaluate("each => getComputedStyle(each).outlineStyle")
    assert outline == "solid"
    page.locator("#tab-read").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#view-expanded")).to_be_visible()
    expect(page.locator("#tab-expanded")).to_be_focused()


def test_next_and_previous_keep_the_focus(page: Page) -> None:
    expand(page, NOTE)
    marks(page).first.click()
    page.get_by_label("Next acronym").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("#details")).to_contain_text("3 of 5")
    expect(page.get_by_label("Next acronym")).to_be_focused()


def test_unsure_acronyms_can_be_filtered_out(page: Page, expander: Expander) -> None:
    expand(page, NOTE)
    page.locator("#least").fill("98")
    sure = [each for each in expander(NOTE) if each.probability and each.probability >= 0.98]
    expect(marks(page)).to_have_count(len(sure))
    expect(page.locator("#least-shown")).to_have_text("98 %")
    expect(page.locator("#details h3")).to_have_text(f"{len(sure)} of 5 acronyms")
    assert page.locator("#note").inner_text() == NOTE


def download(page: Page, kind: str) -> str:
    with page.expect_download() as started:
        page.click(f"[data-download={kind}]")
    return Path(started.value.path()).read_bytes().decode()


def test_an_edit_forgets_the_answer_to_the_text_before_it(page: Page) -> None:
    expand(page, f"{SECRET} in PT for gait")
    page.click("#tab-expanded")
    expect(page.locator("#expanded")).to_contain_text(SECRET)
    page.click("#tab-write")
    page.fill("#text", "LABS: PT 12")
    expect(page.locator("#downloads")).to_be_hidden()
    expect(page.locator("#tab-read")).to_be_disabled()
    expect(page.locator("#tab-expanded")).to_be_disabled()
    assert SECRET not in page.content()
    page.keyboard.press("Control+Enter")
    expect(marks(page)).to_have_count(1)
    assert SECRET not in download(page, "txt") + download(page, "csv") + download(page, "json")


def test_an_answer_that_comes_after_an_edit_is_not_shown(page: Page) -> None:
    held = []
    page.route("**/expand", lambda route: held.append(route))
    page.fill("#text", f"{SECRET} in PT")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#note-panel")).to_have_attribute("aria-busy", "true")
    page.fill("#text", "PT today")
    expect(page.locator("#expand")).to_be_enabled()
    page.unroute("**/expand")
    expect(page.locator("#tab-read")).to_be_disabled()
    expand(page, "PT today")
    assert SECRET not in page.content()


def test_the_slider_governs_downloads_and_the_text_written_out(page: Page, expander: Expander) -> None:
    expand(page, NOTE)
    page.locator("#least").fill("98")
    sure = [each for each in expander(NOTE) if each.probability and each.probability >= 0.98]
    assert 0 < len(sure) < 5
    assert [each["start"] for each in json.loads(download(page, "json"))] == [each.start for each in sure]
    assert len(list(csv.DictReader(io.StringIO(download(page, "csv"))))) == len(sure)
    assert download(page, "txt") == expand_text(NOTE, sure).text
    page.click("#tab-expanded")
    assert page.locator("#expanded").inner_text() == expand_text(NOTE, sure).text
    page.locator("#least").fill("0")
    expect(page.locator("#expanded")).to_have_text(expand_text(NOTE, expander(NOTE)).text)
    classes = page.locator("#expanded ins").evaluate_all("all => all.map(each => each.className)")
    assert set(classes) & {"unsure", "doubtful"}  # doubt is shown


def test_the_legend_filters(page: Page) -> None:
    expand(page, NOTE)
    defined = page.locator("#level-definition")
    expect(defined).to_have_attribute("aria-pressed", "true")
    defined.focus()
    page.keyboard.press("Enter")
    expect(marks(page)).to_have_count(3)
    expect(defined).to_be_focused()
    expect(defined).to_have_attribute("aria-pressed", "false")
    assert all(each["source"] == "model" for each in json.loads(download(page, "json")))
    defined.click()
    expect(marks(page)).to_have_count(5)


def test_hovering_shows_the_long_form(page: Page, expander: Expander) -> None:
    expand(page, NOTE)
    marks(page).nth(1).hover()
    expect(page.locator(".hover-tip")).to_contain_text(str(expander(NOTE)[1].long_form))
    expect(page.locator(".hover-tip")).to_be_in_viewport(ratio=1)
    page.locator("h1").hover()
    expect(page.locator(".hover-tip")).to_be_hidden()


def test_a_header_is_called_a_header(page: Page) -> None:
    page.click("#open-inventory")
    page.fill("#add-sense [name=short_form]", "CC")
    page.fill("#add-sense [name=long_form]", "chief complaint")
    page.click("#add-sense button")
    expect(page.locator("#edits")).to_contain_text("chief complaint")
    page.keyboard.press("Escape")
    expand(page, "CC: headache\nPLAN: Pt to PT")
    marks(page).first.click()
    expect(page.locator("#details .answer")).to_have_text("chief complaint")
    expect(page.locator("#details")).to_contain_text("It is a header of the note")
    expect(page.locator("#details")).not_to_contain_text("defines it")
    assert page.locator("#level-definition").count() == 0


def test_reasons_are_asked_for_when_an_acronym_is_opened(page: Page) -> None:
    asked: list[bool] = []
    page.on(
        "request",
        lambda request: request.method == "POST" and asked.append('"explain"' in str(request.post_data)),
    )
    expand(page, NOTE)
    assert asked == [False]
    marks(page).nth(1).click()
    expect(page.locator("#details .words")).to_be_visible()
    marks(page).nth(2).click()
    expect(page.locator("#details .words")).to_be_visible()
    assert asked == [False, True, True]
    marks(page).nth(1).click()
    expect(page.locator("#details .words")).to_be_visible()
    marks(page).nth(4).click()
    expect(page.locator("#details")).to_contain_text("The note defines it")
    assert asked == [False, True, True]


def test_keys_go_from_doubt_to_doubt(page: Page) -> None:
    expand(page, NOTE)
    doubts = page.locator("#note .mark.unsure, #note .mark.doubtful, #note .mark.abstained")
    assert 1 < doubts.count() < 5
    for place in range(doubts.count()):
        page.keyboard.press("n")
        expect(doubts.nth(place)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("n")
    expect(page.locator("#status")).to_have_text("No further doubt in this note.")
    page.keyboard.press("p")
    expect(doubts.nth(doubts.count() - 2)).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Another sense of PT").fill("n")  # typing is typing
    expect(doubts.nth(doubts.count() - 2)).to_have_attribute("aria-pressed", "true")


def test_sections_are_outlined(page: Page) -> None:
    expand(page, NOTE)
    entries = page.locator("#outline button")
    assert entries.locator(".name").all_inner_texts() == ["PLAN", "LABORATORY DATA", "PAST MEDICAL HISTORY"]
    entries.nth(2).click()
    expect(marks(page).nth(3)).to_be_focused()


def test_the_text_is_copied_and_can_be_monospaced(
    page: Page, context: BrowserContext, expander: Expander
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    expand(page, NOTE)
    page.click("#copy")
    expect(page.locator("#status")).to_have_text("Copied, with its acronyms written out.")
    assert page.evaluate("navigator.clipboard.readText()") == expand_text(NOTE, expander(NOTE)).text
    page.check("#monospaced")
    assert "mono" in page.locator("#note").evaluate("each => getComputedStyle(each).fontFamily")


def test_several_files_are_opened_one_by_one(page: Page, tmp_path: Path) -> None:
    for name, text in (("a.txt", "PLAN: PT for gait"), ("b.txt", "LABS: PT 12, MS"), ("c.bin", "\xff")):
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    page.set_input_files("#file", [tmp_path / name for name in ("a.txt", "b.txt", "c.bin")])
    expect(page.locator("#problem")).to_contain_text("c.bin is not UTF-8 text")
    entries = page.locator("#notes button")
    expect(entries).to_have_text(["a.txt", "b.txt"])
    expect(marks(page)).to_have_count(1)
    entries.nth(1).click()
    expect(marks(page)).to_have_count(2)
    expect(page.locator("#notes [aria-current]")).to_have_text("b.txt")
    with page.expect_download() as started:
        page.click("[data-download=csv]")
    assert started.value.suggested_filename == "b.expansions.csv"


def test_text_is_never_markup(page: Page) -> None:
    expand(page, HOSTILE)
    assert page.locator("#note").inner_text() == HOSTILE
    assert page.locator("#note img, #note script").count() == 0
    # The last stands after an emoji, which JavaScript counts as two.
    assert marks(page).all_inner_texts() == ["PT", "PT", "PT"]
    page.locator("#open-inventory").click()
    page.fill("#add-sense [name=short_form]", "PT")
    page.fill("#add-sense [name=long_form]", "<b>bold</b>")
    page.click("#add-sense button")
    expect(page.locator("#edits")).to_contain_text("added: <b>bold</b>")
    page.keyboard.press("Escape")
    marks(page).first.click()
    expect(page.locator("#details .senses")).to_contain_text("<b>bold</b>")
    assert page.title() == "lmcells: clinical acronyms, expanded"


def test_the_policy_forbids_inline_scripts_and_markup(context: BrowserContext, url: str) -> None:
    page = context.new_page()
    page.goto(f"{url}/")
    assert (
        page.evaluate(
            "() => { try { document.body.innerHTML = '<p>'; return 'made'; } catch (error) { return error.name; } }"
        )
        == "TypeError"
    )
    policy = page.request.get(page.url).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_nothing_is_kept_in_the_browser(page: Page, context: BrowserContext) -> None:
    expand(page, f"{SECRET} PT")
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert context.cookies() == []
    page.reload()
    assert SECRET not in page.content()
    expect(page.locator("#text")).to_have_value("")


def test_senses_are_added_removed_and_put_back_for_the_session(page: Page) -> None:
    expand(page, "seen by PT and CVA today")
    assert marks(page).all_inner_texts() == ["PT"]
    marks(page).first.click()
    page.get_by_label("Remove prothrombin time from the senses of PT").click()
    expect(page.locator("#details .senses .name")).to_have_text(["physical therapy"])
    expect(page.locator("#n-edits")).to_have_text("1")
    page.get_by_label("Another sense of PT").fill("posterior tibial")
    page.keyboard.press("Enter")
    expect(page.locator("#details .senses .name")).to_have_count(2)
    page.locator("#open-inventory").click()
    page.fill("#add-sense [name=short_form]", "CVA")
    page.fill("#add-sense [name=long_form]", "stroke")
    page.keyboard.press("Enter")
    expect(page.locator("#edits li")).to_have_count(3)
    assert marks(page).all_inner_texts() == ["PT", "CVA"]
    page.locator("#edits li", has_text="removed: prothrombin time").get_by_role("button").click()
    expect(page.locator("#edits li")).to_have_count(2)
    page.fill("#add-sense [name=short_form]", "CVA")
    page.fill("#add-sense [name=long_form]", "*")
    page.keyboard.press("Enter")
    expect(page.locator("#inventory-problem")).to_contain_text("'*' is only for forbid")
    expect(page.locator("#edits li")).to_have_count(2)
    page.fill("#add-sense [name=long_form]", "Stroke")  # it is there already
    page.keyboard.press("Enter")
    expect(page.locator("#inventory-problem")).to_be_hidden()
    expect(page.locator("#edits li")).to_have_count(2)
    page.fill("#search", "sclerosis")
    expect(page.locator("#entries .short")).to_have_text(["MS"])
    page.get_by_label("Remove multiple sclerosis").click()
    expect(page.get_by_label("Put back multiple sclerosis")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#n-edits")).to_have_text("3")


def test_the_note_is_written_out(page: Page, expander: Expander) -> None:
    expand(page, NOTE)
    page.click("#tab-expanded")
    expanded = expand_text(NOTE, expander(NOTE))
    assert page.locator("#expanded").inner_text() == expanded.text
    assert page.locator("#expanded ins").count() == len(expanded.offset_map.starts)


def test_files_are_read_as_they_are_and_answers_downloaded(
    page: Page, expander: Expander, tmp_path: Path
) -> None:
    text = 'PLAN: "PT", gait\r\n\r\nLABS: PT 12\r\n'
    (tmp_path / "visit.txt").write_bytes(text.encode())
    page.set_input_files("#file", tmp_path / "visit.txt")
    expect(marks(page)).to_have_count(2)
    saved = {}
    for kind in ("json", "csv", "txt"):
        with page.expect_download() as started:
            page.click(f"[data-download={kind}]")
        saved[started.value.suggested_filename] = Path(started.value.path()).read_bytes().decode()
    expansions = expander(text)
    found = json.loads(saved["visit.expansions.json"])
    assert [(each["start"], each["end"], each["long_form"]) for each in found] == [
        (each.start, each.end, each.long_form) for each in expansions
    ]
    rows = list(csv.DictReader(io.StringIO(saved["visit.expansions.csv"], newline="")))
    assert [(row["written"], row["short_form"], row["section"]) for row in rows] == [
        ("PT", "PT", "PLAN"),
        ("PT", "PT", "LABORATORY DATA"),
    ]
    assert saved["visit.expanded.txt"] == expand_text(text, expansions).text


def test_a_file_can_be_dropped_and_must_be_text(page: Page) -> None:
    drop = """([name, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], name));
        for (const kind of ["dragover", "drop"])
            document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drop, ["scan.pdf", [0xFF, 0xFE, 0xFD]])
    expect(page.locator("#problem")).to_have_text("scan.pdf is not UTF-8 text. Save it as UTF-8.")
    page.evaluate(drop, ["note.txt", list(b"PT today")])
    expect(marks(page)).to_have_count(1)
    expect(page.locator("#problem")).to_be_hidden()


def test_nothing_to_expand_is_said(page: Page) -> None:
    page.click("#expand")
    expect(page.locator("#problem")).to_contain_text("There is no text to expand")
    expand(page, "no short form here")
    expect(page.locator("#details")).to_contain_text("No acronym of the inventory was found")


def test_a_note_without_acronyms_has_no_tools_for_them_and_a_next_step(page: Page) -> None:
    expand(page, "no short form here")
    expect(page.locator("#details")).to_contain_text("add it under Inventory")
    expect(page.locator("#downloads")).to_be_hidden()
    expect(page.locator("#filter")).to_be_hidden()
    expand_again(page, NOTE)
    expect(page.locator("#downloads")).to_be_visible()
    expect(page.locator("#least")).to_be_visible()


def test_a_note_that_is_too_long_is_named_as_on_the_page(browser: Browser, expander: Expander) -> None:
    with in_thread(expander, max_note_length=20) as url:
        page = browser.new_page()
        page.goto(f"{url}/")
        page.fill("#text", "PT for gait and stairs")
        page.click("#expand")
        said = "The note has 22 characters, allowed: 20. Expand it in parts."
        expect(page.locator("#problem")).to_have_text(said)
        page.close()


def test_punctuation_stays_on_the_line_of_its_mark(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    text = "\n".join(f"{'w ' * n}{'i' * extra} (PT)." for n in range(8, 16) for extra in range(10))
    expand(page, text)
    assert page.locator("#note").inner_text() == text
    apart = page.locator("#note .mark").evaluate_all(
        """all => all.filter((mark) => {
            const beside = [[mark.previousSibling, -1], [mark.nextSibling, 1]].map(([node, side]) => {
                const range = new Range();
                range.setStart(node, side < 0 ? node.length - 1 : 0);
                range.setEnd(node, side < 0 ? node.length : 1);
                return range.getBoundingClientRect();
            });
            const { top, bottom } = mark.getBoundingClientRect();
            return beside.some((box) => box.top > bottom || box.bottom < top);
        }).length"""
    )
    assert apart == 0


def test_the_downloads_are_called_so_at_every_width(page: Page) -> None:
    expand(page, NOTE)
    expect(page.locator("#outline button")).to_have_count(3)
    for width in (1280, 390, 360):
        page.set_viewport_size({"width": width, "height": 844})
        expect(page.locator("#downloads .label")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_long_file_name_takes_two_lines(page: Page, tmp_path: Path) -> None:
    name = f"{'discharge_summary_' * 12}.txt"
    for each in (name, "b.txt"):
        (tmp_path / each).write_text("PLAN: PT for gait")
    page.set_input_files("#file", [tmp_path / name, tmp_path / "b.txt"])
    expect(marks(page)).to_have_count(1)
    entry = page.locator("#notes button").first
    expect(entry).to_have_text(name)
    expect(entry).to_have_attribute("title", name)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        box = entry.bounding_box()
        assert box is not None
        assert box["height"] < 64
        assert box["width"] < 300


def test_names_of_files_break_between_their_words(page: Page, tmp_path: Path) -> None:
    for name in ("cardiology_admission_letter.txt", "b.txt"):
        (tmp_path / name).write_text("PLAN: PT for gait")
    page.set_input_files("#file", [tmp_path / "cardiology_admission_letter.txt", tmp_path / "b.txt"])
    expect(marks(page)).to_have_count(1)
    lines = page.locator("#notes .name").first.evaluate(
        """name => {
            const lines = new Map();
            const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
            while (walker.nextNode()) for (let at = 0; at < walker.currentNode.length; at++) {
                const range = new Range();
                range.setStart(walker.currentNode, at);
                range.setEnd(walker.currentNode, at + 1);
                const { top } = range.getBoundingClientRect();
                lines.set(top, (lines.get(top) ?? "") + range.toString());
            }
            return [...lines.values()];
        }"""
    )
    assert lines[0].endswith("_")
    assert "".join(lines) == "cardiology_admission_letter.txt"


def test_a_phone_held_sideways_shows_the_note_beside_its_senses(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 844, "height": 390}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{url}/")
    page.fill("#text", NOTE)
    page.tap("#expand")
    marks(page).first.tap()
    senses = page.locator("#details .senses li")
    expect(senses.nth(1)).to_be_in_viewport(ratio=1)
    note, details = (page.locator(each).bounding_box() for each in ("#note", "#details"))
    assert note is not None
    assert details is not None
    assert note["x"] + note["width"] <= details["x"]
    assert page.evaluate("document.documentElement.scrollWidth") == 844
    context.close()


def test_the_page_leads_to_that_of_the_api_which_fits_a_phone(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{url}/")
    page.get_by_role("link", name="API", exact=True).tap()
    expect(page).to_have_url(f"{url}/docs")
    expect(page.locator("h1")).to_contain_text("API")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_a_phone_shows_all_without_scrolling_sideways(browser: Browser, url: str) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True, is_mobile=True
        )
        page = context.new_page()
        page.goto(f"{url}/")
        page.tap("#sample")
        expect(marks(page).first).to_be_visible()
        marks(page).last.tap()
        expect(page.locator("#details h2")).to_be_in_viewport()
        expect(page.locator("#note .mark[aria-pressed='true']")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        context.close()


LEVELS = ("definition", "sure", "unsure", "doubtful", "abstained")
TEXTS = [
    *(("text", "ground"), ("text", "card"), ("faint", "card"), ("faint", "ground"), ("text", "problem")),
    *(("accent", "accent-soft"), ("on-accent", "accent")),
    *((name, f"{name}-soft") for name in LEVELS),
]
GRAPHICS = [(f"series-{number}", "card") for number in range(6)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(browser: Browser, url: str, scheme: str) -> None:
    """Contrast is at least 4.5 for text and 3 for graphics, as WCAG asks."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{url}/")
    style = "getComputedStyle(document.documentElement)"
    hexes = {
        name: page.evaluate(f"{style}.getPropertyValue('--{name}').trim()")
        for name in {name for pair in (*TEXTS, *GRAPHICS) for name in pair}
    }
    context.close()

    def luminance(name: str) -> float:
        digits = hexes[name].lstrip("#")
        digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])

    for least, pairs in ((4.5, TEXTS), (3, GRAPHICS)):
        for pair in pairs:
            dark, light = sorted(map(luminance, pair))
            assert (light + 0.05) / (dark + 0.05) >= least, pair


def test_a_token_is_asked_for_and_kept_in_memory(browser: Browser, expander: Expander) -> None:
    with in_thread(expander, token="open sesame") as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/")
        page.fill("#text", NOTE)
        page.click("#expand")
        page.fill("#token-value", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-value")).to_have_value("")
        page.fill("#token-value", "open sesame")
        page.keyboard.press("Enter")
        expect(marks(page)).to_have_count(5)
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
        context.close()


def test_a_wrong_token_is_called_wrong_in_plain_words(browser: Browser, expander: Expander) -> None:
    with in_thread(expander, token="open sesame") as url:
        page = browser.new_page()
        page.goto(f"{url}/")
        page.fill("#text", NOTE)
        page.click("#expand")
        expect(page.locator("#token-value")).to_be_focused()
        expect(page.locator("#token-problem")).to_be_hidden()
        for wrong in ("wrong", "tökén€"):  # no header can carry the second
            page.fill("#token-value", wrong)
            page.keyboard.press("Enter")
            expect(page.locator("#token-value")).to_have_value("")
            expect(page.locator("#token-problem")).to_contain_text("This token is wrong")
        page.keyboard.press("Escape")
        expect(page.locator("#problem")).to_contain_text("This service needs a token. Try again")
        expect(page.locator("#problem")).not_to_contain_text("Authorization")
        page.click("#expand")
        expect(page.locator("#token-problem")).to_be_hidden()
        page.fill("#token-value", "open sesame")
        page.keyboard.press("Enter")
        expect(marks(page)).to_have_count(5)
        page.close()


@pytest.mark.parametrize("written", ["%E0", "t%C3%B6k%C3%A9n%E2%82%AC"])
def test_a_link_with_a_wrong_token_asks_for_another(
    browser: Browser, expander: Expander, written: str
) -> None:
    with in_thread(expander, token="open sesame") as url:
        page = browser.new_page()
        page.goto(f"{url}/#token={written}")
        page.fill("#text", NOTE)
        page.click("#expand")
        expect(page.locator("#token-problem")).to_be_visible()
        page.fill("#token-value", "open sesame")
        page.keyboard.press("Enter")
        expect(marks(page)).to_have_count(5)
        page.close()


def test_the_page_is_complete_and_names_nothing_from_elsewhere() -> None:
    files = page_files()
    everything = b"\n".join(content for content, _ in files.values()).decode()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", everything)
    assert "innerHTML" not in everything
    assert "Storage" not in everything
    named = set(re.findall(r'(?:from "\./|src="|href=")([\w.]+\.\w+)"', everything))
    assert {f"/{name}" for name in named} <= {*files, "/openapi.json"}
