r"""Expected numbers are read off the texts by hand; GSM8K's gold answers are the authors' own."""

import time
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.metrics.answers import (
    Number,
    final_number,
)

# text -> what the span reads, value
NUMBERS = [
    ("She earns $29.00.", "29.00", 29),
    ("72, in total", "72", 72),
    (r"\boxed{8,000}", "8,000", 8000),
    ("It is 9{,}500 in all", "9{,}500", 9500),
    ("= 18...", "18", 18),
    ("\u22125", "\u22125", -5),
    ("(42)", "42", 42),
    ("60%", "60", 60),
    ("711", "711", 711),
    ("18.0", "18.0", 18),
    ("1,234,567", "1,234,567", 1234567),
    ("3.5", "3.5", "3.5"),
    (".5", ".5", "0.5"),
    ("costs $.50", ".50", "0.5"),
    ("...5", "5", 5),
    ("-7", "-7", -7),
    ("-.5", "-.5", "-0.5"),
    ("$-7", "-7", -7),
    ("-$7", "-$7", -7),
    (r"-\$7", r"-\$7", -7),
    ("x=-3", "-3", -3),
    ("**-3**", "-3", -3),
    ("10-20", "20", 20),
    ("5 - 3 = 2", "2", 2),
    ("what is 5 -3", "3", 3),
    ("COVID-19", "19", 19),
    ("1/2", "1/2", "0.5"),
    ("36/2", "36/2", 18),
    ("3 1/2 hours", "3 1/2", "3.5"),
    ("3/4/2024", "2024", 2024),
    ("5/0 or 5", "5", 5),
    ("1,2,3", "3", 3),
    ("12,5 apples", "5", 5),
    ("12,3456", "3456", 3456),
    ("at 2:30", "30", 30),
    ("1e3", "1e3", 1000),
    ("2.5E-1.", "2.5E-1", "0.25"),
    ("1e9999", "9999", 9999),  # no exponent of four digits
    ("\u0663\u0664", "\u0663\u0664", 34),
    ("8\u202f000 m", "8\u202f000", 8000),
    (r"8\,000", r"8\,000", 8000),
    ("**42**", "42", 42),
    ("_42_", "42", 42),
    (r"\$42", "42", 42),
    ("18kg", "18", 18),
    ("18 m^2", "18", 18),
    ("18 m^{2}, that is a_1", "18", 18),
    ("18 laps on the 3rd", "18", 18),
    ("on the 3rd", "3", 3),
    ("007", "007", 7),
]

# Which of several numbers is the answer: text -> value, rule by rule of `final_number`
CHOICES = [
    (r"\boxed{3} then \boxed{4}, of 5", 4),
    (r"$\boxed{42}$. The final answer is 7. #### 8", 42),
    (r"\boxed{4} and \boxed{} and \boxed{\text{none}}", 4),
    (r"7 apples \boxed{}", 7),
    (r"\boxed{\$8{,}000} for 3", 8000),
    (r"\boxed{72 \text{ clips in } 2 \text{ months}}", 72),
    (r"\boxed{\textbf{(B) } 18\%}", 18),
    (r"\boxed{x = 5}", 5),
    (r"\boxed{x_1 = 5}", 5),
    (r"\boxed{2x = 10}", 10),
    (r"\boxed{3 \times 24 = 72}", 72),
    (r"\boxed{72 = 3 \times 24}", 72),
    (r"\boxed{- 5}", -5),
    (r"\boxed{\frac{1}{2}} of 9", "0.5"),
    (r"\boxed{\dfrac{1{,}000}{8}}", 125),
    (r"\boxed{3\frac{1}{2}}", "3.5"),
    (r"\boxed {6}", 6),
    (r"\\boxed{6} 7", 6),
    (r"\boxed{\boxed{5} = x} 7", 5),
    (r"{ \boxed{\{5\}} 7", 5),
    (r"it is 3, \boxed{18", 18),
    ("The final answer is 42 because 7 * 6 = 42, not 41", 42),
    ("the final answer is 42. Is the final answer is right?", 42),
    ("Final answer: 3. The final answer is 4. #### 5", 4),
    ("**Final Answer:** $18 (of 20)", 18),
    ("**Final answer**: **18** of 20", 18),
    ("FINAL ANSWER IS:\n\n18 of 20\n21", 18),
    ("The final answer is 3 + 4 = 7. Check 8.", 7),
    ("The final answer is $20 - $2 = $18, 5", 18),
    ("The final answer is 20 -2 = 18, 5", 18),
    (r"The final answer is 3 \times 6 = 18, 5", 18),
    ("The final answer is 18 (3*6=19)", 18),
    ("The final answer is 18 - 5 of them red", 18),
    ("The final answer is 18 dollars = 1800 cents", 18),
    ("The final answer is 42 because x = 7 * 6", 42),
    ("final answer is 15 gallons * 8 pints / gallon = <<15*8=120>>120 pints\n6", 120),
    (r"The final answer is 20\% \times 90 \text{ eggs} = 18, 5", 18),
    ("final answer is -\n18", 18),
    ("#### 18\nQuestion: 5 apples", 18),
    ("#### 18\n\nQuestion: 5 apples\n#### 5", 18),
    ("#### 18 of 20", 18),
    ("#### 18\n- 3 = 15", 18),
    ("#### $18.00.", 18),
    ("####\n**18**\n5", 18),
    ("#### 6 * 3 = 18", 18),
    ("#### <<6*3=18>>18", 18),
    ("#### 1. Count 12 eggs\n5\n#### 2. Sell them\n6\n#### 18\n7", 18),
    ("#### Answer: 18\n7", 18),
    ("#### none\n7", 7),
    ("The answer is 18. (check: 3*6=18)", 18),
    ("3 apples, 4 pears, 7 in all", 7),
]


