"""Records with documents in every accepted form. Oracle: what each form says, written out by hand."""

import pytest

from tcb_bench.perturb.item import Sentence
from tcb_bench.rag import Unresolved, item_of, prepare, sentences, shown

COLUMNS = {"question": "q", "documents": "docs", "support": "support", "answer": "a"}
HOTPOT = {
    "q": "Which?",
    "a": "B2",
    "docs": {"title": ["A", "B", "C"], "sentences": [["A1.", " A2."], ["B1.", " B2."], ["C1."]]},
    "support": {"title": ["B", "A", "B"], "sent_id": [1, 0, 1]},
}
A1, A2 = {"title": "A", "index": 0, "text": "A1."}, {"title": "A", "index": 1, "text": " A2."}
B2 = {"title": "B", "index": 1, "text": " B2."}


def test_hotpotqas_record_shows_its_facts_once_in_the_records_order_and_keeps_their_documents():
    made = prepare(HOTPOT, COLUMNS)
    assert made["tcb_evidence"] == [B2, A1]
    assert made["n_facts"] == 2
    assert [d["title"] for d in made["tcb_pool"]] == ["B", "A"]
    assert made["tcb_pool"][1]["sentences"] == ["A1.", " A2."]


@pytest.mark.parametrize(
    "documents",
    [
        [{"title": "A", "sentences": ["A1.", " A2."]}],
        [{"title": "A", "text": "A1. A2."}],
        {"title": ["A"], "text": ["A1. A2."]},
    ],
    ids=str,
)
def test_a_users_documents_without_labels_are_shown_whole(documents):
    made = prepare({"docs": documents}, COLUMNS)
    assert made["tcb_evidence"] == [A1, A2]
    assert made["n_facts"] == 0


def test_plain_texts_get_numbers_as_titles_and_equal_titles_stay_apart():
    made = prepare({"docs": ["One. Two.", "Three."]}, COLUMNS)
    titles = [s["title"] for s in made["tcb_evidence"]]
    assert titles == ["Document 1", "Document 1", "Document 2"]
    twice = prepare({"docs": [{"title": "A", "text": "x"}, {"title": "A", "text": "y"}]}, COLUMNS)
    assert [(s["title"], s["text"]) for s in twice["tcb_evidence"]] == [("A", "x"), ("A (2)", "y")]


@pytest.mark.parametrize(
    "support",
    [[{"title": "A", "sent_id": 1}], [["A", 1]], {"title": ["A"], "sent_id": [1]}],
    ids=str,
)
def test_support_in_any_form_names_a_sentence(support):
    made = prepare(
        {"docs": [{"title": "A", "sentences": ["A1.", " A2."]}], "support": support}, COLUMNS
    )
    assert (made["tcb_evidence"], made["n_facts"]) == ([A2], 1)


@pytest.mark.parametrize(
    ("support", "why"),
    [
        ({"title": ["Z"], "sent_id": [0]}, "title is not among"),
        ({"title": ["A"], "sent_id": [2]}, "beyond its document"),
        ({"title": ["A"], "sent_id": [-1]}, "beyond its document"),
        ({"title": ["D"], "sent_id": [0]}, "blank"),
        ({"title": [], "sent_id": []}, "no sentence"),
    ],
    ids=str,
)
def test_facts_that_do_not_resolve_are_refused_with_the_reason(support, why):
    documents = [{"title": "A", "sentences": ["A1.", " A2."]}, {"title": "D", "sentences": ["  "]}]
    with pytest.raises(Unresolved, match=why):
        prepare({"docs": documents, "support": support}, COLUMNS)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three? 4 is last.", ["One.", " Two!", " Three?", " 4 is last."]),
        ('He said "Go." Then left.', ['He said "Go."', " Then left."]),
        ("about 3.5 km, e.g. here", ["about 3.5 km, e.g. here"]),
        ("", []),
        ("no end", ["no end"]),
    ],
)
def test_sentences_split_at_ends_and_join_to_the_text(text, parts):
    assert sentences(text) == parts
    assert "".join(sentences(text)) == text


def test_a_prompt_shows_documents_by_title_in_order_of_appearance():
    record = {**HOTPOT, **prepare(HOTPOT, COLUMNS)}
    item = item_of(record, COLUMNS, "id1")
    assert (item.id, item.question, item.answer, item.has_support) == ("id1", "Which?", "B2", True)
    assert item.evidence == (Sentence("B", 1, " B2."), Sentence("A", 0, "A1."))
    assert shown(item) == [{"title": "B", "text": "B2."}, {"title": "A", "text": "A1."}]


def test_a_texts_own_white_space_and_entities_stay():
    odd = "R&amp;D\xa0unit  met."
    made = prepare({"docs": [{"title": "T", "sentences": [odd, " Then\u200b."]}]}, COLUMNS)
    item = item_of({"q": "?", "a": "", **made}, COLUMNS, "x")
    assert shown(item) == [{"title": "T", "text": f"{odd} Then\u200b."}]
