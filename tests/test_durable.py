"""The durable wrapper: what is asked, what is kept, and how repeats and failures are treated.

The engine here is scripted, because the point is to make it fail at chosen moments; real engines
are killed in test_run_end_to_end.py.
"""

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from tcb_bench.durable import NOT_ANSWERED, DurableLM, ReplayLM
from tcb_bench.errors import StoreError
from tcb_bench.responses import Failure, Generation, NextToken, Plain
from tcb_bench.store import Store


class Engine(LM):
    """Answers every prompt with a text that names prompt and seed; stops after ``budget`` answers."""

    reuses_at_zero = True

    def __init__(self, budget=10**9, **identity):
        super().__init__()
        self.identity = {"backend": "scripted", "model": "m", **identity}
        self.budget, self.log = budget, []

    def generate_traced(self, requests, on_response=None):
        return [self._answer(i, r, on_response) for i, r in enumerate(requests)]

    def _answer(self, index, request, on_response):
        if len(self.log) >= self.budget:
            raise KeyboardInterrupt
        prompt, parameters = request.args
        self.log.append((prompt, parameters["seed"]))
        text = f"{prompt}:{parameters['seed']}"
        answer = (
            Failure("bad prompt") if prompt == "bad" else Generation(text, [1], [[0, 1]], "stop", 1)
        )
        on_response(index, answer)
        return answer

    def next_token(self, requests, on_response=None):
        answers = [NextToken({}, [-0.5], [1], 1, "A", 1) for _ in requests]
        for index, answer in enumerate(answers):
            self.log.append(requests[index].args)
            on_response(index, answer)
        return answers

    def loglikelihood(self, requests):
        values = []
        for request in requests:
            self.log.append(request.args)
            values.append((-1.5, True))
            if request.args[0] != "late":  # this one is only in the returned list
                self.cache_hook.add_partial("loglikelihood", request.args, values[-1])
        return values

    loglikelihood_rolling = generate_until = loglikelihood


def asks(prompts, temperature=0.0, repeats=1):
    """Instances as lm-eval hands them over: each one repeats times, the same object."""
    instances = [
        Instance(
            "generate_traced",
            {"tcb_id": f"d{i}"},
            (p, {"temperature": temperature}),
            0,
            ("task", i, repeats),
        )
        for i, p in enumerate(prompts)
    ]
    return [instance for instance in instances for _ in range(repeats)]


def durable(store, engine, seed=0):
    return DurableLM(engine, store, store.begin({}), seed)


def test_after_an_interruption_only_the_rest_is_asked(tmp_path):
    prompts = [f"p{i}" for i in range(10)]
    with Store(tmp_path) as store:
        with pytest.raises(KeyboardInterrupt):
            durable(store, Engine(budget=4)).generate_traced(asks(prompts))
        assert store.count() == 4
        engine = Engine()
        texts = [g.text for g in durable(store, engine).generate_traced(asks(prompts))]
    assert texts == [f"p{i}:None" for i in range(10)]
    assert [prompt for prompt, _ in engine.log] == prompts[4:]


def test_sampled_repeats_have_three_seeds_which_depend_on_the_run_seed_and_the_document(tmp_path):
    with Store(tmp_path) as store:
        first, second = Engine(), Engine()
        durable(store, first, seed=0).generate_traced(asks(["p", "p"], 1.0, repeats=3))
        durable(store, second, seed=1).generate_traced(asks(["p"], 1.0, repeats=3))
    seeds = [seed for _, seed in first.log + second.log]
    assert len(set(seeds)) == 9


def test_greedy_repeats_of_a_local_engine_are_asked_once_and_say_so(tmp_path):
    with Store(tmp_path) as store:
        engine = Engine()
        texts = durable(store, engine).generate_traced(asks(["p"], 0.0, repeats=3))
        keys = store.keys(1)
        origins = [store.reused_from(keys["task", "d0", 0, repeat]) for repeat in range(3)]
    assert len(engine.log) == 1
    assert [t.text for t in texts] == ["p:None"] * 3
    assert origins == [None, keys["task", "d0", 0, 0], keys["task", "d0", 0, 0]]


