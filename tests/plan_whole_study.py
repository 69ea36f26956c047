"""Plans all 79,200 requests of the study with an engine that answers at once; prints what it took."""

import json
import random
import resource
import sys
import time
from pathlib import Path

from lm_eval.api.model import LM

from tcb_bench.config import TaskOptions
from tcb_bench.durable import DurableLM
from tcb_bench.load_tasks import load_tasks, quiet
from tcb_bench.run import evaluate
from tcb_bench.store import Store

WORDS = "the river town ship company museum year founded by a of painter bridge north old".split()


class Counting(LM):
    """Stands for the planning alone: every request is counted, none is answered."""

    def __init__(self, durable):
        super().__init__()
        self.durable, self.planned = durable, 0

    def generate_traced(self, requests):
        from tcb_bench.durable import numbered
        from tcb_bench.responses import Failure

        asks = [self.durable._ask_of("generate_traced", r, n) for r, n in numbered(requests)]
        rows = [(*ask.sample, ask.key) for ask in asks]
        self.durable.store.plan(self.durable.manifest, rows)
        self.planned += len({row[-1] for row in rows})
        return [Failure("not asked")] * len(requests)

    loglikelihood = loglikelihood_rolling = generate_until = generate_traced


def records(rng):
    def sentence():
        return " " + " ".join(rng.choices(WORDS, k=22)).capitalize() + "."

    for kind in ("bridge", "comparison"):
        for n in (2, 3, 4):
            for i in range(100):
                titles = [f"{kind} {n} {i} {t}" for t in "abcdefghij"]
                yield {
                    "id": f"{kind}-{n}-{i}",
                    "question": sentence().strip(),
                    "answer": "yes",
                    "type": kind,
                    "level": "hard",
                    "supporting_facts": {
                        "title": [titles[k % 2] for k in range(n)],
                        "sent_id": [k // 2 for k in range(n)],
                    },
                    "context": {
                        "title": titles,
                        "sentences": [[sentence() for _ in range(4)] for _ in titles],
                    },
                }


class Engine:
    identity = {"backend": "none", "model": "none"}
    reuses_at_zero = True


def peak_mib():
    """Of this program alone: ru_maxrss counts the process that started it too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main(folder):
    data = folder / "hotpotqa"
    data.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in records(random.Random(0)))
    (data / "hotpot.jsonl").write_text(lines)
    (data / "hotpot_fullwiki.jsonl").write_text("")
    started = time.process_time()
    options = TaskOptions(data=str(folder), reference="short")
    with quiet():
        loaded = load_tasks(["hotpotqa_tempperturb"], options)
        with Store(folder / "run") as store:
            lm = Counting(DurableLM(Engine(), store, store.begin({}), 0))
            evaluate(lm, loaded, None)
            stored = len(store.keys(1))
    peak = peak_mib()
    sys.stdout.write(f"{lm.planned} {stored} {peak} {time.process_time() - started}\n")


main(Path(sys.argv[1]))
