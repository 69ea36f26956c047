"""What a model of an API takes. Oracle: the providers' public pages, copied by hand below.

Temperature, stop and log-probabilities: OpenAI's API reference and Azure's page on reasoning models
("Not supported: temperature, top_p, ..., logprobs, top_logprobs, max_tokens"), DeepSeek's guides of
deepseek-reasoner and of the thinking mode, and the model card of DeepSeek-V3-0324.
"""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcb_bench.errors import UsageError
from tcb_bench.models.capabilities import capability, known_models, look_up
from tcb_bench.models.capabilities_table import read_table

OPENAI_CHAT = ["gpt-3.5-turbo", "gpt-4", "gpt-4-turbo", "gpt-4o", "gpt-4o-mini", "gpt-4.1"]
OPENAI_REASONING = ["o1", "o1-mini", "o1-preview", "o3", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5.5", "gpt-6-sol"]  # fmt: skip
BY_EFFORT = ["gpt-5.1", "gpt-5.2", "gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"]
EVERY = [(provider, name) for provider in ("openai", "deepseek") for name in known_models(provider)]


@pytest.mark.parametrize("model", [*OPENAI_CHAT, "gpt-3.5-turbo-0125", "gpt-4o-2024-08-06"])
def test_a_five_in_a_name_means_nothing(model):  # case 1
    found = capability("openai", model)
    assert found.temperature == (0, 2) and found.temperature_effective == "true"
    assert found.stop_limit == 4 and found.top_logprobs == 20 and found.n == 128 and found.seed
    assert not found.is_reasoning and found.max_tokens_field == "max_tokens"
    assert found.model == model and found.provider == "openai" and found.is_known


@pytest.mark.parametrize("model", [*OPENAI_REASONING, "o3-mini-2025-01-31", "gpt-5-2025-08-07"])
def test_reasoning_models_of_openai_refuse_what_azure_lists(model):  # cases 2, 6
    found = capability("openai", model)
    assert found.temperature is None and found.temperature_effective == "unknown"
    assert not found.top_p and found.top_logprobs == 0 and found.stop_limit == 0 and found.n == 1
    assert found.max_tokens_field == "max_completion_tokens"
    assert found.is_reasoning and found.counts_reasoning


@pytest.mark.parametrize("model", BY_EFFORT)
def test_a_temperature_goes_with_no_reasoning_effort_only(model):
    plain = capability("openai", model)
    assert plain.temperature == (0, 2) and plain.top_logprobs == 20 and not plain.is_reasoning
    assert capability("openai", model, {"reasoning_effort": "none"}) == plain
    with_effort = capability("openai", model, {"reasoning_effort": "high", "user": "me"})
    assert with_effort.temperature is None and with_effort.top_logprobs == 0
    assert with_effort.is_reasoning and not with_effort.top_p
    assert with_effort.context == plain.context


def test_deepseek_chat_remaps_the_temperature():  # case 4
    found = capability("deepseek", "deepseek-chat")
    assert found.temperature == (0, 2) and found.temperature_effective == "remapped"
    assert found.temperature_note.startswith("0.3 T up to 1, T - 0.7 above")
    assert (found.stop_limit, found.top_logprobs, found.max_tokens) == (16, 20, 8192)
    assert (found.seed, found.n, found.is_reasoning, found.has_batch) == (False, 1, False, False)


def test_deepseek_reasoner_ignores_the_temperature_and_has_no_log_probabilities():  # case 3
    found = capability("deepseek", "deepseek-reasoner")
    assert found.temperature == (0, 2) and found.temperature_effective == "false"
    assert found.top_p and found.top_logprobs == 0 and found.max_tokens_field == "max_tokens"
    assert found.is_reasoning and found.counts_reasoning


@pytest.mark.parametrize("model", ["deepseek-flash", "deepseek-v4-flash", "deepseek-v4-pro"])
def test_models_that_think_by_default_ignore_the_temperature_until_told_not_to(model):
    assert capability("deepseek", model).temperature_effective == "false"
    off = capability("deepseek", model, {"thinking": {"type": "disabled"}})
    assert off.temperature_effective == "unknown" and not off.is_reasoning
    on = capability("deepseek", model, {"thinking": {"type": "enabled"}})
    assert on == capability("deepseek", model)


@pytest.mark.parametrize(
    ("model", "role"),
    [("o1-mini", "user"), ("o1-preview-2024-09-12", "user"), ("o1", "developer"),
     ("gpt-5", "developer"), ("gpt-4o", "system"), ("gpt-5-chat-latest", "system")],
)  # fmt: skip
def test_where_a_system_prompt_goes(model, role):
    assert capability("openai", model).system_role == role


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4-turbo-2024-04-09", "gpt-4-turbo"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("o1-2024-12-17", "o1"),
        ("gpt-5.4-mini-2026-03-17", "gpt-5.4-mini"),
        ("ft:gpt-3.5-turbo-0125:my-org:suffix:9abc", "gpt-3.5-turbo"),
        ("ft:gpt-4o-mini:org::x", "gpt-4o-mini"),
        ("ft:gpt-4o-2024-05-13:org::x", "gpt-4o-2024-05-13"),
    ],
)
def test_a_dated_or_fine_tuned_name_is_that_of_its_row(name, row):
    found, expected = capability("openai", name), capability("openai", row)
    assert (found.context, found.max_tokens, found.source) == (
        expected.context,
        expected.max_tokens,
        expected.source,
    )
    assert found.model == name


