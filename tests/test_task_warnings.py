"""Likely slips in a task file are warned of; what only looks like one is not."""

import pytest
from task_texts import BASE, TRACED, write

from tcb_bench.task_yaml import read_strict

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
