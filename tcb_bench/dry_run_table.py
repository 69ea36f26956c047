"""A dry run in a terminal: one table that fits 80 columns, and what its numbers rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from tcb_bench.dry_run_counts import (
    API_RATE,
    PREDICTION_TOKENS,
    REASONING_TOKENS,
    TEXT_TOKENS,
    ModelCount,
    TaskCount,
    added,
    study_minutes,
)

UNKNOWN = "?"
HEADS = (
    "responses\nin store",
    "requests\ntime",
    "prompt\ntokens",
    "completion\nat most",
    "USD\nat most",
)


def dry_run_table(models: Sequence[ModelCount]) -> Iterator[Table | Text]:
    """The table over all models and tasks, then its notes, a line each."""
    table = Table(
        title="what will be asked", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    table.add_column("model, task", overflow="fold")
    for head in HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    for model in models:
        table.add_row(Text(model.model, style="bold"))
        for task in model.tasks:
            table.add_row(_what(task), *_numbers(model, task, model.minutes(task)))
        if len(model.tasks) > 1:
            whole = model.total()
            table.add_row("  all tasks", *_numbers(model, whole, model.minutes(whole)))
        table.add_section()
    if len(models) > 1:
        conditions = sum(task.conditions for model in models for task in model.tasks)
        first = Text("all models", style="bold") + Text(f"\n  {conditions:,} conditions")
        table.add_row(first, *_of_all(models))
    yield table
    for note in notes(models):
        yield Text(f"- {note}")


def _what(task: TaskCount) -> str:
    sizes = [
        _several(task.conditions, "condition"),
        f"{_about(task)}{_several(task.questions, 'question')}",
        _several(task.runs, "run"),
    ]
    lines = [f"  {task.task}", *(f"    {size}" for size in sizes if not size.startswith("1 "))]
    for number, name in (
        (task.same, "equal"),
        (task.unsupported, "unsupported"),
        (task.too_long, "too long"),
    ):
        lines += [f"    {number:,} {name}"] if number else []
    return "\n".join(lines)


def _several(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _about(task: TaskCount) -> str:
    return "<= " if task.is_design else ""


def _numbers(model: ModelCount, task: TaskCount, minutes: float | None) -> tuple[str, ...]:
    responses = f"{_about(task)}{task.responses:,}"
    if model.unknown:
        return responses, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    money = model.usd(task)
    if money is not None:
        usd = f"{_usd(money[0])}\n{_usd(money[1])}"
    else:
        usd = "no price" if model.is_api else "-"
    time = "<= 24 h" if model.is_batch and task.requests else _time(minutes)
    return (
        f"{responses}\n{task.stored:,}",
        f"{task.requests:,}\n{time}",
        f"{task.prompt_tokens:,}",
        f"{task.expected:,}\n{task.worst:,}",
        usd,
    )


def _of_all(models: Sequence[ModelCount]) -> tuple[str, ...]:
    """The sums; a number that some model lacks is a sum over the others, marked with a plus."""
    known = [model for model in models if not model.unknown]
    whole, parts = added(t for m in models for t in m.tasks), [m.total() for m in known]
    plus = "" if len(known) == len(models) else " +"
    usd = [each for m, part in zip(known, parts, strict=True) if (each := m.usd(part))]
    has_all = len(usd) == sum(model.is_api for model in models)
    more = "" if has_all else " +"
    money = "\n".join(f"{_usd(sum(column))}{more}" for column in zip(*usd, strict=True))
    sums = added(parts)
    if not known:
        return (f"{_about(whole)}{whole.responses:,}", *[UNKNOWN] * 4)
    return (
        f"{_about(whole)}{whole.responses:,}\n{whole.stored:,}{plus}",
        f"{sums.requests:,}{plus}\n{_time(study_minutes(known))}{plus}",
        f"{sums.prompt_tokens:,}{plus}",
        f"{sums.expected:,}{plus}\n{sums.worst:,}{plus}",
        money or "-",
    )


def _usd(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 0.995 or amount == 0 else f"{amount:.2g}"


def _time(minutes: float | None) -> str:
    if minutes is None:
        return "-"
    for unit, size in (("d", 48 * 60), ("h", 120), ("min", 2)):
        if minutes >= size:
            return f"{minutes / {'d': 1440, 'h': 60, 'min': 1}[unit]:,.1f} {unit}"
    return f"{60 * minutes:.0f} s" if minutes >= 1 / 60 or not minutes else "< 1 s"


def notes(models: Sequence[ModelCount]) -> Iterator[str]:
    """What the numbers rest on, and what a run says before it spends anything."""
    yield from dict.fromkeys(note for model in models for note in model.notes)
    for reason, names in _grouped((m.unknown, m.model) for m in models if m.unknown):
        yield f"tokens not known: {reason} ({names})"
    if any(task.is_design for model in models for task in model.tasks):
        yield "<= by design: a cell of the data may hold fewer documents"
    known = [model for model in models if not model.unknown]
    if any(task.same for model in known for task in model.tasks):
        yield (
            "equal: the same request as another, or a local model's repeat at T = 0; these are "
            "answered once"
        )
    if any(task.too_long for model in known for task in model.tasks):
        yield "too long: a prompt that does not fit into the model's context with its reply"
    for counter, names in _grouped((m.tokens_by, m.model) for m in known):
        yield f"prompt tokens by {counter} ({names})"
    if known:
        yield from _completions(known)
        yield from _money(known)
        yield from _rates(known)


def _grouped(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each first part once, with all its second parts."""
    found: dict[str, list[str]] = {}
    for first, second in pairs:
        found.setdefault(first, []).append(second)
    for first, seconds in found.items():
        yield first, ", ".join(dict.fromkeys(seconds))


