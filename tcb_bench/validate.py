"""``tcb-bench validate``: one task as the model will see it, before any model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from tcb_bench.config import TaskOptions
from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import UsageError
from tcb_bench.load_tasks import load_tasks, quiet
from tcb_bench.responses import Generation
from tcb_bench.scoring import score
from tcb_bench.task_files import catalogue, expand, read_strict
from tcb_bench.task_sweep import PERTURBED


def validate(target: str, options: TaskOptions, include: Sequence[Path] = ()) -> int:
    """Loads a task with its data, renders a document, shows its gold answer and critical point.

    Args:
        target: a YAML file (its folder is then added to ``include``), a task, or a group.
        options: data, limit and seed, as for a run.
        include: folders with further tasks.

    Returns:
        0; a task that cannot run raises with file and line.
    """
    console = Console(highlight=False)
    path = Path(target)
    names = [target]
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise UsageError(f"{path}: no such file; give a YAML file or a task's name")
        yaml = read_strict(path)
        names, include = (
            [yaml.config["task" if yaml.kind != "group" else "group"]],
            _with(include, path.parent),
        )
    known = catalogue(include)
    for leaf in expand(names, known):
        for warning in read_strict(known[leaf].path).warnings:
            console.print(f"[yellow]warning[/] {escape(warning)}")
    with quiet():
        loaded = load_tasks(names, options, include)
        for name, task in loaded.tasks.items():
            if _is_shown(task):
                _show(console, name, task)
    if loaded.missing:
        console.print(f"[yellow]no data[/] {escape(loaded.missing_text)}")
    conditions = [name for name in loaded.tasks if "|" in name]
    if conditions:
        console.print(f"{len(conditions)} conditions; `tcb-bench ls conditions` shows them")
    console.print(
        f"{len({name.split('|')[0] for name in loaded.tasks})} task(s) valid"
        + (f", {len(loaded.missing)} without data" if loaded.missing else "")
    )
    return 0


def _with(include: Sequence[Path], folder: Path) -> list[Path]:
    from tcb_bench.task_files import tasks_folder

    is_known = any(
        folder.resolve().is_relative_to(Path(p).resolve()) for p in [tasks_folder(), *include]
    )
    return [*include] if is_known else [*include, folder]


def _is_shown(task: Any) -> bool:
    """Of a sweep one condition for each text that it shows: temperatures show the same."""
    if not hasattr(task, "is_tcb_task"):
        return True
    given = task.condition.axes
    return all(given[a] == values[0] for a, values in task.axes.items() if a not in PERTURBED)


def _show(console: Console, name: str, task: Any) -> None:
    doc = task.eval_docs[0]
    prompt = task.fewshot_context(
        doc, num_fewshot=task.config.num_fewshot or 0, gen_prefix=task.doc_to_prefix(doc)
    )
    request = task.construct_requests(doc, prompt, metadata=(name, 0, 1))
    console.print(
        Panel(
            escape(str(prompt)) + _critical(request),
            title=escape(f"{name}: {doc.get(ID_COLUMN, 0)}"),
        )
    )
    if not hasattr(task, "is_tcb_task"):
        console.print("one of lm-eval's own tasks: no stability is measured")
        return
    target = task.target(doc)
    for each in task.eval_docs:  # every gold, so that none stops a run later
        task.target(each)
    documents = task.documents
    console.print(f"documents  {len(task.eval_docs)} of {documents.selection.available}")
    for why, count in documents.left_out.items():
        console.print(f"left out   {count}: {escape(why)}")
    if documents.references.kind != "none":
        missed = len(documents.references.without_answer)
        about = f" ({missed} do not contain the short answer)" if missed else ""
        console.print(f"reference  {documents.references.kind}{about}")
    console.print(f"expected   {escape(_expected(task, doc, target))}")
    console.print(
        f"request    {task.spec.request}, critical point: {task.spec.position or 'none'}, "
        f"epsilon {task.spec.epsilon:g}"
    )
    if task.spec.request != "next_token":
        console.print(f"sampling   {escape(str(task.generation()))}")
        _check_gold(task, doc, target)


def _critical(request: Any) -> str:
    """Marks where the measured prediction is made."""
    requests = request if isinstance(request, list) else [request]
    if requests[0].request_type == "next_token":
        choices = ", ".join(map(repr, requests[0].arguments[1])) or "any token"
        return f"[bold green] <- critical point: {escape(choices)}[/]"
    return "[bold green] <- the model continues here[/]"


def _expected(task: Any, doc: dict[str, Any], target: Any) -> str:
    if target is None:
        return "nothing: only the stability of the next token is measured"
    if task.spec.answer == "choice":
        return f"{task.doc_to_choice(doc)[target]!r} (index {target})"
    return str(target)


def _check_gold(task: Any, doc: dict[str, Any], target: Any) -> None:
    """The gold answer, given as the model's text, must be scored as right."""
    text = str(target)
    answer = Generation(text=text, tokens=[], offsets=[], finish_reason="stop", prompt_tokens=0)
    if score(answer, target, task.spec)["acc"] != 1.0:
        raise UsageError(
            f"{task.base_name}: {doc[ID_COLUMN]}: its own gold answer {text[-80:]!r} is not scored "
            f"as right by answer: {task.spec.answer}"
        )
