"""Forged entries, each found out by what it gets wrong.

Oracle: the honest entry, which passes; every forgery is made with our own tools, so that whatever
is not the forged thing itself agrees (`board_forge.forged`).
"""

import random
from pathlib import Path

import pytest
from board_entries import make_entry
from board_forge import forged, read, write

from tcb_bench.known_tasks import known_tasks
from tcb_bench.leaderboards import checks

MMLU, GSM8K, HOTPOT = "mmlu_tcb", "gsm8k_tcb", "hotpotqa_tempperturb"
SIZES = {MMLU: 25, GSM8K: 20, HOTPOT: 12}


@pytest.fixture(scope="module")
def known():
    return known_tasks()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest")
    return {
        task: make_entry(folder, "org/honest", task, n, n_temperatures=2)
        for task, n in SIZES.items()
    }


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return make_entry(tmp_path_factory.mktemp("other"), "org/other", MMLU, SIZES[MMLU])


def texts(paths, known):
    paths = [paths] if isinstance(paths, Path) else paths
    return [problem.text for problem in checks.problems(paths, known_tasks=known)]


def assert_found(found, *words):
    assert any(all(word in text for word in words) for text in found), found


@pytest.mark.parametrize("task", SIZES)
def test_an_honest_entry_passes(task, honest, known):
    assert texts(honest[task], known) == []


def test_honest_entries_of_several_models_pass_beside_each_other(honest, other, known):
    assert texts([*honest.values(), other], known) == []


def test_a_copy_by_the_forgers_tools_passes_unless_something_is_changed(honest, known, tmp_path):
    path = forged(honest[MMLU], tmp_path, samples=lambda rows: rows)
    assert texts(path, known) == []


def metric(entry, name):
    return next(m for m in entry["metrics"] if m["name"] == name)


def raise_acc(entry):
    metric(entry, "acc")["value"] += 0.1


def raise_acc_and_interval(entry):
    for found in (entry, entry["conditions"][0]):
        for part in ("value", "ci_low", "ci_high"):
            for key in ("metrics", "metrics_completed"):
                found[key][0][part] += 1e-6


def test_a_changed_mean(honest, known, tmp_path):
    found = texts(forged(honest[MMLU], tmp_path, entry=raise_acc), known)
    assert_found(found, "metrics.acc: value is", "the samples give")
    assert len(found) == 1


def test_a_changed_mean_with_its_interval_everywhere(honest, known, tmp_path):
    found = texts(forged(honest[MMLU], tmp_path, entry=raise_acc_and_interval), known)
    for part in ("value", "ci_low", "ci_high"):
        assert_found(found, f".acc: {part} is", "the samples give")


@pytest.mark.parametrize("part", ["n", "stderr", "unit", "higher_is_better"])
def test_any_other_part_of_a_metric(part, honest, known, tmp_path):
    changed = {"n": 10**6, "stderr": 1e-4, "unit": "percent", "higher_is_better": False}
    path = forged(
        honest[GSM8K], tmp_path, entry=lambda e: metric(e, "acc").update({part: changed[part]})
    )
    assert_found(texts(path, known), f"metrics.acc: {part} is")


def test_a_metric_missing_or_made_up(honest, known, tmp_path):
    def rename(entry):
        metric(entry, "acc")["name"] = "accuracy"

    found = texts(forged(honest[GSM8K], tmp_path, entry=rename), known)
    assert_found(found, "metrics: acc missing")
    assert_found(found, "metrics: accuracy not given")


def without_hard(samples):
    return [sample for sample in samples if sample["rows"][0]["acc"] == 1.0]


def test_dropped_hard_questions_with_all_else_consistent(honest, known, tmp_path):
    found = texts(forged(honest[GSM8K], tmp_path, samples=without_hard), known)
    assert_found(found, "documents are not the draw of limit 20 and seed 0", "missing")


