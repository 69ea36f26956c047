"""The site's pages. Oracles: the entries' own files, numpy.histogram, labels in the sample rows."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from board_entries import make_entry
from board_site import HOSTILE, board, cell, column, entries, group, row
from html_reader import Reader

from tcb_bench.leaderboards.columns import read_columns
from tcb_bench.leaderboards.entry_files import load_entries, read_entry
from tcb_bench.leaderboards.render import site
from tcb_bench.leaderboards.render_board import Placed, render_board
from tcb_bench.leaderboards.render_compare import plots
from tcb_bench.leaderboards.render_entry import render_entry
from tcb_bench.leaderboards.render_page import embedded, fill


class Page(Reader):
    VOID = Reader.VOID | {"input", "wbr"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return entries(tmp_path_factory.mktemp("entries"), models=("acme/North-7B",))


@pytest.fixture(scope="module")
def mmlu(made):
    return made / "acme__North-7B" / "mmlu_tcb.json"


@pytest.fixture(scope="module")
def hotpot(made):
    return made / "acme__North-7B" / "hotpotqa_tempperturb.json"


def columns_of(path):
    return read_columns(path.with_name(f"{path.stem}.samples.jsonl.gz"))


def entry_html(path, **changes):
    entry = read_entry(path).model_copy(update=changes)
    return render_entry(entry, columns_of(path), "entries/a/b.html", [], []).html


def test_an_entrys_page_has_every_metric_with_its_interval(mmlu):
    table = Page(entry_html(mmlu)).tables[0]
    entry = read_entry(mmlu)
    assert [own[0][0] for own in table[1:]] == [metric.name for metric in entry.metrics]
    acc = next(metric for metric in entry.metrics if metric.name == "acc")
    assert table[1][1][0] == f"{acc.value:.4g}"
    assert table[1][2][0] == f"{acc.ci_low:.4g} to {acc.ci_high:.4g}"
    assert table[1][3][0] == str(acc.n)


def test_an_entrys_page_has_signature_settings_and_what_is_missing(mmlu):
    text = Page(entry_html(mmlu)).text
    entry = read_entry(mmlu)
    assert entry.signature in text
    assert entry.data.sha256 in text
    assert entry.data.revision in text
    assert len(entry.missing) == 52
    assert "Partial: 52 parts, listed under What is missing." in text
    assert all(name in text for name in entry.missing)


def test_conditions_of_a_sweep_are_a_table_with_counts(hotpot):
    page = Page(entry_html(hotpot))
    table = next(own for own in page.tables if own[0][0][0] == "temperature")
    entry = read_entry(hotpot)
    assert len(table) == 1 + len(entry.conditions)
    last = entry.conditions[-1]
    assert [c[0] for c in table[-1][:3]] == [str(value) for value in last.axes.values()]
    assert f"{last.counts.scored} scored" in table[-1][-1][0]


def test_an_imported_entry_without_conditions_and_counts_has_a_page(mmlu):
    entry = read_entry(mmlu)
    gone = {"conditions": [], "counts": None, "usage": None, "seed": None, "epsilon": None}
    gone |= {"origin": "lm-eval", "sampling_defaults": None, "limit": None}
    page = render_entry(entry.model_copy(update=gone), None, "entries/a/b.html", [], [])
    assert "Imported from a result of lm-eval" in Page(page.html).text
    assert '<span class="tier imported">' in page.html
    assert "<svg" not in page.html


def test_samples_that_lie_elsewhere_are_said_to_be_missing(mmlu):
    entry = read_entry(mmlu)
    samples = entry.samples.model_copy(update={"file": None, "url": "https://example.org/s.gz"})
    page = render_entry(
        entry.model_copy(update={"samples": samples}), None, "entries/a/b.html", [], []
    )
    assert "They lie at https://example.org/s.gz." in Page(page.html).text


def test_nothing_that_an_entry_says_becomes_markup(mmlu):
    entry = read_entry(mmlu)
    model = entry.model.model_copy(
        update={name: HOSTILE for name in ("id", "dtype", "backend", "quantisation", "revision")}
    )
    html = entry_html(
        mmlu,
        model=model,
        submitted_by=HOSTILE,
        links=["javascript:alert(1)", HOSTILE, "https://example.org/card"],
        environment={HOSTILE: HOSTILE},
        signature=HOSTILE,
        missing=[HOSTILE],
    )
    page = Page(html)
    assert page.text.count(HOSTILE) > 8
    assert [tag for tag, _ in page.tags if tag in ("iframe", "img")] == []
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert page.links.count("https://example.org/card") == 1
    assert not any(link.startswith("javascript") for link in page.links)


def test_embedded_json_cannot_end_its_script_element():
    text = str(embedded({"name": HOSTILE, "and": "a&b\u2028"}))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"name": HOSTILE, "and": "a&b\u2028"}
    with pytest.raises(ValueError, match="Out of range"):
        embedded({"value": float("nan")})


@pytest.mark.parametrize("path", ["index.html", "compare.html"])
def test_the_policy_names_the_hash_of_the_pages_only_script(path):
    template = {"index.html": "template_index.html", "compare.html": "template_compare.html"}[path]
    html = fill(template, path, [], boards=[], counts="", data="{}").html
    script = html.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert html.count("<script>") == 1


def two_rows(mmlu):
    cells = {"acc": cell(0.5, 0.4, 0.6, 40, rank_low=1, rank_high=2), "mass": cell(None, n=None)}
    other = {"acc": cell(0.25, 0.2, 0.3, 38, rank_low=1, rank_high=2)}
    other["mass"] = replace(cell(None, n=None), reason="no hidden states")
    placed = {name: Placed(read_entry(mmlu), f"entries/{name}/mmlu_tcb.html") for name in "ab"}
    rows = [row("one", cells, entry="a"), row("two", other, entry="b", tier="verified")]
    return rows, placed


def test_a_board_shows_values_intervals_ranks_and_reasons(mmlu):
    rows, placed = two_rows(mmlu)
    html = render_board(board([group(rows)], [column("acc"), column("mass")]), placed, []).html
    table = Page(html).tables[0]
    assert [own[0] for own in table[0][1:]] == ["acchigher is better", "masshigher is better"]
    assert table[1][1][0] == "0.500rank 1\u201320.400 to 0.600, n 40"
    assert table[2][2][0] == "\u2013no hidden states"
    assert [own[1][1]["data-sort"] for own in table[1:]] == ["0.5", "0.25"]
    assert table[1][2][1]["data-sort"] == ""


def test_bars_lie_on_the_columns_own_scale(mmlu):
    rows, placed = two_rows(mmlu)
    html = render_board(board([group(rows)], [column("acc"), column("mass")]), placed, []).html
    paths = re.findall(r'<path d="M([\d.]+) 4.5H([\d.]+)M([\d.]+) 1v7"/>', html)
    low, high = 4.0, 92.0  # of the scale, at 0.2 and 0.6
    first = [low + (v - 0.2) / 0.4 * (high - low) for v in (0.4, 0.6, 0.5)]
    assert [float(x) for x in paths[0]] == pytest.approx(first, abs=0.06)
    assert float(paths[1][0]) == low


def test_reported_rows_stand_apart_without_rank(mmlu):
    rows, placed = two_rows(mmlu)
    paper = row("VCQ", {"acc": cell(0.85, n=None)}, tier="reported", source="arXiv:1, table 3")
    html = render_board(
        board([group(rows)], [column("acc"), column("mass")], reported=[paper]), placed, []
    ).html
    tables = Page(html).tables
    assert [own[0] for own in tables[1][0]] == ["model or set", "acc", "other facts", "source"]
    assert [own[0] for own in tables[1][1]] == ["VCQ reported", "0.850", "", "arXiv:1, table 3"]
    assert "VCQ" not in str(tables[0])


def test_plots_embed_aggregates_of_bounded_size(hotpot):
    entry, columns = read_entry(hotpot), columns_of(hotpot)
    found = plots(entry, columns.values["log10_relative_delta"])
    assert sum(found["bins"]["shares"]) == pytest.approx(1, abs=0.01)
    lines = found["curves"]["lines"]
    first = entry.conditions[0]
    value = next(m.value for m in first.metrics if m.name == "bertscore_f1")
    assert lines["bridge · original"][0][1] == pytest.approx(value, rel=1e-5)
    assert len(json.dumps(found)) < 4000
    wide = plots(entry, np.array([-1e9, 0.0, 1e9]))
    assert len(wide["bins"]["shares"]) <= 97


def test_a_sweep_that_is_too_large_is_not_embedded(hotpot):
    entry = read_entry(hotpot)
    more = [
        c.model_copy(update={"axes": {**c.axes, "temperature": c.axes["temperature"] + i}})
        for i in range(9)
        for c in entry.conditions
    ]
    assert "curves" not in plots(entry.model_copy(update={"conditions": more}), None)


def test_pages_link_to_pages_that_are_there(made):
    loaded = load_entries(made)
    rows = [
        row("acme/North-7B", {"acc": cell(0.5)}, entry="acme__North-7B/mmlu_tcb.json"),
    ]
    pages = {p.path: p.html for p in site(loaded, [board([group(rows)], [column("acc")])])}
    assert set(pages) == {
        *("index.html", "compare.html", "boards/mmlu_tcb.html"),
        *(f"entries/acme__North-7B/{one.entry.task.name}.html" for one in loaded),
    }
    for path, html in pages.items():
        reader = Page(html)
        assert len(reader.ids) == len(set(reader.ids))
        assert reader.sources == []
        for link in reader.links:
            if link.startswith(("#", "data:", "https:")):
                continue
            target = "/".join(path.split("/")[:-1] + [link.split("#")[0]])
            while "/../" in f"/{target}":
                target = re.sub(r"(^|/)[^/]+/\.\./", r"\1", f"/{target}", count=1).lstrip("/")
            assert target in pages, (path, link)


def test_two_entries_in_one_place_by_case_are_refused(tmp_path):
    from tcb_bench.errors import DataError

    for name in ("acme/north", "Acme/North"):
        make_entry(tmp_path, name, "gsm8k_tcb", 2)
    with pytest.raises(DataError, match="differ by case alone"):
        list(site(load_entries(tmp_path), []))
