"""Prompts and choices as tokens: never two BOS, choices of one token (cases 28, 29)."""

import pytest
from toy_models import byte_tokenizer, llama_tokenizer

from tcb_bench.errors import ModelError
from tcb_bench.models.encoding import PromptEncoder

BOS, EOS = 0, 1


def encoder(tokenizer, add_special=None):
    return PromptEncoder(tokenizer, add_special=add_special, fallback=BOS)


def ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    "tokenizer", [byte_tokenizer(True), llama_tokenizer()], ids=["byte", "llama"]
)
def test_there_is_one_bos_whether_or_not_the_text_brings_it(tokenizer):
    plain, own, twice = encoder(tokenizer).encode(["ab", "<s>ab", "<s><s>ab"])
    for row in (plain, own, twice):
        assert list(row[:2]).count(BOS) == 1
        assert row[0] == BOS
    assert list(plain) == tokenizer("ab")["input_ids"]


def test_a_tokenizer_without_bos_gets_none_and_a_user_can_forbid_it():
    assert list(encoder(byte_tokenizer()).encode(["ab"])[0]) == ids(byte_tokenizer(), "ab")
    forbidden = encoder(byte_tokenizer(True), add_special=False).encode(["ab"])[0]
    assert list(forbidden) == ids(byte_tokenizer(), "ab")


def test_an_end_of_sequence_that_a_tokenizer_appends_is_left_out():
    from tokenizers.processors import TemplateProcessing

    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", BOS), ("</s>", EOS)]
    )
    assert tokenizer("ab")["input_ids"][-1] == EOS
    assert list(encoder(tokenizer).encode(["ab"])[0]) == [BOS, *ids(tokenizer, "ab")]


def test_an_empty_prompt_is_the_fallback_token():
    assert list(encoder(byte_tokenizer()).encode([""])[0]) == [BOS]
    (prompt,) = encoder(byte_tokenizer()).prompts([("", (" A", " B"))])
    assert list(prompt.ids) == [BOS]
    (prompt,) = encoder(byte_tokenizer(True)).prompts([("  ", ("A", "B"))])
    assert list(prompt.ids) == [BOS, *ids(byte_tokenizer(), " ")]


def test_choices_are_the_tokens_that_follow_the_context():
    tokenizer = byte_tokenizer()
    (prompt,) = encoder(tokenizer).prompts([("Answer:", (" A", " B", " C", " D"))])
    assert list(prompt.ids) == ids(tokenizer, "Answer:")
    assert prompt.choices == tuple(ids(tokenizer, f" {letter}")[0] for letter in "ABCD")


def test_a_space_at_the_end_of_the_context_belongs_to_the_choice():
    tokenizer = byte_tokenizer()
    spaced, delimited = encoder(tokenizer).prompts([("x: ", ("A", "B")), ("x:", (" A", " B"))])
    assert spaced == delimited


def test_tokens_that_all_choices_begin_with_are_part_of_the_prompt():
    tokenizer = byte_tokenizer()
    (prompt,) = encoder(tokenizer).prompts([("x", ("\nA", "\nB"))])
    assert list(prompt.ids) == ids(tokenizer, "x\n")
    assert prompt.choices == tuple(ids(tokenizer, letter)[0] for letter in "AB")


def test_no_choices_leave_the_context_as_it_is():
    (prompt,) = encoder(byte_tokenizer()).prompts([("x ", ())])
    assert list(prompt.ids) == ids(byte_tokenizer(), "x ")
    assert prompt.choices == ()


def test_choices_that_are_no_single_token_are_refused_by_name():
    with pytest.raises(ModelError, match="choice ' Ax' is 2 tokens"):
        encoder(byte_tokenizer()).prompts([("x", (" Ax", " B"))])
    with pytest.raises(ModelError, match="choices ' A' and ' A' are the same token"):
        encoder(byte_tokenizer()).prompts([("x", (" A", " A"))])
    with pytest.raises(ModelError, match="choice 'A' is 0|choice 'AB' is 2"):
        encoder(byte_tokenizer()).prompts([("x", ("A", "AB"))])


def test_the_order_of_the_requests_is_kept_and_equal_ones_are_encoded_once():
    tokenizer, calls = byte_tokenizer(), []
    coder = encoder(tokenizer)

    def counting(texts, **options):
        calls.extend(texts)
        return tokenizer(texts, **options)

    class Counting:
        bos_token_id = BOS

        def __call__(self, texts, **options):
            return counting(texts, **options)

    coder.tokenizer = Counting()
    texts = ["b", "a", "b", "b"]
    assert [list(row) for row in coder.encode(texts)] == [ids(tokenizer, text) for text in texts]
    assert calls == ["b", "a"]