def test_dropped_hard_questions_with_the_limit_lowered_too(honest, known, tmp_path):
    def drop(samples):
        kept = without_hard(samples)
        lowered.append(len(kept))
        return kept

    lowered: list[int] = []

    def fit(entry):
        entry["limit"] = lowered[0]
        entry["signature_parts"]["limit"] = f"{lowered[0]:g}"

    found = texts(forged(honest[GSM8K], tmp_path, samples=drop, entry=fit), known)
    assert_found(found, "documents are not the draw", "not drawn")


def test_easy_questions_in_place_of_hard_ones(honest, known, tmp_path):
    def swap(samples):
        easy = without_hard(samples)
        for i, sample in enumerate(s for s in samples if s["rows"][0]["acc"] == 0.0):
            numbers = easy[i % len(easy)]["rows"][0]
            sample["doc_id"] = f"test/{1300 + i}"
            sample["rows"] = [numbers | {"prompt_tokens": 701 + i}]
        return samples

    found = texts(forged(honest[GSM8K], tmp_path, samples=swap), known)
    assert_found(found, "documents are not the draw", "not drawn")


def test_chosen_questions_where_ids_are_no_row_numbers(honest, known, tmp_path):
    def other_ids(samples):
        names = {}
        for sample in samples:
            number = names.setdefault(sample["doc_id"], f"{len(names):024x}")
            sample["doc_id"] = number
        return samples

    def list_them(entry):
        entry["data"]["ids"] = [f"{i:024x}" for i in range(len(entry["data"]["ids"]))]

    found = texts(forged(honest[HOTPOT], tmp_path, samples=other_ids, entry=list_them), known)
    assert_found(found, "its documents are not the seeded draw")


def test_a_question_twice(honest, known, tmp_path):
    def double(samples):
        return samples + without_hard(samples)[:3]

    found = texts(forged(honest[GSM8K], tmp_path, samples=double), known)
    assert_found(found, "this document has two samples in the condition")


def test_a_repeat_twice(honest, known, tmp_path):
    def double(samples):
        samples[0]["rows"] = [*samples[0]["rows"], samples[0]["rows"][0]]
        return samples

    found = texts(forged(honest[GSM8K], tmp_path, samples=double), known)
    assert_found(found, "repeats: expected 0, 1, 2")
    assert_found(found, "samples have 1, 2 repeats; gsm8k_tcb asks 1 times")


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_a_copy_under_another_name(noise, honest, known, tmp_path):
    rng = random.Random(0)

    def shuffle(samples):
        for sample in samples:
            values = sample["rows"][0]["stability"]
            for name in values:
                if not name.endswith("_token"):
                    values[name] *= 1 + noise
            sample["doc_id"] = "test/1" if sample["doc_id"] == "test/2" else sample["doc_id"]
        rng.shuffle(samples)
        return samples

    copy = forged(honest[GSM8K], tmp_path, samples=shuffle, model_id="org/mine")
    found = [p for p in checks.problems([honest[GSM8K], copy], known_tasks=known)]
    assert [(p.path, "of org/honest: a copy" in p.text) for p in found if "copy" in p.text] == [
        (honest[GSM8K], False),
        (copy, True),
    ]


def test_an_answer_counted_as_right_where_another_entry_says_it_is_wrong(
    honest, other, known, tmp_path
):
    """Two letters of one question cannot both be right; alone, a forged acc contradicts nothing."""

    def all_right(samples):
        for sample in samples:
            sample["rows"][0]["acc"] = 1.0
        return samples

    path = forged(honest[MMLU], tmp_path, samples=all_right, model_id="org/liar")
    assert texts(path, known) == []  # alone nothing contradicts it: MAINTAINERS.md says so
    found = checks.problems([path, other], known_tasks=known)
    assert_found([p.text for p in found if p.path == path], "acc:", "scored against other entries")