def test_an_engine_that_does_not_promise_it_is_asked_every_time(tmp_path):
    with Store(tmp_path) as store:
        engine = Engine()
        engine.reuses_at_zero = False
        durable(store, engine).generate_traced(asks(["p"], 0.0, repeats=3))
    assert len(engine.log) == 3


@pytest.mark.parametrize("change", [{"dtype": "bfloat16"}, {"revision": "x"}, {"gguf_file": "q4"}])
def test_engines_that_differ_in_anything_never_share_an_answer(tmp_path, change):
    with Store(tmp_path) as store:
        durable(store, Engine()).generate_traced(asks(["p"]))
        other = Engine(**change)
        durable(store, other).generate_traced(asks(["p"]))
    assert len(other.log) == 1


def test_requests_that_differ_in_one_parameter_never_share_an_answer(tmp_path):
    with Store(tmp_path) as store:
        engine = Engine()
        wrapped = durable(store, engine)
        wrapped.generate_traced(asks(["p"], 0.0))
        wrapped.generate_traced(asks(["p "], 0.0))
        wrapped.generate_traced(asks(["p"], 0.2))
    assert len(engine.log) == 3


def test_the_same_prompt_twice_in_one_run_is_asked_once(tmp_path):
    with Store(tmp_path) as store:
        engine = Engine()
        answers = durable(store, engine).generate_traced(asks(["p", "q", "p"]))
    assert [a.text for a in answers] == ["p:None", "q:None", "p:None"]
    assert len(engine.log) == 2


def test_a_failure_is_returned_and_asked_again_by_the_next_run(tmp_path):
    with Store(tmp_path) as store:
        answers = durable(store, Engine()).generate_traced(asks(["a", "bad"]))
        assert answers[1] == Failure("bad prompt")
        again = Engine()
        durable(store, again).generate_traced(asks(["a", "bad"]))
    assert [prompt for prompt, _ in again.log] == ["bad"]


def test_lm_evals_own_requests_are_kept_as_they_come_and_resumed(tmp_path):
    requests = [
        Instance("loglikelihood", {}, (c, " x"), 0, ("stock", i, 1))
        for i, c in enumerate(["a", "late", "b"])
    ]
    with Store(tmp_path) as store:
        engine = Engine()
        assert durable(store, engine).loglikelihood(requests) == [(-1.5, True)] * 3
        assert store.count() == 3
        again = Engine()
        assert durable(store, again).loglikelihood(requests) == [(-1.5, True)] * 3
        assert again.log == []
        assert store.get(store.keys(1)["stock", "1", 0, 0]) == Plain([-1.5, True])


def test_a_replay_answers_from_the_plan_without_a_prompt_and_says_what_is_missing(tmp_path):
    with Store(tmp_path) as store:
        wrapped = durable(store, Engine())
        wrapped.generate_traced(asks(["a", "b"]))
        replay = ReplayLM(store, 1)
        blank = asks(["", ""])
        assert [a.text for a in replay.generate_traced(blank)] == ["a:None", "b:None"]
        assert replay.generate_traced(asks(["", "", ""]))[2] == Failure(NOT_ANSWERED)
        with pytest.raises(StoreError, match="1 of 1 loglikelihood requests have no answer"):
            replay.loglikelihood([Instance("loglikelihood", {}, ("a", "b"), 0, ("stock", 0, 1))])


def test_progress_counts_what_the_store_had(tmp_path):
    seen = []
    with Store(tmp_path) as store:
        durable(store, Engine()).generate_traced(asks(["a", "b"]))
        DurableLM(
            Engine(), store, store.begin({}), 0, lambda *r, tokens=0: seen.append(r)
        ).generate_traced(asks(["a", "b", "c"]))
    assert seen == [(2, 3), (3, 3)]
