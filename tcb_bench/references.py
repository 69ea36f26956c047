"""Reference sentences: question and short answer made into one sentence by a model, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcb_bench.api_notes import say_after
from tcb_bench.config import NEUTRAL_SAMPLING, RunConfig
from tcb_bench.data import ID_COLUMN
from tcb_bench.errors import ModelError, UsageError
from tcb_bench.metrics.qa import contains_answer
from tcb_bench.rag import sentences
from tcb_bench.rag_data import References
from tcb_bench.responses import Generation

TEMPLATE = """\
Question: {question}
Answer: {answer}
Generate a complete and coherent answer based on the given question and answer, being as brief \
as possible:"""
"""TP section 4.3, its template word for word."""

TEMPLATE_VERSION = 1
"""Raised whenever the same answers would give other sentences: template or rule of sentences."""

MAX_TOKENS = 256
Report = Callable[..., None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """The file of references, its hash, and what a reader should look at.

    Attributes:
        path: JSONL: doc_id, reference, question, answer, who made it how, contains_answer, text.
        sha256: of ids and sentences; a run over the same documents carries it.
        n: references written; ``failed`` documents have none (ask again by the same command).
        without_answer: ids whose sentence does not contain the short answer.
    """

    path: Path
    sha256: str
    n: int
    failed: tuple[str, ...]
    without_answer: tuple[str, ...]


def first_sentences(text: str) -> str:
    """TP's rule: the first sentence, or the first two of a text that begins with Yes or No.

    >>> first_sentences("Yes. Both are rivers. They are long.")
    'Yes. Both are rivers.'
    """
    flat = " ".join(text.split())
    parts = sentences(flat)
    begins = flat.lower().split(maxsplit=1)[:1]
    n = 2 if begins and begins[0].rstrip(".,!;:") in ("yes", "no") else 1
    return "".join(parts[:n]).strip()


def make_references(
    config: RunConfig, report: Report | None = None, say: Say = lambda line: None
) -> Made:
    """Asks ``config.model`` for the reference sentences of the one task in ``config.tasks``.

    Durable like a run: responses are kept in ``<output_path>/references/<model>``, the same command
    continues after a kill, and the file is written from them.

    Raises:
        UsageError: several tasks, or one without questions and answers.
        TcbBenchError: as a run.
    """
    from tcb_bench.durable import DurableLM
    from tcb_bench.load_tasks import load_tasks, quiet
    from tcb_bench.models.resolve import running
    from tcb_bench.store import Store, check_writable

    spec = config.model_spec()
    folder = config.output_path / "references" / spec.folder
    check_writable(folder)
    with quiet():
        loaded = load_tasks(
            config.tasks,
            replace(config.options, reference="short"),
            config.include_path,
            is_run=False,
        )
    name, documents, columns = _documents(loaded)
    say(f"loading {spec.label}")
    with running(spec, folder / "vllm.log") as lm, Store(folder, fresh=config.fresh) as store:
        durable = DurableLM(lm, store, store.begin(config.settings()), config.options.seed, report)
        has_chat = config.apply_chat_template or spec.is_api
        prompts = [_prompt(lm, doc, columns, has_chat) for doc in documents]
        generation = {"max_gen_toks": MAX_TOKENS, **NEUTRAL_SAMPLING, **lm.model_sampling}
        if spec.is_api:
            lm.say = say
        answers = durable.generate_traced(_requests(name, documents, prompts, generation))
        say_after(lm, say)
        made_by = {
            "generator": spec.label,
            "revision": lm.info.get("revision"),
            "template": TEMPLATE_VERSION,
            "sampling": generation,
        }
    rows = [
        _row(doc, answer, columns, made_by) for doc, answer in zip(documents, answers, strict=True)
    ]
    return _write(config.output_path / "references" / f"{name}__{spec.folder}.jsonl", rows)


def _documents(loaded: Any) -> tuple[str, list[dict[str, Any]], dict[str, str]]:
    """Name, documents (each once, over all conditions) and columns of the one task."""
    names = {getattr(task, "base_name", name) for name, task in loaded.tasks.items()}
    if len(names) != 1:
        raise UsageError(f"references are made for one task at a time; got {', '.join(names)}")
    tasks = list(loaded.tasks.values())
    if not hasattr(tasks[0], "is_tcb_task") or tasks[0].spec.reference == "none":
        raise UsageError(
            f"{names.pop()} compares no texts: its YAML has no `tcb: {{reference: ...}}`"
        )
    found = {doc[ID_COLUMN]: doc for task in tasks for doc in task.eval_docs}
    return names.pop(), list(found.values()), tasks[0].spec.columns


def _prompt(lm: Any, doc: dict[str, Any], columns: dict[str, str], has_chat: bool) -> str:
    text = TEMPLATE.format(question=doc[columns["question"]], answer=doc[columns["answer"]])
    if not has_chat:
        return text + "\n"
    if not getattr(lm.tokenizer, "chat_template", None):
        raise ModelError("the model has no chat template; leave --apply_chat_template out")
    return str(lm.apply_chat_template([{"role": "user", "content": text}]))


def _requests(
    name: str, documents: list[dict[str, Any]], prompts: list[str], generation: dict[str, Any]
) -> list[Any]:
    from tcb_bench.durable import request

    sent = {**generation, "until": [], "stability_at": "none"}
    return [
        request("generate_traced", doc, (prompt, sent), f"{name}|references")
        for doc, prompt in zip(documents, prompts, strict=True)
    ]


def _row(
    doc: dict[str, Any], answer: Any, columns: dict[str, str], made_by: dict[str, Any]
) -> dict[str, Any]:
    is_text = isinstance(answer, Generation)
    sentence = first_sentences(answer.answer if is_text else "")
    short = str(doc[columns["answer"]])
    return {
        "doc_id": doc[ID_COLUMN],
        "reference": sentence,
        "question": doc[columns["question"]],
        "answer": short,
        **made_by,
        "contains_answer": contains_answer(sentence, short),
        "text": answer.text if is_text else "",
    }


def _write(path: Path, rows: list[dict[str, Any]]) -> Made:
    from tcb_bench.results import write_jsonl

    good = [row for row in rows if row["reference"]]
    write_jsonl(path, good)
    return Made(
        path,
        References("sentence", {r["doc_id"]: r["reference"] for r in good}).facts["sha256"],
        len(good),
        tuple(row["doc_id"] for row in rows if not row["reference"]),
        tuple(row["doc_id"] for row in good if not row["contains_answer"]),
    )
