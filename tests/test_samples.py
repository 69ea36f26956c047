"""The data we wrote ourselves: their form, their originality, and their golds worked out again."""

import csv
import itertools
import json
import math
import re
from collections import Counter

import pytest
from conftest import ROOT

MMLU = ROOT / "tasks" / "mmlu_tcb" / "sample"
GSM8K = ROOT / "tasks" / "gsm8k_tcb"
SUBJECTS = ["formal_logic", "philosophy", "abstract_algebra", "moral_scenarios", "professional_law"]
FINAL = re.compile(r"\n#### (-?\d{1,3}(?:,\d{3})+|-?\d+(?:\.\d\d)?)\Z")
BOXED = re.compile(r" The final answer is \\boxed\{(-?\d+)\}\.\Z")


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


TEST, DEV = rows(MMLU / "test.jsonl"), rows(MMLU / "dev.jsonl")
PROBLEMS, POOL = rows(GSM8K / "sample" / "test.jsonl"), rows(GSM8K / "sample" / "train.jsonl")
SHOTS = rows(GSM8K / "shots.jsonl")


@pytest.mark.parametrize(("split", "per_subject"), [(TEST, 10), (DEV, 5)], ids=["test", "dev"])
def test_mmlu_sample_has_the_columns_and_counts_of_the_hub_data(split, per_subject):
    assert Counter(row["subject"] for row in split) == dict.fromkeys(SUBJECTS, per_subject)
    for row in split:
        assert list(row) == ["subject", "question", "choices", "answer"]
        assert type(row["answer"]) is int
        assert 0 <= row["answer"] < len(row["choices"]) == len(set(row["choices"])) == 4
        assert all(text and text == text.strip() for text in [row["question"], *row["choices"]])


@pytest.mark.parametrize(("split", "least", "most"), [(TEST, 12, 13), (DEV, 6, 7)])
def test_mmlu_letters_are_balanced_and_follow_no_pattern(split, least, most):
    letters = "".join("ABCD"[row["answer"]] for row in split)
    counts = Counter(letters)
    assert all(least <= counts[letter] <= most for letter in "ABCD")
    assert max(len(list(run)) for _, run in itertools.groupby(letters)) <= 2
    for period in range(1, 13):  # a period would make nearly all letters recur at that distance
        repeats = sum(a == b for a, b in zip(letters, letters[period:], strict=False))
        assert repeats < 0.7 * (len(letters) - period)


def test_mmlu_options_hold_awkward_texts_and_no_guide_by_length():
    options = {option for row in TEST for option in row["choices"]}
    assert {"None", "NA"} <= options
    assert all(any(sign in option for option in options) for sign in "é−∀∃→↔")
    hits = sum(max(row["choices"], key=len) == row["choices"][row["answer"]] for row in TEST)
    assert hits <= 20  # 12.5 expected by chance of 50


def test_gsm8k_answers_end_in_a_number_and_shots_in_the_boxed_sentence():
    assert (len(PROBLEMS), len(POOL), len(SHOTS)) == (30, 8, 5)
    assert len(WORKED) == 30 + 8 + 5
    for row in PROBLEMS + POOL:
        assert list(row) == ["question", "answer"]
        assert FINAL.search(row["answer"])
        assert "<<" not in row["answer"]
    for shot in SHOTS:
        assert list(shot) == ["question", "target"]
        assert BOXED.search(shot["target"])
        assert 2 <= len(re.findall(r"\.(?: |\Z)", shot["target"])) <= 5


def test_no_question_occurs_twice():
    for group in (TEST + DEV, PROBLEMS + POOL + SHOTS):
        assert len({tuple(words(row["question"])) for row in group}) == len(group)


def words(text):
    return re.findall(r"\w+", text.casefold())


def shingles(text, size=8):
    found = words(text)
    return {tuple(found[i : i + size]) for i in range(len(found) - size + 1)}


