"""The HotpotQA-like records we wrote ourselves: form, soundness, awkward places, originality.

Oracle: HotpotQA's answer normalisation is written out again here (lower case; no punctuation, no
articles; single blanks), and every winner of a comparison by numbers is worked out from the numbers
that the supporting sentences hold.
"""

import html
import json
import operator
import re
import string
from collections import Counter

import pytest
from conftest import ROOT

SAMPLE = ROOT / "tasks" / "hotpotqa_tempperturb" / "sample" / "train.jsonl"
COLUMNS = "id question answer type level supporting_facts context reference".split()
CELLS = [(kind, n) for kind in ("bridge", "comparison") for n in (2, 3, 4)]


def rows(path):
    return [json.loads(line) for line in path.read_bytes().decode().removesuffix("\n").split("\n")]


RECORDS = rows(SAMPLE)
each_record = pytest.mark.parametrize("row", RECORDS, ids=[row["id"] for row in RECORDS])


def documents(row):
    return dict(zip(row["context"]["title"], row["context"]["sentences"], strict=True))


def facts(row):
    return list(zip(*row["supporting_facts"].values(), strict=True))


def evidence(row):
    """Title -> its supporting sentences as one text."""
    found = {}
    for title, i in facts(row):
        found[title] = found.get(title, "") + " " + documents(row)[title][i]
    return found


