"""One browser for all tests of the page."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from lmcells import Expander
from service.serving import in_thread

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

expect.set_options(timeout=15_000)  # other tests may run beside these


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all; gone before other tests, which could run no event loop beside it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine. Install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(planted: Expander) -> Iterator[str]:
    """Where the page is served; a module may have a service of its own."""
    with in_thread(planted) as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, url: str) -> Iterator[Page]:
    """The page of a module's `url`; an error in its console fails the test, and so does any request elsewhere."""
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((url, f"blob:{url}")) else wrong.append(request.url),
    )
    page.goto(f"{url}/")
    yield page
    assert [each for each in wrong if "422" not in each] == []
