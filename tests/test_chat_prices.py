"""What tokens cost. Oracle: bills worked out by hand, and exact arithmetic with fractions."""

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.errors import UsageError
from tcb_bench.models.capabilities import known_models
from tcb_bench.models.prices import Price, read_prices

SHIPPED = [(p, m, price) for p, rows in read_prices().rows.items() for m, price in rows.items()]


def usage(prompt=0, completion=0, reasoning=0, cached=0):
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "reasoning_tokens": reasoning,
        "cached_tokens": cached,
    }


@pytest.mark.parametrize(
    ("provider", "model", "tokens", "is_batch", "usd"),
    [
        # gpt-4o: 2.50 in, 1.25 cached, 10 out; half of it in a batch
        ("openai", "gpt-4o", usage(1_000_000), False, 2.50),
        ("openai", "gpt-4o", usage(1_000_000, cached=400_000), False, 1.50 + 0.50),
        ("openai", "gpt-4o", usage(0, 1_000_000), False, 10.00),
        ("openai", "gpt-4o", usage(1000, 100), False, 0.0025 + 0.001),
        ("openai", "gpt-4o", usage(1000, 100), True, 0.00125 + 0.0005),
        ("openai", "gpt-4o-2024-08-06", usage(1000, 100), False, 0.0035),
        ("openai", "gpt-4o-2024-05-13", usage(1000, 100), False, 0.005 + 0.0015),
        # o3: 2 in, 8 out; the reasoning is part of the completion and billed once
        ("openai", "o3", usage(500, 1500, reasoning=1200), False, 0.001 + 0.012),
        # DeepSeek has no batch: the price stays
        ("deepseek", "deepseek-chat", usage(10_000, 1000, cached=9000), True, 0.00028 + 0.000252 + 0.00042),
        ("openai", "ft:gpt-4o-mini-2024-07-18:org::x", usage(1_000_000, 1_000_000), False, 0.3 + 1.2),
        ("openai", "gpt-3.5-turbo", usage(79_200 * 1000, 79_200 * 50), False, 39.6 + 5.94),
    ],
)  # fmt: skip
def test_bills_by_hand(provider, model, tokens, is_batch, usd):
    price = read_prices().of(provider, model)
    assert price.cost(tokens, is_batch=is_batch) == pytest.approx(usd, rel=1e-12)


AMOUNT = st.decimals(0, 1000, places=3)
COUNT = st.integers(0, 10**9)


@given(AMOUNT, st.fractions(0, 1), AMOUNT, COUNT, COUNT, COUNT)
def test_a_cost_is_the_sum_of_its_parts(full, share, output, fresh, cached, completion):
    price = Price(
        input=float(full), cached_input=float(Fraction(full) * share), output=float(output)
    )
    exact = fresh * Fraction(price.input) + cached * Fraction(price.cached_input)
    exact += completion * Fraction(price.output)
    found = price.cost(usage(fresh + cached, completion, cached=cached))
    assert found == pytest.approx(float(exact / 1_000_000), rel=1e-12)


def test_a_batch_costs_its_share_and_cached_tokens_never_more_than_others():
    price = Price(input=2.0, cached_input=0.5, output=8.0, batch_factor=0.5)
    assert price.cost(usage(1_000_000, 1_000_000), is_batch=True) == 1.0 + 4.0
    assert price.cost(usage(1_000_000, cached=1_000_000), is_batch=True) == 0.5
    dear = Price(input=2.0, cached_input=2.0, output=8.0, batch_factor=0.5)
    assert dear.cost(usage(1_000_000, cached=1_000_000), is_batch=True) == 1.0


def test_missing_counts_are_none_and_more_cached_than_sent_is_all_of_it():
    price = Price(input=2.0, cached_input=1.0, output=8.0)
    assert price.cost({}) == 0.0
    assert price.cost({"completion_tokens": 500_000}) == 4.0
    assert price.cost(usage(1_000_000, cached=5_000_000)) == 1.0


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-7"), ("openai", "my-gpt-4o"), ("openai", "ft:gpt-5:org::x"), ("openai", "gpt-4-9999"),
     ("openai", "ft:my-own:org::x"), ("deepseek", "gpt-4o"), ("deepseek", "deepseek-chat-0324"),
     ("compatible", "gpt-4o"), ("azure", "gpt-4o")],
)  # fmt: skip
def test_a_model_without_a_price_has_none(provider, model):
    assert read_prices().of(provider, model) is None