@pytest.mark.parametrize(("text", "span", "value"), NUMBERS)
def test_a_number_is_read_as_a_person_reads_it(text, span, value):
    found = final_number(text)
    assert (found.text, found.value) == (span, Decimal(value))
    assert text[found.start : found.end] == found.text


@pytest.mark.parametrize(("text", "value"), CHOICES)
def test_the_answer_is_found_by_the_order_of_the_rules(text, value):
    found = final_number(text)
    assert found.value == Decimal(value)
    assert text[found.start : found.end] == found.text


@pytest.mark.parametrize(
    "text", ["", " \n", "No number.", "5/0", r"\boxed{", "####", "final answer is", "m²", "½", "∞"]
)
def test_a_text_without_a_number_has_no_final_number(text):
    assert final_number(text) is None


def test_the_place_of_the_number_is_its_first_and_last_character():
    assert final_number(r"Thus \boxed{\$9{,}500}.") == Number("9{,}500", Decimal(9500), 14, 21)


def test_a_number_is_exact_whatever_the_callers_decimal_context():
    with localcontext() as context:
        context.prec = 3
        assert final_number("-1234567.891").value == Decimal("-1234567.891")
        assert final_number("9999/2").value.compare(Decimal("4999.5")) in (0, 1, -1)
    assert final_number("9999/2").value == Decimal("4999.5")


WORDS = [
    "final answer is ",
    "Final answer:",
    "####",
    r"\boxed{",
    r"\frac{",
    "}",
    "{",
    "\\",
    "{,}",
    "\n",
    "=",
    "/",
    ",",
    "-",
    "$",
    "x",
    " ",
    "0",
    "12",
    "345",
    ".",
    "e",
    "^",
    "_",
    "\u2212",
    "\u0663",
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=40).map("".join))


def evaluated(span):
    """The value of a span, by float arithmetic on its digits."""
    negative = span[0] in "-\u2212\ufe63\uff0d"
    for old, new in [("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("{,}", ""), ("\\,", "")]:
        span = span.replace(old, new)
    whole, bar, fraction = span.partition("\\frac")
    if bar:
        over, under = fraction.strip("{}").split("}{")
    elif "/" in span:
        whole, _, over = span.partition("/")[0].rpartition(" ")
        under = span.partition("/")[2]
    else:
        whole, over, under = "", span, "1"
    plain = [
        "".join(c for c in part.lstrip("-\u2212\ufe63\uff0d") if c.isdecimal() or c in ".eE+-")
        for part in (whole, over, under)
    ]
    value = float(plain[0] or 0) + float(plain[1]) / float(plain[2])
    return -value if negative else value


@given(TEXTS)
def test_any_text_is_read_without_an_error_and_the_span_says_the_value(text):
    found = final_number(text)
    if found is not None:
        assert text[found.start : found.end] == found.text
        assert found.value.is_finite()
        assert float(found.value) == pytest.approx(evaluated(found.text))


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "{}.", "{:,}.00", "({})"]))
def test_every_way_of_writing_an_integer_gives_that_integer(number, form):
    written = form.format(number)
    for text in (
        written,
        rf"so \boxed{{{written}}} of 3",
        f"The final answer is {written}\n3",
        f"#### {written}\n3",
    ):
        assert final_number(text).value == number


LONG = [
    "1",
    "1,111",
    "1,111,",
    "1/",
    "1 ",
    ".5",
    "1e1",
    r"\frac{1}{",
    r"\boxed{",
    r"\boxed{1",
    r"\boxed{1 = }",
    "final answer is ",
    "final answer is\n",
    "#### ",
    "#### 1. a ",
    "1 + ",
    "x",
    "x = ",
    "a b c * ",
    "times",
    "\\",
    "{",
    "*",
    " ",
]


@pytest.mark.parametrize("piece", LONG)
def test_time_is_linear_in_the_length_of_the_text(piece):
    many = piece * (100_000 // len(piece))
    start = time.process_time()
    final_number(f"final answer{many}\n1")
    final_number(f"final answer: 1 {many}1 = 3")
    assert time.process_time() - start < 5  # 0.3 s here; minutes if it were quadratic
