"""Task files: every refusal names file, line and way out; everything that ships is sound."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.task_files import TASKS_DIR, catalogue, expand, read_strict, tcb_spec
from tcb_bench.task_spec import sweep_axes
from tcb_bench.task_yaml import GROUP_KEYS, TASK_CONFIG

BASE = """\
class: !function tcb_bench.task.TcbTask
task: mine
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_text: "{{question}}"
doc_to_target: answer
generation_kwargs: {until: ["\\n"]}
metadata: {version: 1}
"""
TRACED = BASE + "tcb: {request: generate_traced}\n"  # the 10th line is the mapping `tcb`
HUB = TRACED.replace("json\ndataset_kwargs: {data_files: rows.jsonl}", "some/data")


def write(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path):
    with pytest.raises(UsageError) as caught:
        read_strict(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(path.parent) + "/")


REFUSALS = {
    "a syntax error": ("task: a\nb: [1\nc: 2\n", "mine.yaml:3: did not find expected ',' or ']'"),
    "a colon in plain text": ("task: a\ndescription: a: b\n", "mine.yaml:2: mapping values are not"),
    "a tab as indent": ("task: a\nmetadata:\n\tversion: 1\n", "mine.yaml:3: found character that"),
    "an unknown tag": ("task: a\nb: !!python/name:os.system x\n", "mine.yaml:2: could not determine"),
    "two documents": ("task: a\n---\ntask: b\n", "mine.yaml:2: but found another document"),
    "a control character": ("task: a\nb: \x01\n", "mine.yaml:2: control characters"),
    "a date that is none": ("task: a\nb: 2024-13-45\n", "mine.yaml:2: '2024-13-45': month must be"),
    "a key given twice": ("task: a\nx: 1\ntask: b\n", "mine.yaml:3: key 'task' is given twice"),
    "a nested key given twice": ("task: a\nm:\n  - {v: 1,\n     v: 2}\n", "mine.yaml:4: key 'v' is"),
    "bytes that are not UTF-8": (b"task: a\nb: caf\xe9\n", "mine.yaml:2: byte 0xe9 is not UTF-8"),
    "a list at the top": ("- task: a\n", "mine.yaml:1: the file holds a sequence; expected `key:"),
    "an empty file": ("", "mine.yaml:1: the file holds nothing"),
    "neither task nor group": ("doc_to_text: x\n", "mine.yaml:1: neither `task` nor `group`;"),
    "a misspelt task": ("tasks: a\n", "mine.yaml:1: neither `task` nor `group`, but 'tasks'"),
    "a class that is a text": ("class: a.B\ntask: a\n", "mine.yaml:1: class is a text; expected `class"),
    "our keys without our class": ("task: a\ntcb: {}\n", "mine.yaml:2: tcb in a task without our cl"),
    "a task name with a comma": (BASE.replace("mine", "a,b"), "mine.yaml:2: task is 'a,b'"),
    "an unknown key": (TRACED + "doc_to_txt: x\n", "11: unknown key 'doc_to_txt'; did you mean 'doc_to_text'"),
    "a key like no other": (TRACED + "qqq: x\n", "mine.yaml:11: unknown key 'qqq'; expected a field"),
    "an unknown group key": ("group: a\ntask: [b]\ngroup_alia: x\n", "3: unknown key 'group_alia' in a group; did you mean 'group_alias'?"),
    "a task's setting in a group": ("group: a\ntask: [b]\nnum_fewshot: 1\n", "3: unknown key 'num_fewshot' in a group; a task's"),
    "a group without members": ("group: a\ntask: []\n", "mine.yaml:2: task is []; expected the names"),
    "a member written out": ("group: a\ntask: [{task: b}]\n", "mine.yaml:2: a member is {'task': 'b'}"),
    "a missing include": ("include: base.yaml\ntask: a\n", "mine.yaml:1: include 'base.yaml' is not the"),
    "an include of itself": ("task: a\ninclude: mine.yaml\n", "mine.yaml:2: include 'mine.yaml' was rea"),
    "an include that is no name": ("task: a\ninclude: 3\n", "mine.yaml:2: include is 3; expected a file"),
    "no tcb mapping": (BASE, "mine.yaml:1: there is no tcb mapping"),
    "a tcb that is a text": (BASE + "tcb: x\n", "mine.yaml:10: tcb is 'x'; expected"),
    "a hub data set without revision": (HUB, "3: dataset_revision is missing for 'some/data'; expected the commit's 40 hex digits"),
    "a branch as revision": (HUB + "dataset_revision: main\n", "mine.yaml:10: dataset_revision is 'main'; expected"),
    "own files that are not named": (TRACED.replace("data_files", "x"), "3: dataset_path is 'json'; expected `dataset_kwargs: {data_files"),
    "no version": (TRACED.replace("version: 1", "license: MIT"), "mine.yaml:9: there is no metadata.version"),
    "a sweep of nothing": (TRACED + "sweep: {temperature: []}\n", "11: sweep.temperature is []; expected a list of num"),
    "a temperature above 2": (TRACED + "sweep: {temperature: [0, 3]}\n", "11: sweep.temperature is [0, 3]"),
    "a yes in a sweep": (TRACED + "sweep: {top_k: [yes]}\n", "11: sweep.top_k is [True]"),
    "a top_p of 0": (TRACED + "sweep: {top_p: [0]}\n", "11: sweep.top_p is [0]; expected a list of numb"),
    "a value given twice": (TRACED + "sweep: {top_p: [1, 1.0]}\n", "11: sweep.top_p is [1, 1.0]; expected each value once"),
    "a misspelt axis": (TRACED + "sweep:\n  temprature: [0]\n", "12: no key 'temprature' in sweep; did you mean 'temperature'?"),
    "an axis like no other": (TRACED + "sweep: {context: [a]}\n", "11: no key 'context' in sweep; the axes are temperature, top_p, top_k, max_gen_toks"),
    "a perturbation": (TRACED + "perturbation: ner\n", "11: perturbation is 'ner'; expected none: this version has"),
    "no repeats": (TRACED + "repeats: 0\n", "mine.yaml:11: repeats is 0; expected a whole number"),
}  # fmt: skip

TCB_REFUSALS = {
    "epsilon: 1": "tcb.request is missing; expected next_token or generate_traced or generate",
    "request: next_tokn": "tcb.request is 'next_tokn'; expected next_token or",
    "request: generate, epsilom: 1": "no key 'epsilom' in tcb; did you mean 'epsilon'?",
    "request: generate, zzz: 1": "no key 'zzz' in tcb; the keys are request, epsilon",
    "request: generate, epsilon: 0": "tcb.epsilon is 0; expected a number > 0",
    "request: generate, epsilon: 1e-3": "tcb.epsilon is '1e-3'; expected a number > 0 (YAML reads",
    "request: generate, epsilon: .inf": "tcb.epsilon is inf",
    "request: generate, epsilon: true": "tcb.epsilon is True",
    "request: generate, position: last": "tcb.position is 'last'; expected none",
    "request: generate_traced, position: prompt_end": "tcb.position is 'prompt_end'; expected final",
    "request: next_token, position: first": "tcb.position is 'first'; expected prompt_end",
    "request: generate, answer: letter": "tcb.answer is 'letter'; expected choice or final_number",
    "request: generate, draw: 0": "tcb.draw is 0; expected a whole number >= 1",
    "request: generate, draw: 2.0": "tcb.draw is 2.0",
    "request: generate, draw: null": "tcb.draw is None",
    "request: generate, doc_id: '{rows}'": "tcb.doc_id is '{rows}'; expected a text with {config}",
    "request: generate, doc_id: '{row'": "tcb.doc_id is '{row'",
    "request: generate, doc_id: '{}'": "tcb.doc_id is '{}'",
    "request: generate, doc_id: '{id.x}'": "tcb.doc_id is '{id.x}'",
    "request: generate, doc_id: '{split}'": "tcb.doc_id is '{split}'; expected {row} or {id} in it",
    "request: generate, shots: no.jsonl": "tcb.shots 'no.jsonl' is not there; expected a JSONL file",
    "request: generate, sampling_defaults: api": "tcb.sampling_defaults is 'api'; expected neutral or",
    "request: generate, sample: ''": "tcb.sample is ''; expected a text",
    "request: generate, local: here": "tcb.local is 'here'; expected",
    "request: generate, local: {}": "tcb.local.files is missing; expected a path like",
    "request: generate, local: {file: a}": "no key 'file' in tcb.local; did you mean 'files'?",
    "request: generate, local: {files: '{row}'}": "tcb.local.files is '{row}'; expected a text with",
    "request: generate, local: {files: a, splits: {x: 1}}": "tcb.local.splits is {'x': 1}; expected",
    "request: generate, local: {files: a, columns: []}": "tcb.local.columns is []; expected a list",
    "request: generate, local: {files: a, adapt: csv}": "tcb.local.adapt is 'csv'; expected none or",
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refused_with_the_line(tmp_path, text, message):
    assert message in refusal(write(tmp_path, text))


@pytest.mark.parametrize(("tcb", "message"), TCB_REFUSALS.items(), ids=TCB_REFUSALS)
def test_bad_tcb_is_refused_with_the_line(tmp_path, tcb, message):
    assert refusal(write(tmp_path, f"{BASE}tcb: {{{tcb}}}\n")).startswith(
        f"mine.yaml:10: {message}"
    )


def test_the_line_of_a_fault_in_an_include_is_that_of_the_include(tmp_path):
    write(tmp_path, "class: !function tcb_bench.task.TcbTask\ntcb:\n  epsilon: -1\n", "_base.yaml")
    path = write(tmp_path, "include: _base.yaml\ntask: a\ntcb: {request: generate}\n")
    assert refusal(path).startswith("_base.yaml:3: tcb.epsilon is -1")


def test_a_base_reached_on_two_ways_is_refused_because_lm_eval_hides_such_a_task(tmp_path):
    from lm_eval.tasks._yaml_loader import load_yaml

    write(tmp_path, "x: 1\n", "_root.yaml")
    for name in ("_left.yaml", "_right.yaml"):
        write(tmp_path, "include: _root.yaml\n", name)
    path = write(tmp_path, "task: a\ninclude: [_left.yaml, _right.yaml]\n")
    assert refusal(path).startswith("_right.yaml:1: include '_root.yaml' was read already")
    with pytest.raises(ValueError, match="cycle"):
        load_yaml(path)


def test_a_longer_include_cycle_is_refused(tmp_path):
    write(tmp_path, "include: mine.yaml\n", "_base.yaml")
    path = write(tmp_path, "include: _base.yaml\ntask: a\n")
    assert refusal(path).startswith("_base.yaml:1: include 'mine.yaml' was read already")


def test_duplicates_and_bad_bytes_in_an_include_are_refused(tmp_path):
    path = write(tmp_path, "task: a\ninclude: _base.yaml\n")
    write(tmp_path, "a: 1\nb:\n  c: 1\n  c: 2\n", "_base.yaml")
    assert refusal(path).startswith("_base.yaml:4: key 'c' is given twice (first in line 3)")
    write(tmp_path, b"a: \xff\n", "_base.yaml")
    assert refusal(path).startswith("_base.yaml:1: byte 0xff")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert refusal(tmp_path / "no.yaml").startswith("no.yaml:1: cannot be read (No such file")


def test_tcb_is_merged_deeply_and_everything_else_as_lm_eval_does(tmp_path):
    write(
        tmp_path,
        TRACED.replace("{request", "{epsilon: 2, request") + "task_list: [x]\n",
        "_base.yaml",
    )
    path = write(tmp_path, "include: _base.yaml\ntask: b\ntcb: {draw: 3}\nmetadata: {version: 2}\n")
    found = read_strict(path)
    assert found.config["tcb"] == {"epsilon": 2, "request": "generate_traced", "draw": 3}
    assert found.config["metadata"] == {"version": 2}
    assert found.config["class"] == "tcb_bench.task.TcbTask"
    assert not {"include", "task_list"} & set(found.config)
    assert dict(found.lines) == {"task": 2, "tcb": 3, "metadata": 4}


def test_merge_keys_and_anchors_are_plain_yaml(tmp_path):
    text = TRACED.replace("tcb: {", "tcb:\n  <<: &more {draw: 2, epsilon: 3}\n  epsilon: 4\n  ")
    config = read_strict(
        write(tmp_path, text.replace("generate_traced}", "generate_traced"))
    ).config
    assert config["tcb"] == {"draw": 2, "epsilon": 4, "request": "generate_traced"}


def test_data_that_is_a_local_path_needs_no_revision(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some" / "data").mkdir(parents=True)
    assert read_strict(write(tmp_path, HUB)).kind == "task"


def test_plain_lm_eval_tasks_are_checked_for_syntax_and_duplicates_only(tmp_path):
    found = read_strict(write(tmp_path, "task: a\nanything: goes\ndataset_path: some/data\n"))
    assert (found.kind, found.warnings) == ("plain", ())
    assert read_strict(write(tmp_path, "class: !function x.Y\ntask: a\n")).kind == "plain"


DOUBTS = {
    "backslash n in single quotes": ("description: 'Solve.\\n'", "11: \\n outside double quotes"),
    "backslash n without quotes": ("fewshot_delimiter: \\n", "11: \\n outside double quotes"),
    "single braces": ('description: "of {subject}"', "11: description has {subject}, which"),
    "a prefix twice": ('gen_prefix: "Answer: "', "6: doc_to_text ends in 'Answer:' and gen_prefix"),
}


@pytest.mark.parametrize(("line", "warning"), DOUBTS.values(), ids=DOUBTS)
def test_a_likely_slip_is_a_warning(tmp_path, line, warning):
    text = TRACED.replace("{{question}}", "{{question}} Answer:") + line + "\n"
    (found,) = read_strict(write(tmp_path, text)).warnings
    assert f"mine.yaml:{warning}" in found


@pytest.mark.parametrize(
    "line",
    [
        'description: "Use \\\\boxed{X} or \\\\frac{a}{b} or x^{n}.\\n"',
        'description: \'{{ f"{x}" }} {% set a = {x} %} {"a": 1} $\\nabla f \\neq 0$\'',
        "description: '{{ question.split(\"\\n\")[0] }}'",
        "filter_list: [{name: a, filter: [{function: regex, regex_pattern: 'a\\nb'}]}]",
    ],
)
def test_latex_jinja_and_patterns_are_no_slips(tmp_path, line):
    assert read_strict(write(tmp_path, f"{TRACED}{line}\n")).warnings == ()


def test_an_output_type_without_use_and_a_missing_stop_are_warnings(tmp_path):
    text = BASE + "tcb: {request: next_token}\noutput_type: multiple_choice\n"
    (found,) = read_strict(write(tmp_path, text)).warnings
    assert "mine.yaml:11: output_type does nothing" in found
    (found,) = read_strict(write(tmp_path, TRACED.replace("until", "max_gen_toks"))).warnings
    assert "mine.yaml:8: generation_kwargs has no `until`" in found


def test_a_slip_in_a_base_is_no_warning_where_the_task_overrides_it(tmp_path):
    write(tmp_path, TRACED + "description: 'a\\n'\n", "_base.yaml")
    inherits = read_strict(write(tmp_path, "include: _base.yaml\ntask: a\n"))
    assert [w.partition(": ")[0] for w in inherits.warnings] == [f"{tmp_path}/_base.yaml:11"]
    overrides = write(tmp_path, 'include: _base.yaml\ntask: a\ndescription: "a\\n"\n')
    assert read_strict(overrides).warnings == ()


@pytest.mark.parametrize(
    ("tcb", "position", "answer"),
    [
        ({"request": "next_token"}, "prompt_end", "choice"),
        ({"request": "generate_traced"}, "final_number", "final_number"),
        ({"request": "generate_traced", "position": "last"}, "last", "exact"),
        ({"request": "generate"}, None, "exact"),
        ({"request": "generate", "answer": "final_number"}, None, "final_number"),
    ],
)
def test_defaults_follow_the_request(tcb, position, answer):
    spec = tcb_spec({"tcb": tcb}, "here")
    assert (spec.position, spec.answer) == (position, answer)
    assert (spec.epsilon, spec.draw, spec.doc_id, spec.shots) == (1.0, None, None, None)
    assert (spec.sampling_defaults, spec.sample, spec.local) == ("neutral", "sample", None)


def test_local_layout_is_filled_in_and_errors_begin_with_where():
    tcb = {"request": "generate", "local": {"files": "a/{split}.jsonl"}, "doc_id": "{row:05d}"}
    spec = tcb_spec({"tcb": tcb}, "here")
    assert spec.local == {
        "files": "a/{split}.jsonl",
        "splits": {},
        "columns": None,
        "adapt": "none",
    }
    with pytest.raises(UsageError, match="^here: tcb.request is missing; expected next_token"):
        tcb_spec({"tcb": {}}, "here")


def test_sweep_axes_keep_the_order_of_the_yaml():
    axes = sweep_axes({"sweep": {"top_k": [0, 5], "temperature": [0.0, 1]}}, "here")
    assert list(axes.items()) == [("top_k", (0, 5)), ("temperature", (0.0, 1))]
    assert sweep_axes({}, "here") == {}


def test_known_keys_are_lm_evals_own():
    from lm_eval.config.group import GroupConfig
    from lm_eval.config.task import TaskConfig

    assert set(TASK_CONFIG) == {f.name for f in dataclasses.fields(TaskConfig)}
    assert set(GROUP_KEYS) == {f.name for f in dataclasses.fields(GroupConfig)} | {"tag"}


def test_reading_task_files_imports_nothing_heavy():
    code = "import sys, tcb_bench.task_files as t; t.catalogue(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"torch", "lm_eval", "datasets", "numpy"} & set(loaded.stdout.split())


CATALOGUE = catalogue()
SHIPPED = sorted(p for p in TASKS_DIR.glob("**/*.yaml"))
OURS = [entry for entry in CATALOGUE.values() if entry.kind == "task"]


def by_name(value):
    return value.name if hasattr(value, "name") else None


@pytest.mark.parametrize("path", SHIPPED, ids=by_name)
def test_every_shipped_yaml_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 45


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=by_name)
def test_every_shipped_yaml_reads_as_lm_eval_reads_it(entry):
    from lm_eval.tasks._yaml_loader import load_yaml

    ours, theirs = read_strict(entry.path), load_yaml(entry.path, resolve_func=False)
    assert ours.warnings == ()
    if entry.kind == "task":
        assert theirs.pop("class").endswith("/" + ours.config.pop("class"))
        assert theirs.pop("tcb").items() <= {**ours.config.pop("tcb")}.items()
    assert ours.config == theirs
    assert entry.path.stem == entry.name


@pytest.mark.parametrize("entry", OURS, ids=by_name)
def test_every_shipped_task_states_its_version_licence_data_and_use(entry):
    config = read_strict(entry.path).config
    assert config["metadata"]["license"] == "MIT"
    assert (entry.version, bool(entry.description)) == (1, True)
    assert re.fullmatch(r"[0-9a-f]{40}", config["dataset_revision"])
    assert tcb_spec(config, "here").local is not None


def test_nothing_that_ships_is_hidden_in_lm_evals_index():
    from lm_eval.tasks._index import TaskIndex

    index = TaskIndex.build([TASKS_DIR])
    assert {name: entry.yaml_path for name, entry in index.items()} == {
        name: entry.path for name, entry in CATALOGUE.items()
    }


def test_mmlu_has_the_57_subjects_of_lm_evals_own_mmlu():
    import lm_eval

    stock = Path(lm_eval.__file__).parent / "tasks" / "mmlu" / "default"
    subjects = [path.stem.removeprefix("mmlu_") for path in sorted(stock.glob("mmlu_*.yaml"))]
    assert list(CATALOGUE["mmlu_tcb"].members) == [f"mmlu_tcb_{subject}" for subject in subjects]
    assert len(subjects) == 57
    for subject in subjects:
        config = read_strict(CATALOGUE[f"mmlu_tcb_{subject}"].path).config
        assert config["dataset_name"] == subject
        assert config["description"].endswith(f" about {subject.replace('_', ' ')}.\n\n")


def test_reasoning_draws_20_of_five_subjects_with_the_same_prompt():
    names = CATALOGUE["mmlu_tcb_reasoning"].members
    assert len(names) == 5
    for name in names:
        config = read_strict(CATALOGUE[name].path).config
        plain = read_strict(CATALOGUE[name.replace("reasoning_", "")].path).config
        assert config["tcb"] == plain["tcb"] | {"draw": 20}
        assert config | {"tcb": 0, "task": 0} == plain | {"tcb": 0, "task": 0}


def rendered(config, docs, shots, doc):
    """The prompt as lm-eval's ConfigurableTask builds it, from rows in memory."""
    import datasets
    from lm_eval.api.task import ConfigurableTask

    drop = ("class", "tcb", "dataset_revision", "training_split", "generation_kwargs")
    kept = {k: v for k, v in config.items() if k not in drop}
    data = {config["test_split"]: datasets.Dataset.from_list(docs)}
    few = kept.get("fewshot_config") or {}
    if config.get("fewshot_split"):
        data[config["fewshot_split"]] = datasets.Dataset.from_list(shots)
    else:
        kept["fewshot_config"] = {**few, "samples": shots}
    task = ConfigurableTask(config=kept | {"custom_dataset": lambda **_: data, "metadata": {}})
    prefix = task.doc_to_prefix(doc) if hasattr(task, "doc_to_prefix") else None
    return task.fewshot_context(doc, len(shots), gen_prefix=prefix)


