"""lm-eval's own sampled tasks: each repeat with a seed of its own. Oracle: what the server was sent."""

from dataclasses import replace

from chat_runs import chat
from fault_server import fault_server
from lm_eval.api.instance import Instance

from tcb_bench.models.chat_lm_eval import ours


def sent(requests):
    with fault_server() as server:
        lm = chat(server)
        lm.jobs.capability = replace(lm.capability, n=1)  # a server that gives one choice a request
        lm.generate_until(requests)
        return [arrival.body for arrival in server.chats]


def repeats(keys):
    kwargs = {"until": ["\n"], "do_sample": True, "max_gen_toks": 5}
    return [
        Instance("generate_until", {"key": key} if key else {}, ("a", kwargs), 0) for key in keys
    ]


def test_repeats_have_seeds_of_their_own_which_hold_when_a_run_is_resumed():
    first = {body["seed"] for body in sent(repeats(["k0", "k1", "k2"]))}
    assert len(first) == 3
    assert {body["seed"] for body in sent(repeats(["k2"]))} < first
    assert len({body["seed"] for body in sent(repeats([None, None]))}) == 2


def test_sampling_without_a_temperature_is_at_one_and_greedy_at_zero():
    assert ours({"do_sample": True}, 5)["temperature"] == 1.0
    assert ours({"do_sample": True, "temperature": 0.3}, 5)["temperature"] == 0.3
    assert ours({"do_sample": False, "temperature": 0.3}, 5)["temperature"] == 0.0
    assert "seed" not in ours({}, 5) and ours({"do_sample": True}, 5)["seed"] == 5
