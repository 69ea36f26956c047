"""What an API would be asked. Oracle: the same run for real, its requests seen by the fault server.

The server counts a prompt as its words and four a message; the tokenizer made here does the same.
"""

from dataclasses import replace

import pytest
from chat_runs import run_api, run_config
from fault_replies import Played, completion, prompt_tokens
from fault_server import fault_server
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tcb_bench.dry_run import DryRun
from tcb_bench.errors import StoreError, TcbBenchError, UnknownName, UsageError
from tcb_bench.models.chat_probe import QUESTION
from tcb_bench.models.resolve import resolve
from tcb_bench.store import Store

TEMPLATE = "{% for message in messages %}a b c d {{ message['content'] }} {% endfor %}"
TASKS = "rivers,sums,letters"
PRICES = "openai: {gpt-4o: {input: 3, output: 7, batch_factor: 0.25}}\n"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Folder of a tokenizer for which every word is a token."""
    backend = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    tokenizer.chat_template = TEMPLATE
    folder = tmp_path_factory.mktemp("words")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def server():
    with fault_server() as running:
        yield running


def config_of(server, folder, tasks=TASKS, *args, **more):
    return run_config(server, folder, tasks, *args, key=None, **more)


def count(server, folder, *args, **more):
    return DryRun().count(config_of(server, folder, *args, **more))


def asked(server, since=0):
    """Bodies of the run's own requests: those that look how an API behaves are no part of it."""
    bodies = [arrival.body for arrival in server.chats[since:]]
    return [body for body in bodies if body["messages"][-1]["content"] != QUESTION]


def test_requests_and_tokens_are_those_of_the_run(server, tmp_path, words):
    named = f"tokenizer={words}"
    found = count(server, tmp_path, args=named)
    assert server.arrivals == 0
    assert not (tmp_path / "runs").exists()
    by_task = {task.task: task for task in found.tasks}
    sizes = {name: (t.conditions, t.questions, t.runs, t.responses) for name, t in by_task.items()}
    assert sizes == {"rivers": (3, 3, 3, 27), "sums": (1, 4, 1, 4), "letters": (1, 4, 1, 4)}
    assert by_task["rivers"].requests == 9 + 2 * 3  # at T = 0 one by one, else three runs in one
    run_api(server, tmp_path, TASKS, args=named)
    bodies = asked(server)
    whole = found.total()
    assert whole.requests == len(bodies) == 15 + 4 + 4
    assert whole.prompt_tokens == sum(map(prompt_tokens, bodies))
    assert whole.worst == sum((b.get("n") or 1) * b["max_tokens"] for b in bodies)
    assert whole.expected == 27 * 60 + 4 * 60 + 4  # 100 are more than the task allows
    assert found.tokens_by == f"tokenizer {words.name}"


def test_afterwards_everything_is_in_the_store_and_what_it_cost_is_said(server, tmp_path, words):
    named = f"tokenizer={words}"
    before = count(server, tmp_path, args=named).total()
    run_api(server, tmp_path, TASKS, args=named)
    found = count(server, tmp_path, args=named)
    assert found.total().stored == before.responses == 35
    assert (found.total().requests, found.usd(found.total())) == (0, (0.0, 0.0))
    assert found.spent["requests"] == before.requests
    assert found.spent["prompt_tokens"] == before.prompt_tokens
    anew = count(server, tmp_path, args=named, fresh=True)
    assert (anew.total().stored, anew.spent) == (0, {})


def test_half_a_run_leaves_exactly_the_other_half(server, tmp_path, words):
    named = f"tokenizer={words}"
    run_api(server, tmp_path, "rivers", args=named, options={"where": {"temperature": ["0.6"]}})
    bills = [body for body in asked(server) if body["n"] == 3]
    assert len(bills) == 3
    since = len(server.chats)
    found = count(server, tmp_path, args=named)
    rivers = next(task for task in found.tasks if task.task == "rivers")
    assert (rivers.responses, rivers.stored, rivers.requests) == (27, 9, 9 + 3)
    texts = [completion(bill, Played())["usage"]["completion_tokens"] for bill in bills]
    assert rivers.mean == pytest.approx(sum(texts) / 9)
    assert rivers.expected == round(18 * sum(texts) / 9)
    run_api(server, tmp_path, TASKS, args=named)
    assert len(asked(server, since)) == found.total().requests
    assert sum(map(prompt_tokens, asked(server, since))) == found.total().prompt_tokens