def test_a_snapshot_that_differs_has_its_own_row():
    assert capability("openai", "gpt-4o-2024-05-13").max_tokens == 4096
    assert capability("openai", "gpt-4o-2024-08-06").max_tokens == 16384
    assert capability("openai", "gpt-5-chat-latest").temperature == (0, 2)
    assert capability("openai", "gpt-5").temperature is None


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        *(("openai", name) for name in [
            "", "gpt", "GPT-4o", "gpt-4o ", "my-gpt-4o", "gpt-4o-latest", "gpt-4o-2024-13-06",
            "gpt-4o-2024-8-6", "gpt-4-1399", "gpt-4-20240613", "gpt-4-0613-0613", "gpt-4-0613\n",
            "gpt-5-codex", "gpt-5-pro", "o3-pro", "o33", "ft:gpt-4o", "ft:gpt-4o:", "ft::org::x",
            "ft:my-model:org::x", "ft:ft:gpt-4o:org::x", "openai/gpt-4o", "deepseek-chat",
        ]),
        *(("deepseek", name) for name in ["deepseek-chat-0324", "deepseek-chat-2024-12-26", "gpt-4o"]),
        ("compatible", "gpt-4o"), ("azure", "gpt-4o"),
    ],
)  # fmt: skip
def test_no_other_name_is_guessed(provider, name):
    assert capability(provider, name) is None


@given(st.sampled_from(EVERY), st.text(min_size=1, max_size=12))
def test_text_around_a_name_makes_it_another_name(row, text):
    provider, name = row
    for changed in (text + name, name + text + "x"):
        assert capability(provider, changed) is None or changed in known_models(provider)


@pytest.mark.parametrize(("provider", "model"), EVERY, ids=lambda part: part)
def test_each_row_is_consistent(provider, model):
    found = capability(provider, model)
    assert (found.temperature is None) <= (found.temperature_effective == "unknown")
    assert found.temperature_note or found.temperature_effective == "true"
    assert found.max_tokens <= found.context and found.top_logprobs <= 20
    assert found.retires == "" or len(found.retires) == 10
    assert found.is_reasoning <= found.counts_reasoning and found.extra == ()


ROW = """\
openai:
  snapshots: true
  families:
    chat:
      defaults: {temperature: [0, 2], temperature_effective: "true", max_tokens_field: max_tokens,
        counts_reasoning: false, is_reasoning: false, stop_limit: 4, top_logprobs: 20, seed: true,
        n: 128, top_p: true, extra: [top_k], system_role: system, has_batch: true, source: "https://a.b/c"}
      models:
        m-1: {max_tokens: 10, context: null, note: hello}
"""


