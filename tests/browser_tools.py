"""Pages in headless Chromium, driven by playwright; fixtures, imported by conftest.py."""

import importlib.util
import os
import shutil

import pytest

NEEDS = ("playwright", "axe_playwright_python")


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; skipped where it is not installed, a failure in CI."""
    executable = shutil.which("chromium")
    if not executable or not all(map(importlib.util.find_spec, NEEDS)):
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"no browser test: it needs `chromium` on the PATH and the packages {', '.join(NEEDS)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Opens a file or an address; returns the page with what it said and asked for."""
    pages = []

    def opened(path, width=1280, scheme="light", *, until="networkidle"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path if isinstance(path, str) else path.as_uri())
        page.wait_for_load_state(until)
        return page, said, asked

    yield opened
    for page in pages:
        page.close()
