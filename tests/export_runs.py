"""A run folder made by the code that writes runs, from answers that are made up here; no model.

A group of two choice tasks, a task of numbers with every kind of failure, a sweep with texts and
their scores, and one of lm-eval's own tasks. Numbers obey their definitions where a format checks
them (shares, margins, probabilities); they say nothing about any model.
"""

import math
import random

from tcb_bench.conditions import Condition
from tcb_bench.result_file import result_file
from tcb_bench.results import TaskResult, digest, stamp, write_result, write_samples
from tcb_bench.samples import label_conflicts
from tcb_bench.store import Manifest

DATE = 1796030352.5
CONTEXTS = ("original", "ner")
TEMPERATURES = (0.0, 1.4)
SAMPLED = {"max_gen_toks": 64, "temperature": 0.0, "top_p": 1.0, "top_k": 0, "until": ["\n"]}
BASE = {
    "doc_to_text": "{{question}}\nAnswer:",
    "doc_to_target": "answer",
    "description": "Answer.\n\n",
}
STOCK = {
    "results": {
        "stock": {
            "name": "stock",
            "alias": "stock",
            "sample_len": 2,
            "acc,none": 0.5,
            "acc_stderr,none": "N/A",
        }
    },
    "configs": {"stock": {"task": "stock", "output_type": "multiple_choice", "metric_list": []}},
    "versions": {"stock": 1.0},
    "n-shot": {"stock": 0},
    "higher_is_better": {"stock": {"acc": True}},
    "n-samples": {"stock": {"original": 2, "effective": 2}},
}
INFO = {
    "backend": "hf",
    "model": "demo",
    "revision": None,
    "dtype": "float32",
    "n_parameters": 135,
    "n_vocab": 500,
    "weights_sha256": "0123456789abcdef",
    "transformers_version": "5.0",
    "temperature_effective": "true",
}


def stability(rng, *, is_choice=False):
    p1 = rng.uniform(0.4, 0.95)
    p2 = (1 - p1) * rng.uniform(0.3, 0.9)
    delta, radius, norm = rng.lognormvariate(1, 1), rng.lognormvariate(-1, 1), rng.uniform(20, 50)
    found = {
        "delta_tcb": delta,
        "log10_delta_tcb": math.log10(delta),
        "v_eff": 1 / (p1**2 + p2**2),
        "logit_margin": math.log(p1 / p2),
        "p_top1": p1,
        "p_top2": p2,
        "nll": -math.log(p1),
        "entropy": rng.uniform(0.1, 3),
        "flip_radius": radius,
        "flip_token": 17.0,
        "h_norm": norm,
        "relative_delta": delta / norm,
        "relative_flip_radius": radius / norm,
        "top1_token": 4.0,
    }
    mass = {"choice_margin": 0.7, "choice_flip_radius": 1.5, "answer_mass": rng.uniform(0.1, 1)}
    return found | (mass if is_choice else {"critical_token": 3.0})


def sample(task, doc_id, rows, *, condition="", **more):
    doc = more.pop("doc", {"question": f"What is {doc_id}?", "answer": "12"})
    return {
        "doc_id": doc_id,
        "task": task,
        "condition": condition,
        "doc_sha256": digest(doc),
        "doc": doc,
        "target": more.pop("target", "12"),
        "prompt": f"Answer.\n\n{doc['question']}\nAnswer:",
        "acc": None,
        **more,
        "rows": [row | {"key": f"{doc_id}{condition}{row['repeat']}"} for row in rows],
    }


def choice_samples(task):
    for i in range(3):
        rng = random.Random(f"{task}{i}")
        logprobs = [-rng.uniform(0.1, 5) for _ in range(4)]
        best = logprobs.index(max(logprobs))
        row = {
            "repeat": 0,
            "state": "scored",
            "acc": float(best == 2),
            "answer": "ABCD"[best],
            "reason": None,
            "stability": stability(rng, is_choice=True),
            "choice_logprobs": logprobs,
            "greedy_is_choice": float(i == 0),
            "greedy_token": " " + "ABCD"[best],
            "prompt_tokens": 60,
            "reused_from": None,
        }
        doc = {"question": f"Which, {i}?", "choices": ["a", "b", "c", "d"], "answer": 2}
        yield sample(task, f"{task}/test/{7 + i}", [row], doc=doc, target=2)


def text_row(rng, text, **changes):
    return {
        "repeat": 0,
        "state": "scored",
        "acc": 1.0,
        "answer": "12",
        "reason": None,
        "stability": stability(rng),
        "finish_reason": "stop",
        "completion_tokens": 9,
        "prompt_tokens": 70,
        "reused_from": None,
        "text": text,
        **changes,
    }


def number_samples():
    """Right, wrong with an answer below 0, cut off, empty, refused, failed, beyond float64."""
    rng = random.Random("numbers")
    huge = stability(rng) | {"delta_tcb": None, "relative_delta": None, "log10_delta_tcb": 340.0}
    gone = {"acc": None, "answer": None, "stability": {}, "finish_reason": None}
    rows = [
        text_row(rng, "It is 12."),
        text_row(rng, '=HYPERLINK("http://x") -5', acc=0.0, answer="-5"),
        text_row(rng, "It is, well,", state="truncated", acc=0.0, answer=None, stability={}),
        text_row(rng, "", state="empty", acc=0.0, answer=None, stability={}),
        text_row(rng, "", state="filtered", reason="refused", **gone),
        text_row(rng, "", state="error", reason="lost /home/alice/key sk-abcdefghijklmnop", **gone),
        text_row(rng, "Surely 12", stability=huge, reason="not finite: delta_tcb, relative_delta"),
    ]
    for i, row in enumerate(rows):
        if row["state"] in ("error", "filtered"):
            del row["text"]
        yield sample("toy_num", f"test/{40 - i}", [row])