def _completions(models: Sequence[ModelCount]) -> Iterator[str]:
    rows = [(model, task) for model in models for task in model.tasks]
    for model, task in rows:
        if task.mean is not None and task.requests:
            yield (
                f"completion tokens expected: {task.mean:,.1f} each, the mean of what is stored "
                f"({model.model}, {task.task})"
            )
    if any(task.mean is None and task.requests for _, task in rows):
        thinks = any(m.thinks for m in models)
        more = f", {REASONING_TOKENS:,} more where a model reasons" if thinks else ""
        yield (
            f"completion tokens expected: assumed, where nothing is stored yet: "
            f"{PREDICTION_TOKENS} a prediction, {TEXT_TOKENS} a text{more}"
        )
    yield "completion tokens at most: what the requests allow, reasoning included"


def _money(models: Sequence[ModelCount]) -> Iterator[str]:
    for model in models:
        if model.price is not None:
            day = f" of {model.price.as_of}" if model.price.as_of else ""
            half = f", Batch API x {model.price.batch_factor:g}" if model.is_batch else ""
            yield (
                f"{model.model}: {model.price.input:g} USD a million prompt tokens, "
                f"{model.price.output:g} completion{half}{day} ({model.price.source}), without "
                "cache discounts"
            )
        elif model.is_api:
            yield f"{model.model}: no price is known; write one into a file and give --prices FILE"
        if model.spent.get("requests"):
            spent = model.spent
            usd = f", {_usd(spent['usd'])} USD" if model.price is not None else ""
            yield (
                f"{model.model}: spent by its folder so far: {spent['requests']:,.0f} requests, "
                f"{spent['prompt_tokens']:,.0f} + {spent['completion_tokens']:,.0f} tokens{usd}"
            )


def _rates(models: Sequence[ModelCount]) -> Iterator[str]:
    online = [model for model in models if model.is_api and not model.is_batch]
    if any(model.rate is None for model in online):
        yield f"time: assumed {API_RATE:g} requests a minute; --requests_per_minute says another"
    for rate, names in _grouped((f"{m.rate:g}", m.model) for m in online if m.rate is not None):
        yield f"time: {rate} requests a minute ({names})"
