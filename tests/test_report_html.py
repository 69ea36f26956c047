"""Tables and settings as one HTML file. Oracle: the standard library's HTML parser."""

import base64
import hashlib

import numpy as np
import pytest
from html_reader import Reader

from tcb_bench.report.html import HERE, Page, Section, Settings, render, write
from tcb_bench.report.table import Column, Table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; {{ 7 * 7 }}"


def page(*tables, **more):
    section = Section(title="Part", tables=tables, **more)
    return Page(title="A report", lead="Lead.", notices=["Mind the gap."], sections=[section])


def table(rows, *keys, **more):
    columns = [Column(key, key) for key in keys]
    return Table(
        **{"name": "t", "title": "Title", "note": "Note", **more}, columns=columns, rows=rows
    )


def cells(rows, *keys):
    """(text, sort key, class) of each cell of a rendered table."""
    [found] = Reader(render(page(table(rows, *keys)))).tables
    return [[(t, a["data-sort"], a["class"]) for t, a in row] for row in found[1:]]


def test_a_table_shows_its_columns_and_cells_as_the_terminal_does():
    rows = [{"a": 0.12345, "b": "x", "c": None}, {"a": -1.5, "b": True, "c": 3}]
    [found] = Reader(render(page(table(rows, "a", "b", "c")))).tables
    assert [[text for text, _ in row] for row in found] == [
        ["a", "b", "c"],
        ["0.123", "x", "-"],
        ["-1.500", "yes", "3"],
    ]


def test_numbers_sort_by_their_full_value_and_missing_cells_have_no_key():
    rows = [{"a": 1e-5}, {"a": None}, {"a": float("nan")}, {"a": np.float64(2)}, {"a": np.int64(7)}]
    assert cells(rows, "a") == [
        [("0.000", "1e-05", "number")],
        [("-", "", "number")],
        [("-", "", "number")],
        [("2.000", "2.0", "number")],
        [("7", "7.0", "number")],
    ]
    assert cells([{"a": float("inf")}], "a") == [[("inf", "Infinity", "number")]]


def test_mixed_and_boolean_columns_are_text_and_long_texts_get_a_box():
    assert cells([{"a": 1}, {"a": "x"}], "a") == [[("1", "1", "short")], [("x", "x", "short")]]
    assert cells([{"a": True}], "a") == [[("yes", "yes", "short")]]
    assert cells([{"a": "word " * 50}], "a")[0][0][2] == "long"
    assert cells([{"a": "a name of thirty characters.."}], "a")[0][0][2] == "text"


def test_reasons_of_missing_values_are_shown_once():
    rows = [{"a": None, "reason": "not run"}, {"a": 1.0}]
    assert [row[-1][0] for row in cells(rows, "a")] == ["not run", "-"]
    assert [len(row) for row in cells(rows, "a", "reason")] == [2, 2]


def test_a_cell_that_is_no_value_is_refused():
    with pytest.raises(TypeError, match="column 'a'"):
        render(page(table([{"a": [1]}], "a")))


def test_hostile_text_stays_text_wherever_it_stands():
    hostile = Page(
        title=HOSTILE,
        lead=HOSTILE,
        notices=[HOSTILE],
        sections=[
            Section(
                title=HOSTILE,
                note=HOSTILE,
                tables=[table([{HOSTILE: HOSTILE}], HOSTILE, title=HOSTILE, note=HOSTILE)],
                settings=[Settings(HOSTILE, [(HOSTILE, HOSTILE)])],
            )
        ],
    )
    read = Reader(render(hostile))
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in read.tags]
    assert not [a for _, given in read.tags for a in given if a.startswith("on")]
    assert read.tables[0][1][0][0] == HOSTILE
    assert read.text.count(HOSTILE) == 14


def test_the_policy_lets_only_the_pages_own_script_run_and_nothing_be_fetched():
    text = render(page())
    [policy] = [a["content"] for tag, a in Reader(text).tags if tag == "meta" and "content" in a][
        :1
    ]
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert f"script-src 'sha256-{digest}'" in policy
    assert script == (HERE / "report.js").read_text()


def test_half_a_surrogate_pair_does_not_stop_the_file_from_being_written(tmp_path):
    path = write(page(table([{"a": "x\ud83dy"}], "a")), tmp_path / "r.html")
    assert Reader(path.read_text(encoding="utf-8")).tables[0][1][0][0] == "x?y"


def test_contents_lead_to_every_section_and_no_anchor_is_there_twice():
    parts = [Section(title="Same", tables=[table([], "a")]), Section(title="Same")]
    read = Reader(render(Page(title="t", lead="", notices=[], sections=parts)))
    assert [link for link in read.links if link.startswith("#same")][:2] == ["#same", "#same-2"]
    assert len(set(read.ids)) == len(read.ids)
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)


def test_the_files_the_page_is_made_of_are_small_and_fetch_nothing():
    for name in ("report.js", "report.css", "template.html"):
        text = (HERE / name).read_text()
        assert "http:" not in text and "https:" not in text and "//cdn" not in text
        assert "</" not in text or name == "template.html"
    assert len((HERE / "report.js").read_text().splitlines()) <= 40
