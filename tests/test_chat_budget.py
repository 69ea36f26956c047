"""Limits of money and tokens. Oracle: bills by hand from gpt-4o's price, 2.50 and 10 USD a million."""

import pytest
from chat_runs import ask, chat
from fault_bodies import no_usage
from fault_replies import usage
from fault_server import fault_server
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.errors import UsageError
from tcb_bench.models.chat_budget import Budget
from tcb_bench.models.prices import Price, read_prices
from tcb_bench.responses import Generation

GPT4O = read_prices().of("openai", "gpt-4o")
BILL = {"prompt_tokens": 1000, "completion_tokens": 100}  # 0.0025 + 0.001 USD


def test_bills_add_up_and_earlier_ones_count():
    budget = Budget(GPT4O)
    budget.begin({"requests": 2, "prompt_tokens": 10, "completion_tokens": 5, "usd": 0.5})
    assert budget.add(BILL) == pytest.approx(0.0035)
    assert budget.usd == pytest.approx(0.5035)
    assert budget.usage == {"requests": 3, "prompt_tokens": 1010, "completion_tokens": 105, "reasoning_tokens": 0, "cached_tokens": 0}  # fmt: skip


def test_the_projection_is_the_mean_of_this_process():
    budget = Budget(GPT4O)
    budget.begin({"usd": 1.0})
    assert budget.projected(100) == 1.0  # nothing is known yet
    budget.add(BILL)
    budget.answered = 2
    assert budget.projected(100) == pytest.approx(1.0035 + 100 * 0.0035 / 2)


def test_without_a_price_tokens_count_and_money_does_not():
    budget = Budget(None, token_limit=1200)
    assert budget.add(BILL) == 0 and budget.usd == 0
    assert budget.hold(1, 60, 40) and not budget.hold(2, 1, 0)
    assert budget.limit_text == "--token_limit 1200 (spent 1100)"


def test_a_promise_counts_until_it_is_released():
    budget = Budget(GPT4O, cost_limit=0.0071)  # two requests of 0.0035 and not three
    assert budget.hold(1, 1000, 100) and budget.hold(2, 1000, 100)
    assert not budget.hold(3, 1000, 100) and budget.has_promises
    budget.release(1)
    assert budget.hold(3, 1000, 100)
    for owner in (2, 3, 3, 99):
        budget.release(owner)
    assert not budget.has_promises and budget.usd == 0
    assert "--cost_limit 0.0071 USD (spent 0.0000)" in budget.limit_text


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.floats(0, 1)), max_size=40))
def test_what_is_promised_first_never_goes_beyond_the_limit(requests):
    budget = Budget(Price(input=2.0, cached_input=1.0, output=8.0), 0.004, 3000)
    for owner, (prompt, completion, share) in enumerate(requests):
        if budget.hold(owner, prompt, completion):
            budget.add({"prompt_tokens": prompt, "completion_tokens": int(completion * share)})
            budget.release(owner)
        assert budget.usd <= 0.004
        assert budget.usage["prompt_tokens"] + budget.usage["completion_tokens"] <= 3000


def test_the_batch_price_holds_in_a_batch():
    assert Budget(GPT4O, is_batch=True).add(BILL) == pytest.approx(0.0035 / 2)


@pytest.mark.parametrize("limit", [1, 100, 400, 700])
def test_a_token_limit_is_never_passed_and_keeps_what_was_paid(limit):
    with fault_server() as server:
        lm = chat(server, token_limit=limit, max_connections=4)
        answers = ask(lm, [f"Question {i}" for i in range(40)])
        bills = [usage(a.body, server.app.played, 0)["prompt_tokens"] for a in server.chats]
    spent = lm.budget.usage["prompt_tokens"] + lm.budget.usage["completion_tokens"]
    texts = [a for a in answers if isinstance(a, Generation)]
    assert spent <= limit and lm.stopped.startswith(f"--token_limit {limit} (spent {spent}) has")
    assert len(texts) == len(bills) == lm.budget.usage["requests"]
    assert lm.budget.usage["prompt_tokens"] == sum(bills)
    # the worst case of one more: 60 new tokens, and at most 11 + 4 bytes of text with 6 of format
    assert limit - spent < 60 + 22
    assert all("--token_limit" in a.reason for a in answers if a not in texts)


def test_a_reply_without_a_bill_counts_as_the_most_it_could_be():
    with fault_server(no_usage()) as server:
        free, limited = chat(server), chat(server, token_limit=500, max_connections=1)
        assert isinstance(ask(free, ["Q"])[0], Generation)
        assert free.budget.usage["completion_tokens"] == 0
        asked = [a for a in ask(limited, list("abcdefghijk")) if isinstance(a, Generation)]
    assert limited.budget.usage["completion_tokens"] == 60 * len(asked)
    assert 1 <= len(asked) <= 500 // 60
    assert limited.stopped


def test_a_cost_limit_needs_a_price(tmp_path):
    with fault_server() as server:
        with pytest.raises(UsageError, match="no price is known of compatible/m.*--prices"):
            chat(server, "compatible/m", cost_limit=1.0, folder=tmp_path)
        prices = tmp_path / "prices.yaml"
        prices.write_text("compatible:\n  m: {input: 1.0, output: 2.0}\n")
        lm = chat(server, "compatible/m", cost_limit=1.0, prices=prices, folder=tmp_path)
        ask(lm, ["Name a river."])
    own = lm.budget.usage
    assert lm.budget.usd == pytest.approx(
        (own["prompt_tokens"] + 2 * own["completion_tokens"]) / 1e6, rel=1e-12
    )
