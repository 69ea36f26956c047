"""How many tokens a chat prompt has.

Oracles: transformers' own ids of the rendered chat template of the demo model; hand counts with a
vocabulary of bytes and two merges, and OpenAI's documented 3 a message + 3.
"""

import threading

import pytest
import tiktoken
import transformers
from hypothesis import given
from hypothesis import strategies as st
from toy_models import byte_tokenizer, llama_tokenizer

from tcb_bench.errors import UsageError
from tcb_bench.models import chat_tokens
from tcb_bench.models.chat_tokens import (
    Counter,
    counter,
    tiktoken_counter,
    transformers_counter,
)

RANKS = {bytes([i]): i for i in range(256)} | {b"ab": 256, b"abc": 257}
ENCODING = tiktoken.Encoding("toy_base", pat_str=r"\S+|\s+", mergeable_ranks=RANKS, special_tokens={"<|end|>": 300})  # fmt: skip

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
ROLES = st.sampled_from(["system", "user", "assistant", "developer"])
MESSAGES = st.lists(st.fixed_dictionaries({"role": ROLES, "content": TEXTS}), max_size=4)

EXAMPLES = [
    [{"role": "user", "content": "Who wrote The Hobbit?"}],
    [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": "2 + 2?"}],
    [
        {"role": "user", "content": "Übergrößen, 東京 and 🙂"},
        {"role": "assistant", "content": "fine\n\n"},
        {"role": "user", "content": "<|im_end|> is text, too"},
    ],
    [{"role": "user", "content": ""}],
]


@pytest.fixture(scope="module")
def demo(demo_gguf):
    """(our counter, transformers' tokenizer) of the demo model, read once."""
    read, folder_name = [], demo_gguf
    real = transformers.AutoTokenizer.from_pretrained
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            transformers.AutoTokenizer,
            "from_pretrained",
            lambda *args, **kwargs: read.append(real(*args, **kwargs)) or read[-1],
        )
        return counter("compatible", "any", str(folder_name[0] / folder_name[1])), read[0]


@pytest.mark.parametrize("messages", EXAMPLES, ids=["one", "system", "unicode", "empty"])
def test_a_count_is_that_of_transformers_own_prompt(demo, messages):
    ours, tokenizer = demo
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert ours.count(messages) == len(tokenizer(text, add_special_tokens=False)["input_ids"])
    content = messages[0]["content"]
    assert ours.count_text(content) == len(tokenizer.tokenize(content))


def test_kinds_name_the_tokenizer_and_no_path(demo, demo_gguf, tmp_path):
    assert demo[0].kind == f"tokenizer {demo_gguf[1]}"
    folder = tmp_path / "mine"
    demo[1].save_pretrained(folder)
    saved = counter("openai", "gpt-4o", str(folder))
    assert saved.kind == "tokenizer mine"
    assert [saved.count(m) for m in EXAMPLES] == [demo[0].count(m) for m in EXAMPLES]


@given(messages=MESSAGES.filter(bool))
def test_no_count_of_the_demo_model_is_above_a_bound(demo, messages):
    exact = demo[0].count(messages)
    assert exact <= demo[0].bound(messages)
    assert exact <= counter("compatible", "any").bound(messages)
    assert exact <= counter("deepseek", "deepseek-chat").bound(messages)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("ab", 1),
        ("abc", 1),
        ("abab", 2),
        ("a b", 3),
        ("é", 2),
        ("<|end|>", 7),
        ("xabcx", 3),
    ],
)
def test_texts_counted_by_hand(text, tokens):
    assert tiktoken_counter(ENCODING).count_text(text) == tokens


def test_the_overhead_of_openais_chat_format_by_hand():
    ours = tiktoken_counter(ENCODING)
    assert ours.kind == "tiktoken toy_base"
    assert ours.count([]) == 3
    assert ours.count([{"role": "user", "content": "abab"}]) == 3 + 4 + 2 + 3
    two = [{"role": "system", "content": "é"}, {"role": "user", "content": ""}]
    assert ours.count(two) == (3 + 6 + 2) + (3 + 4 + 0) + 3
    assert ours.bound(two) == (3 + 6 + 2) + (3 + 4 + 0) + 3
    assert ours.bound([{"role": "user", "content": "abab"}]) == 3 + 4 + 4 + 3


