"""What becomes of each request. Oracle: a scripted API whose outcomes are counted by hand."""

import asyncio
from collections import Counter

import pytest

from tcb_bench.models import chat_traffic
from tcb_bench.models.chat_budget import Budget
from tcb_bench.models.chat_faults import Fault
from tcb_bench.models.chat_keeper import Keeper
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_traffic import Job, Traffic
from tcb_bench.responses import Failure, Generation

GOOD = Generation("a", [], [], "stop", 1)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(chat_traffic, "FIRST_BACKOFF_S", 0.01)
    monkeypatch.setattr(chat_traffic, "LONGEST_BACKOFF_S", 0.02)


class Api:
    """Answers a job by ``outcome(number, attempt)``: a Fault to raise, or the members to answer."""

    def __init__(self, outcome, takes_s=0.001):
        self.outcome, self.takes_s = outcome, takes_s
        self.attempts, self.sent, self.now, self.peak = Counter(), [], 0, 0

    async def send(self, job):
        number = job.body["number"]
        self.attempts[number] += 1
        self.sent.append(list(job.members))
        self.now += 1
        self.peak = max(self.peak, self.now)
        await asyncio.sleep(self.takes_s)
        self.now -= 1
        found = self.outcome(number, self.attempts[number])
        if isinstance(found, Fault):
            raise found
        return dict.fromkeys(job.members if found is None else found, GOOD)


def drive(api, jobs, limit=None, **options):
    """(traffic, responses by member as lists) after all jobs."""
    traffic = Traffic(ApiOptions(**options), limit or Budget())
    got = {}

    async def done(member, response):
        got.setdefault(member, []).append(response)

    asyncio.run(traffic.run(jobs, api.send, done))
    return traffic, got


def jobs(n, **fields):
    return (Job([i], {"number": i, **fields}, None) for i in range(n))


def test_each_job_is_answered_once_and_no_more_than_the_most_are_on_the_way():
    api = Api(lambda number, attempt: None)
    traffic, got = drive(api, jobs(200), max_connections=7)
    assert sorted(got) == list(range(200)) and all(len(each) == 1 for each in got.values())
    assert api.peak == 7 and len(api.sent) == 200 and traffic.stopped is None


def test_jobs_are_made_as_they_are_taken():
    taken, api = [], Api(lambda number, attempt: None)

    def source():
        for job in jobs(500):
            taken.append(len(taken) - sum(api.attempts.values()))
            yield job

    drive(api, source(), max_connections=8)
    assert len(taken) == 500 and max(taken) <= 8


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_what_heals_is_asked_again_up_to_the_retries(retries):
    bad = Fault("500", "retry", "HTTP 500: broken")
    api = Api(lambda number, attempt: bad if number == 3 or attempt <= retries else None)
    traffic, got = drive(api, jobs(5), max_retries=retries)
    assert api.attempts == {i: retries + 1 for i in range(5)}
    assert traffic.faults["500"] == 4 * retries + retries + 1
    [lost] = got.pop(3)
    assert (lost.state, lost.reason) == ("error", f"{retries + 1} attempts failed, the last with HTTP 500: broken")  # fmt: skip
    assert all(each == [GOOD] for each in got.values())


def test_waiting_out_a_429_costs_no_retry():
    slow = Fault("429", "wait", "HTTP 429", wait_s=0.001)
    api = Api(lambda number, attempt: slow if attempt <= 20 else None)
    traffic, got = drive(api, jobs(3), max_retries=0)
    assert all(each == [GOOD] for each in got.values()) and traffic.faults["429"] == 60


def test_while_an_api_only_says_to_slow_down_the_run_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(chat_traffic, "STALL_S", 0.2)
    api = Api(lambda number, attempt: Fault("429", "wait", "HTTP 429: busy", wait_s=0.01))
    traffic, got = drive(api, jobs(3))
    assert got == {} and traffic.stopped == "no reply for 0.2 s: HTTP 429: busy"


def test_choices_that_are_missing_are_asked_for_alone():
    api = Api(lambda number, attempt: [[0, 2], [1], []][attempt - 1])
    traffic, got = drive(api, [Job([0, 1, 2], {"number": 0}, None)])
    assert api.sent == [[0, 1, 2], [1]] and got == {i: [GOOD] for i in range(3)}
    assert traffic.faults == {"bad reply": 1}


def test_a_quota_stops_at_once_and_what_is_on_the_way_is_kept():
    quota = Fault("quota", "quota", "HTTP 429: no money")
    api = Api(lambda number, attempt: quota if number >= 40 else None, takes_s=0.01)
    traffic, got = drive(api, jobs(1000), max_connections=8)
    assert traffic.stopped == "HTTP 429: no money"
    assert all(each == [GOOD] for each in got.values()) and set(got) >= set(range(33))
    assert len(api.sent) <= 40 + 8  # nobody who waited for a place was sent


