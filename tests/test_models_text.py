"""Text, offsets and stop strings of tokens that come one by one (case 34)."""

import pytest
from lm_eval.models.utils import postprocess_generated_text
from toy_models import byte_tokenizer, llama_tokenizer

from tcb_bench.models.text import RowText, StopRule, TextBuilder

TEXTS = [
    "plain words, 18 apples",
    " leading and trailing ",
    "emoji 😀👩‍👩‍👧 and é, ∑, 한국어",
    "😀",
    "a\ufffdb",
    "line\n\nline\tand  spaces",
]


def built(tokenizer, ids, context=()):
    builder = TextBuilder(tokenizer, context)
    for token in ids:
        builder.push(token)
    builder.finish()
    return builder


def bare(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def row(tokenizer, *strings, **rule):
    eos = frozenset({tokenizer.eos_token_id})
    return RowText(TextBuilder(tokenizer), StopRule(eos, strings, **rule))


def push_all(row, ids):
    """Number of tokens that the row took before it ended."""
    for i, token in enumerate(ids):
        if row.push(token):
            return i + 1
    return len(ids)


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_and_offsets_put_the_text_together_again(text):
    tokenizer = byte_tokenizer()
    ids = bare(tokenizer, text)
    builder = built(tokenizer, ids)
    assert builder.text == text == tokenizer.decode(ids)
    covered = "".join(text[a:b] for a, b in sorted({tuple(span) for span in builder.offsets}))
    assert covered == text
    for token, (start, end) in zip(ids, builder.offsets, strict=True):
        alone = tokenizer.decode([token])
        assert text[start:end] == alone or (end - start == 1 and "\ufffd" in alone)


def test_a_real_tokenizer_gives_the_same_text_as_decoding_all_at_once(hf_demo):
    for text in TEXTS:
        ids = bare(hf_demo.tokenizer, text)
        builder = built(hf_demo.tokenizer, ids)
        assert builder.text == hf_demo.tokenizer.decode(ids)
        assert [builder.offsets[0][0], builder.offsets[-1][1]] == [0, len(text)]


def test_the_text_never_takes_a_character_back():
    tokenizer = byte_tokenizer()
    builder, before = TextBuilder(tokenizer), ""
    for token in bare(tokenizer, "".join(TEXTS)):
        builder.push(token)
        assert builder.text.startswith(before)
        before = builder.text


def test_the_bytes_of_an_emoji_share_its_range():
    tokenizer = byte_tokenizer()
    builder = built(tokenizer, bare(tokenizer, "a😀b"))
    assert builder.offsets == [[0, 1], [1, 2], [1, 2], [1, 2], [1, 2], [2, 3]]


def test_a_token_of_letters_and_a_first_byte_covers_both():
    tokenizer = byte_tokenizer(more_merges=[("a", "ð")])  # ð stands for the byte F0
    ids = [tokenizer.convert_tokens_to_ids("að"), *bare(tokenizer, "😀b")[1:]]
    builder = built(tokenizer, ids)
    assert builder.text == "a😀b"
    assert builder.offsets == [[0, 2], [1, 2], [1, 2], [1, 2], [2, 3]]


def test_a_character_that_stays_incomplete_is_shown_as_the_tokenizer_shows_it():
    tokenizer = byte_tokenizer()
    builder = built(tokenizer, bare(tokenizer, "a😀")[:3])
    assert builder.text == "a\ufffd"
    assert builder.offsets == [[0, 1], [1, 2], [1, 2]]


def test_a_long_run_of_broken_bytes_is_linear_and_loses_no_token():
    tokenizer = byte_tokenizer()
    broken = bare(tokenizer, "😀")[0]
    builder = built(tokenizer, [broken] * 400 + bare(tokenizer, "end"))
    assert builder.text.endswith("end")
    assert len(builder.offsets) == 403
    assert len(builder._known) < 40


def test_a_tokenizer_that_strips_the_first_space_keeps_it_behind_a_prompt():
    tokenizer = llama_tokenizer()
    prompt, more = bare(tokenizer, "a"), bare(tokenizer, "b e b")
    assert tokenizer.decode(more) == "b e b"
    assert built(tokenizer, more, prompt).text == " b e b"
    assert built(tokenizer, more).text == "b e b"


def test_spaces_behind_a_special_token_are_kept_too():
    tokenizer = llama_tokenizer()
    ids = [*bare(tokenizer, "a"), 2, *bare(tokenizer, "b b")]  # 2 is <|end|>, without text
    builder = built(tokenizer, ids)
    assert builder.text == tokenizer.decode(ids, skip_special_tokens=True) == "a b b"
    assert builder.offsets[1] == [1, 1]


def test_neighbouring_emoji_of_a_byte_fallback_tokenizer_are_whole():
    tokenizer = llama_tokenizer()
    ids = bare(tokenizer, "a😀😀 b")
    assert built(tokenizer, ids).text == "a😀😀 b"


def test_a_stop_string_over_several_tokens_ends_the_row_and_the_text():
    tokenizer = byte_tokenizer()
    ids = bare(tokenizer, "say STOP now")
    row_ = row(tokenizer, "STOP", "now")
    assert push_all(row_, ids) == len("say STOP")
    text, tokens, offsets = row_.result()
    assert text == "say "
    assert tokens == ids[:4]
    assert offsets == [[0, 1], [1, 2], [2, 3], [3, 4]]


def test_a_stop_string_inside_one_token_cuts_that_token(hf_demo):
    tokenizer = hf_demo.tokenizer
    ids = bare(tokenizer, "one answer")
    row_ = row(tokenizer, "swer")
    push_all(row_, ids)
    text, tokens, offsets = row_.result()
    assert text == "one an"
    assert tokens == ids[: len(tokens)]
    assert offsets[-1][1] == len(text)


def test_the_earliest_of_several_stop_strings_counts():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "cd", "bcd", "x")
    push_all(row_, bare(tokenizer, "abcd"))
    assert row_.result()[0] == "a"


