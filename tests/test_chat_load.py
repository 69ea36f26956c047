"""From the words of a command to a model behind an API. Oracle: the sentences a user must read."""

import json
import subprocess
import sys

import pytest
from chat_runs import KEY, arguments, ask, chat, environment
from fault_refusals import temperature_unsupported
from fault_server import fault_server

from tcb_bench.__main__ import main
from tcb_bench.errors import ModelError, UsageError
from tcb_bench.models.chat_load import LEARNED, load_chat
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.resolve import resolve

URL = "base_url=http://127.0.0.1:9/v1"
CANARY = "sk-canary-4f9d2c7b8a6e"


def load(model="openai/gpt-4o", args="", folder=None, **api):
    spec = resolve(model, args, api=ApiOptions(**api))
    return load_chat(spec, folder / "log" if folder else None, is_offline=False)


def test_where_each_provider_is():
    with environment(OPENAI_API_KEY="sk-a", DEEPSEEK_API_KEY="sk-d", MINE="sk-m"):
        assert load().connection.base_url == "https://api.openai.com/v1"
        assert load("deepseek/deepseek-chat").connection.base_url == "https://api.deepseek.com"
        own = load(args=f"{URL}/,api_key_env=MINE")
    assert (own.connection.base_url, own.connection.key) == ("http://127.0.0.1:9/v1", "sk-m")


