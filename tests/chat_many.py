"""A task of any size for the client under load, and what the server's record says of its texts."""

import json
from collections import Counter

from fault_replies import answer

from tcb_bench.store import Store

TEMPERATURES = [0.0, 0.2, 0.6, 1.0, 1.4, 1.8]
REPEATS = 3
MANY = f"""\
task: many
class: !function tcb_bench.task.TcbTask
dataset_path: json
dataset_kwargs: {{data_files: {{test: many.jsonl}}}}
test_split: test
doc_to_text: q
doc_to_target: a
generation_kwargs: {{until: ["\\n\\n"], max_gen_toks: 60}}
repeats: {REPEATS}
sweep: {{temperature: {TEMPERATURES}}}
tcb: {{request: generate, answer: short_answer}}
metadata: {{version: 1, license: CC0-1.0}}
"""


def write_many(folder, n):
    """The task ``many`` in ``folder/tasks``: n questions, so 8 n requests for 18 n texts.

    At temperature 0 each repeat is a request; above it three choices are one.
    """
    tasks = folder / "tasks"
    tasks.mkdir()
    (tasks / "many.yaml").write_text(MANY)
    rows = [{"q": f"Name river number {i}.", "a": "stone"} for i in range(n)]
    (tasks / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def place_of(body):
    """(question, temperature) of a body."""
    return body["messages"][-1]["content"], body["temperature"]


def asked(arrivals):
    """(question, temperature) -> choices that were asked for."""
    found = Counter()
    for arrival in arrivals:
        found[place_of(arrival.body)] += arrival.body.get("n") or 1
    return found


def delivered(arrivals):
    """(question, temperature) -> choices that came whole, so that a client can use them."""
    found = Counter()
    for arrival in arrivals:
        n = arrival.body.get("n") or 1
        whole = {"": n, "missing_choice": n - 1, "duplicate_index": 1}
        found[place_of(arrival.body)] += whole.get(arrival.fault, 0)
    return found


def stored(folder):
    """(question, temperature) -> repeat -> response, as the store of a run folder has them."""
    found = {}
    with Store(folder, create=False) as store:
        keys = store.keys(store.manifest().id)
        assert len(set(keys.values())) == len(keys)
        for (_, _, _, repeat), key in keys.items():
            if (response := store.get(key)) is None:
                continue
            prompt, kwargs = store.request(key)["arguments"]
            place = json.loads(prompt)[-1]["content"], kwargs["temperature"]
            assert repeat not in found.setdefault(place, {})
            found[place][repeat] = response
        assert store.count() == sum(counts(found).values())
    return found


def counts(found):
    """(question, temperature) -> texts among what ``stored`` found."""
    return Counter(
        place
        for place, repeats in found.items()
        for response in repeats.values()
        if response.kind == "generation"
    )


def check_texts(found, server):
    """Each text is the played model's for the body and the choice that it is said to be of."""
    seen = Counter()
    for place, repeats in found.items():
        for response in (r for r in repeats.values() if r.kind == "generation"):
            reply = response.call["id"]
            arrival = server.requests[int(reply.removeprefix("chatcmpl-")) - 1]
            assert place_of(arrival.body) == place
            assert response.text == answer(arrival.body, response.call["choice"])
            seen[reply, response.call["choice"]] += 1
    assert seen.most_common(1)[0][1] == 1
