"""The site in a real browser. Oracles: Chromium, driven by playwright; axe-core."""

import json

import pytest
from board_site import (
    HOSTILE,
    button,
    cell,
    column,
    entries,
    group,
    hostile_pages,
    row,
    shown,
    write_pages,
)
from board_site import board as hand_made

from tcb_bench.leaderboards.entry_files import read_entry
from tcb_bench.leaderboards.render import build
from tcb_bench.leaderboards.render_board import Placed, render_board

ENTRY = "entries/acme__North-7B/hotpotqa_tempperturb.html"
PAGES = (
    "index.html",
    "boards/mmlu_tcb.html",
    ENTRY,
    "compare.html?models=acme/North-7B,gamma/Delta-2",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(entries, site): four models on the three tasks."""
    folder = tmp_path_factory.mktemp("board")
    found = entries(folder / "entries")
    build(found, folder / "site")
    return found, folder / "site"


@pytest.fixture
def opened(opened, made):
    """Opens a page of the site, or a file."""

    def at(path, *size, **how):
        address = f"{made[1].as_uri()}/{path}" if isinstance(path, str) else path
        return opened(address, *size, until="load", **how)

    return at


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_without_a_message_and_asks_for_nothing_but_itself(opened, path):
    page, said, asked = opened(path)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page.url]


@pytest.mark.parametrize("key", ["click", "Enter", "Space"])
def test_headers_sort_by_number_both_ways(opened, key):
    page, *_ = opened("boards/mmlu_tcb.html")
    head = button(page, "Answer mass")

    def press():
        if key == "click":
            head.click()
        else:
            head.focus()
            page.keyboard.press(key)

    index = 1 + head.evaluate("b => b.parentElement.cellIndex")
    values = shown(page, index)
    press()
    assert shown(page, index) == sorted(values, reverse=True)
    assert head.evaluate("b => b.parentElement.ariaSort") == "descending"
    press()
    assert shown(page, index) == sorted(values)
    assert head.evaluate("b => b.parentElement.ariaSort") == "ascending"
    assert page.evaluate("document.activeElement.textContent").startswith("Answer mass")


def test_models_sort_by_name_and_only_one_header_is_marked(opened):
    page, *_ = opened("boards/gsm8k_tcb.html")
    button(page, "Accuracy").click()
    button(page, "model").click()
    assert shown(page, 1) == ["acme/North-7B", "acme/North-70B", "beta/small_1.5B", "gamma/Delta-2"]
    assert page.locator("th[aria-sort]:not([aria-sort=none])").count() == 1


def test_filters_hide_rows_and_say_how_many_are_left(opened):
    page, *_ = opened("boards/mmlu_tcb.html")
    page.get_by_label("Model or setting").fill("NORTH float32")
    assert set(shown(page, 1)) == {"acme/North-70B", "acme/North-7B"}
    assert page.get_by_role("status").inner_text() == "2 of 4 shown"
    page.get_by_label("Model or setting").fill("nothing like it")
    assert page.locator("table.board:visible").count() == 0
    assert page.get_by_text("No entry of this group passes").first.is_visible()
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Tier").select_option("self-reported")
    page.get_by_label("dtype").select_option("float32")
    page.get_by_label("Backend").select_option("hf")
    assert page.get_by_role("status").inner_text() == "4 shown"


def test_sort_filter_and_choice_survive_a_reload(opened):
    page, *_ = opened("boards/mmlu_tcb.html")
    page.get_by_label("Model or setting").fill("acme")
    button(page, "Answer mass").click()
    page.get_by_label("compare acme/North-7B", exact=True).check()
    page.get_by_label("compare acme/North-70B").check()
    before = shown(page, 1)
    page.reload()
    assert shown(page, 1) == before
    assert len(before) == 2
    assert page.get_by_label("Model or setting").input_value() == "acme"
    assert button(page, "Answer mass").evaluate("b => b.parentElement.ariaSort") == "descending"
    assert page.locator("input:checked").count() == 2


def test_a_groups_anchor_keeps_what_was_set_and_is_reached_after_a_reload(opened):
    page, *_ = opened("boards/mmlu_tcb.html")
    page.get_by_label("Model or setting").fill("a")
    page.locator("h2 a").first.click()
    page.wait_for_function("location.hash.includes('q=a')")
    key = page.locator("section[data-group]").first.get_attribute("data-group")
    assert f"at=g-{key}" in page.url
    page.set_viewport_size({"width": 1280, "height": 300})
    page.reload()
    assert page.evaluate("scrollY") > 0


def test_a_hash_that_means_nothing_does_no_harm(opened):
    hash_ = "sort=x:y:z&sort=&pick=&pick=a:b&tier=none&at=%3Cimg%3E&q=%22%3E"
    page, said, _ = opened(f"boards/mmlu_tcb.html#{hash_}")
    assert said == []
    assert page.get_by_role("status").inner_text() == "0 of 4 shown"


def test_two_chosen_models_are_compared(opened, made):
    page, said, _ = opened("boards/hotpotqa_tempperturb.html")
    for model in ("acme/North-7B", "gamma/Delta-2"):
        page.get_by_label(f"compare {model}", exact=True).check()
    page.get_by_role("link", name="Compare 2 chosen").click()
    page.wait_for_load_state("load")
    heads = page.locator("#table thead th").all_inner_texts()
    assert [text.strip() for text in heads[1:]] == ["acme/North-7B", "gamma/Delta-2"]
    panels = page.locator("#plots figure").first.locator(".panel")
    assert panels.count() == 8  # question types x contexts
    assert panels.first.locator("path.line").count() == 2
    page.get_by_text("Numbers of this figure").first.click()
    entry = read_entry(made[0] / "gamma__Delta-2" / "hotpotqa_tempperturb.json")
    score = {m.name: m for m in entry.conditions[0].metrics}["bertscore_f1"]
    cells = panels.first.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[1] == f"{score.value:.3f} ({score.ci_low:.3f} to {score.ci_high:.3f})"
    assert said == []


def test_the_choice_of_a_comparison_lives_in_its_address(opened):
    page, *_ = opened("compare.html")
    assert page.get_by_role("status").inner_text() == "0 chosen; choose at least two."
    page.get_by_label("Board and group").select_option(index=0)
    page.get_by_label("Find").fill("a")
    for name in ("beta/small_1.5B", "acme/North-70B"):
        page.get_by_label(name).check()
    heads = page.locator("#table thead a").all_inner_texts()
    page.reload()
    assert page.locator("#table thead a").all_inner_texts() == heads
    assert heads == ["beta/small_1.5B", "acme/North-70B"]
    page.get_by_label("acme/North-70B").uncheck()
    assert page.locator("#result").is_hidden()


def test_a_compared_number_is_the_boards_and_differences_are_to_the_first(opened):
    page, *_ = opened("compare.html?models=acme/North-7B,gamma/Delta-2")
    data = json.loads(page.locator("#data").text_content())
    first = data["boards"][0]["groups"][0]["rows"]
    rows = {own["model"]: own["cells"][0][0] for own in first}
    one, two = rows["acme/North-7B"], rows["gamma/Delta-2"]
    cells = page.locator("#table tbody tr").first.locator("td").all_inner_texts()
    assert cells[0].startswith(f"{one:.3f}")
    assert f"{two - one:+.3f} to the first".replace("-", "\u2212") in cells[1]


@pytest.fixture(scope="module")
def hostile(made, tmp_path_factory):
    entry = read_entry(made[0] / "acme__North-7B" / "mmlu_tcb.json")
    return write_pages(tmp_path_factory.mktemp("hostile"), hostile_pages(entry))


@pytest.fixture(scope="module")
def long(made, tmp_path_factory):
    """A board of 120 rows, acc from 0 to 119."""
    placed = Placed(read_entry(made[0] / "acme__North-7B" / "mmlu_tcb.json"), "entries/a/x.html")
    rows = [row(f"org/m{i}", {"acc": cell(float(i))}, entry=f"e{i}") for i in range(120)]
    board = hand_made([group(rows)], [column("acc")])
    page = render_board(board, {own.entry: placed for own in rows}, [])
    return write_pages(tmp_path_factory.mktemp("long"), [page]) / page.path


def test_of_a_long_table_the_first_rows_are_shown_until_all_are_asked_for(opened, long):
    page, *_ = opened(long)
    assert page.get_by_role("status").inner_text() == "100 of 120 shown; 120 pass the filters"
    button(page, "acc").click()
    assert shown(page, 2) == [float(i) for i in range(119, 19, -1)]
    page.get_by_role("button", name="Show all 120").click()
    page.reload()
    assert shown(page, 2) == [float(i) for i in range(119, -1, -1)]
    assert page.get_by_role("button", name="Show all").count() == 0


@pytest.mark.parametrize("path", ["boards/mmlu_tcb.html", "entries/a/x.html", "compare.html"])
def test_hostile_names_are_text(opened, hostile, path):
    page, said, asked = opened(hostile / path)
    if path == "compare.html":
        for box in page.get_by_role("checkbox").all():
            box.check()
        assert page.locator("#table").is_visible()
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, main img").count() == 0
    assert page.get_by_text(HOSTILE).count() >= 2
    assert [url for url in asked if url.startswith("http")] == []
    assert said == []


def test_a_script_that_gets_into_a_page_all_the_same_does_not_run(opened, hostile):
    path = hostile / "boards" / "mmlu_tcb.html"
    pierced = path.with_name("pierced.html")
    pierced.write_text(path.read_text().replace("<h1>", f"{HOSTILE}<h1>", 1))
    page, said, _ = opened(pierced)
    assert page.evaluate("window.hit") is None
    assert any("Content Security Policy" in text for text in said)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_the_page_never_scrolls_sideways(opened, path, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page, *_ = opened(path, width, scheme)
    found = Axe().run(page, options={"preload": False}).response["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in serious] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_first_column_and_the_headers_stay_in_view(opened):
    page, *_ = opened("boards/mmlu_tcb.html", 375)
    box = page.locator(".scroll.tall").first
    box.evaluate("b => { b.scrollLeft = 400; b.scrollTop = 60; }")
    left = box.bounding_box()["x"]
    name = page.locator("table.board tbody th").first.bounding_box()
    assert name["x"] == pytest.approx(left, abs=2)
    assert name["width"] < 200


def test_light_and_dark_follow_the_system(opened):
    paper = "getComputedStyle(document.body).backgroundColor"
    assert opened("index.html")[0].evaluate(paper) == "rgb(255, 255, 255)"
    assert opened("index.html", scheme="dark")[0].evaluate(paper) == "rgb(20, 23, 26)"


def test_the_first_tab_skips_to_the_content(opened):
    page, *_ = opened("boards/mmlu_tcb.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
