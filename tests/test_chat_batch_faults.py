"""OpenAI's Batch API on a bad day: lines and batches that fail, and replies lost on the way.

Oracles: the fault server's own text for each request (``answer``), its count of the lines and
batches that it was given, and the states that the online mode has for the same faults.
"""

import json
from collections import Counter

import fault_bodies as bodies
import fault_refusals as refusals
import fault_status as status
import pytest
from chat_batches import PROMPTS, Asker, lines_of, messages, right, texts
from chat_runs import KEY
from fault_plan import CHAT, LINE, Rule
from fault_server import fault_server
from lm_eval.api.instance import Instance

from tcb_bench.errors import ModelError, UsageError
from tcb_bench.responses import Failure


def line(fault, number):
    return Rule(fault, path=LINE, content=f"Question {number}?")


def test_each_kind_of_line_has_its_state(tmp_path):
    slow_down = status.status_error("quiet", 429, "Slow down.", code="rate_limit_exceeded")
    plan = [
        line(status.server_error(503), 0),
        line(slow_down, 1),
        line(bodies.line_expired(), 2),
        line(bodies.line_missing(), 3),
        line(refusals.context_length_exceeded(), 4),
        line(refusals.content_policy(), 5),
        line(bodies.content_filtered(), 6),
        line(bodies.no_choices(), 7),
        line(status.status_error("t", 400, "no", code="unsupported_value", param="temperature"), 8),
        line(bodies.error_in_choice(), 9),
    ]
    prompts = [f"Question {number}?" for number in range(11)]
    with fault_server(plan) as server:
        asker = Asker(server, tmp_path)
        found = asker.ask(prompts)
    states = [a.state if isinstance(a, Failure) else "answered" for a in map(found.get, prompts)]
    assert states == [
        *["error"] * 4,
        *["unscored", "filtered", "filtered"],
        *["error", "unsupported", "error", "answered"],
    ]
    assert "batch_expired" in found[prompts[2]].reason
    assert "say nothing of this request" in found[prompts[3]].reason
    assert "too long" in found[prompts[4]].reason
    assert found[prompts[10]].text == right(prompts)[prompts[10]]
    assert "1 without a line" in asker.said
    assert asker.lm.stopped is None


@pytest.mark.parametrize("fault", [status.forbidden(), status.status_error("odd", 400, "No.")])
def test_a_line_that_stops_the_model_loses_no_other(tmp_path, fault):
    with fault_server(line(fault, 2)) as server:
        asker = Asker(server, tmp_path)
        with pytest.raises(ModelError, match="HTTP 40") as failed:
            asker.ask(PROMPTS)
        assert "\n" not in str(failed.value)
        assert len([a for a in server.requests if a.path == LINE]) == 6
        server.plan = None
        found = asker.ask([PROMPTS[2]])
        assert texts(found) == right([PROMPTS[2]])


def test_no_money_in_the_middle_stops_and_asks_the_rest_another_day(tmp_path):
    with fault_server(line(status.insufficient_quota(), 2)) as server:
        asker = Asker(server, tmp_path)
        found = asker.ask(PROMPTS)
        assert sorted(found) == [p for p in PROMPTS if p != PROMPTS[2]]
        assert "exceeded your current quota" in asker.lm.stopped


def test_a_batch_that_expires_keeps_what_was_done(tmp_path):
    with fault_server(batches={"expires_after": 2}) as server:
        asker = Asker(server, tmp_path)
        found = asker.ask(PROMPTS)
    assert texts({p: found[p] for p in PROMPTS[:2]}) == right(PROMPTS[:2])
    assert {found[p].state for p in PROMPTS[2:]} == {"error"}
    assert all("batch_expired" in found[p].reason for p in PROMPTS[2:])


def test_a_batch_cancelled_at_the_provider_keeps_what_was_done(tmp_path):
    with fault_server(batches={"done_at_cancel": 2, "in_progress": 10**6}) as server:
        asker = Asker(server, tmp_path)

        class Lines(list):
            def append(self, said):
                super().append(said)
                if "in_progress" in said:  # the user does it on the provider's page
                    [batch] = server.app.batches.batches.values()
                    batch["status"] = "cancelling"

        asker.lines = Lines()
        found = asker.ask(PROMPTS)
    assert texts({p: found[p] for p in PROMPTS[:2]}) == right(PROMPTS[:2])
    assert Counter(found[p].state for p in PROMPTS[2:]) == {"error": 4}
    assert "cancelled, 2 answered" in asker.said


def test_a_batch_that_fails_its_validation_says_why_and_can_be_asked_again(tmp_path):
    error = {"code": "model_not_found", "message": "The model 'x' does not\nexist.", "line": 3}
    with fault_server(batches={"fails_with": error}) as server:
        asker = Asker(server, tmp_path)
        with pytest.raises(ModelError) as failed:
            asker.ask(PROMPTS)
        assert str(failed.value).endswith("failed: line 3: The model 'x' does not exist.")
        server.app.batches.course = type(server.app.batches.course)()
        assert texts(asker.ask(PROMPTS)) == right(PROMPTS)
        assert lines_of(server) == dict.fromkeys(PROMPTS, 1)


