"""The Explore view in a real browser: the gate is dragged, words and sections chosen, by mouse and by keyboard."""

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from expansion.clinic import INVENTORY as CLINIC
from expansion.clinic import clinic_corpus, random_model
from lmcells import Expander
from lmcells.service.middleware import POLICY
from service.serving import in_thread


def open_picture(page: Page, name: str) -> None:
    page.goto(f"{page.url.partition('#')[0]}#explore/{name}")
    expect(page.locator(f"#view-{name} svg").first).to_be_visible()


def bars(page: Page) -> dict[str, str]:
    """What the gate shows: each long form with its percentage."""
    rows = page.locator("#gate-bars li")
    names, shares = rows.locator(".name").all_inner_texts(), rows.locator(".percent").all_inner_texts()
    return dict(zip(names, shares, strict=True))


def expect_address(page: Page, name: str, **asked: str | list[str]) -> None:
    """The address says which picture is shown, and of what; it is written a little later."""
    query = urlencode(asked, doseq=True)
    expect(page).to_have_url(re.compile(re.escape(f"#explore/{name}?{query}") + "(&|$)"))


def columns(page: Page) -> dict[str, list[str]]:
    """The nearest words, by section."""
    return {
        column.locator("h4").inner_text(): column.locator("li .word").all_inner_texts()
        for column in page.locator("#word-nearest .near").all()
    }


def points(page: Page, box: str) -> Locator:
    return page.locator(f"{box} .point")


def test_the_view_is_told_by_the_address_and_opened_by_keyboard(page: Page) -> None:
    expect(page.locator("#explore-view")).to_be_hidden()
    page.locator("#to-explore").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#gate-chart svg")).to_be_visible()
    expect(page.locator("#note-view")).to_be_hidden()
    expect(page.locator("#to-explore")).to_have_attribute("aria-current", "page")
    expect_address(page, "gate", short_form="SM", section="SOCIAL HISTORY")
    page.locator("#tab-gate").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#view-word")).to_be_visible()
    expect(page.locator("#tab-word")).to_be_focused()
    expect_address(page, "word", word="history", section=["SOCIAL HISTORY", "FAMILY HISTORY"])
    page.click("#to-note")
    expect(page.locator("#text")).to_be_visible()
    page.click("#to-explore")
    expect(page.locator("#view-word")).to_be_visible()  # where one was


def test_the_gate_is_dragged_without_a_request(page: Page) -> None:
    open_picture(page, "gate")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    at_first = bars(page)
    chart = page.locator("#gate-chart svg").bounding_box()
    assert chart is not None
    seen = set()
    page.mouse.move(chart["x"] + 50, chart["y"] + 100)
    page.mouse.down()
    for part in (0.2, 0.5, 0.9):
        page.mouse.move(chart["x"] + part * chart["width"], chart["y"] + 100)
        seen.add((page.locator("#gate-shown").inner_text(), *bars(page).values()))
    page.mouse.up()
    assert len(seen) == 3
    assert list(at_first) == list(bars(page))
    weight = page.locator("#gate-weight").input_value()
    expect_address(page, "gate", short_form="SM", section="SOCIAL HISTORY", weight=weight)
    assert [url for url in asked if "/explore/" in url] == []


@pytest.mark.parametrize("weight", [0, 100])
def test_the_likeliest_long_form_comes_first(page: Page, weight: int) -> None:
    page.goto(f"{page.url}#explore/gate?short_form=SM&section=SOCIAL HISTORY&weight={weight}")
    expect(page.locator("#gate-shown")).to_have_text(f"{weight} %")
    widths = page.locator("#gate-bars .track span").evaluate_all(
        "all => all.map(each => parseFloat(each.style.width))"
    )
    assert widths == sorted(widths, reverse=True)


def test_the_gate_is_moved_by_keyboard(page: Page) -> None:
    open_picture(page, "gate")
    slider = page.locator("#gate-weight")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator("#gate-shown")).to_have_text("0 %")
    at_none = bars(page)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#gate-shown")).to_have_text("1 %")
    page.keyboard.press("End")
    assert bars(page) != at_none
    best = page.locator("#gate-bars .best .name").inner_text()
    assert best in str(slider.get_attribute("aria-valuetext"))
    dots = page.locator("#gate-chart .dot")
    assert dots.count() == 3
    page.click("#gate-learnt")
    assert f"own: {page.locator('#gate-shown').inner_text()}" in page.locator("#gate-learnt").inner_text()


def test_probabilities_are_those_of_the_service(page: Page) -> None:
    open_picture(page, "gate")
    page.locator("#gate-weight").fill("100")
    expect(page.locator("#gate-shown")).to_have_text("100 %")
    answer = page.request.get(
        f"{page.url.partition('#')[0]}explore/interpolation?short_form=SM&section=SOCIAL HISTORY&steps=2"
    ).json()
    for path in answer["long_forms"]:
        shown = int(bars(page)[path["long_form"]].strip("<> %"))  # "<1 %", ">99 %"
        assert shown == pytest.approx(100 * path["probabilities"][-1], abs=1)