@given(MESSAGES)
def test_no_count_of_a_byte_vocabulary_is_above_its_bound(messages):
    ours = tiktoken_counter(ENCODING)
    assert ours.count(messages) <= ours.bound(messages)
    estimate = Counter("estimate", lambda text: len(text.encode()) // 4)
    assert ours.count(messages) <= estimate.bound(messages)


@pytest.mark.parametrize("make", [byte_tokenizer, llama_tokenizer])
def test_a_tokenizer_without_a_chat_template_says_so_and_is_bounded(make):
    tokenizer = make()
    ours = transformers_counter(tokenizer, "toy")
    assert ours.kind == "tokenizer toy, which has no chat template"
    assert ours.count_text("abé") == len(tokenizer.tokenize("abé"))
    for messages in EXAMPLES:
        assert 3 * len(messages) + 3 < ours.count(messages) <= ours.bound(messages)


def test_a_template_that_refuses_a_role_is_an_error_of_one_line():
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('no system here') if messages[0].role == 'system' else 'ok' }}"  # fmt: skip
    ours = transformers_counter(tokenizer, "toy")
    assert ours.count(EXAMPLES[0]) == 2
    with pytest.raises(UsageError, match=r"toy: .* messages of system, user .no system here.;"):
        ours.count(EXAMPLES[1])


def test_equal_texts_are_counted_once():
    asked = []
    ours = Counter("any", lambda text: asked.append(text) or len(text))
    shots = [{"role": "user", "content": "shot"}, {"role": "assistant", "content": "reply"}]
    for question in ("first", "second"):
        for _ in range(33):
            assert ours.count([*shots, {"role": "user", "content": question}]) > 0
    assert sorted(asked) == ["assistant", "first", "reply", "second", "shot", "user"]


def test_tiktoken_is_used_for_openai_where_it_can_be_read(monkeypatch):
    asked = []
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: asked.append(name) or ENCODING)
    assert counter("openai", "gpt-4o-2024-08-06").kind == "tiktoken toy_base"
    assert counter("openai", "gpt-3.5-turbo").count_text("abab") == 2
    assert counter("openai", "o3-mini").count_text("abab") == 2
    assert asked == ["o200k_base", "cl100k_base", "o200k_base"]
    assert counter("compatible", "gpt-4o").kind.startswith("estimate")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionError("https://x"), "ConnectionError"),
        (ValueError("Hash mismatch"), "ValueError"),
    ],
)
def test_without_its_vocabulary_the_estimate_says_why(monkeypatch, error, why):
    def fail(name):
        raise error

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    ours = counter("openai", "gpt-4o")
    assert ours.kind == f"estimate: UTF-8 bytes / 3.6 (tiktoken cannot read o200k_base: {why})"
    assert ours.count_text("") == 0
    assert ours.count_text("x" * 36) == 10
    assert ours.count_text("é" * 18 + "x") == 11  # 37 bytes, rounded up


def test_a_network_that_never_answers_does_not_hold_up_an_estimate(monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(chat_tokens, "DOWNLOAD_S", 0.05)
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: never.wait(30))
    ours = counter("openai", "gpt-4o")
    never.set()
    assert ours.kind.endswith("(tiktoken cannot read o200k_base: no answer in 0.05 s)")


def test_models_that_tiktoken_does_not_know_are_estimated():
    assert "tiktoken knows no vocabulary of gpt-6-sol" in counter("openai", "gpt-6-sol").kind
    assert counter("deepseek", "deepseek-chat").kind.startswith("estimate: UTF-8 bytes / 3.6 (")


def test_a_tokenizer_that_cannot_be_read_is_a_usage_error_of_one_line(tmp_path):
    with pytest.raises(UsageError, match="cannot be read") as caught:
        counter("compatible", "any", str(tmp_path))
    assert "\n" not in str(caught.value)
