"""Three ways to ask an API, timed: ours, a loop over the SDK, lm-eval's; for ``chat_api.py``."""

import asyncio
import importlib.resources
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import openai
import psutil  # type: ignore[import-untyped]
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalChatCompletion

from tcb_bench.durable import DurableLM
from tcb_bench.models.chat_load import load_chat
from tcb_bench.models.chat_options import ApiOptions
from tcb_bench.models.chat_request import as_text
from tcb_bench.models.resolve import resolve
from tcb_bench.responses import Generation
from tcb_bench.store import Store

WORDS = 220  # about 300 tokens
SYSTEM = "Answer the question from the documents, in one or two sentences."
STOP, TEMPERATURE, TOKENS = ["\n\n"], 0.6, 60
MIB = 2**20

Message = dict[str, str]


@dataclass(frozen=True)
class Taken:
    """What ``n`` requests took: seconds on the clock and of the processor; memory in MiB."""

    n: int
    clock_s: float
    cpu_s: float
    mib_before: float
    mib_peak: float
    handles: int

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.n / self.clock_s


def chats(n: int, first: int) -> Iterator[list[Message]]:
    """Conversations ``first`` to ``first + n``, no two alike, of the shipped sample's texts."""
    file = importlib.resources.files("tcb_bench.tasks") / "hotpotqa_tempperturb/sample/train.jsonl"
    words = file.read_text("utf-8").replace('"', " ").split()
    for i in range(first, first + n):
        at = 37 * i % (len(words) - WORDS)
        text = f"Question {i}: " + " ".join(words[at : at + WORDS])
        yield [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def timed(n: int, work: Callable[[], None]) -> Taken:
    """What ``work`` takes; ``n`` is its number of requests."""
    me = psutil.Process()
    before, clock, cpu = me.memory_info().rss / MIB, time.perf_counter(), time.process_time()
    work()
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Taken(n, clock, cpu, before, peak, me.num_fds())


def ours(url: str, n: int, first: int, connections: int, folder: Path) -> Taken:
    """The whole path of a run; ``n`` of the API is off, each text is a request of its own."""
    api = ApiOptions(max_connections=connections)
    lm = load_chat(resolve("openai/gpt-4o", f"base_url={url},api_key=none", api=api), None)
    neutral = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    given = {"until": STOP, "max_gen_toks": TOKENS, "temperature": TEMPERATURE, **neutral}
    requests = [
        Instance("generate_traced", {}, (as_text(chat), given), 0, ("chat_api", i, 1))
        for i, chat in enumerate(chats(n, first))
    ]
    with tempfile.TemporaryDirectory(dir=folder) as run, Store(Path(run)) as store:
        durable = DurableLM(lm, store, store.begin({}), 0)

        def work() -> None:
            answers = durable.generate_traced(requests)
            if not all(isinstance(answer, Generation) for answer in answers):
                sys.exit("ours: a request has no answer")

        taken = timed(n, work)
        if store.count() != n:
            sys.exit(f"ours: {store.count()} of {n} responses are in the store")
        return taken


def bare(url: str, n: int, first: int, connections: int, folder: Path) -> Taken:
    """As many workers as connections, each in a loop over the SDK's method; nothing is kept."""
    waiting = iter(enumerate(list(chats(n, first))))

    async def worker(client: openai.AsyncOpenAI) -> None:
        for seed, chat in waiting:
            reply = await client.chat.completions.create(
                model="gpt-4o",
                messages=chat,  # type: ignore[arg-type]
                temperature=TEMPERATURE,
                top_p=1.0,
                stop=STOP,
                max_tokens=TOKENS,
                seed=seed,
            )
            if not reply.choices[0].message.content:
                sys.exit("bare: a request has no answer")

    async def all_workers() -> None:
        client = openai.AsyncOpenAI(
            base_url=url,
            api_key="none",
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(timeout=300),
        )
        async with client:
            await asyncio.gather(*(worker(client) for _ in range(connections)))

    return timed(n, lambda: asyncio.run(all_workers()))


def lm_eval(url: str, n: int, first: int, connections: int, folder: Path) -> Taken:
    """lm-eval's client, as its ``--model local-chat-completions`` is used."""
    logging.disable(logging.WARNING)  # it advises to use concurrency, and so on, for each model
    lm = LocalChatCompletion(
        base_url=f"{url}/chat/completions", model="gpt-4o", num_concurrent=connections
    )
    given = {"until": STOP, "max_gen_toks": TOKENS, "temperature": TEMPERATURE, "top_p": 1.0}
    requests = [
        Instance("generate_until", {}, (lm.apply_chat_template(chat), given), 0)
        for chat in chats(n, first)
    ]

    def work() -> None:
        if not all(lm.generate_until(requests, disable_tqdm=True)):
            sys.exit("lm-eval: a request has no answer")

    return timed(n, work)


Way = Callable[[str, int, int, int, Path], Taken]
WAYS: dict[str, Way] = {"ours": ours, "bare": bare, "lm-eval": lm_eval}
