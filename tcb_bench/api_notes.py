"""What a person is told of a model behind an API: before anything is spent, and at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tcb_bench.errors import UsageError

if TYPE_CHECKING:
    from tcb_bench.load_tasks import Loaded
    from tcb_bench.models.resolve import ModelSpec

Say = Callable[[str], None]


def check_key(spec: ModelSpec) -> None:
    """Whether there is a key, before anything slow begins.

    Raises:
        UsageError, ModelError: there is none, or it cannot be one.
    """
    from tcb_bench.models.chat_load import key_of

    key_of(spec)


def say_closed(spec: ModelSpec, loaded: Loaded, say: Say) -> None:
    """What an API cannot tell, before anything is spent.

    Raises:
        UsageError: a task needs what no API tells.
    """
    ours = {n: t for n, t in loaded.tasks.items() if hasattr(t, "is_tcb_task")}
    impossible = [
        name
        for name, task in loaded.tasks.items()
        if name not in ours and task.OUTPUT_TYPE != "generate_until"
    ]
    if impossible:
        raise UsageError(
            f"{spec.label}: {', '.join(impossible[:4])}: no API tells the log-likelihood of a "
            "given text; choose tasks that generate, or mmlu_tcb"
        )
    if any(task.spec.request != "generate" for task in ours.values()):
        say(
            f"{spec.label}: delta_tcb and flip_radius need weights and are null; p_top1, p_top2, "
            "logit_margin, nll and bounds on v_eff come from top_logprobs where the API gives them"
        )


def say_before(lm: Any, loaded: Loaded, say: Say) -> None:
    """Which conditions the model cannot do, and what is known of its temperature."""
    if not hasattr(lm, "preview"):
        return
    lm.say = say
    texts = {
        name: task.generation()
        for name, task in loaded.tasks.items()
        if hasattr(task, "is_tcb_task") and task.spec.request != "next_token"
    }
    for line in lm.preview(texts):
        say(line)


def say_after(lm: Any, say: Say) -> None:
    """What an API cost, what failed on the way, and why it ended before its end."""
    if not hasattr(lm, "learned"):
        return
    spent, faults = lm.spent, lm.learned["failed_attempts"]
    usd = lm.learned["spent"]["usd"]
    money = "no price known" if usd is None else f"{usd:.4f} USD"
    tokens = f"{spent['prompt_tokens']:,.0f} + {spent['completion_tokens']:,.0f} tokens"
    say(f"spent by this run folder: {spent['requests']:,.0f} requests, {tokens}, {money}")
    failed = [f"{n} x {kind}" for kind, n in sorted(faults.items()) if kind != "limit"]
    if failed:
        last = f"; the last: {lm.last_failure}" if lm.last_failure else ""
        say(f"failed attempts: {', '.join(failed)}{last}")
    if lm.stopped:
        then = " with a higher limit" if lm.stopped.startswith("--") else ""
        say(f"stopped: {lm.stopped}; what is there is kept, the same command continues{then}")
