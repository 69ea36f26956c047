"""Local models, plans and the table. Oracle: real runs of the demo and a toy model; sums by hand."""

import json
import re

import pytest
import transformers
from chat_runs import write_tasks
from run_tools import QUESTIONS, STOCK
from toy_models import byte_tokenizer, toy

from tcb_bench.__main__ import main
from tcb_bench.config import RunConfig, TaskOptions
from tcb_bench.dry_run import DryRun
from tcb_bench.dry_run_counts import ModelCount, TaskCount, study_minutes
from tcb_bench.durable import DurableLM
from tcb_bench.load_tasks import load_tasks
from tcb_bench.models.dry_run_local import reader_of
from tcb_bench.models.resolve import load, resolve
from tcb_bench.run import claim, evaluate, set_model_sampling
from tcb_bench.store import Store

SHORT = {"max_gen_toks": 4}
PLAN = """\
tasks: [rivers, letters]
output_path: {output}
run: {{include_path: {tasks}, limit: 2}}
models:
- {{model: openai/gpt-4o}}
- {{model: deepseek/deepseek-chat}}
- {{model: hf/{toy}, run: {{limit: 1}}}}
"""
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
)


@pytest.fixture(scope="module")
def toy_folder(tmp_path_factory):
    """A tiny random model of bytes, with a chat template."""
    folder = tmp_path_factory.mktemp("models") / "toy"
    toy("Llama", max_position_embeddings=128).save_pretrained(folder)
    tokenizer = byte_tokenizer(adds_bos=True)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def toy_model(toy_folder):
    return load(resolve(f"hf/{toy_folder}", device="cpu"))


def config_of(folder, model, tasks="rivers,letters", **more):
    options = TaskOptions(gen_kwargs=SHORT, bert_score_model="none", **more.pop("options", {}))
    return RunConfig(
        model=str(model) if model == "demo" else f"hf/{model}",
        tasks=tuple(tasks.split(",")),
        options=options,
        include_path=(write_tasks(folder / "tasks"),),
        output_path=folder / "runs",
        **more,
    )


def answer(config, lm):
    """What ``run`` does, on a model that is loaded already; the responses of its store."""
    loaded = load_tasks(config.tasks, config.options, config.include_path)
    set_model_sampling(loaded, {"sampling": lm.model_sampling})
    with Store(config.output_path / resolve(config.model).folder) as store:
        claim(store, lm.identity)
        manifest = store.begin(config.settings())
        durable = DurableLM(lm, store, manifest, config.options.seed)
        evaluate(durable, loaded, config)
        keys = set(store.keys(manifest).values())
        return [store.get(key) for key in keys if store.reused_from(key) is None]


def check(config, lm):
    """The count before a real run against its responses, and the count afterwards."""
    found = DryRun().count(config)
    assert not config.output_path.exists()
    responses = answer(config, lm)
    assert len(responses) == found.total().requests
    assert found.total().prompt_tokens == sum(r.prompt_tokens for r in responses)
    again = DryRun().count(config)
    assert again.total().requests == 0
    assert again.total().stored == found.total().responses
    texts = [len(r.tokens) for r in responses if hasattr(r, "tokens")]
    assert again.tasks[0].mean == pytest.approx(sum(texts) / len(texts))
    return found


def test_tokens_of_the_demo_are_those_of_its_responses(tmp_path, hf_demo):
    rivers, letters = check(config_of(tmp_path, "demo"), hf_demo).tasks
    assert (rivers.responses, rivers.same, rivers.requests) == (27, 6, 21)  # T = 0 once
    assert (letters.responses, letters.requests) == (4, 4)


def test_prompts_are_made_with_the_models_chat_template(tmp_path, toy_folder, toy_model):
    plain = DryRun().count(config_of(tmp_path, toy_folder, "rivers"))
    chat = check(config_of(tmp_path, toy_folder, "rivers", apply_chat_template=True), toy_model)
    assert chat.total().prompt_tokens == plain.total().prompt_tokens + 21 * len("<user>")


def test_what_was_made_with_other_arguments_is_not_counted(tmp_path, toy_folder, toy_model):
    config = config_of(tmp_path, toy_folder, "letters")
    answer(config, toy_model)

    def count(**more):
        return DryRun().count(config_of(tmp_path, toy_folder, "letters", **more))

    assert count().total().stored == count(batch_size="2", device="cpu").total().stored == 4
    other = count(model_args="add_bos_token=False")
    assert other.total().stored == 0
    assert "other model arguments" in other.notes[0]