def test_names_are_suggested_and_chosen_by_keyboard(page: Page) -> None:
    open_picture(page, "gate")
    page.locator("#gate-section").focus()
    page.keyboard.type("hist")
    options = page.locator("#gate-section-list [role=option]")
    expect(options).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    assert page.locator("#gate-section").get_attribute("aria-activedescendant") == "gate-section-list-1"
    page.keyboard.press("Enter")
    expect(page.locator("#gate-title")).to_have_text("SM in FAMILY HISTORY")
    expect(options.first).to_be_hidden()
    page.keyboard.type("pmh")
    page.keyboard.press("Escape")
    expect(page.locator("#gate-section")).to_have_value("FAMILY HISTORY")
    page.fill("#gate-section", "labs")  # by another of its names
    page.keyboard.press("Enter")
    expect(page.locator("#gate-title")).to_have_text("SM in LABORATORY DATA")


def test_a_misspelt_name_is_answered_with_the_nearest(page: Page) -> None:
    open_picture(page, "word")
    page.fill("#word-word", "sodum")
    page.keyboard.press("Enter")
    expect(page.locator("#word-word-list .note")).to_contain_text("Not known: “sodum”. Nearest:")
    page.locator("#word-word-list [role=option]", has_text="sodium").click()
    expect(page.locator("#word-title")).to_contain_text("sodium")
    expect_address(page, "word", word="sodium")


def test_a_link_to_an_unknown_name_offers_the_nearest(page: Page) -> None:
    page.goto(f"{page.url}#explore/word?word=histroy&section=SOCIAL HISTORY&section=FAMLIY HISTORY")
    expect(page.locator("#word-problem")).to_contain_text(
        "The model does not know the word 'histroy'. Did you mean:"
    )
    page.locator("#word-problem").get_by_role("button", name="history", exact=True).click()
    expect(page.locator("#word-problem")).to_contain_text("does not know the section 'FAMLIY HISTORY'")
    page.locator("#word-problem").get_by_role("button", name="FAMILY HISTORY", exact=True).click()
    expect(page.locator("#word-title")).to_contain_text("history")
    expect(page.locator("#word-problem")).to_be_hidden()
    assert list(columns(page)) == ["SOCIAL HISTORY", "FAMILY HISTORY", "On average"]


def test_a_late_suggestion_for_one_question_is_not_added_to_the_next(page: Page) -> None:
    held: list[Route] = []
    page.route(
        re.compile(r"/names\?kind=section"),
        lambda route: route.continue_() if held else held.append(route),
    )
    page.goto(f"{page.url}#explore/word?word=histroy&section=SOCIAL HISTORY&section=FAMLIY HISTORY")
    page.locator("#word-problem").get_by_role("button", name="history", exact=True).click()
    nearest = page.locator("#word-problem").get_by_role("button", name="FAMILY HISTORY", exact=True)
    expect(nearest).to_have_count(1)
    with page.expect_response(re.compile(r"/names\?kind=section")):
        held[0].continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done, 50))")
    expect(nearest).to_have_count(1)


def test_a_word_moves_with_its_section(page: Page) -> None:
    open_picture(page, "word")
    near = columns(page)
    assert near["SOCIAL HISTORY"][0] == "alcohol"
    assert near["FAMILY HISTORY"][0] == "father"
    assert page.locator("#word-table tbody tr").count() == 6
    assert page.locator("#word-table thead th").all_inner_texts() == [
        "SOCIAL HISTORY",
        "FAMILY HISTORY",
        "On average",
    ]
    row = page.locator("#word-table tr", has=page.get_by_role("button", name="smoking", exact=True))
    assert "▲" in row.locator("td").first.inner_text()
    page.fill("#word-section", "labo")
    page.locator("#word-section-list [role=option]").first.click()
    expect(page.locator("#word-sections li")).to_have_count(3)
    expect(page.locator("#word-section")).to_have_value("")
    page.get_by_label("Remove SOCIAL HISTORY").click()
    expect(page.locator("#word-nearest h4")).to_have_text(["FAMILY HISTORY", "LABORATORY DATA", "On average"])
    page.locator("#word-nearest .word").first.click()
    expect(page.locator("#word-title")).not_to_contain_text("history")


def test_the_cells_of_a_word_are_chosen_on_the_plane(page: Page) -> None:
    open_picture(page, "word")
    page.locator("#word-plane .point[aria-label^='LABORATORY DATA']").click()
    expect(page.locator("#word-sections li")).to_have_count(3)
    assert points(page, "#word-plane").count() == 4  # three sections and the average