def test_a_wrong_dtype(honest, known, tmp_path):
    def claim(entry):
        entry["model"]["dtype"] = "bfloat16"

    found = texts(forged(honest[GSM8K], tmp_path, entry=claim), known)
    assert found == ["signature_parts.dtype is float32; the fields say bfloat16"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e["signature_parts"].update(shots="0"), ["shots is 0; the fields say 5"]),
        (lambda e: e["signature_parts"].pop("gen"), ["signature_parts: gen is missing"]),
        (lambda e: e.update(epsilon=2.0), ["epsilon is 2; gsm8k_tcb has 1"]),
        (lambda e: e.update(seed=1), ["signature_parts.seed"]),
        (lambda e: e["task"].update(version=7), ["task.version is 7; gsm8k_tcb has 1 here"]),
        (lambda e: e["task"].update(name="gsm8k_tbc"), ["did you mean 'gsm8k_tcb'"]),
        (lambda e: e["data"].update(revision="0" * 40), ["data.revision is", "740312add"]),
        (lambda e: e["data"].update(available=1000), ["openai/gsm8k has 1319 rows"]),
        (lambda e: e["data"].update(sha256="0" * 64), ["data.sha256 is", "of the samples give"]),
        (lambda e: e["counts"].update(scored=19, empty=1), ["counts.empty is 1"]),
        (lambda e: e["usage"].update(prompt_tokens=1), ["usage.prompt_tokens is 1; the samples"]),
        (lambda e: e["samples"].update(rows=19), ["more rows than samples.rows = 19"]),
        (lambda e: e.update(links=["http://a.example"]), ["no https address"]),
        (lambda e: e.update(links=["https://u:p@a.example"]), ["no https address"]),
        (lambda e: e.update(missing=["x"]), ["is_partial is false"]),
        (lambda e: e.update(date="2026-02-31"), ["date is 2026-02-31, which is no day"]),
    ],
)
def test_a_field_that_does_not_fit(change, words, honest, known, tmp_path):
    assert_found(texts(forged(honest[GSM8K], tmp_path, entry=change), known), *words)


def test_the_seed_is_seen_in_the_signature_and_decides_the_draw(known, tmp_path):
    """Seed shopping is not forbidden, but visible: another seed is another draw and signature."""
    one, two = (make_entry(tmp_path / str(seed), "org/m", GSM8K, 20, seed) for seed in (0, 1))
    assert texts(one, known) == texts(two, known) == []
    claimed = forged(
        two,
        tmp_path / "forged",
        entry=lambda e: (e.update(seed=0), e["signature_parts"].update(seed="0")),
    )
    assert_found(texts(claimed, known), "documents are not the draw of limit 20 and seed 0")


def test_other_documents_under_the_same_ids(honest, known, tmp_path):
    def other_text(samples):
        samples[0]["doc_sha256"] = "f" * 64
        return samples

    path = forged(honest[GSM8K], tmp_path, samples=other_text, model_id="org/mine")
    found = checks.problems([path, honest[GSM8K]], known_tasks=known)
    assert_found([p.text for p in found if p.path == path], "mixed data: 1 documents")


def test_a_condition_that_asks_fewer_questions(honest, known, tmp_path):
    def drop(samples):
        last = samples[-1]["condition"]
        hard = next(s for s in samples if s["condition"] == last)
        return [s for s in samples if s is not hard]

    found = texts(forged(honest[HOTPOT], tmp_path, samples=drop), known)
    assert_found(found, "asks 5 questions, others of its kind 6")


def test_a_label_that_is_not_that_of_the_numbers(honest, known, tmp_path):
    path = forged(honest[GSM8K], tmp_path, samples=lambda rows: rows)
    entry, samples = read(path)
    label = samples[0]["rows"][0]["conflict"]
    label["accuracy"] = "accurate_but_unstable"
    label["confidence"] = "uncertain_but_stable"
    write(path, entry, samples)
    assert_found(texts(path, known), "conflict is accurate_but_unstable, uncertain_but_stable")