def normalised(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def name(title):
    """A title as running text writes it: no HTML entity, nothing in parentheses."""
    return normalised(re.sub(r" \(.*\)$", "", html.unescape(title)))


def holds(text, phrase):
    return f" {phrase} " in f" {normalised(text)} "


def is_yes_no(row):
    return row["answer"] in ("yes", "no")


def test_every_cell_holds_nine_records_with_ids_of_their_own():
    cells = Counter((row["type"], len(set(facts(row)))) for row in RECORDS)
    assert cells == dict.fromkeys(CELLS, 9)
    ids = [f"ours-{kind[0]}{n}-{i:02}" for kind, n in CELLS for i in range(1, 10)]
    assert [row["id"] for row in RECORDS] == ids
    assert len({normalised(row["question"]) for row in RECORDS}) == len(RECORDS)
    assert {row["level"] for row in RECORDS} == {"easy", "medium", "hard"}


@each_record
def test_the_columns_are_those_of_the_hub_and_a_reference(row):
    assert list(row) == COLUMNS
    assert list(row["supporting_facts"]) == ["title", "sent_id"]
    assert list(row["context"]) == ["title", "sentences"]
    assert 4 <= len(set(row["context"]["title"])) == len(row["context"]["title"]) <= 6
    assert len(row["context"]["sentences"]) == len(row["context"]["title"])
    assert all(1 <= len(sentences) <= 5 for sentences in row["context"]["sentences"])


@each_record
def test_every_fact_resolves_and_two_titles_share_them(row):
    assert len(set(facts(row))) == len(facts(row)) == int(row["id"][6])
    assert all(0 <= i < len(documents(row)[title]) for title, i in facts(row))
    assert all(documents(row)[title][i].strip() for title, i in facts(row))
    assert len(evidence(row)) == 2


@each_record
def test_a_bridge_is_named_in_one_gold_document_and_not_in_the_question(row):
    if row["type"] != "bridge":
        assert all(holds(row["question"], name(title)) for title in evidence(row))
        return
    (one, one_text), (other, other_text) = evidence(row).items()
    if not holds(one_text, name(other)):
        (one, one_text), (other, other_text) = (other, other_text), (one, one_text)
    assert holds(one_text, name(other))
    assert not holds(row["question"], name(other))
    assert holds(other_text, normalised(row["answer"]))
    assert not holds(one_text, normalised(row["answer"]))


@each_record
def test_the_answer_follows_and_stands_in_the_reference(row):
    answer, reference = normalised(row["answer"]), row["reference"]
    assert reference[-1] == "." and reference[0].isupper() and len(reference.split()) <= 30
    if is_yes_no(row):
        assert row["type"] == "comparison"
        assert reference.split()[0] == f"{row['answer'].capitalize()},"
        return
    assert holds(reference, answer)
    named = {name(title) for title in evidence(row)}
    has = [holds(text, answer) for text in evidence(row).values()]
    is_bridge = row["type"] == "bridge"
    assert sum(has) == 1 if is_bridge else answer in named or all(has)
    assert not (is_bridge and holds(row["question"], answer))


def test_yes_no_and_first_or_second_title_are_balanced():
    compared = [row for row in RECORDS if row["type"] == "comparison"]
    assert Counter(row["answer"] for row in compared if is_yes_no(row)) == {"yes": 7, "no": 6}
    places = []
    for row in compared:
        order = sorted(map(name, evidence(row)), key=normalised(row["question"]).find)
        places += [order.index(a) for a in [normalised(row["answer"])] if a in order]
    assert Counter(places) == {0: 6, 1: 6}


AT_LEAST = [
    ("HTML entity in a gold title", 2, lambda r: any("&amp;" in t for t in evidence(r))),
    ("ampersand in the question", 1, lambda r: "&" in r["question"]),
    ("NBSP in a supporting sentence", 3, lambda r: "\xa0" in " ".join(evidence(r).values())),
    ("parenthesised gold title", 5, lambda r: any(t.endswith(")") for t in evidence(r))),
    ("two titles of one name", 1, lambda r: len({*map(name, documents(r))}) < len(documents(r))),
    ("one-sentence document", 4, lambda r: any(len(s) == 1 for s in documents(r).values())),
    ("last fact in an exhausted title", 4, lambda r: not spare(r, facts(r)[-1][0])),
    ("no spare sentence in either", 1, lambda r: not any(spare(r, t) for t in evidence(r))),
    ("empty unused sentence", 1, lambda r: "" in spare(r, facts(r)[-1][0])),
    ("no blank before a later sentence", 1, lambda r: any(not s[0] == " " for s in later(r) if s)),
    ("accented letters", 3, lambda r: bool(re.search("[à-ÿ]", json.dumps(r, ensure_ascii=False)))),
    ("question without its mark", 2, lambda r: "?" not in r["question"]),
    ("question with a blank at its end", 1, lambda r: r["question"] != r["question"].strip()),
    ("facts not in order", 6, lambda r: facts(r) != sorted(facts(r), key=lambda f: place(r, f))),
    ("facts of one title not in order", 3, lambda r: any(a > b for a, b in pairs_in_title(r))),
    ("name as answer in the last fact", 12, lambda r: r["answer"][0].isupper() and in_last(r)),
    ("number as answer in the last fact", 3, lambda r: r["answer"].isdigit() and in_last(r)),
]


def spare(row, title):
    """The sentences of a title that support nothing, as they stand."""
    return [s for i, s in enumerate(documents(row)[title]) if (title, i) not in facts(row)]


def later(row):
    return [s for sentences in documents(row).values() for s in sentences[1:]]


def place(row, fact):
    return row["context"]["title"].index(fact[0]), fact[1]


def pairs_in_title(row):
    found = facts(row)
    return [(i, j) for (a, i), (b, j) in zip(found, found[1:], strict=False) if a == b]


def in_last(row):
    title, i = facts(row)[-1]
    return holds(documents(row)[title][i], normalised(row["answer"]))


@pytest.mark.parametrize(("least", "has"), [a[1:] for a in AT_LEAST], ids=[a[0] for a in AT_LEAST])
def test_the_awkward_places_of_real_data_are_there(least, has):
    assert sum(map(has, RECORDS)) >= least


# Comparisons by numbers: for each of the two titles a sum that only its own facts can give.

NUMBERS = [
    ("c2-01", operator.lt, {"Beacon &amp; Buoy": "1884", "The Turner's Monthly": "1891"}),
    ("c2-04", operator.gt, {"Tungsten": "3,420", "Osmium": "3,030"}),
    ("c2-06", operator.gt, {"The Night Ferrymen": "seven", "Copper Tuesday": "five"}),
    ("c2-08", operator.lt, {"Beatrix Hollo": "1919", "Valentin Oru": "1921"}),
    ("c3-02", operator.gt, {"Ravel Tower": "84 + 22", "Kolm Tower": "101"}),
    ("c3-04", operator.gt, {"Ida Crewe-Mallet": "eleven + five", "Malachi Stroude": "fourteen"}),
    ("c3-07", operator.gt, {"Salt Museum": "1961 + six", "Museum of Knots": "1964"}),
    ("c4-02", operator.gt, {"Dune Relay": "four * nine", "Two Castles Relay": "three * eleven"}),
    ("c4-03", operator.gt, {"Meridian Coast Airways": "nine + six", "Arrow Northern": "17 - five"}),
    ("c4-08", operator.gt, {"Agnes Tolland": "three + four", "Rurik Stahlberg": "five + one"}),
    ("c4-09", operator.gt, {"Kerepua": "1923", "Mount Tahoro": "1886"}),
]
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def worked_out(expression, text):
    """Value of ``a`` or ``a sign b`` whose terms, digits or words, all occur in ``text``."""
    first, *rest = expression.split()
    for term in (first, *rest[1:]):
        assert re.search(rf"\b{term}\b", text), (term, text)
    values = [number(term) for term in (first, *rest[1:])]
    return SIGNS[rest[0]](*values) if rest else values[0]


def number(term):
    return int(term.replace(",", "")) if term[0].isdigit() else WORDS.split().index(term)


@pytest.mark.parametrize(("key", "wins", "sums"), NUMBERS, ids=[n[0] for n in NUMBERS])
def test_the_winner_by_numbers_is_the_answer(key, wins, sums):
    (row,) = [row for row in RECORDS if row["id"] == f"ours-{key}"]
    (winner, best), (_, other) = [
        (title, worked_out(sum_, evidence(row)[title])) for title, sum_ in sums.items()
    ]
    assert wins(best, other)
    assert name(winner) == normalised(row["answer"])


def shingles(text, size=8):
    found = re.findall(r"\w+", text.casefold())
    return {tuple(found[i : i + size]) for i in range(len(found) - size + 1)}


def texts(row):
    documents_ = ["".join(sentences) for sentences in row["context"]["sentences"]]
    return [row["question"], row.get("reference", ""), *documents_]


def test_no_text_shares_eight_words_in_a_row_with_the_real_data(shared_data):
    ours = set().union(*(shingles(text) for row in RECORDS for text in texts(row)))
    assert len(ours) > 5000
    n_real = 0
    for path in sorted((shared_data / "hotpotqa").glob("*.jsonl")):
        for row in rows(path):
            n_real += 1
            shared = ours & set().union(*map(shingles, texts(row)))
            assert not shared, (row["id"], shared)
    assert n_real > 1500