def test_sections_are_chosen_on_the_map(page: Page) -> None:
    open_picture(page, "sections")
    expect(page.locator("#sections-title")).to_contain_text("SOCIAL HISTORY")
    assert points(page, "#sections-map").count() == 7
    assert page.locator("#sections-map .names text").count() > 0
    plan = page.locator("#sections-map .point[aria-label^='PLAN']")
    plan.hover()
    expect(page.locator("#sections-map .tip text")).to_have_text("PLAN, 1 word")
    plan.click()
    expect(page.locator("#sections-title")).to_contain_text("PLAN")
    as_read, as_meant = page.locator("#sections-near .near").all()
    assert as_read.locator(".word").first.inner_text() == "SOCIAL HISTORY"
    assert as_meant.locator(".word").first.inner_text() == "LABORATORY DATA"
    expect(plan).to_have_attribute("aria-pressed", "true")
    page.get_by_label("model network").check()
    expect(page.locator("#sections-near .near").nth(1)).to_have_class("near shown")
    expect_address(page, "sections", network="prior", section="PLAN")
    cluster = page.locator("#sections-legend button").first
    cluster.click()
    expect(cluster).to_have_attribute("aria-pressed", "true")
    faded = page.locator("#sections-map .point.dim").count()
    assert 0 < faded < 7


def test_the_map_is_walked_by_keyboard(page: Page) -> None:
    open_picture(page, "sections")
    assert page.locator("#sections-map .point[tabindex='0']").count() == 1
    page.locator("#sections-map .point[tabindex='0']").focus()
    seen = set()
    for key in ("Home", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "End"):
        page.keyboard.press(key)
        seen.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        expect(page.locator("#sections-map .tip")).to_be_visible()
    assert len(seen) > 2
    assert page.locator("#sections-map .point[tabindex='0']").count() == 1
    chosen = page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    expect(page.locator("#sections-title")).to_contain_text(chosen.partition(",")[0])
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == chosen


def test_names_on_a_map_do_not_cover_each_other(page: Page) -> None:
    for name in ("word", "sections"):
        open_picture(page, name)
        boxes = page.locator(f"#view-{name} .names text").evaluate_all(
            """all => all.map(each => each.getBoundingClientRect())
                .map(box => [box.left, box.top + 2, box.right, box.bottom - 2])"""
        )
        assert len(boxes) > 1
        for place, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[:place]:
                assert left >= other[2] or other[0] >= right or top >= other[3] or other[1] >= bottom


def test_a_note_leads_to_its_gate(page: Page) -> None:
    page.fill("#text", "SOCIAL HISTORY: SM daily with alcohol.")
    page.keyboard.press("Control+Enter")
    page.locator("#note .mark").first.click()
    page.get_by_role("link", name="Move the gate by hand, without the words").click()
    expect(page.locator("#gate-title")).to_have_text("SM in SOCIAL HISTORY")


def test_an_address_that_names_no_picture_shows_the_first(page: Page) -> None:
    for name in ("explore/constructor", "explore/", "explore?", "explored"):
        page.goto(f"{page.url.partition('#')[0]}#{name}")
        expect(page.locator("#gate-title")).to_have_text("SM in SOCIAL HISTORY")


def test_hostile_names_stay_text(page: Page) -> None:
    page.goto(f"{page.url}#explore/word?word=<img src=x onerror=\"document.title='owned'\">")
    expect(page.locator("#word-problem")).to_contain_text("<img src=x")
    assert page.locator("#explore-view img").count() == 0
    assert "owned" not in page.title()


def test_the_policy_is_as_strict_as_before(page: Page) -> None:
    assert page.request.get(page.url).headers["content-security-policy"] == POLICY
    open_picture(page, "sections")
    assert (
        page.locator("#explore-view [style]").evaluate_all(
            "all => all.filter(each => !each.closest('.track, .heat')).length"
        )
        == 0
    )  # nothing but widths and shades, which scripts may set


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_without_scrolling_sideways(browser: Browser, url: str, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": 360, "height": 740},
        color_scheme="dark" if scheme == "dark" else "light",
        has_touch=True,
        is_mobile=True,
    )
    page = context.new_page()
    page.goto(f"{url}/")
    for name in ("gate", "word", "sections"):
        open_picture(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.locator(f"#view-{name} svg").first.evaluate("each => each.clientWidth") <= 360
    context.close()


def test_a_phone_breaks_no_word_of_a_list(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{url}/")
    open_picture(page, "word")
    word = page.locator("#word-nearest li .word").first
    word.evaluate("each => (each.textContent = 'hypothyroidism')")
    word.evaluate("each => (each.style.fontWeight = 650)")
    box = word.bounding_box()
    assert box is not None
    assert box["height"] < 30  # one line
    context.close()


def test_a_model_without_sections_says_that_there_is_nothing_to_explore(
    browser: Browser, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "model", clinic_corpus(tmp_path / "corpus", n_notes=4), "bsg")
    with in_thread(Expander(model, CLINIC)) as url:
        page = browser.new_page()
        page.goto(f"{url}/#explore")
        expect(page.locator("#explore-problem")).to_contain_text("of kind 'bsg'")
        expect(page.locator("#explore-card")).to_be_hidden()
        page.click("#to-note")
        expect(page.locator("#text")).to_be_visible()
        page.close()


def test_a_token_is_asked_for_once(browser: Browser, planted: Expander) -> None:
    with in_thread(planted, token="sesame") as url:
        page = browser.new_page()
        page.goto(f"{url}/#explore/word")
        page.fill("#token-value", "sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#word-title")).to_contain_text("history")
        page.close()