def test_a_table_of_ones_own_is_read(tmp_path):
    (tmp_path / "t.yaml").write_text(ROW)
    table = read_table(tmp_path / "t.yaml", "t.yaml")
    found = look_up(table, "openai", "m-1-0131")
    assert (found.max_tokens, found.context, found.extra) == (10, None, ("top_k",))
    assert (found.note, found.retires, found.temperature) == ("hello", "", (0.0, 2.0))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("note: hello", "nots: hello", "openai/m-1: unknown key 'nots'; did you mean 'note'"),
        ("context: null, ", "", "openai/m-1: context is missing"),
        ("seed: true,", "", "openai/m-1: seed is missing"),
        ("max_tokens: 10", "max_tokens: ten", "openai/m-1: max_tokens is 'ten'; expected a whole number >= 1 or null"),
        ("max_tokens: 10", "max_tokens: true", "openai/m-1: max_tokens is True"),
        ("stop_limit: 4", "stop_limit: -1", "openai/m-1: stop_limit is -1"),
        ("n: 128", "n: 0", "openai/m-1: n is 0"),
        ("seed: true", "seed: 1", "openai/m-1: seed is 1; expected true or false"),
        ("seed: true", 'seed: "yes"', "openai/m-1: seed is 'yes'"),
        ("[0, 2]", "[2, 0]", r"openai/m-1: temperature is \[2, 0\]"),
        ("[0, 2]", "2", "openai/m-1: temperature is 2; expected"),
        ("[0, 2]", "[0, true]", "openai/m-1: temperature"),
        ('"true"', "true", "openai/m-1: temperature_effective is True; expected true or false or remapped"),
        ("max_tokens_field: max_tokens", "max_tokens_field: length", "openai/m-1: max_tokens_field is 'length'"),
        ("system_role: system", "system_role: tool", "openai/m-1: system_role is 'tool'"),
        ("[top_k]", "[top_z]", "openai/m-1: extra is"),
        ("[top_k]", "top_k", "openai/m-1: extra is"),
        ("https://a.b/c", "a page", "openai/m-1: source is 'a page'; expected the address"),
        ("note: hello", "retires: soon", "openai/m-1: retires is 'soon'; expected a day"),
        ("note: hello", "variants: 3", "openai/m-1: variants is 3"),
        ("note: hello", "variants: [{seed: false}]", "openai/m-1: variants: when is missing"),
        ("note: hello", "variants: [{when: {a: b}}]", "openai/m-1: variants: when is"),
        ("note: hello", "variants: [{when: {a: [b]}, sed: true}]", "openai/m-1: variants: unknown key 'sed'"),
        ("note: hello", "variants: [{when: {a: [b]}, n: x}]", "openai/m-1: variants: n is 'x'"),
        ("openai:", "openi:", "t.yaml: openi: no such provider; did you mean 'openai'"),
        ("snapshots: true", "snapshots: 1", "openai: snapshots is 1"),
        ("snapshots: true", "snapshot: true", "openai: unknown key 'snapshot'"),
        ("m-1: {", "12: {", "openai: chat: .* expected names with values"),
        ("        m-1:", "        m-1: {}\n        m-1:", "key 'm-1' is given twice"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused_by_name(tmp_path, old, new, message):
    assert ROW.count(old) == 1
    (tmp_path / "t.yaml").write_text(ROW.replace(old, new))
    with pytest.raises(UsageError, match=message) as caught:
        read_table(tmp_path / "t.yaml", "t.yaml")
    assert "\n" not in str(caught.value) and str(caught.value).startswith("t.yaml:")


def test_a_row_in_two_families_is_refused(tmp_path):
    again = ROW.split("  families:\n")[1].replace("chat:", "more:")
    (tmp_path / "t.yaml").write_text(ROW + again)
    with pytest.raises(UsageError, match="openai/m-1: two families have this row"):
        read_table(tmp_path / "t.yaml", "t.yaml")


def test_the_tables_load_nothing_heavy():
    script = (
        "import sys, tcb_bench.models.chat_tokens, tcb_bench.models.prices as p, "
        "tcb_bench.models.capabilities as c\n"
        "assert c.capability('openai', 'gpt-4o') and p.read_prices().of('openai', 'gpt-4o')\n"
        "heavy = {'openai', 'tiktoken', 'torch', 'transformers', 'lm_eval', 'numpy'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
