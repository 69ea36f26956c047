"""What users type, and what they are told. Oracle: sentences written here, the fault server."""

import json

import pytest
from chat_runs import KEY, ask, chat, environment, run_api
from fault_bodies import closed
from fault_plan import Fault, Reply
from fault_server import fault_server
from rich.console import Console

from tcb_bench.errors import ModelError, UsageError
from tcb_bench.leaderboards.submit_names import public_model
from tcb_bench.models.chat_load import LEARNED, load_chat
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.resolve import resolve
from tcb_bench.report.table import Column
from tcb_bench.report.table import Table as DataTable
from tcb_bench.responses import Generation
from tcb_bench.tables import data_table


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('{"max_completion_tokens": 5}', "max_completion_tokens is set by"),
        ('{"seed": 3}', "seed is set by"),
        ('{"stream": true}', "stream is set by"),
        ('{"x": NaN}', "NaN, Infinity or half a character"),
        ('{"x": "\\ud800"}', "NaN, Infinity or half a character"),
    ],
)
def test_an_extra_body_that_cannot_be_is_refused_before_anything_is_sent(extra, said):
    with pytest.raises(UsageError, match=said):
        chat("http://127.0.0.1:1/v1", args=f"extra_body={extra}")


@pytest.mark.parametrize("url", ['"http://[::1/v1"', "http://127.0.0.1:99999/v1", "http://h:x/v1"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UsageError, match="base_url: not an address"):
        chat(url)


def test_more_log_probabilities_than_an_api_gives_are_refused():
    with pytest.raises(UsageError, match="--top_logprobs 21: APIs give 20 at most"):
        ApiOptions(top_logprobs=21)


BAD_FINDINGS = [
    {"temperature": "hot"},
    {"temperature": ["a", "b"]},
    {"temperature": [0, 1, 2]},
    {"n": 0},
    {"stop_limit": "4"},
    {"top_logprobs": -5},
    {"max_tokens_field": "messages"},
    {"extra": ["messages"]},
    {"system_role": "tool"},
    {"foo": 1},
]


@pytest.mark.parametrize("change", [*BAD_FINDINGS, None], ids=str)
def test_findings_of_a_probe_that_were_damaged_are_refused(tmp_path, change):
    file = tmp_path / LEARNED
    with fault_server() as server:
        arguments = f"base_url={server.url},api_key={KEY}"
        first = load_chat(resolve("compatible/m", arguments), tmp_path / "log")
        probed = len(server.chats)
        again = load_chat(resolve("compatible/m", arguments), tmp_path / "log")
        assert again.capability == first.capability and len(server.chats) == probed
        record = json.loads(file.read_text())
        record["capability"] = record["capability"] | change if change else "x"
        file.write_text(json.dumps(record))
        with pytest.raises(ModelError, match="delete it to probe again"):
            load_chat(resolve("compatible/m", arguments), tmp_path / "log")
        assert len(server.chats) == probed


def test_what_went_wrong_is_told(tmp_path):
    lines = []
    with fault_server(closed()) as server:
        outcome = run_api(server, tmp_path, "sums", lines=lines, max_retries=0)
    [told] = [line for line in lines if line.startswith("failed attempts: ")]
    assert outcome.exit_code == 3
    assert told.startswith("failed attempts: 1 x connection; the last: connection lost (")


def test_a_limit_asks_for_a_higher_one_and_is_no_failed_attempt(tmp_path):
    lines = []
    with fault_server() as server:
        run_api(server, tmp_path, "rivers", lines=lines, token_limit=1)
        assert not server.chats
    [told] = [line for line in lines if line.startswith("stopped: ")]
    assert told.endswith("the same command continues with a higher limit")
    assert not any(line.startswith("failed attempts") for line in lines)


def test_an_address_without_v1_is_named_where_nothing_answers():
    with fault_server() as server:
        url = server.url.removesuffix("/v1")
        with pytest.raises(ModelError) as found:
            ask(chat(url), ["Name a river."])
    assert "HTTP 404" in str(found.value)
    assert str(found.value).endswith(f"; base_url is {url}, most end in /v1")


def test_a_redirect_to_another_server_does_not_get_the_key():
    with fault_server() as other:
        there = ("location", f"{other.url}/chat/completions")
        moved = Fault("odd", reply=lambda arrival: Reply(307, b"", (there,)))
        with fault_server(moved) as server:
            assert isinstance(ask(chat(server), ["Name a river."])[0], Generation)
            assert KEY in str(server.chats[0].headers)
        assert KEY not in str(other.chats[0].headers)


def test_the_environment_of_the_sdk_does_not_move_requests():
    with fault_server() as server, environment(OPENAI_BASE_URL="http://127.0.0.1:1/v1"):
        assert isinstance(ask(chat(server), ["Name a river."])[0], Generation)


def test_submit_names_a_closed_model_by_its_api():
    with pytest.raises(UsageError, match="--model-id openai/gpt-4o-mini"):
        public_model({"model": "gpt-4o-mini", "backend": "openai"}, None)


def test_a_table_fits_80_columns_and_loses_no_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    labels = ("question type", "context", "highest T", "score there", "best score", "lower limit")
    columns = [Column(str(i), label) for i, label in enumerate([*labels, "n"])]
    texts = ("comparison", "replace_half", "-", "0.0000", "-", "-", "12")
    row = {str(i): text for i, text in enumerate(texts)}
    console = Console(width=80)
    for part in data_table(DataTable("t", "Title", "", columns, [row])):
        with console.capture() as shown:
            console.print(part)
        lines = shown.get().rstrip("\n").split("\n")
        assert max(map(len, lines)) <= 80
        assert "replace_half" in lines[-2] and lines[-2].rstrip().endswith("12 │")


def test_a_missing_key_is_said_before_an_encoder_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    options = {"data": "sample", "limit": 1, "bert_score_model": "./no/such/encoder"}
    with pytest.raises(ModelError, match="put it into OPENAI_API_KEY"):
        run_api("http://127.0.0.1:1", tmp_path, "hotpotqa_tempperturb", key=None, options=options)