# Lost replies.


def first(fault, method, path, times=1):
    seen = []

    def when(asked):
        if asked.method != method or not asked.path.startswith(path):
            return False
        seen.append(asked)
        return len(seen) <= times

    return Rule(fault, path=None, when=when)


LOST = {
    "upload": first(bodies.closed(), "POST", "/v1/files"),
    "upload 503": first(status.server_error(503), "POST", "/v1/files", 2),
    "upload HTML": first(bodies.html_page(), "POST", "/v1/files"),
    "creation made": first(bodies.closed(), "POST", "/v1/batches"),
    "creation cut": first(bodies.cut_body(), "POST", "/v1/batches"),
    "creation not made": first(status.server_error(500), "POST", "/v1/batches"),
    "creation 429": first(status.rate_limited(0.01), "POST", "/v1/batches"),
    "polls": first(status.server_error(502), "GET", "/v1/batches/", 3),
    "polls cut": first(bodies.cut_body(), "GET", "/v1/batches/", 2),
    "polls no JSON": first(bodies.invalid_json(), "GET", "/v1/batches/", 2),
    "download cut": first(bodies.cut_body(), "GET", "/v1/files/"),
    "download reset": first(bodies.reset(), "GET", "/v1/files/"),
    "download 500": first(status.server_error(), "GET", "/v1/files/"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_on_the_way_is_asked_again_and_never_submitted_twice(tmp_path, name):
    with fault_server(LOST[name]) as server:
        asker = Asker(server, tmp_path)
        assert texts(asker.ask(PROMPTS)) == right(PROMPTS)
        assert server.faults.total() >= 1
        assert len(server.app.batches.batches) == 1
        assert lines_of(server) == dict.fromkeys(PROMPTS, 1)


def test_a_key_that_is_not_good_stops_at_once(tmp_path):
    plan = [Rule(status.invalid_key(), path="/v1/files")]
    with fault_server(plan) as server:
        asker = Asker(server, tmp_path)
        with pytest.raises(ModelError, match="HTTP 401") as failed:
            asker.ask(PROMPTS)
        assert KEY not in str(failed.value)
        assert len(server.requests) == 1


def test_a_batch_of_another_project_is_named(tmp_path):
    with fault_server(Rule(status.model_not_found(), path="/v1/batches/batch_000001")) as server:
        asker = Asker(server, tmp_path)
        with pytest.raises(ModelError, match=r"batch 1 \(batch_000001\) is not known to this key"):
            asker.ask(PROMPTS)
        server.plan = None
        assert texts(asker.ask(PROMPTS)) == right(PROMPTS)
        assert len(server.app.batches.batches) == 1


def test_no_file_holds_the_key_that_an_answer_repeats(tmp_path):
    plan = Rule(bodies.refused(f"Your key is {KEY}, is it not?"), path=LINE)
    with fault_server(plan, batches={"in_progress": 1}) as server:
        asker = Asker(server, tmp_path)
        found = asker.ask(PROMPTS)
    assert {a.text for a in found.values()} == {"Your key is ***, is it not?"}
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY not in path.read_text(), path
    assert KEY not in asker.said


def test_texts_of_lm_evals_own_tasks(tmp_path):
    with fault_server() as server:
        asker = Asker(server, tmp_path)
        asker.ask([])
        kept = []
        asker.lm.cache_hook.add_partial = lambda kind, args, text: kept.append((args[0], text))
        kwargs = {"until": ["\n"], "max_gen_toks": 60}
        made = [Instance("generate_until", {"key": p}, (p, kwargs), 0) for p in PROMPTS]
        found = asker.lm.generate_until(made)
        assert len(server.app.batches.batches) == 1
    assert dict(zip(PROMPTS, found, strict=True)) == dict(kept) == right(PROMPTS)


def test_without_a_run_folder_nothing_is_sent(tmp_path):
    with fault_server() as server:
        asker = Asker(server, None)
        with pytest.raises(UsageError, match="--api_mode batch .* tcb-bench run"):
            asker.ask(PROMPTS)
        assert not server.requests


def test_the_file_is_as_the_provider_documents_it(tmp_path):
    with fault_server() as server:
        Asker(server, tmp_path).ask(["Käse 🙂 \u2028?"], temperature=0.6)
        [batch] = server.app.batches.batches.values()
        [text] = server.app.batches.contents[batch["input_file_id"]].splitlines()
    sent = json.loads(text)
    assert sent["body"].pop("messages") == messages("Käse 🙂 \u2028?")
    assert sent == {
        "custom_id": "key of Käse 🙂 \u2028?",
        "method": "POST",
        "url": CHAT,
        "body": {
            "model": "gpt-4o",
            "temperature": 0.6,
            "top_p": 1.0,
            "seed": 7,
            "max_tokens": 60,
        },
    }
    assert (batch["endpoint"], batch["completion_window"]) == (CHAT, "24h")