MMLU_ROW = {"question": " What is 2? ", "choices": ["1", "two ", "3", "4"], "answer": 1}
MMLU_SHOT = {"question": "One?", "choices": ["I", "II", "III", "IV"], "answer": 0}
MMLU_TEXT = (
    "The following are multiple choice questions (with answers) about us foreign policy.\n\n"
)
MMLU_QUESTION = "What is 2?\nA. 1\nB. two \nC. 3\nD. 4\nAnswer:"


@pytest.mark.parametrize("n_shots", [0, 2])
def test_mmlu_prompt_is_that_of_lm_evals_own_mmlu(n_shots):
    import lm_eval
    from lm_eval.tasks._yaml_loader import load_yaml

    stock = Path(lm_eval.__file__).parent / "tasks/mmlu/default/mmlu_us_foreign_policy.yaml"
    ours = read_strict(CATALOGUE["mmlu_tcb_us_foreign_policy"].path).config
    shots = [MMLU_SHOT] * n_shots
    prompts = [rendered(config, [MMLU_ROW], shots, MMLU_ROW) for config in (ours, load_yaml(stock))]
    shot = "One?\nA. I\nB. II\nC. III\nD. IV\nAnswer: A\n\n"
    assert prompts[0] == MMLU_TEXT + shot * n_shots + MMLU_QUESTION
    assert prompts[0] == prompts[1]


