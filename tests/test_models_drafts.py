"""Rows made into generations, whichever back end wrote them. Expected values are counted by hand."""

import pytest
from tokenizers import AddedToken
from toy_models import byte_tokenizer, llama_tokenizer

from tcb_bench.models.drafts import draft, stop_rule
from tcb_bench.models.text import RowText, TextBuilder

TEXT = "3</t> is 18."


def written(text, think_end="</t>", until=(), rule="final_number", more=()):
    """The draft of a row that got a token per character."""
    tokenizer = byte_tokenizer()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    row = RowText(TextBuilder(tokenizer), stop_rule(tokenizer, until, [1], think_end))
    for token in [*ids, *more]:
        row.push(token)
    return draft(7, row, rule)


@pytest.mark.parametrize(
    ("rule", "positions", "name"),
    [
        ("final_number", [9], "final_number/1"),
        ("first", [6], "first/1"),
        ("last", [11], "last/1"),
        ("all", list(range(12)), "all"),
        ("none", [], "none"),
    ],
)
def test_positions_lie_in_the_answer_and_a_trace_covers_the_reasoning_too(rule, positions, name):
    found = written(TEXT, rule=rule)
    assert (found.text, found.answer) == (TEXT, "is 18.")
    assert (found.positions, found.rule, found.stability) == (positions, name, {})
    assert (found.answer_start, found.prompt_tokens, found.finish_reason) == (6, 7, "length")
    assert found.offsets == [[i, i + 1] for i in range(12)]


def test_without_an_end_of_reasoning_the_whole_text_is_the_answer():
    found = written(TEXT, None, rule="first", more=[1])
    assert (found.answer, found.answer_start, found.positions) == (TEXT, 0, [0])
    assert (found.finish_reason, len(found.tokens)) == ("stop", 13)


def test_reasoning_that_is_cut_by_length_is_kept_whole():
    found = written("so 3, STOP", until=["STOP"])
    assert (found.text, found.answer_start, found.finish_reason) == ("so 3, STOP", 0, "length")


def test_an_answer_without_a_number_has_no_position():
    assert written("3</t>none").positions == []
    assert written("3</t>").positions == []


@pytest.mark.parametrize("make", [byte_tokenizer, llama_tokenizer])
def test_what_never_shows_in_a_text_is_looked_for_among_the_tokens(make):
    tokenizer = make()
    tokenizer.add_tokens([AddedToken("</h>", special=True), AddedToken("</v>", special=False)])
    hidden, shown = tokenizer.convert_tokens_to_ids(["</h>", "</v>"])
    rule = stop_rule(tokenizer, ["</h>", "a", "</v>", "<|end|>"], [1], "</h>")
    assert (rule.tokens, rule.strings) == ({1, 2, hidden}, ("a", "</v>"))
    assert rule.think_end == hidden
    assert tokenizer.decode([hidden, shown], skip_special_tokens=True).strip() == "</v>"
    assert stop_rule(tokenizer, [], [1], "</v>").think_end == "</v>"


@pytest.mark.parametrize(("given", "kept"), [("</t>", "</t>"), (0, 0), (9, 9), ("", None)])
def test_other_ends_of_reasoning_stay_as_they_are(given, kept):
    assert stop_rule(byte_tokenizer(), [], [1], given).think_end == kept


def test_a_text_that_is_no_token_is_not_taken_for_the_unknown_token():
    tokenizer = llama_tokenizer()
    tokenizer.unk_token = "<|end|>"
    assert tokenizer.convert_tokens_to_ids("</think>") == 2
    rule = stop_rule(tokenizer, ["Question:"], [1], "</think>")
    assert (rule.tokens, rule.strings, rule.think_end) == ({1}, ("Question:",), "</think>")


def test_a_real_tokenizer_keeps_its_hidden_tokens_and_shows_the_others(hf_demo):
    rule = stop_rule(hf_demo.tokenizer, ["<|im_end|>", "\n\n"], [2], "<|im_start|>")
    assert (rule.tokens, rule.strings, rule.think_end) == ({2}, ("\n\n",), 1)
