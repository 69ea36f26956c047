"""The catalogue of tasks, and that everything that ships is sound and as lm-eval reads it."""

import re
from pathlib import Path

import pytest
from task_texts import TRACED, write

from tcb_bench.errors import UnknownName, UsageError
from tcb_bench.task_files import catalogue, expand, read_strict, tasks_folder, tcb_spec

CATALOGUE = catalogue()
SHIPPED = sorted(tasks_folder().glob("**/*.yaml"))
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
        assert theirs.pop("tcb").items() <= ours.config.pop("tcb").items()
    assert ours.config == theirs
    assert entry.path.stem == entry.name


@pytest.mark.parametrize("entry", OURS, ids=by_name)
def test_every_shipped_task_states_its_version_licence_data_and_use(entry):
    config = read_strict(entry.path).config
    assert config["metadata"]["license"] in ("MIT", "CC-BY-SA-4.0")
    assert (entry.version, bool(entry.description)) == (1, True)
    assert re.fullmatch(r"[0-9a-f]{40}", config["dataset_revision"])
    assert tcb_spec(config, "here").local is not None


def test_nothing_that_ships_is_hidden_in_lm_evals_index():
    from lm_eval.tasks._index import TaskIndex

    index = TaskIndex.build([tasks_folder()])
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
    return task.fewshot_context(doc, len(shots), gen_prefix=task.doc_to_prefix(doc))


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
    found = catalogue([tmp_path, tmp_path, tasks_folder()])
    assert set(found) - set(CATALOGUE) == {"mine", "stock", "both"}
    assert [found[name].kind for name in ("mine", "stock", "both")] == ["task", "plain", "group"]
    assert (found["mine"].request, found["stock"].request) == ("generate_traced", None)
    assert found["both"].members == ("stock", "mine", "gsm8k_tcb")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"a": "task: gsm8k_tcb"},
            "a.yaml:1: 'gsm8k_tcb' is defined in .*gsm8k_tcb.yaml:2 already",
        ),
        ({"a": "task: x", "b": "\ntask: x"}, "b.yaml:2: 'x' is defined in .*a.yaml:1 already"),
        ({"a": "group: g\ntask: gsm8k_tc"}, "a.yaml:2: .* 'gsm8k_tc'; did you mean 'gsm8k_tcb'"),
        ({"a": "group: g\ntask: [g]"}, "a.yaml:2: group 'g' contains itself"),
        ({"a": "group: g\ntask: h", "b": "group: h\ntask: g"}, "a.yaml:2: group 'g' contains it"),
        ({"a": "task: x\ntask: y"}, "a.yaml:2: key 'task' is given twice"),
    ],
    ids=["our name", "one name twice", "a missing member", "itself", "a ring", "a bad file"],
)
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


def test_hidden_folders_such_as_a_venv_are_not_searched(tmp_path):
    hidden = tmp_path / ".venv" / "lib"
    hidden.mkdir(parents=True)
    (hidden / "broken.yaml").write_text("task: [")
    assert catalogue([tmp_path]).keys() == catalogue().keys()
