"""Task files read strictly: every refusal names the file, the line and the way out."""

import dataclasses
import re
import subprocess
import sys

import pytest
from task_texts import BASE, HUB, TRACED, refusal, write

from tcb_bench.task_yaml import GROUP_KEYS, TASK_CONFIG, read_strict

FILES = {
    "task: a\nb: [1\nc: 2\n": "3: did not find expected ',' or ']' while parsing a flow sequence",
    "task: a\ndescription: a: b\n": "2: mapping values are not allowed in this context; expected",
    "task: a\nmetadata:\n\tversion: 1\n": "3: found character that cannot start any token",
    "task: a\nb: !!python/name:os.system x\n": "2: could not determine a constructor",
    "task: a\nb: !other x\n": "2: could not determine a constructor for the tag '!other'",
    "task: a\n---\ntask: b\n": "2: but found another document expected a single document",
    "task: a\nb: \x01\n": "2: control characters are not allowed; expected plain text",
    "task: a\nb: 2024-13-45\n": "2: '2024-13-45': month must be in 1..12; expected",
    "task: a\n? [b]\n: c\n": "2: found unhashable key",
    "task: a\nx: 1\ntask: b\n": "3: key 'task' is given twice (first in line 1); expected once",
    "task: a\nm:\n  - {v: 1,\n     v: 2}\n": "4: key 'v' is given twice (first in line 3)",
    b"task: a\nb: caf\xe9\n": "2: byte 0xe9 is not UTF-8; save the file as UTF-8",
    "task: a".encode("utf-16"): "1: byte 0xff is not UTF-8",
    "- task: a\n": "1: the file holds a sequence; expected `key: value` lines",
    "": "1: the file holds nothing; expected",
    "doc_to_text: x\n": "1: neither `task` nor `group`; expected one (files that",
    "a: b\ntasks: a\n": "2: neither `task` nor `group`, but 'tasks'; expected one",
    "class: a.B\ntask: a\n": "1: class is a text; expected `class: !function module.Class`",
    "task: a\ntcb: {}\n": "2: tcb in a task without our class; expected `class: !function tcb",
    "task: a\nsweep: {}\n": "2: sweep in a task without our class",
    "task: [a]\n": "1: task is ['a']; expected a text",
    "task: a\ninclude: base.yaml\n": "2: include 'base.yaml' is not there; expected a file",
    "task: a\ninclude: mine.yaml\n": "2: include 'mine.yaml' was read already; each file once",
    "task: a\ninclude: 3\n": "2: include is 3; expected a file name or a list of them",
    "group: a\ntask: []\n": "2: task is []; expected the names of the members",
    "group: a\n": "1: task is None; expected the names of the members",
    "group: a, b\ntask: c\n": "1: group is 'a, b'; expected a text of at most 120 letters",
    "group: a\ntask: [{task: b}]\n": "2: a member is {'task': 'b'}; expected a name",
    "group: a\ntask: b\ngroup_alia: x\n": "3: unknown key 'group_alia' in a group; did you mean",
    "group: a\ntask: b\nnum_fewshot: 1\n": "3: unknown key 'num_fewshot' in a group; a task's",
    BASE: "1: there is no tcb mapping; expected `tcb:`",
    BASE + "tcb: x\n": "10: tcb is 'x'; expected `tcb:` with keys below it",
    TRACED.replace("mine", "a,b"): "2: task is 'a,b'; expected a text of at most 120 letters",
    TRACED.replace("task: mine", "group: a"): "1: task is None; expected a text",
    TRACED.replace("data_files", "x"): "3: dataset_path is 'json'; expected `dataset_kwargs: {da",
    TRACED.replace("version", "licence"): "9: there is no metadata.version; expected",
    TRACED.replace("metadata: {version: 1}", ""): "1: there is no metadata.version; expected",
    HUB: "3: dataset_revision is missing for 'some/data'; expected the commit's 40 hex digits",
}

ADDED = {
    "doc_to_txt: x": "unknown key 'doc_to_txt'; did you mean 'doc_to_text'?",
    "dataset_revison: x": "unknown key 'dataset_revison'; did you mean 'dataset_revision'?",
    "qqq: x": "unknown key 'qqq'; expected a field of lm-eval's TaskConfig or of ours",
    "1: x": "unknown key 1; expected",
    "repeats: 0": "repeats is 0; expected a whole number >= 1",
    "repeats: yes": "repeats is True; expected a whole number >= 1",
    "perturbation: ner": "unknown key 'perturbation'; expected a field of lm-eval",
    "sweep: 1": "sweep is 1; expected `sweep:` with keys below it",
    "sweep: {temprature: [0]}": "no key 'temprature' in sweep; did you mean 'temperature'?",
    "sweep: {context: [a]}": "no key 'context' in sweep; the axes are temperature, top_p, top_k, m",
    "sweep: {temperature: []}": "sweep.temperature is []; expected a list of numbers from 0 to 2",
    "sweep: {temperature: 1}": "sweep.temperature is 1; expected a list of numbers from 0 to 2",
    "sweep: {temperature: [0, 3]}": "sweep.temperature is [0, 3]; expected a list of numbers",
    "sweep: {temperature: [a]}": "sweep.temperature is ['a']; expected a list of numbers",
    "sweep: {temperature: [.nan]}": "sweep.temperature is [nan]; expected a list of numbers",
    "sweep: {top_p: [0]}": "sweep.top_p is [0]; expected a list of numbers above 0, up to 1",
    "sweep: {top_p: [1, 1.0]}": "sweep.top_p is [1, 1.0]; expected each value once",
    "sweep: {top_k: [yes]}": "sweep.top_k is [True]; expected a list of whole numbers >= 0",
    "sweep: {max_gen_toks: [0]}": "sweep.max_gen_toks is [0]; expected a list of whole numbers >= 1",
}


@pytest.mark.parametrize(("text", "message"), FILES.items(), ids=FILES.values())
def test_a_bad_file_is_refused_with_the_line(tmp_path, text, message):
    assert refusal(write(tmp_path, text)).startswith(f"mine.yaml:{message}")


@pytest.mark.parametrize(("line", "message"), ADDED.items(), ids=ADDED)
def test_a_bad_line_in_a_task_is_refused(tmp_path, line, message):
    assert refusal(write(tmp_path, f"{TRACED}{line}\n")).startswith(f"mine.yaml:11: {message}")


@pytest.mark.parametrize("revision", ["main", "0" * 39, "1" * 40, '"' + "G" * 40 + '"', "null"])
def test_a_revision_that_is_no_commit_is_refused(tmp_path, revision):
    message = refusal(write(tmp_path, f"{HUB}dataset_revision: {revision}\n"))
    assert re.match(r"mine.yaml:10: dataset_revision is .*; expected the commit's 40 hex", message)


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
