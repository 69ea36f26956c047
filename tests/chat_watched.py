"""One run against an API in this process, and what the kernel says of it meanwhile.

Run as ``python chat_watched.py URL REQUESTS EVERY FOLDER``; prints a JSON list with one
[answers, MiB resident, open handles] for every EVERY answers and one for the last.
"""

import json
import sys
from pathlib import Path

import psutil
from chat_runs import chat
from lm_eval.api.instance import Instance

from tcb_bench.durable import DurableLM
from tcb_bench.store import Store

TEXT = "The hills said go, go, go, and the river said stay, stay, stay. " * 16
GIVEN = {"until": ["\n\n"], "max_gen_toks": 60, "temperature": 0.6, "top_p": 1.0, "top_k": 0}
GIVEN |= {"min_p": 0.0, "repetition_penalty": 1.0}


class Watch:
    """Called by the durable wrapper with each number of answers."""

    def __init__(self, every):
        self.every, self.seen, self.me = every, [], psutil.Process()

    def __call__(self, done, total, **_):
        last = self.seen[-1][0] if self.seen else 0
        if done >= last + self.every or done == total:
            self.seen.append((done, self.me.memory_info().rss / 2**20, self.me.num_fds()))


def main(url, n, every, folder):
    lm, watch = chat(url, max_connections=32), Watch(every)
    requests = [
        Instance("generate_traced", {}, (f"{i} {TEXT}", GIVEN), 0, ("watched", i, 1))
        for i in range(n)
    ]
    with Store(folder) as store:
        DurableLM(lm, store, store.begin({}), 0, watch).generate_traced(requests)
        if store.count() != n:
            sys.exit(f"{store.count()} of {n} responses are in the store")
    sys.stdout.write(json.dumps(watch.seen))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