def test_the_cost_is_tokens_times_the_users_prices(server, tmp_path, words):
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    given = {"args": f"tokenizer={words}", "prices": prices}
    found = count(server, tmp_path, **given)
    whole = found.total()
    by_hand = [whole.prompt_tokens * 3e-6 + n * 7e-6 for n in (whole.expected, whole.worst)]
    assert found.usd(whole) == pytest.approx(by_hand)
    batch = count(server, tmp_path, api_mode="batch", **given)
    assert batch.usd(whole) == pytest.approx([usd / 4 for usd in by_hand])
    assert batch.minutes(whole) is None
    assert count(server, tmp_path, model="compatible/own").usd(whole) is None  # and never 0


def test_the_time_is_requests_at_the_rate(server, tmp_path):
    assumed = count(server, tmp_path)
    assert assumed.minutes(assumed.total()) == pytest.approx(23 / 500)
    given = count(server, tmp_path, requests_per_minute=4)
    assert given.minutes(given.total()) == pytest.approx(23 / 4)


def test_what_a_model_cannot_do_is_counted_and_costs_nothing(server, tmp_path):
    found = count(server, tmp_path, "rivers,sums", model="openai/o3-mini")
    rivers, sums = found.tasks
    assert (rivers.unsupported, rivers.requests, rivers.worst) == (27, 0, 0)
    assert (sums.unsupported, sums.requests) == (4, 0)
    assert sum("unsupported: " in note and "no temperature but 1" in note for note in found.notes)
    reasons = count(server, tmp_path, "letters", model="openai/o3-mini", reasoning_tokens=500)
    assert reasons.total().worst == 4 * (64 + 500)  # its letter is read from a text
    assert reasons.total().expected == 4 * (1 + 500)


def test_an_unknown_model_is_not_probed_and_that_is_said(server, tmp_path):
    found = count(server, tmp_path, "rivers", model="compatible/own")
    assert server.arrivals == 0
    assert found.total().requests == 27  # one choice a request: nobody knows that it gives several
    assert "20 short requests" in found.notes[0]
    assert "estimate" in found.tokens_by


def test_no_key_is_needed_and_none_is_shown(server, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert count(server, tmp_path).total().requests == 23
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    assert "canary" not in repr(count(server, tmp_path))


def test_a_dry_run_beside_a_running_one_sees_what_is_committed(server, tmp_path):
    run_api(server, tmp_path, "sums")
    config = config_of(server, tmp_path)
    with Store(tmp_path / "runs" / resolve(config.model).folder) as store:  # locked, as by a run
        store.set_meta("still", "writing")
        assert store.path.with_name("store.sqlite-wal").exists()
        assert DryRun().count(config).total().stored == 4


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"tasks": "rivres"}, UnknownName, "did you mean 'rivers'"),
        ({"model": "opnai/gpt-4o"}, UnknownName, "openai"),
        ({"args": "tokeniser=x"}, UnknownName, "did you mean 'tokenizer'"),
        ({"model": "compatible/own", "cost_limit": 1.0}, UsageError, "no price is known"),
        ({"answer_tokens": 10**6}, UsageError, "gives at most"),
        ({"options": {"where": {"context": ["x"]}}}, UsageError, "no such axis"),
        ({"options": {"reference": "sentence"}, "tasks": "sums"}, UsageError, "compares texts"),
    ],
    ids=str,
)
def test_errors_are_those_of_the_run(server, tmp_path, monkeypatch, more, error, message):
    with pytest.raises(error, match=message):
        count(server, tmp_path, **more)
    monkeypatch.setenv("OPENAI_API_KEY", "k")  # which only a run needs
    config = replace(config_of(server, tmp_path, **more), output_path=tmp_path / "real")
    from tcb_bench.run import run

    with pytest.raises(TcbBenchError) as really:
        run(config)
    assert isinstance(really.value, error)


def test_a_folder_of_another_model_is_refused_as_by_the_run(server, tmp_path):
    run_api(server, tmp_path, "sums")
    (tmp_path / "runs" / "openai__gpt-4o").rename(tmp_path / "runs" / "openai__gpt-4.1")
    with pytest.raises(StoreError, match="holds responses of gpt-4o"):
        count(server, tmp_path, model="openai/gpt-4.1")