def test_without_weights_the_models_own_sampling_is_known(hf_demo, toy_folder, toy_model):
    for name, lm in (("demo", hf_demo), (f"hf/{toy_folder}", toy_model)):
        reader = reader_of(resolve(name))
        assert reader.model_sampling == lm.model_sampling
        assert reader.max_length == lm.max_length


def test_no_weights_are_loaded(tmp_path, toy_folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("weights")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", refuse)
    assert DryRun().count(config_of(tmp_path, toy_folder, "letters")).total().requests == 4


def test_a_prompt_beyond_the_context_is_no_request(tmp_path, toy_folder):
    config = config_of(tmp_path, toy_folder, "letters", model_args="max_length=3")
    found = DryRun().count(config)
    assert (found.total().too_long, found.total().requests) == (4, 0)


def test_log_likelihoods_of_lm_evals_own_tasks_are_counted(tmp_path, toy_folder):
    tasks = write_tasks(tmp_path / "tasks")
    rows = "".join(json.dumps(row) + "\n" for row in QUESTIONS)
    (tasks / "phrases.jsonl").write_text(rows)
    (tasks / "stock.yaml").write_text(STOCK.replace("DATA", str(tasks / "phrases.jsonl")))
    found = DryRun().count(config_of(tmp_path, toy_folder, "stock_choice"))
    texts = [f"{row['q']} {choice}" for row in QUESTIONS for choice in ("Paris", "4", "cold")]
    by_hand = sum(1 + len(text.encode()) for text in texts)  # its BOS, and a token a byte
    assert (found.total().requests, found.total().prompt_tokens) == (9, by_hand)
    assert found.total().worst == 0


def test_a_tokenizer_that_cannot_be_had_leaves_the_count(tmp_path, capsys):
    tasks = write_tasks(tmp_path / "tasks")
    words = ["run", "--model", "hf/none/such", "--tasks", "rivers", "--include_path", str(tasks)]
    assert main([*words, "--dry-run", "--output_path", str(tmp_path / "runs")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "27 ? ? ? ?" in shown
    assert "tokens not known: hf/none/such cannot be loaded" in shown


def test_a_folder_that_is_not_there_is_an_error_as_in_a_run(capsys):
    assert main(["run", "--model", "hf/./none", "--tasks", "gsm8k_tcb_zeroshot"] + SAMPLE) == 1
    assert "there is no folder" in capsys.readouterr().err


SAMPLE = ["--data", "sample", "--limit", "1", "--dry-run"]


def test_a_plan_of_three_models_is_one_table_of_80_columns(
    tmp_path, toy_folder, capsys, monkeypatch
):
    for key in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    plan = tmp_path / "s.plan.yaml"
    tasks = write_tasks(tmp_path / "tasks")
    plan.write_text(PLAN.format(output=tmp_path / "runs", tasks=tasks, toy=toy_folder))
    assert main(["run", "--plan", str(plan), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    # rivers: 2 questions x 3 temperatures x 3 runs; at T > 0 three are one request of gpt-4o
    first = "18 {} {} {} {}"
    assert re.search(first.format("10", r"\d+", r"1,080", r"[\d.]+"), squeezed(shown))
    assert re.search(first.format("18", r"\d+", r"1,080", r"[\d.]+"), squeezed(shown))
    assert re.search(first.format("7", r"\d+", r"420", "-").replace("18", "9"), squeezed(shown))
    assert re.search(r"all models 50 40 [\d,]+ 2,585 [\d.]+ 12 conditions", squeezed(shown))
    assert "the temperature is changed by the provider" in squeezed(shown)
    assert not (tmp_path / "runs").exists()


def squeezed(text):
    return " ".join(text.split())


def row(requests, tokens=1000):
    made = TaskCount("t", responses=requests)
    for _ in range(requests):
        made.add(tokens, choices=1, most=10, assumed=5)
    return made


def test_models_of_one_resource_take_their_times_together():
    slow, fast, other = (ModelCount(n, [row(60)], is_api=True, resource=n[0]) for n in "aab")
    slow.rate, fast.rate, other.rate = 60, 120, 30
    assert study_minutes([slow, fast]) == pytest.approx(1 + 0.5)
    assert study_minutes([slow, fast, other]) == pytest.approx(2)
    assert study_minutes([ModelCount("demo", [row(3)])]) is None
