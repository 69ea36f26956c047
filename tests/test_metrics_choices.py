"""Letters of replies. Oracle: read by hand."""

import pytest

from tcb_bench.metrics.choices import chosen_letter

LETTERS = ["A", "B", "C", "D"]


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        (" B", "B"),
        ("B.", "B"),
        ("(D)", "D"),
        ("**C**", "C"),
        ("**C.** because A is false", "C"),
        ("B) the sea", "B"),
        ("D: none of these", "D"),
        ("Answer: B", "B"),
        ("The answer is (A).", "A"),
        ("The correct answer is option D", "D"),
        ("The correct answer is **B. Hume**", "B"),
        (r"So it is \boxed{C}.", "C"),
        (r"\boxed{\text{B}}", "B"),
        ("At first the answer is A. No: the answer is D.", "D"),
        (r"The answer is A, in a box \boxed{B}", "B"),
        ("Let us see.\nHume denied it.\n\nB", "B"),
        ("Let us see.\n**(C)**", "C"),
    ],
)
def test_a_letter_is_found(text, letter):
    assert chosen_letter(text, LETTERS) == LETTERS.index(letter)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "A man walks into a bar",
        "I cannot say.",
        "E",
        "Both B and C could hold",
        "the answer is a matter of taste",
        "None of the above",
    ],
)
def test_running_text_names_nothing(text):
    assert chosen_letter(text, LETTERS) is None