def sweep_samples(axes):
    for i in range(4):
        rows = []
        for repeat in range(2):
            rng = random.Random(f"{axes}{i}{repeat}")
            scores = {
                name: rng.uniform(0, 1)
                for name in ("bertscore_f1", "rougeL", "f1", "em", "refusal", "garbled")
            }
            means = {"log10_delta_tcb": 0.5, "p_top1": 0.6, "nll": 0.9}
            own = {"repeat": repeat, "answer": None, "scores": scores, "stability_mean": means}
            rows.append(text_row(rng, f"@{repeat} It is {i}.", acc=float(i % 2), **own))
        condition = Condition(axes).id
        more = {"reference": f"It is {i}.", "stratum": "all", "weight": 1.0 + i}
        yield sample("toy_rag", f"q{i}", rows, condition=condition, **more)


def task_result(name, cells, config, info, label, axes=None, **facts):
    documents = [doc for docs in cells.values() for doc in docs]
    label_conflicts({name: documents})
    data = {
        "id": "toy/data",
        "config": None,
        "split": "test",
        "source": "hub",
        "revision": "c" * 40,
        "sha256": digest(name),
        "available": 50,
        **facts.pop("data", {}),
    }
    parts = {"task": name, "v": 1, "model": label, "backend": "hf", "data": "hub@cccc", "seed": 0}
    return TaskResult(
        name=name,
        version=1,
        cells=cells,
        axes=axes or {},
        request_sha256=dict.fromkeys(cells, digest(name)),
        signature_parts=parts,
        config={**BASE, "task": name, **config},
        n_shot=0,
        temperature_effective=info["temperature_effective"],
        facts={
            "data": data,
            "epsilon": 1.0,
            "sampling_defaults": "neutral",
            "weight_radius": 5.5,
            "limit": None,
            "seed": 0,
            "resources": {},
        },
        **facts,
    )


def task_results(info, label):
    """The group with its two tasks, the numbers, and the sweep."""
    choice = {
        "doc_to_choice": ["A", "B", "C", "D"],
        "target_delimiter": " ",
        "repeats": 1,
        "generation_kwargs": {**SAMPLED, "stability_at": "prompt_end"},
        "tcb": {"request": "next_token", "doc_id": "{config}/{split}/{row}"},
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    text = {
        **choice,
        "doc_to_choice": None,
        "generation_kwargs": {**SAMPLED, "stability_at": "final_number"},
        "tcb": {
            "request": "generate_traced",
            "position": "final_number",
            "doc_id": "{split}/{row}",
        },
    }
    names = ("toy_mc_a", "toy_mc_b")
    parts = [task_result(n, {"": list(choice_samples(n))}, choice, info, label) for n in names]
    both = [doc for part in parts for doc in part.cells[""]]
    members = {
        part.name: {"available": 50, "sha256": part.facts["data"]["sha256"]} for part in parts
    }
    group = task_result(
        "toy_mc",
        {"": both},
        {"group": "toy_mc"},
        info,
        label,
        data={"members": members},
        members={part.name: part.documents for part in parts},
    )
    numbers = task_result("toy_num", {"": list(number_samples())}, text, info, label)
    axes = {
        Condition(cell).id: cell
        for cell in ({"temperature": t, "context": c} for t in TEMPERATURES for c in CONTEXTS)
    }
    own = {"request": "generate_traced", "position": "first", "answer": "short_answer"}
    cells = {cell: list(sweep_samples(found)) for cell, found in axes.items()}
    more = {"repeats": 2, "tcb": own, "sweep": {"context": list(CONTEXTS)}}
    rag = task_result("toy_rag", cells, {**text, **more}, info, label, axes)
    return [group, *parts, numbers, rag]


def write_toy_run(folder, *, label="demo", date=DATE, keep=None, info=None, model_args=""):
    """Writes one invocation's results and samples; returns the path of the result file.

    ``keep``: names of the tasks of this invocation; None = all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    info = INFO | {"model": (label.partition("/")[2] or label).split("@")[0]} | (info or {})
    results = [r for r in task_results(info, label) if keep is None or r.name in keep]
    settings = {
        "label": label,
        "model_args": model_args,
        "model_info": info,
        "batch_size": "auto",
        "options": {"seed": 0, "limit": None, "gen_kwargs": {}},
        "system_instruction": None,
        "chat_template": None,
        "fewshot_as_multiturn": False,
    }
    manifest = Manifest(id=1, created_s=date - 9, settings=settings, finished_s=date)
    groups = {"toy_mc": ["toy_mc_a", "toy_mc_b"]} if keep is None or "toy_mc" in keep else {}
    stock = STOCK if keep is None else {key: {} for key in STOCK}
    record = result_file(manifest, groups, {}, results, stock) | {"date": date}
    path = folder / f"results_{stamp(date)}.json"
    write_result(path, record)
    for result in results:
        if not result.members:
            rows = [doc for docs in result.cells.values() for doc in docs]
            write_samples(folder / f"samples_{result.name}_{stamp(date)}.jsonl", rows)
    if keep is None:
        rows = [{"doc_id": "0", "doc": {}, "target": "x", "filter": "none", "acc": 1.0}]
        write_samples(folder / f"samples_stock_{stamp(date)}.jsonl", rows)
    return path