def test_a_quota_with_many_waiting_for_a_place_sends_no_more_than_were_on_the_way():
    api = Api(lambda number, attempt: Fault("quota", "quota", "no money"), takes_s=0.02)
    traffic, got = drive(api, jobs(100), max_connections=32)
    assert got == {} and len(api.sent) == 4  # the limiter's first width


def test_a_wrong_key_is_raised_and_cancels_the_rest():
    api = Api(lambda number, attempt: Fault("401", "stop", "HTTP 401: bad key") if number == 9 else None)  # fmt: skip
    with pytest.raises(Fault, match="HTTP 401: bad key"):
        drive(api, jobs(1000), max_connections=4)
    assert len(api.sent) < 30


def test_a_refused_value_is_asked_once_and_others_go_on():
    no = Fault("400", "condition", "only the default (1)", field="temperature")

    class Picky(Api):
        async def send(self, job):
            self.asked = [*getattr(self, "asked", []), job.body["temperature"]]
            if job.body["temperature"] != 1.0:
                await asyncio.sleep(0.005)
                raise no
            return await super().send(job)

    many = [Job([i], {"number": i, "temperature": [0.0, 0.6, 1.0][i % 3]}, None) for i in range(90)]
    api = Picky(lambda number, attempt: None)
    traffic, got = drive(api, many, max_connections=4)
    counts = Counter(api.asked)
    assert counts[1.0] == 30 and counts[0.0] + counts[0.6] <= 4 + 2
    assert set(traffic.refusals) == {("temperature", 0.0), ("temperature", 0.6)}
    for i in range(90):
        [only] = got[i]
        expected = GOOD if i % 3 == 2 else Failure("only the default (1)", "unsupported")
        assert only == expected


@pytest.mark.parametrize("state", ["unscored", "filtered"])
def test_a_prompt_that_is_refused_is_its_own_failure_only(state):
    api = Api(lambda number, attempt: Fault("400", state, "no") if number == 2 else None)
    _, got = drive(api, jobs(5))
    assert got.pop(2) == [Failure("no", state)] and api.attempts[2] == 1
    assert all(each == [GOOD] for each in got.values())


def test_an_api_that_is_down_stops_the_run():
    api = Api(lambda number, attempt: Fault("connection", "retry", "connection lost"))
    traffic, got = drive(api, jobs(500), max_retries=1, max_connections=4)
    assert "12 requests in a row failed after 2 attempts each, the last with connection lost" in traffic.stopped  # fmt: skip
    assert 12 <= len(got) <= 12 + 4 and len(api.sent) <= 2 * (12 + 4)


def test_failures_that_are_left_for_the_end_are_no_api_that_is_down():  # case 11
    # those that never heal take longest, so that the last ones of a run are all of them
    lost = Fault("500", "retry", "HTTP 500")
    api = Api(lambda number, attempt: lost if number >= 170 else None)
    traffic, got = drive(api, jobs(200), max_retries=2, max_connections=32)
    assert traffic.stopped is None and len(got) == 200
    assert [isinstance(got[i][0], Failure) for i in range(200)] == [False] * 170 + [True] * 30


def test_whatever_the_keeper_raises_ends_the_run():
    async def full(member, response):
        raise OSError("disk full")

    traffic = Traffic(ApiOptions(), Budget())
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(traffic.run(jobs(50), Api(lambda number, attempt: None).send, full))


def test_answers_of_one_turn_are_kept_though_another_ends_the_run_in_it():
    turn, kept = asyncio.Event(), {}

    async def send(job):
        if job.members == [2]:
            turn.set()
        await turn.wait()
        if job.members == [0]:
            raise Fault("401", "stop", "no such key")
        return {member: Failure("an answer") for member in job.members}

    keeper = Keeper(kept.__setitem__)

    async def drive():
        try:
            await Traffic(ApiOptions(), Budget()).run(jobs(3), send, keeper.take)
        finally:
            keeper.flush()

    with pytest.raises(Fault, match="no such key"):
        asyncio.run(drive())
    assert kept.keys() == {1, 2}


def test_after_a_write_that_failed_nothing_is_written_and_its_error_is_seen():
    written = []

    def full(index, response):
        written.append(index)
        raise OSError("disk full")

    keeper = Keeper(full)
    keeper.add(0, Failure("x"))
    with pytest.raises(OSError, match="disk full"):
        keeper.flush()
    keeper.add(1, Failure("x"))
    keeper.flush()
    assert written == [0]
