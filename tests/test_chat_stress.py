"""2,000 requests while 30 % of all attempts fail in every way that heals: nothing lost or doubled.

Oracle: the server's own record. Each stored text is what its function ``answer`` gives for the body
that arrived under the reply's id; and for each prompt and temperature the choices that it delivered
whole are as many as the repeats, so that nothing was asked again that had been answered.
"""

from collections import Counter

import fault_bodies as bodies
import fault_status as statuses
import pytest
from chat_many import (
    REPEATS,
    TEMPERATURES,
    asked,
    check_texts,
    counts,
    delivered,
    stored,
    write_many,
)
from chat_runs import run_api
from fault_plan import Rule, one_of
from fault_server import fault_server

from tcb_bench.models import chat_limiter, chat_traffic

pytestmark = pytest.mark.slow

FAULTS = (
    *(statuses.request_timeout(), statuses.conflict()),
    *(statuses.rate_limited(0.02), statuses.rate_limited(0.02, style="ms")),
    statuses.rate_limited(style="none"),
    *(statuses.server_error(status) for status in (500, 502, 503, 529)),
    *(bodies.reset(), bodies.closed(), bodies.cut_body()),
    *(bodies.invalid_json(), bodies.html_page(), bodies.error_in_body(), bodies.error_in_choice()),
    *(bodies.no_choices(), bodies.missing_choice(), bodies.duplicate_index()),
)
STORM = Rule(one_of(*FAULTS), probability=0.3, seed=5)
HANGS = Rule(bodies.hangs(), share=0.002, first=1)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Waits of a real client are seconds; that they come is tested elsewhere."""
    monkeypatch.setattr(chat_traffic, "FIRST_BACKOFF_S", 0.005)
    monkeypatch.setattr(chat_traffic, "LONGEST_BACKOFF_S", 0.05)
    monkeypatch.setattr(chat_limiter, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setattr(chat_limiter, "LONGEST_PAUSE_S", 0.05)


def test_a_storm_of_faults_loses_nothing_and_doubles_nothing(tmp_path):
    n = 250
    with fault_server([HANGS, STORM]) as server:
        folder = write_many(tmp_path, n)
        outcome = run_api(server, folder, "many", args="read_timeout=6", max_retries=30)
        found = stored(outcome.path.parent)
        check_texts(found, server)
        assert outcome.exit_code == 0
        assert set(counts(found).values()) == {REPEATS}
        assert len(found) == n * len(TEMPERATURES)
        assert delivered(server.chats) == counts(found)
        assert {fault.name for fault in FAULTS} | {"hangs"} == set(server.faults)
        assert 0.27 < sum(server.faults.values()) / len(server.chats) < 0.33


def test_what_never_heals_is_an_error_and_alone_is_asked_again(tmp_path):
    dead = Rule(statuses.server_error(503), share=0.05, seed=2)
    folder = write_many(tmp_path, 40)
    with fault_server([dead, STORM]) as server:
        first = run_api(server, folder, "many", max_retries=8)
        found = stored(first.path.parent)
        check_texts(found, server)
        lost = Counter({place: REPEATS - k for place, k in counts(found).items() if k < REPEATS})
        lost.update({place: REPEATS for place in found if place not in counts(found)})
        assert first.exit_code == 3
        assert first.n_errors == lost.total() > 0
        assert {place: k for place, k in delivered(server.chats).items() if k} == counts(found)
        server.plan = None
        before = len(server.requests)
        second = run_api(server, folder, "many", max_retries=8)
        assert asked(server.requests[before:]) == lost
        assert second.exit_code == 0
        whole = stored(second.path.parent)
        check_texts(whole, server)
        assert set(counts(whole).values()) == {REPEATS}
        assert len(whole) == len(found) == 40 * len(TEMPERATURES)
