"""OpenAI's Batch API: how large batches are, full queues, no money, and limits of the user.

Oracles: the fault server's own text for each request (``answer``), its count of the lines and
batches that it was given, and prices multiplied by hand.
"""

import fault_status as status
import pytest
from chat_batches import PROMPTS, Asker, lines_of, messages, right, texts
from fault_plan import Rule
from fault_server import fault_server

from tcb_bench.models.chat_batch_pack import BatchLimits


def sizes(server):
    """Lines of each batch, in the order of their creation."""
    contents = server.app.batches.contents
    batches = server.app.batches.batches.values()
    return [len(contents[batch["input_file_id"]].splitlines()) for batch in batches]


def test_parts_are_as_large_as_requests_and_bytes_allow_and_run_together(tmp_path):
    with fault_server() as server:
        asker = Asker(server, tmp_path)
        asker.limits = BatchLimits(requests=4, at_once=2)
        assert texts(asker.ask(PROMPTS)) == right(PROMPTS)
        assert sizes(server) == [4, 2]
        submitted = [n for n, said in enumerate(asker.lines) if "submitted" in said]
        assert submitted == [0, 1]
        widest = max(map(len, server.app.batches.contents["file-000001"].splitlines())) + 1
        asker.limits = BatchLimits(file_bytes=2 * widest)
        more = [f"Problem {number}!" for number in range(5)]
        assert texts(asker.ask(more)) == right(more)
        assert sizes(server)[2:] == [2, 2, 1]


def in_queue(server, most):
    """Makes the provider refuse a batch where more than ``most`` lines would wait in all."""
    batches = server.app.batches
    validate = batches.validate

    def validated(batch):
        waiting = [b for b in batches.batches.values() if b["status"] == "in_progress"]
        waiting = sum(b["request_counts"]["total"] for b in waiting)
        if waiting + len(batches.contents[batch["input_file_id"]].splitlines()) <= most:
            return validate(batch)
        error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
        batch.update(status="failed", errors={"object": "list", "data": [error]})
        return None

    batches.validate = validated


def test_a_full_queue_makes_batches_wait_and_smaller(tmp_path):
    prompts = [f"Question {number}?" for number in range(240)]
    with fault_server() as server:
        in_queue(server, 70)
        asker = Asker(server, tmp_path)
        assert texts(asker.ask(prompts)) == right(prompts)
        assert set(lines_of(server).values()) == {1}
        assert sizes(server)[:2] == [240, 120]
        assert (
            "divided (batch 1 (batch_000001) failed: Enqueued token limit reached.)" in asker.said
        )
        assert "waits for the others" in asker.said


def test_a_queue_that_others_have_filled_stops_the_run(tmp_path):
    with fault_server() as server:
        in_queue(server, 0)
        asker = Asker(server, tmp_path)
        assert asker.ask(PROMPTS) == {}
        assert "Enqueued token limit reached" in asker.lm.stopped
        del server.app.batches.validate  # all of it is free again
        assert texts(asker.ask(PROMPTS)) == right(PROMPTS)


NO_ROOM = {
    "quota": status.insufficient_quota(),
    "hard limit": status.status_error(
        "hard", 400, "Billing hard limit has been reached", code="billing_hard_limit_reached"
    ),
    "queue": status.status_error("queue", 400, "Too many.", code="token_limit_exceeded"),
}


@pytest.mark.parametrize("kind", NO_ROOM)
def test_no_room_at_the_creation(tmp_path, kind):
    made = Rule(NO_ROOM[kind], path="/v1/batches", when=lambda asked: asked.method == "POST")
    with fault_server(made) as server:
        asker = Asker(server, tmp_path)
        assert asker.ask(PROMPTS) == {}
        assert asker.lm.stopped
        server.plan = None
        asker.limits = BatchLimits(requests=3)
        created = []

        def second(asked):
            if (asked.method, asked.path) == ("POST", "/v1/batches"):
                created.append(asked)
                return len(created) == 2
            return False

        server.plan = Rule(NO_ROOM[kind], path=None, when=second)
        assert texts(asker.ask(PROMPTS)) == right(PROMPTS)
        assert "waits for the others" in asker.said
        assert lines_of(server) == dict.fromkeys(PROMPTS, 1)


def test_a_cost_limit_makes_smaller_parts_and_is_never_passed(tmp_path):
    with fault_server() as server:
        probe = Asker(server, tmp_path, token_limit=1)
        probe.ask(PROMPTS)
        prompt = probe.lm.counter.bound(messages(PROMPTS[0]))
        worst = 0.5 * (prompt * 2.5 + 60 * 10) / 1e6  # gpt-4o's prices, of 60 tokens at most
        asker = Asker(server, tmp_path, cost_limit=2.5 * worst)
        found = asker.ask(PROMPTS)
        made = sizes(server)
    assert made[0] == 2
    assert sum(made) == len(found) >= 3
    assert max(made) == 2
    assert asker.lm.budget.usd <= 2.5 * worst
    assert texts(found) == right(list(found))
    usage = asker.lm.budget.usage
    bill = 0.5 * (usage["prompt_tokens"] * 2.5 + usage["completion_tokens"] * 10) / 1e6
    assert asker.lm.budget.usd == pytest.approx(bill)


def test_what_runs_already_counts_towards_a_limit(tmp_path):
    with fault_server(batches={"in_progress": 3}) as server:
        asker = Asker(server, tmp_path)
        asker.lines = LeavesAfter("submitted")
        with pytest.raises(LeavesAfter.Left):
            asker.ask(PROMPTS)
        asker.lines, asker.api = [], {"token_limit": 100}  # less than those six may have
        more = [*PROMPTS, "One more?"]
        found = asker.ask(more)
        assert "taken up" in asker.lines[0]
        assert sizes(server)[0] == 6
        assert texts(found) == right(list(found))
        spent = asker.lm.budget.usage["prompt_tokens"] + asker.lm.budget.usage["completion_tokens"]
        assert spent > 100  # by the batch that was there before the limit
        assert len(server.app.batches.batches) == 1
        assert "One more?" not in found
        assert "has no room" in asker.lm.stopped


class LeavesAfter(list):
    """Lines for a user who ends the process at one with a certain word."""

    class Left(Exception):
        pass

    def __init__(self, word):
        super().__init__()
        self.word = word

    def append(self, line):
        super().append(line)
        if self.word in line:
            raise self.Left


@pytest.mark.parametrize("limit", [{"cost_limit": 1e-9}, {"token_limit": 3}], ids=str)
def test_a_limit_that_has_no_room_at_all_sends_nothing(tmp_path, limit):
    with fault_server() as server:
        asker = Asker(server, tmp_path, **limit)
        assert asker.ask(PROMPTS) == {}
        assert "has no room" in asker.lm.stopped
        assert not server.requests
    assert not list((tmp_path / "batches").iterdir())