def test_gsm8k_prompt_asks_for_the_box_after_its_worked_examples():
    doc = {"question": "How many?", "answer": "1 + 1 = 2\n#### 2"}
    shots = [{"question": "And these?", "target": "It is 3. The final answer is \\boxed{3}."}]
    config = read_strict(CATALOGUE["gsm8k_tcb"].path).config
    assert rendered(config, [doc], shots, doc) == (
        "Solve the problem step by step. End with: The final answer is \\boxed{X}.\n\n"
        "Question: And these?\nAnswer: Let's think step by step. It is 3. "
        "The final answer is \\boxed{3}.\n\n"
        "Question: How many?\nAnswer: Let's think step by step."
    )


def test_a_users_tasks_stand_beside_ours_and_bases_and_plans_are_no_tasks(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", TRACED)
    write(tmp_path, "task: stock\ndoc_to_text: x\n", "stock.yaml")
    write(tmp_path, "group: both\ntask: [stock, mine, gsm8k_tcb]\n", "both.yaml")
    write(tmp_path, "nothing: here\n", "_base.yaml")
    write(tmp_path, "models: []\n", "paper.plan.yaml")
    found = catalogue([tmp_path, tmp_path, TASKS_DIR])
    assert set(found) - set(CATALOGUE) == {"mine", "stock", "both"}
    assert [found[name].kind for name in ("mine", "stock", "both")] == ["task", "plain", "group"]
    assert (found["mine"].request, found["stock"].request) == ("generate_traced", None)
    assert found["both"].members == ("stock", "mine", "gsm8k_tcb")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "task: gsm8k_tcb\n"}, "a.yaml:1: 'gsm8k_tcb' is defined in .*gsm8k_tcb.yaml:2 already"),
        ({"a": "task: x\n", "b": "\ntask: x\n"}, "b.yaml:2: 'x' is defined in .*a.yaml:1 already"),
        ({"a": "group: g\ntask:\n- gsm8k_tc\n"}, "a.yaml:2: group 'g' .* 'gsm8k_tc'; did you mean 'gsm8k_tcb'"),
        ({"a": "group: g\ntask: [g]\n"}, "a.yaml:2: group 'g' contains itself"),
        ({"a": "group: g\ntask: [h]\n", "b": "group: h\ntask: g\n"}, "a.yaml:2: group 'g' contains it"),
        ({"a": "task: x\ntask: y\n"}, "a.yaml:2: key 'task' is given twice"),
    ],
)  # fmt: skip
def test_the_catalogue_refuses(tmp_path, files, message):
    for name, text in files.items():
        write(tmp_path, text, f"{name}.yaml")
    with pytest.raises(UsageError, match=message):
        catalogue([tmp_path])


def test_an_include_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="include path .*/nowhere: no such folder; expected"):
        catalogue([tmp_path / "nowhere"])


def test_names_expand_in_order_and_each_once():
    five = list(CATALOGUE["mmlu_tcb_reasoning"].members)
    names = ["gsm8k_tcb", "mmlu_tcb_reasoning", five[0], "gsm8k_tcb*"]
    assert expand(names, CATALOGUE) == ["gsm8k_tcb", *five, "gsm8k_tcb_zeroshot"]
    assert len(expand(["mmlu_tcb"], CATALOGUE)) == 57
    assert len(expand(["mmlu_tcb_*"], CATALOGUE)) == 62
    assert len(expand(["*"], CATALOGUE)) == len(OURS)


@pytest.mark.parametrize("name", ["gms8k_tcb", "gsm9k*", ""])
def test_unknown_names_point_to_the_nearest_and_to_the_list(name):
    with pytest.raises(UnknownName) as caught:
        expand([name], CATALOGUE)
    assert f"`tcb-bench ls tasks` shows all {len(CATALOGUE)}" in str(caught.value)
    assert name != "gms8k_tcb" or "did you mean 'gsm8k_tcb'" in str(caught.value)