def test_a_stop_string_at_the_start_leaves_nothing():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "\n\n")
    assert push_all(row_, bare(tokenizer, "\n\nmore")) == 2
    assert row_.result() == ("", [], [])


def test_the_end_of_sequence_is_a_token_without_text():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "never")
    assert push_all(row_, [*bare(tokenizer, "ab"), 1, *bare(tokenizer, "cd")]) == 3
    assert row_.result() == ("ab", [*bare(tokenizer, "ab"), 1], [[0, 1], [1, 2], [2, 2]])


@pytest.mark.parametrize("end", ["</t>", None], ids=["string", "token"])
def test_stop_strings_count_only_behind_the_reasoning_part(end):
    tokenizer = byte_tokenizer()
    think = bare(tokenizer, "</t>") if end else [2]
    ids = [*bare(tokenizer, "a\n\nb"), *think, *bare(tokenizer, "c\n\nd")]
    row_ = row(tokenizer, "\n\n", think_end=end or 2)
    push_all(row_, ids)
    assert row_.result()[0] == f"a\n\nb{end or ''}c"


def answer(row):
    return row.result()[0][row.answer_start :]


REASONED = [  # text, stop strings; think_end is </t>; every one ends its reasoning
    ("a\n\nb</t>c\n\nd", ["\n\n"]),
    ("a 3</t>\n\n The answer\n\nis 18", ["\n\n"]),
    ("</t>18", ["a"]),
    ("a</t>", ["a"]),
    ("a</t> \n", ["\n"]),
    ("a</t>b</t>\n\nc\n\nd", ["\n\n"]),
    ("a</t></t>\u00a0c", []),
    ("a</t>b</t", ["</t"]),
    ("STOP</t>ST</t>OP</t>dSTOPe", ["STOP", "e"]),
    ("a</t>\n\nQuestion: b", ["\n\nQuestion:"]),
    ("emoji 😀</t>😀\u200b é STOP", ["STOP"]),
]


@pytest.mark.parametrize(("text", "until"), REASONED)
def test_the_answer_is_what_lm_eval_makes_of_the_whole_text(text, until):
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, *until, think_end="</t>")
    push_all(row_, bare(tokenizer, text))
    assert answer(row_) == postprocess_generated_text(text, until, "</t>")


@pytest.mark.parametrize(("text", "until"), REASONED)
def test_a_token_that_does_not_show_ends_the_reasoning_alike(text, until):
    """Oracle: lm-eval's HFLM decodes and strips what follows the last such token."""
    tokenizer = byte_tokenizer()
    parts = [bare(tokenizer, part) for part in text.split("</t>")]
    ids = [token for part in parts for token in (*part, 2)][:-1]  # 2 is <|end|>, without text
    row_ = row(tokenizer, *until, think_end=2)
    push_all(row_, ids)
    behind = tokenizer.decode(parts[-1]).lstrip()
    assert answer(row_) == postprocess_generated_text(behind, until, None)


def test_a_token_that_shows_is_part_of_the_reasoning_that_it_ends():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, think_end=bare(tokenizer, ".")[0])
    push_all(row_, bare(tokenizer, "a. b. c"))
    assert (row_.result()[0], row_.answer_start) == ("a. b. c", len("a. b. "))


def test_ends_do_not_overlap_as_in_a_split():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, think_end="aa")
    push_all(row_, bare(tokenizer, "xaaab"))
    assert answer(row_) == postprocess_generated_text("xaaab", None, "aa") == "ab"


def test_a_stop_string_behind_the_first_end_counts_though_another_end_would_follow():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "STOP", think_end="</t>")
    push_all(row_, bare(tokenizer, "a STOP</t>b STOP c</t>d"))
    assert row_.result()[0] == "a STOP</t>b "
    assert answer(row_) == "b "


@pytest.mark.parametrize("end", ["</t>", 2])
def test_reasoning_that_never_ends_is_all_answer_and_has_no_stop_string(end):
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "STOP", think_end=end)
    push_all(row_, bare(tokenizer, " a STOP b</t"))
    assert (row_.is_done, row_.answer_start, answer(row_)) == (False, 0, " a STOP b</t")


def test_a_hidden_end_just_before_a_stop_string_leaves_an_empty_answer():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "STOP", think_end=2)
    push_all(row_, [*bare(tokenizer, "ab"), 2, *bare(tokenizer, "STOP")])
    assert (row_.result()[0], row_.answer_start) == ("ab", 2)


def test_an_end_of_reasoning_that_also_ends_the_row_leaves_an_empty_answer():
    tokenizer = byte_tokenizer()
    row_ = RowText(TextBuilder(tokenizer), StopRule(frozenset({2}), (), 2))
    push_all(row_, [*bare(tokenizer, "ab"), 2])
    assert (row_.result()[0], row_.answer_start, row_.is_done) == ("ab", 2, True)


def test_without_an_end_of_reasoning_all_is_answer():
    tokenizer = byte_tokenizer()
    row_ = row(tokenizer, "c")
    push_all(row_, bare(tokenizer, " a</t> bc"))
    assert (row_.answer_start, answer(row_)) == (0, " a</t> b")