@pytest.mark.parametrize(
    ("model", "args", "kind", "said"),
    [
        ("openai/gpt-4o", "", ModelError, "openai/gpt-4o: no key; put it into OPENAI_API_KEY, or"),
        ("deepseek/deepseek-chat", "", ModelError, "no key; put it into DEEPSEEK_API_KEY"),
        ("openai/gpt-4o", "api_key_env=NOT_SET", ModelError, "no key; put it into NOT_SET"),
        ("compatible/m", f"{URL},api_key_env=NOT_SET", ModelError, "no key; put it into NOT_SET"),
        ("openai/gpt-4o", "api_key=a,api_key_env=B", UsageError, "api_key and api_key_env both name"),
        ("openai/gpt-4o", "api_key=clé-secrète", ModelError, "the key has characters that no key has"),
        ("compatible/m", "", UsageError, "compatible/m: where is it? --model_args base_url=http"),
        ("compatible/m", "base_url=localhost:8000", UsageError, "expected http://host/v1"),
        ("compatible/m", "base_url=ftp://host/v1", UsageError, "base_url=ftp...: expected http://"),
        ("compatible/m", "base_url=http://", UsageError, "expected http://host/v1"),
        ("compatible/m", "base_url=http://me:hunter2@h/v1", UsageError, "holds a user, a password or a query"),
        ("compatible/m", "base_url=http://h/v1?api_key=hunter2", UsageError, "a password or a query"),
        ("openai/gpt-4o", "basurl=http://h", UsageError, "no argument of an API model 'basurl'; did you mean 'base_url'"),
        ("openai/gpt-4o", "api_ky=hunter2", UsageError, "did you mean 'api_key'"),
        ("openai/gpt-4o", "dtype=float16", UsageError, "--dtype is for local models"),
        ("openai/gpt-4o", "batch_size=8", UsageError, "--batch_size is for local models"),
        ("openai/gpt-4o", "read_timeout=soon", UsageError, "read_timeout='soon': give seconds"),
        ("openai/gpt-4o", "read_timeout=0", UsageError, "read_timeout=0: give a number above 0"),
        ("openai/gpt-4o", "total_timeout=-1", UsageError, "total_timeout=-1: give a number above 0"),
        ("openai/gpt-4o", "connect_timeout=nan", UsageError, "connect_timeout=nan"),
        ("openai/gpt-4o", "api_key=x-1,extra_body=7", UsageError, "extra_body: expected a JSON object"),
        ("openai/gpt-4o", 'api_key=x-1,extra_body={"a": [{"X-Api-Key": "hunter2"}]}', UsageError, "extra_body: X-Api-Key looks like a secret"),
        ("openai", "", UsageError, "which model of openai? nothing names one"),
        ("openai/gpt-4o", "model=gpt-4", UsageError, "which model of openai? it is named twice"),
        ("opena/gpt-4o", "", UsageError, "no model provider 'opena'; did you mean 'openai'"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_is_said_in_one_line(model, args, kind, said):
    with environment(OPENAI_API_KEY="", DEEPSEEK_API_KEY=""), pytest.raises(kind) as caught:
        load(model, args)
    message = str(caught.value)
    assert said in message and "\n" not in message and "hunter2" not in message
    assert caught.value.exit_code == (2 if kind is UsageError else 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--max_connections 0", "--max_connections 0: give a number >= 1"),
        ("--max_connections -3", "--max_connections -3: give a number >= 1"),
        ("--max_retries -1", "--max_retries -1: give a number >= 0"),
        ("--cost_limit 0", "--cost_limit 0: give a number above 0"),
        ("--cost_limit -1", "--cost_limit -1: give a number above 0"),
        ("--cost_limit nan", "--cost_limit nan: give a number above 0"),
        ("--cost_limit inf", "--cost_limit inf: give a number above 0"),
        ("--token_limit 0", "--token_limit 0: give a number >= 1"),
        ("--requests_per_minute 0", "--requests_per_minute 0: give a number above 0"),
        ("--requests_per_minute nan", "--requests_per_minute nan: give a number above 0"),
        ("--answer_tokens 0", "--answer_tokens 0: give a number >= 1"),
        ("--reasoning_tokens -1", "--reasoning_tokens -1: give a number >= 0"),
        ("--top_logprobs -1", "--top_logprobs -1: give a number >= 0"),
        ("--prices nowhere.yaml", "nowhere.yaml"),
        ("--max_retries x", "argument --max_retries: invalid int value: 'x'"),
        ("--max_connections 1.5", "argument --max_connections: invalid int value: '1.5'"),
        ("--api_mode fast", "argument --api_mode: invalid choice: 'fast'"),
        ("--device cuda", "--device is for local models"),
        ("--dtype float16", "--dtype is for local models"),
        ("--batch_size 4", "--batch_size is for local models"),
    ],
)
def test_a_bad_option_ends_a_command_before_anything_is_sent(options, said, tmp_path, capsys):
    with fault_server() as server:
        words = f"run --model openai/gpt-4o --tasks gsm8k_tcb --data sample --output_path {tmp_path}"  # fmt: skip
        code = main([*words.split(), "--model_args", arguments(server), *options.split()])
        assert server.arrivals == 0
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 2 and err.startswith("tcb-bench: ") and said in err


def test_tasks_that_want_log_likelihoods_are_refused_before_anything_is_sent(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"q": "x", "a": "Paris"}\n')
    (tmp_path / "stock.yaml").write_text(
        "task: stock\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path}/a.jsonl}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: q\n"
        "doc_to_choice: [Paris, Rome]\ndoc_to_target: a\nmetadata: {version: 1.0}\n"
    )
    with fault_server() as server:
        words = f"run --model openai/gpt-4o --tasks stock --include_path {tmp_path} --output_path {tmp_path}/r"  # fmt: skip
        assert main([*words.split(), "--model_args", arguments(server)]) == 2
        assert server.arrivals == 0
    assert "no API tells the log-likelihood of a given text" in capsys.readouterr().err


def test_batch_mode_is_refused_for_models_that_have_none():
    with environment(DEEPSEEK_API_KEY="sk-d"):
        for model in ("deepseek/deepseek-chat", "openai/gpt-5-chat-latest"):
            with pytest.raises(UsageError, match="--api_mode batch: .* is not in a Batch API"):
                load(model, f"api_key={KEY}", api_mode="batch")


def test_what_was_learned_is_kept_and_is_of_one_address(tmp_path):
    with fault_server(temperature_unsupported()) as server:
        first = chat(server, "compatible/m", folder=tmp_path).capability
        n = server.arrivals
        record = json.loads((tmp_path / LEARNED).read_text())
        assert record["base_url"] == server.url and record["capability"]["temperature"] is None
        assert chat(server, "compatible/m", folder=tmp_path).capability == first
        assert server.arrivals == n
        with fault_server() as other:
            second = chat(other, "compatible/m", folder=tmp_path).capability
            assert other.arrivals > 5 and second.temperature == (0.0, 2.0)
        (tmp_path / LEARNED).write_text('{"base_url": 3')
        with pytest.raises(ModelError, match="capability.json: cannot be read .* delete it") as caught:  # fmt: skip
            chat(server, "compatible/m", folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_two_addresses_or_budgets_of_one_model_share_no_response():
    with environment(OPENAI_API_KEY="sk-a"):
        same = [load().identity, load(max_retries=1, max_connections=3).identity]
        others = [
            load(args=URL).identity,
            load(args='extra_body={"reasoning_effort": "low"}').identity,
            load(answer_tokens=5).identity,
            load(reasoning_tokens=5).identity,
            load(top_logprobs=5).identity,
            load("openai/gpt-4o-2024-08-06").identity,
        ]
    assert same[0] == same[1]
    texts = [json.dumps(identity, sort_keys=True) for identity in (same[0], *others)]
    assert len(set(texts)) == 7 and "sk-a" not in "".join(texts)


def test_a_users_own_fields_are_sent():
    with fault_server() as server:
        lm = chat(
            server,
            args='extra_body={"user": "me", "thinking": {"budget_tokens": 5}, "provider": {"order": ["x"]}}',
        )
        ask(lm, ["Name a river."])
        assert server.chats[0].body["provider"] == {"order": ["x"]}
        with pytest.raises(UsageError, match="extra_body: temperature is set by the task"):
            ask(chat(server, args='extra_body={"temperature": 1}'), ["Name a river."])


def test_without_the_sdk_one_line_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['openai'] = None; from tcb_bench.__main__ import main; "
        "sys.exit(main(['run', '--model', 'openai/gpt-4o', '--data', 'sample', '--tasks', "
        f"'gsm8k_tcb', '--limit', '1', '--output_path', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "pip install 'tcb-bench[api]'" in done.stderr.splitlines()[-1]
