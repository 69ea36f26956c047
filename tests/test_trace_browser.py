"""The page of a trace in a real browser. Oracle: Chromium, driven by playwright."""

import numpy as np
import pytest
from test_report_browser import HOSTILE
from test_trace import made_trace

from tcb_bench.trace_files import write_trace
from tcb_bench.trace_text import Rule

PIECES = ["The", " wind", "|", " \"said'", "\n", "go", " go", " go", " go", "", HOSTILE, " end"]


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    """A trace with hostile tokens, a dip at token 2 and a loop from token 6."""
    log10 = np.array([1.0, 1.1, -2.0, 1.05, 0.9, 1.0, 1.1, 0.95, 1.0, 2.0, 1.02, 0.98])
    rule = Rule(window=None, least=3)
    traced = made_trace(
        PIECES,
        prompt=HOSTILE,
        rule=rule,
        log10_delta=log10,
        tokens=[0, 1, 2, 3, 4, 5, 5, 5, 5, 6, 7, 8],
    )
    return write_trace(traced, tmp_path_factory.mktemp("trace"))[-1]


def token(page, i):
    return page.locator("#tokens > span").nth(i)


def numbers(page):
    return page.locator("#numbers dd").all_inner_texts()


def test_the_page_opens_from_a_file_without_a_message_or_a_request(opened, page_path):
    page, said, asked = opened(page_path)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page_path.as_uri()]
    assert page.locator("figure img").evaluate("image => image.naturalWidth") > 300


def test_what_a_model_or_a_user_wrote_is_text(opened, page_path):
    page, *_ = opened(page_path)
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, svg, script:not(:last-child)").count() == 0
    texts = page.locator("#tokens > span").evaluate_all("all => all.map(one => one.textContent)")
    assert texts == PIECES
    assert HOSTILE in page.locator(".prompt").inner_text()


def test_hovering_a_token_shows_its_numbers(opened, page_path):
    page, *_ = opened(page_path)
    assert set(numbers(page)) == {"-"}
    token(page, 2).hover()
    assert numbers(page) == ["|", "2", "0.01", "0.001", "0.5", "0.0809", "1.25", "dip"]
    token(page, 7).hover()
    assert numbers(page)[0::7] == [" go", "loop"]
    assert page.locator("#tokens > [aria-selected=true]").count() == 1


def test_the_keyboard_reaches_every_token_in_one_tab_stop(opened, page_path):
    page, *_ = opened(page_path)
    page.locator("#by").focus()
    page.keyboard.press("Tab")
    assert numbers(page)[1] == "0"
    for key, place in (("ArrowRight", "1"), ("End", "11"), ("ArrowRight", "11"), ("Home", "0")):
        page.keyboard.press(key)
        assert numbers(page)[1] == place, key
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#tokens')") is None


def test_the_colour_follows_the_quantity_that_is_chosen(opened, page_path):
    page, *_ = opened(page_path)
    assert "l0" in token(page, 2).get_attribute("class").split()
    assert "l6" in token(page, 9).get_attribute("class").split()
    page.locator("#by").select_option("p_top2")  # rises along the text: ever less stable
    assert "l6" in token(page, 0).get_attribute("class").split()
    assert "l0 dip" not in token(page, 2).get_attribute("class")
    assert "dip" in token(page, 2).get_attribute("class").split()
    assert "l0" in token(page, 11).get_attribute("class").split()


def luminance(colour):
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_is_readable_on_every_colour(opened, page_path, scheme):
    page, *_ = opened(page_path, scheme=scheme)
    ink = page.evaluate("getComputedStyle(document.body).color")
    swatches = page.locator(".swatch").evaluate_all(
        "all => all.map(one => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(swatches)) == 7
    for colour in swatches:
        dark, light = sorted([luminance(ink), luminance(colour)])
        assert (light + 0.05) / (dark + 0.05) >= 4.5, colour  # WCAG 2, AA


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(opened, page_path, width):
    page, *_ = opened(page_path, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