def test_no_text_shares_eight_words_in_a_row_with_the_real_data(shared_data):
    values = [v for row in TEST + DEV + PROBLEMS + POOL + SHOTS for v in row.values()]
    ours = set().union(*(shingles(str(value)) for value in values))
    assert len(ours) > 2000
    n_real = 0
    for path in sorted((shared_data / "gsm8k").glob("*.jsonl")):
        for row in rows(path):
            n_real += 1
            assert not ours & (shingles(row["question"]) | shingles(row["answer"])), row
    for path in sorted((shared_data / "mmlu").glob("*/*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for cells in csv.reader(file):
                n_real += 1
                assert not any(ours & shingles(cell) for cell in cells), (path.name, cells)
    assert n_real > 20000


# Golds worked out again. GSM8K: one expression a problem, from the question's own words.

WORKED = [
    ("Noor picks", 17 + 26),
    ("9 jars", 9 * 12),
    ("Ilse", 84 / 7),
    ("Tibor", 150 - 64),
    ("office printer", 25 * 50),
    ("notebook", 2 * 3.75),
    ("lanterns", 92 / 4),
    ("Sabine", 17 + 14),
    ("mountain hut", 4 - 11),
    ("lemonade", math.ceil(192 / 24)),
    ("Priya", 4 * 6 - 9),
    ("tulips", 5 * 14 + 3 * 11),
    ("Elio", 16 * (6 + 4) - 25),
    ("rainwater", 240 * 5 / 8 - 30),
    ("raincoat", 80 * (100 - 35) / 100 + 6),
    ("choir", 63 * 2 / 3),
    ("goods train", 210 * 5 / 3),
    ("colleagues", (86 + 10) / 4),
    ("Hedda", (71 + 84 + 88) / 3),
    ("tailor", 130 % 8),
    ("coach", math.ceil((3 * 28 + math.ceil(3 * 28 / 12)) / 45)),
    ("Marta", sum(12 + 5 * week for week in range(6)) * 2 / 3),
    ("bakery", 35 * 4 + 12 * 11 + 35 * 120 / 100 * 4 + 12 / 2 * 11),
    ("trough", 20 + (460 - 20 * (12 + 8 - 5)) / (12 + 8)),
    ("Lina's", next(n for n in range(99) if 36 + n == 2 * (36 / 3 + n))),
    ("hens", (18 * 5 - 3 * 7) * 4 / 12 * 4),
    ("Jonna", 60 * (30 / 15 + 0.5 + 18 / 12 + 32 / 16)),
    ("studio", 27 * math.ceil(2 * (4 * 5 * 3 - 2 - 2 * 1.5) / 10 / 4)),
    ("library", 2400 * 5 / 8 * 60 / 100 / 5),
    ("plan Ember", 12 * abs((18 + 0.06 * 400) - (30 + 0.04 * (400 - 150)))),
    ("Kasper", 18 * 11),
    ("crayons", 60 / 12 + 2),
    ("climber", 20 - 6 * 2),
    ("cellar", 100 * (180 - 45) / 180),
    ("flatmates", 3 * 420 - 1100),
    ("Vera", 20 + 12 + 95),
    ("goats", 40 * 3 / (3 + 5)),
    ("canteen", 7 * 18 / 3 / 2),
    ("pump", 45 / 3 * 14),
    ("theatre", 160 * 2 / 5 * 3 / 4),
    ("Bruno", 20 - 3 * 4.5 - 2 * 2.25),
    ("Asta", 5 * (9 * 3 - 6 * 4)),
    ("beads", sum(place % 4 == 0 for place in range(50))),
]


@pytest.mark.parametrize(("index", "key", "value"), [(i, *w) for i, w in enumerate(WORKED)])
def test_gsm8k_gold_equals_the_worked_answer(index, key, value):
    row = (PROBLEMS + POOL + SHOTS)[index]
    assert key in row["question"]
    number = (FINAL.search(row["answer"]) if "answer" in row else BOXED.search(row["target"]))[1]
    assert float(number.replace(",", "")) == pytest.approx(value, abs=1e-9)


# MMLU, algebra: brute force over the group or ring that the question names.


def order(element, times, one):
    """The least n >= 1 with element^n = one."""
    power, n = element, 1
    while power != one:
        power, n = times(power, element), n + 1
    return n


def compose(f, g):
    return tuple(f[i] for i in g)


def partitions(n):
    sums = [itertools.combinations_with_replacement(range(1, n + 1), k) for k in range(1, n + 1)]
    return [terms for terms in itertools.chain(*sums) if sum(terms) == n]


HEXAGON = {tuple((sign * i + turn) % 6 for i in range(6)) for sign in (1, -1) for turn in range(6)}
IMAGES = {1: 4, 4: 7, 7: 2, 2: 1, 3: 8, 8: 5, 5: 3, 6: 9, 9: 6}
CYCLES = tuple(IMAGES[i] - 1 for i in range(1, 10))

ALGEBRA = [
    ("inverse of 4", next(x for x in range(9) if (x + 4) % 9 == 0)),
    ("roots of x^2 + 1", [x for x in range(7) if (x * x + 1) % 7 == 0] or None),
    ("(1 4 7 2)(3 8 5)(6 9)", order(CYCLES, compose, tuple(range(9)))),
    ("from Z_12 to Z_18", sum(12 * image % 18 == 0 for image in range(18))),
    ("generate the cyclic", sum(len({k * x % 20 for k in range(20)}) == 20 for x in range(20))),
    ("regular hexagon", sum(order(g, compose, tuple(range(6))) == 2 for g in HEXAGON)),
    ("conjugacy classes", len(partitions(5))),  # one for each cycle type
    ("division by x − 3", (3**3 + 2 * 3 + 4) % 5),
    ("element 10", order(10, lambda a, b: (a + b) % 24, 0)),
    ("order 72", len(partitions(3)) * len(partitions(2))),  # 72 = 2^3 · 3^2
]


def only(key):
    (row,) = [row for row in TEST + DEV if key in row["question"]]
    return row


def gold(row):
    return row["choices"][row["answer"]]


@pytest.mark.parametrize(("key", "value"), ALGEBRA, ids=[key for key, _ in ALGEBRA])
def test_algebra_gold_equals_the_brute_force_result(key, value):
    assert gold(only(key)) == str(value)


# MMLU, logic: each option is read and tried in every model with two things in it.

THINGS = (0, 1)
CONNECTIVES = {"∧": "and", "∨": "or", "→": "<=", "↔": "=="}


def unary(text):
    """Python source for the formula at the start of ``text``, and what comes after it."""
    head = text[0]
    if head in "∀∃":
        body, rest = unary(text[2:])
        return f"{'all' if head == '∀' else 'any'}({body} for {text[1]} in THINGS)", rest
    if head == "¬":
        body, rest = unary(text[1:])
        return f"(not {body})", rest
    if head == "(":
        body, rest = binary(text[1:])
        assert rest[0] == ")"
        return body, rest[1:]
    atom = re.match("[A-Z][xy]*", text)[0]
    return f"(({', '.join([repr(head), *atom[1:]])},) in true)", text[len(atom) :]


def binary(text):
    left, rest = unary(text)
    if not rest or rest[0] not in CONNECTIVES:
        return left, rest
    right, after = unary(rest[1:])
    return f"({left} {CONNECTIVES[rest[0]]} {right})", after


def models(signature):
    """All sets of true atoms; "F1 G2" has a one-place F and a two-place G, "P0" a sentence P."""
    atoms = []
    for name, places in signature.split():
        atoms += [(name, *args) for args in itertools.product(THINGS, repeat=int(places))]
    for values in itertools.product((True, False), repeat=len(atoms)):
        yield {atom for atom, value in zip(atoms, values, strict=True) if value}


def truth_values(formula, signature):
    source, rest = binary(formula.replace(" ", ""))
    assert not rest
    return [eval(source, {"THINGS": THINGS, "true": true}) for true in models(signature)]


def circling(true):
    circles = {x for x in THINGS for y in THINGS if {("L", y), ("C", x, y)} <= true}
    return circles >= {x for x in THINGS if ("M", x) in true}


def lonely(true):
    return any(("F", x) in true and not {("G", x, 0), ("G", x, 1)} & true for x in THINGS)


MEANINGS = [
    ("tram runs only if", "R0 S0", lambda t: ("R",) not in t or ("S",) in t),
    ("each moth circles", "M1 L1 C2", circling),
    ("negation of ∀x(Fx", "F1 G2", lonely),
    ("false under every", "P0 Q0", lambda t: False),
    ("bread does not rise", "B0 T0", lambda t: ("T",) in t or ("B",) not in t),
    ("true under every", "P0 Q0", lambda t: True),
    ("some whales", "W1 S1", lambda t: any(("W", x) in t and ("S", x) not in t for x in THINGS)),
    ("equivalent to ¬(P ↔ Q)", "P0 Q0", lambda t: len(t) == 1),
]


@pytest.mark.parametrize(("key", "signature", "meaning"), MEANINGS, ids=[m[0] for m in MEANINGS])
def test_just_the_gold_formula_has_the_meaning_asked_for(key, signature, meaning):
    row = only(key)
    wanted = [meaning(true) for true in models(signature)]
    fits = [truth_values(option, signature) == wanted for option in row["choices"]]
    assert [i for i, fit in enumerate(fits) if fit] == [row["answer"]]


def test_logic_golds_read_off_a_truth_table():
    n_true = sum(truth_values("(P ∨ Q) → (P ∧ R)", "P0 Q0 R0"))
    assert gold(only("eight rows")) == str(n_true)
    in_words = {"NA": "¬A", "NB": "¬B", "A": "A", "KAB": "A ∧ B"}
    contradiction = truth_values("A → (B ∧ ¬B)", "A0 B0")
    fits = [k for k, v in in_words.items() if truth_values(v, "A0 B0") == contradiction]
    assert fits == [gold(only("CAKBNB"))]
    island = truth_values("O ↔ ¬(O ↔ P)", "O0 P0")  # Ori is a knight just if what he says is so
    assert island == truth_values("¬P", "O0 P0")
    assert gold(only("knave")) == "Pim is a knave; Ori may be of either kind."
    row = only("is a counterexample")
    values = [["true" in part for part in option.split(", ")] for option in row["choices"]]
    found = [i for i, (a, b, c) in enumerate(values) if (a or b) and a <= c and not c]
    assert found == [row["answer"]]