@pytest.mark.parametrize("provider", ["openai", "deepseek"])
def test_every_model_of_the_capability_table_has_a_price(provider):
    prices = read_prices()
    assert [m for m in known_models(provider) if prices.of(provider, m) is None] == []


@pytest.mark.parametrize(("provider", "model", "price"), SHIPPED, ids=str)
def test_each_shipped_row_says_when_and_where(provider, model, price):
    assert date.fromisoformat(price.as_of) > date(2024, 1, 1)
    assert price.source.startswith("https://")
    assert 0 < price.cached_input <= price.input < price.output
    assert price.batch_factor in (0.5, 1.0)


def test_the_users_rows_go_over_the_shipped_ones(tmp_path):
    own = tmp_path / "mine.yaml"
    own.write_text(
        "openai:\n  gpt-4o: {input: 1, output: 4, as_of: 2026-01-31, source: our contract}\n"
        "  gpt-7: {input: 3, cached_input: 0.5, output: 9.5, batch_factor: 0.4}\n"
        "compatible:\n  meta-llama/Llama-3.1-8B: {input: 0, output: 0}\n"
    )
    prices = read_prices(own)
    contract = prices.of("openai", "gpt-4o-2024-08-06")
    assert (contract.input, contract.cached_input, contract.output) == (1.0, 1.0, 4.0)
    assert (contract.batch_factor, contract.as_of, contract.source) == (
        *(1.0, "2026-01-31"),
        "our contract",
    )
    assert prices.of("openai", "gpt-7").batch_factor == 0.4
    assert prices.of("openai", "gpt-7").source == "mine.yaml"
    assert prices.of("compatible", "meta-llama/Llama-3.1-8B").cost(usage(10**9, 10**9)) == 0.0
    assert prices.of("compatible", "another") is None
    assert prices.of("openai", "gpt-4o-mini") == read_prices().of("openai", "gpt-4o-mini")
    assert read_prices().of("openai", "gpt-4o").input == 2.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openai: {gpt-4o: {input: two, output: 1}}", "openai/gpt-4o: input is 'two'; expected a number >= 0 .USD"),
        ("openai: {gpt-4o: {input: -1, output: 1}}", "openai/gpt-4o: input is -1"),
        ("openai: {gpt-4o: {input: .nan, output: 1}}", "openai/gpt-4o: input is nan"),
        ("openai: {gpt-4o: {input: 1, output: .inf}}", "openai/gpt-4o: output is inf"),
        ("openai: {gpt-4o: {input: true, output: 1}}", "openai/gpt-4o: input is True"),
        ("openai: {gpt-4o: {input: 1, output: null}}", "openai/gpt-4o: output is None"),
        ("openai: {gpt-4o: {input: 1}}", "openai/gpt-4o: output is missing"),
        ("openai: {gpt-4o: {input: 1, output: 1, cached: 1}}", "openai/gpt-4o: unknown key 'cached'; did you mean 'cached_input'"),
        ("openai: {gpt-4o: {input: 1, output: 1, 3: 1}}", "openai/gpt-4o: unknown key 3"),
        ("openai: {gpt-4o: {input: 1, output: 1, batch_factor: half}}", "openai/gpt-4o: batch_factor is 'half'; expected a number >= 0$"),
        ("openai: {gpt-4o: {input: 1, output: 1, as_of: today}}", "openai/gpt-4o: as_of is 'today'; expected a day"),
        ("openai: {gpt-4o: {input: 1, output: 1, source: 3}}", "openai/gpt-4o: source is 3"),
        ("openai: {gpt-4o: 3}", "openai/gpt-4o: 3 is given; expected {input"),
        ("openai: {1234: {input: 1, output: 1}}", "openai: the model 1234 is no text; write '1234' in quotes"),
        ("openai: [gpt-4o]", "openai: .* is given; expected `model:"),
        ("open-ai: {}", "open-ai: no such provider; did you mean 'openai'"),
        ("openai: {a: {input: 1, output: 1}, a: {input: 2, output: 1}}", "'a' is given twice"),
        ("- 1", "expected `key: value`"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused_by_file_and_name(tmp_path, text, message):
    own = tmp_path / "mine.yaml"
    own.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_prices(own)
    assert str(caught.value).startswith(f"{own}:") and "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_prices(tmp_path / "none.yaml")
