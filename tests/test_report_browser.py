"""A report in a real browser. Oracle: Chromium, driven by playwright."""

import pytest
from report_runs import Written, noisy, write_run

from tcb_bench.report.build import report
from tcb_bench.report.html import Page, Section, write
from tcb_bench.report.table import Column, Table

HOSTILE = (
    "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<svg onload='window.hit = 1'></svg><iframe src='https://example.org/'></iframe>"
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The report of two models with hostile answers, analysed for real."""
    folder = tmp_path_factory.mktemp("study")
    small = {"temperatures": (0.0, 2.0), "contexts": ("original", "ner"), "n_questions": 4}
    hostile = Written(model="<b>one</b>", text=lambda *_: HOSTILE, has_stability=True, **small)
    tame = Written(model="two", types=("bridge",), score=noisy("two"), **small)
    runs = [write_run(folder / name, run) for name, run in (("one", hostile), ("two", tame))]
    return report(runs, folder / "out")[0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A page with one table whose numbers sort otherwise as text."""
    rows = [{"name": f"row {i}", "value": v} for i, v in enumerate([10.0, None, -9.5, 9.0, 1e-7])]
    columns = [Column("name", "name"), Column("value", "value", 1)]
    table = Table(name="t", title="Title", note="", columns=columns, rows=rows)
    page = Page(title="t", lead="", notices=[], sections=[Section(title="s", tables=[table])])
    return write(page, tmp_path_factory.mktemp("small") / "page.html")


def column(page, index):
    return page.locator(f"tbody tr td:nth-child({index})").all_inner_texts()


def test_a_report_opens_without_a_message_and_asks_for_nothing_but_itself(opened, study):
    page, said, asked = opened(study)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [study.as_uri()]


def test_every_figure_is_visible(opened, study):
    page, *_ = opened(study)
    figures = page.locator("figure img")
    assert figures.count() == 5  # score, CV, two box plots, stability
    for figure in figures.all():
        assert figure.evaluate("image => image.complete && image.naturalWidth") > 300
        box = figure.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 100


def test_hostile_answers_and_names_are_text(opened, study):
    page, *_ = opened(study)
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, svg, main b").count() == 0
    assert page.get_by_text(HOSTILE).count() >= 2
    assert page.get_by_text("<b>one</b>").count() > 10


def test_a_click_sorts_by_number_then_backwards_with_missing_values_last(opened, small):
    page, *_ = opened(small)
    head = page.get_by_role("button", name="value")
    head.click()
    assert column(page, 2) == ["-9.5", "0.0", "9.0", "10.0", "-"]
    assert page.locator("th").nth(1).get_attribute("aria-sort") == "ascending"
    head.click()
    assert column(page, 2) == ["10.0", "9.0", "0.0", "-9.5", "-"]
    assert page.locator("th").nth(1).get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="name").click()
    assert column(page, 1) == [f"row {i}" for i in range(5)]
    assert page.locator("th").nth(1).get_attribute("aria-sort") == "none"


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_keyboard_sorts_too(opened, small, key):
    page, *_ = opened(small)
    page.get_by_role("button", name="value").focus()
    page.keyboard.press(key)
    assert column(page, 2)[0] == "-9.5"


def test_a_script_that_gets_into_the_page_all_the_same_does_not_run(opened, small):
    path = small.with_name("pierced.html")
    path.write_text(small.read_text().replace("<main>", f"<main>{HOSTILE}", 1))
    page, said, asked = opened(path)
    assert page.evaluate("window.hit") is None
    assert "example.org" not in " ".join(url for url in asked if page.url != url and "http" in url)
    assert any("Content Security Policy" in text for text in said)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways_and_wide_things_scroll_in_themselves(opened, study, width):
    page, *_ = opened(study, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        page.locator(".scroll").first.evaluate("box => getComputedStyle(box).overflowX") == "auto"
    )


def test_light_and_dark_follow_the_system(opened, small):
    paper = "getComputedStyle(document.body).backgroundColor"
    assert opened(small, scheme="light")[0].evaluate(paper) == "rgb(255, 255, 255)"
    assert opened(small, scheme="dark")[0].evaluate(paper) == "rgb(21, 24, 28)"


def test_links_of_the_contents_lead_to_their_headings(opened, study):
    page, *_ = opened(study)
    links = page.locator("nav a")
    for link in links.all():
        name = link.inner_text()
        link.click()
        target = page.evaluate("document.querySelector(location.hash).innerText")
        assert target == name
