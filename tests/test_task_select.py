"""Strata, weights and neighbouring records. Oracle: counts and weights computed by hand."""

import random

import pytest
from datasets import Dataset

from tcb_bench.errors import DataError
from tcb_bench.task_select import select, with_elsewhere

STRATA = {"type": ["a", "b"], "n": [2, 3]}


def documents(seed=None):
    rows = [
        {"tcb_id": f"{t}{n}-{i}", "type": t, "n": n}
        for t in "abc"
        for n in (2, 3, 4)
        for i in range(5 if (t, n) != ("b", 3) else 2)
    ]
    if seed is not None:
        random.Random(seed).shuffle(rows)
    return Dataset.from_list(rows)


def test_each_stratum_gives_its_draw_and_a_short_one_all_it_has():
    chosen = select(documents(), STRATA, 4, None, 0)
    assert chosen.strata == {
        "type=a,n=2": (4, 5),
        "type=a,n=3": (4, 5),
        "type=b,n=2": (4, 5),
        "type=b,n=3": (2, 2),
    }
    assert chosen.available == 14 == len(chosen.documents)


def test_weights_let_every_stratum_weigh_alike_and_have_mean_one():
    chosen = select(documents(), STRATA, 4, None, 0).documents
    by_stratum = {}
    for name, weight in zip(chosen["tcb_stratum"], chosen["tcb_weight"], strict=True):
        by_stratum.setdefault(name, []).append(weight)
    assert {name: sum(w) for name, w in by_stratum.items()} == pytest.approx(
        dict.fromkeys(by_stratum, 3.5)
    )
    assert sum(chosen["tcb_weight"]) == pytest.approx(14)


@pytest.mark.parametrize("size", [None, 3])
def test_the_draw_depends_on_ids_and_seed_not_on_the_files_order(size):
    first, second = (select(documents(seed), STRATA, size, None, 7) for seed in (1, 2))
    assert set(first.documents["tcb_id"]) == set(second.documents["tcb_id"])
    other = select(documents(1), STRATA, 3, None, 8)
    assert size is None or set(other.documents["tcb_id"]) != set(first.documents["tcb_id"])


def test_a_limit_counts_per_stratum_and_a_larger_one_contains_the_smaller():
    two, three = (select(documents(), STRATA, 4, limit, 0).documents["tcb_id"] for limit in (2, 3))
    assert len(two) == 8
    assert len(three) == 11
    assert set(two) < set(three)


def test_without_strata_draw_and_limit_count_all_documents():
    chosen = select(documents(), None, 10, 0.5, 0)
    assert (chosen.available, len(chosen.documents), chosen.strata) == (10, 5, {})
    assert "tcb_weight" not in chosen.documents.column_names


def test_an_empty_stratum_is_listed_and_the_others_still_weigh_alike():
    chosen = select(documents(), {"type": ["a", "z"], "n": [2, 3]}, 4, None, 0)
    assert chosen.strata["type=z,n=2"] == (0, 0)
    assert set(chosen.documents["tcb_weight"]) == {1.0}


def test_strata_that_the_data_do_not_have_are_named():
    with pytest.raises(DataError, match="column 'kind'"):
        select(documents(), {"kind": ["x"]}, None, None, 0)
    with pytest.raises(DataError, match="no document is in any"):
        select(documents(), {"type": ["z"]}, None, None, 0)


def records(n):
    return Dataset.from_list(
        [
            {
                "tcb_id": f"r{i}",
                "tcb_evidence": [{"title": f"T{i}", "index": 0, "text": f"own {i}"}],
                "tcb_pool": [{"title": f"T{i}", "sentences": [f"own {i}", f"spare {i}", " "]}],
            }
            for i in range(n)
        ]
    )


def test_a_neighbours_spare_sentences_come_first_and_never_its_own():
    pool = records(6)
    found = with_elsewhere(pool.select([0, 3]), pool, 0)
    for row in found:
        texts = [s["text"] for s in row["tcb_elsewhere"]]
        numbers = [text.split()[1] for text in texts]
        assert texts[:2] == [f"spare {numbers[0]}", f"own {numbers[0]}"]
        assert len(texts) == 8  # four neighbours of two sentences
        assert row["tcb_id"].removeprefix("r") not in numbers


def test_a_long_document_gets_as_many_sentences_from_elsewhere_as_it_shows():
    many = [{"title": "L", "index": i, "text": f"line {i}"} for i in range(15)]
    pool = Dataset.from_list(
        [*records(12), {**records(1)[0], "tcb_id": "long", "tcb_evidence": many}]
    )
    [row] = with_elsewhere(pool.select([12]), pool, 0)
    assert len(row["tcb_elsewhere"]) == 15


def test_a_neighbour_is_the_same_whatever_the_limit_or_the_order():
    pool = records(6)
    some = with_elsewhere(pool.select([2]), pool, 0)[0]["tcb_elsewhere"]
    turned = pool.select(range(5, -1, -1))
    assert some == with_elsewhere(turned, turned, 0)[3]["tcb_elsewhere"]
    assert "tcb_elsewhere" not in with_elsewhere(records(1), records(1), 0).column_names
