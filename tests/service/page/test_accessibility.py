"""Every view of the page passes axe-core, in light and in dark."""

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from service.serving import NOTE

_WEIGHT = ("moderate", "serious", "critical")


def problems(page: Page) -> list[str]:
    """What axe-core finds, as a rule and the element that breaks it."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in _WEIGHT
        for node in each["nodes"]
    ]


def opened_acronym(page: Page) -> None:
    page.fill("#text", f"SOCIAL HISTORY: SM daily with alcohol.\n\nFAMILY HISTORY: SM well, mother. {NOTE}")
    page.keyboard.press("Control+Enter")
    page.locator("#note .mark").first.click()
    expect(page.locator("#details .words").first).to_be_visible()


def written_out(page: Page) -> None:
    opened_acronym(page)
    page.locator("#legend button").first.click()
    page.click("#tab-expanded")


def inventory(page: Page) -> None:
    page.click("#open-inventory")
    expect(page.locator("#entries li").first).to_be_visible()


def picture(name: str) -> Callable[[Page], None]:
    def show(page: Page) -> None:
        page.goto(f"{page.url}#explore/{name}")
        expect(page.locator(f"#view-{name} svg").first).to_be_visible()

    return show


VIEWS: dict[str, Callable[[Page], object]] = {
    "empty": lambda page: page.wait_for_selector("#details h2"),
    "problem": lambda page: page.click("#expand"),
    "acronym": opened_acronym,
    "written out": written_out,
    "inventory": inventory,
    **{name: picture(name) for name in ("gate", "word", "sections")},
}


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_of_weight(browser: Browser, url: str, view: str) -> None:
    context = browser.new_context(color_scheme="dark", reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{url}/")
    VIEWS[view](page)
    assert problems(page) == []
    page.emulate_media(color_scheme="light")
    assert problems(page) == []
    context.close()


def test_axe_finds_what_is_wrong(browser: Browser, url: str) -> None:
    page = browser.new_page()
    page.goto(f"{url}/")
    page.evaluate("document.querySelector('header img').removeAttribute('alt')")
    assert [each for each in problems(page) if each.startswith("image-alt: ")]
    page.close()
