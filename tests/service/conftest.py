"""One small model for all tests of the service, and a browser for those of its page."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells import Expander
from lmcells.expansion import save_inventory
from service.serving import Served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model` and `inventory.csv`."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("service")
    random_model(folder / "model", clinic_corpus(folder / "corpus"), "lmc")
    save_inventory(INVENTORY, folder / "inventory.csv")
    return folder


@pytest.fixture(scope="session")
def expander(folder: Path) -> Expander:
    return Expander.from_pretrained(folder / "model", inventory=folder / "inventory.csv")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine. Install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, server: Served) -> Iterator[Page]:
    """The page of a module's `server`; an error in its console fails the test, and so does anything from elsewhere."""
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda request: wrong.append(request.url) if not _is_own(request.url, server) else None
    )
    page.goto(f"{server.url}/")
    yield page
    assert [each for each in wrong if "422" not in each] == []


def _is_own(url: str, server: Served) -> bool:
    return url.startswith((server.url, f"blob:{server.url}"))
